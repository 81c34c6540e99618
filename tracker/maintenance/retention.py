"""Takes away what is older than it is kept, so that no answer about the time that is kept changes.

Of every offer and rate the last point before the horizon stays: it is the price in force there. Of every source stay the
sweeps that vouch for that price there. Imported history was brought in on purpose and stays, and so do figures a day, decisions,
exchange rates and alerts. Days before the horizon are rolled up first; they cannot be worked out again.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, Table, and_, delete, exists, func, insert, or_, select, update

from tracker.book.asof import IMPORTED, REWORDED
from tracker.book.listing import GOOD, OFFER, OFFER_POINT, RATE, RATE_POINT, STATISTIC, SWEEP, UNSEEN
from tracker.config import Settings
from tracker.database.handle import reading, writing
from tracker.database.months import drop_empty
from tracker.database.postgres import serialize
from tracker.database.rows import to_s
from tracker.database.schema import TABLES
from tracker.rollup.run import PRUNED, roll_up
from tracker.world import World

STATE = TABLES["rollup_state"]
Part = tuple[Table, ColumnElement[bool]]  # rows of a table that go


def horizons(settings: Settings, now: datetime) -> tuple[int | None, int | None]:
    """From when on (s) points and sweeps are kept; None: for ever. Never later than the guard or a kept body looks back."""
    kept, guard = settings.retention, settings.guard
    least = max(guard.reference_days, guard.history_days, guard.flip_days, settings.bodies.days) + 1

    def horizon(days: int) -> int | None:
        return to_s(now - timedelta(days=max(days, least))) if days else None

    return horizon(kept.points_days), horizon(kept.sweeps_days)


def prune(db: Engine, world: World, now: datetime, *, dry_run: bool = False) -> dict[str, int]:
    """Rows taken away (or that would be) by table. What is older is rolled up before it goes; months that are empty then go whole."""
    points, sweeps = horizons(world.settings, now)
    gone: dict[str, int] = {}
    if points is not None or sweeps is not None:
        if not dry_run:
            roll_up(db, world.config.sources, now, precedence=world.settings.precedence.root)
        gone = take_away(db, points, sweeps, dry_run=dry_run)
    if not dry_run:
        with writing(db) as connection:
            drop_empty(connection, points or 0, now)
    return gone


def take_away(db: Engine, points: int | None, sweeps: int | None, *, dry_run: bool = False) -> dict[str, int]:
    """Rows of before those horizons (s) that no answer from there on needs, by table; one transaction a source."""
    gone: dict[str, int] = {}
    with reading(db) as connection:
        sources = connection.execute(select(SWEEP.c.source).distinct().order_by(SWEEP.c.source)).scalars().all()
    for source in (name for name in sources if not name.startswith(IMPORTED)):
        with reading(db) if dry_run else writing(db) as connection:
            if not dry_run:
                serialize(connection, f"source {source}")
                _note(connection, max(points or 0, sweeps or 0))
            for table, of in _old(connection, source, points, sweeps):
                gone[table.name] = gone.get(table.name, 0) + _take(connection, table, of, dry_run)
    return gone


def _take(connection: Connection, table: Table, of: ColumnElement[bool], dry_run: bool) -> int:
    if dry_run:
        return connection.scalar(select(func.count()).select_from(table).where(of)) or 0
    return int(connection.execute(delete(table).where(of)).rowcount)


def _old(connection: Connection, source: str, points: int | None, sweeps: int | None) -> Iterator[Part]:
    offers, rates = (select(dimension.c.id).where(dimension.c.source == source) for dimension in (OFFER, RATE))
    if points is not None:
        yield OFFER_POINT, _replaced(OFFER_POINT, "offer_id", offers, points)
        yield RATE_POINT, _replaced(RATE_POINT, "rate_id", rates, points)
        yield STATISTIC, _replaced(STATISTIC, "offer_id", offers, points)
        for table in (UNSEEN, REWORDED):
            mine = or_(and_(table.c.kind == "offer", table.c.target.in_(offers)), and_(table.c.kind == "rate", table.c.target.in_(rates)))
            yield table, and_(mine, table.c.until.is_not(None), table.c.until <= points)
    if sweeps is not None:
        yield SWEEP, and_(SWEEP.c.source == source, SWEEP.c.at < sweeps, SWEEP.c.id.not_in(_needed(connection, source, sweeps)))


def _replaced(point: Table, link: str, ids: Any, horizon: int) -> ColumnElement[bool]:
    """Points that another one has followed before the horizon: what changed at it still shows what was before."""
    later = point.alias("later")
    followed = exists().where(later.c[link] == point.c[link], later.c.at > point.c.at, later.c.at < horizon)
    return and_(point.c[link].in_(ids), point.c.at < horizon, followed)


def _needed(connection: Connection, source: str, horizon: int) -> set[int]:
    """Sweeps before the horizon that are still asked for: the last two that vouched for everything, the last of all, the first."""
    before = select(SWEEP.c.id).where(SWEEP.c.source == source, SWEEP.c.at <= horizon).order_by(SWEEP.c.at.desc())
    good = SWEEP.c.status.in_(GOOD)
    wanted = [before.where(good, SWEEP.c.complete.is_(True)).limit(2), before.where(good).limit(1), before.limit(1)]
    wanted.append(select(SWEEP.c.id).order_by(SWEEP.c.id).limit(1))  # when the book began
    return {id_ for query in wanted for id_ in connection.execute(query).scalars()}


def _note(connection: Connection, horizon: int) -> None:
    """Remember how far back days can be worked out."""
    known = connection.scalar(select(STATE.c.until).where(STATE.c.source == PRUNED))
    if known is None:
        connection.execute(insert(STATE).values(source=PRUNED, until=horizon, sweep=0, offer=0, basis=""))
    elif horizon > known:
        connection.execute(update(STATE).where(STATE.c.source == PRUNED).values(until=horizon))
