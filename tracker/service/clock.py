"""What a wrong clock does, and how it is mended: steps that are noticed while we run, and sweeps that lie in the future.

Times are UTC, so that summer time does not exist here; a leap second is smeared or repeated by the system's clock, a step too
small to matter. A clock that was behind when sweeps were stored does no harm: a sweep is never dated before the one before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count

from sqlalchemy import ColumnElement, Connection, Table, and_, bindparam, delete, or_, select, update

from engine.units import SECONDS_PER_HOUR
from tracker.book.listing import ACCEPTED, OFFER, OFFER_POINT, RATE, RATE_POINT, SWEEP
from tracker.book.newest import SKEW, newest_at
from tracker.database.column_types import Moment
from tracker.database.months import make_all
from tracker.database.postgres import serialize
from tracker.database.rows import from_s
from tracker.database.schema import TABLES

STEP_S = 5.0  # less is a clock being trimmed
# When a thing was learnt, seen or read: what is no moment of a sweep.
LEARNT = {
    "backdated": ("known_at",), "fx": ("known_at",), "kept_sweep": ("last_read",), "quarantine": ("first_seen", "last_seen", "decided_at"),
    "unmapped": ("first_seen", "last_seen"),
}  # fmt: skip


@dataclass(slots=True)
class Watch:
    """Compares the wall clock with one that only counts."""

    wall: Callable[[], datetime]
    monotonic: Callable[[], float]
    _seen: tuple[datetime, float] | None = field(default=None)

    def step(self) -> float:
        """Seconds the wall clock was moved since the last look: forward is positive, 0 when it just ran. A machine's sleep is a step."""
        wall, counted = self.wall(), self.monotonic()
        before, self._seen = self._seen, (wall, counted)
        if before is None:
            return 0.0
        moved = (wall - before[0]).total_seconds() - (counted - before[1])
        return moved if abs(moved) >= STEP_S else 0.0


def clock_fault(connection: Connection, now: datetime) -> str:
    """What is wrong with the clock, as far as the book shows; empty when nothing is."""
    newest = newest_at(connection)
    if newest is None or newest <= now + SKEW:
        return ""
    hours = (newest - now).total_seconds() / SECONDS_PER_HOUR
    return (
        f"clock: the newest sweep lies {hours:.1f} h in the future; this machine's clock is behind, or was ahead when that was stored: "
        "then stop the daemon and run breakeven db redate"
    )


def mend_future(connection: Connection, now: int, after_sweep: int) -> int:
    """Date sweeps that were stored after that one and lie beyond ``now`` (s) to just before it, in their order; returns how many.

    Their prices are right and only their times are not: left there, they would hide every price seen from now on. What was decided
    of them is forgotten, since the next recompute decides it at its own time.
    """
    decision = TABLES["decision"]
    connection.execute(delete(decision).where(decision.c.sweep > after_sweep, decision.c.at > now))
    since = SWEEP.c.id > after_sweep, SWEEP.c.at > now
    sources = connection.scalars(select(SWEEP.c.source).where(*since).distinct().order_by(SWEEP.c.source)).all()
    moved_all = 0
    for source in sources:
        serialize(connection, f"source {source}")
        sweeps = connection.scalars(select(SWEEP.c.at).where(*since, SWEEP.c.source == source)).all()
        moments = sorted({*sweeps, *_accepted(connection, source, now)})
        moved_all += len(sweeps)
        free = _free(connection, source, moments, now)
        moves = [{"moved_from": old, "moved_to": next(free)} for old in moments]
        make_all(connection, [move["moved_to"] for move in moves])
        for table, column, whose in _moments(source):
            moved = update(table).where(whose, table.c[column] == bindparam("moved_from")).values({column: bindparam("moved_to")})
            connection.execute(moved, moves)
    if moved_all:
        _no_later_than(connection, now)
    return moved_all


def _no_later_than(connection: Connection, now: int) -> None:
    """Nobody learnt or saw a thing later than now: it would be hidden until then, or outlive what is newer."""
    for name, columns in LEARNT.items():
        for column in (TABLES[name].c[column] for column in columns):
            latest = from_s(now) if isinstance(column.type, Moment) else now
            connection.execute(update(TABLES[name]).where(column > latest).values({column.name: latest}))


def _free(connection: Connection, source: str, moments: Sequence[int], now: int) -> Iterator[int]:
    """Moments after whatever of the source stays before ``now``, and none at which something of it is.

    They are as late as may be, and none is later than the one of ``moments`` it is for.
    """
    stays = set(connection.scalars(select(SWEEP.c.at).where(SWEEP.c.source == source)))
    stays = (stays | set(_accepted(connection, source, 0))) - set(moments)
    last = max((at for at in stays if at <= now), default=0)
    return (at for at in count(max(now - len(moments), last + 1)) if at not in stays)


def _accepted(connection: Connection, source: str, after: int) -> list[int]:
    """Moments after that one at which a person had a price of the source listed."""
    unseen = TABLES["unseen"]
    found: list[int] = []
    for kind, dimension in (("offer", OFFER), ("rate", RATE)):
        mine = select(dimension.c.id).where(dimension.c.source == source)
        listed = (unseen.c.kind == kind, unseen.c.target.in_(mine), unseen.c.why == ACCEPTED, unseen.c.since > after)
        found += connection.scalars(select(unseen.c.since).where(*listed)).all()
    return found


def _moments(source: str) -> Iterator[tuple[Table, str, ColumnElement[bool]]]:
    """Every column that holds the moment of a sweep, and which of its rows are of ``source``."""
    mine = {kind: select(dimension.c.id).where(dimension.c.source == source) for kind, dimension in (("offer", OFFER), ("rate", RATE))}
    statistic, fx, quarantine, licence = (TABLES[name] for name in ("statistic", "fx", "quarantine", "source_licence"))
    yield OFFER_POINT, "at", OFFER_POINT.c.offer_id.in_(mine["offer"])
    yield RATE_POINT, "at", RATE_POINT.c.rate_id.in_(mine["rate"])
    yield statistic, "at", statistic.c.offer_id.in_(mine["offer"])
    for table, columns in ((TABLES["unseen"], ("since", "until", "last_seen")), (TABLES["reworded"], ("until",))):
        whose = or_(*(and_(table.c.kind == kind, table.c.target.in_(ids)) for kind, ids in mine.items()))
        yield from ((table, column, whose) for column in columns)
    yield fx, "known_at", fx.c.origin == source
    yield quarantine, "last_at", quarantine.c.source == source
    yield licence, "since", licence.c.source == source
    yield SWEEP, "at", SWEEP.c.source == source
