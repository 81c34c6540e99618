"""One thing printed at two prices in one sweep: which is right cannot be known, so neither is listed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from tracker.listing import Row
from tracker.rows import OfferRow, RateRow, identity, values

R = TypeVar("R", bound=OfferRow | RateRow)


def without_conflicts(rows: Iterable[R], rejected: Mapping[str, Row], source: str) -> tuple[list[R], dict[str, list[Row]]]:
    """Rows with one value per identity, and the rows of each identity that has several, a rejected one among them too."""
    found: dict[str, list[R]] = {}
    for row in rows:
        told = found.setdefault(identity(source, row), [])
        if all(values(other) != values(row) for other in told):
            told.append(row)
    single: list[R] = []
    several: dict[str, list[Row]] = {}
    for key, same in found.items():
        if len(same) == 1 and key not in rejected:
            single += same
        else:
            several[key] = [*same, *([rejected[key]] if key in rejected else [])]
    return single, several
