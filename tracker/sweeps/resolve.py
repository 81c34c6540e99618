"""Turns quotes (as printed) into rows of the book: exact alias, unit, currency code. The only place that converts.

A price is kept in its native currency; USD is worked out when it is read. What cannot be resolved is refused with a
reason and counted, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from engine.offers import AVAILABILITIES, PRICE_KINDS, TIERS, TRUSTS
from engine.rates import TOKEN_KINDS
from engine.units import HOURS_PER_MONTH, MINUTES_PER_HOUR, MTOK, SECONDS_PER_HOUR
from scrapers.contract import GpuQuote, TokenQuote
from tracker.database.limits import MAX_GPUS, MAX_NAME, MAX_TERM_MONTHS, clean
from tracker.database.rows import OfferRow, RateRow, scaled, to_s
from tracker.database.schema import RATE_SCALE, RENT_SCALE
from tracker.facts.values import Catalogue

# hours in one period, as a fraction's numerator and denominator, so that nothing is rounded before the last step
_PERIODS = {"hour": (1, 1), "minute": (MINUTES_PER_HOUR, 1), "second": (SECONDS_PER_HOUR, 1), "month": (1, HOURS_PER_MONTH)}
_TOKEN_UNITS = {"token": MTOK, "ktok": 1000, "mtok": 1}
_CURRENCY = re.compile(r"[A-Z]{3}")
_HOURS = re.compile(r"(([01]\d|2[0-3]):[0-5]\d-([01]\d|2[0-3]):[0-5]\d)(,([01]\d|2[0-3]):[0-5]\d-([01]\d|2[0-3]):[0-5]\d)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A quote that could not become a row. ``name`` is set where a name is unmapped."""

    reason: str
    detail: str = ""
    unmapped: tuple[str, str] | None = None  # (gpu or model, name)


def resolve_gpu(quote: GpuQuote, source: str, catalogue: Catalogue, source_url: str) -> OfferRow | Refused:
    """The offer a rental quote prints, in native currency per hour for all its GPUs."""
    shown = clean(f"{quote.provider} {quote.sku} {quote.gpu}")
    known = catalogue.instances.get((quote.provider, quote.sku))
    if known is not None and known.whole and quote.gpu_count == 0:
        quote = replace(quote, gpu_count=int(known.gpu_count))  # not counted, and the type says it
    if (reason := _gpu_fault(quote)) is not None:
        return Refused(reason=reason, detail=shown)
    sku = clean(quote.sku)
    gpu = catalogue.gpu_for(source, quote.provider, quote.gpu, memory_gb=quote.memory_gb, sku=quote.sku)
    if gpu is None:
        return Refused(reason="unmapped gpu", detail=shown, unmapped=("gpu", clean(quote.gpu)))
    if known is not None and known.gpu_count != quote.gpu_count:
        return Refused(reason="gpu count is not that of the type", detail=shown)
    try:
        price = scaled(_native_per_hour(quote), RENT_SCALE)
    except (ValueError, ArithmeticError) as error:
        return Refused(reason="price out of range", detail=clean(f"{shown}: {error}"))
    return OfferRow(
        provider=clean(quote.provider),
        sku=sku,
        region=clean(quote.region),
        gpu=gpu,
        gpu_count=quote.gpu_count,
        tier=quote.tier,
        term_months=quote.term_months or 0,
        trust=quote.trust,
        currency=quote.currency,
        valid_from=None if quote.valid_from is None else to_s(quote.valid_from),
        is_slice=quote.is_slice,
        price_kind=quote.price_kind,
        interconnect=clean(quote.interconnect) or "unknown",
        source_url=source_url,
        price=price,
        availability=AVAILABILITIES.index(quote.availability),
        max_gpu_count=quote.max_gpu_count,
    )


def _gpu_fault(quote: GpuQuote) -> str | None:
    """Why a rental quote cannot be used, or None."""
    checks = (
        (not isinstance(quote.price, Decimal) or not quote.price.is_finite(), "price is no finite number"),
        (isinstance(quote.price, Decimal) and quote.price.is_finite() and quote.price <= 0, "price is not above 0"),
        (not _CURRENCY.fullmatch(quote.currency), "currency unknown"),
        (quote.tier not in TIERS, "tier unknown"),
        (not _is_whole(quote.term_months or 1, 1, MAX_TERM_MONTHS), "term out of range"),
        (quote.trust not in TRUSTS, "trust unknown"),
        (quote.availability not in AVAILABILITIES, "availability unknown word"),
        (quote.price_kind not in PRICE_KINDS, "price kind unknown"),
        (not clean(quote.sku), "sku is empty"),
        (not clean(quote.provider), "provider is empty"),
        (_too_long(quote.provider, quote.sku, quote.gpu, quote.region, quote.interconnect), "name too long"),
        (quote.valid_from is not None and quote.valid_from.tzinfo is None, "time without zone"),
        (quote.per.partition("_")[2] not in _PERIODS or quote.per.partition("_")[0] not in ("gpu", "node"), "unit unknown"),
    )
    return next((reason for wrong, reason in checks if wrong), None) or _count_fault(quote)


