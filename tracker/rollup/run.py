"""Keeps the rollups up to date: only the days that something changed, the rest stays; or everything anew.

What changes a day after it was worked out: sweeps stored since, with their time before that (another machine, a clock set back), and
what counts in hindsight: a source's age limit, how its offers are described, imported points. The latter makes a source's rollups
anew. Days before the horizon of a prune cannot be worked out again and stay as they are, and so does a source that is configured no
more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from threading import Event
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, and_, delete, func, insert, select, update

from tracker.answers.decided import Subject, subjects
from tracker.book.book import IMPORTED
from tracker.book.listing import OFFER, OFFER_POINT, SWEEP
from tracker.book.points import insert_new
from tracker.book.spans import DAY_S, FOREVER
from tracker.config import Source, whole_s
from tracker.database.handle import reading, writing
from tracker.database.postgres import serialize
from tracker.database.rows import to_s
from tracker.database.schema import TABLES
from tracker.rollup.market import Precedence, derive, is_postponed, lock, postpone, refresh
from tracker.rollup.models import first_decision, model_days
from tracker.rollup.offers import Figures, Group, source_days

GROUP, DAY, MODEL, STATE = (TABLES[name] for name in ("rollup_group", "rollup_day", "rollup_model", "rollup_state"))
MODELS = ""  # the state of the models' rollups
PRUNED = "pruned"  # no source: how far points were taken away
SPAN_DAYS = 7  # worked out at once: what is held in memory
LATE_S = 15 * 60  # what another process may still store with a time before ours


def roll_up(
    db: Engine,
    sources: Mapping[str, Source],
    now: datetime,
    *,
    precedence: Precedence | None = None,
    rebuild: bool = False,
    stop: Event | None = None,
) -> int:
    """Bring every rollup up to ``now``; ``rebuild``: all of them anew. Returns the number of rows worked out.

    Some days of a source are worked out, then written in a transaction of their own, so that sweeps wait little; after one ``stop``
    ends it. Where a source is more than those days behind, the days over all providers are worked out once, at the end: source by source
    that would be as often as there are sources.
    """
    believed = precedence or {}
    refresh(db, believed, anew=rebuild, stop=stop)
    with reading(db) as connection:
        known = connection.execute(select(OFFER.c.source).distinct().order_by(OFFER.c.source)).scalars().all()
    written = 0
    for source in (name for name in known if name in sources or name.startswith(IMPORTED)):
        anew, done = rebuild, False
        while not done and not (stop is not None and stop.is_set()):
            with reading(db) as connection:
                work = _work_out(connection, source, _limit(sources, source), to_s(now), anew)
            with writing(db) as connection:
                lock(connection)
                kept = _keep(connection, source, work, believed)
            written, done, anew = written + kept, work.state["until"] == to_s(now), False
    refresh(db, believed, stop=stop)
    with writing(db) as connection:
        serialize(connection, "rollup models")
        return written + _models(connection, sources, to_s(now), rebuild)


def _limit(sources: Mapping[str, Source], source: str) -> int | None:
    """Age limit in s; None for imported rows, which have none."""
    return None if source.startswith(IMPORTED) else whole_s(sources[source].settings.max_age_hours)


def pruned_before(connection: Connection) -> int:
    """The first day (since 1970) whose points are all there."""
    found = connection.scalar(select(STATE.c.until).where(STATE.c.source == PRUNED))
    return 0 if found is None else -(-int(found) // DAY_S)


@dataclass(frozen=True, slots=True)
class _Work:
    """Days of a source as they are now, from ``first`` to ``last``, and the states before and after. ``ends``: none comes after them."""

    first: int
    last: int
    ends: bool
    figures: Mapping[tuple[Group, int], Figures]
    before: Mapping[str, Any] | None
    state: Mapping[str, Any]


def _work_out(connection: Connection, source: str, limit: int | None, now: int, anew: bool) -> _Work:
    """The next days that something changed. Nothing is written, and nobody waits."""
    state = _state(connection, source)
    if anew or state is None or state["basis"] != _basis(connection, source, limit, state["offer"]):
        first = _first_day(connection, source)
    else:
        first = min(state["until"] - LATE_S, _oldest_since(connection, source, state["sweep"]), now - LATE_S) // DAY_S
    first = max(first, pruned_before(connection))
    last = min(first + SPAN_DAYS - 1, now // DAY_S)
    figures = source_days(connection, source, limit, first, last, now)
    newest = connection.scalar(select(func.max(OFFER.c.id)).where(OFFER.c.source == source)) or 0
    sweep = connection.scalar(select(func.max(SWEEP.c.id)).where(SWEEP.c.source == source)) or 0
    after = {"until": min(now, (last + 1) * DAY_S), "sweep": sweep, "offer": newest, "basis": _basis(connection, source, limit, newest)}
    return _Work(first, last, after["until"] == now, figures, state, after)


def _keep(connection: Connection, source: str, work: _Work, precedence: Precedence) -> int:
    """Write the days; returns how many. Where another process was faster, its days stay and the next run goes on from them."""
    if _state(connection, source) != work.before:
        return 0
    days = DAY.c.day >= work.first if work.ends else DAY.c.day.between(work.first, work.last)
    wanted = and_(DAY.c.group_id.in_(select(GROUP.c.id).where(GROUP.c.source == source)), days)
    before = _least(connection, wanted)
    connection.execute(delete(DAY).where(wanted))
    _note(connection, source, work.state)
    written = _store(connection, source, work.figures)
    moved = before ^ _least(connection, wanted)
    if moved and (not work.ends or is_postponed(connection)):
        postpone(connection)
    elif moved:
        derive(connection, precedence, {gpu for gpu, *_ in moved}, min(day for _, _, day, _ in moved), max(day for _, _, day, _ in moved))
    return written


def _least(connection: Connection, wanted: ColumnElement[bool]) -> set[tuple[str, int, int, int]]:
    """GPU, group, day and price of those days: what the lowest price over all providers is worked out from."""
    query = select(GROUP.c.gpu, DAY.c.group_id, DAY.c.day, DAY.c.least).join(GROUP, GROUP.c.id == DAY.c.group_id).where(wanted)
    return {(gpu, group, day, least) for gpu, group, day, least in connection.execute(query)}


def _state(connection: Connection, source: str) -> dict[str, Any] | None:
    found = connection.execute(select(STATE).where(STATE.c.source == source)).mappings().first()
    return None if found is None else dict(found)


def _basis(connection: Connection, source: str, limit: int | None, newest_offer: int) -> str:
    """Digest of what a source's past days depend on beside its points and sweeps. Offers that came since are in no past day."""
    told = select(OFFER.c.id, OFFER.c.is_slice, OFFER.c.price_kind).where(OFFER.c.source == source, OFFER.c.id <= newest_offer)
    digest = hashlib.sha256(repr((limit, [tuple(row) for row in connection.execute(told.order_by(OFFER.c.id))])).encode())
    if limit is None:
        mine = select(OFFER.c.id).where(OFFER.c.source == source)
        points = connection.scalar(select(func.count()).select_from(OFFER_POINT).where(OFFER_POINT.c.offer_id.in_(mine)))
        digest.update(str(points).encode())
    return digest.hexdigest()


