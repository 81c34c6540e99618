"""litellm's price map (MIT): the widest list of API prices and the noisiest, used as a second opinion.

Docs: https://docs.litellm.ai/docs/provider_registration/add_model_pricing and the entry ``sample_spec`` of the file
(stored copies, read 2026-11-29). One JSON object, model key to fields; ``sample_spec`` documents itself with text where numbers go.
USD per token, computed in floats. ``litellm_provider`` and the key are litellm's own names: one model stands under several keys,
whole families come and go, a 0 may be free, a plan or a placeholder. A suffix of a price field is a sku (``_batches``, ``_flex``,
``_priority``) and states what it states, the rest is unknown; ``_above_200k_tokens`` is a context tier, larger than 200,000, and
inherits; ``tiered_pricing`` says the same by ranges. With ``off_peak_pricing`` the plain fields are the peak price and the windows
are the cheaper hours, the other way round than elsewhere. ``*_dbu_cost_per_token`` is no money. Images, audio, characters, seconds,
requests, searches, reasoning and regional multipliers are left out. A package version is no date of the prices in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from scrapers.contract import Page, Row, TokenQuote
from scrapers.fields import BadRow, as_object, clean_name, each, layout_changed, name, require_fields, require_page
from scrapers.token_fields import EVERY_DAY, Times, Window, float_price, prompt_size, week_cells, with_token_quotes

SOURCE = "litellm"
PATH = "/BerriAI/litellm/refs/heads/main/model_prices_and_context_window.json"
DOCUMENTATION = "sample_spec"
TEXT_MODES = ("chat", "completion", "responses")
PER_TOKEN = Decimal(1)
NEXT_DAY_FROM = {"UTC": 24 * 60, "Asia/Shanghai": 16 * 60}  # minute of the UTC day at which the next weekday begins there

# The more special name comes last and wins.
KINDS = {
    "input_cost_per_token": "input",
    "input_cost_per_token_cache_hit": "cache_read",
    "cache_read_input_token_cost": "cache_read",
    "cache_creation_input_token_cost": "cache_write_5m",
    "cache_creation_input_token_cost_above_1hr": "cache_write_1h",
    "output_cost_per_token": "output",
}
ORDER = {field: position for position, field in enumerate(KINDS)}
SKUS = {
    "": "standard",
    "_batches": "batch",
    "_flex": "flex",
    "_priority": "priority",
    "_balanced": "balanced",
    "_decisions": "decisions",
    "_ultrafast": "ultrafast",
}
FIELD = re.compile(
    rf"({'|'.join(sorted(KINDS, key=len, reverse=True))})(?:_above_([0-9]{{1,6}})k_tokens)?({'|'.join(filter(None, SKUS))}|)"
)
WINDOW = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])-([01][0-9]|2[0-3]):([0-5][0-9])")

Prices = dict[str, Decimal]


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """One quote per model, sku, context tier and part of the week."""
    answer = require_page(SOURCE, pages).json()
    if not isinstance(answer, dict):
        raise layout_changed(SOURCE, "expected a JSON object of models")
    models = [(key, fields) for key, fields in answer.items() if key != DOCUMENTATION]
    require_fields(SOURCE, [fields for _, fields in models], ("litellm_provider", "mode", "input_cost_per_token"), "models")
    return with_token_quotes(SOURCE, each(models, lambda model: _model_rows(*model)))


def _model_rows(key: str, item: object) -> Iterator[Row]:
    fields = as_object(item, "model")
    if fields.get("mode") not in TEXT_MODES:
        raise BadRow("no text model")
    quote = TokenQuote(provider=name(fields, "litellm_provider"), model=clean_name(key, "model"), prices={}, per="token", currency="USD")
    lists = _stated(fields)
    if not lists.get("standard", {}).get(0):
        lists.pop("standard", None)  # tiers or a suffix without a base price
    if "tiered_pricing" in fields:
        lists["standard"] = _ranges(fields["tiered_pricing"])
    if not lists:
        raise BadRow("no token price")
    for sku, tiers in lists.items():
        prices: Prices = {}
        for start in sorted(tiers):
            prices = prices | tiers[start]
            yield replace(quote, sku=sku, prices=prices, min_prompt_tokens=start)
    if fields.get("off_peak_pricing") is not None:
        yield from each([fields["off_peak_pricing"]], lambda off_peak: _off_peak(quote, lists.get("standard", {}), off_peak))


def _stated(fields: Mapping[str, Any]) -> dict[str, dict[int, Prices]]:
    """Prices by sku, context tier and token kind, from the names of the fields."""
    lists: dict[str, dict[int, Prices]] = {}
    named = [(found, value) for field, value in fields.items() if value is not None and (found := FIELD.fullmatch(field))]
    for found, value in sorted(named, key=lambda each: ORDER[each[0][1]]):
        price = float_price(value, found[0], tokens=PER_TOKEN)
        lists.setdefault(SKUS[found[3]], {}).setdefault(int(found[2] or 0) * 1000, {})[KINDS[found[1]]] = price
    return lists


def _ranges(item: object) -> dict[int, Prices]:
    """Prices by the start of the range of prompt sizes, [start, end) in the file: larger than start."""
    if not isinstance(item, list) or not item:
        raise BadRow("tiered_pricing is not a list")
    tiers: dict[int, Prices] = {}
    for entry in item:
        fields = as_object(entry, "tiered_pricing entry")
        bounds = fields.get("range")
        if not isinstance(bounds, list) or len(bounds) != 2:
            raise BadRow("tiered_pricing range is no pair")
        start = prompt_size(bounds[0], "tiered_pricing range")
        tiers[start] = _stated(fields).get("standard", {}).get(0, {})
    if len(tiers) < len(item) or not tiers.get(0):
        raise BadRow("tiered_pricing ranges do not begin at 0 or overlap")
    return tiers


def _off_peak(peak: TokenQuote, standard: Mapping[int, Prices], item: object) -> Iterator[Row]:
    """The cheaper hours of a model whose plain price is that of the peak."""
    fields = as_object(item, "off_peak_pricing")
    next_day_from = NEXT_DAY_FROM.get(str(fields.get("weekday_timezone", "UTC")))
    if next_day_from is None:
        raise BadRow("off_peak_pricing weekdays in an unknown time zone")
    if set(standard) != {0}:
        raise BadRow("off_peak_pricing beside context tiers")
    prices = standard[0] | _stated(fields).get("standard", {}).get(0, {})
    times = [replace(each, next_day_from=next_day_from) for each in _times(fields.get("windows"))]
    for cell in week_cells(times):
        yield replace(peak, prices=prices, hours_utc=cell.hours_utc, weekdays=cell.weekdays)


def _times(windows: object) -> Iterator[Times]:
    if not isinstance(windows, list) or not windows:
        raise BadRow("off_peak_pricing windows is not a list")
    for item in windows:
        fields = as_object(item, "off_peak_pricing window")
        hours = fields.get("hours_utc")
        days = fields.get("weekdays", [int(day) for day in EVERY_DAY])
        if not isinstance(days, list) or not days or not all(str(day) in EVERY_DAY and str(day) for day in days):
            raise BadRow("off_peak_pricing weekdays are no ISO weekdays")
        for text in hours if isinstance(hours, list) else [hours]:
            yield Times(window=_window(text), weekdays="".join(sorted({str(day) for day in days})))


def _window(text: object) -> Window | None:
    """A window of the UTC day; "00:00-00:00" is all day."""
    found = WINDOW.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise BadRow("off_peak_pricing hours_utc is no window")
    start, end = int(found[1]) * 60 + int(found[2]), int(found[3]) * 60 + int(found[4])
    return None if start == end else (start, end)
