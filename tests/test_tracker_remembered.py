"""What a process remembers of a source is what the database holds, whatever happened in between: the same book comes out without it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from databases import new_book, opened
from guarded import SOURCES, T0, offer, rate
from sqlalchemy import Engine, event, select

from tracker.book.exchange import exchange_of
from tracker.book.listing import OFFERS, RATES, Row, load_listing
from tracker.book.newest import newest_sweep
from tracker.book.remembered import Remembered
from tracker.book.standing import standing_of
from tracker.database import schema
from tracker.database.handle import reading, writing
from tracker.database.rows import OfferRow, RateRow, identity, to_s
from tracker.guard.context import Guard
from tracker.guard.decisions import NothingToDecide, accept, entries, reject
from tracker.guard.doubts import SweepRefused
from tracker.guard.settings import GuardSettings
from tracker.maintenance.retention import take_away
from tracker.service.clock import mend_future
from tracker.sweeps.store import SweepReport, record_sweep

TABLES = ("offer", "offer_point", "rate", "rate_point", "unseen", "reworded", "sweep", "quarantine", "statistic")
NAMES = ("runpod", "openrouter", "lambda")
GUARD = Guard(settings=GuardSettings(), sources=SOURCES, exchange=exchange_of([]))
STEPS = 45


class Crash(Exception):
    """The process ends in the middle of a transaction."""


@dataclass
class Market:
    """What the sources print; every step is drawn once and done to each book."""

    dice: random.Random
    rows: dict[str, list[Row]] = field(default_factory=dict)
    now: datetime = T0

    def __post_init__(self) -> None:
        for source in NAMES:
            self.rows[source] = [self._new(source, number) for number in range(9)]

    def _new(self, source: str, number: int) -> Row:
        if source == "openrouter":
            return rate("3", "15", "0.3", provider=f"p{number % 3}", source_model=f"m{number}", source_url="https://a")
        return offer(3 + number % 4, sku=f"s{number}", provider=source, tier=("on_demand", "spot")[number % 2], source_url="https://a")

    def move(self, row: Row) -> Row:
        """A little, far (which waits), its words alone, or its availability alone."""
        how, price = self.dice.random(), "price" if isinstance(row, OfferRow) else "output"
        if how < 0.5:
            return replace(row, **{price: int((getattr(row, price) or 0) * self.dice.choice((0.97, 1.04)))})
        if how < 0.7:
            return replace(row, **{price: int((getattr(row, price) or 0) * self.dice.choice((0.2, 6)))})
        if how < 0.85 or isinstance(row, RateRow):
            return replace(row, source_url=f"https://{self.dice.choice('abc')}")
        return replace(row, availability=self.dice.choice((0, 1, 2)))

    def report(self, source: str) -> SweepReport:
        """A sweep: ok, partial, unchanged or failed, with conflicts and rejected rows among it."""
        dice = self.dice
        self.now += timedelta(minutes=dice.choice((15, 15, 15, 15, 60, -20, 0)))
        rows = self.rows[source]
        status = dice.choices(("ok", "unchanged", "failed"), (8, 2, 1))[0]
        if status == "ok":
            for place in dice.sample(range(len(rows)), dice.choice((0, 0, 1, 2, 3, len(rows)))):
                rows[place] = self.move(rows[place])
            if dice.random() < 0.3:
                rows.append(self._new(source, dice.randrange(9, 14)))
        printed = [row for row in rows if dice.random() < dice.choice((1, 1, 0.8))] if status == "ok" else []
        printed = list({identity(source, row): replace(row) for row in printed}.values())
        dice.shuffle(printed)
        odd = {identity(source, row): row for row in printed[:1] if len(printed) > 2 and dice.random() < 0.25}
        conflicts = {key: [row, self.move(row)] for key, row in odd.items()} if dice.random() < 0.5 else {}
        kept = [row for row in printed if identity(source, row) not in odd]
        return SweepReport(
            source=source, started_at=self.now, finished_at=self.now, status=status, complete=dice.random() < 0.8, rows=len(kept),
            offers=[row for row in kept if isinstance(row, OfferRow)], rates=[row for row in kept if isinstance(row, RateRow)],
            conflicts=conflicts, rejected={} if conflicts else odd,
        )  # fmt: skip


def keep(db: Engine, report: SweepReport, guard: Guard | None, remembered: Remembered | None) -> None:
    """As ``collect`` does: a refused sweep is kept as a failed one."""
    try:
        record_sweep(db, report, guard, remembered=remembered)
    except SweepRefused as refused:
        failed = SweepReport(
            source=report.source, started_at=report.started_at, finished_at=report.finished_at, status="failed", error=str(refused),
            fault=refused.fault,
        )  # fmt: skip
        record_sweep(db, failed, remembered=remembered)


def contents(db: Engine) -> dict[str, list[tuple[Any, ...]]]:
    with reading(db) as connection:
        tables = [schema.TABLES[name] for name in TABLES]
        return {table.name: [tuple(row) for row in connection.execute(select(table).order_by(*table.primary_key))] for table in tables}


def assert_remembered(db: Engine, remembered: Remembered) -> int:
    """Whatever is known at the version the database is at is what it holds; returns how many sources are."""
    known = 0
    with reading(db) as connection:
        for source in NAMES:
            listings = remembered.at(source, standing_of(connection, source).version)
            for kind in (OFFERS, RATES) if listings is not None else ():
                listing = load_listing(connection, kind, source)
                assert listings[kind.name] == listing  # type: ignore[index]
                assert listing.absent == {key for key, entry in listing.known.items() if entry.absence is not None}
                assert listing.gone == {key for key, entry in listing.known.items() if entry.gone}
            known += listings is not None
    return known


Step = Callable[[Engine, "Remembered | None"], None]


def decision(market: Market) -> Step:
    """A person accepts or rejects one of what waits."""
    chosen, way, now = market.dice.random(), market.dice.choice((accept, accept, reject)), market.now + timedelta(minutes=1)

    def step(db: Engine, _: Remembered | None) -> None:
        with writing(db) as connection:
            waiting = entries(connection)
            if waiting:
                with suppress(NothingToDecide):
                    way(connection, waiting[int(chosen * len(waiting))]["id"], "somebody", now)

    return step


def crash(market: Market, report: SweepReport) -> Step:
    """A sweep whose transaction ends before it is kept, and the same sweep again."""
    at_start = market.dice.random() < 0.3

    def step(db: Engine, remembered: Remembered | None) -> None:
        def die(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
            if at_start or statement.lower().startswith("insert into sweep"):
                raise Crash

        event.listen(db, "before_cursor_execute", die)
        try:
            with pytest.raises(Crash):
                keep(db, report, GUARD, remembered)
        finally:
            event.remove(db, "before_cursor_execute", die)
        keep(db, report, GUARD, remembered)

    return step


def mended(market: Market) -> Step:
    """The clock went ahead by hours and was set back: sweeps since then, and what was accepted then, are dated anew."""
    before = market.now
    market.now += timedelta(hours=5)
    reports = [market.report(source) for source in NAMES]
    decided = decision(market)
    market.now = before + timedelta(minutes=3)
    now = to_s(market.now)

    def step(db: Engine, remembered: Remembered | None) -> None:
        with reading(db) as connection:
            last = newest_sweep(connection)
        for report in reports:
            keep(db, report, GUARD, remembered)
        decided(db, remembered)
        with writing(db) as connection:
            mend_future(connection, now, last)

    return step


def pruned(market: Market) -> Step:
    horizon = to_s(market.now - timedelta(hours=2))
    return lambda db, _: void(take_away(db, horizon, horizon))


def void(_: object) -> None:
    """For its effect alone."""


def drawn(market: Market) -> Step:
    """The next thing that happens."""
    what = market.dice.choices(("sweep", "other", "unguarded", "decision", "crash", "mended", "pruned"), (60, 15, 5, 15, 5, 2, 3))[0]
    if what == "decision":
        return decision(market)
    if what in ("mended", "pruned"):
        return mended(market) if what == "mended" else pruned(market)
    report = market.report(market.dice.choice(NAMES))
    if what == "crash":
        return crash(market, report)
    guard = None if what == "unguarded" else GUARD
    return lambda db, remembered: keep(db, report, guard, None if what == "other" else remembered)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.real)])
def books(request: pytest.FixtureRequest) -> Iterator[tuple[Engine, Engine]]:
    first, second = (opened(new_book(request, request.param, name)) for name in ("with", "without"))
    yield next(first), next(second)
    for book in (first, second):
        next(book, None)


@pytest.mark.parametrize("seed", range(8))
def test_the_same_book_comes_out_with_and_without_what_is_remembered(books: tuple[Engine, Engine], seed: int) -> None:
    with_it, without = books
    market, remembered, used = Market(random.Random(seed)), Remembered(), 0
    for _ in range(STEPS):
        step = drawn(market)
        step(with_it, remembered)
        step(without, None)
        used += assert_remembered(with_it, remembered)
    assert contents(with_it) == contents(without)
    assert used > STEPS  # or nothing was shown: it is of use for most sources most of the time


def test_no_more_rows_are_remembered_than_may_be_and_the_rest_is_read(books: tuple[Engine, Engine]) -> None:
    with_it, without = books
    market, remembered = Market(random.Random(7)), Remembered(most_rows=20)
    for _ in range(6):
        for source in NAMES:
            report = market.report(source)
            keep(with_it, report, GUARD, remembered)
            keep(without, report, GUARD, None)
        assert 1 <= assert_remembered(with_it, remembered) < len(NAMES)
    assert contents(with_it) == contents(without)
