"""Linode (Akamai) GPU plan prices, no key. Docs: https://techdocs.akamai.com/linode-api/reference/get-linode-types (read 2026-11-29, from
stored copies).

What a price means: ``price.hourly`` is USD per hour for the whole plan (all its GPUs), without VAT, on demand, capped at ``price.monthly``
a month, which no price here shows; the answer states no currency. ``region_prices`` are the regions that cost more: all others have the
base price, quoted without a region. The GPU is named by the id of a plan alone. The answer lists; it states no stock.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from scrapers.contract import Client, GpuQuote, Page, Row
from scrapers.fields import as_object, count, each, layout_changed, name, optional_number, price, require_fields, require_page, with_quotes

SOURCE = "linode"
PATH = "/v4/linode/types"
PAGE_SIZE = 500
MAX_PAGES = 10
CURRENCY = "USD"
# g1-gpu-rtx6000-2 and g2-gpu-rtx4000a2-m: the GPU, then how many, then the size of the rest
GPU_IN_ID = (re.compile(r"(g[0-9]{1,2}-gpu-[a-z]+[0-9]+)-[0-9]{1,2}"), re.compile(r"(g[0-9]{1,2}-gpu-[a-z]+[0-9]+[a-z])[0-9]{1,2}-[a-z]+"))


def fetch(client: Client, secrets: Mapping[str, str]) -> list[Page]:
    """Every page of the plans; ``pages`` in the answer says how many there are."""
    first = client.get(PATH, params={"page": 1, "page_size": PAGE_SIZE})
    answer = first.json()
    pages = optional_number(answer, "pages") if isinstance(answer, dict) else None
    if pages is not None and pages > MAX_PAGES:
        raise layout_changed(SOURCE, f"expected at most {MAX_PAGES} pages, found {pages}")
    numbers = range(2, int(pages or 1) + 1)
    return [first, *(client.get(PATH, params={"page": number, "page_size": PAGE_SIZE}) for number in numbers)]


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """One quote per GPU plan, and one per region with a price of its own."""
    require_page(SOURCE, pages)
    plans = [plan for page in pages for plan in _plans(page)]
    require_fields(SOURCE, plans, ("id", "gpus", "price"), "plans")
    yield from with_quotes(SOURCE, each(plans, _plan_rows))


def _plans(page: Page) -> list[object]:
    answer = page.json()
    plans = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(plans, list):
        raise layout_changed(SOURCE, f'expected a list "data", found {str(answer)[:100]!r}')
    return plans


def _plan_rows(raw: object) -> Iterator[Row]:
    """The quotes of one plan; none for a plan without GPUs."""
    plan = as_object(raw, "plan")
    if plan.get("gpus") == 0:
        return
    quote = partial(_quote, name(plan, "id"), count(plan, "gpus"))
    yield quote("", as_object(plan.get("price"), "price"))
    regions = plan.get("region_prices")
    yield from each(regions if isinstance(regions, list) else [], partial(_region_rows, quote))


def _region_rows(quote: Any, raw: object) -> Iterator[Row]:
    region = as_object(raw, "region price")
    yield quote(name(region, "id"), region)


def _quote(sku: str, gpus: int, region: str, prices: Mapping[str, Any]) -> GpuQuote:
    forms = (form.fullmatch(sku) for form in GPU_IN_ID)
    return GpuQuote(
        provider="linode",
        sku=sku,
        gpu=next((found[1] for found in forms if found), sku),
        gpu_count=gpus,
        region=region,
        tier="on_demand",
        price=price(prices, "hourly"),
        per="node_hour",
        currency=CURRENCY,
        availability="listed",
    )
