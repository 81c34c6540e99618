"""Azure GPU virtual machine prices from the retail prices API, no key. Docs: https://learn.microsoft.com/en-us/rest/api/cost-management/
retail-prices/azure-retail-prices (read 2026-11-29, from stored copies).

What a price means: USD per hour for the whole virtual machine (all its GPUs) running Linux, without VAT, disks and traffic extra;
on demand, or spot. Windows has the same size and meter name and differs in ``productName`` alone. Spot prices are set by the month.
The answer names no GPU and no count: the sizes below come from the size pages. A price that starts later is announced.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from scrapers.contract import Client, GpuQuote, Page, Row
from scrapers.fields import (
    BadRow,
    as_object,
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

SOURCE = "azure"
PATH = "/api/retail/prices"
API_VERSION = "2023-01-01-preview"
FILTER = "serviceName eq 'Virtual Machines' and priceType eq 'Consumption' and contains(armSkuName, 'Standard_N')"
MAX_PAGES = 60  # about 3,000 rows are three pages of 1,000; more than sixty is a loop
NEXT_PAGE = re.compile(r"https?://[^/?#]+(/api/retail/prices\?[^\s#]+)")
OTHER_PRODUCT = re.compile(r"\bWin(dows)?\b|Cloud ?Services|Dedicated", re.IGNORECASE)
# GPUs per size (size pages, read 2026-11-29); 0 is a fraction of one
GPUS: Mapping[str, int] = {
    "Standard_NC4as_T4_v3": 1,
    "Standard_NC8as_T4_v3": 1,
    "Standard_NC16as_T4_v3": 1,
    "Standard_NC64as_T4_v3": 4,
    "Standard_NC6s_v3": 1,
    "Standard_NC12s_v3": 2,
    "Standard_NC24s_v3": 4,
    "Standard_NC24rs_v3": 4,
    "Standard_ND40rs_v2": 8,
    "Standard_NV6ads_A10_v5": 0,
    "Standard_NV12ads_A10_v5": 0,
    "Standard_NV18ads_A10_v5": 0,
    "Standard_NV36ads_A10_v5": 1,
    "Standard_NV36adms_A10_v5": 1,
    "Standard_NV72ads_A10_v5": 2,
    "Standard_NC24ads_A100_v4": 1,
    "Standard_NC48ads_A100_v4": 2,
    "Standard_NC96ads_A100_v4": 4,
    "Standard_ND96asr_v4": 8,
    "Standard_ND96asr_A100_v4": 8,
    "Standard_ND96ams_A100_v4": 8,
    "Standard_ND96amsr_A100_v4": 8,
    "Standard_NC40ads_H100_v5": 1,
    "Standard_NCC40ads_H100_v5": 1,
    "Standard_NC80adis_H100_v5": 2,
    "Standard_ND96is_H100_v5": 8,
    "Standard_ND96isr_H100_v5": 8,
    "Standard_ND96isf_H100_v5": 8,
    "Standard_ND96isrf_H100_v5": 8,
    "Standard_ND96is_flex_H100_v5": 8,
    "Standard_ND96is_noIB_H100_v5": 8,
    "Standard_ND96isr_H200_v5": 8,
    "Standard_ND96is_MI300X_v5": 8,
    "Standard_ND96isr_MI300X_v5": 8,
}


def fetch(client: Client, secrets: Mapping[str, str]) -> list[Page]:
    """Every page of the GPU sizes. The next page is an address on their host: its path is followed on the configured one."""
    pages = [client.get(PATH, params={"api-version": API_VERSION, "$filter": FILTER})]
    while (path := _next_path(pages[-1])) is not None:
        if len(pages) == MAX_PAGES:
            raise layout_changed(SOURCE, f"expected at most {MAX_PAGES} pages, NextPageLink goes on")
        pages.append(client.get(path))
    return pages


def _next_path(page: Page) -> str | None:
    answer = page.json()
    link = answer.get("NextPageLink") if isinstance(answer, dict) else None
    if not isinstance(link, str) or not link:
        return None
    found = NEXT_PAGE.fullmatch(link)
    if found is None:
        raise layout_changed(SOURCE, f"expected NextPageLink to be an address of {PATH}, found {link[:100]!r}")
    return found[1]


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """One quote per size, region and tier; a row that stands on two pages counts once."""
    require_page(SOURCE, pages)
    items = [(page.fetched_at, item) for page in pages for item in _items(page)]
    require_fields(SOURCE, [item for _, item in items], ("armSkuName", "armRegionName", "productName", "retailPrice"), "Items")
    yield from with_quotes(SOURCE, _once(each(items, _item_rows)))


def _items(page: Page) -> list[object]:
    answer = page.json()
    items = answer.get("Items") if isinstance(answer, dict) else None
    if not isinstance(items, list):
        raise layout_changed(SOURCE, f'expected a list "Items", found {str(answer)[:100]!r}')
    return items


def _once(rows: Iterator[Row]) -> Iterator[Row]:
    """Rows without repetitions of the same quote: pages shift while they are read."""
    seen: set[GpuQuote] = set()
    for row in rows:
        if isinstance(row, GpuQuote):
            if row in seen:
                continue
            seen.add(row)
        yield row


def _item_rows(entry: tuple[datetime | None, object]) -> Iterator[Row]:
    """The quote of one meter; none for Windows, dedicated hosts, cloud services and the old low-priority meters."""
    fetched_at, raw = entry
    item = as_object(raw, "item")
    product, meter = name(item, "productName"), f"{item.get('meterName')} {item.get('skuName')}"
    if OTHER_PRODUCT.search(product) or "Low Priority" in meter or item.get("type") != "Consumption":
        return
    size = name(item, "armSkuName")
    if size not in GPUS:
        raise BadRow("size is not in the table of GPU sizes")
    if item.get("unitOfMeasure") != "1 Hour":
        raise BadRow("unitOfMeasure is not 1 Hour")
    if optional_number(item, "tierMinimumUnits"):
        raise BadRow("price of a volume tier")
    if (ends := _time(item, "effectiveEndDate")) is not None and fetched_at is not None and ends < fetched_at:
        raise BadRow("price has ended")
    starts = _time(item, "effectiveStartDate")
    yield GpuQuote(
        provider="azure",
        sku=size,
        gpu=size,
        gpu_count=max(GPUS[size], 1),
        region=name(item, "armRegionName"),
        tier="spot" if " Spot" in meter else "on_demand",
        price=price(item, "retailPrice"),
        per="node_hour",
        currency=currency(item, "currencyCode"),
        availability="listed",
        is_slice=GPUS[size] == 0,
        valid_from=starts if starts is not None and fetched_at is not None and starts > fetched_at else None,
    )


def _time(item: Mapping[str, Any], key: str) -> datetime | None:
    """An ISO time with an offset, or None where there is none to read."""
    value = item.get(key)
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return time if time is not None and time.tzinfo is not None else None
