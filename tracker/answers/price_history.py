"""Prices of one offer, GPU or model over time as plain rows, for the command line and the API alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from tracker.book.timeline import gpu_prices, offers_at, rates_at
from tracker.world import World

PRICES = ("offer", "gpu", "rate")


def price_history(
    connection: Connection, world: World, what: str, name: str, moments: Iterable[datetime], known: datetime
) -> Iterator[tuple[datetime, list[dict[str, Any]]]]:
    """At each moment, what was observed by then: the offers of a sku, the cheapest of a GPU by tier, or the rates of a model.

    ``known`` is when we look back: history that was imported later does not count.
    """
    sources = world.config.sources
    if what == "gpu":
        gpu = world.gpu(name)
        for at, offers in offers_at(connection, sources, moments, known, gpu=gpu):
            yield at, [{"tier": tier, **facts} for tier, facts in sorted(gpu_prices(offers, gpu).items())]
    elif what == "offer":
        for at, offers in offers_at(connection, sources, moments, known, sku=name):
            yield at, [offer_facts(entry) for entry in offers]
    else:
        for at, rates in rates_at(connection, sources, moments, known, world.model(name).id):
            yield at, [rate_facts(entry) for entry in rates]


def offer_facts(entry: Any) -> dict[str, Any]:
    """An offer of the book at one moment."""
    offer = entry.value
    return {
        "provider": offer.provider, "region": offer.region, "gpus": f"{offer.gpu_count} x {offer.gpu}", "tier": offer.tier,
        "native_per_hour": offer.native_per_hour, "currency": offer.currency, "usd_per_hour": offer.usd_per_hour,
        "seen_at": offer.seen_at, "fresh": entry.fresh,
    }  # fmt: skip


def rate_facts(entry: Any) -> dict[str, Any]:
    """A rate of the book at one moment, per Mtok in its own currency."""
    rate, prices = entry.value, entry.value.native
    return {
        "provider": rate.provider, "sku": rate.sku, "region": rate.region, "input": prices.input, "cache_read": prices.cache_read,
        "output": prices.output, "currency": rate.currency, "seen_at": rate.seen_at, "fresh": entry.fresh, "source": entry.origin,
    }  # fmt: skip
