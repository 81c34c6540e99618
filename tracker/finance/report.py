"""The monthly report: API usage at the rates of each day against rental spend, every line with the price it stands on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction

from sqlalchemy import Connection

from engine.bills import usage_cost
from engine.exact import cents, to_decimal
from engine.ratecards import RateCard, prices_over, rate_cards
from engine.units import SECONDS_PER_HOUR
from tracker.book.asof import Moment
from tracker.book.book import Book, read_book
from tracker.book.exchange import Exchange, load_exchange
from tracker.book.stated import with_overrides
from tracker.database.rows import TICK
from tracker.finance.records import Rental, Usage
from tracker.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportLine:
    """One line. ``usd`` is the exact amount, ``usd_cents`` what it is printed as; None where there is no figure.

    ``flags`` say what a reader must know: an upper bound, a rate seen later, no rate at all.
    """

    kind: str  # api, rental
    day: date
    provider: str
    what: str
    sku: str
    quantity: str
    usd: Decimal | None
    price_source: str
    price_seen_at: datetime | None
    flags: tuple[str, ...] = ()

    @property
    def usd_cents(self) -> Decimal | None:
        """The amount to the cent, half up."""
        return None if self.usd is None else cents(self.usd)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A calendar month. Totals are sums of the printed lines, so that the report adds up to the cent."""

    month: str
    lines: tuple[ReportLine, ...]
    outside: int  # records of other months, which are left out

    def total(self, kind: str) -> Decimal:
        """USD of the printed lines of ``kind``."""
        return sum((line.usd_cents for line in self.lines if line.kind == kind and line.usd_cents is not None), Decimal("0.00"))

    @property
    def without_figure(self) -> tuple[ReportLine, ...]:
        """Lines no price is known for; the totals leave them out and must not be read as complete."""
        return tuple(line for line in self.lines if line.usd is None)


def month_span(month: str) -> tuple[datetime, datetime]:
    """First moment of a calendar month such as 2026-11 and of the next one; ValueError when it is none."""
    first = date.fromisoformat(f"{month}-01")
    following = date(first.year + first.month // 12, first.month % 12 + 1, 1)
    return datetime.combine(first, time(), UTC), datetime.combine(following, time(), UTC)


def make_report(
    connection: Connection, world: World, month: str, usage: Sequence[Usage], rentals: Sequence[Rental], now: datetime
) -> Report:
    """The report of ``month`` from the book as it is known at ``now``. Records of other months are left out."""
    start, end = month_span(month)
    book = _book(connection, world, now, now)
    used = [record for record in usage if start.date() <= record.day < end.date()]
    rented = [rental for rental in rentals if rental.start < end and rental.end > start]
    exchange = load_exchange(connection, Moment(at=now, known=now), all_days=True)
    lines = [*_api_lines(connection, world, used, book, now), *_rental_lines(rented, start, end, exchange)]
    return Report(month=month, lines=tuple(lines), outside=len(usage) - len(used) + len(rentals) - len(rented))


def _book(connection: Connection, world: World, at: datetime, known: datetime) -> Book:
    return with_overrides(read_book(connection, at, world.config.sources, known=known), world.overrides, world.settings.track.rate_sources)


def _api_lines(connection: Connection, world: World, usage: Iterable[Usage], today: Book, now: datetime) -> Iterable[ReportLine]:
    days: dict[date, Book] = {}
    for record in sorted(usage, key=lambda u: (u.day, u.provider, u.model, u.line)):
        if record.day not in days:
            end_of_day = datetime.combine(record.day, time(), UTC) + timedelta(days=1) - TICK
            days[record.day] = _book(connection, world, min(end_of_day, now), now)
        yield _api_line(world, record, days[record.day], today)


def _api_line(world: World, record: Usage, then: Book, today: Book) -> ReportLine:
    """The line of one usage record: at the rate seen by the end of its day, else at the one seen later, and then flagged."""
    start = datetime.combine(record.day, time(), UTC)
    for book, flags in ((then, ()), (today, ("rate first seen after this day",))):
        card = _card(world, record, book)
        prices = None if card is None else prices_over(card, 0, start, start + timedelta(days=1))
        if card is None or prices is None:
            continue
        cost = usage_cost(record.tokens, prices)
        return ReportLine(
            kind="api",
            day=record.day,
            provider=card.head.provider,
            what=card.head.model,
            sku=record.sku,
            quantity=_tokens(record),
            usd=cost.amount,
            price_source=card.head.source,
            price_seen_at=card.head.seen_at,
            flags=(
                *flags,
                *(("upper bound: no price for cached tokens",) if cost.upper_bound else ()),
                *(f"no price for {kind}" for kind in cost.missing if cost.amount is None),
                *(("context tiers not applied: usage has no prompt sizes",) if _has_tiers(card) else ()),
            ),
        )
    return ReportLine(
        kind="api", day=record.day, provider=record.provider, what=record.model, sku=record.sku, quantity=_tokens(record), usd=None,
        price_source="", price_seen_at=None, flags=("no rate known for this provider, model and sku",),
    )  # fmt: skip


def _card(world: World, record: Usage, book: Book) -> RateCard | None:
    """The price list of the record's provider, model and sku; live before imported, then the one seen last."""
    provider = world.provider_ids.get(record.provider, record.provider)
    listed = [
        entry.value for entry in book.price_lists if entry.value.provider in (provider, record.provider) and entry.value.sku == record.sku
    ]
    models = {record.model} | ({alias.model} if (alias := world.catalogue.model_for(provider, record.provider, record.model)) else set())
    cards = rate_cards(rate for rate in listed if rate.model in models and (not record.region or rate.region == record.region))
    return max(cards, key=lambda card: (card.head.region == record.region, card.head.seen_at, card.head.source), default=None)


def _has_tiers(card: RateCard) -> bool:
    return any(rate.conditions.min_prompt_tokens for rate in card.rates)


def _tokens(record: Usage) -> str:
    return " ".join(f"{kind}={count}" for kind, count in record.tokens.items() if count) or "0"


def _rental_lines(rentals: Iterable[Rental], start: datetime, end: datetime, exchange: Exchange) -> Iterable[ReportLine]:
    """One line a rental and day, so that a foreign currency is converted at each day's rate."""
    return (_rental_line(rental, day, until, exchange) for rental, day, until in rental_days(rentals, start, end))


def rental_days(rentals: Iterable[Rental], start: datetime, end: datetime) -> Iterator[tuple[Rental, datetime, datetime]]:
    """Every rental within [start, end), day by day (UTC)."""
    for rental in sorted(rentals, key=lambda r: (r.start, r.line)):
        day = max(rental.start, start)
        while day < min(rental.end, end):
            midnight = datetime.combine(day.date() + timedelta(days=1), time(), UTC)
            until = min(rental.end, end, midnight)
            yield rental, day, until
            day = until


def _rental_line(rental: Rental, start: datetime, end: datetime, exchange: Exchange) -> ReportLine:
    hours = Fraction((end - start) // timedelta(microseconds=1), SECONDS_PER_HOUR * 10**6)
    native = to_decimal(Fraction(rental.price_per_hour) * hours)
    usd = exchange.usd(native, rental.currency, start.date())
    flags = () if usd is not None else (f"no exchange rate for {rental.currency}",)
    return ReportLine(
        kind="rental", day=start.date(), provider=rental.provider, what=f"{rental.gpu_count} x {rental.gpu}", sku="",
        quantity=f"{to_decimal(hours):f} h", usd=usd, price_source="rentals file", price_seen_at=None, flags=flags,
    )  # fmt: skip
