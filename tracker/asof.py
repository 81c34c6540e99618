"""The rows of the book as of a moment: what was listed then by what was known then, each with the moments of its price.

Two times are kept apart. ``at`` is the moment asked about; ``known`` is when we must have learnt a thing for it to count. A sweep
is known when it is made; imported history is known from its import on, whatever days it is of.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, FromClause, and_, func, select, union
from sqlmodel import SQLModel

from tracker.listing import GOOD, OFFERS, RATES, SWEEP, Kind, gone_column, unseen_at
from tracker.rows import OfferRow, RateRow, from_ms, to_ms

_TABLES = SQLModel.metadata.tables
BACKDATED, REWORDED = _TABLES["backdated"], _TABLES["reworded"]
FIELDS = {kind.name: tuple(field.name for field in fields(kind.row)) for kind in (OFFERS, RATES)}
IMPORTED = "book:"  # sources of imported rows: the origin follows the colon


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A time that is asked about and the time by which a thing must have been known to count."""

    at: datetime
    known: datetime

    @property
    def in_hindsight(self) -> bool:
        """Whether more counts than was known then."""
        return self.known > self.at


class Seen(NamedTuple):
    """A row with the moments of its price. ``told`` are its fields in their order; a tuple, since a book has tens of thousands."""

    kind: Kind
    told: tuple[Any, ...]
    source: str
    origin: str
    since: int  # ms: observed at this price from
    seen_at: int  # ms

    @property
    def row(self) -> OfferRow | RateRow:
        """The row itself."""
        return self.kind.row(**dict(zip(FIELDS[self.kind.name], self.told, strict=True)))


def as_known(connection: Connection, at: datetime, now: datetime | None = None) -> Moment:
    """``at`` as it was known then. Before the book began nothing was: there, all that is known ``now`` (else: at all) counts."""
    first = connection.scalar(select(SWEEP.c.recorded_at).order_by(SWEEP.c.id).limit(1))
    if first is not None and at < first:
        return Moment(at=at, known=now or _newest_knowledge(connection, at))
    return Moment(at=at, known=at)


def _newest_knowledge(connection: Connection, at: datetime) -> datetime:
    newest = connection.scalar(select(func.max(BACKDATED.c.known_at)))
    return at if newest is None else max(at, from_ms(newest))


def coverage(connection: Connection, at: datetime) -> dict[str, int]:
    """Last moment each source was covered whole, in ms: one look into an index a source, however many sweeps there are."""
    told = union(*(select(kind.dimension.c.source) for kind in (OFFERS, RATES))).subquery()
    last = (
        select(SWEEP.c.at)
        .where(SWEEP.c.source == told.c.source, SWEEP.c.at <= to_ms(at), SWEEP.c.complete.is_(True), SWEEP.c.status.in_(GOOD))
        .order_by(SWEEP.c.at.desc())
        .limit(1)
        .scalar_subquery()
    )
    return {source: moment for source, moment in connection.execute(select(told.c.source, last)) if moment is not None}


def rows_at(
    connection: Connection, kind: Kind, moment: Moment, covered: Mapping[str, int], only: Mapping[str, Collection[str]] | None = None
) -> Iterator[Seen]:
    """What was listed at the moment; ``only`` names columns and the values wanted in them."""
    dimension, point, at = kind.dimension, kind.point, to_ms(moment.at)
    wanted = [dimension.c[name].in_(list(values)) for name, values in (only or {}).items()]
    latest = (
        select(func.max(point.c.at))
        .where(point.c[kind.link] == dimension.c.id, point.c.at <= at, *known_by(connection, kind, moment))
        .correlate(dimension)
        .scalar_subquery()
    )
    names = FIELDS[kind.name]
    query = (
        select(
            *((point if name in kind.row.VALUES else dimension).c[name] for name in names),
            *(dimension.c[name] for name in ("id", "source", "origin")),
            point.c.at,
        )
        .select_from(dimension)
        .join(point, and_(point.c[kind.link] == dimension.c.id, point.c.at == latest))
        .where(gone_column(point).is_(False), *wanted)
        .order_by(dimension.c.id)
    )
    starts = _imported_starts(connection, kind, moment, wanted)
    unseen, wording = unseen_at(connection, at), _old_wording(connection, kind, at)
    for found in connection.execute(query).all():
        told, (id_, source, origin, own) = found[: len(names)], found[len(names) :]
        if id_ in wording:
            told = tuple({**dict(zip(names, told, strict=True)), **wording[id_]}.values())
        seen = unseen.get((kind.name, id_)) or max(own, covered.get(source, own))
        yield Seen(kind, told, source, origin, starts.get(id_, own), seen)


def known_by(connection: Connection, kind: Kind, moment: Moment, point: FromClause | None = None) -> list[ColumnElement[bool]]:
    """Conditions on a point that leave out what was learnt too late; none where nothing was, as for the book of now."""
    point = kind.point if point is None else point
    late = (BACKDATED.c.kind == kind.name, BACKDATED.c.known_at > to_ms(moment.known))
    if connection.scalar(select(BACKDATED.c.target).where(*late).limit(1)) is None:
        return []
    unknown = select(BACKDATED.c.at).where(*late, BACKDATED.c.target == point.c[kind.link], BACKDATED.c.at == point.c.at)
    return [~unknown.correlate(point).exists()]


def _imported_starts(connection: Connection, kind: Kind, moment: Moment, wanted: Sequence[ColumnElement[bool]]) -> dict[int, int]:
    """For imported rows, where equal points in a row only confirm a price: the first moment of the last run."""
    dimension, point = kind.dimension, kind.point
    query = (
        select(point.c[kind.link], point.c.at, *(point.c[name] for name in kind.row.VALUES))
        .select_from(point)
        .join(dimension, point.c[kind.link] == dimension.c.id)
        .where(dimension.c.source.like(IMPORTED + "%"), point.c.at <= to_ms(moment.at), *wanted, *known_by(connection, kind, moment))
        .order_by(point.c[kind.link], point.c.at)
    )
    starts: dict[int, int] = {}
    last: tuple[int, tuple[Any, ...]] | None = None
    for id_, at, *found in connection.execute(query):
        if last != (id_, tuple(found)):
            starts[id_] = at
        last = (id_, tuple(found))
    return starts


def _old_wording(connection: Connection, kind: Kind, at: int) -> dict[int, dict[str, Any]]:
    """Descriptions that were corrected after ``at``, as they were then, by id."""
    query = select(REWORDED.c.target, REWORDED.c.was).where(REWORDED.c.kind == kind.name, REWORDED.c.until > at)
    return {target: json.loads(was) for target, was in connection.execute(query.order_by(REWORDED.c.until.desc()))}
