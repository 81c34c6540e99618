"""Reads the book: the offers and rates listed at one moment, in USD, each with the time it was last seen and whether that is fresh."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import itemgetter

from sqlalchemy import Connection

from engine.offers import GpuOffer
from engine.rates import TokenRate
from tracker.book.asof import AT, ID, SOURCE, Moment, Row, Rows, as_known, rows_at
from tracker.book.asof import IMPORTED as IMPORTED
from tracker.book.entries import Entries, Reading
from tracker.book.entries import Listed as Listed
from tracker.book.entries import Value as Value
from tracker.book.entry_values import ONE, listed_offer, listed_rate
from tracker.book.exchange import Exchange, load_exchange
from tracker.book.listing import OFFERS, RATES
from tracker.book.row_fields import (
    CURRENCY,
    GPU,
    GPU_COUNT,
    MODEL,
    PROVIDER,
    RATE_CURRENCY,
    RATE_FROM,
    RATE_TO,
    REGION,
    SELLER,
    SKU,
    TERM_MONTHS,
    TIER,
    TRUST,
    VALID_FROM,
)  # fmt: skip
from tracker.config import Source
from tracker.database.rows import to_s

ALWAYS = {(None, None)}  # from and to of what holds at any time

Only = Mapping[str, Collection[str]]  # column -> the values that are wanted

_same = itemgetter(SOURCE, PROVIDER, SKU, REGION, GPU, GPU_COUNT, TIER, TERM_MONTHS, TRUST)
_provider, _sold = itemgetter(PROVIDER), itemgetter(SELLER, MODEL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """Everything listed at ``at``. ``price_lists`` hold past and announced entries too; ``unpriced`` counts what has no exchange rate."""

    at: datetime
    known: datetime  # what was learnt later does not count
    offers: Entries[GpuOffer]
    price_lists: Entries[TokenRate]
    exchange: Exchange
    unpriced: Mapping[str, int]
    _rates: list[Entries[TokenRate]] = field(default_factory=list, init=False, repr=False, compare=False)  # once they were asked for

    @property
    def rates(self) -> Entries[TokenRate]:
        """Token rates in force at ``at``."""
        if not self._rates:
            always = self.price_lists.every(RATE_FROM, RATE_TO) <= ALWAYS
            self._rates.append(self.price_lists if always else self._in_force(self.price_lists.rows))
        return self._rates[0]

    def rates_of(self, model: str) -> Entries[TokenRate]:
        """Token rates of a model in force at ``at``."""
        found = self.price_lists.by(MODEL).get(model)
        return self._in_force(() if found is None else found.rows)

    def _in_force(self, rows: Iterable[Row]) -> Entries[TokenRate]:
        at, given = to_s(self.at), self.price_lists.reading.given
        return self.price_lists.of(row for row in rows if (_in_force(row, at) if row[ID] >= 0 else given[row[ID]].value.in_force(self.at)))

    def announced_of(self, model: str) -> Entries[TokenRate]:
        """Those of a model that start later."""
        return self.announced.of(row for row in self.announced.rows if row[MODEL] == model)

    @property
    def announced(self) -> Entries[TokenRate]:
        """Token rates that start later."""
        at = to_s(self.at)
        return self.price_lists.of(row for row in self.price_lists.rows if (start := row[RATE_FROM]) is not None and start > at)


def _in_force(row: Row, at: int) -> bool:
    return (row[RATE_FROM] is None or row[RATE_FROM] <= at) and (row[RATE_TO] is None or at < row[RATE_TO])


def read_book(connection: Connection, at: datetime, sources: Mapping[str, Source], known: datetime | None = None) -> Book:
    """The book at ``at``: only what was observed by then, and known then; or known by ``known``, to look back with hindsight."""
    moment = as_known(connection, at) if known is None else Moment(at=at, known=known)
    offers, rates = rows_at(connection, OFFERS, moment), rows_at(connection, RATES, moment)
    return book_of(offers, rates, moment, sources, load_exchange(connection, moment))


def book_of(offers: Rows, rates: Rows, moment: Moment, sources: Mapping[str, Source], exchange: Exchange) -> Book:
    """The book of all rows of a moment."""
    unpriced: dict[str, int] = {}
    told = _told_offers(offers, moment, sources, exchange, unpriced)
    return Book(
        at=moment.at,
        known=moment.known,
        offers=Entries(_give_way(told.rows, _provider), told.reading) if _any_imported(told) else told,
        price_lists=_told_rates(rates, moment, sources, exchange, unpriced),
        exchange=exchange,
        unpriced=unpriced,
    )


def read_offers(
    connection: Connection,
    moment: Moment,
    sources: Mapping[str, Source],
    exchange: Exchange,
    only: Only | None = None,
) -> Entries[GpuOffer]:
    """Offers in force; imported ones only of providers that no live source lists, also where ``only`` some are wanted."""
    told = _told_offers(rows_at(connection, OFFERS, moment, only), moment, sources, exchange, {})
    rows = told.rows
    imported = {row[PROVIDER] for row in rows if row[SOURCE].startswith(IMPORTED)} if _any_imported(told) else None
    if not imported:
        return told
    if only is None or "provider" in only:
        return Entries(_give_way(rows, _provider), told.reading)
    theirs = read_offers(connection, moment, sources, exchange, {"provider": imported})
    stay = {row[PROVIDER] for row in theirs.rows if row[SOURCE].startswith(IMPORTED)}
    return Entries([row for row in rows if not row[SOURCE].startswith(IMPORTED) or row[PROVIDER] in stay], told.reading)


def read_rates(
    connection: Connection,
    moment: Moment,
    sources: Mapping[str, Source],
    exchange: Exchange,
    only: Only | None = None,
) -> Entries[TokenRate]:
    """Price lists with past and announced entries; imported ones only where no live source lists the provider and model."""
    return _told_rates(rows_at(connection, RATES, moment, only), moment, sources, exchange, {})


def _told_offers(
    found: Rows, moment: Moment, sources: Mapping[str, Source], exchange: Exchange, unpriced: dict[str, int]
) -> Entries[GpuOffer]:
    told = Entries(found.told, _reading(found, moment, sources, exchange, listed_offer), found.every)
    return _in_force_offers(_priced(told, CURRENCY, unpriced), to_s(moment.at))


def _told_rates(
    found: Rows, moment: Moment, sources: Mapping[str, Source], exchange: Exchange, unpriced: dict[str, int]
) -> Entries[TokenRate]:
    read = Entries(found.told, _reading(found, moment, sources, exchange, listed_rate), found.every)
    told = _priced(read, RATE_CURRENCY, unpriced)
    return Entries(_give_way(told.rows, _sold), told.reading) if _any_imported(told) else told


def _reading(
    found: Rows, moment: Moment, sources: Mapping[str, Source], exchange: Exchange, build: Callable[[Row, Reading[Value]], Listed[Value]]
) -> Reading[Value]:
    return Reading(
        at=moment.at,
        until=moment.at,
        exchange=exchange,
        sources=sources,
        covered=found.covered,
        unseen=found.unseen,
        starts=found.starts,
        build=build,
    )


def _priced(told: Entries[Value], currency: int, unpriced: dict[str, int]) -> Entries[Value]:
    """Entries whose currency has an exchange rate; the others are counted."""
    lacking = {name for name in told.every(currency) if told.reading.usd(ONE, name) is None}
    if not lacking:
        return told
    for name, count in Counter(row[currency] for row in told.rows if row[currency] in lacking).items():
        unpriced[name] = unpriced.get(name, 0) + count
    return told.of(row for row in told.rows if row[currency] not in lacking)


def _in_force_offers(told: Entries[GpuOffer], at: int) -> Entries[GpuOffer]:
    """Of an offer listed with dated prices, the one in force: the latest start that has begun.

    Only a source that dates its prices, or lists in two currencies, can list one thing twice.
    """
    kinds, starts = told.every(SOURCE, CURRENCY, VALID_FROM), told.reading.starts
    often = Counter(source for source, _, _ in kinds)
    if all(start is None for _, _, start in kinds) and all(count == 1 for count in often.values()):
        return told
    latest: dict[Row | int, tuple[int, Row]] = {}
    for row in told.rows:
        start = starts.get(row[ID], row[AT]) if row[VALID_FROM] is None else row[VALID_FROM]
        if start <= at:
            key = row[ID] if often[row[SOURCE]] == 1 else _same(row)
            if key not in latest or latest[key][0] <= start:
                latest[key] = (start, row)
    return Entries([row for _, row in latest.values()], told.reading)


def _any_imported(told: Entries[Value]) -> bool:
    return any(source.startswith(IMPORTED) for source in told.every(SOURCE))


def _give_way(rows: Sequence[Row], whose: Callable[[Row], object]) -> list[Row]:
    """Imported rows step aside where a live source lists the same provider (for rates: the same provider and model)."""
    live = {whose(row) for row in rows if not row[SOURCE].startswith(IMPORTED)}
    return [row for row in rows if not (row[SOURCE].startswith(IMPORTED) and whose(row) in live)]
