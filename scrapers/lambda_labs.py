"""Lambda on-demand instance prices, with an API key. Docs: https://docs-api.lambda.ai/api/cloud (read 2026-11-29, from stored copies).

What a price means: US cents per hour for the whole instance (all its GPUs), without VAT, on demand, the same in every region. The price
per GPU falls with the size, so each size is an offer of its own. An instance type without any region in
``regions_with_capacity_available`` is sold out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from scrapers.contract import Client, GpuQuote, MissingKey, Page, Row
from scrapers.fields import as_object, count, each, layout_changed, name, price, require_fields, require_page, with_quotes

SOURCE = "lambda_labs"
PATH = "/api/v1/instance-types"
CENTS = Decimal("0.01")
MEMORY = re.compile(r"\(([0-9]{1,4}) GB\b")


def fetch(client: Client, secrets: Mapping[str, str]) -> list[Page]:
    """One GET with the key; MissingKey without one."""
    key = secrets.get("key")
    if not key:
        raise MissingKey(f"{SOURCE}: no key; set the environment variable that key_env of this source names")
    return [client.get(PATH, headers={"Authorization": f"Bearer {key}"})]


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """One quote per instance type."""
    answer = require_page(SOURCE, pages).json()
    types = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(types, dict):
        raise layout_changed(SOURCE, f'expected an object "data", found {type(types).__name__}')
    entries = list(types.values())
    require_fields(SOURCE, entries, ("instance_type", "regions_with_capacity_available"), "instance types")
    yield from with_quotes(SOURCE, each(entries, _type_rows))


def _type_rows(raw: object) -> Iterator[Row]:
    entry = as_object(raw, "instance type")
    kind = as_object(entry.get("instance_type"), "instance_type")
    specs = as_object(kind.get("specs"), "specs")
    if specs.get("gpus") == 0:
        return
    gpu = name(kind, "gpu_description")
    memory = MEMORY.search(gpu)
    regions = entry.get("regions_with_capacity_available")
    yield GpuQuote(
        provider="lambda",
        sku=name(kind, "name"),
        gpu=gpu,
        gpu_count=count(specs, "gpus"),
        memory_gb=Decimal(memory[1]) if memory else None,
        tier="on_demand",
        price=price(kind, "price_cents_per_hour"),
        per="node_hour",
        scale=CENTS,
        currency="USD",
        availability="unknown" if not isinstance(regions, list) else "available" if regions else "unavailable",
    )
