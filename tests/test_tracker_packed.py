"""The values of an offer's point in one number on SQLite: read by SQLite alone they are what was written, whatever was."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path

import pytest
from alembic import command
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from tracker.book.listing import OFFER_POINT
from tracker.book.points import insert_rows
from tracker.database.handle import alembic_config, migrate, open_database, writing
from tracker.database.packed import packed
from tracker.database.schema import MAX_SCALED

Values = tuple[int | None, int, int | None]  # price, availability, max_gpu_count
NAMES = ("offer_id", "at", "price", "availability", "max_gpu_count")
LEAST, MOST = -MAX_SCALED, MAX_SCALED
PRICES = st.one_of(
    st.none(),
    st.integers(0, MAX_SCALED),
    st.builds(lambda digits, zeros: digits * 10**zeros, st.integers(0, 10**7), st.integers(0, 11)),  # as they are printed
    st.builds(lambda bits, off: min(max(2**bits + off, 0), MAX_SCALED), st.integers(45, 63), st.integers(-2, 2)),  # where they stop fitting
    st.integers(LEAST, -1),
)
AVAILABILITIES = st.one_of(st.integers(0, 3), st.integers(-(2**15), 2**15 - 1))
COUNTS = st.one_of(st.none(), st.integers(0, 300), st.integers(-(2**15), 2**15 - 1))
POINTS = st.lists(st.tuples(PRICES, AVAILABILITIES, COUNTS), max_size=20)
EXTREMES: Sequence[Values] = [
    *((price, state, most) for price in (0, 1, 999, 10**9, MOST, MOST - 7) for state in (0, 3) for most in (None, 0, 1, 255, 256)),
    *((price, 1, most) for price in (2**59 - 1, 2**59, 2**51 - 1, 2**51, 2**51 * 1000, 2**59 * 10 - 10) for most in (None, 8)),
    *((None, state, most) for state in (0, 1, 3) for most in (None, 0, 8)),
    (-1, 0, None), (LEAST, 3, 8), (5, 4, None), (5, -1, None), (5, 0, -1), (5, 0, 2**15 - 1),
]  # fmt: skip


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with every table and no points."""
    path = tmp_path_factory.mktemp("packed") / "book.db"
    db = open_database(f"sqlite:///{path}")
    migrate(db)
    db.dispose()
    return path


@pytest.fixture
def plain(book: Path) -> Iterator[sqlite3.Connection]:
    """The same file as anybody opens it, with what is written taken back."""
    with closing(sqlite3.connect(book)) as connection:
        yield connection
        connection.rollback()


def told(connection: sqlite3.Connection, values: Sequence[Values]) -> list[Values]:
    """Put them in as packed and get them by the names of their columns."""
    connection.execute("delete from offer_point")
    rows = [(number, packed(*one)) for number, one in enumerate(values)]
    connection.executemany("insert into offer_point (offer_id, at, packed) values (?, 1800000000, ?)", rows)
    return connection.execute("select price, availability, max_gpu_count from offer_point order by offer_id").fetchall()


def test_extremes_are_read_as_they_were_written(plain: sqlite3.Connection) -> None:
    assert told(plain, EXTREMES) == list(EXTREMES)
    kinds = plain.execute("select distinct typeof(price), typeof(availability), typeof(max_gpu_count) from offer_point").fetchall()
    assert {kind for row in kinds for kind in row} == {"integer", "null"}


@given(POINTS)
def test_whatever_was_written_is_read(book: Path, values: Sequence[Values]) -> None:
    with closing(sqlite3.connect(book)) as connection:
        assert told(connection, values) == values
        connection.rollback()


def test_prices_as_they_are_printed_take_three_bytes() -> None:
    """SQLite keeps numbers below 2^7, 2^15, 2^23 and 2^31 in 1, 2, 3 and 4 bytes."""
    dollars = {"2.99": 2_990_000_000, "3.5912": 3_591_200_000, "23.92": 23_920_000_000, "52.4287": 52_428_700_000}
    kept = {name: packed(price, 3, None) for name, price in dollars.items()}
    assert all(isinstance(number, int) and 0 < number < 2**23 for number in kept.values()), kept
    assert packed(None, 0, None) is None
    with_most = packed(2_690_000_000, 0, 8)
    assert isinstance(with_most, int)
    assert -(2**31) < with_most < 0


