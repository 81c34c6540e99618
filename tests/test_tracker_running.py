"""The book that is kept from look to look is the book that is read whole, whatever happened in between and whoever did it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from databases import BOTH, new_book, opened
from guarded import SOURCES, T0, offer, rate
from small_world import fx
from sqlalchemy import Engine
from test_tracker_remembered import Market, drawn

from tracker.book import running
from tracker.book.book import Book, read_book
from tracker.book.bookfile import Dated
from tracker.book.bookstore import import_dated
from tracker.book.precedence import offer_disagreements, rate_disagreements
from tracker.book.remembered import Remembered
from tracker.book.running import RunningBook
from tracker.database.handle import reading
from tracker.database.rows import to_s
from tracker.sweeps.store import SweepReport, record_sweep

STEPS = 60
HOUR = timedelta(hours=1)


@pytest.fixture(params=BOTH)
def db(request: pytest.FixtureRequest) -> Iterator[Engine]:
    yield from opened(new_book(request, request.param, "book"))


def contents(book: Book) -> tuple[Any, ...]:
    """Everything in it: rows in their order, and the values they become."""
    sides = [
        [(entry.value, entry.origin, entry.fresh, entry.imported, entry.is_slice) for entry in side]
        for side in (book.offers, book.price_lists)
    ]
    every = [side.every(*fields) for side, kind in ((book.offers, "offer"), (book.price_lists, "rate")) for fields in running.COUNTED[kind]]
    told = (every, offer_disagreements(book.offers), rate_disagreements(book.rates))
    return (book.at, book.known, book.exchange, dict(book.unpriced), sides, told)


def look(db: Engine, books: list[RunningBook], at: datetime) -> None:
    with reading(db) as connection:
        whole = contents(read_book(connection, at, SOURCES))
        for book in books:
            assert contents(book.read(connection, at)) == whole


def foreign(db: Engine, dice: random.Random, now: datetime, remembered: Remembered | None) -> None:
    """A source that prints other currencies, dated prices and slices, some of them twice."""
    printed = []
    for number in dice.sample(range(8), 5):
        currency = dice.choice(("EUR", "EUR", "USD", "XTS"))
        start = to_s(now + dice.randrange(-30, 30) * HOUR) if dice.random() < 0.3 else None
        row = offer(2 + number, sku=f"e{number % 5}", provider="verda", currency=currency, valid_from=start, is_slice=number == 3)
        printed.append(row)
    rates = [rate("2", "9", "0.2", provider="deepseek", source_model=f"d{n}", currency=dice.choice(("CNY", "USD"))) for n in range(3)]
    report = SweepReport(source="verda", started_at=now, finished_at=now, status="ok", rows=len(printed), offers=printed, rates=rates)
    record_sweep(db, report, remembered=remembered)


def imported(db: Engine, dice: random.Random, now: datetime) -> None:
    """Rows of before, some of a provider that is listed live, some that end."""
    rows = [
        Dated(
            replace(offer(3 + number, sku=f"i{dice.randrange(4)}", provider=dice.choice(("runpod", "old"))), source_url=""), "page",
            to_s(now) - 90_000 - dice.randrange(9_000), to_s(now) - dice.randrange(80_000), None,
        )
        for number in range(dice.randrange(1, 4))
    ]  # fmt: skip
    import_dated(db, rows, now)


def rates_of_exchange(db: Engine, dice: random.Random, now: datetime) -> None:
    quotes = fx((now - timedelta(days=1)).date(), USD=f"1.{dice.randrange(10, 99)}", CNY=f"8.{dice.randrange(10, 99)}")
    record_sweep(db, SweepReport(source="ecb", started_at=now, finished_at=now, status="ok", rows=2, fx=quotes))


@pytest.mark.parametrize("seed", range(6))
def test_the_kept_book_is_the_whole_book(db: Engine, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes: one that sweeps sometimes, one that never does; and one that read nothing before."""
    dice = random.Random(f"running {seed}")
    market, own = Market(random.Random(seed)), Remembered()
    books = [RunningBook(SOURCES, own), RunningBook(SOURCES, Remembered())]
    wholes: list[int] = []
    read_whole = RunningBook._read_whole
    monkeypatch.setattr(RunningBook, "_read_whole", lambda *told: wholes.append(1) or read_whole(*told))
    monkeypatch.setattr(running, "WHOLE_S", 10**9)  # it is never read whole for its age alone
    for _ in range(STEPS):
        what = dice.choices(("market", "foreign", "imported", "exchange", "nothing"), (60, 12, 3, 4, 10))[0]
        if what == "market":
            drawn(market)(db, own)
        elif what == "foreign":
            market.now += timedelta(minutes=7)
            foreign(db, dice, market.now, dice.choice((own, own, None)))
        elif what == "imported":
            imported(db, dice, market.now)
        elif what == "exchange":
            rates_of_exchange(db, dice, market.now)
        if dice.random() < 0.8:
            at = market.now + dice.choice((timedelta(0), timedelta(seconds=1), timedelta(minutes=1), 3 * HOUR, 9 * HOUR, -HOUR))
            look(db, [*books, RunningBook(SOURCES, own)] if dice.random() < 0.1 else books, at)
    look(db, books, market.now + timedelta(minutes=10))
    assert len(wholes) < STEPS  # or nothing was kept


