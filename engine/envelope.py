"""The cheapest plan at every volume: the lower envelope of the API's line and of every rental's, as data for a chart.

Every plan's cost is a line between the volumes at which an hour fills its replicas up. Between two such volumes the envelope is that
of a few lines, because the best number of replicas never falls as the volume grows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

from engine.exact import Number, to_decimal
from engine.plans import Demand, PlanKind, Rental, best_replicas, hourly_capacity, own_tokens, plan_usd, replicas_for_all

CHART_REPLICAS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """From one volume to the next one plan is the cheapest and its cost a straight line. Tokens and USD a month."""

    kind: PlanKind
    rental: Rental | None
    replicas: int
    from_tokens: Decimal
    to_tokens: Decimal
    from_usd: Decimal
    to_usd: Decimal


@dataclass(frozen=True, slots=True)
class _Line:
    rental: Rental | None
    replicas: int
    start: Fraction  # USD at the left end
    slope: Fraction  # USD a token
    kind: PlanKind

    def at(self, offset: Fraction) -> Fraction:
        return self.start + self.slope * offset


def envelope(demand: Demand, rentals: Iterable[Rental], up_to_tokens: Number, *, max_replicas: int = CHART_REPLICAS) -> tuple[Segment, ...]:
    """Segments from volume 0 to ``up_to_tokens`` with rising volumes; the demand's own volume is not used.

    At a jump the segment begins just above the volume. A rental uses at most ``max_replicas``; the rest goes to the API, and where
    no API sells the model, the envelope ends.
    """
    known = tuple(rentals)
    edges = _edges(demand, known, Fraction(up_to_tokens), max_replicas)
    parts = [part for low, high in pairwise(edges) for part in _between(demand, known, low, high, max_replicas)]
    return tuple(_merged(parts))


def _edges(demand: Demand, rentals: Sequence[Rental], last: Fraction, max_replicas: int) -> list[Fraction]:
    """Volumes at which some hour fills r replicas of some rental, ends included."""
    edges = {Fraction(0), last}
    for rental in rentals:
        for weight, _ in demand.weights():
            step = hourly_capacity(demand, rental) / weight
            edges |= {step * r for r in range(1, min(max_replicas, int(last / step)) + 1)}
    return sorted(edges)


def _between(demand: Demand, rentals: Sequence[Rental], low: Fraction, high: Fraction, max_replicas: int) -> Iterator[Segment]:
    """The envelope where every cost is a line: from the lowest at the left, on to whichever comes below it first."""
    lines = list(_lines(demand, rentals, low, high, max_replicas))
    at, end = Fraction(0), high - low
    current = min(lines, key=lambda line: (line.start, line.slope), default=None)
    while current is not None and at < end:
        crossings = [(_crossing(current, line), line.slope, line) for line in lines if line.slope < current.slope]
        until, _, following = min(crossings, key=lambda crossing: crossing[:2], default=(end, Fraction(0), None))
        until = min(until, end)
        if until > at:
            yield _segment(current, low, at, until)
        at, current = until, following


def _lines(demand: Demand, rentals: Sequence[Rental], low: Fraction, high: Fraction, max_replicas: int) -> Iterator[_Line]:
    middle = (low + high) / 2
    if demand.api_usd_per_mtok is not None:
        yield _line(demand, None, 0, low, middle)
    for rental in rentals:
        for replicas in _counts(demand, rental, low, high, max_replicas):
            yield _line(demand, rental, replicas, low, middle)


def _counts(demand: Demand, rental: Rental, low: Fraction, high: Fraction, max_replicas: int) -> list[int]:
    """Numbers of replicas that can be the best of the rental anywhere between the volumes."""
    needed = replicas_for_all(demand, rental, high)
    counts = {needed} if needed <= max_replicas else set()
    if demand.api_usd_per_mtok is not None:
        least, most = (best_replicas(demand, rental, max_replicas, tokens, fixed=False) for tokens in (low, high))
        counts |= set(range(max(1, least), most + 1))
    return sorted(counts)


def _line(demand: Demand, rental: Rental | None, replicas: int, low: Fraction, middle: Fraction) -> _Line:
    """The cost's line through two inner points; at the left end itself it may still be on the step below."""
    quarter = (low + middle) / 2
    usd = plan_usd(demand, rental, replicas, middle)
    slope = (usd - plan_usd(demand, rental, replicas, quarter)) / (middle - quarter)
    full = rental is not None and own_tokens(demand, rental, replicas, middle) == middle
    kind: PlanKind = "api" if rental is None else ("self_host" if full else "hybrid")
    return _Line(rental, replicas, usd - slope * (middle - low), slope, kind)


def _crossing(current: _Line, other: _Line) -> Fraction:
    """Offset from the left end at which the other, less steep, line comes below."""
    return (other.start - current.start) / (current.slope - other.slope)


def _segment(line: _Line, low: Fraction, at: Fraction, until: Fraction) -> Segment:
    return Segment(
        kind=line.kind,
        rental=line.rental,
        replicas=line.replicas,
        from_tokens=to_decimal(low + at),
        to_tokens=to_decimal(low + until),
        from_usd=to_decimal(line.at(at)),
        to_usd=to_decimal(line.at(until)),
    )


def _merged(parts: Iterable[Segment]) -> Iterator[Segment]:
    """Neighbours of one plan on one line as one segment."""
    held: Segment | None = None
    for part in parts:
        if held is not None and _continues(held, part):
            held = Segment(
                kind=held.kind,
                rental=held.rental,
                replicas=held.replicas,
                from_tokens=held.from_tokens,
                to_tokens=part.to_tokens,
                from_usd=held.from_usd,
                to_usd=part.to_usd,
            )
            continue
        if held is not None:
            yield held
        held = part
    if held is not None:
        yield held


def _continues(held: Segment, part: Segment) -> bool:
    same = (held.kind, held.rental, held.replicas, held.to_usd) == (part.kind, part.rental, part.replicas, part.from_usd)
    first = Fraction(held.to_usd - held.from_usd) * Fraction(part.to_tokens - part.from_tokens)
    second = Fraction(part.to_usd - part.from_usd) * Fraction(held.to_tokens - held.from_tokens)
    return same and first == second