def _count_fault(quote: GpuQuote) -> str | None:
    if not _is_whole(quote.gpu_count, 1, MAX_GPUS):
        return "gpu count out of range"
    if quote.max_gpu_count is not None and not _is_whole(quote.max_gpu_count, quote.gpu_count, MAX_GPUS):
        return "max gpu count out of range"
    return None


def _is_whole(number: object, least: int, most: int) -> bool:
    """Whether it is a whole number from ``least`` to ``most``."""
    return isinstance(number, int) and not isinstance(number, bool) and least <= number <= most


def _too_long(*names: str) -> bool:
    """Whether a name would have to be cut, and might then mean another one."""
    return any(len(name) > MAX_NAME for name in names)


def _native_per_hour(quote: GpuQuote) -> Decimal:
    whom, _, period = quote.per.partition("_")
    times, over = _PERIODS[period]
    gpus = quote.gpu_count if whom == "gpu" else 1
    return quote.price * quote.scale * gpus * times / over


def resolve_tokens(
    quote: TokenQuote, source: str, catalogue: Catalogue, source_url: str, provider_ids: Mapping[str, str]
) -> RateRow | Refused:
    """The rate a token quote prints, in native currency per Mtok. ``provider_ids`` gives every known spelling its provider's id."""
    shown = clean(f"{quote.provider} {quote.model}")
    if (reason := _token_fault(quote)) is not None:
        return Refused(reason=reason, detail=shown)
    alias = catalogue.model_for(source, quote.provider, quote.model)
    if alias is None:
        return Refused(reason="unmapped model", detail=shown, unmapped=("model", shown))
    factor = quote.scale * _TOKEN_UNITS[quote.per]
    try:
        prices = {kind: scaled(price * factor, RATE_SCALE) for kind, price in quote.prices.items()}
    except (ValueError, ArithmeticError) as error:
        return Refused(reason="price out of range", detail=clean(f"{shown}: {error}"))
    return RateRow(
        provider=provider_ids.get(quote.provider, clean(quote.provider)),
        source_model=clean(quote.model),
        model=alias.model,
        sku=_joined_sku(clean(quote.sku), alias.sku),
        region=alias.region or clean(quote.region),
        currency=quote.currency,
        min_prompt_tokens=quote.min_prompt_tokens,
        tier_inclusive=quote.tier_inclusive,
        hours_utc=quote.hours_utc,
        weekdays=quote.weekdays,
        valid_from=None if quote.valid_from is None else to_s(quote.valid_from),
        source_url=source_url,
        valid_to=None if quote.valid_to is None else to_s(quote.valid_to),
        **prices,
    )


def _joined_sku(printed: str, alias: str | None) -> str:
    """The alias's sku (a highspeed model), with the printed one where that says more than standard."""
    if alias is None or alias == printed:
        return printed
    return alias if printed == "standard" else f"{alias}-{printed}"


def _token_fault(quote: TokenQuote) -> str | None:
    """Why a token quote cannot be used, or None."""
    prices = quote.prices.values()
    finite = all(isinstance(p, Decimal) and p.is_finite() for p in prices)
    checks = (
        (not quote.prices, "no price"),
        (not set(quote.prices) <= set(TOKEN_KINDS), "token kind unknown"),
        (not finite, "price is no finite number"),
        (finite and any(p < 0 for p in prices), "price is below 0"),
        (not _CURRENCY.fullmatch(quote.currency), "currency unknown"),
        (quote.per not in _TOKEN_UNITS, "unit unknown"),
        (not clean(quote.model) or not clean(quote.provider), "model or provider is empty"),
        (_too_long(quote.provider, quote.model, quote.sku, quote.region), "name too long"),
        (not 0 <= quote.min_prompt_tokens <= 10**9, "context tier out of range"),
        (bool(quote.hours_utc) and not _HOURS.fullmatch(quote.hours_utc), "hours are not HH:MM-HH:MM"),
        (not set(quote.weekdays) <= set("1234567"), "weekdays are not ISO digits"),
        (any(t is not None and t.tzinfo is None for t in (quote.valid_from, quote.valid_to)), "time without zone"),
    )
    return next((reason for wrong, reason in checks if wrong), None)
