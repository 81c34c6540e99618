"""Several sources of one provider: which one is believed, and how far they are apart.

For each tier and region a provider's own interface is believed before catalogues and aggregators; ``[precedence]`` of tracker.toml
says otherwise. Prices are compared where two fresh sources list the same GPUs, tier and region; the spread is a metric, and never
an average.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from engine.offers import GpuOffer
from engine.rates import Conditions, TokenRate
from tracker.book import Listed
from tracker.stated import STATED

Thing = tuple[str, ...]

_ZONE = re.compile(r"-[a-z]$")  # one catalogue prints us-central1-a where another prints us-central1


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """Two fresh sources that print different prices. ``ratio`` is (highest - lowest) / lowest of the widest pair."""

    provider: str
    what: str  # gpu, model
    sources: tuple[str, ...]
    ratio: Decimal


def preferred_offers(entries: Iterable[Listed[GpuOffer]], precedence: Mapping[str, Sequence[str]]) -> list[Listed[GpuOffer]]:
    """Offers of one source for each provider, tier and region; of imported rows about the same thing, the one seen last."""
    entries = list(entries)
    chosen = _chosen_sources(entries, precedence)
    live = [e for e in entries if not e.imported and e.value.source in (STATED, chosen.get(_place(e.value)))]
    newest: dict[Thing, Listed[GpuOffer]] = {}
    for entry in entries:
        if entry.imported and ((key := _thing(entry.value)) not in newest or entry.seen_at > newest[key].seen_at):
            newest[key] = entry
    return [*live, *newest.values()]


def _chosen_sources(entries: Iterable[Listed[GpuOffer]], precedence: Mapping[str, Sequence[str]]) -> dict[Thing, str]:
    """The source that speaks for each provider, tier and region: a fresh one before a stale one, then by precedence.

    Not for the provider alone: one source may list regions or tiers that the others lack.
    """
    ranks: dict[Thing, tuple[bool, int, bool, str]] = {}
    known: dict[tuple[str, str], tuple[int, bool, str]] = {}
    for entry in entries:
        if entry.imported or entry.value.source == STATED:
            continue
        who = (entry.value.source, entry.value.provider)
        if who not in known:
            known[who] = rank_of(*who, precedence)
        rank = (not entry.fresh, *known[who])
        key = _place(entry.value)
        ranks[key] = min(ranks.get(key, rank), rank)
    return {key: rank[3] for key, rank in ranks.items()}


def rank_of(source: str, provider: str, precedence: Mapping[str, Sequence[str]]) -> tuple[int, bool, str]:
    """How far behind others a source of a provider is believed; the lowest is believed first."""
    stated = precedence.get(provider, ())
    return (stated.index(source) if source in stated else len(stated), source != provider, source)


def _place(offer: GpuOffer) -> Thing:
    return place_of(offer.provider, offer.tier, offer.region)


def place_of(provider: str, tier: str, region: str) -> Thing:
    """What one source speaks for: a provider's tier and region, whatever zone of it."""
    return (provider, tier, _ZONE.sub("", region))


def _thing(offer: GpuOffer) -> Thing:
    return (offer.provider, offer.gpu, str(offer.gpu_count), offer.tier, str(offer.term_months), offer.trust, offer.region)


def offer_disagreements(entries: Iterable[Listed[GpuOffer]]) -> tuple[Disagreement, ...]:
    """Where fresh sources of one provider differ about the same GPUs, the widest for each provider and GPU."""
    prices: dict[Thing, dict[str, Decimal]] = {}
    for entry in entries:
        if entry.fresh and not entry.is_slice:
            found = prices.setdefault(_thing(entry.value), {})
            usd = entry.value.usd_per_hour
            found[entry.value.source] = min(found.get(entry.value.source, usd), usd)
    return _widest((key[0], key[1], by_source) for key, by_source in prices.items())


def rate_disagreements(entries: Iterable[Listed[TokenRate]]) -> tuple[Disagreement, ...]:
    """Where fresh sources differ about one provider's rate of a model, over input, cached input and output."""
    prices: dict[Thing, dict[str, Decimal]] = {}
    for entry in entries:
        rate = entry.value
        if not entry.fresh or rate.conditions != Conditions():
            continue
        for kind in ("input", "cache_read", "output"):
            price = getattr(rate.usd, kind)
            if price is not None and price > 0:
                prices.setdefault((rate.provider, rate.model, rate.sku, rate.region, kind), {})[rate.source] = price
    return _widest((key[0], key[1], by_source) for key, by_source in prices.items())


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
