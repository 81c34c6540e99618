"""A month of points that is dropped on PostgreSQL: never with a point that another is writing into it, and nobody waits long for it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from databases import new_book, opened
from sqlalchemy import Engine, text
from waiting import until

from tracker.book.bookfile import Dated
from tracker.book.bookstore import import_dated
from tracker.database import months
from tracker.database.handle import reading, writing
from tracker.database.months import drop_empty, lock, make_all, months_there
from tracker.database.rows import OfferRow, to_s
from tracker.sweeps.store import SweepReport, record_sweep

MARCH, MAY = (datetime(2020, month, 5, tzinfo=UTC) for month in (3, 5))
PATIENT_MS = 20_000  # longer than a test waits for another thread
WAITS = text("select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'")


@pytest.fixture
def pg(request: pytest.FixtureRequest) -> Iterator[Engine]:
    yield from opened(new_book(request, "postgres"))


OFFER = OfferRow(
    provider="cloud", sku="a", region="", gpu="nvidia-h200-sxm-141", gpu_count=1, tier="on_demand", trust="datacenter", currency="USD",
    price=3_000_000_000,
)  # fmt: skip


def list_one(db: Engine) -> int:
    """An offer listed in May, and an empty month of March; the offer's number."""
    record_sweep(db, SweepReport(source="clouds", started_at=MAY, finished_at=MAY, status="ok", rows=1, offers=[OFFER]))
    with writing(db) as connection:
        make_all(connection, [to_s(MARCH)])
        return int(connection.execute(text("select id from offer")).scalar_one())


def drop(db: Engine) -> int:
    with writing(db) as connection:
        return drop_empty(connection, to_s(MAY))


@pytest.mark.real
def test_a_month_that_another_is_writing_into_stays_with_the_point(pg: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(months, "PATIENCE_MS", PATIENT_MS)
    id_ = list_one(pg)
    with ThreadPoolExecutor() as pool:
        with writing(pg) as connection:
            point = "insert into offer_point (at, price, offer_id, availability) values (:at, 5, :id, 0)"
            connection.execute(text(point), {"at": to_s(MARCH), "id": id_})
            dropped = pool.submit(drop, pg)
            until_another_waits(pg)  # it has looked and found nothing
        assert dropped.result(PATIENT_MS / 1000) == 1  # the month of rates, which is empty
    with reading(pg) as connection:
        assert connection.execute(text("select count(*) from offer_point")).scalar_one() == 2
        assert (2020, 3) in months_there(connection, "offer_point")


def until_another_waits(db: Engine) -> None:
    def waits() -> object:
        with reading(db) as connection:
            return connection.execute(WAITS).scalar_one()

    until(waits, seconds=PATIENT_MS / 1000)


@pytest.mark.real
def test_an_import_and_whoever_makes_a_month_do_not_wait_for_each_other(pg: Engine) -> None:
    since = to_s(MARCH)
    with ThreadPoolExecutor() as pool:
        with writing(pg) as connection:
            lock(connection)
            done = pool.submit(import_dated, pg, [Dated(OFFER, "page", since, since + 60, to_s(MAY))], datetime.now(UTC))
            until_another_waits(pg)  # it needs March and May, and has written nothing
            make_all(connection, [to_s(datetime(2019, 3, 1, tzinfo=UTC))])
        assert done.result(PATIENT_MS / 1000).new_points == 3


@pytest.mark.real
def test_a_month_that_is_being_read_is_dropped_another_time(pg: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(months, "PATIENCE_MS", 50)
    list_one(pg)
    with reading(pg) as connection:
        connection.execute(text("select count(*) from offer_point"))
        assert drop(pg) == 1  # the month of rates, which nobody reads
    assert drop(pg) == 1
    with reading(pg) as connection:
        assert [(2020, 3) in months_there(connection, table) for table in months.TABLES] == [False, False]
