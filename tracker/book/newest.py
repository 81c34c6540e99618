"""The newest sweep, and the moment to read the book at."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, func, select

from tracker.book.listing import SWEEP
from tracker.database.rows import from_s

SKEW = timedelta(minutes=5)  # how far the clocks of two machines may be apart and still be right
RECENT = 50  # sweeps looked at for the newest moment: about as many as are stored within the skew


def newest_sweep(connection: Connection) -> int:
    """Number of the sweep stored last; 0 before the first."""
    return connection.scalar(_newest()) or 0


@cache
def _newest() -> Select[Any]:
    return select(func.max(SWEEP.c.id))


def newest_at(connection: Connection) -> datetime | None:
    """The latest time of the last sweeps; None before the first."""
    found = connection.execute(_recent()).scalars().all()
    return from_s(max(found)) if found else None


@cache
def _recent() -> Select[Any]:
    return select(SWEEP.c.at).order_by(SWEEP.c.id.desc()).limit(RECENT)


def reading_moment(connection: Connection, now: datetime) -> datetime:
    """When to read the book: now, or the newest sweep where another machine's clock is a little ahead of ours."""
    newest = newest_at(connection)
    return newest if newest is not None and now < newest <= now + SKEW else now
