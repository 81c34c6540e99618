"""The lowest price of each day over all providers, worked out again in the transaction that changes a day of one of them, or once for
all days where a source is far behind.

Of several sources of a provider one speaks for a day, by ``precedence``; where that changes, all days are worked out anew. Prices stay
native: a day has a row for each currency, and which of them is the lowest is told by the exchange rate of the day, when it is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from threading import Event
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, Select, and_, case, collate, delete, func, insert, select, update

from tracker.book.asof import IMPORTED
from tracker.database.handle import reading, writing
from tracker.database.postgres import serialize
from tracker.database.schema import TABLES

GROUP, DAY, MARKET, LEAST, STATE = (
    TABLES[name] for name in ("rollup_group", "rollup_day", "rollup_market", "rollup_least", "rollup_state")
)
ALL = "all providers"  # its state; no source has a name with a space
CHUNK_DAYS = 31  # worked out in one transaction
Precedence = Mapping[str, Sequence[str]]


def digest(precedence: Precedence) -> str:
    """What the days over all providers depend on beside the days of each."""
    return hashlib.sha256(json.dumps({name: list(stated) for name, stated in precedence.items()}, sort_keys=True).encode()).hexdigest()


def refresh(db: Engine, precedence: Precedence, *, anew: bool = False, stop: Event | None = None) -> None:
    """Work out every day again where that was postponed, where another precedence decided it, or ``anew``; meanwhile nobody reads them."""
    wanted = digest(precedence)
    with reading(db) as connection:
        basis, _ = _basis(connection)
    while basis != wanted or anew:
        with writing(db) as connection:
            lock(connection)
            mark = postpone(connection)
        if not _every_day(db, precedence, stop):
            return
        with writing(db) as connection:
            lock(connection)
            (basis, postponed), anew = _basis(connection), False
            if (basis, postponed) == ("", mark):  # else another process changed days meanwhile that were worked out before
                basis = wanted
                _note(connection, wanted)


def _every_day(db: Engine, precedence: Precedence, stop: Event | None) -> bool:
    """Work out all days there are; False where it was stopped before the last."""
    with reading(db) as connection:
        first, last = connection.execute(select(func.min(DAY.c.day), func.max(DAY.c.day))).one()
        gpus = connection.execute(select(GROUP.c.gpu).distinct()).scalars().all()
    for start in () if first is None else range(first, last + 1, CHUNK_DAYS):
        if stop is not None and stop.is_set():
            return False
        with writing(db) as connection:
            lock(connection)
            derive(connection, precedence, gpus, start, start + CHUNK_DAYS - 1)
    return True


def is_postponed(connection: Connection) -> bool:
    """Whether the days over all providers wait for :func:`refresh`."""
    return _basis(connection)[0] == ""


def postpone(connection: Connection) -> int:
    """Leave the days over all providers to :func:`refresh`; until then nobody reads them. Returns how often that was done."""
    mark = _basis(connection)[1] + 1
    _note(connection, "")
    connection.execute(update(STATE).where(STATE.c.source == ALL).values(sweep=mark))
    return mark


def _basis(connection: Connection) -> tuple[str, int]:
    """By which precedence the days over all providers are worked out, empty for none, and how often they were postponed."""
    found = connection.execute(select(STATE.c.basis, STATE.c.sweep).where(STATE.c.source == ALL)).first()
    return ("", 0) if found is None else (found.basis, found.sweep)


def lock(connection: Connection) -> None:
    """Days of two sources of one provider are not written at once."""
    serialize(connection, "rollup days")


def derive(connection: Connection, precedence: Precedence, gpus: Collection[str], first: int, last: int) -> None:
    """Work out the days ``first`` to ``last`` of those GPUs, at every count and tier, from the days of each provider."""
    names = ("gpu", "gpu_count", "tier")
    known = select(MARKET.c.id).where(*(MARKET.c[name] == GROUP.c[name] for name in names)).exists()
    new = select(*(GROUP.c[name] for name in names)).where(GROUP.c.gpu.in_(gpus), ~known).distinct()
    connection.execute(insert(MARKET).from_select(names, new))
    mine = select(MARKET.c.id).where(MARKET.c.gpu.in_(gpus))
    connection.execute(delete(LEAST).where(LEAST.c.market_id.in_(mine), LEAST.c.day.between(first, last)))
    found = _lowest(connection, precedence, and_(GROUP.c.gpu.in_(gpus), DAY.c.day.between(first, last)))
    connection.execute(insert(LEAST).from_select(("market_id", "day", "currency", "least", "group_id"), found))


def _lowest(connection: Connection, precedence: Precedence, wanted: ColumnElement[bool]) -> Select[Any]:
    """Of each day, count, tier and currency the lowest price of those that speak for their provider; of equal ones the first by name."""
    plain = "C" if connection.dialect.name == "postgresql" else "BINARY"
    imported, another = (case((one, 1), else_=0) for one in (GROUP.c.source.startswith(IMPORTED), GROUP.c.source != GROUP.c.provider))
    order = (imported, *_place(precedence), another, collate(GROUP.c.source, plain))
    of_day = (GROUP.c.gpu, GROUP.c.gpu_count, GROUP.c.tier, DAY.c.day)
    speaking = (
        select(MARKET.c.id.label("market_id"), DAY.c.day, GROUP.c.currency, DAY.c.least, DAY.c.group_id, GROUP.c.provider)
        .add_columns(func.rank().over(partition_by=(*of_day, GROUP.c.provider), order_by=order).label("place"))
        .join_from(GROUP, DAY, DAY.c.group_id == GROUP.c.id)
        .join(MARKET, and_(MARKET.c.gpu == GROUP.c.gpu, MARKET.c.gpu_count == GROUP.c.gpu_count, MARKET.c.tier == GROUP.c.tier))
        .where(wanted)
        .subquery()
    )
    by_price = func.row_number().over(
        partition_by=(speaking.c.market_id, speaking.c.day, speaking.c.currency),
        order_by=(speaking.c.least, collate(speaking.c.provider, plain), speaking.c.group_id),
    )
    ranked = select(speaking, by_price.label("number")).where(speaking.c.place == 1).subquery()
    return select(ranked.c.market_id, ranked.c.day, ranked.c.currency, ranked.c.least, ranked.c.group_id).where(ranked.c.number == 1)


def _place(precedence: Precedence) -> list[Any]:
    """Where a source stands in what is stated of its provider; behind all of them where it is not named."""
    stated = [
        (and_(GROUP.c.provider == provider, GROUP.c.source == source), number)
        for provider, sources in precedence.items()
        for number, source in enumerate(dict.fromkeys(sources))
    ]
    return [case(*stated, else_=max(map(len, precedence.values())))] if stated else []


def _note(connection: Connection, basis: str) -> None:
    if connection.execute(update(STATE).where(STATE.c.source == ALL).values(basis=basis)).rowcount == 0:
        connection.execute(insert(STATE).values(source=ALL, until=0, sweep=0, offer=0, basis=basis))
