"""Scaleway GPU instance prices, no key. Docs: https://www.scaleway.com/en/developers/api/instances/ (read 2026-11-29, from
stored copies).

What a price means: ``hourly_price`` is for the whole instance (all its GPUs), without VAT, storage and public addresses
extra, on demand, billed by the minute. The answer states no currency: it is EUR, as on the price page. The price per GPU falls
with the size, so each size is an offer of its own and no count in between is sold. ``monthly_price`` is 730 hours of the
same price, not a commitment. Stock comes from a second list per zone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

from scrapers.contract import Availability, Client, GpuQuote, Page, Row
from scrapers.fields import (
    BadRow,
    as_object,
    clean_name,
    count,
    each,
    layout_changed,
    name,
    optional_memory,
    price,
    require_fields,
    with_quotes,
)

SOURCE = "scaleway"
PATH = "/instance/v1/zones/{zone}/products/servers"
STOCK_PATH = f"{PATH}/availability"
ZONES = ("fr-par-1", "fr-par-2", "pl-waw-2")  # the zones with GPUs on 2026-07-30; others answer without any
PER_PAGE = 50
MAX_PAGES = 20  # 135 types are three pages; more than twenty is a loop
CURRENCY = "EUR"
PRINTED_CURRENCIES = (CURRENCY,)
PLACEHOLDER = Decimal("0.01")  # printed for types that are not sold (TEST1-*, 2023)
GIB_PER_BYTE = Decimal(1) / 2**30  # gpu_memory is 80 GiB in bytes for what is sold as 80 GB
ZONE_IN_URL = re.compile(r"/zones/([a-z]{2,4}(?:-[a-z0-9]{1,8}){1,3})/products/servers(/availability)?(?:\?|$)")
NEXT_PAGE = re.compile(r'<[^<>]*[?&]page=([0-9]{1,4})[^<>]*>\s*;\s*rel="next"')
STOCK: Mapping[str, Availability] = {"available": "available", "scarce": "available", "shortage": "unavailable"}


def fetch(client: Client, secrets: Mapping[str, str]) -> list[Page]:
    """Every page of both lists of every zone, following rel="next" of the Link header."""
    return [page for zone in ZONES for path in (PATH, STOCK_PATH) for page in _pages(client, path.format(zone=zone))]


def _pages(client: Client, path: str) -> Iterator[Page]:
    number = 1
    for _ in range(MAX_PAGES):
        page = client.get(path, params={"page": number, "per_page": PER_PAGE})
        yield page
        following = NEXT_PAGE.search(page.headers.get("link", ""))
        if following is None:
            return
        number = int(following[1])
    raise layout_changed(SOURCE, f"expected at most {MAX_PAGES} pages of {path}, the Link header goes on")


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """One quote per GPU instance type and zone, with its stock."""
    types: dict[tuple[str, str], object] = {}
    stock: dict[tuple[str, str], object] = {}
    for page in pages:
        zone, is_stock = _zone(page)
        # a type can stand on two pages when the list grows between the calls: the later one counts
        (stock if is_stock else types).update({(zone, sku): item for sku, item in _servers(page).items()})
    require_fields(SOURCE, list(types.values()), ("gpu", "hourly_price"), "servers")
    yield from with_quotes(SOURCE, each(types.items(), partial(_rows, stock)))


def _zone(page: Page) -> tuple[str, bool]:
    """The zone of a page and whether it lists stock; both stand in the address only."""
    found = ZONE_IN_URL.search(page.url)
    if found is None:
        raise layout_changed(SOURCE, f"expected /zones/<zone>/products/servers in the address, found {page.url[:100]!r}")
    return found[1], found[2] is not None


def _servers(page: Page) -> dict[str, object]:
    answer = page.json()
    servers = answer.get("servers") if isinstance(answer, dict) else None
    if not isinstance(servers, dict):
        raise layout_changed(SOURCE, f'expected an object "servers" in {page.url[:200]}, found {type(servers).__name__}')
    return servers


def _rows(stock: Mapping[tuple[str, str], object], entry: tuple[tuple[str, str], object]) -> Iterator[Row]:
    """The quote of one type; none for a type without GPUs."""
    (zone, sku), raw = entry
    item = as_object(raw, "server")
    if item.get("gpu") in (None, 0):
        return
    gpu_count = count(item, "gpu")
    if item.get("end_of_service") is True:
        raise BadRow("end of service")
    per_hour = price(item, "hourly_price")
    if sku.startswith("TEST") or per_hour == PLACEHOLDER:
        raise BadRow("placeholder price of a type that is not sold")
    gpu_info = as_object(item.get("gpu_info") or {}, "gpu_info")
    yield GpuQuote(
        provider="scaleway",
        sku=clean_name(sku, "name of the type"),
        gpu=name(gpu_info, "gpu_name") if gpu_info else clean_name(sku, "name of the type"),  # before 2025 the type alone said it
        gpu_count=gpu_count,
        memory_gb=optional_memory(gpu_info, "gpu_memory", unit=GIB_PER_BYTE),
        region=zone,
        tier="on_demand",
        price=per_hour,
        per="node_hour",
        currency=CURRENCY,
        availability=_availability(stock.get((zone, sku))),
        is_slice=_is_slice(item),
    )


def _is_slice(item: Mapping[str, Any]) -> bool:
    """A MIG type counts its slice as one GPU."""
    return item.get("mig_profile") not in (None, "")


def _availability(item: object) -> Availability:
    """The stock level of a type; unknown where it is missing or a word we do not know."""
    level = item.get("availability") if isinstance(item, dict) else None
    return STOCK.get(level, "unknown") if isinstance(level, str) else "unknown"
