"""Verda (DataCrunch until 2025) GPU instance prices, no key. Docs: https://api.datacrunch.io/v1/docs (read 2026-11-29, from stored copies).

What a price means: for the whole instance (all its GPUs) per hour, without VAT, storage extra, as text; ``price_per_hour`` on demand and
``spot_price`` spot. A spot price is printed for every type, sold or not, and stock takes an account: what is listed may not be there.

Off unless you switch it on: the terms of the site name scrapers among the automated uses they forbid.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

from scrapers.contract import Availability, GpuQuote, Page, Row, Tier
from scrapers.fields import (
    BadRow,
    as_object,
    count,
    currency,
    each,
    layout_changed,
    name,
    optional_memory,
    optional_price,
    price,
    require_fields,
    require_page,
    with_quotes,
)

SOURCE = "verda"
PATH = "/v1/instance-types?currency=usd"


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """An on-demand and a spot quote per GPU instance type."""
    types = require_page(SOURCE, pages).json()
    if not isinstance(types, list):
        raise layout_changed(SOURCE, f"expected a list of instance types, found {str(types)[:100]!r}")
    require_fields(SOURCE, types, ("instance_type", "name", "gpu", "price_per_hour", "currency"), "instance types")
    yield from with_quotes(SOURCE, each(types, _type_rows))


def _type_rows(raw: object) -> Iterator[Row]:
    """The quotes of one type; none for a type without GPUs."""
    item = as_object(raw, "instance type")
    gpu = as_object(item.get("gpu"), "gpu")
    if gpu.get("number_of_gpus") == 0:
        return
    gpus = count(gpu, "number_of_gpus")
    if not isinstance(item.get("currency"), str):
        raise BadRow("currency is no currency code")
    quote = partial(_quote, item, gpus, currency({"currency": item["currency"].upper()}, "currency"))
    yield quote("on_demand", price(item, "price_per_hour"), "listed")
    spot = optional_price(item, "spot_price")
    if spot is not None:
        yield quote("spot", spot, "unknown")


def _quote(
    item: Mapping[str, Any], gpus: int, printed_currency: str, tier: Tier, per_hour: Decimal, availability: Availability
) -> GpuQuote:
    memory = item.get("gpu_memory")
    return GpuQuote(
        provider="verda",
        sku=name(item, "instance_type"),
        gpu=name(item, "name"),
        gpu_count=gpus,
        memory_gb=optional_memory(memory, "size_in_gigabytes", unit=Decimal(1) / gpus) if isinstance(memory, dict) else None,
        tier=tier,
        price=per_hour,
        per="node_hour",
        currency=printed_currency,
        availability=availability,
    )
