"""OpenRouter's model list: what a request through OpenRouter costs, USD per token as decimal strings.

Docs: https://openrouter.ai/docs/api/api-reference/models/get-models and the PricingOverride component of its client libraries
(stored copies, read 2026-11-29). No key. The price is that of the endpoint OpenRouter shows first, so it moves with the hosts
behind it; the fee on bought credits is not in it. "-1" means the price is set per request (routers): no price. "0" is a stated
zero. ``overrides`` change the base price where all their conditions hold: prompts strictly larger than ``min_prompt_tokens``,
a daily UTC window [utc_start, utc_end) in HHMM that may wrap midnight, ``utc_days`` judged at the instant of the request; among
those that apply the later one wins per price, and what none of them names is the base price. The suffix of an id
(``:free``, ``:batch``, ``:thinking``) is the sku. ``~author/x-latest`` and everything with ``alias_target`` repeat another model.
Images, audio, requests, searches and separately priced reasoning are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from scrapers.contract import Client, Page, Row, TokenQuote
from scrapers.fields import BadRow, as_object, each, layout_changed, name, require_fields, require_page, skipped
from scrapers.token_fields import EVERY_DAY, Cell, Times, Window, prompt_size, text_price, week_cells, with_token_quotes

SOURCE = "openrouter"
PATH = "/api/v1/models"
MAX_PAGES = 50  # 416 models fit on one page today; a next link that never ends is a fault

KINDS = {
    "prompt": "input",
    "input_cache_read": "cache_read",
    "input_cache_write": "cache_write_5m",
    "input_cache_write_1h": "cache_write_1h",
    "completion": "output",
}
OTHER_PRICES = {"audio", "audio_output", "discount", "image", "image_output", "image_token", "input_audio_cache"}
OTHER_PRICES |= {"internal_reasoning", "request", "web_search"}
DAYS = dict(zip(("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"), EVERY_DAY, strict=True))
ALWAYS = Times()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Override:
    """The prices that change, for prompts larger than ``min_prompt`` at ``times``."""

    min_prompt: int
    times: Times
    prices: dict[str, Decimal]


def fetch(client: Client, secrets: Mapping[str, str]) -> list[Page]:
    """All pages of the list; ``links.next`` is null on the last one."""
    pages = [client.get(PATH)]
    while (link := _next(pages[-1])) and len(pages) < MAX_PAGES:
        pages.append(client.get(link))
    if link:
        raise layout_changed(SOURCE, f"expected the list to end within {MAX_PAGES} pages")
    return pages


def _next(page: Page) -> str:
    answer = page.json()
    links = answer.get("links") if isinstance(answer, dict) else None
    link = links.get("next") if isinstance(links, dict) else None
    return link if isinstance(link, str) else ""


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """One quote per model, context tier and part of the week."""
    require_page(SOURCE, pages)
    models = [model for page in pages for model in _models(page)]
    require_fields(SOURCE, models, ("id", "pricing"), "models")
    return with_token_quotes(SOURCE, each(models, _model_rows))


def _models(page: Page) -> list[object]:
    answer = page.json()
    models = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(models, list):
        raise layout_changed(SOURCE, 'expected an object with a list "data"')
    return models


def _model_rows(item: object) -> Iterator[Row]:
    fields = as_object(item, "model")
    model = name(fields, "id")
    if model.startswith("~") or fields.get("alias_target"):
        raise BadRow("alias of another model")
    quote = TokenQuote(provider="openrouter", model=model, sku=_sku(model), prices={}, per="token", currency="USD")
    yield from pricing_rows(quote, fields.get("pricing"))


def pricing_rows(quote: TokenQuote, item: object) -> Iterator[Row]:
    """``quote`` with the prices of a pricing object, and once more for each part of the week and context tier that differs."""
    pricing = as_object(item, "pricing")
    prices = _prices(pricing)
    if not prices:
        raise BadRow("no token price")
    overrides: list[_Override] = []
    entries = pricing.get("overrides") or []
    if not isinstance(entries, list):
        raise BadRow("overrides is not a list")
    for entry in entries:
        try:
            overrides.append(_override(entry))
        except BadRow as bad:
            yield skipped(f"override: {bad}", {"id": quote.model, "override": entry})
    yield from _quotes(replace(quote, prices=prices), [override for override in overrides if override.prices])


def _sku(model: str) -> str:
    return model.rpartition("/")[2].partition(":")[2] or "standard"


def _prices(fields: Mapping[str, Any]) -> dict[str, Decimal]:
    """Prices by token kind as far as they are stated; a single unreadable one makes the whole row doubtful."""
    if any(fields.get(key) in ("-1", -1) for key in KINDS):
        raise BadRow("no fixed price (-1)")
    return {kind: text_price(fields[key], key) for key, kind in KINDS.items() if key in fields}


def _override(item: object) -> _Override:
    fields = as_object(item, "entry")
    conditions = fields.keys() - KINDS.keys() - OTHER_PRICES
    if not conditions or conditions - {"min_prompt_tokens", "utc_start", "utc_end", "utc_days"}:
        raise BadRow("without a condition" if not conditions else "with an unknown condition")
    min_prompt = prompt_size(fields.get("min_prompt_tokens", 0), "min_prompt_tokens")
    return _Override(min_prompt=min_prompt, times=Times(window=_window(fields), weekdays=_weekdays(fields)), prices=_prices(fields))


def _window(fields: Mapping[str, Any]) -> Window | None:
    if "utc_start" not in fields and "utc_end" not in fields:
        return None
    start, end = _minute(fields, "utc_start"), _minute(fields, "utc_end")
    if start == end:
        raise BadRow("utc_start equals utc_end")
    return start, end


def _minute(fields: Mapping[str, Any], key: str) -> int:
    """Minute of the day of an HHMM clock number: 1030 is 10:30, 2400 the end of the day."""
    value = fields.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 2400 or value % 100 > 59:
        raise BadRow(f"{key} is no HHMM clock number")
    return value // 100 * 60 + value % 100


def _weekdays(fields: Mapping[str, Any]) -> str:
    days = fields.get("utc_days")
    if days is None:
        return EVERY_DAY
    if not isinstance(days, list) or not days or not all(isinstance(day, str) and day in DAYS for day in days):
        raise BadRow("utc_days is no list of weekdays")
    return "".join(sorted({DAYS[day] for day in days}))


def _quotes(base: TokenQuote, overrides: Sequence[_Override]) -> Iterator[TokenQuote]:
    """The base price with what always applies, then a quote for each part of the week and context tier that differs."""
    timed = [n for n, override in enumerate(overrides) if override.times != ALWAYS]
    cells = week_cells([overrides[n].times for n in timed])
    for cell in [Cell(hours_utc="", weekdays="", active=()), *cells]:
        here = {timed[n] for n in cell.active}
        possible = [n for n in range(len(overrides)) if n in here or n not in timed]
        for tier in sorted({0, *(overrides[n].min_prompt for n in possible)}):
            applying = [n for n in possible if overrides[n].min_prompt <= tier]
            if here and not here.intersection(applying):
                continue  # the same price as at any other time
            prices = dict(base.prices)
            for n in applying:
                prices.update(overrides[n].prices)
            yield replace(base, prices=prices, min_prompt_tokens=tier, hours_utc=cell.hours_utc, weekdays=cell.weekdays)
