"""When a price was known to hold: from its sighting until the next one, as long as its source's age limit at most.

Beyond that nothing was observed, and the picture has a gap. Imported rows have no coverage: they hold between their own sightings
at one price. What was learnt after ``known`` does not count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, func, or_, select

from tracker.book.asof import Moment, known_by
from tracker.book.listing import GOOD, OFFERS, SWEEP, UNSEEN, Kind
from tracker.book.spans import FOREVER, Span, merged, within, without
from tracker.config import Source, whole_s
from tracker.database.limits import in_parts
from tracker.database.rows import to_s

Held = list[tuple[Span, Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of stored time [start, end), and when we look back at it."""

    start: int
    end: int
    known: datetime


def window(start: datetime, end: datetime, known: datetime) -> Window:
    """Between two moments."""
    return Window(to_s(start), to_s(end), known)


def held(connection: Connection, kind: Kind, sources: Mapping[str, Source], things: Mapping[int, str], span: Window) -> dict[int, Held]:
    """What each offer or rate (id -> its source) was known to say, by the spans of stored time it said so, ascending."""
    points = _points(connection, kind, sorted(things), span)
    absent = _absent(connection, kind, sorted(things), span)
    covered = {source: _coverage(connection, sources, source, span) for source in sorted(set(things.values()))}
    found: dict[int, Held] = {}
    for id_, states in points.items():
        limit = _age_limit(sources, things[id_])
        away = [] if limit is None else [(max(since, last + limit + 1), until) for since, until, last in absent.get(id_, ())]
        found[id_] = list(_spans(kind, states, covered[things[id_]], away, limit, span))
    return found


def _spans(
    kind: Kind,
    states: Sequence[tuple[int, Mapping[str, Any]]],
    covered: Sequence[Span],
    away: Sequence[Span],
    limit: int | None,
    span: Window,
) -> Iterator[tuple[Span, Mapping[str, Any]]]:
    for (start, values), (end, following) in zip(states, [*states[1:], (FOREVER, None)], strict=True):
        if _is_gone(kind, values):
            continue
        if limit is None:
            spans = [(start, end if values == following else start + 1)]
        else:
            spans = merged([*within(covered, start, end), (start, min(end, start + limit + 1))])
        yield from ((piece, values) for piece in without(within(spans, span.start, span.end), away))


def _is_gone(kind: Kind, values: Mapping[str, Any]) -> bool:
    """Whether a point says that there is no such price any more."""
    return values["price"] is None if kind is OFFERS else bool(values["gone"])


def _age_limit(sources: Mapping[str, Source], source: str) -> int | None:
    """How long a price of the source may be used, in stored time; None for imported rows."""
    if source not in sources:
        return None
    return whole_s(sources[source].settings.max_age_hours)


def _coverage(connection: Connection, sources: Mapping[str, Source], source: str, span: Window) -> list[Span]:
    """When a whole sweep vouched for everything the source listed."""
    limit = _age_limit(sources, source)
    if limit is None:
        return []
    good = (SWEEP.c.source == source, SWEEP.c.complete.is_(True), SWEEP.c.status.in_(GOOD))
    query = select(SWEEP.c.at).where(*good, SWEEP.c.at >= span.start - limit, SWEEP.c.at < span.end)
    return merged((at, at + limit + 1) for at in connection.execute(query).scalars())


def _points(connection: Connection, kind: Kind, ids: Sequence[int], span: Window) -> dict[int, list[tuple[int, Mapping[str, Any]]]]:
    """Each one's points within the span, ascending, with the one in force at its beginning."""
    point, of = kind.point, kind.point.alias("of")
    names = [column.name for column in point.columns if column.name not in (kind.link, "at")]
    moment = Moment(at=span.known, known=span.known)
    known = known_by(connection, kind, moment)
    early = (of.c[kind.link] == point.c[kind.link], of.c.at <= span.start, *known_by(connection, kind, moment, of))
    before = select(func.max(of.c.at)).where(*early).correlate(point).scalar_subquery()
    wanted = or_(and_(point.c.at > span.start, point.c.at < span.end), point.c.at == before)
    found: dict[int, list[tuple[int, Mapping[str, Any]]]] = defaultdict(list)
    for some in in_parts(ids):
        query = select(point).where(point.c[kind.link].in_(some), wanted, *known).order_by(point.c[kind.link], point.c.at)
        for row in connection.execute(query).mappings():
            found[row[kind.link]].append((row["at"], {name: row[name] for name in names}))
    return found


def _absent(connection: Connection, kind: Kind, ids: Sequence[int], span: Window) -> dict[int, list[tuple[int, int, int]]]:
    """(since, until, last seen) of the stretches in which a listed price was not printed."""
    found: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for some in in_parts(ids):
        query = select(UNSEEN.c.target, UNSEEN.c.since, UNSEEN.c.until, UNSEEN.c.last_seen).where(
            UNSEEN.c.kind == kind.name, UNSEEN.c.target.in_(some), UNSEEN.c.since < span.end,
            or_(UNSEEN.c.until.is_(None), UNSEEN.c.until > span.start),
        )  # fmt: skip
        for target, since, until, last in connection.execute(query):
            found[target].append((since, FOREVER if until is None else until, last))
    return found
