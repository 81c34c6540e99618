"""Several sources of one provider: which one is believed, and how far they are apart.

For each tier and region a provider's own interface is believed before catalogues and aggregators; ``[precedence]`` of tracker.toml
says otherwise. Prices are compared where two fresh sources list the same GPUs, tier and region; the spread is a metric, and never
an average.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from itertools import compress
from operator import itemgetter
from typing import Any

from engine.offers import GpuOffer
from engine.rates import Conditions, TokenRate
from tracker.book.asof import IMPORTED, SOURCE, Row
from tracker.book.entries import Entries, Reading
from tracker.book.entry_values import usd_per_hour
from tracker.book.row_fields import (
    GPU,
    GPU_COUNT,
    IS_SLICE,
    MODEL,
    PROVIDER,
    RATE_REGION,
    RATE_SKU,
    REGION,
    SELLER,
    TERM_MONTHS,
    TIER,
    TRUST,
)  # fmt: skip
from tracker.book.stated import STATED

Thing = tuple[Any, ...]

LOT = (SOURCE, PROVIDER, TIER, REGION)
_lot = itemgetter(*LOT)
_thing = itemgetter(PROVIDER, GPU, GPU_COUNT, TIER, TERM_MONTHS, TRUST, REGION)
_what = itemgetter(PROVIDER, GPU)
_listing = itemgetter(SELLER, MODEL, RATE_SKU, RATE_REGION)
_ZONE = re.compile(r"-[a-z]$")  # one catalogue prints us-central1-a where another prints us-central1


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """Two fresh sources that print different prices. ``ratio`` is (highest - lowest) / lowest of the widest pair."""

    provider: str
    what: str  # gpu, model
    sources: tuple[str, ...]
    ratio: Decimal


def preferred_offers(entries: Entries[GpuOffer], precedence: Mapping[str, Sequence[str]]) -> Entries[GpuOffer]:
    """Offers of one source for each provider, tier and region; of imported rows about the same thing, the one seen last."""
    reading, rows = entries.reading, entries.rows
    live, imported = rows, []
    if reading.given or any(source.startswith(IMPORTED) for source in entries.every(SOURCE)):
        live, imported = ([row for row in rows if reading.imported(row) is wanted] for wanted in (False, True))
    unheard = _unheard(live, entries.every(*LOT) if live is rows else set(map(_lot, live)), reading, precedence)
    newest: dict[Thing, Row] = {}
    for row in imported:
        if (key := _thing(row)) not in newest or reading.seen_at(row) > reading.seen_at(newest[key]):
            newest[key] = row
    if not unheard:
        return entries if live is rows else Entries((*live, *newest.values()), reading)
    heard = (row for row, lot in zip(live, map(_lot, live), strict=True) if lot not in unheard)
    return Entries((*heard, *newest.values()), reading)


def _unheard(rows: Sequence[Row], lots: Iterable[Thing], reading: Reading[GpuOffer], precedence: Mapping[str, Sequence[str]]) -> set[Thing]:
    """Source, provider, tier and region of what another source speaks for: a fresh one before a stale one, then by precedence.

    Not by the provider alone: one source may list regions or tiers that the others lack.
    """
    contested = _contested(frozenset(lots))
    fresh = _fresh_lots(rows, reading, {lot for rivals in contested for lot in rivals})
    unheard: set[Thing] = set()
    for rivals in contested:
        speaks = min(_rank(lot, fresh, precedence) for lot in rivals)[-1]
        unheard |= {lot for lot in rivals if lot[0] != speaks}
    return unheard


@lru_cache(maxsize=8)
def _contested(lots: frozenset[Thing]) -> tuple[frozenset[Thing], ...]:
    """Those of several sources for one place."""
    places: dict[Thing, set[Thing]] = {}
    for lot in lots:
        if lot[0] != STATED:
            places.setdefault(place_of(*lot[1:]), set()).add(lot)
    return tuple(frozenset(rivals) for rivals in places.values() if len({lot[0] for lot in rivals}) > 1)


def _fresh_lots(rows: Sequence[Row], reading: Reading[GpuOffer], wanted: set[Thing]) -> set[Thing]:
    """Those with a fresh offer."""
    fresh: set[Thing] = set()
    for row, lot in zip(rows, map(_lot, rows), strict=True) if wanted else ():
        if lot in wanted and lot not in fresh and reading.fresh(row):
            fresh.add(lot)
    return fresh


def _rank(lot: Thing, fresh: set[Thing], precedence: Mapping[str, Sequence[str]]) -> tuple[bool, int, bool, str]:
    source, provider, *_ = lot
    return (lot not in fresh, *rank_of(source, provider, precedence))


def rank_of(source: str, provider: str, precedence: Mapping[str, Sequence[str]]) -> tuple[int, bool, str]:
    """How far behind others a source of a provider is believed; the lowest is believed first."""
    stated = precedence.get(provider, ())
    return (stated.index(source) if source in stated else len(stated), source != provider, source)


def place_of(provider: str, tier: str, region: str) -> Thing:
    """What one source speaks for: a provider's tier and region, whatever zone of it."""
    return (provider, tier, _ZONE.sub("", region))


