"""Reads the book: the offers and rates listed at one moment, in USD, each with the time it was last seen and whether that is fresh."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from operator import attrgetter
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection

from engine.offers import AVAILABILITIES, GpuOffer
from engine.rates import Conditions, TokenPrices, TokenRate
from tracker.asof import IMPORTED as IMPORTED
from tracker.asof import Moment, Seen, as_known, coverage, rows_at
from tracker.config import Source
from tracker.exchange import Exchange, load_exchange
from tracker.listing import OFFERS, RATES
from tracker.rows import RateRow, from_ms, unscaled
from tracker.tables import RENT_SCALE

Only = Mapping[str, Collection[str]]  # column -> the values that are wanted

ONE = Decimal(1)
NEVER = datetime.max.replace(tzinfo=UTC)
_same = attrgetter("source", "provider", "sku", "region", "gpu", "gpu_count", "tier", "term_months", "trust")

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
    worth = _Worth(exchange, moment.at, sources, {} if unpriced is None else unpriced)
    seen = rows_at(connection, OFFERS, moment, coverage(connection, moment.at), only)
    offers = [offer for row in seen if (offer := _offer(row, worth))]
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
    worth = _Worth(exchange, moment.at, sources, {} if unpriced is None else unpriced)
    seen = rows_at(connection, RATES, moment, coverage(connection, moment.at), only)
    listed = [rate for row in seen if (rate := _rate(row, worth))]
    return _give_way(listed, lambda rate: (rate.provider, rate.model))


@dataclass(slots=True)
class _Worth:
    """What prices of one reading are worth and how old they may be, worked out once for each currency, source and moment."""

    exchange: Exchange
    at: datetime
    sources: Mapping[str, Source]
    unpriced: dict[str, int]
    _pairs: dict[str, tuple[Decimal, date] | None] = field(default_factory=dict)
    _oldest: dict[str, datetime] = field(default_factory=dict)
    _moments: dict[int, datetime] = field(default_factory=dict)

    def pair(self, currency: str) -> tuple[Decimal, date] | None:
        """Units of the currency for one USD, and the day of that; None for USD itself and without a rate."""
        if currency not in self._pairs:
            self._pairs[currency] = None if currency == "USD" else self.exchange.per_usd(currency, self.at.date())
        return self._pairs[currency]

    def usd(self, native: Decimal, currency: str) -> Decimal | None:
        """USD; None, and counted, where there is no rate."""
        return native if currency == "USD" else self.exchange.usd(native, currency, self.at.date())

    def lacks(self, currency: str) -> None:
        """Count a price that has no exchange rate."""
        self.unpriced[currency] = self.unpriced.get(currency, 0) + 1

    def moment(self, at: int) -> datetime:
        """A stored moment."""
        if at not in self._moments:
            self._moments[at] = from_ms(at)
        return self._moments[at]

    def fresh(self, source: str, seen_at: datetime) -> bool:
        """Whether a price was seen within its source's age limit; never of what is not configured, such as imported rows."""
        if source not in self._oldest:
            known = self.sources.get(source)
            self._oldest[source] = NEVER if known is None else self.at - timedelta(hours=known.settings.max_age_hours)
        return seen_at >= self._oldest[source]


def _offer(seen: Seen, worth: _Worth) -> Listed[GpuOffer] | None:
    """The offer of a row; its fields are taken in their order, since a book has tens of thousands."""
    (
        provider, sku, region, gpu, gpu_count, tier, term_months, trust, currency, valid_from, is_slice, price_kind, interconnect,
        source_url, price, availability, max_gpu_count,
    ) = seen.told  # fmt: skip
    native = unscaled(price, RENT_SCALE)
    usd, pair = worth.usd(native, currency), worth.pair(currency)
    if usd is None:
        worth.lacks(currency)
        return None
    seen_at = worth.moment(seen.seen_at)
    offer = GpuOffer(
        provider=provider,
        source=seen.source,
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
        fx_rate=pair[0] if pair else ONE,
        fx_day=pair[1] if pair else None,
        valid_from=worth.moment(seen.since if valid_from is None else valid_from),
        seen_at=seen_at,
        source_url=source_url,
    )
    return Listed(offer, seen.origin, worth.fresh(seen.source, seen_at), seen.source.startswith(IMPORTED), bool(is_slice))


def _rate(seen: Seen, worth: _Worth) -> Listed[TokenRate] | None:
    row = seen.row
    assert isinstance(row, RateRow)
    usd = usd_prices(row.native, row.currency, worth.exchange, worth.at)
    if usd is None:
        worth.lacks(row.currency)
        return None
    pair, seen_at = worth.pair(row.currency), worth.moment(seen.seen_at)
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
        fx_rate=pair[0] if pair else ONE,
        fx_day=pair[1] if pair else None,
        conditions=Conditions(
            min_prompt_tokens=row.min_prompt_tokens, tier_inclusive=row.tier_inclusive, hours_utc=row.hours_utc, weekdays=row.weekdays
        ),
        valid_from=None if row.valid_from is None else from_ms(row.valid_from),
        valid_to=None if row.valid_to is None else from_ms(row.valid_to),
        seen_at=seen_at,
        source_url=row.source_url,
    )
    return Listed(rate, seen.origin, worth.fresh(seen.source, seen_at), seen.source.startswith(IMPORTED))


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
    for entry in offers:
        if entry.value.valid_from <= at:
            key = _same(entry.value)
            if key not in latest or latest[key].value.valid_from <= entry.value.valid_from:
                latest[key] = entry
    return list(latest.values())


def _give_way(entries: Sequence[Listed[Value]], whose: Any) -> list[Listed[Value]]:
    """Imported rows step aside where a live source lists the same provider (for rates: the same provider and model)."""
    live = {whose(entry.value) for entry in entries if not entry.imported}
    return [entry for entry in entries if not (entry.imported and whose(entry.value) in live)]
