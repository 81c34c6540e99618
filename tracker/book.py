"""Reads the book: the offers and rates listed at one moment, in USD, each with the time it was last seen and whether that is fresh."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection

from engine.offers import AVAILABILITIES, GpuOffer
from engine.rates import Conditions, TokenPrices, TokenRate
from tracker.asof import IMPORTED as IMPORTED
from tracker.asof import Moment, Seen, as_known, coverage, rows_at
from tracker.config import Source
from tracker.exchange import Exchange, load_exchange
from tracker.listing import OFFERS, RATES
from tracker.rows import OfferRow, RateRow, from_ms

Only = Mapping[str, Collection[str]]  # column -> the values that are wanted

Value = TypeVar("Value", GpuOffer, TokenRate)


@dataclass(frozen=True, slots=True)
class Listed(Generic[Value]):
    """An offer or rate of the book. ``fresh``: seen live within its source's age limit; imported rows never are."""

    value: Value
    origin: str
    fresh: bool
    imported: bool
    is_slice: bool = False

    @property
    def seen_at(self) -> datetime:
        """When its price was last seen."""
        return self.value.seen_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """Everything listed at ``at``. ``price_lists`` hold past and announced entries too; ``unpriced`` counts what has no exchange rate."""

    at: datetime
    known: datetime  # what was learnt later does not count
    offers: tuple[Listed[GpuOffer], ...]
    price_lists: tuple[Listed[TokenRate], ...]
    exchange: Exchange
    unpriced: Mapping[str, int]

    @property
    def rates(self) -> tuple[Listed[TokenRate], ...]:
        """Token rates in force at ``at``."""
        return tuple(entry for entry in self.price_lists if entry.value.in_force(self.at))

    @property
    def announced(self) -> tuple[Listed[TokenRate], ...]:
        """Token rates that start later."""
        return tuple(entry for entry in self.price_lists if entry.value.valid_from is not None and entry.value.valid_from > self.at)


def read_book(connection: Connection, at: datetime, sources: Mapping[str, Source], known: datetime | None = None) -> Book:
    """The book at ``at``: only what was observed by then, and known then; or known by ``known``, to look back with hindsight."""
    moment = as_known(connection, at) if known is None else Moment(at=at, known=known)
    exchange = load_exchange(connection, moment)
    unpriced: dict[str, int] = {}
    return Book(
        at=at,
        known=moment.known,
        offers=tuple(read_offers(connection, moment, sources, exchange, unpriced=unpriced)),
        price_lists=tuple(read_rates(connection, moment, sources, exchange, unpriced=unpriced)),
        exchange=exchange,
        unpriced=unpriced,
    )


def read_offers(
    connection: Connection,
    moment: Moment,
    sources: Mapping[str, Source],
    exchange: Exchange,
    only: Only | None = None,
    unpriced: dict[str, int] | None = None,
) -> list[Listed[GpuOffer]]:
    """Offers in force; imported ones only of providers that no live source lists, also where ``only`` some are wanted."""
    counts = {} if unpriced is None else unpriced
    seen = rows_at(connection, OFFERS, moment, coverage(connection, moment.at), only)
    offers = [offer for row in seen if (offer := _offer(row, exchange, moment.at, sources, counts))]
    found = _in_force_offers(offers, moment.at)
    imported = {entry.value.provider for entry in found if entry.imported}
    if only is None or "provider" in only or not imported:
        return _give_way(found, lambda offer: offer.provider)
    theirs = read_offers(connection, moment, sources, exchange, {"provider": imported})
    stay = {entry.value.provider for entry in theirs if entry.imported}
    return [entry for entry in found if not entry.imported or entry.value.provider in stay]


def read_rates(
    connection: Connection,
    moment: Moment,
    sources: Mapping[str, Source],
    exchange: Exchange,
    only: Only | None = None,
    unpriced: dict[str, int] | None = None,
) -> list[Listed[TokenRate]]:
    """Price lists with past and announced entries; imported ones only where no live source lists the provider and model."""
    counts = {} if unpriced is None else unpriced
    seen = rows_at(connection, RATES, moment, coverage(connection, moment.at), only)
    listed = [rate for row in seen if (rate := _rate(row, exchange, moment.at, sources, counts))]
    return _give_way(listed, lambda rate: (rate.provider, rate.model))


def _fresh(seen: Seen, at: datetime, sources: Mapping[str, Source]) -> bool:
    source = sources.get(seen.source)
    return source is not None and at - seen.seen_at <= timedelta(hours=source.settings.max_age_hours)


