"""The prices that rules watch by themselves: the lowest rent of a GPU, and the token prices of a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import chain, product
from typing import Any

from engine.offers import FIRM, GpuOffer
from engine.rates import TOKEN_KINDS
from tracker.alerting.rules import PriceDrop, PriceRise, RateChange
from tracker.answers.snapshot import ModelAnswer, Snapshot
from tracker.book.asof import Row
from tracker.book.cheapest import cheapest
from tracker.book.entries import Entries
from tracker.book.row_fields import AVAILABILITY, CURRENCY, GPU, GPU_COUNT, PRICE_KIND, PROVIDER, RENTAL, SKU, TIER, TRUST
from tracker.database.rows import UNAVAILABLE

ALIKE = (GPU, TIER, GPU_COUNT, CURRENCY)  # whichever of such rows is the cheapest is so in USD a GPU-hour too


def gpu_prices(rule: PriceDrop | PriceRise, snapshot: Snapshot) -> Iterator[tuple[str, Decimal, dict[str, Any]]]:
    """For each watched GPU and tier the lowest USD per GPU-hour of what is compared, fresh and firm, and whose it is."""
    fresh, best = snapshot.market.fresh(), dict[str, GpuOffer]()
    for row in cheapest(chain.from_iterable(_watched(rule, fresh)), ALIKE).values():
        offer = fresh.reading.listed(row).value
        subject = f"{offer.gpu}/{offer.tier}"
        if subject not in best or _rank(offer) < _rank(best[subject]):
            best[subject] = offer
    for subject, offer in sorted(best.items()):
        yield subject, offer.usd_per_gpu_hour, _offer_facts(offer)


def _watched(rule: PriceDrop | PriceRise, fresh: Entries[GpuOffer]) -> Iterator[Sequence[Row]]:
    """The cheapest watched rows of each provider, GPU and tier: of those whose rows are as they were before, they are known."""
    name, parts = f"watched {rule.trusts} {rule.skus}", fresh.by(*RENTAL)
    for key in product(rule.providers or fresh.every(PROVIDER), rule.gpus, rule.tiers):
        if part := parts.get(key):
            yield part.once(name, lambda rows: tuple(cheapest((row for row in rows if _is_watched(rule, row)), ALIKE).values()))


def _is_watched(rule: PriceDrop | PriceRise, row: Row) -> bool:
    return (
        row[TRUST] in rule.trusts
        and row[PRICE_KIND] in FIRM
        and row[AVAILABILITY] != UNAVAILABLE
        and (not rule.skus or row[SKU] in rule.skus)
    )


def _rank(offer: GpuOffer) -> tuple[Decimal, str, str, str, int, str]:
    return offer.usd_per_gpu_hour, offer.provider, offer.sku, offer.region, offer.gpu_count, offer.currency


def _offer_facts(offer: GpuOffer) -> dict[str, Any]:
    name = "|".join((offer.provider, offer.sku, offer.region, offer.gpu, offer.tier, offer.trust, offer.currency))
    return {
        "provider": offer.provider, "sku": offer.sku, "region": offer.region, "tier": offer.tier, "trust": offer.trust, "gpu": offer.gpu,
        "gpu_count": offer.gpu_count, "usd_per_gpu_hour": f"{offer.usd_per_gpu_hour:f}", "usd_per_hour": f"{offer.usd_per_hour:f}",
        "native_per_hour": f"{offer.native_per_hour:f}", "currency": offer.currency, "offer": name, "seen_at": offer.seen_at,
        "source": offer.source, "source_url": offer.source_url,
    }  # fmt: skip


def token_prices(rule: RateChange, answer: ModelAnswer) -> Iterator[tuple[str, dict[str, Decimal], dict[str, Any]]]:
    """For each ranked price list of the model its prices per Mtok by token kind, in its own currency."""
    for choice in answer.rates.ranked if answer.rate_fresh else ():
        rate = choice.rate
        if rule.providers and rate.provider not in rule.providers:
            continue
        prices: dict[str, Decimal] = {kind: price for kind in TOKEN_KINDS if (price := rate.native.of(kind)) is not None}
        facts = {
            "model": answer.model.id, "provider": rate.provider, "source_model": rate.source_model, "sku": rate.sku,
            "region": rate.region, "currency": rate.currency, "prices": {kind: f"{price:f}" for kind, price in prices.items()},
            "seen_at": rate.seen_at, "source": rate.source, "source_url": rate.source_url,
        }  # fmt: skip
        parts = (answer.model.id, rate.provider, rate.source_model, rate.sku, rate.region, rate.source)  # two may list one provider
        yield "/".join(part for part in parts if part), prices, facts
