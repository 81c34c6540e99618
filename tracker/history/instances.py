"""Quotes of series that print an instance type and a price, and leave what is inside to ``config/instances.csv``."""

from __future__ import annotations

from decimal import Decimal

from scrapers.contract import GpuQuote, Skipped
from tracker.facts.values import Catalogue


def instance_quote(
    catalogue: Catalogue, provider: str, sku: str, *, region: str, price: Decimal | None, currency: str
) -> GpuQuote | Skipped:
    """The on-demand quote of one instance type, in ``currency`` per hour for the whole machine."""
    shown = f"{provider} {sku} {region}"
    if price is None:
        return Skipped(reason="no price", raw=shown)
    held = catalogue.instances.get((provider, sku))
    if held is None:
        return Skipped(reason="instance type holds no known GPU", raw=shown)
    if not held.whole:
        return Skipped(reason="a fraction of a GPU, or a count that nobody verified", raw=shown)
    return GpuQuote(
        provider=provider,
        sku=sku,
        gpu=sku,
        gpu_count=int(held.gpu_count),
        region=region,
        tier="on_demand",
        price=price,
        per="node_hour",
        currency=currency,
        availability="listed",
    )
