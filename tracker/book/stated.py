"""The book with what a person states in ``overrides.toml``: each entry in place of every other price of the same thing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from operator import itemgetter
from typing import Any

from engine.offers import GpuOffer
from engine.rates import TokenRate
from tracker.book.asof import SOURCE
from tracker.book.book import Book
from tracker.book.entries import Entries, Listed, Value
from tracker.book.entry_values import offers_of, rates_of, usd_prices
from tracker.book.exchange import Exchange
from tracker.book.overrides import Overrides, StatedFactor, StatedRate, StatedRent
from tracker.book.row_fields import GPU, GPU_COUNT, MODEL, PROVIDER, RATE_REGION, RATE_SKU, REGION, SELLER, TERM_MONTHS, TIER

STATED = "override"  # the source of stated prices
_machine_of = itemgetter(PROVIDER, GPU, GPU_COUNT, TIER, TERM_MONTHS, REGION)
_seller_of = itemgetter(SELLER, MODEL, RATE_SKU, RATE_REGION)


def with_overrides(book: Book, overrides: Overrides, source_order: Sequence[str]) -> Book:
    """The book with the stated prices that hold, and without those they replace. A second time changes nothing.

    ``source_order`` says whose price a discount is of: a stated one, else the first source that lists it, fresh ones first.
    """
    if not overrides.all and not _states(book.offers) and not _states(book.price_lists):
        return book
    offers, rates = _unstated(book.offers), _unstated(book.price_lists)
    stated_offers = [_offer(rent, book.exchange, book.at) for rent in overrides.rents if rent.in_force(book.at)]
    rents = [entry for entry in stated_offers if entry is not None]
    ours = [entry for rate in overrides.rates if (entry := _rate(rate, book.exchange, book.at)) is not None]
    discounts = [
        entry for factor in overrides.factors for entry in _discounts(factor, [*ours, *_base(factor, rates)], source_order, book.at)
    ]
    lists = [*ours, *discounts]
    machines = {_machine(entry.value) for entry in rents}
    sellers = {_seller(entry.value) for entry in lists if entry.value.in_force(book.at)}
    return replace(
        book,
        offers=offers_of(rents, offers.of(row for row in offers.rows if _machine_of(row) not in machines) if machines else offers),
        price_lists=rates_of(lists, rates.of(row for row in rates.rows if _seller_of(row) not in sellers) if sellers else rates),
    )


def _unstated(entries: Entries[Value]) -> Entries[Value]:
    return entries.of(row for row in entries.rows if row[SOURCE] != STATED) if _states(entries) else entries


def _states(entries: Entries[Any]) -> bool:
    return any(entry.value.source == STATED for entry in entries.given())


def _machine(offer: GpuOffer) -> tuple[object, ...]:
    return (offer.provider, offer.gpu, offer.gpu_count, offer.tier, offer.term_months or 0, offer.region)


def _seller(rate: TokenRate) -> tuple[str, str, str, str]:
    return (rate.provider, rate.model, rate.sku, rate.region)


def _offer(rent: StatedRent, exchange: Exchange, at: datetime) -> Listed[GpuOffer] | None:
    """The stated machine in USD; None where its currency has no rate."""
    usd, (fx_rate, fx_day) = exchange.usd(rent.native_per_hour, rent.currency, at.date()), exchange.fx(rent.currency, at.date())
    if usd is None:
        return None
    offer = GpuOffer(
        provider=rent.provider,
        source=STATED,
        sku=rent.sku,
        region=rent.region,
        gpu=rent.gpu,
        gpu_count=rent.gpu_count,
        tier=rent.tier,
        term_months=rent.term_months,
        availability="available",
        currency=rent.currency,
        native_per_hour=rent.native_per_hour,
        usd_per_hour=usd,
        fx_rate=fx_rate,
        fx_day=fx_day,
        valid_from=rent.start,
        seen_at=at,
    )
    return Listed(offer, f"{STATED} [{rent.id}]", True, False)


def _rate(stated: StatedRate, exchange: Exchange, at: datetime) -> Listed[TokenRate] | None:
    """The stated rates in USD; None where their currency has no rate."""
    usd, (fx_rate, fx_day) = usd_prices(stated.native, stated.currency, exchange, at), exchange.fx(stated.currency, at.date())
    if usd is None:
        return None
    rate = TokenRate(
        provider=stated.provider,
        source=STATED,
        model=stated.model,
        source_model=stated.model,
        sku=stated.sku,
        region=stated.region,
        currency=stated.currency,
        native=stated.native,
        usd=usd,
        fx_rate=fx_rate,
        fx_day=fx_day,
        valid_from=stated.start,
        valid_to=stated.end,
        seen_at=at,
    )
    return Listed(rate, f"{STATED} [{stated.id}]", True, False)


def _base(factor: StatedFactor, rates: Entries[TokenRate]) -> Entries[TokenRate]:
    """The price lists a discount may be of."""
    return rates.of(row for row in rates.rows if row[SELLER] == factor.provider and row[RATE_SKU] == factor.of)


def _discounts(
    factor: StatedFactor, rates: Sequence[Listed[TokenRate]], source_order: Sequence[str], at: datetime
) -> Iterator[Listed[TokenRate]]:
    """The discounted price list of each model and region, as fresh and as old as the one it is worked out from."""
    wanted = [entry for entry in rates if _is_base(factor, entry.value)]
    believed: dict[tuple[str, str], tuple[tuple[object, ...], str]] = {}
    for entry in wanted:
        if entry.value.in_force(at):
            key, rank = (entry.value.model, entry.value.region), _rank(entry, source_order)
            believed[key] = min(believed.get(key, (rank, entry.value.source)), (rank, entry.value.source))
    for entry in wanted:
        key = (entry.value.model, entry.value.region)
        if key in believed and believed[key][1] == entry.value.source:
            yield from _discounted(factor, entry)


def _is_base(factor: StatedFactor, rate: TokenRate) -> bool:
    same_place = factor.region in ("", rate.region)
    return (rate.provider, rate.sku) == (factor.provider, factor.of) and factor.model in ("", rate.model) and same_place


def _rank(entry: Listed[TokenRate], source_order: Sequence[str]) -> tuple[object, ...]:
    source = entry.value.source
    return (source != STATED, not entry.fresh, source_order.index(source) if source in source_order else len(source_order), source)


def _discounted(factor: StatedFactor, entry: Listed[TokenRate]) -> Iterator[Listed[TokenRate]]:
    """The entry times the factor while both hold; none where they never do together."""
    rate = entry.value
    start = max(factor.start, rate.valid_from or factor.start)
    ends: Iterable[datetime] = [end for end in (factor.end, rate.valid_to) if end is not None]
    end = min(ends, default=None)
    if end is None or start < end:
        native, usd = rate.native.times(factor.factor), rate.usd.times(factor.factor)
        told = f"{STATED} [{factor.id}] of {entry.origin}"
        priced = replace(rate, source=STATED, sku=factor.sku, native=native, usd=usd, valid_from=start, valid_to=end)
        yield replace(entry, value=priced, origin=told)
