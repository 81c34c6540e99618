"""What both databases owe the program: a consistent view, writers in turn, and every value as it was given."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from time import monotonic

import pytest
from databases import BOTH, Postgres, new_book, opened
from small_world import T0, offer, rate, small_world, sweep
from sqlalchemy import Engine, func, make_url, select, text
from sqlalchemy.exc import SQLAlchemyError

from scrapers.http import HostGate
from tracker.answers.health import source_health
from tracker.book.book import read_book
from tracker.database.handle import migrate, open_database, reading
from tracker.database.postgres import connect_args
from tracker.database.rows import to_ms
from tracker.database.tables import MAX_SCALED, RENT_SCALE
from tracker.sweeps.collect import Collector, keep
from tracker.sweeps.store import OFFER_POINT, SWEEP, SweepReport
from tracker.world import World


@pytest.fixture(params=BOTH)
def db(request: pytest.FixtureRequest) -> Iterator[Engine]:
    yield from opened(new_book(request, request.param))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return small_world(tmp_path / "small")


def test_a_reader_sees_one_moment_whatever_is_written_meanwhile(db: Engine) -> None:
    sweep(db, "rents", T0, offer("2.00"))
    with reading(db) as connection:
        before = connection.scalar(select(func.count()).select_from(SWEEP))
        sweep(db, "rents", T0 + timedelta(minutes=15), offer("1.90"))
        assert connection.scalar(select(func.count()).select_from(SWEEP)) == before
        assert connection.scalar(select(func.count()).select_from(OFFER_POINT)) == 1
    with reading(db) as connection:
        assert connection.scalar(select(func.count()).select_from(OFFER_POINT)) == 2


@pytest.mark.parametrize(("made_with", "has"), [(None, 8_192), (4_096, 4_096), (16_384, 16_384)])
def test_a_new_file_has_large_pages_and_one_that_is_there_keeps_its_own(made_with: int | None, has: int, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "book.db")) as plain:
        if made_with is not None:
            plain.execute(f"pragma page_size={made_with}")
            plain.execute("create table something (x)")
    for db in opened(f"sqlite:///{tmp_path / 'book.db'}"):
        migrate(db)
        sweep(db, "rents", T0, offer("2.00"))
    with closing(sqlite3.connect(tmp_path / "book.db")) as plain:
        assert [plain.execute(f"pragma {name}").fetchone() for name in ("page_size", "journal_mode")] == [(has,), ("wal",)]
        assert plain.execute("select price from offer_point").fetchall() == [(2_000_000_000,)]


@pytest.mark.real
def test_a_reader_cannot_write(request: pytest.FixtureRequest) -> None:
    for db in opened(new_book(request, "postgres")):
        with pytest.raises(SQLAlchemyError, match="read-only transaction"), reading(db) as connection:
            connection.execute(text("delete from sweep"))
        sweep(db, "rents", T0, offer("2.00"))  # the connection went back to the pool as it was


def test_writers_of_one_source_take_turns_and_lose_nothing(db: Engine) -> None:
    """Each sweep lists one price; every one of them is kept whole, at a moment of its own, and the last of them is the current one."""
    gate = threading.Barrier(6)

    def write(number: int) -> int:
        gate.wait(10)
        return sweep(db, "rents", T0, offer(f"2.{number}"), offer(f"3.{number}", sku="b"))

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(write, range(1, 7))) == [2] * 6
    with reading(db) as connection:
        moments = list(connection.execute(select(SWEEP.c.at)).scalars())
        points = connection.execute(select(OFFER_POINT.c.at, OFFER_POINT.c.price).order_by(OFFER_POINT.c.at, OFFER_POINT.c.price)).all()
    assert len(set(moments)) == 6
    pairs = [(points[i], points[i + 1]) for i in range(0, 12, 2)]
    assert all(one.at == other.at and other.price - one.price == RENT_SCALE for one, other in pairs)


def test_every_value_comes_back_as_it_was_given(db: Engine) -> None:
    """The largest and smallest numbers there may be, and text of all kinds."""
    odd = "Ω '\"\\ %s %(x)s :y {z} <b>&amp; 🚀 \u202f ẞ i̇"
    largest = Decimal(MAX_SCALED) / RENT_SCALE
    one = offer(str(largest), sku=odd, region="A", max_gpu_count=10_000, valid_from=1)
    two = offer("0.000000001", sku=odd, region="a")
    last_second = 253_402_300_799  # of the year 9999
    costs = rate(source_model=odd, sku="standard", input="0", output="0.000000000001", min_prompt_tokens=10**9, valid_to=last_second)
    sweep(db, "rents", T0, one, two, costs, skipped={odd: 2**31 - 1}, unmapped=[("gpu", odd)], error=odd, bytes=2**40)
    with reading(db) as connection:
        book = read_book(connection, T0, {})
        stored = connection.execute(select(SWEEP)).mappings().one()
    assert [(o.value.sku, o.value.region, o.value.native_per_hour) for o in sorted(book.offers, key=lambda o: o.value.region)] == [
        (odd, "A", largest), (odd, "a", Decimal("0.000000001")),
    ]  # fmt: skip
    assert [(r.value.source_model, r.value.native.input, r.value.native.output) for r in book.rates] == [
        (odd, 0, Decimal("0.000000000001"))
    ]
    assert (stored["error"], stored["bytes"], stored["at"] * 1000 + stored["lag_ms"]) == (odd, 2**40, to_ms(T0))


@pytest.mark.real
def test_what_no_column_takes_is_a_failed_sweep_of_its_source(request: pytest.FixtureRequest, world: World) -> None:
    """PostgreSQL keeps no NUL and no number beyond a column's width; names are cleaned of them before, so this is the last line."""
    for db in opened(new_book(request, "postgres")):
        collector = Collector(world=world, db=db, now=lambda: T0, gate=HostGate(monotonic=monotonic))
        for number, rows in enumerate(([offer("2.00", sku="a\x00b")], [offer("2.00", max_gpu_count=70_000)])):
            at = T0 + timedelta(minutes=number)
            kept = keep(collector, SweepReport(source="rents", started_at=at, finished_at=at, status="ok", rows=1, offers=rows))
            assert (kept.status, kept.error.split(":")[:2]) == ("failed", ["rents", " the database refuses its rows"])
        with reading(db) as connection:
            (health,) = (found for found in source_health(connection, world.config.sources, at) if found.id == "rents")
            assert (health.status, health.failures) == ("failed", 2)
            assert connection.scalar(select(func.count()).select_from(OFFER_POINT)) == 0


