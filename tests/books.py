"""Books of a few prices, so that what is worked out of them can be checked by hand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from engine.offers import GpuOffer
from engine.rates import TokenPrices, TokenRate
from tracker.book.book import Book, Listed
from tracker.book.entry_values import offers_of, rates_of
from tracker.book.exchange import Exchange

D = Decimal
NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
SEEN = NOW - timedelta(hours=1)

# Seed 001, 2026-10-17: a machine of eight B300 at $55.52 an hour, $40,529.60 for 730 hours.
B300 = GpuOffer(
    provider="runpod",
    source="runpod",
    sku="8x B300",
    region="",
    gpu="nvidia-b300-sxm-288",
    gpu_count=8,
    tier="on_demand",
    currency="USD",
    native_per_hour=D("55.52"),
    usd_per_hour=D("55.52"),
    valid_from=SEEN,
    seen_at=SEEN,
    source_url="https://www.runpod.io/pricing",
)
# The same machine in euro: 48 EUR an hour at 0.8 EUR for a dollar is $60.
EURO = replace(
    B300, provider="scaleway", source="scaleway", sku="B300-SXM-8-288G", region="fr-par-2", currency="EUR", native_per_hour=D(48),
    usd_per_hour=D(60), fx_rate=D("0.8"), fx_day=date(2026, 11, 27), source_url="https://www.scaleway.com/en/pricing/gpu/",
)  # fmt: skip
SPOT = replace(B300, sku="8x B300 spot", tier="spot", native_per_hour=D(20), usd_per_hour=D(20))

# Seed 002, 2026-11-07.
PRICES = TokenPrices(input=D(2), cache_read=D("0.2"), cache_write_5m=D(2), cache_write_1h=D(4), output=D(10))
MOONSHOT = TokenRate(
    provider="moonshot",
    source="moonshot",
    model="kimi-k3.1-pro",
    source_model="kimi-k3.1-pro",
    currency="USD",
    native=PRICES,
    usd=PRICES,
    seen_at=SEEN,
    source_url="https://platform.kimi.ai/docs/pricing/chat",
)


def listed(value: Any, *, fresh: bool = True, origin: str = "") -> Listed[Any]:
    """An entry of a book; one with an origin of its own was imported."""
    return Listed(value, origin or value.source, fresh, bool(origin))


def book(offers: Iterable[Any] = (B300,), rates: Iterable[Any] = (MOONSHOT,), at: datetime = NOW) -> Book:
    """A book of these prices, all fresh unless they come as entries."""
    return Book(
        at=at,
        known=at,
        offers=offers_of(o if isinstance(o, Listed) else listed(o) for o in offers),
        price_lists=rates_of(r if isinstance(r, Listed) else listed(r) for r in rates),
        exchange=Exchange(days={}, rates={}),
        unpriced={},
    )