def _offer(
    seen: Seen, exchange: Exchange, at: datetime, sources: Mapping[str, Source], unpriced: dict[str, int]
) -> Listed[GpuOffer] | None:
    row = seen.row
    assert isinstance(row, OfferRow)
    usd, pair = exchange.usd(row.native_per_hour, row.currency, at.date()), exchange.per_usd(row.currency, at.date())
    if usd is None:
        unpriced[row.currency] = unpriced.get(row.currency, 0) + 1
        return None
    offer = GpuOffer(
        provider=row.provider,
        source=seen.source,
        sku=row.sku,
        region=row.region,
        gpu=row.gpu,
        gpu_count=row.gpu_count,
        max_gpu_count=row.max_gpu_count,
        tier=row.tier,  # type: ignore[arg-type]  # checked by resolve when it was stored
        term_months=row.term_months or None,
        trust=row.trust,  # type: ignore[arg-type]  # as above
        availability=AVAILABILITIES[row.availability],
        price_kind=row.price_kind,  # type: ignore[arg-type]  # as above
        interconnect=row.interconnect,
        currency=row.currency,
        native_per_hour=row.native_per_hour,
        usd_per_hour=usd,
        fx_rate=pair[0] if pair and row.currency != "USD" else Decimal(1),
        fx_day=pair[1] if pair and row.currency != "USD" else None,
        valid_from=seen.since if row.valid_from is None else from_ms(row.valid_from),
        seen_at=seen.seen_at,
        source_url=row.source_url,
    )
    return Listed(offer, seen.origin, _fresh(seen, at, sources), seen.source.startswith(IMPORTED), row.is_slice)


def _rate(
    seen: Seen, exchange: Exchange, at: datetime, sources: Mapping[str, Source], unpriced: dict[str, int]
) -> Listed[TokenRate] | None:
    row = seen.row
    assert isinstance(row, RateRow)
    usd = usd_prices(row.native, row.currency, exchange, at)
    if usd is None:
        unpriced[row.currency] = unpriced.get(row.currency, 0) + 1
        return None
    pair = exchange.per_usd(row.currency, at.date()) if row.currency != "USD" else None
    rate = TokenRate(
        provider=row.provider,
        source=seen.source,
        model=row.model,
        source_model=row.source_model,
        sku=row.sku,
        region=row.region,
        currency=row.currency,
        native=row.native,
        usd=usd,
        fx_rate=pair[0] if pair else Decimal(1),
        fx_day=pair[1] if pair else None,
        conditions=Conditions(
            min_prompt_tokens=row.min_prompt_tokens, tier_inclusive=row.tier_inclusive, hours_utc=row.hours_utc, weekdays=row.weekdays
        ),
        valid_from=None if row.valid_from is None else from_ms(row.valid_from),
        valid_to=None if row.valid_to is None else from_ms(row.valid_to),
        seen_at=seen.seen_at,
        source_url=row.source_url,
    )
    return Listed(rate, seen.origin, _fresh(seen, at, sources), seen.source.startswith(IMPORTED))


def usd_prices(native: TokenPrices, currency: str, exchange: Exchange, at: datetime) -> TokenPrices | None:
    """Token prices in USD at the reference rate of the day of ``at``; None without one."""
    if exchange.usd(Decimal(1), currency, at.date()) is None:
        return None
    kinds = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output")
    return TokenPrices(
        **{kind: None if (value := getattr(native, kind)) is None else exchange.usd(value, currency, at.date()) for kind in kinds}
    )


def _in_force_offers(offers: Sequence[Listed[GpuOffer]], at: datetime) -> list[Listed[GpuOffer]]:
    """Of an offer listed with dated prices, the one in force: the latest start that has begun."""
    latest: dict[tuple[object, ...], Listed[GpuOffer]] = {}
    for entry in sorted(offers, key=lambda e: e.value.valid_from):
        offer = entry.value
        if offer.valid_from <= at:
            key = (
                offer.source,
                offer.provider,
                offer.sku,
                offer.region,
                offer.gpu,
                offer.gpu_count,
                offer.tier,
                offer.term_months,
                offer.trust,
            )
            latest[key] = entry
    return list(latest.values())


def _give_way(entries: Sequence[Listed[Value]], whose: Any) -> list[Listed[Value]]:
    """Imported rows step aside where a live source lists the same provider (for rates: the same provider and model)."""
    live = {whose(entry.value) for entry in entries if not entry.imported}
    return [entry for entry in entries if not (entry.imported and whose(entry.value) in live)]
