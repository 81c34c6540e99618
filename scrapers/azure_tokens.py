"""Azure's retail prices of open models in AI Foundry: meters per 1,000 or 1,000,000 tokens, per region, without tax.

Docs: https://learn.microsoft.com/rest/api/cost-management/retail-prices/azure-retail-prices (stored copies and meters of 2026-08,
read 2026-11-29). No key; pages follow ``NextPageLink``. A meter is one token kind of one model: "K2.6 Thinking Inp glbl Tokens" is
the input of "K2.6 Thinking" by the global deployment (the standard sku), "DZ" and "Dzone" a data zone, "regnl" one region;
"cached", "Cache Inp", "Ch Inp" and "Cd Inp" are cache reads. The model is printed as product and meter say ("Azure Kimi K2.6
Thinking"); where cached and fresh input are spelled differently they stay two models. Meters by the hour are reserved throughput.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from scrapers.contract import Client, Page, Row, TokenQuote, TokenUnit
from scrapers.fields import BadRow, as_object, each, layout_changed, name, require_fields, require_page, skipped
from scrapers.token_fields import float_price, with_token_quotes

SOURCE = "azure_tokens"
PATH = "/api/retail/prices"
PRODUCTS = ("Azure Kimi", "Azure Deepseek Models", "Azure Fireworks Models")
QUERY: dict[str, str | int] = {
    "api-version": "2023-01-01-preview",
    "$filter": "priceType eq 'Consumption' and (" + " or ".join(f"productName eq '{product}'" for product in PRODUCTS) + ")",
}
MAX_PAGES = 50
UNITS: dict[str, tuple[TokenUnit, Decimal]] = {"1K": ("ktok", Decimal(1000)), "1M": ("mtok", Decimal(1_000_000))}
METER = re.compile(r"(?P<model>.+?) (?P<kind>cached|(?:Cache|Ch|Cd) Inp|Inp|Outp|Opt) (?P<scope>glbl|DZ|DZone|regnl) Tokens", re.IGNORECASE)
KINDS = {"inp": "input", "outp": "output", "opt": "output"}  # everything else is a cache read
SKUS = {"glbl": "standard", "dz": "data-zone", "dzone": "data-zone", "regnl": "regional"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Key:
    """What the meters of one quote have in common."""

    model: str
    sku: str
    region: str
    currency: str
    per: TokenUnit


@dataclass(frozen=True, slots=True, kw_only=True)
class _Meter:
    """One price of one token kind, in force since ``start``."""

    key: _Key
    kind: str
    price: Decimal
    start: datetime


def fetch(client: Client, secrets: Mapping[str, str]) -> list[Page]:
    """All pages; ``NextPageLink`` is null on the last one."""
    pages = [client.get(PATH, params=QUERY)]
    while (link := _next(pages[-1])) and len(pages) < MAX_PAGES:
        pages.append(client.get(link))
    if link:
        raise layout_changed(SOURCE, f"expected the list to end within {MAX_PAGES} pages")
    return pages


def _next(page: Page) -> str:
    answer = page.json()
    link = answer.get("NextPageLink") if isinstance(answer, dict) else None
    return link if isinstance(link, str) else ""


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """One quote per model, deployment and region, and one more for each announced change of it."""
    require_page(SOURCE, pages)
    items = [item for page in pages for item in _items(page)]
    require_fields(SOURCE, items, ("meterName", "productName", "retailPrice", "unitOfMeasure", "armRegionName"), "meters")
    return with_token_quotes(SOURCE, _rows(items, pages[0].fetched_at))


def _items(page: Page) -> list[object]:
    answer = page.json()
    items = answer.get("Items") if isinstance(answer, dict) else None
    if not isinstance(items, list):
        raise layout_changed(SOURCE, 'expected an object with a list "Items"')
    return items


def _rows(items: Sequence[object], now: datetime | None) -> Iterator[Row]:
    """The meters of one model as quotes. Without the time of the answer every meter counts as in force."""
    meters: list[_Meter] = []
    for item in items:
        try:
            meters.append(_meter(as_object(item, "meter")))
        except BadRow as bad:
            yield skipped(str(bad), item)
    by_key: dict[_Key, list[_Meter]] = {}
    for meter in sorted(meters, key=lambda meter: meter.start):
        by_key.setdefault(meter.key, []).append(meter)
    yield from each(list(by_key.items()), lambda entry: _quotes(*entry, now))


def _quotes(key: _Key, meters: Sequence[_Meter], now: datetime | None) -> Iterator[TokenQuote]:
    """The prices in force, then those of each later start; kinds that do not change then go on."""
    if len({(meter.kind, meter.start) for meter in meters}) < len({(meter.kind, meter.start, meter.price) for meter in meters}):
        raise BadRow("two prices for one kind from one day on")
    starts = sorted({meter.start for meter in meters if now is not None and meter.start > now})
    for start, end in zip([None, *starts], [*starts, None], strict=True):
        prices = {meter.kind: meter.price for meter in meters if meter.start == start or meter.start not in starts or _before(meter, start)}
        if prices:
            yield TokenQuote(
                provider="azure",
                model=key.model,
                sku=key.sku,
                region=key.region,
                prices=prices,
                per=key.per,
                currency=key.currency,
                valid_from=start,
                valid_to=end,
            )


def _before(meter: _Meter, start: datetime | None) -> bool:
    return start is not None and meter.start < start


def _meter(fields: Mapping[str, Any]) -> _Meter:
    unit = UNITS.get(str(fields.get("unitOfMeasure")))
    if unit is None:
        raise BadRow("unit is no number of tokens")
    meter = METER.fullmatch(name(fields, "meterName"))
    if meter is None:
        raise BadRow("meter of an unknown kind")
    key = _Key(
        model=f"{name(fields, 'productName')} {meter['model']}",
        sku=SKUS[meter["scope"].lower()],
        region=name(fields, "armRegionName"),
        currency=name(fields, "currencyCode"),
        per=unit[0],
    )
    price = float_price(fields.get("retailPrice"), "retailPrice", tokens=unit[1])
    return _Meter(key=key, kind=KINDS.get(meter["kind"].lower(), "cache_read"), price=price, start=_start(fields))


def _start(fields: Mapping[str, Any]) -> datetime:
    value = fields.get("effectiveStartDate")
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise BadRow("effectiveStartDate is no time with a zone")
    return at
