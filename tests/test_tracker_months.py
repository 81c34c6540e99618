"""Points by month on PostgreSQL: made before they are needed by whoever writes, once, and no answer depends on where a month ends."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from databases import Postgres, new_book, opened
from small_world import small_world
from sqlalchemy import Engine, select, text
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from tracker.book.asof import Moment, rows_at
from tracker.book.bookfile import Dated
from tracker.book.bookstore import import_dated
from tracker.book.listing import OFFERS, RATES
from tracker.database.faults import fault_kind, fault_line
from tracker.database.handle import open_database, reading, writing
from tracker.database.latest import newest_first, with_latest
from tracker.database.months import bounds, drop_empty, is_month, make_ahead, make_all, months_of, months_there
from tracker.database.rows import OfferRow, RateRow, scaled, to_s
from tracker.database.tables import RATE_SCALE, RENT_SCALE
from tracker.maintenance.dump import dump, load
from tracker.maintenance.retention import prune, take_away
from tracker.maintenance.stats import book_size
from tracker.service.clock import mend_future
from tracker.sweeps.store import SweepReport, record_sweep

MARCH = datetime(2025, 3, 1, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
TICK = timedelta(seconds=1)


@pytest.fixture
def lite(request: pytest.FixtureRequest) -> Iterator[Engine]:
    yield from opened(new_book(request, "sqlite"))


@pytest.fixture
def pg(request: pytest.FixtureRequest) -> Iterator[Engine]:
    yield from opened(new_book(request, "postgres"))


def offer(price: str | int, sku: str = "a") -> OfferRow:
    return OfferRow(
        provider="cloud", sku=sku, region="", gpu="nvidia-h200-sxm-141", gpu_count=1, tier="on_demand", trust="datacenter", currency="USD",
        price=scaled(Decimal(price), RENT_SCALE),
    )  # fmt: skip


def rate(price: int) -> RateRow:
    return RateRow(provider="api", source_model="m", model="m", currency="USD", output=price * RATE_SCALE)


def sweep(db: Engine, at: datetime, *rows: OfferRow | RateRow, source: str = "clouds") -> None:
    offers, rates = ([row for row in rows if isinstance(row, kind)] for kind in (OfferRow, RateRow))
    record_sweep(db, SweepReport(source=source, started_at=at, finished_at=at, status="ok", rows=len(rows), offers=offers, rates=rates))


def there(db: Engine, table: str = "offer_point") -> list[tuple[int, int]]:
    with reading(db) as connection:
        return months_there(connection, table)


def count(db: Engine, table: str) -> int:
    with reading(db) as connection:
        return int(connection.execute(text(f"select count(*) from {table}")).scalar_one())


def told(db: Engine, at: datetime) -> list[list[tuple[Any, ...]]]:
    """The rows of the book at a moment, without their numbers."""
    with reading(db) as connection:
        moment = Moment(at=at, known=at)
        return [
            sorted(
                tuple(str(int(cell)) if isinstance(cell, bool) else str(cell) for cell in row[1:])
                for row in rows_at(connection, kind, moment).told
            )
            for kind in (OFFERS, RATES)
        ]


# --- what a month is ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("month", "first", "following"),
    [
        ((2025, 12), "2025-12-01", "2026-01-01"),
        ((2024, 2), "2024-02-01", "2024-03-01"),  # of 29 days
        ((2026, 3), "2026-03-01", "2026-04-01"),  # summer time begins in it, where there is any
        ((2038, 1), "2038-01-01", "2038-02-01"),  # the 32nd bit
    ],
)
def test_a_month_is_from_its_first_second_to_that_of_the_next(month: tuple[int, int], first: str, following: str) -> None:
    start, end = (to_s(datetime.fromisoformat(day).replace(tzinfo=UTC)) for day in (first, following))
    assert bounds(month) == (start, end)
    assert months_of([start, end - 1]) == {month}
    assert len(months_of([start - 1, start, end])) == 3


def test_months_are_told_from_tables_by_their_names() -> None:
    named = ("offer_point_2026_11", "rate_point_2026_01", "offer_point", "offer_point_old", "rollup_day")
    assert [is_month(name) for name in named] == [True, True, False, False, False]


def test_sqlite_keeps_one_table(lite: Engine) -> None:
    sweep(lite, MARCH, offer(3))
    make_ahead(lite, MARCH)
    with writing(lite) as connection:
        make_all(connection, [0])
        assert drop_empty(connection, to_s(MARCH)) == 0
    assert there(lite) == []
    assert book_size(lite).months == 0


# --- PostgreSQL -----------------------------------------------------------------------------------------------------------


@pytest.mark.real
def test_a_new_book_has_this_month_and_the_next_two(pg: Engine) -> None:
    now = datetime.now(UTC)
    assert (now.year, now.month) in there(pg)
    assert len(there(pg)) == len(there(pg, "rate_point")) == 3
    assert book_size(pg).months == 6


@pytest.mark.real
def test_a_sweep_finds_its_month_also_on_its_first_and_last_second(pg: Engine) -> None:
    for at, price in ((MARCH - TICK, 3), (MARCH, 4), (MARCH + 31 * DAY - TICK, 5)):
        sweep(pg, at, offer(price), rate(price))
    assert {(2025, 2), (2025, 3)} <= set(there(pg)) & set(there(pg, "rate_point"))
    assert (2025, 4) not in there(pg)
    assert [count(pg, f"offer_point_2025_{month:02}") for month in (2, 3)] == [1, 2]


@pytest.mark.real
def test_a_sweep_that_is_moved_into_the_next_month_finds_it(pg: Engine) -> None:
    sweep(pg, MARCH + 31 * DAY - TICK, offer(3))
    sweep(pg, MARCH + 31 * DAY - TICK, offer(4))  # the same second again: it becomes the next one, which is in April
    assert [count(pg, f"offer_point_2025_{month:02}") for month in (3, 4)] == [1, 1]


@pytest.mark.real
def test_history_of_a_month_long_past_is_imported(pg: Engine) -> None:
    long_ago = datetime(2019, 7, 14, tzinfo=UTC)
    run = Dated(offer(3), "page", to_s(long_ago), to_s(long_ago + 40 * DAY), to_s(long_ago + 100 * DAY))
    assert import_dated(pg, [run], MARCH).new_points == 3
    assert {(2019, 7), (2019, 8), (2019, 10)} <= set(there(pg))
    assert import_dated(pg, [run], MARCH).new_points == 0
    with pytest.raises(IntegrityError), writing(pg) as connection:  # foreign keys hold in a month too
        connection.execute(text(f"insert into offer_point (offer_id, at, availability) values (999, {to_s(long_ago)}, 0)"))


@pytest.mark.real
def test_writers_that_need_the_same_new_months_make_each_once(pg: Engine) -> None:
    """Six connections write the first sweeps of nine months at once; none fails, none waits for ever."""
    handles = [open_database(pg.url.render_as_string(hide_password=False)) for _ in range(6)]
    begin = threading.Barrier(6)

    def write(number: int) -> None:
        begin.wait(30)
        for month in range(1, 10):
            sweep(handles[number], datetime(2024, month, 1, tzinfo=UTC), offer(number + 1), rate(2), source=f"s{number}")

    with ThreadPoolExecutor(6) as writers:
        for done in [writers.submit(write, number) for number in range(6)]:
            done.result(60)
    assert [month for month in there(pg) if month[0] == 2024] == [(2024, month) for month in range(1, 10)]
    assert count(pg, "sweep") == 54
    for handle in handles:
        handle.dispose()


@pytest.mark.real
def test_a_month_that_is_made_keeps_no_reader_waiting(pg: Engine) -> None:
    sweep(pg, MARCH, offer(3))
    with reading(pg) as reader:
        assert reader.execute(text("select count(*) from offer_point")).scalar_one() == 1  # its lock is held until the block ends
        with writing(pg) as connection:
            connection.execute(text("set local lock_timeout = '5s'"))
            make_all(connection, [to_s(MARCH + 400 * DAY)])
    assert (2026, 4) in there(pg)


@pytest.mark.real
def test_months_that_begin_soon_are_made_ahead(pg: Engine) -> None:
    make_ahead(pg, datetime(2024, 11, 30, 23, 59, 59, tzinfo=UTC))
    assert {(2024, 11), (2024, 12), (2025, 1)} <= set(there(pg))
    assert (2025, 2) not in there(pg)


@pytest.mark.real
def test_whole_months_go_once_their_points_were_taken_away(pg: Engine) -> None:
    for month, price in ((1, 3), (2, 4), (3, 5), (4, 6)):
        sweep(pg, datetime(2025, month, 2, tzinfo=UTC), offer(price), offer(9, "still"))
    horizon = to_s(datetime(2025, 4, 1, tzinfo=UTC))
    take_away(pg, horizon, None)
    with writing(pg) as connection:
        assert drop_empty(connection, horizon) == 1  # February; of each price the last before the horizon stays
    assert [month for month in there(pg) if month[0] == 2025] == [(2025, 1), (2025, 3), (2025, 4)]  # the last of each price stays
    sweep(pg, datetime(2025, 5, 2, tzinfo=UTC), offer(7), offer(9, "still"))
    assert len(told(pg, datetime(2025, 4, 1, tzinfo=UTC))[0]) == 2


@pytest.mark.real
def test_empty_months_that_a_wrong_clock_had_made_go_and_the_next_two_stay(pg: Engine, tmp_path: Path) -> None:
    """December and its next two months lie over the end of a year; the clock was seen in 2031, and one price is kept there."""
    now = datetime(2025, 12, 31, 23, 59, 59, tzinfo=UTC)
    for clock in (now, datetime(2031, 5, 2, tzinfo=UTC)):
        make_ahead(pg, clock)
    sweep(pg, datetime(2031, 6, 2, tzinfo=UTC), offer(3))
    prune(pg, small_world(tmp_path / "world"), now)  # points are kept for ever there
    assert [month for month in there(pg) if month > (2025, 11)] == [(2025, 12), (2026, 1), (2026, 2), (2031, 6)]
    assert [month for month in there(pg, "rate_point") if month > (2025, 11)] == [(2025, 12), (2026, 1), (2026, 2)]


@pytest.mark.real
def test_an_account_that_may_make_no_month_is_told_what_it_lacks_and_drops_none(pg: Engine, postgres: Postgres) -> None:
    sweep(pg, MARCH, offer(3))
    name = str(pg.url.database)
    postgres.psql(
        name, "do $$ begin create role writer login; exception when duplicate_object then null; end $$",
        "grant select, insert, update, delete on all tables in schema public to writer",
        "grant usage on all sequences in schema public to writer",
    )  # fmt: skip
    writer = open_database(postgres.url(name, user="writer"))
    sweep(writer, MARCH + HOUR, offer(4))  # its month is there
    with pytest.raises(SQLAlchemyError) as caught:
        sweep(writer, MARCH + 400 * DAY, offer(5))
    assert fault_kind(caught.value) == "denied"
    assert "user, password" not in fault_line(caught.value)
    assert "each month of points is one" in fault_line(caught.value)
    empty = there(pg)
    with writing(writer) as connection:
        assert drop_empty(connection, 0, MARCH - 400 * DAY) == 0
    assert there(pg) == empty
    writer.dispose()


@pytest.mark.real
def test_sweeps_of_a_clock_that_was_ahead_move_back_over_the_end_of_a_month(pg: Engine) -> None:
    now = MARCH + HOUR
    sweep(pg, now, offer(3))
    sweep(pg, now + 60 * DAY, offer(4))
    with writing(pg) as connection:
        assert mend_future(connection, to_s(MARCH + 2 * HOUR), 1) == 1
    assert [count(pg, f"offer_point_2025_{month:02}") for month in (3, 4)] == [2, 0]


@pytest.mark.real
def test_the_newest_point_is_found_without_reading_months_whole(pg: Engine) -> None:
    """Months of a few points, which PostgreSQL would rather read whole; then it could not stop at the newest."""
    for month in range(1, 7):
        sweep(pg, datetime(2025, month, 2, tzinfo=UTC), offer(month))
    with pg.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("analyze"))
    source, point = with_latest("postgresql", OFFERS.dimension, OFFERS.point, OFFERS.link)
    query = select(OFFERS.dimension.c.id, point.c.price).select_from(source)
    plan = text(f"explain {query.compile(pg)}".replace("%(param_1)s", "1"))
    with reading(pg) as connection:
        before = "\n".join(connection.execute(plan).scalars())
        with newest_first(connection):
            during = "\n".join(connection.execute(plan).scalars())
            assert connection.execute(query).all() == [(1, 6 * RENT_SCALE)]
        after = "\n".join(connection.execute(plan).scalars())
    assert before == after
    assert "Seq Scan on offer_point_2025_01" in before
    assert "Seq Scan on offer_point" not in during
    assert "Sort" not in during


@pytest.mark.real
def test_the_book_of_any_moment_is_that_of_sqlite(pg: Engine, lite: Engine, tmp_path: Path) -> None:
    """A year of a few sweeps a month: offers that move, vanish and come back, and some that never change."""
    dice = random.Random(20261129)
    prices, at, moments = {f"m{number}": 3 + number for number in range(12)}, MARCH, [MARCH - TICK]
    for _ in range(45):
        for sku in prices:
            if sku not in ("m0", "m1", "m2") and dice.random() < 0.3:
                prices[sku] = dice.randint(1, 50)
        rows = [offer(price, sku) for sku, price in prices.items() if sku in ("m0", "m1") or dice.random() < 0.85]
        for db in (pg, lite):
            sweep(db, at, *rows, rate(prices["m5"]))
        moments += [at, at + HOUR]
        at += timedelta(hours=dice.randint(3, 400))
    old = Dated(offer(8, "old"), "page", to_s(MARCH - 300 * DAY), to_s(MARCH + 100 * DAY), to_s(MARCH + 200 * DAY))
    for db in (pg, lite):
        import_dated(db, [old], MARCH + 50 * DAY)
    assert len([month for month in there(pg) if (2025, 3) <= month < (2026, 12)]) >= 10
    found = [told(pg, moment) for moment in moments]
    assert found == [told(lite, moment) for moment in moments]
    assert len({str(book) for book in found}) > 40
    dump(lite, tmp_path / "book.zst")
    with writing(pg) as connection:
        for table in ("offer_point", "rate_point"):
            connection.execute(text(f"delete from {table}"))
        drop_empty(connection, to_s(at))
    load(pg, tmp_path / "book.zst", replace=True)
    assert [told(pg, moment) for moment in moments] == found
