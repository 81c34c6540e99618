"""When a decision ended because a price it stood on grew old, by the sweeps of its source: also while nobody looked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, bindparam, select

from tracker.book.listing import GOOD, SWEEP
from tracker.config import Source, whole_s
from tracker.database.rows import to_s

RENT = (
    "source", "provider", "sku", "region", "tier", "currency", "native_per_hour", "offer_usd_per_hour", "gpu", "gpu_count",
    "machines", "weight_format", "usd_per_hour", "seen_at", "source_url",
)  # fmt: skip
RATE = (
    "api_source", "api_provider", "api_sku", "api_region", "api_currency", "api_prices", "api_usd_per_mtok", "api_usd_per_month",
    "api_seen_at", "api_source_url",
)  # fmt: skip
TOGETHER = ("break_even_status", "break_even_tokens", "break_even_utilization", "replicas", "self_host_usd_per_month", "verdict")
# when and where a price was seen, and prices of token kinds that leave the bill as it is, change no decision
SIDE = {"at", "sweep", "reason", "seen_at", "source_url", "api_seen_at", "api_source_url", "api_prices"}
PARTS = {"": RENT, "api_": RATE}  # prefix of the columns of the rent and of the rate

Row = Mapping[str, Any]


def lapsed(connection: Connection, sources: Mapping[str, Source], row: Row, at: int, new: Row | None = None) -> list[Row]:
    """Rows that follow from a decision by ``at`` (s) alone, ascending: it without its rent, its rate or both, from when they were old.

    ``new`` is what a look at ``at`` has found: what that still has is not old.
    """
    found: list[Row] = []
    for moment, part in sorted(_lapses(connection, sources, row, at, new)):
        row = _without(row, part) | {"at": max(moment, row["at"] + 1)}
        found.append(row)
    return found


def _lapses(connection: Connection, sources: Mapping[str, Source], row: Row, at: int, new: Row | None) -> Iterator[tuple[int, str]]:
    """Moment (s) and part of each price that passed its age limit."""
    for part in PARTS:
        source = sources.get(row[f"{part}source"] or "")
        if source is None:
            continue
        limit, seen = whole_s(source.settings.max_age_hours), to_s(row[f"{part}seen_at"])
        newest, before = _covered(connection, source.id, at)
        hole = before is not None and newest is not None and max(before, seen) + limit < newest
        reach = max((before if hole else newest) or seen, seen) + limit
        if reach >= row["at"] and (hole or (reach < at and not _has(new, row, part))):
            yield reach + 1, part  # at the limit itself it is still fresh


def _covered(connection: Connection, source: str, at: int) -> tuple[int | None, int | None]:
    """The last two moments at which the source was covered whole, newest first."""
    found = connection.execute(_last_two(), {"source": source, "until": at}).scalars().all()
    newest, before = (*found, None, None)[:2]
    return newest, before


@cache
def _last_two() -> Select[Any]:
    good = (SWEEP.c.source == bindparam("source"), SWEEP.c.at <= bindparam("until"), SWEEP.c.complete.is_(True), SWEEP.c.status.in_(GOOD))
    return select(SWEEP.c.at).where(*good).order_by(SWEEP.c.at.desc()).limit(2)


def _has(new: Row | None, row: Row, part: str) -> bool:
    return new is not None and all(row[name] == new[name] for name in PARTS[part] if name not in SIDE)


def _without(row: Row, part: str) -> dict[str, Any]:
    gone = f"the {'rate' if part else 'price'} of {row[f'{part}provider']} passed its age limit"
    return {**row, **dict.fromkeys((*PARTS[part], *TOGETHER)), "fresh": False, "reason": gone}
