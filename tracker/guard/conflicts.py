"""One thing printed at two prices in one sweep: which is right cannot be known, so neither is listed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tracker.book.listing import Row
from tracker.database.rows import Identified, R, identified, identities, values


def without_conflicts(rows: Sequence[R], rejected: Mapping[str, Row], source: str) -> tuple[Identified[R], dict[str, list[Row]]]:
    """Rows with one value per identity, and the rows of each identity that has several, a rejected one among them too."""
    found: dict[str, list[R]] = {}
    for key, row in zip(identities(source, rows), rows, strict=True):
        told = found.setdefault(key, [])
        if all(values(other) != values(row) for other in told):
            told.append(row)
    several: dict[str, list[Row]] = {}
    single: dict[str, R] = {}
    for key, same in found.items():
        if len(same) == 1 and key not in rejected:
            single[key] = same[0]
        else:
            several[key] = [*same, *([rejected[key]] if key in rejected else [])]
    return identified(source, single), several
