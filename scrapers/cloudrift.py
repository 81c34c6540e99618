"""CloudRift GPU virtual machine prices, no key. Docs: https://api.cloudrift.ai/docs (POST /api/v1/instance-types/list; read 2026-11-29,
from stored copies).

What a price means: ``cost_per_hour`` is US cents per hour for the whole virtual machine (all its GPUs), without VAT, on demand; the answer
states no currency. One quote per data centre; ``nodes_per_dc`` says how many machines are free there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

from scrapers.contract import Availability, Client, GpuQuote, Page, Row
from scrapers.fields import (
    as_object,
    clean_name,
    count,
    each,
    layout_changed,
    name,
    optional_number,
    price,
    require_fields,
    require_page,
    with_quotes,
)

SOURCE = "cloudrift"
PATH = "/api/v1/instance-types/list"
API_VERSION = "2025-03-21"  # part of the question: an answer keeps the shape of this version
CENTS = Decimal("0.01")


def fetch(client: Client, secrets: Mapping[str, str]) -> list[Page]:
    """The list of all virtual machine types."""
    question = {"selector": {"ByServiceAndLocation": {"services": ["vm"]}}}
    return [client.post(PATH, json={"version": API_VERSION, "data": question})]


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """One quote per variant of a GPU machine and data centre."""
    answer = require_page(SOURCE, pages).json()
    data = answer.get("data") if isinstance(answer, dict) else None
    types = data.get("instance_types") if isinstance(data, dict) else None
    if not isinstance(types, list):
        raise layout_changed(SOURCE, f'expected a list "instance_types" in "data", found {str(answer)[:100]!r}')
    require_fields(SOURCE, types, ("brand_short", "variants"), "instance types")
    variants = [(item, variant) for item in types for variant in _variants(item)]
    require_fields(SOURCE, [variant for _, variant in variants], ("name", "cost_per_hour", "gpu_count", "nodes_per_dc"), "variants")
    yield from with_quotes(SOURCE, each(variants, _variant_rows))


def _variants(item: object) -> list[object]:
    """The variants of one type; a type whose variants cannot be read stands for itself and is refused as a row."""
    variants = item.get("variants") if isinstance(item, dict) else None
    return variants if isinstance(variants, list) else [item]


def _variant_rows(entry: tuple[object, object]) -> Iterator[Row]:
    """The quotes of one variant; none for a machine without GPUs."""
    item, variant = as_object(entry[0], "instance type"), as_object(entry[1], "variant")
    if variant.get("gpu_count") == 0:
        return
    quote = partial(_quote, variant, name(item, "brand_short"))
    nodes = as_object(variant.get("nodes_per_dc"), "nodes_per_dc")
    if not nodes:
        yield quote("", "unavailable")
    for centre in nodes:
        yield quote(clean_name(centre, "data centre"), _availability(optional_number(nodes, centre)))


def _availability(free: Decimal | None) -> Availability:
    if free is None:
        return "unknown"
    return "available" if free > 0 else "unavailable"


def _quote(variant: Mapping[str, Any], gpu: str, region: str, availability: Availability) -> GpuQuote:
    return GpuQuote(
        provider="cloudrift",
        sku=name(variant, "name"),
        gpu=gpu,
        gpu_count=count(variant, "gpu_count"),
        region=region,
        tier="on_demand",
        price=price(variant, "cost_per_hour"),
        per="node_hour",
        scale=CENTS,
        currency="USD",
        availability=availability,
    )
