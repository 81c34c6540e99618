"""The rows of the book as of a moment: what was listed then by what was known then, each with the moments of its price.

Two times are kept apart. ``at`` is the moment asked about; ``known`` is when we must have learnt a thing for it to count. A sweep
is known when it is made; imported history is known from its import on, whatever days it is of.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, FromClause, func, select, union

from tracker.book.listing import ENDED_MS, GOOD, OFFERS, RATES, SWEEP, Kind, gone_column, unseen_at
from tracker.database.latest import each, newest_first, with_latest
from tracker.database.rows import from_s, to_s
from tracker.database.schema import TABLES

BACKDATED, REWORDED = TABLES["backdated"], TABLES["reworded"]
FIELDS = {kind.name: tuple(field.name for field in fields(kind.row)) for kind in (OFFERS, RATES)}
IMPORTED = "book:"  # sources of imported rows: the origin follows the colon

Row = tuple[Any, ...]  # as the driver tells it: these four, then the fields of its kind
ID, SOURCE, ORIGIN, AT = range(4)  # AT: observed at this price from
PREFIX = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A time that is asked about and the time by which a thing must have been known to count."""

    at: datetime
    known: datetime

    @property
    def in_hindsight(self) -> bool:
        """Whether more counts than was known then."""
        return self.known > self.at


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """What was listed at a moment, and what is known of when: moments are as they are stored."""

    told: list[Row]
    covered: Mapping[str, int]  # source -> last moment it was covered whole
    unseen: Mapping[int, int]  # id -> its own last sighting, of what was listed and not printed
    starts: Mapping[int, int]  # id -> first moment of the price, of imported rows, where a point may only confirm one
    every: Mapping[tuple[int, ...], Set[Any]] = field(default_factory=dict)  # combinations of fields that some row has, where known


def as_known(connection: Connection, at: datetime, now: datetime | None = None) -> Moment:
    """``at`` as it was known then. Before the book began nothing was: there, all that is known ``now`` (else: at all) counts."""
    first = connection.scalar(select(ENDED_MS).order_by(SWEEP.c.id).limit(1))
    if first is not None and to_s(at) < first // 1000:
        return Moment(at=at, known=now or _newest_knowledge(connection, at))
    return Moment(at=at, known=at)


def _newest_knowledge(connection: Connection, at: datetime) -> datetime:
    newest = connection.scalar(select(func.max(BACKDATED.c.known_at)))
    return at if newest is None else max(at, from_s(newest))


def coverage(connection: Connection, at: datetime) -> dict[str, int | None]:
    """Last moment each source that tells prices was covered whole, None for never: a step in an index a source, however many rows."""
    told = union(*(select(each(kind.dimension.c.source, f"{kind.name}_sources").c.one) for kind in (OFFERS, RATES))).subquery()
    last = (
        select(SWEEP.c.at)
        .where(SWEEP.c.source == told.c.one, SWEEP.c.at <= to_s(at), SWEEP.c.complete.is_(True), SWEEP.c.status.in_(GOOD))
        .order_by(SWEEP.c.at.desc())
        .limit(1)
        .scalar_subquery()
    )
    query = select(told.c.one, last).where(told.c.one.is_not(None)).order_by(told.c.one)
    return {source: moment for source, moment in connection.execute(query)}  # noqa: C416  rows are no pairs to dict()


def rows_at(connection: Connection, kind: Kind, moment: Moment, only: Mapping[str, Collection[str]] | None = None) -> Rows:
    """What was listed at the moment; ``only`` names columns and the values wanted in them."""
    dimension, at = kind.dimension, to_s(moment.at)
    wanted = [dimension.c[name].in_(list(values)) for name, values in (only or {}).items()]
    told_by = (kind.point.c.at <= at, *known_by(connection, kind, moment))
    source, point = with_latest(connection.dialect.name, dimension, kind.point, kind.link, *told_by)
    query = (
        select(
            *(dimension.c[name] for name in ("id", "source", "origin")),
            point.c.at,
            *((point if name in kind.row.VALUES else dimension).c[name] for name in FIELDS[kind.name]),
        )
        .select_from(source)
        .where(gone_column(point).is_(False), *wanted)
        .order_by(dimension.c.id)
    )
    with newest_first(connection):
        result = connection.execute(query)
    told: list[Row] = list(result.cursor.fetchall())  # the driver's own tuples: a book has tens of thousands
    result.close()
    if wording := old_wording(connection, kind, at):
        told = [_as_worded(row, kind, wording[row[ID]]) if row[ID] in wording else row for row in told]
    covered = coverage(connection, moment.at)
    imported = [source for source in covered if source.startswith(IMPORTED)]
    return Rows(
        told=told,
        covered={source: last for source, last in covered.items() if last is not None},
        unseen={id_: last_seen for (name, id_), last_seen in unseen_at(connection, at).items() if name == kind.name},
        starts=_imported_starts(connection, kind, moment, imported, wanted) if imported else {},
    )


def _as_worded(row: Row, kind: Kind, was: Mapping[str, Any]) -> Row:
    """A row with its description as it was then."""
    return (*row[:PREFIX], *(was.get(name, now) for name, now in zip(FIELDS[kind.name], row[PREFIX:], strict=True)))


def known_by(connection: Connection, kind: Kind, moment: Moment, point: FromClause | None = None) -> list[ColumnElement[bool]]:
    """Conditions on a point that leave out what was learnt too late; none where nothing was, as for the book of now."""
    point = kind.point if point is None else point
    late = (BACKDATED.c.kind == kind.name, BACKDATED.c.known_at > to_s(moment.known))
    if connection.scalar(select(BACKDATED.c.target).where(*late).limit(1)) is None:
        return []
    unknown = select(BACKDATED.c.at).where(*late, BACKDATED.c.target == point.c[kind.link], BACKDATED.c.at == point.c.at)
    return [~unknown.correlate(point).exists()]


def _imported_starts(
    connection: Connection, kind: Kind, moment: Moment, imported: Sequence[str], wanted: Sequence[ColumnElement[bool]]
) -> dict[int, int]:
    """For imported rows, where equal points in a row only confirm a price: the first moment of the last run."""
    dimension, point = kind.dimension, kind.point
    query = (
        select(point.c[kind.link], point.c.at, *(point.c[name] for name in kind.row.VALUES))
        .select_from(point)
        .join(dimension, point.c[kind.link] == dimension.c.id)
        .where(dimension.c.source.in_(imported), point.c.at <= to_s(moment.at), *wanted, *known_by(connection, kind, moment))
        .order_by(point.c[kind.link], point.c.at)
    )
    starts: dict[int, int] = {}
    last: tuple[int, tuple[Any, ...]] | None = None
    for id_, at, *found in connection.execute(query):
        if last != (id_, tuple(found)):
            starts[id_] = at
        last = (id_, tuple(found))
    return starts


def old_wording(connection: Connection, kind: Kind, at: int) -> dict[int, dict[str, Any]]:
    """Descriptions that were corrected after ``at``, as they were then, by id."""
    query = select(REWORDED.c.target, REWORDED.c.was).where(REWORDED.c.kind == kind.name, REWORDED.c.until > at)
    return {target: json.loads(was) for target, was in connection.execute(query.order_by(REWORDED.c.until.desc()))}
