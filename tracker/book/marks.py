"""Where every source stands in the database, asked at each look at the book: what was read of a source before holds while its mark does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, exists, func, or_, select

from tracker.book.listing import GOOD, OFFERS, RATES, SWEEP
from tracker.book.standing import Version
from tracker.database.latest import each
from tracker.database.rows import to_s
from tracker.database.schema import TABLES

QUARANTINE, BACKDATED = TABLES["quarantine"], TABLES["backdated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """Where every source stands. Imports leave marks of their own: their sweeps, and when the last was made."""

    versions: Mapping[str, Version]
    covered: Mapping[str, int]  # last sweep that covered everything, by source
    other: Mapping[str, Version]  # those that list nothing, such as exchange rates
    decided: Mapping[str, int]  # when a person last accepted a price, by source
    learnt: tuple[int, int]  # when the last thing was imported, and how much of it

    @property
    def latest(self) -> int:
        """The last moment anything is of, or was learnt."""
        return max([self.learnt[0], *(version.at for version in self.versions.values())])


def marks_of(connection: Connection) -> Marks:
    """Where every source stands, as this transaction sees it."""
    decisions = list(connection.execute(_decisions()))
    accepted = {source: (count, int(sum_)) for source, count, sum_, _ in decisions}
    found = {source: rest for source, *rest in connection.execute(_all_last_sweeps())}
    versions = {source: Version(sweep, at, *accepted.get(source, (0, 0))) for source, (sweep, at, *_) in found.items()}
    return Marks(
        versions=versions,
        covered={source: whole_at for source, (_, _, whole_at, _) in found.items() if whole_at is not None},
        other={source: versions[source] for source, (_, _, _, lists) in found.items() if not lists},
        decided={source: to_s(at) for source, _, _, at in decisions if at is not None},
        learnt=_learnt(connection),
    )


def _learnt(connection: Connection) -> tuple[int, int]:
    newest: int | None = connection.scalar(select(func.max(BACKDATED.c.known_at)))
    if newest is None:
        return (0, 0)
    return (newest, connection.scalar(select(func.count()).select_from(BACKDATED).where(BACKDATED.c.known_at == newest)) or 0)


@cache
def _decisions() -> Select[Any]:
    table = QUARANTINE.c
    told = select(table.source, func.count(), func.sum(table.id), func.max(table.decided_at))
    return told.where(table.state == "accepted").group_by(table.source)


@cache
def _all_last_sweeps() -> Select[Any]:
    """Of every source: its last sweep, the last that covered everything, and whether it ever listed a price."""
    told = each(SWEEP.c.source, "steps")
    mine, whole = SWEEP.alias("mine"), SWEEP.alias("whole")
    last = select(mine.c.id).where(mine.c.source == told.c.one).order_by(mine.c.at.desc()).limit(1).scalar_subquery()
    at = select(func.max(mine.c.at)).where(mine.c.source == told.c.one).scalar_subquery()
    good = (whole.c.source == told.c.one, whole.c.complete.is_(True), whole.c.status.in_(GOOD))
    whole_at = select(whole.c.at).where(*good).order_by(whole.c.at.desc()).limit(1).scalar_subquery()
    lists = or_(*(exists().where(kind.dimension.c.source == told.c.one) for kind in (OFFERS, RATES)))
    return select(told.c.one, last, at, whole_at, lists).where(told.c.one.is_not(None))
