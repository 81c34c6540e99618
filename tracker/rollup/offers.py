"""Rental prices of a source by UTC day: least, median, most and number of offers for each provider, GPU, count and tier.

A price counts for the moments at which the book of that moment held it fresh: from its sighting until the next one, as long as the
source's age limit at most. So a price that holds over midnight counts on every day it was known to hold, a change or not, and hours
that no sweep covered count for nothing. Imported rows have no coverage: they count between their own sightings at one price.

- Prices are native, per GPU and hour, rounded half to even at 1e-9; USD is worked out by whoever reads, at the rate of the day.
- The median weighs by time: of all the time that all offers were known to hold that day, at least half was at that price or below.
  A price that flickers for a minute weighs a minute, an offer that is listed all day a day.
- Those that can be rented: somebody vouches for the machine, it is no slice, its price is one to buy at, it is not sold out. What is
  said of an offer today decides for its whole past.
- An offer that is sold at several counts (one to eight) counts at each of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, and_, func, or_, select

from engine.offers import FIRM, VOUCHED_FOR
from tracker.book.listing import GOOD, OFFER, OFFER_POINT, SWEEP, UNSEEN
from tracker.book.spans import DAY_S, FOREVER, Span, by_day, lower_median, merged, within, without
from tracker.database.rows import UNAVAILABLE

COUNTS = (1, 2, 4, 8, 16)
_SAME = ("provider", "sku", "region", "gpu", "gpu_count", "tier", "term_months", "trust")  # of which one dated price is in force

Group = tuple[str, str, int, str, str]  # provider, gpu, count, tier, currency


@dataclass(frozen=True, slots=True)
class Figures:
    """One day of a group, 1e-9 native per GPU and hour. ``held_s``: how long its prices were known to hold, all offers together."""

    least: int
    median: int
    most: int
    offers: int
    held_s: int


@dataclass(frozen=True, slots=True)
class _State:
    """An offer from one point to the next; ``price`` is None while it is gone."""

    start: int
    end: int
    price: int | None
    availability: int
    max_gpu_count: int | None
    confirmed: bool  # the next point is equal: an imported price held in between


@dataclass(slots=True)
class _Day:
    held: dict[int, int] = field(default_factory=lambda: defaultdict(int))  # price -> s
    offers: int = 0

    @property
    def figures(self) -> Figures:
        """What is kept of it."""
        return Figures(min(self.held), lower_median(self.held), max(self.held), self.offers, sum(self.held.values()))


def source_days(
    connection: Connection, source: str, limit: int | None, first: int, last: int, until: int
) -> dict[tuple[Group, int], Figures]:
    """Figures by group and day, of the days ``first`` to ``last`` as far as ``until`` (s). ``limit``: age limit in s; None: imported."""
    start, end = first * DAY_S, min((last + 1) * DAY_S, until)
    states, offers = _states(connection, source, start, end), _offers(connection, source)
    covered = _covered(connection, source, limit, start, end)
    absent = _absent(connection, source, limit, start, end)
    days: dict[tuple[Group, int], _Day] = defaultdict(_Day)
    for id_, eligible in _in_force(offers, states):
        if not _can_be_rented(offers[id_]):
            continue
        _count_offer(days, offers[id_], _held(states[id_], eligible, covered, absent.get(id_, ()), limit, start, end))
    return {key: day.figures for key, day in days.items()}


def _held(
    states: Sequence[_State], eligible: Sequence[Span] | None, covered: Sequence[Span], absent: Sequence[Span], limit: int | None,
    start: int, end: int,
) -> Iterator[tuple[_State, Span]]:  # fmt: skip
    """Spans of [start, end) in which each state of an offer was known to hold."""
    for state in states:
        if state.price is None or state.availability == UNAVAILABLE:
            continue
        if limit is None:
            known = [(state.start, state.end if state.confirmed else state.start + 1)]
        else:
            known = merged([*within(covered, state.start, state.end), (state.start, min(state.end, state.start + limit + 1))])
        known = without(within(known, start, end), absent)
        if eligible is not None:
            known = [piece for span in eligible for piece in within(known, *span)]
        yield from ((state, span) for span in known)


def _count_offer(days: dict[tuple[Group, int], _Day], offer: Mapping[str, Any], held: Iterable[tuple[_State, Span]]) -> None:
    seen: set[tuple[Group, int]] = set()
    for state, span in held:
        price = per_gpu(state.price or 0, offer["gpu_count"])
        for count in counts(offer["gpu_count"], state.max_gpu_count):
            group = (offer["provider"], offer["gpu"], count, offer["tier"], offer["currency"])
            for day, length in by_day([span]):
                days[group, day].held[price] += length
                seen.add((group, day))
    for key in seen:
        days[key].offers += 1


def per_gpu(price: int, gpu_count: int) -> int:
    """A price of the whole offer for one of its GPUs, half to even."""
    whole, rest = divmod(price, gpu_count)
    return whole + (rest * 2 > gpu_count or (rest * 2 == gpu_count and whole % 2 == 1))


def counts(gpu_count: int, max_gpu_count: int | None) -> list[int]:
    """Which of COUNTS an offer is sold at: each stands for itself and those below the next."""
    most = max(gpu_count, max_gpu_count or gpu_count)
    above = (*COUNTS[1:], FOREVER)
    return [count for count, following in zip(COUNTS, above, strict=True) if count <= most and gpu_count < following]


def _can_be_rented(offer: Mapping[str, Any]) -> bool:
    return offer["trust"] in VOUCHED_FOR and not offer["is_slice"] and offer["price_kind"] in FIRM


def _in_force(offers: Mapping[int, Mapping[str, Any]], states: Mapping[int, Sequence[_State]]) -> Iterator[tuple[int, list[Span] | None]]:
    """Every offer with the spans in which it is the one in force of its dated prices; None: always."""
    groups: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for id_ in sorted(states):
        groups[tuple(offers[id_][name] for name in _SAME)].append(id_)
    for ids in groups.values():
        if len(ids) == 1 and offers[ids[0]]["valid_from"] is None:
            yield ids[0], None
        else:
            yield from _dated(ids, offers, states)


def _dated(
    ids: Sequence[int], offers: Mapping[int, Mapping[str, Any]], states: Mapping[int, Sequence[_State]]
) -> Iterator[tuple[int, list[Span]]]:
    """Of those listed at a moment, the one whose price began last is in force. An undated price begins when it is observed."""
    begun: list[tuple[int, int, Span]] = []  # began, id, span
    for id_ in ids:
        for state in states[id_]:
            began = state.start if offers[id_]["valid_from"] is None else offers[id_]["valid_from"]
            if state.price is not None:
                begun.append((began, id_, (max(state.start, began), state.end)))
    for id_ in ids:
        own = [(began, span) for began, whose, span in begun if whose == id_]
        yield (
            id_,
            merged(
                piece
                for began, span in own
                for piece in without([span] if span[0] < span[1] else [], [s for b, w, s in begun if w != id_ and (b, w) > (began, id_)])
            ),
        )


# --- what is read ---------------------------------------------------------------------------------------------------------


def _offers(connection: Connection, source: str) -> dict[int, Mapping[str, Any]]:
    return {row["id"]: dict(row) for row in connection.execute(select(OFFER).where(OFFER.c.source == source)).mappings()}


def _states(connection: Connection, source: str, start: int, end: int) -> dict[int, list[_State]]:
    """What each offer was from point to point within [start, end), the one in force at its beginning first."""
    mine = OFFER_POINT.join(OFFER, OFFER.c.id == OFFER_POINT.c.offer_id)
    of = OFFER_POINT.alias("of")
    before = select(func.max(of.c.at)).where(of.c.offer_id == OFFER.c.id, of.c.at < start).correlate(OFFER).scalar_subquery()
    after = select(func.min(of.c.at)).where(of.c.offer_id == OFFER.c.id, of.c.at >= end).correlate(OFFER).scalar_subquery()
    wanted = or_(and_(OFFER_POINT.c.at >= start, OFFER_POINT.c.at < end), OFFER_POINT.c.at == before, OFFER_POINT.c.at == after)
    query = select(OFFER_POINT).select_from(mine).where(OFFER.c.source == source, wanted)
    points: dict[int, list[tuple[int, Any]]] = defaultdict(list)
    for id_, at, *values in connection.execute(query.order_by(OFFER_POINT.c.offer_id, OFFER_POINT.c.at)):
        points[id_].append((at, tuple(values)))
    return {id_: [_state(found, place) for place in range(len(found)) if found[place][0] < end] for id_, found in points.items()}


def _state(points: Sequence[tuple[int, Any]], place: int) -> _State:
    at, values = points[place]
    following = points[place + 1] if place + 1 < len(points) else (FOREVER, None)
    price, availability, max_gpu_count = values
    return _State(at, following[0], price, availability, max_gpu_count, following[1] == values)


def _covered(connection: Connection, source: str, limit: int | None, start: int, end: int) -> list[Span]:
    """When a whole sweep vouched for everything the source listed."""
    if limit is None:
        return []
    query = select(SWEEP.c.at).where(
        SWEEP.c.source == source, SWEEP.c.complete.is_(True), SWEEP.c.status.in_(GOOD), SWEEP.c.at >= start - limit, SWEEP.c.at < end
    )
    return merged((at, at + limit + 1) for at in connection.execute(query).scalars())


def _absent(connection: Connection, source: str, limit: int | None, start: int, end: int) -> dict[int, list[Span]]:
    """When a listed price was not printed and its own last sighting was too old."""
    query = (
        select(UNSEEN.c.target, UNSEEN.c.since, UNSEEN.c.until, UNSEEN.c.last_seen)
        .join(OFFER, OFFER.c.id == UNSEEN.c.target)
        .where(UNSEEN.c.kind == "offer", OFFER.c.source == source, UNSEEN.c.since < end)
        .where(or_(UNSEEN.c.until.is_(None), UNSEEN.c.until > start))
    )
    found: dict[int, list[Span]] = defaultdict(list)
    for target, since, until, last_seen in connection.execute(query) if limit is not None else ():
        found[target].append((max(since, last_seen + (limit or 0) + 1), FOREVER if until is None else until))
    return found
