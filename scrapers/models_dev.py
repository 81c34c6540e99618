"""models.dev's catalogue of API models (MIT): USD per Mtok as floats, collected by hand from many providers and gateways.

Docs: https://github.com/anomalyco/models.dev (README and stored copies of the data, read 2026-11-29). ``/api.json`` is providers by
id, each with its models by id. No dates of prices, no hours, no currency: where a provider sells in CNY its page was converted by
somebody at some time, or the entry is that of the international platform. ``tiers`` re-rate a prompt larger than ``size`` and
inherit what they do not name; ``context_over_200k`` repeats one of them. ``experimental.modes.fast`` is the highspeed sku.
0 for input and output stands for a subscription, a free tier or an unknown price: no price of an API. Many providers are gateways.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

from scrapers.contract import Page, Row, TokenQuote
from scrapers.fields import BadRow, as_object, clean_name, each, layout_changed, require_fields, require_page
from scrapers.token_fields import float_price, prompt_size, with_token_quotes

SOURCE = "models_dev"
PATH = "/api.json"
KINDS = {"input": "input", "cache_read": "cache_read", "cache_write": "cache_write_5m", "output": "output"}
MODES = {"fast": "highspeed"}


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """One quote per model, mode and context tier."""
    answer = require_page(SOURCE, pages).json()
    if not isinstance(answer, dict):
        raise layout_changed(SOURCE, "expected a JSON object of providers")
    require_fields(SOURCE, list(answer.values()), ("models",), "providers")
    listed = [item["models"] for item in answer.values() if isinstance(item, dict) and isinstance(item.get("models"), dict)]
    require_fields(SOURCE, [model for models in listed for model in models.values()], ("cost",), "models")
    return with_token_quotes(SOURCE, each(list(answer.items()), lambda entry: _provider_rows(*entry)))


def _provider_rows(key: str, item: object) -> Iterator[Row]:
    provider = clean_name(key, "provider")
    models = as_object(as_object(item, "provider").get("models"), "models")
    yield from each(list(models.items()), lambda entry: _model_rows(provider, *entry))


def _model_rows(provider: str, key: str, item: object) -> Iterator[Row]:
    fields = as_object(item, "model")
    if fields.get("cost") is None:
        raise BadRow("no cost")
    quote = TokenQuote(provider=provider, model=clean_name(key, "model"), prices={}, per="mtok", currency="USD")
    yield from _cost_rows(quote, fields["cost"])
    modes = as_object(as_object(fields.get("experimental") or {}, "experimental").get("modes") or {}, "modes")
    for mode, sku in MODES.items():
        if mode in modes:
            yield from each([modes[mode]], partial(_mode_rows, replace(quote, sku=sku)))


def _mode_rows(quote: TokenQuote, item: object) -> Iterator[Row]:
    yield from _cost_rows(quote, as_object(item, "mode").get("cost"))


def _cost_rows(quote: TokenQuote, item: object) -> Iterator[Row]:
    cost = as_object(item, "cost")
    prices = _prices(cost)
    if not prices:
        raise BadRow("no token price")
    if not prices.get("input") and not prices.get("output"):
        raise BadRow("0 for input and output is no price")
    tiers = cost.get("tiers") or []
    if not isinstance(tiers, list):
        raise BadRow("tiers is not a list")
    larger = sorted(map(_tier, tiers), key=lambda tier: tier[0])
    yield replace(quote, prices=prices)
    for size, changes in larger:
        prices = prices | changes
        yield replace(quote, prices=prices, min_prompt_tokens=size)


def _tier(item: object) -> tuple[int, dict[str, Decimal]]:
    fields = as_object(item, "tier")
    rule = as_object(fields.get("tier"), "tier rule")
    if rule.get("type", "context") != "context":
        raise BadRow("tier of an unknown kind")
    return prompt_size(rule.get("size"), "tier size"), _prices(fields)


def _prices(fields: Mapping[str, Any]) -> dict[str, Decimal]:
    return {kind: float_price(fields[key], key) for key, kind in KINDS.items() if fields.get(key) is not None}