def steps(book: RunningBook, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a book reads from the database from here on."""
    seen: list[str] = []
    whole, source = RunningBook._read_whole, RunningBook._read_source
    monkeypatch.setattr(RunningBook, "_read_whole", lambda *told: seen.append("whole") or whole(*told))
    monkeypatch.setattr(RunningBook, "_read_source", lambda *told: seen.append(told[3]) or source(*told))
    return seen


def keep(db: Engine, now: datetime, dollars: float, remembered: Remembered | None, source: str = "runpod", status: str = "ok") -> None:
    rows = [offer(dollars, sku="a", provider=source), offer(4, sku="b", provider=source)] if status == "ok" else []
    record_sweep(
        db, SweepReport(source=source, started_at=now, finished_at=now, status=status, rows=len(rows), offers=rows), remembered=remembered
    )


def test_own_sweeps_are_followed_without_reading_and_those_of_others_by_source(db: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    remembered = Remembered()
    book, now = RunningBook(SOURCES, remembered), T0
    for source in ("runpod", "lambda"):
        keep(db, now, 3, remembered, source)
    look(db, [book], now)
    seen = steps(book, monkeypatch)
    for dollars in (3, 3.5, 2):
        now += HOUR
        keep(db, now, dollars, remembered)
        look(db, [book], now)
    keep(db, now + HOUR / 2, 2, remembered, status="failed")
    look(db, [book], now + HOUR)
    assert seen == []
    now += HOUR
    keep(db, now, 7, None, "lambda")
    look(db, [book], now)
    look(db, [book], now + HOUR)
    assert seen == ["lambda"]


def test_sweeps_that_nobody_followed_for_long_are_read(db: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    remembered = Remembered()
    book, now = RunningBook(SOURCES, remembered), T0
    keep(db, now, 3, remembered)
    look(db, [book], now)
    seen = steps(book, monkeypatch)
    for dollars in range(3, 13):
        now += HOUR / 4
        keep(db, now, dollars, remembered)
    look(db, [book], now)
    assert seen == ["runpod"]


def test_a_sweep_kept_after_the_look_began_waits_for_the_next_look(db: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    remembered = Remembered()
    book, now = RunningBook(SOURCES, remembered), T0
    keep(db, now, 3, remembered)
    look(db, [book], now)
    seen = steps(book, monkeypatch)
    keep(db, now + HOUR, 4, remembered)
    with reading(db) as connection:
        before = contents(read_book(connection, now + 2 * HOUR, SOURCES))
        keep(db, now + HOUR + timedelta(minutes=1), 5, remembered)
        assert contents(book.read(connection, now + 2 * HOUR)) == before
    look(db, [book], now + 3 * HOUR)
    assert seen == []


def test_a_book_that_was_interrupted_is_read_whole(db: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    remembered = Remembered()
    book, now = RunningBook(SOURCES, remembered), T0
    keep(db, now, 3, remembered)
    look(db, [book], now)
    keep(db, now + HOUR, 4, remembered)
    with monkeypatch.context() as broken, reading(db) as connection:
        broken.setattr(running, "book_of", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            book.read(connection, now + HOUR)
    seen = steps(book, monkeypatch)
    look(db, [book], now + HOUR)
    look(db, [book], now + 7 * HOUR)  # and now and then
    assert seen == ["whole", "whole"]
