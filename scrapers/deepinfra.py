"""DeepInfra's own model list: US cents per token.

Docs: https://deepinfra.com/docs and the answer of ``/models/list`` (stored copies, read 2026-11-29). No key; a bare JSON list.
``cents_per_input_token`` 0.00003 is 0.30 USD per Mtok. Cache prices are printed as multipliers of the input price
(``rate_per_input_token_cached`` 0.1); the free text beside them has said otherwise and is not read, nor are the context tiers that
stand in that text alone: the prices are those of the shortest prompts. Retired models stay in the list with ``deprecated`` set.
What ``discount`` is taken from is not documented, so a discounted model is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from scrapers.contract import Page, Row, TokenQuote
from scrapers.fields import BadRow, as_object, each, layout_changed, name, require_fields, require_page
from scrapers.token_fields import FLOAT_DIGITS, float_price, with_token_quotes

SOURCE = "deepinfra"
PATH = "/models/list"
CENT = Decimal("0.01")
PER_CENT_TOKEN = Decimal(100)  # a price of cents may be a hundred times that of dollars
MAX_MULTIPLIER = 10
MULTIPLIERS = {"rate_per_input_token_cached": "cache_read", "rate_per_input_token_cache_write": "cache_write_5m"}


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """One quote per text model that is served."""
    models = require_page(SOURCE, pages).json()
    if not isinstance(models, list):
        raise layout_changed(SOURCE, "expected a JSON list of models")
    require_fields(SOURCE, models, ("model_name", "pricing"), "models")
    return with_token_quotes(SOURCE, each(models, _model_rows))


def _model_rows(item: object) -> Iterator[Row]:
    fields = as_object(item, "model")
    model = name(fields, "model_name")
    if fields.get("deprecated") or fields.get("private"):
        raise BadRow("model is deprecated or private")
    pricing = as_object(fields.get("pricing"), "pricing")
    if pricing.get("type", "tokens") != "tokens":
        raise BadRow("not sold by token")
    if pricing.get("discount"):
        raise BadRow("discounted")
    yield TokenQuote(provider="deepinfra", model=model, prices=_prices(pricing), per="token", scale=CENT, currency="USD")


def _prices(pricing: Mapping[str, Any]) -> dict[str, Decimal]:
    """Cents per token by kind."""
    prices = {kind: float_price(pricing.get(f"cents_per_{kind}_token"), kind, tokens=PER_CENT_TOKEN) for kind in ("input", "output")}
    for field, kind in MULTIPLIERS.items():
        if pricing.get(field) is not None:
            prices[kind] = FLOAT_DIGITS.multiply(prices["input"], _multiplier(pricing[field], field))
    return prices


def _multiplier(value: object, field: str) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not 0 <= value <= MAX_MULTIPLIER:
        raise BadRow(f"{field} is no multiplier")
    return Decimal(value)