def offer_disagreements(entries: Entries[GpuOffer]) -> tuple[Disagreement, ...]:
    """Where fresh sources of one provider differ about the same GPUs, the widest for each provider and GPU."""
    told = _told_twice(frozenset(entries.every(SOURCE, PROVIDER, GPU)))
    prices: dict[Thing, dict[str, Decimal]] = {}
    for row in _those(entries.rows, _what, told):
        if not row[IS_SLICE] and entries.reading.fresh(row):
            found, usd = prices.setdefault(_thing(row), {}), usd_per_hour(row, entries.reading)
            found[row[SOURCE]] = min(found.get(row[SOURCE], usd), usd)
    return _widest((key[0], key[1], by_source) for key, by_source in prices.items())


def rate_disagreements(entries: Entries[TokenRate]) -> tuple[Disagreement, ...]:
    """Where fresh sources differ about one provider's rate of a model, over input, cached input and output."""
    told = _told_twice(frozenset(entries.every(SOURCE, SELLER, MODEL, RATE_SKU, RATE_REGION)))
    prices: dict[Thing, dict[str, Decimal]] = {}
    for row in _those(entries.rows, _listing, told):
        if not entries.reading.fresh(row):
            continue
        rate = entries.reading.listed(row).value
        if rate.conditions != Conditions():
            continue
        for kind in ("input", "cache_read", "output"):
            price = getattr(rate.usd, kind)
            if price is not None and price > 0:
                prices.setdefault((rate.provider, rate.model, rate.sku, rate.region, kind), {})[rate.source] = price
    return _widest((key[0], key[1], by_source) for key, by_source in prices.items())


@lru_cache(maxsize=8)
def _told_twice(listed: frozenset[Thing]) -> frozenset[Thing]:
    """Of what is listed, each behind the source that does, what several sources list."""
    return frozenset(what for what, sources in Counter(key[1:] for key in listed).items() if sources > 1)


def _those(rows: Sequence[Row], what: Callable[[Row], Thing], wanted: frozenset[Thing]) -> Iterable[Row]:
    return compress(rows, map(wanted.__contains__, map(what, rows))) if wanted else ()


def _widest(found: Iterable[tuple[str, str, Mapping[str, Decimal]]]) -> tuple[Disagreement, ...]:
    widest: dict[tuple[str, str], Disagreement] = {}
    for provider, what, by_source in found:
        if len(by_source) < 2:
            continue
        low, high = min(by_source.values()), max(by_source.values())
        one = Disagreement(provider=provider, what=what, sources=tuple(sorted(by_source)), ratio=(high - low) / low)
        if (provider, what) not in widest or one.ratio > widest[provider, what].ratio:
            widest[provider, what] = one
    return tuple(widest[key] for key in sorted(widest))