def _oldest_since(connection: Connection, source: str, sweep: int) -> int:
    """The earliest moment of the sweeps stored after that one, in s."""
    found = connection.scalar(select(func.min(SWEEP.c.at)).where(SWEEP.c.source == source, SWEEP.c.id > sweep))
    return FOREVER if found is None else int(found)


def _first_day(connection: Connection, source: str) -> int:
    mine = select(OFFER.c.id).where(OFFER.c.source == source)
    found = connection.scalar(select(func.min(OFFER_POINT.c.at)).where(OFFER_POINT.c.offer_id.in_(mine)))
    return 0 if found is None else int(found) // DAY_S


def _store(connection: Connection, source: str, figures: Mapping[tuple[Group, int], Figures]) -> int:
    ids = _groups(connection, source, {group for group, _ in figures})
    rows = [
        {"group_id": ids[group], "day": day, **{name: getattr(of, name) for name in Figures.__slots__}}
        for (group, day), of in figures.items()
    ]
    if rows:
        connection.execute(insert(DAY), rows)
    return len(rows)


def _groups(connection: Connection, source: str, wanted: set[Group]) -> dict[Group, int]:
    """Ids of the groups; those that are new are added."""
    names = ("provider", "gpu", "gpu_count", "tier", "currency")
    query = select(GROUP.c.id, *(GROUP.c[name] for name in names)).where(GROUP.c.source == source)
    known = {(provider, gpu, count, tier, money): id_ for id_, provider, gpu, count, tier, money in connection.execute(query)}
    if new := [{"source": source, **dict(zip(names, group, strict=True))} for group in sorted(wanted - known.keys())]:
        connection.execute(insert_new(connection, GROUP), new)
        return _groups(connection, source, set())
    return known


def _note(connection: Connection, source: str, state: Mapping[str, Any]) -> None:
    if connection.execute(update(STATE).where(STATE.c.source == source).values(**state)).rowcount == 0:
        connection.execute(insert(STATE).values(source=source, **state))


# --- models ---------------------------------------------------------------------------------------------------------------


def _models(connection: Connection, sources: Mapping[str, Source], now: int, rebuild: bool) -> int:
    """A decision is never changed in hindsight, but one of yesterday may still end by a price that grew old."""
    until = None if rebuild else connection.scalar(select(STATE.c.until).where(STATE.c.source == MODELS))
    written = 0
    for subject in subjects(connection):
        first = first_decision(connection, subject) if until is None else min(until, now) // DAY_S - 1
        written += _model(connection, sources, subject, max(first, pruned_before(connection)), now)
    _note(connection, MODELS, {"until": now, "sweep": 0, "offer": 0, "basis": ""})
    return written


def _model(connection: Connection, sources: Mapping[str, Source], subject: Subject, first: int, now: int) -> int:
    of = (MODEL.c[name] == value for name, value in zip(("model", "workload", "policy"), subject, strict=True))
    connection.execute(delete(MODEL).where(*of, MODEL.c.day >= first))
    rows = model_days(connection, sources, subject, first, now // DAY_S, now)
    if rows:
        connection.execute(insert(MODEL), rows)
    return len(rows)
