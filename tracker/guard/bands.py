"""Per row: is this a price at all? Bands per GPU and token kind in USD, cached input against input, and the parts of a composed price."""

from __future__ import annotations

from collections.abc import Collection
from decimal import Decimal

from engine.rates import TOKEN_KINDS
from scrapers.contract import FxQuote, GpuQuote
from tracker.book.exchange import Exchange
from tracker.database.rows import OfferRow, RateRow
from tracker.guard.settings import Band, GuardSettings

OUTSIDE = "price outside the plausible band"


def offer_fault(row: OfferRow, settings: GuardSettings, exchange: Exchange) -> str | None:
    """Why a rental price is implausible, or None. The band is USD per GPU-hour at the newest exchange rate."""
    usd = exchange.usd(row.native_per_hour, row.currency)
    if usd is None:
        return f"no exchange rate for {row.currency}"
    if not row.is_slice and not band_of(row.gpu, row.tier, settings).holds(usd / row.gpu_count):
        return OUTSIDE
    return None


def currency_fault(row: OfferRow | RateRow, printed: Collection[str]) -> str | None:
    """Why a price is not in the money its source prints, or None: the same figure in another currency is another price."""
    return None if row.currency in printed else "currency that the source does not print"


def band_of(gpu: str, tier: str, settings: GuardSettings) -> Band:
    """What a GPU-hour may cost in USD."""
    known = settings.bands.get(gpu)
    return settings.gpu if known is None else known.of(tier)


def rate_fault(row: RateRow, settings: GuardSettings, exchange: Exchange) -> str | None:
    """Why a token price is implausible, or None. A missing kind is unknown and a stated 0 is free: neither is a fault."""
    prices = row.native
    if exchange.usd(Decimal(1), row.currency) is None:
        return f"no exchange rate for {row.currency}"
    for kind in TOKEN_KINDS:
        native = prices.of(kind)
        usd = None if native is None else exchange.usd(native, row.currency)
        if usd is not None and usd != 0 and not settings.token.of(kind).holds(usd):
            return OUTSIDE
    if prices.input is not None and prices.cache_read is not None and prices.cache_read > prices.input:
        return "cached input dearer than input"
    return None


def rate_jump(quote: FxQuote, exchange: Exchange, settings: GuardSettings) -> str | None:
    """Why a reference rate cannot follow the last one known, or None. A new currency has nothing to be compared with."""
    known = exchange.per_eur(quote.currency)
    if known is None or known[0] <= 0:
        return None
    days = abs((quote.day - known[1]).days)
    if max(quote.rate / known[0], known[0] / quote.rate) < settings.fx_change + settings.fx_change_a_day * days:
        return None
    return "reference rate is too far from the last one"


def parts_fault(quote: GpuQuote) -> str | None:
    """Why a composed rental price is none: a part of it has no price, or the parts are not what they add up to."""
    missing = [name for name, price in quote.parts if price is None]
    if missing:
        return f"composed price lacks {missing[0]}"
    if quote.parts and sum((price for _, price in quote.parts if price is not None), Decimal(0)) != quote.price:
        return "parts do not add up to the price"
    return None
