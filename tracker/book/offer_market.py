"""The market of a book's offers by GPU, as :func:`engine.ladders.market` makes it of them all. Of offers that are alike in all but price
and place only the cheapest can be rented for less, so only that one becomes a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from operator import itemgetter
from typing import Any

from engine.ladders import Ladder, Market, ladder, market
from engine.offers import GpuOffer, OfferPolicy
from tracker.book.asof import ID, SOURCE, Row
from tracker.book.entries import Entries, Reading
from tracker.book.entry_values import usd_per_hour
from tracker.book.row_fields import (
    AVAILABILITY,
    CURRENCY,
    GPU,
    GPU_COUNT,
    INTERCONNECT,
    MAX_GPU_COUNT,
    PRICE,
    PRICE_KIND,
    PROVIDER,
    REGION,
    SKU,
    TERM_MONTHS,
    TIER,
    TRUST,
)
from tracker.database.schema import RENT_SCALE

Shape = tuple[Any, ...]

_alike = (GPU, GPU_COUNT, MAX_GPU_COUNT, CURRENCY, PRICE_KIND, TIER, TRUST, AVAILABILITY)
_names = itemgetter(PROVIDER, SKU, REGION, SOURCE)
_form = itemgetter(GPU_COUNT, MAX_GPU_COUNT, PRICE_KIND)


def market_of(entries: Entries[GpuOffer], policy: OfferPolicy) -> Market:
    """The offers as the policy sees them."""
    if policy.seen_since is not None or policy.at is not None:  # it looks at moments, which offers that are alike do not share
        return market((entry.value for entry in entries), policy)
    split = _refusals(entries, policy, _cheapest(entries.rows, itemgetter(*_alike, *_asked(policy))))
    eligible = {gpu: by_refusal[""] for gpu, by_refusal in split.items() if "" in by_refusal}
    refused = {gpu: {why: rows for why, rows in by_refusal.items() if why} for gpu, by_refusal in split.items()}
    return Market({gpu: _ladder(rows, entries.reading) for gpu, rows in eligible.items()}, Refused(refused, entries.reading))


def _asked(policy: OfferPolicy) -> Iterator[int]:
    """What else the policy looks at."""
    if policy.providers is not None or policy.excluded_providers:
        yield PROVIDER
    if policy.regions is not None:
        yield REGION
    if policy.interconnects is not None:
        yield INTERCONNECT
    if policy.max_term_months is not None:
        yield TERM_MONTHS


def _cheapest(rows: Iterable[Row], alike: itemgetter[Shape]) -> dict[Shape, Row]:
    """The cheapest row of those that are alike; of equal ones the first by names, then in the order of the book."""
    best: dict[Shape, Row] = {}
    for row in rows:
        shape = alike(row)
        held = best.get(shape)
        if held is None or row[PRICE] < held[PRICE] or (row[PRICE] == held[PRICE] and _names(row) < _names(held)):
            best[shape] = row
    return best


def _refusals(entries: Entries[GpuOffer], policy: OfferPolicy, best: Mapping[Shape, Row]) -> dict[str, dict[str, dict[Shape, Row]]]:
    """By GPU and refusal the cheapest row of each form in which it is sold."""
    words: dict[Shape, str] = {}
    split: dict[str, dict[str, dict[Shape, Row]]] = {}
    for shape, row in best.items():
        said = shape[4:]  # all that the policy looks at
        if said not in words:
            words[said] = policy.refusal(entries.reading.listed(row).value)
        rows, form = split.setdefault(row[GPU], {}).setdefault(words[said], {}), _form(row)
        if form not in rows or _is_cheaper(row, rows[form], entries):
            rows[form] = row
    return split


def _is_cheaper(row: Row, held: Row, entries: Entries[GpuOffer]) -> bool:
    one, other = _order(row, entries.reading), _order(held, entries.reading)
    if one != other:
        return one < other
    places = {row[ID]: place for place, row in enumerate(entries.rows)}  # alike in their price and all their names: the first one
    return places[row[ID]] < places[held[ID]]


def _order(row: Row, reading: Reading[GpuOffer]) -> tuple[Any, ...]:
    price: int | Decimal = row[PRICE] if row[CURRENCY] == "USD" else usd_per_hour(row, reading) * RENT_SCALE
    return (price, *_names(row))


def _ladder(rows: Mapping[Shape, Row], reading: Reading[GpuOffer]) -> Ladder:
    return ladder([reading.listed(row).value for row in rows.values()])


@dataclass(slots=True)
class Refused(Mapping[str, Mapping[str, Ladder]]):
    """Ladders of what was refused, by GPU and reason: made when somebody asks why."""

    rows: Mapping[str, Mapping[str, Mapping[Shape, Row]]]
    reading: Reading[GpuOffer]
    _made: dict[str, dict[str, Ladder]] = field(default_factory=dict)

    def __getitem__(self, gpu: str) -> Mapping[str, Ladder]:
        found = self._made.get(gpu)
        if found is None:
            made = {why: _ladder(rows, self.reading) for why, rows in self.rows[gpu].items()}
            found = self._made.setdefault(gpu, made)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)
