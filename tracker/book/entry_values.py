"""From the rows of a book to its values and back: offers and rates with their exact money, in the currency as printed and in USD."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from engine.offers import AVAILABILITIES, GpuOffer
from engine.rates import TOKEN_KINDS, Conditions, TokenPrices, TokenRate
from tracker.book.asof import FIELDS, ID, IMPORTED, Row
from tracker.book.entries import Entries, Listed, Reading, Value
from tracker.book.exchange import Exchange
from tracker.book.row_fields import CURRENCY, PRICE
from tracker.database.rows import EPOCH, RateRow, from_s, to_s, unscaled
from tracker.database.schema import RATE_SCALE, RENT_SCALE

ONE = Decimal(1)


def listed_offer(row: Row, reading: Reading[GpuOffer]) -> Listed[GpuOffer]:
    """The offer of a row whose currency has an exchange rate."""
    (
        id_, source, origin, own, provider, sku, region, gpu, gpu_count, tier, term_months, trust, currency, valid_from, is_slice,
        price_kind, interconnect, source_url, price, availability, max_gpu_count,
    ) = row  # fmt: skip
    native, (fx_rate, fx_day) = unscaled(price, RENT_SCALE), reading.fx(currency)
    usd = reading.usd(native, currency)
    assert usd is not None
    offer = GpuOffer(
        provider=provider,
        source=source,
        sku=sku,
        region=region,
        gpu=gpu,
        gpu_count=gpu_count,
        max_gpu_count=max_gpu_count,
        tier=tier,
        term_months=term_months or None,
        trust=trust,
        availability=AVAILABILITIES[availability],
        price_kind=price_kind,
        interconnect=interconnect,
        currency=currency,
        native_per_hour=native,
        usd_per_hour=usd,
        fx_rate=fx_rate,
        fx_day=fx_day,
        valid_from=reading.moment(reading.starts.get(id_, own) if valid_from is None else valid_from),
        seen_at=reading.moment(reading.seen_at(row)),
        source_url=source_url,
    )
    return Listed(offer, origin, reading.fresh(row), source.startswith(IMPORTED), bool(is_slice))


def usd_per_hour(row: Row, reading: Reading[GpuOffer]) -> Decimal:
    """USD an hour of a row, without building its offer."""
    if row[ID] < 0:
        return reading.given[row[ID]].value.usd_per_hour
    usd = reading.usd(unscaled(row[PRICE], RENT_SCALE), row[CURRENCY])
    assert usd is not None
    return usd


def listed_rate(row: Row, reading: Reading[TokenRate]) -> Listed[TokenRate]:
    """The rate of a row whose currency has an exchange rate."""
    _, source, origin, _, *fields = row
    told = RateRow(**dict(zip(FIELDS["rate"], fields, strict=True)))
    usd, (fx_rate, fx_day) = usd_prices(told.native, told.currency, reading.exchange, reading.at), reading.fx(told.currency)
    assert usd is not None
    rate = TokenRate(
        provider=told.provider,
        source=source,
        model=told.model,
        source_model=told.source_model,
        sku=told.sku,
        region=told.region,
        currency=told.currency,
        native=told.native,
        usd=usd,
        fx_rate=fx_rate,
        fx_day=fx_day,
        conditions=Conditions(
            min_prompt_tokens=told.min_prompt_tokens,
            tier_inclusive=bool(told.tier_inclusive),
            hours_utc=told.hours_utc,
            weekdays=told.weekdays,
        ),
        valid_from=None if told.valid_from is None else from_s(told.valid_from),
        valid_to=None if told.valid_to is None else from_s(told.valid_to),
        seen_at=reading.moment(reading.seen_at(row)),
        source_url=told.source_url,
    )
    return Listed(rate, origin, reading.fresh(row), source.startswith(IMPORTED))


def usd_prices(native: TokenPrices, currency: str, exchange: Exchange, at: datetime) -> TokenPrices | None:
    """Token prices in USD at the reference rate of the day of ``at``; None without one."""
    if exchange.usd(ONE, currency, at.date()) is None:
        return None
    return TokenPrices(
        **{kind: None if (value := native.of(kind)) is None else exchange.usd(value, currency, at.date()) for kind in TOKEN_KINDS}
    )


# --- entries that are no rows of the database -------------------------------------------------------------------------------


def offers_of(given: Iterable[Listed[GpuOffer]], rows: Entries[GpuOffer] | None = None) -> Entries[GpuOffer]:
    """Offers that were stated or worked out, ahead of those of the database."""
    return _ahead(given, Entries((), _nothing(listed_offer)) if rows is None else rows, _offer_row)


def rates_of(given: Iterable[Listed[TokenRate]], rows: Entries[TokenRate] | None = None) -> Entries[TokenRate]:
    """Rates that were stated or worked out, ahead of those of the database."""
    return _ahead(given, Entries((), _nothing(listed_rate)) if rows is None else rows, _rate_row)


def _nothing(build: Callable[[Row, Reading[Value]], Listed[Value]]) -> Reading[Value]:
    exchange = Exchange(days={}, rates={})
    return Reading(at=EPOCH, until=EPOCH, exchange=exchange, sources={}, covered={}, unseen={}, starts={}, build=build)


def _ahead(given: Iterable[Listed[Value]], rows: Entries[Value], row_of: Callable[[int, Listed[Value]], Row]) -> Entries[Value]:
    entries = tuple(given)
    first = min(rows.reading.given, default=0) - len(entries)  # ascending, as the others
    numbered: dict[int, Listed[Value]] = {first + number: entry for number, entry in enumerate(entries)}
    if not numbered:
        return rows
    reading = replace(rows.reading, given={**rows.reading.given, **numbered})
    return Entries((*(row_of(number, entry) for number, entry in numbered.items()), *rows.rows), reading)


def _offer_row(number: int, entry: Listed[GpuOffer]) -> Row:
    """The row of an offer, in USD: the value itself is asked for what was printed."""
    o = entry.value
    told = (o.provider, o.sku, o.region, o.gpu, o.gpu_count, o.tier, o.term_months or 0, o.trust, "USD", None, entry.is_slice)
    more = (o.price_kind, o.interconnect, o.source_url, _whole(o.usd_per_hour * RENT_SCALE), AVAILABILITIES.index(o.availability))
    return (number, o.source, entry.origin, to_s(o.seen_at), *told, *more, o.max_gpu_count)


def _rate_row(number: int, entry: Listed[TokenRate]) -> Row:
    """The row of a rate, in USD."""
    r, when = entry.value, entry.value.conditions
    told = (r.provider, r.source_model, r.model, r.sku, r.region, "USD", when.min_prompt_tokens, when.tier_inclusive, when.hours_utc)
    prices = [None if (price := r.usd.of(kind)) is None else _whole(price * RATE_SCALE) for kind in TOKEN_KINDS]
    start, end = (None if moment is None else to_s(moment) for moment in (r.valid_from, r.valid_to))
    return (number, r.source, entry.origin, to_s(r.seen_at), *told, when.weekdays, start, r.source_url, *prices, end)


def _whole(price: Decimal) -> Any:
    """A whole number as the database has it, where the price is one."""
    return int(price) if price == price.to_integral_value() else price


NO_OFFERS, NO_RATES = offers_of(()), rates_of(())
