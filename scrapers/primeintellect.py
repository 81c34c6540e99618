"""Prime Intellect marketplace prices, with a key. Docs: https://docs.primeintellect.ai/api-reference (GET /api/v1/availability/gpus; read
2026-11-29, from stored copies).

What a price means: ``onDemand`` is for the whole offer (all ``gpuCount`` GPUs) per hour, without VAT, at Prime Intellect; it holds the
smallest disk even where ``defaultIncludedInPrice`` says no (1.6568 is 1.64 and 120 units of disk at 0.00014). ``communityPrice`` is that of
community machines. An offer paid in advance for a time is left out. The GPU is named by type and socket together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scrapers.contract import Availability, Client, GpuQuote, MissingKey, Page, Row, Trust
from scrapers.fields import (
    BadRow,
    as_object,
    clean_name,
    count,
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

SOURCE = "primeintellect"
PATH = "/api/v1/availability/gpus"
PAGE_SIZE = 100
MAX_PAGES = 30
PRICE_OF: Mapping[str, tuple[str, Trust]] = {"secure_cloud": ("onDemand", "datacenter"), "community_cloud": ("communityPrice", "community")}
STOCK: Mapping[str, Availability] = {
    "Available": "available",
    "High": "available",
    "Medium": "available",
    "Low": "available",
    "Unavailable": "unavailable",
}


def fetch(client: Client, secrets: Mapping[str, str]) -> list[Page]:
    """Every page of the offers, until ``totalCount`` of them are read; MissingKey without a key."""
    if not secrets.get("key"):
        raise MissingKey(f"{SOURCE}: no key; set the environment variable that key_env of this source names")
    headers = {"Authorization": f"Bearer {secrets['key']}"}
    pages: list[Page] = []
    while not pages or _total(pages[-1]) > len(pages) * PAGE_SIZE:
        if len(pages) == MAX_PAGES:
            raise layout_changed(SOURCE, f"expected at most {MAX_PAGES} pages, totalCount is {_total(pages[-1])}")
        pages.append(client.get(PATH, params={"page": len(pages) + 1, "page_size": PAGE_SIZE}, headers=headers))
    return pages


def _total(page: Page) -> int:
    answer = page.json()
    total = optional_number(answer, "totalCount") if isinstance(answer, dict) else None
    return int(total or 0)


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """One quote per offer."""
    require_page(SOURCE, pages)
    items = [item for page in pages for item in _items(page)]
    require_fields(SOURCE, items, ("cloudId", "gpuType", "socket", "gpuCount", "provider", "security", "prices"), "items")
    yield from with_quotes(SOURCE, each(items, _item_rows))


def _items(page: Page) -> list[object]:
    answer = page.json()
    items = answer.get("items") if isinstance(answer, dict) else None
    if not isinstance(items, list):
        raise layout_changed(SOURCE, f'expected a list "items", found {str(answer)[:100]!r}')
    return items


def _item_rows(raw: object) -> Iterator[Row]:
    item = as_object(raw, "item")
    if item.get("prepaidTime"):
        raise BadRow("paid in advance for a time")
    security = item.get("security")
    if not isinstance(security, str) or security not in PRICE_OF:
        raise BadRow("security is neither secure_cloud nor community_cloud")
    key, trust = PRICE_OF[security]
    prices = as_object(item.get("prices"), "prices")
    gpus = count(item, "gpuCount")
    yield GpuQuote(
        provider="primeintellect",
        sku=clean_name(f"{name(item, 'provider')} {name(item, 'cloudId')} x{gpus}", "provider and cloudId"),
        gpu=clean_name(f"{name(item, 'gpuType')} {name(item, 'socket')}", "GPU and socket"),
        gpu_count=gpus,
        region=_region(item),
        tier="spot" if item.get("isSpot") is True else "on_demand",
        price=price(prices, key),
        per="node_hour",
        currency=currency(prices, "currency"),
        trust=trust,
        availability=_availability(item.get("stockStatus")),
    )


def _region(item: Mapping[str, Any]) -> str:
    """The data centre, or the region where none is named."""
    place = next((item[key] for key in ("dataCenter", "region") if isinstance(item.get(key), str) and item[key].strip()), "")
    return clean_name(place, "dataCenter") if place else ""


def _availability(level: object) -> Availability:
    return STOCK.get(level, "unknown") if isinstance(level, str) else "unknown"
