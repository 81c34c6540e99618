"""The cheapest plan at every volume: the lower envelope of the API's line and of every rental's, as data for a chart.

The cost of r replicas beside the API is a chain of lines: with every volume at which one more hour of the week is full, another hour's
tokens go to the API. Chains are joined two by two, the lower one at each volume.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

from engine.exact import Number, to_decimal
from engine.plans import Demand, PlanKind, Rental, hourly_capacity
from engine.units import MTOK

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
class _Piece:
    """A line from volume ``low`` to ``high``: ``usd`` at volume 0, whether the line reaches it or not."""

    low: Fraction
    high: Fraction
    usd: Fraction
    slope: Fraction  # USD a token
    kind: PlanKind
    rental: Rental | None
    replicas: int

    def at(self, tokens: Fraction) -> Fraction:
        return self.usd + self.slope * tokens


def envelope(demand: Demand, rentals: Iterable[Rental], up_to_tokens: Number, *, max_replicas: int = CHART_REPLICAS) -> tuple[Segment, ...]:
    """Segments from volume 0 to ``up_to_tokens`` with rising volumes; the demand's own volume is not used.

    At a jump the segment begins just above the volume. A rental uses at most ``max_replicas``; the rest goes to the API, and where
    no API sells the model, the envelope ends. Of equal costs the API comes first, then rentals in their order and fewer replicas.
    """
    last = Fraction(up_to_tokens)
    chains = [] if demand.api_usd_per_mtok is None else [[_Piece(Fraction(0), last, Fraction(0), _api(demand), "api", None, 0)]]
    for rental in rentals:
        chains += [list(_chain(demand, rental, count, last)) for count in range(1, _most(demand, rental, last, max_replicas) + 1)]
    return tuple(_segment(piece) for piece in _joined(_lowest(chains)))


def _api(demand: Demand) -> Fraction:
    """USD a token at the API."""
    return Fraction(demand.api_usd_per_mtok or 0) / MTOK


def _most(demand: Demand, rental: Rental, last: Fraction, max_replicas: int) -> int:
    """More replicas than serve the busiest hour of the largest volume never pay."""
    busiest = demand.weights()[0][0] * last
    return min(max_replicas, -int(-busiest // hourly_capacity(demand, rental)))


def _chain(demand: Demand, rental: Rental, replicas: int, last: Fraction) -> Iterator[_Piece]:
    """Cost of the replicas with the API for what they cannot serve; without an API it ends where the busiest hour is full."""
    usd = replicas * rental.rent + Fraction(demand.fixed_usd_per_month)
    own, api = Fraction(rental.marginal_usd_per_mtok) / MTOK, _api(demand)
    most = replicas * hourly_capacity(demand, rental)  # tokens of one hour of the week, a month
    low, slope = Fraction(0), own
    kind: PlanKind = "self_host"
    for weight, hours in demand.weights():
        high = min(last, most / weight)
        if high > low:
            yield _Piece(low, high, usd, slope, kind, rental, replicas)
        if high == last or demand.api_usd_per_mtok is None:
            return
        low, kind = max(low, high), "hybrid"
        usd += hours * most * (own - api)  # these hours are full from here on: what they serve is constant, the rest is the API's
        slope += hours * weight * (api - own)
    yield _Piece(low, last, usd, slope, "hybrid", rental, replicas)


def _lowest(chains: Sequence[list[_Piece]]) -> list[_Piece]:
    """The lower envelope of chains, joined two by two; of equal ones the earlier."""
    if len(chains) <= 1:
        return list(chains[0]) if chains else []
    middle = len(chains) // 2
    return list(_lower(_lowest(chains[:middle]), _lowest(chains[middle:])))


def _lower(first: list[_Piece], second: list[_Piece]) -> Iterator[_Piece]:
    """At every volume the lower of two chains from 0 on; beyond the end of one, the other."""
    one, two, low = 0, 0, Fraction(0)
    while one < len(first) and two < len(second):
        a, b = first[one], second[two]
        high = min(a.high, b.high)
        yield from _lower_of(a, b, low, high)
        one, two, low = one + (a.high == high), two + (b.high == high), high
    rest = [*first[one:], *second[two:]]
    yield from (replace(piece, low=max(piece.low, low)) for piece in rest)


def _lower_of(a: _Piece, b: _Piece, low: Fraction, high: Fraction) -> Iterator[_Piece]:
    """The lower of two lines between two volumes: one of them, or both where they cross."""
    left, right = a.at(low) - b.at(low), a.at(high) - b.at(high)
    if left * right < 0:
        cross = low + (high - low) * left / (left - right)
        before, after = (a, b) if left < 0 else (b, a)
        yield replace(before, low=low, high=cross)
        yield replace(after, low=cross, high=high)
    else:
        yield replace(a if left + right <= 0 else b, low=low, high=high)


def _joined(pieces: Iterable[_Piece]) -> Iterator[_Piece]:
    """Neighbours on one line of one plan as one piece."""
    held: _Piece | None = None
    for piece in pieces:
        if held is not None and replace(piece, low=held.low, high=held.high) == held:
            held = replace(held, high=piece.high)
            continue
        if held is not None:
            yield held
        held = piece
    if held is not None:
        yield held


def _segment(piece: _Piece) -> Segment:
    return Segment(
        kind=piece.kind,
        rental=piece.rental,
        replicas=piece.replicas,
        from_tokens=to_decimal(piece.low),
        to_tokens=to_decimal(piece.high),
        from_usd=to_decimal(piece.at(piece.low)),
        to_usd=to_decimal(piece.at(piece.high)),
    )
