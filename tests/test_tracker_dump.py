"""A book moves from SQLite to PostgreSQL and back without losing or changing a thing, as read by SQL alone."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from databases import BOTH, Postgres, new_book, opened
from homes import run
from small_world import T0, fill, offer, sweep
from sqlalchemy import Engine, func, insert, select, text
from sqlmodel import SQLModel

from scrapers.contract import Page
from tracker.answers.recompute import Sizer, recompute
from tracker.book.book import read_book
from tracker.config import BodiesSettings
from tracker.database.handle import only_daemon, open_database, reading, writing
from tracker.database.months import is_month
from tracker.errors import BreakevenError
from tracker.maintenance.dump import DumpError, dump, kind_of, load
from tracker.sweeps.bodies import keep_bodies, zstd
from tracker.sweeps.store import SweepReport
from tracker.world import World

HOUR = timedelta(hours=1)
Content = dict[str, list[str]]


def every_table(db: Engine) -> None:
    """A book with rows in each of its tables; where no price brought one, a made-up row with every kind of value."""
    fill(db)
    for hours, price in ((1, "2.31"), (2, "2.20"), (3, "2.25")):
        sweep(db, "rents", T0 + hours * HOUR, offer(price), offer("3.00", sku="80x2", gpu="test-80", gpu_count=2))
    report = SweepReport(source="rents", started_at=T0, finished_at=T0 + HOUR, status="ok")
    keep_bodies(db, BodiesSettings(), report, [Page(url="https://x.example/", body=bytes(range(256)), fetched_at=T0)])
    made_up: dict[type, Any] = {str: 'é "x" \\', int: 7, bool: True, datetime: T0, date: date(2026, 11, 2), bytes: b"\x00\xff"}
    with writing(db) as connection:
        for table in SQLModel.metadata.sorted_tables:
            if not connection.scalar(select(func.count()).select_from(table)):
                values = {column.name: made_up[kind_of(column)] for column in table.columns}
                own = {key.parent.name: connection.scalar(select(func.max(key.column))) for key in table.foreign_keys}
                connection.execute(insert(table).values(**values | own))


def content(db: Engine, request: pytest.FixtureRequest) -> Content:
    """Every row of every table as sorted JSON, read with SQL and no code of ours."""
    if db.dialect.name == "sqlite":
        return _of_sqlite(str(db.url.database))
    server: Postgres = request.getfixturevalue("postgres")
    name = str(db.url.database)
    found = server.psql(name, "select tablename from pg_tables where schemaname = 'public' order by 1")
    tables = [table for (table,) in found if not is_month(table)]
    return {
        table: sorted(_normal(json.loads(row[0])) for row in server.psql(name, f'select row_to_json(t) from "{table}" t'))
        for table in tables
    }


def _of_sqlite(path: str) -> Content:
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        tables = [row[0] for row in connection.execute("select name from sqlite_master where type = 'table' order by 1")]
        return {
            table: sorted(_normal(dict(row)) for row in connection.execute(f'select * from "{table}"'))
            for table in tables
            if not table.startswith("sqlite_")
        }


def _normal(row: dict[str, Any]) -> str:
    """A row as both databases would show it: times as UTC, truth as a number, bytes as hex, and not what SQLite packs into a number."""
    return json.dumps({name: _value(value) for name, value in row.items() if name != "packed"}, sort_keys=True)


def _value(value: Any) -> Any:
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if isinstance(value, str) and value[:4].isdigit() and value[4:5] == "-" and ":" in value:
        found = datetime.fromisoformat(value)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
    return int(value) if isinstance(value, bool) else value


@pytest.fixture(params=BOTH)
def db(request: pytest.FixtureRequest) -> Iterator[Engine]:
    handle = next(opened(new_book(request, request.param)))
    every_table(handle)
    yield handle
    handle.dispose()


def other(request: pytest.FixtureRequest, db: Engine, name: str = "other") -> Iterator[Engine]:
    """An empty book of the other kind."""
    return opened(new_book(request, "postgres" if db.dialect.name == "sqlite" else "sqlite", name))


@pytest.mark.real
def test_there_and_back_again_is_the_same_book(db: Engine, request: pytest.FixtureRequest, tmp_path: Path, world: World) -> None:
    start = content(db, request)
    assert {name for name, rows in start.items() if not rows} == set()
    assert set(start) == {table.name for table in SQLModel.metadata.sorted_tables} | {"alembic_version"}
    (there,) = [*other(request, db)]
    written = dump(db, tmp_path / "book.zst")
    assert load(there, tmp_path / "book.zst") == written
    assert {name: len(rows) for name, rows in start.items()} == written | {"alembic_version": 1}
    assert content(there, request) == start
    dump(there, tmp_path / "again.zst")
    (back,) = [*opened(new_book(request, db.dialect.name, "back"))]
    load(back, tmp_path / "again.zst")
    assert content(back, request) == start
    for at in (T0 - HOUR, T0, T0 + 90 * HOUR / 60, T0 + 3 * HOUR, T0 + 40 * HOUR):
        assert answers(there, world, at) == answers(back, world, at) == answers(db, world, at)
    for handle in (there, back):
        handle.dispose()


def answers(db: Engine, world: World, at: datetime) -> Any:
    """The book and what is worked out from it, as known at a time."""
    with reading(db) as connection:
        book = read_book(connection, at, world.config.sources)
    return book, replace(recompute(db, world, Sizer(world), at), book=book)


@pytest.mark.real
def test_numbers_go_on_where_they_were(db: Engine, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """What is added after the move does not collide with what came with it."""
    (there,) = [*other(request, db)]
    dump(db, tmp_path / "book.zst")
    load(there, tmp_path / "book.zst")
    assert sweep(there, "rents", T0 + 50 * HOUR, offer("1.00", sku="new")) > 0
    there.dispose()


def test_a_book_with_prices_is_not_replaced_unasked(db: Engine, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    before = content(db, request)
    dump(db, tmp_path / "book.zst")
    with pytest.raises(DumpError, match="the book holds prices; --force empties it first"):
        load(db, tmp_path / "book.zst")
    sweep(db, "rents", T0 + 50 * HOUR, offer("1.00", sku="new"))
    load(db, tmp_path / "book.zst", replace=True)
    assert content(db, request) == before


@pytest.mark.parametrize(
    ("schema", "told"),
    [("9999", "install the newer breakeven"), ("0001", "breakeven db stats brings it up to date"), ("", "there is no book yet")],
)
def test_a_book_of_another_schema_is_not_exported(db: Engine, tmp_path: Path, schema: str, told: str) -> None:
    """Columns this program does not know would be left out of it, and nobody could read it again."""
    with writing(db) as connection:
        connection.execute(text(f"update alembic_version set version_num = '{schema}'" if schema else "delete from alembic_version"))
    with pytest.raises(DumpError, match=told):
        dump(db, tmp_path / "book.zst")
    assert not (tmp_path / "book.zst").exists()


@pytest.mark.real
@pytest.mark.parametrize("name", ["", "prices"])
def test_a_book_that_somebody_uses_is_not_replaced(db: Engine, request: pytest.FixtureRequest, tmp_path: Path, name: str) -> None:
    """On either database: what a daemon has in mind is of the book that was there. PostgreSQL may be told another name of the program."""
    before = content(db, request)
    dump(db, tmp_path / "book.zst")
    url = db.url.update_query_dict({"application_name": name}) if name and db.dialect.name == "postgresql" else db.url
    daemon, own = (open_database(url.render_as_string(hide_password=False)) for _ in range(2))
    with only_daemon(daemon), daemon.connect(), pytest.raises(BreakevenError, match="stop"):
        load(own, tmp_path / "book.zst", replace=True)
    daemon.dispose()
    assert content(db, request) == before
    db.dispose()  # its name is another one, and its connections count only under that
    load(own, tmp_path / "book.zst", replace=True)
    own.dispose()


def shortened(body: bytes) -> bytes:
    return body[: body.index(b"\n", len(body) // 2) + 1]


def another_price(body: bytes) -> bytes:
    assert b"2300000000" in body
    return body.replace(b"2300000000", b"2400000000", 1)


def newer(body: bytes) -> bytes:
    head, rest = body.split(b"\n", 1)
    return json.dumps({**json.loads(head), "schema": "9999"}).encode() + b"\n" + rest


def without_a_row(body: bytes) -> bytes:
    lines = body.split(b"\n")
    place = next(number for number, line in enumerate(lines) if line.startswith(b"["))
    return b"\n".join([*lines[:place], *lines[place + 1 :]])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (shortened, "ends within|no whole export"),
        (another_price, "is damaged: its rows are not those that were written"),
        (without_a_row, "is damaged: its rows are not those that were written|damaged|FOREIGN KEY|foreign key"),
        (newer, "of schema 9999; this program reads"),
        (lambda body: b'{"prices": 1}\n', "is no whole export of a book"),
        (lambda body: b"", "is no whole export of a book"),
        (lambda body: body.partition(b"\n")[0] + b"\n", "is no whole export of a book"),
    ],
    ids=["shortened", "another-price", "without-a-row", "newer", "something-else", "empty", "head-only"],
)
def test_what_is_not_whole_changes_nothing(
    db: Engine, request: pytest.FixtureRequest, tmp_path: Path, spoil: Callable[[bytes], bytes], message: str
) -> None:
    before = content(db, request)
    dump(db, tmp_path / "book.zst")
    (tmp_path / "spoilt.zst").write_bytes(zstd.compress(spoil(zstd.decompress((tmp_path / "book.zst").read_bytes()))))
    with pytest.raises(Exception, match=message):
        load(db, tmp_path / "spoilt.zst", replace=True)
    (tmp_path / "spoilt.zst").write_bytes((tmp_path / "book.zst").read_bytes()[:-20])
    with pytest.raises(DumpError, match=r"cannot be read|no whole export|ends within"):
        load(db, tmp_path / "spoilt.zst", replace=True)
    assert content(db, request) == before


def test_the_commands(tmp_path: Path) -> None:
    assert run(tmp_path, "sources").code == 0  # makes the book
    told = run(tmp_path, "db", "export", str(tmp_path / "book.zst"), "--json").json()
    assert told["rows"]["offer"] > 0
    home = tmp_path / "elsewhere"
    moved = run(home, "db", "import", str(tmp_path / "book.zst"))
    assert (moved.code, moved.out.endswith(f"read from {tmp_path}/book.zst\n")) == (0, True)
    assert _of_sqlite(f"{home}/data/breakeven.db") == _of_sqlite(f"{tmp_path}/data/breakeven.db")
    again = run(home, "db", "import", str(tmp_path / "book.zst"))
    assert (again.code, "holds prices; --force empties it first" in again.err) == (1, True)
    for at in ("2025-06-01", "2026-10-16T12:00Z"):
        asked = ("cheapest", "kimi-k3.1-pro", "--json", "--at", at)
        assert json.loads(run(home, *asked).out) == json.loads(run(tmp_path, *asked).out)
    open_database(f"sqlite:///{home}/data/breakeven.db").dispose()
