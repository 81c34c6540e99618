"""The market of a book's offers by GPU, as :func:`engine.ladders.market` makes it of them all. Of offers that are alike in all but price
and place only the cheapest can be rented for less, so only that one becomes a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from operator import itemgetter
from typing import Any

from engine.ladders import Ladder, Market, ladder, market
from engine.offers import GpuOffer, OfferPolicy
from tracker.book.asof import Row
from tracker.book.cheapest import Shape, names
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
    TERM_MONTHS,
    TIER,
    TRUST,
)
from tracker.database.schema import RENT_SCALE

_alike = (GPU, GPU_COUNT, MAX_GPU_COUNT, CURRENCY, PRICE_KIND, TIER, TRUST, AVAILABILITY)
_form = itemgetter(GPU_COUNT, MAX_GPU_COUNT, PRICE_KIND)


def market_of(entries: Entries[GpuOffer], policy: OfferPolicy) -> Market:
    """The offers as the policy sees them."""
    if policy.seen_since is not None or policy.at is not None:  # it looks at moments, which offers that are alike do not share
        return market((entry.value for entry in entries), policy)
    split = _Split(entries, policy)
    return Market(Eligible(split), Refused(split))


def alike(policy: OfferPolicy) -> tuple[int, ...]:
    """The fields in which offers are alike to a policy, but for price and place."""
    return (*_alike, *_asked(policy))


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


@dataclass(slots=True)
class _Split:
    """The cheapest rows by GPU and refusal: parted for the GPUs that somebody asks for."""

    entries: Entries[GpuOffer]
    policy: OfferPolicy
    _by_gpu: dict[str, list[tuple[Shape, Row]]] = field(default_factory=dict)
    _words: dict[Shape, str] = field(default_factory=dict)
    _found: dict[str, dict[str, list[Row]]] = field(default_factory=dict)

    @property
    def gpus(self) -> Mapping[str, Sequence[tuple[Shape, Row]]]:
        """The cheapest offers of each GPU, one of a shape."""
        if not self._by_gpu:
            by_gpu: dict[str, list[tuple[Shape, Row]]] = {}
            for shape, row in self.entries.cheapest(*alike(self.policy)).items():
                by_gpu.setdefault(shape[0], []).append((shape, row))
            self._by_gpu = by_gpu
        return self._by_gpu

    def of(self, gpu: str) -> Mapping[str, Sequence[Row]]:
        """By refusal; "" is none."""
        found = self._found.get(gpu)
        if found is None:
            found = {}
            for shape, row in self.gpus.get(gpu, ()):
                found.setdefault(self._refusal(shape, row), []).append(row)
            self._found[gpu] = found
        return found

    def _refusal(self, shape: Shape, row: Row) -> str:
        said = shape[4:]  # all that the policy looks at
        if said not in self._words:
            self._words[said] = self.policy.refusal(self.entries.reading.listed(row).value)
        return self._words[said]

    def ladder(self, rows: Iterable[Row]) -> Ladder:
        """Of offers of one GPU: of the cheapest in each form in which it is sold."""
        forms, reading = dict[Shape, tuple[Shape, Row]](), self.entries.reading
        for row in rows:
            form, told = _form(row), (_order(row, reading), row)
            if form not in forms or told < forms[form]:
                forms[form] = told
        return ladder([reading.listed(row).value for _, row in forms.values()])


def _order(row: Row, reading: Reading[GpuOffer]) -> tuple[Any, ...]:
    price: int | Decimal = row[PRICE] if row[CURRENCY] == "USD" else usd_per_hour(row, reading) * RENT_SCALE
    return (price, *names(row))


@dataclass(slots=True)
class Eligible(Mapping[str, Ladder]):
    """Ladders of what is admitted, by GPU: made when somebody asks for that GPU."""

    split: _Split
    _made: dict[str, Ladder] = field(default_factory=dict)

    def __getitem__(self, gpu: str) -> Ladder:
        found = self._made.get(gpu)
        return self._made.setdefault(gpu, self.split.ladder(self.split.of(gpu)[""])) if found is None else found

    def __contains__(self, gpu: object) -> bool:
        return isinstance(gpu, str) and "" in self.split.of(gpu)

    def __iter__(self) -> Iterator[str]:
        return filter(self.__contains__, self.split.gpus)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(slots=True)
class Refused(Mapping[str, Mapping[str, Ladder]]):
    """Ladders of what was refused, by GPU and reason: made when somebody asks why."""

    split: _Split
    _made: dict[str, dict[str, Ladder]] = field(default_factory=dict)

    def __getitem__(self, gpu: str) -> Mapping[str, Ladder]:
        if gpu not in self.split.gpus:
            raise KeyError(gpu)
        found = self._made.get(gpu)
        if found is None:
            made = {why: self.split.ladder(rows) for why, rows in self.split.of(gpu).items() if why}
            found = self._made.setdefault(gpu, made)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.split.gpus)

    def __len__(self) -> int:
        return len(self.split.gpus)