@pytest.mark.parametrize("values", [(2**63, 0, None), (-(2**63), 0, None), (5, 0, 2**63), (2**70 * 10**7, 0, None)])
def test_what_no_database_holds_is_refused(values: Values) -> None:
    with pytest.raises(ValueError, match="larger than the database holds"):
        packed(*values)


def test_nobody_writes_a_value_beside_the_packed_one(plain: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.OperationalError, match='cannot INSERT into generated column "price"'):
        plain.execute("insert into offer_point (offer_id, at, price) values (1, 2, 3)")
    with pytest.raises(sqlite3.IntegrityError, match=r"NOT NULL constraint failed: offer_point\.availability"):
        plain.execute("insert into offer_point (offer_id, at, packed) values (1, 2, '[5,null,null]')")


AN_OFFER = (
    "insert into offer (id, key, source, origin, provider, sku, region, gpu, gpu_count, tier, term_months, trust, currency, is_slice, "
    "price_kind, interconnect, source_url) values (7, 'k', 's', 's', 'p', 'H200', '', 'g', 1, 'spot', 0, 'datacenter', 'USD', 0, 'list', "
    "'unknown', '')"
)


def test_points_of_the_schema_before_are_the_same_after_it_and_after_the_way_back(tmp_path: Path) -> None:
    db = open_database(f"sqlite:///{tmp_path / 'book.db'}")
    command.upgrade(alembic_config(db), "0017")
    read = {
        "points": f"select {', '.join(NAMES)}, typeof(price) from offer_point order by at",
        "view": "select price_nano, listed_from, listed_to from v_price_history order by listed_from",
    }
    with closing(sqlite3.connect(tmp_path / "book.db")) as plain:
        plain.execute(AN_OFFER)
        rows = [(number, *one) for number, one in enumerate(EXTREMES)]
        plain.executemany(f"insert into offer_point ({', '.join(NAMES)}) values (7, ?, ?, ?, ?)", rows)
        plain.commit()
        before = {name: plain.execute(query).fetchall() for name, query in read.items()}
        migrate(db)
        assert {name: plain.execute(query).fetchall() for name, query in read.items()} == before
        kept = [kept for (kept,) in plain.execute("select packed from offer_point order by at")]
        assert kept == [packed(*one) for one in EXTREMES]  # the migration packs as the program does
        command.check(alembic_config(db))
        command.downgrade(alembic_config(db), "0017")
        assert {name: plain.execute(query).fetchall() for name, query in read.items()} == before
        assert [row[1] for row in plain.execute("pragma table_xinfo(offer_point)")] == list(NAMES)
    db.dispose()


@given(POINTS)
def test_the_migration_packs_whatever_there_is_as_the_program_does(values: Sequence[Values]) -> None:
    migration = import_module("tracker.migrations.versions.0018_packed_points")
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("create table offer_point_old (offer_id, at, price bigint, availability smallint, max_gpu_count smallint)")
        rows = [(number, *one) for number, one in enumerate(values)]
        connection.executemany("insert into offer_point_old values (7, ?, ?, ?, ?)", rows)
        found = connection.execute(f"select {migration.PACKED} from ({migration.STEPS})").fetchall()
    assert found == [(packed(*one),) for one in values]


def test_the_program_writes_them_packed_in_any_order_of_columns(tmp_path: Path) -> None:
    db = open_database(f"sqlite:///{tmp_path / 'book.db'}")
    migrate(db)
    with closing(sqlite3.connect(tmp_path / "book.db")) as plain:
        plain.execute(AN_OFFER)
        plain.commit()
        with writing(db) as connection:
            insert_rows(connection, OFFER_POINT, NAMES, [(7, 1, 3_590_000_000, 2, 8)])
            insert_rows(connection, OFFER_POINT, NAMES[::-1], [(None, 1, 2_000_000_000, 2, 7)])
            insert_rows(connection, OFFER_POINT, NAMES, [(7, 2, 1, 0, None)], new=True)  # is there already
        assert plain.execute(f"select {', '.join(NAMES)} from offer_point").fetchall() == [
            (7, 1, 3_590_000_000, 2, 8), (7, 2, 2_000_000_000, 1, None)
        ]  # fmt: skip
        prices = plain.execute("select price_per_hour, listed_from from v_price_history order by listed_from").fetchall()
        assert prices == [(3.59, "1970-01-01T00:00:01.000Z"), (2.0, "1970-01-01T00:00:02.000Z")]
        with writing(db) as connection:
            assert connection.execute(text("select count(*) from v_current_offers where price_nano = 2000000000")).scalar_one() == 1
    db.dispose()
