"""UpCloud GPU plan prices, with an API user. Docs: https://developers.upcloud.com/1.3/4-pricing/ (GET /1.3/price) and
https://developers.upcloud.com/1.3/ (GET /1.3/device/availability; read 2026-11-29, from stored copies).

What a price means: cents of the printed currency per hour for the whole plan (all its GPUs), without VAT, storage extra, on demand or spot;
a month counts 672 hours at most, which no price here shows. Prices are listed for zones without such GPUs: the second answer has the stock.
Count and GPU are parts of the name of a plan. The key is ``user:password`` of an API user.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

from scrapers.contract import Availability, Client, GpuQuote, MissingKey, Page, Row
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
    require_page,
    with_quotes,
)

SOURCE = "upcloud"
PATH = "/1.3/price"
PRINTED_CURRENCIES = ("EUR",)
STOCK_PATH = "/1.3/device/availability"
STOCK_URL = re.compile(r"/1\.3/device/availability(?:\?|$)")
CENTS = Decimal("0.01")
PREFIX = "server_plan_"
# GPU-SPOT-8xCPU-64GB-1xL40S; plans without the last part have no GPU
PLAN = re.compile(r"[A-Z]+-(?P<spot>SPOT-)?[0-9]+xCPU-[0-9]+GB-(?P<count>[0-9]{1,3})x(?P<gpu>[A-Z][A-Z0-9]*)")
GPU_PLAN = re.compile(r"GPU-|.*GB-[0-9]+x")


def fetch(client: Client, secrets: Mapping[str, str]) -> list[Page]:
    """The prices, then the GPU stock of every zone; MissingKey without ``user:password``."""
    if not secrets.get("key"):
        raise MissingKey(f"{SOURCE}: no key; set the environment variable that key_env of this source names to user:password")
    headers = {"Authorization": f"Basic {b64encode(secrets['key'].encode()).decode('ascii')}"}
    return [client.get(PATH, headers=headers), client.get(STOCK_PATH, params={"type": "gpu"}, headers=headers)]


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """One quote per GPU plan and zone."""
    require_page(SOURCE, pages)
    prices = [page.json() for page in pages if not STOCK_URL.search(page.url)]
    stocks = [page.json() for page in pages if STOCK_URL.search(page.url)]
    if not prices:
        raise layout_changed(SOURCE, f"expected a page {PATH}, found the stock alone")
    book = prices[0].get("prices") if isinstance(prices[0], dict) else None
    zones = book.get("zone") if isinstance(book, dict) else None
    if not isinstance(book, dict) or not isinstance(zones, list) or not zones:
        raise layout_changed(SOURCE, f'expected a list "zone" in "prices", found {str(prices[0])[:100]!r}')
    stock = stocks[0] if stocks and isinstance(stocks[0], dict) else None
    plans = [(zone, key) for zone in zones for key in (zone if isinstance(zone, dict) else {"": None}) if _is_gpu_plan(key)]
    yield from with_quotes(SOURCE, each(plans, partial(_plan_rows, book, stock)))


def _is_gpu_plan(key: str) -> bool:
    """Whether a price is that of a GPU plan; "" stands for a zone that cannot be read and is refused as a row."""
    return not key or (key.startswith(PREFIX) and GPU_PLAN.match(key.removeprefix(PREFIX)) is not None)


def _plan_rows(book: Mapping[str, Any], stock: Mapping[str, Any] | None, entry: tuple[object, str]) -> Iterator[Row]:
    zone, key = as_object(entry[0], "zone"), entry[1]
    sku = clean_name(key.removeprefix(PREFIX), "name of the plan")
    plan = PLAN.fullmatch(sku)
    if plan is None:
        raise BadRow("name of the plan has another form")
    place, cost = name(zone, "name"), as_object(zone[key], "price")
    if optional_number(cost, "amount") != 1:
        raise BadRow("amount is not 1")
    yield GpuQuote(
        provider="upcloud",
        sku=sku,
        gpu=plan["gpu"],
        gpu_count=count({"GPU count": plan["count"]}, "GPU count"),
        region=place,
        tier="spot" if plan["spot"] else "on_demand",
        price=price(cost, "price"),
        per="node_hour",
        scale=CENTS,
        currency=currency(book, "currency"),
        availability=_availability(stock, place, sku.replace("SPOT-", "", 1)),
    )


def _availability(stock: Mapping[str, Any] | None, place: str, plan: str) -> Availability:
    """Whether the zone has the GPUs of a plan now; a zone or plan that is not in the list of the stock has none."""
    if stock is None:
        return "unknown"
    value: Any = stock
    for key in (place, "gpu_plans", plan):
        value = value.get(key) if isinstance(value, dict) else None
    amount = optional_number(value, "amount") if isinstance(value, dict) else None
    return "available" if amount is not None and amount > 0 else "unavailable"
