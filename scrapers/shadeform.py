"""Shadeform marketplace prices, with a key. Docs: https://docs.shadeform.ai/api-reference (GET /v1/instances/types; read 2026-11-29, from
stored copies).

What a price means: ``hourly_price`` is US cents per hour for the whole instance (all its GPUs), without VAT, on demand, at Shadeform: the
same machine at its own cloud can cost less. The answer states no currency. One quote per region that has it; an instance that no region has
is unavailable. The GPU is named by type and interconnect together, since "H100" is both SXM and PCIe.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

from scrapers.contract import Availability, Client, GpuQuote, MissingKey, Page, Row
from scrapers.fields import (
    as_object,
    clean_name,
    count,
    each,
    layout_changed,
    name,
    optional_memory,
    price,
    require_fields,
    require_page,
    with_quotes,
)

SOURCE = "shadeform"
PATH = "/v1/instances/types?sort=price"
CENTS = Decimal("0.01")


def fetch(client: Client, secrets: Mapping[str, str]) -> list[Page]:
    """One GET with the key; MissingKey without one. Sorted, because the order is random otherwise."""
    if not secrets.get("key"):
        raise MissingKey(f"{SOURCE}: no key; set the environment variable that key_env of this source names")
    return [client.get(PATH, headers={"X-API-KEY": secrets["key"]})]


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """One quote per GPU instance type and region."""
    answer = require_page(SOURCE, pages).json()
    types = answer.get("instance_types") if isinstance(answer, dict) else None
    if not isinstance(types, list):
        raise layout_changed(SOURCE, f'expected a list "instance_types", found {str(answer)[:100]!r}')
    require_fields(SOURCE, types, ("cloud", "cloud_instance_type", "configuration", "hourly_price", "availability"), "instance types")
    yield from with_quotes(SOURCE, each(types, _type_rows))


def _type_rows(raw: object) -> Iterator[Row]:
    """The quotes of one type; none for a type without GPUs."""
    item = as_object(raw, "instance type")
    configuration = as_object(item.get("configuration"), "configuration")
    if configuration.get("num_gpus") == 0:
        return
    quote = partial(_quote, item, configuration, count(configuration, "num_gpus"))
    regions = item.get("availability")
    if not isinstance(regions, list) or not regions:
        yield quote("", "unavailable")
        return
    for raw_region in regions:
        region = as_object(raw_region, "availability")
        yield quote(name(region, "region"), _availability(region.get("available")))


def _availability(stated: object) -> Availability:
    if isinstance(stated, bool):
        return "available" if stated else "unavailable"
    return "unknown"


def _quote(item: Mapping[str, Any], configuration: Mapping[str, Any], gpus: int, region: str, availability: Availability) -> GpuQuote:
    link = name(configuration, "interconnect")
    return GpuQuote(
        provider="shadeform",
        sku=clean_name(f"{name(item, 'cloud')} {name(item, 'cloud_instance_type')}", "cloud and instance type"),
        gpu=clean_name(f"{name(configuration, 'gpu_type')} {link}", "GPU and interconnect"),
        gpu_count=gpus,
        memory_gb=optional_memory(configuration, "vram_per_gpu_in_gb"),
        region=region,
        tier="on_demand",
        price=price(item, "hourly_price"),
        per="node_hour",
        scale=CENTS,
        currency="USD",
        availability=availability,
        interconnect="nvlink" if configuration.get("nvlink") is True else "unknown",
    )
