"""What is told about the things that a sweep is doubted about: listed prices, waiting ones, and the sweep's own. Read thing by thing."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

from sqlalchemy import Connection, Select, bindparam, select

from tracker.book.listing import UNSEEN, Kind, Row, gone_column
from tracker.book.spans import DAY_S
from tracker.database.latest import newest_first, with_latest
from tracker.database.postgres import marked
from tracker.database.rows import row_from
from tracker.guard.context import Guard
from tracker.guard.quarantine import PENDING, QUARANTINE, Sighting


@dataclass(frozen=True, slots=True)
class Told:
    """A row that is listed, that waits in a quarantine, or that this sweep printed. ``own``: of its source; ``old``: no measure."""

    source: str
    row: Row
    fresh: bool
    own: bool = False
    old: bool = False
    waiting: bool = False
    printed: bool = False


@dataclass(frozen=True, kw_only=True)
class Telling:
    """Everything told, read from the database when it is asked for. Without slots: what was read is kept in it."""

    connection: Connection
    kind: Kind
    guard: Guard
    seen: Sighting
    printed: Collection[Row]  # by the sweep itself
    _of_thing: dict[str, list[Told]] = field(default_factory=dict)
    _about: dict[tuple[str, str], Sequence[Told]] = field(default_factory=dict)
    _covered: dict[str, int] = field(default_factory=dict)

    def about(self, row: Row) -> Sequence[Told]:
        """What is listed, or waits at other sources, of the row's provider and GPU or model."""
        of = self._thing(row), row.provider
        if of not in self._about:
            whole = self._of_thing.get(of[0])
            listed = self._read(*of) if whole is None else [one for one in whole if one.row.provider == row.provider]
            self._about[of] = (*listed, *self._waiting.get(of, ()))
        return self._about[of]

    def market(self, row: Row) -> Sequence[Told]:
        """What is listed of the row's GPU or model, and what this sweep prints of it."""
        thing = self._thing(row)
        if thing not in self._of_thing:
            self._of_thing[thing] = self._read(thing)
        return (*self._of_thing[thing], *self._printed.get(thing, ()))

    def _thing(self, row: Row) -> str:
        return str(getattr(row, self.kind.thing))

    @cached_property
    def _printed(self) -> Mapping[str, Sequence[Told]]:
        found: dict[str, list[Told]] = {}
        for row in self.printed:
            found.setdefault(self._thing(row), []).append(Told(self.seen.source, row, fresh=True, own=True, printed=True))
        return found

    @cached_property
    def _waiting(self) -> Mapping[tuple[str, str], Sequence[Told]]:
        """Prices that other sources saw and that wait there, by thing and provider: two sources may confirm each other."""
        others = [source for source in self.guard.sources if source != self.seen.source]
        query = select(QUARANTINE.c.source, QUARANTINE.c.row, QUARANTINE.c.last_at).where(
            QUARANTINE.c.source.in_(others), QUARANTINE.c.state == PENDING, QUARANTINE.c.kind == self.kind.name, QUARANTINE.c.row != ""
        )
        found: dict[tuple[str, str], list[Told]] = {}
        for source, told, last_at in self.connection.execute(query.order_by(QUARANTINE.c.id)):
            row = self.kind.row(**json.loads(told))
            waits = Told(source, row, self.guard.is_fresh(source, last_at, self.seen.at), waiting=True)
            found.setdefault((self._thing(row), row.provider), []).append(waits)
        return found

    def _read(self, thing: str, provider: str | None = None) -> list[Told]:
        """What is listed of a thing, by a provider where one is named."""
        at, told = self.seen.at, []
        oldest = at - self.guard.settings.reference_days * DAY_S
        named = {} if provider is None else {"provider": provider}
        query = _listed(self.kind, self.connection.dialect.name, bool(named))
        with newest_first(self.connection):
            listed = self.connection.execute(query, {"thing": thing, "at": at, **named}).mappings().all()
        for found in listed:
            source, last_seen = found["source"], found["last_seen"]
            if last_seen is None:
                last_seen = max(found["point_at"], self._covered_at(source))
            fresh, own = self.guard.is_fresh(source, last_seen, at), source == self.seen.source
            told.append(Told(source, row_from(self.kind.row, found), fresh, own=own, old=last_seen < oldest))
        return told

    def _covered_at(self, source: str) -> int:
        """The last sweep of a source that covered everything; 0 without one."""
        if source not in self._covered:
            last = self.connection.exec_driver_sql(marked(self.connection, _LAST_WHOLE), (source, self.seen.at)).scalar()
            self._covered[source] = last or 0
        return self._covered[source]


@cache  # built once a kind: it is asked for everything that is doubted
def _listed(kind: Kind, dialect: str, by_provider: bool) -> Select[Any]:
    """What is listed of a thing, with its point and, where it goes unseen, its own last sighting."""
    dimension = kind.dimension
    at: Any = bindparam("at")
    beside, point = with_latest(dialect, dimension, kind.point, kind.link, kind.point.c.at <= at)
    goes_on = (UNSEEN.c.since <= at, UNSEEN.c.until.is_(None) | (UNSEEN.c.until > at))
    unseen = select(UNSEEN.c.last_seen).where(UNSEEN.c.kind == kind.name, UNSEEN.c.target == dimension.c.id, *goes_on).limit(1)
    columns = (*(point.c[n] for n in kind.row.VALUES), point.c.at.label("point_at"))
    query = (
        select(dimension, *columns, unseen.correlate(dimension).scalar_subquery().label("last_seen"))
        .select_from(beside)
        .where(gone_column(point).is_(False), dimension.c[kind.thing] == bindparam("thing"))
        .order_by(dimension.c.id)
    )
    return query.where(dimension.c.provider == bindparam("provider")) if by_provider else query


_LAST_WHOLE = """select at from sweep where source = ? and complete and status in ('ok', 'unchanged') and at <= ?
    order by at desc limit 1"""