@pytest.mark.real
def test_through_a_pooler_in_transaction_mode_nothing_is_missing(
    request: pytest.FixtureRequest, postgres: Postgres, pgbouncer: int
) -> None:
    """More threads than server connections, each with statements that a driver would prepare after five times."""
    name = new_book(request, "postgres").rpartition("/")[2]
    for db in opened(postgres.url(name, port=pgbouncer)):

        def work(number: int, db: Engine = db) -> int:
            for minute in range(8):
                sweep(db, f"source{number}", T0 + timedelta(minutes=minute), offer(f"2.{minute}", provider=f"p{number}"))
                with reading(db) as connection:
                    read_book(connection, T0 + timedelta(hours=1), {})
            return number

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))
        with reading(db) as connection:
            assert connection.scalar(select(func.count()).select_from(SWEEP)) == 64
            assert connection.scalar(select(func.count()).select_from(OFFER_POINT)) == 64


@pytest.mark.parametrize("spelled", ["postgres", "postgresql", "postgresql+psycopg"])
def test_a_url_may_be_spelled_as_elsewhere(spelled: str) -> None:
    pytest.importorskip("psycopg")
    db = open_database(f"{spelled}://user@127.0.0.1:9/book")
    assert (db.dialect.name, db.dialect.driver) == ("postgresql", "psycopg")
    db.dispose()


def test_what_the_url_states_itself_is_left_to_it() -> None:
    stated = connect_args(make_url("postgresql+psycopg://user@h/book?application_name=mine&connect_timeout=1"))
    assert not {"application_name", "connect_timeout"} & set(stated)
    assert stated["prepare_threshold"] is None
