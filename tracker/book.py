"""Reads the book: the offers and rates listed at one moment, in USD, each with the time it was last seen and whether that is fresh."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, Table, and_, func, select

from engine.offers import AVAILABILITIES, GpuOffer
from engine.rates import Conditions, TokenPrices, TokenRate
from tracker.config import Source
from tracker.exchange import Exchange, load_exchange
from tracker.listing import OFFER, OFFER_POINT, OFFERS, RATE, RATE_POINT, RATES, SWEEP, gone_column, unseen_at
from tracker.rows import OfferRow, RateRow, from_ms, row_from, to_ms

IMPORTED = "book:"  # sources of imported rows: the origin follows the colon

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


@dataclass(frozen=True, slots=True)
class _Seen:
    """A row with the moments of its price."""

    row: OfferRow | RateRow
    source: str
    origin: str
    since: datetime  # observed at this price from
    seen_at: datetime


def read_book(connection: Connection, at: datetime, sources: Mapping[str, Source]) -> Book:
    """The book as of ``at``: only what was observed by then."""
    exchange = load_exchange(connection, at.date())
    covered = _coverage(connection, at)
    unpriced: dict[str, int] = {}
    offers = [_offer(seen, exchange, at, sources, unpriced) for seen in _rows(connection, OFFER, at, covered)]
    listed = [_rate(seen, exchange, at, sources, unpriced) for seen in _rows(connection, RATE, at, covered)]
    rates = _give_way([rate for rate in listed if rate], lambda rate: (rate.provider, rate.model))
    return Book(
        at=at,
        offers=tuple(_give_way(_in_force_offers([offer for offer in offers if offer], at), lambda offer: offer.provider)),
        price_lists=tuple(rates),
        exchange=exchange,
        unpriced=unpriced,
    )


def _coverage(connection: Connection, at: datetime) -> dict[str, int]:
    """Last moment each source was covered whole, in ms."""
    query = (
        select(SWEEP.c.source, func.max(SWEEP.c.at))
        .where(SWEEP.c.at <= to_ms(at), SWEEP.c.complete.is_(True), SWEEP.c.status.in_(("ok", "unchanged")))
        .group_by(SWEEP.c.source)
    )
    return dict(connection.execute(query).all())


def _rows(connection: Connection, dimension: Table, at: datetime, covered: Mapping[str, int]) -> Iterable[_Seen]:
    point, link, kind = (OFFER_POINT, "offer_id", OfferRow) if dimension is OFFER else (RATE_POINT, "rate_id", RateRow)
    latest = (
        select(func.max(point.c.at)).where(point.c[link] == dimension.c.id, point.c.at <= to_ms(at)).correlate(dimension).scalar_subquery()
    )
    query = (
        select(dimension, *(point.c[name] for name in kind.VALUES), point.c.at.label("point_at"))
        .join(point, and_(point.c[link] == dimension.c.id, point.c.at == latest))
        .where(gone_column(point).is_(False))
    )
    starts = _imported_starts(connection, dimension, point, link, at)
    unseen, name = unseen_at(connection, to_ms(at)), (OFFERS if dimension is OFFER else RATES).name
    for found in connection.execute(query).mappings():
        moment = found["point_at"]
        printed = max(moment, covered.get(found["source"], moment))
        yield _Seen(
            row=row_from(kind, found),
            source=found["source"],
            origin=found["origin"],
            since=from_ms(starts.get(found["id"], moment)),
            seen_at=from_ms(unseen.get((name, found["id"]), printed)),
        )


def _imported_starts(connection: Connection, dimension: Table, point: Table, link: str, at: datetime) -> dict[int, int]:
    """For imported rows, where equal points in a row only confirm a price: the first moment of the last run."""
    names = (OfferRow if dimension is OFFER else RateRow).VALUES
    query = (
        select(point.c[link], point.c.at, *(point.c[name] for name in names))
        .join(dimension, point.c[link] == dimension.c.id)
        .where(dimension.c.source.like(IMPORTED + "%"), point.c.at <= to_ms(at))
        .order_by(point.c[link], point.c.at)
    )
    starts: dict[int, int] = {}
    last: tuple[int, tuple[Any, ...]] | None = None
    for id_, moment, *found in connection.execute(query):
        if last != (id_, tuple(found)):
            starts[id_] = moment
        last = (id_, tuple(found))
    return starts


def _fresh(seen: _Seen, at: datetime, sources: Mapping[str, Source]) -> bool:
    source = sources.get(seen.source)
    return source is not None and at - seen.seen_at <= timedelta(hours=source.settings.max_age_hours)


def _offer(
    seen: _Seen, exchange: Exchange, at: datetime, sources: Mapping[str, Source], unpriced: dict[str, int]
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
    seen: _Seen, exchange: Exchange, at: datetime, sources: Mapping[str, Source], unpriced: dict[str, int]
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
