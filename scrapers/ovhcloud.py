"""OVHcloud Public Cloud GPU instance prices from the order catalogue, no key. Docs: https://eu.api.ovh.com/console/?section=%2Forder
(GET /order/catalog/public/cloud; read 2026-11-29, from stored copies).

What a price means: for the whole instance (all its GPUs) running Linux, without VAT (``tax`` stands beside it), in the currency of the
subsidiary's catalogue, as an integer of 1e-8: per hour, or per calendar month for plans that end in ``monthly.postpaid``. The suffix of a
plan tells where it is sold (``3AZ``, ``LZ`` local zones). The catalogue lists; it states no stock.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

from scrapers.contract import GpuQuote, Page, RentUnit, Row, Tier
from scrapers.fields import (
    CURRENCY,
    BadRow,
    as_object,
    clean_price,
    count,
    each,
    layout_changed,
    name,
    optional_memory,
    optional_number,
    require_fields,
    require_page,
    with_quotes,
)

SOURCE = "ovhcloud"
PATH = "/1.0/order/catalog/public/cloud?ovhSubsidiary=FR"
PRINTED_CURRENCIES = ("EUR",)
SCALE = Decimal("0.00000001")
PRODUCT = "publiccloud-instance"
PLAN = re.compile(r"(?P<flavor>.+?)\.(?P<term>consumption|monthly\.postpaid)(?:\.(?P<zone>[A-Za-z0-9.]{1,20}))?")
UNITS: Mapping[str, tuple[RentUnit, Tier, int | None, str]] = {
    "consumption": ("node_hour", "on_demand", None, "hour"),
    "monthly.postpaid": ("node_month", "reserved", 1, "month"),
}
ROUNDING = Decimal("0.005")  # formattedPrice has two decimals


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """One quote per GPU flavor, billing period and zone."""
    return catalogue_rows(SOURCE, pages)


def catalogue_rows(source: str, pages: Sequence[Page]) -> Iterator[Row]:
    """The quotes of one subsidiary's catalogue; errors name ``source``."""
    catalog = require_page(source, pages).json()
    addons = catalog.get("addons") if isinstance(catalog, dict) else None
    if not isinstance(addons, list):
        raise layout_changed(source, f'expected a list "addons", found {type(addons).__name__}')
    locale = catalog.get("locale")
    currency = locale.get("currencyCode") if isinstance(locale, dict) else None
    if not isinstance(currency, str) or not CURRENCY.fullmatch(currency):
        raise layout_changed(source, 'no "currencyCode" in the locale of the catalogue')
    require_fields(source, addons, ("planCode", "product", "pricings", "blobs"), "addons")
    yield from with_quotes(source, each(addons, partial(_addon_rows, currency)))


def _addon_rows(currency: str, raw: object) -> Iterator[Row]:
    """The quote of one plan; none for what is no GPU instance running Linux."""
    addon = as_object(raw, "addon")
    if (
        addon.get("product") != PRODUCT
        or _path(addon, "commercial", "brick") != "gpu"
        or _path(addon, "technical", "os", "family") != "linux"
    ):
        return
    plan = PLAN.fullmatch(name(addon, "planCode"))
    if plan is None:
        raise BadRow("planCode has another form")
    tags = _path(addon, "tags")
    if not isinstance(tags, list) or "active" not in tags or "coming_soon" in tags:
        raise BadRow("not active")
    gpu = as_object(_path(addon, "technical", "gpu"), "gpu")
    per, tier, months, unit = UNITS[plan["term"]]
    yield GpuQuote(
        provider="ovhcloud",
        sku=plan["flavor"],
        gpu=name(gpu, "model"),
        gpu_count=count(gpu, "number"),
        memory_gb=optional_memory(as_object(gpu.get("memory", {}), "gpu memory"), "size"),
        region=plan["zone"] or "",
        tier=tier,
        term_months=months,
        price=_price(addon, unit),
        per=per,
        scale=SCALE,
        currency=currency,
        availability="listed",
    )


def _path(addon: Mapping[str, Any], *keys: str) -> Any:
    """A value below ``blobs``; None where any step is missing."""
    value: Any = addon.get("blobs")
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _price(addon: Mapping[str, Any], unit: str) -> Decimal:
    """The one price of a plan, as an integer of 1e-8; its printed form must agree, so that a change of scale shows."""
    pricings = addon.get("pricings")
    if not isinstance(pricings, list) or len(pricings) != 1:
        raise BadRow("not one price")
    pricing = as_object(pricings[0], "pricing")
    if pricing.get("intervalUnit") not in (unit, "none"):  # the US catalogue says none, the plan code decides
        raise BadRow("price is for another period")
    amount = optional_number(pricing, "price")
    if amount is None:
        raise BadRow("price is not a number")
    clean_price(amount * SCALE, "price")
    printed = re.search(r"[0-9]+[.,][0-9]{2}", str(pricing.get("formattedPrice", "")).replace(" ", "").replace("\u202f", ""))
    if printed is not None and abs(Decimal(printed[0].replace(",", ".")) - amount * SCALE) > ROUNDING:
        raise BadRow("price and formattedPrice differ")
    return amount
