"""Token prices of many API providers, collected by the pydantic/genai-prices project (MIT).

Docs: https://github.com/pydantic/genai-prices and the schema beside the file, prices/new_data/v2/data.schema.json (stored
copies, read 2026-11-29). Prices are USD per Mtok before tax, by hand or by script from the providers' pages; ``provider`` and
``model`` are the project's own ids. A price is in force from ``start_date`` (a UTC date) until another entry that comes later
in the list is; ``start_time`` to ``end_time`` is a daily UTC window (weekdays are not told apart). A context tier re-rates the
whole request once its prompt is larger than ``start``. ``cache_write_mtok`` prices every write that has no price of its own: it
is the 5-minute write, and an unstated 1-hour write stays unknown. ``price_variants`` name what they change and inherit the rest.
An empty price list (mostly ``:free`` models) states nothing. Audio, images, requests and searches are left out.
The older file prices/data.json is still served but frozen: never read it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, cast

from scrapers.contract import Page, Row, Skipped, TokenQuote
from scrapers.fields import BadRow, as_object, each, layout_changed, name, require_fields, require_page, skipped
from scrapers.token_fields import MINUTES_PER_DAY, Times, Window, number_price, prompt_size, week_cells, with_token_quotes

SOURCE = "genai_prices"
PATH = "/pydantic/genai-prices/refs/heads/main/prices/new_data/v2/data.json"

# Most general first: a price for 5-minute writes beats the one for all writes.
KINDS = {
    "input_mtok": "input",
    "cache_read_mtok": "cache_read",
    "cache_write_mtok": "cache_write_5m",
    "cache_write_5m_mtok": "cache_write_5m",
    "cache_write_1h_mtok": "cache_write_1h",
    "output_mtok": "output",
}
SKUS = {
    ("processing", "batch"): "batch",
    ("service_tier", "flex"): "flex",
    ("service_tier", "priority"): "priority",
    ("service_tier", "fast"): "highspeed",
    ("speed", "fast"): "highspeed",
}
STANDARD = {("service_tier", "default"): "standard", ("speed", "standard"): "standard"}  # restate the standard price


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """One entry of a price list: in force from ``start`` on, within ``window`` of each day."""

    start: datetime | None = None
    window: Window | None = None
    prices: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slice:
    """What a request pays in one period and part of the day, and the context tiers that it must state."""

    start: datetime | None
    end: datetime | None
    hours_utc: str
    prices: dict[str, Any]
    tiers: frozenset[int] = frozenset()


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """One quote per model, sku, validity interval, part of the day and context tier."""
    providers = require_page(SOURCE, pages).json()
    if not isinstance(providers, list):
        raise layout_changed(SOURCE, "expected a JSON list of providers")
    require_fields(SOURCE, providers, ("id", "models"), "providers")
    models = [model for item in providers if isinstance(item, dict) and isinstance(item.get("models"), list) for model in item["models"]]
    require_fields(SOURCE, models, ("id", "prices"), "models")
    return with_token_quotes(SOURCE, each(providers, _provider_rows))


def _provider_rows(item: object) -> Iterator[Row]:
    fields = as_object(item, "provider")
    provider = name(fields, "id")
    models = fields.get("models")
    if not isinstance(models, list):
        raise BadRow("models is not a list")
    yield from each(models, lambda model: _model_rows(provider, model))


def _model_rows(provider: str, item: object) -> Iterator[Row]:
    fields = as_object(item, "model")
    model, standard = name(fields, "id"), _entries(fields.get("prices"))
    yield from _quotes(TokenQuote(provider=provider, model=model, prices={}, per="mtok", currency="USD"), _standard_slices(standard))
    variants = fields.get("price_variants") or []
    if not isinstance(variants, list):
        raise BadRow("price_variants is not a list")
    by_sku: dict[str, list[_Entry]] = {}
    for variant in variants:
        try:
            for sku in _skus(variant):
                by_sku.setdefault(sku, []).append(_entry(variant))
        except BadRow as bad:
            yield skipped(str(bad), {"provider": provider, "model": model, "variant": variant})
    for sku, entries in by_sku.items():
        quote = TokenQuote(provider=provider, model=model, sku=sku, prices={}, per="mtok", currency="USD")
        yield from _quotes(quote, _variant_slices(standard, entries))


def _entries(prices: object) -> list[_Entry]:
    """The price list in its order; a single price is a list of one. One unreadable date makes every interval doubtful."""
    if isinstance(prices, list):
        if not prices:
            raise BadRow("prices is empty")
        return [_entry(item) for item in prices]
    return [_Entry(prices=as_object(prices, "prices"))]


def _entry(item: object) -> _Entry:
    fields = as_object(item, "price entry")
    prices = as_object(fields.get("prices"), "prices")
    constraint = fields.get("constraint")
    if constraint is None:
        return _Entry(prices=prices)
    keys = set(as_object(constraint, "constraint"))
    if keys == {"start_date"}:
        return _Entry(start=_midnight(constraint["start_date"]), prices=prices)
    if keys == {"start_time", "end_time"}:
        window = (_minute(constraint["start_time"]), _minute(constraint["end_time"]))
        if window[0] == window[1]:
            raise BadRow("start_time equals end_time")
        return _Entry(window=window, prices=prices)
    raise BadRow("constraint of an unknown kind")


def _midnight(value: object) -> datetime:
    try:
        return datetime.combine(date.fromisoformat(cast(str, value)), time(), tzinfo=UTC)
    except (TypeError, ValueError):
        raise BadRow("start_date is no date") from None


def _minute(value: object) -> int:
    """Minute of the UTC day; a time without a zone is UTC."""
    try:
        clock = time.fromisoformat(cast(str, value))
    except (TypeError, ValueError):
        raise BadRow("start_time or end_time is no time") from None
    offset = clock.utcoffset()
    if clock.second or clock.microsecond or (offset and offset.total_seconds() % 60):
        raise BadRow("start_time or end_time is not on a minute")
    return (clock.hour * 60 + clock.minute - (int(offset.total_seconds()) // 60 if offset else 0)) % MINUTES_PER_DAY


def _skus(variant: object) -> list[str]:
    """The skus a variant is for: ``when`` names one request parameter and its value or values."""
    when = as_object(as_object(variant, "variant").get("when"), "when")
    if len(when) != 1:
        raise BadRow("variant with several conditions")
    (key, values), skus = next(iter(when.items())), []
    for value in values if isinstance(values, list) else [values]:
        if not isinstance(value, str) or (key, value) not in SKUS | STANDARD:
            raise BadRow("variant of an unknown kind")
        skus.append((SKUS | STANDARD)[key, value])
    return list(dict.fromkeys(sku for sku in skus if sku != "standard"))


def _standard_slices(entries: Sequence[_Entry]) -> Iterator[_Slice]:
    for start, end in _periods(entries):
        yield from _day(start, end, _in_force(entries, start) or [entries[0]], entries[0])


def _variant_slices(standard: Sequence[_Entry], entries: Sequence[_Entry]) -> Iterator[_Slice]:
    """The standard slices with the prices of the variant that began last; none before the first one begins.

    The project has listed the entries of one variant both newest first and oldest first, so their order says nothing.
    """
    ordered = sorted(entries, key=lambda entry: (entry.start is not None, entry.start))
    for start, end in _periods([*standard, *ordered]):
        variant = next((entry for entry in reversed(ordered) if _began(entry, start)), None)
        if variant is not None:
            for part in _day(start, end, _in_force(standard, start) or [standard[0]], standard[0]):
                yield replace(part, prices=part.prices | variant.prices)


def _periods(entries: Sequence[_Entry]) -> Iterator[tuple[datetime | None, datetime | None]]:
    """The intervals [from, to) between the dates on which an entry begins; None is open."""
    dates = sorted({entry.start for entry in entries if entry.start is not None})
    yield from zip([None, *dates], [*dates, None], strict=True)


def _in_force(entries: Sequence[_Entry], at: datetime | None) -> list[_Entry]:
    return [entry for entry in entries if _began(entry, at)]


def _began(entry: _Entry, at: datetime | None) -> bool:
    return entry.start is None or (at is not None and entry.start <= at)


def _day(start: datetime | None, end: datetime | None, entries: Sequence[_Entry], fallback: _Entry) -> Iterator[_Slice]:
    """The parts of a day in one period: the last entry that applies wins, the first of the list where none does."""
    all_day = [n for n, entry in enumerate(entries) if entry.window is None]
    usual = entries[all_day[-1]] if all_day else fallback
    timed = list(entries[all_day[-1] + 1 :] if all_day else entries)
    yield _Slice(start=start, end=end, hours_utc="", prices=usual.prices)
    for cell in week_cells([Times(window=entry.window) for entry in timed]):
        # A window that knows no tier is still the price of a long prompt, so it states the tiers of the rest of the day too.
        prices = timed[cell.active[-1]].prices
        yield _Slice(start=start, end=end, hours_utc=cell.hours_utc, prices=prices, tiers=frozenset(_tier_starts(usual.prices)))


def _quotes(quote: TokenQuote, slices: Iterator[_Slice]) -> Iterator[Row]:
    """A quote per slice and tier; one price that goes on from period to period is one quote."""
    rows: list[TokenQuote] = []
    ending: dict[tuple[object, ...], int] = {}  # position in ``rows`` by what is asked and until when
    faults: dict[str, Skipped] = {}
    for part in slices:
        try:
            tiers = _tiers(part)
        except BadRow as bad:
            faults.setdefault(str(bad), skipped(str(bad), {"provider": quote.provider, "model": quote.model, "prices": part.prices}))
            continue
        for min_prompt, prices in tiers:
            asked = (part.hours_utc, min_prompt, *sorted(prices.items()))
            position = ending.pop((*asked, part.start), None)
            if position is None:
                position = len(rows)
                rows.append(replace(quote, prices=prices, hours_utc=part.hours_utc, min_prompt_tokens=min_prompt, valid_from=part.start))
            rows[position] = replace(rows[position], valid_to=part.end)
            ending[(*asked, part.end)] = position
    yield from faults.values()
    yield from rows


def _tiers(part: _Slice) -> list[tuple[int, dict[str, Decimal]]]:
    """Prices by the prompt size above which they apply; a kind without tiers costs the same in all of them."""
    tokens = {key: value for key, value in part.prices.items() if key in KINDS and value is not None}
    if not tokens:
        raise BadRow("no token price")
    starts = sorted({0, *part.tiers, *_tier_starts(tokens)})
    return [(start, {KINDS[key]: _price_at(tokens[key], start, key) for key in KINDS if key in tokens}) for start in starts]


def _tier_starts(prices: Mapping[str, Any]) -> Iterator[int]:
    for key, value in prices.items():
        if key in KINDS and isinstance(value, dict):
            yield from (start for start, _ in _tier_prices(value, key))


def _price_at(value: object, start: int, key: str) -> Decimal:
    if not isinstance(value, dict):
        return number_price(value, key)
    reached = [price for tier, price in _tier_prices(value, key) if tier <= start]
    return reached[-1] if reached else number_price(value.get("base"), f"{key} base")


def _tier_prices(value: Mapping[str, Any], key: str) -> list[tuple[int, Decimal]]:
    tiers = value.get("tiers")
    if not isinstance(tiers, list):
        raise BadRow(f"{key} tiers is not a list")
    found = [as_object(tier, f"{key} tier") for tier in tiers]
    prices = {prompt_size(tier.get("start"), f"{key} start"): number_price(tier.get("price"), f"{key} tier") for tier in found}
    if len(prices) < len(found) or 0 in prices:
        raise BadRow(f"{key} tiers begin at one prompt size or at 0")
    return sorted(prices.items())
