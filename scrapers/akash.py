"""Akash Network GPU price statistics, no key. Docs: https://console-api.akash.network/v1/doc (GET /v1/gpu-prices; read 2026-11-29, from
stored copies).

What a price means: USD for one GPU for one hour, the median over providers of their best bid on deployments with one GPU in the last days,
rounded to cents, without VAT. It is an indication: nobody sells at it, and it says nothing about several GPUs on one machine. Providers are
anybody, so none is verified. A model without bids has no price. A GPU is named by vendor, model, memory and interface together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from scrapers.contract import Availability, GpuQuote, Page, Row
from scrapers.fields import (
    BadRow,
    as_object,
    clean_name,
    currency,
    each,
    layout_changed,
    name,
    optional_number,
    price,
    require_fields,
    require_page,
    with_quotes,
)

SOURCE = "akash"
PATH = "/v1/gpu-prices"
STATISTIC = "med"
GIBIBYTES = re.compile(r"([0-9]{1,4})Gi")


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """One indicative quote per GPU model that has bids."""
    answer = require_page(SOURCE, pages).json()
    models = answer.get("models") if isinstance(answer, dict) else None
    if not isinstance(models, list):
        raise layout_changed(SOURCE, f'expected a list "models", found {str(answer)[:100]!r}')
    require_fields(SOURCE, models, ("vendor", "model", "ram", "interface", "price"), "models")
    yield from with_quotes(SOURCE, each(models, _model_rows))


def _model_rows(raw: object) -> Iterator[Row]:
    model = as_object(raw, "model")
    if model.get("price") is None:
        raise BadRow("no bids")
    statistics = as_object(model["price"], "price")
    gpu = clean_name(" ".join(name(model, key) for key in ("vendor", "model", "ram", "interface")), "name of the GPU")
    memory = GIBIBYTES.fullmatch(name(model, "ram"))
    yield GpuQuote(
        provider="akash",
        sku=gpu,
        gpu=gpu,
        gpu_count=1,
        memory_gb=Decimal(memory[1]) if memory is not None and int(memory[1]) else None,
        tier="on_demand",
        price=price(statistics, STATISTIC),
        per="gpu_hour",
        currency=currency(statistics, "currency"),
        trust="unverified",
        availability=_availability(model),
        price_kind="indicative",
    )


def _availability(model: Mapping[str, Any]) -> Availability:
    """Whether any GPU of the model is free now."""
    stock = model.get("availability")
    free = optional_number(stock, "available") if isinstance(stock, dict) else None
    if free is None:
        return "unknown"
    return "available" if free > 0 else "unavailable"
