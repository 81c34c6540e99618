"""A backup of a book in PostgreSQL and its way back, by the real programs: checked first, whole or not at all."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from databases import Postgres, run_pgbouncer
from homes import run
from psycopg.conninfo import conninfo_to_dict
from small_world import T0, fill, offer, sweep
from sqlalchemy import Engine, create_engine, make_url
from waiting import until

from tracker.database.handle import alembic_config, migrate, open_database
from tracker.maintenance import postgres_programs
from tracker.maintenance.backup import BackupError
from tracker.maintenance.dump import dump
from tracker.maintenance.postgres_backup import backup, restore
from tracker.maintenance.postgres_programs import ProgramError, server_of

pytestmark = pytest.mark.real
HOUR = timedelta(hours=1)


@pytest.fixture
def book(postgres: Postgres, require: Callable[[str], Path]) -> Iterator[Engine]:
    """The book of ``fill`` in a database of its own, used by nobody else."""
    for program in ("pg_dump", "pg_restore", "psql"):
        require(program)
    db = open_database(postgres.url(postgres.make()))
    migrate(db)
    fill(db)
    db.dispose()
    yield db
    db.dispose()


@pytest.fixture
def empty(postgres: Postgres) -> Iterator[Engine]:
    """A database without a table."""
    db = open_database(postgres.url(postgres.make()))
    yield db
    db.dispose()


def contents(db: Engine, folder: Path) -> bytes:
    """Every row of every table, and nothing that differs between two copies of them."""
    dump(db, folder / "rows", replace=True)
    db.dispose()
    return (folder / "rows").read_bytes()


def psql(postgres: Postgres, db: Engine, query: str) -> list[tuple[str, ...]]:
    """What PostgreSQL's own client reads."""
    return postgres.psql(str(db.url.database), query)


def test_a_backup_comes_back_as_it_was_and_goes_on(book: Engine, empty: Engine, postgres: Postgres, tmp_path: Path) -> None:
    before = contents(book, tmp_path)
    assert backup(book, tmp_path / "copy") == (tmp_path / "copy").stat().st_size > 0
    restore(empty, tmp_path / "copy")
    assert contents(empty, tmp_path) == before
    command.check(alembic_config(empty))
    assert sweep(empty, "rents", T0 + HOUR, offer("2.00", sku="new")) > 0  # numbers go on where they were
    assert psql(postgres, empty, "select count(*) > 3, max(id) from offer")[0][0] == "t"
    assert psql(postgres, empty, "select count(*) from v_current_offers") == [("9",)]
    assert {path.name for path in tmp_path.iterdir()} - {"rows"} == {"copy"}


def test_a_backup_of_a_book_that_is_written_to_is_of_one_moment(book: Engine, empty: Engine, postgres: Postgres, tmp_path: Path) -> None:
    """No sweep without its points, no points without their sweep."""
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            sweep(book, "rents", T0 + number * HOUR, *[offer(f"{200 + (number + sku) % 97}e-2", sku=f"m{sku}") for sku in range(40)])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        until(lambda: int(psql(postgres, book, "select count(*) from sweep where source = 'rents'")[0][0]) >= 5)
        backup(book, tmp_path / "copy")
    finally:
        stop.set()
        writer.join()
    restore(empty, tmp_path / "copy")
    points_of = "(select count(*) from offer_point) + (select count(*) from rate_point)"
    query = f"select {points_of}, (select sum(changed) from sweep where source <> 'ecb')"
    ((points, told),) = psql(postgres, empty, query)
    assert points == told


def test_a_book_is_replaced_only_when_told(book: Engine, postgres: Postgres, tmp_path: Path) -> None:
    before = contents(book, tmp_path)
    backup(book, tmp_path / "copy")
    sweep(book, "rents", T0 + HOUR, offer("2.00"))
    changed = contents(book, tmp_path)
    with pytest.raises(
        BackupError, match=r"database book\d+: holds a book; --force puts the backup in its place, and what is there is gone"
    ):
        restore(book, tmp_path / "copy")
    assert contents(book, tmp_path) == changed != before
    postgres.psql(str(book.url.database), "create table another (x int)", "insert into another values (7)")
    restore(book, tmp_path / "copy", replace=True)
    assert psql(postgres, book, "select x from another") == [("7",)]  # what is not ours stays
    postgres.psql(str(book.url.database), "drop table another")
    assert contents(book, tmp_path) == before


def test_a_file_is_not_replaced_unasked(book: Engine, tmp_path: Path) -> None:
    (tmp_path / "copy").write_bytes(b"mine")
    with pytest.raises(BackupError, match="copy: is there already; name another file, or say --force"):
        backup(book, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"mine"
    assert backup(book, tmp_path / "copy", replace=True) > 1000


def test_a_restore_is_refused_while_somebody_uses_the_book(book: Engine, tmp_path: Path) -> None:
    backup(book, tmp_path / "copy")
    other = open_database(book.url.render_as_string(hide_password=False))
    with other.connect(), pytest.raises(BackupError, match="1 connections of breakeven use it; stop every process of it first"):
        restore(book, tmp_path / "copy", replace=True)
    other.dispose()


def test_a_backup_of_an_earlier_schema_is_brought_up(empty: Engine, book: Engine, tmp_path: Path) -> None:
    """Also where the book in its place has tables that the earlier schema had not."""
    command.upgrade(alembic_config(empty), "0006")
    empty.dispose()
    backup(empty, tmp_path / "old")
    restore(book, tmp_path / "old", replace=True)
    command.check(alembic_config(book))
    with book.connect() as connection:
        assert connection.exec_driver_sql("select count(*) from offer").scalar() == 0


def cut(copy: Path) -> None:
    copy.write_bytes(copy.read_bytes()[: copy.stat().st_size * 3 // 4])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (cut, "could not read from input file|no backup that pg_restore reads|was not restored"),
        (lambda copy: copy.write_bytes(b"prices" * 1000), "copy: is no backup that pg_restore reads: .*archive"),
        (lambda copy: copy.unlink(), "copy: no such file"),
    ],
    ids=["cut", "no-dump", "missing"],
)
def test_what_is_no_backup_changes_nothing(book: Engine, tmp_path: Path, spoil: Any, message: str) -> None:
    before = contents(book, tmp_path)
    backup(book, tmp_path / "copy")
    spoil(tmp_path / "copy")
    with pytest.raises((BackupError, ProgramError), match=message):
        restore(book, tmp_path / "copy", replace=True)
    assert contents(book, tmp_path) == before


def test_a_dump_of_something_else_or_of_a_newer_program_is_refused(book: Engine, empty: Engine, postgres: Postgres, tmp_path: Path) -> None:
    with pytest.raises(BackupError, match=r"database book\d+: there is no book yet"):
        backup(empty, tmp_path / "copy")
    postgres.psql(str(empty.url.database), "create table alembic_version (version_num text)", "insert into alembic_version values ('0001')")
    with pytest.raises(BackupError, match="is no book of breakeven"):
        backup(empty, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    postgres.psql(str(book.url.database), "update alembic_version set version_num = '9999'")
    with pytest.raises(BackupError, match="has schema 9999, which is newer than this program; install the newer breakeven"):
        backup(book, tmp_path / "copy")


def test_a_restore_that_fails_in_the_middle_changes_nothing(book: Engine, empty: Engine, postgres: Postgres, tmp_path: Path) -> None:
    """A view of somebody else's has the name of one of ours: the last thing to be made."""
    backup(book, tmp_path / "copy")
    postgres.psql(str(empty.url.database), "create view v_price_history as select 1 as x")
    with pytest.raises(BackupError, match='was not restored, and nothing was changed: relation "v_price_history" already exists'):
        restore(empty, tmp_path / "copy")
    assert psql(postgres, empty, "select table_name from information_schema.tables where table_schema = 'public'") == [("v_price_history",)]


def test_a_restore_whose_reader_dies_changes_nothing(book: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pg_restore ends badly after it has written nearly everything: psql must not commit what it got."""
    before = contents(book, tmp_path)
    backup(book, tmp_path / "copy")
    real = server_of(book).program("pg_restore")
    script(
        tmp_path / "pg_restore",
        f'case "$*" in *--no-owner*) {real} "$@"; echo "pg_restore: error: disk gone" >&2; exit 1;; esac; exec {real} "$@"',
    )
    monkeypatch.setattr(postgres_programs, "INSTALLED", tmp_path / "nowhere")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{real.parent}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(BackupError, match="was not restored, and nothing was changed: disk gone"):
        restore(book, tmp_path / "copy", replace=True)
    assert contents(book, tmp_path) == before


# --- the programs ----------------------------------------------------------------------------------------------------------------


def script(path: Path, does: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{does}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_a_program_that_is_missing_or_too_old_is_named_with_its_package(
    book: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = server_of(book)
    monkeypatch.setattr(postgres_programs, "INSTALLED", tmp_path / "versions")
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    package = rf"install postgresql-client-{server.version} \(or newer\)"
    with pytest.raises(ProgramError, match=f"^pg_dump is not installed; {package}"):
        backup(book, tmp_path / "copy")
    script(tmp_path / "path" / "pg_dump", "echo 'pg_dump (PostgreSQL) 9.6.24'")
    with pytest.raises(ProgramError, match=f"^pg_dump is of version 9, older than the server's {server.version}; {package}"):
        backup(book, tmp_path / "copy")
    for version in (server.version, server.version + 2):
        script(tmp_path / "versions" / str(version) / "bin" / "pg_dump", f"echo 'pg_dump (PostgreSQL) {version}.1 (Debian)'")
    assert server.program("pg_dump") == tmp_path / "versions" / str(server.version) / "bin" / "pg_dump"
    assert replace(server, version=server.version + 1).program("pg_dump").parts[-3] == str(server.version + 2)
    script(
        tmp_path / "path" / "pg_dump",
        f"case $1 in --version) echo 'pg_dump (PostgreSQL) {server.version}.9';; *) echo 'pg_dump: error: no space' >&2; exit 1;; esac",
    )
    with pytest.raises(ProgramError, match=r"^pg_dump: no space$"):
        backup(book, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("u:secret@h:5433/book", {"host": "h", "port": "5433", "user": "u", "dbname": "book", "connect_timeout": "10"}),
        ("u:secret@/book?host=a:1&host=b:2", {"host": "a,b", "port": "1,2", "user": "u", "dbname": "book", "connect_timeout": "10"}),
        (
            "/book?host=/run/pg&sslmode=require&password=secret&sslpassword=secret&prepare_threshold=0&connect_timeout=3",
            {"host": "/run/pg", "dbname": "book", "sslmode": "require", "connect_timeout": "3"},
        ),
    ],
)
def test_the_programs_connect_to_the_server_of_the_driver(address: str, told: dict[str, str]) -> None:
    """Several hosts too: a program that is told of none would take the server of this machine for it."""
    assert conninfo_to_dict(postgres_programs._conninfo(create_engine(f"postgresql+psycopg://{address}"))) == told


def test_a_password_is_on_no_command_line(book: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "to-be-kept-secret"
    url = make_url(book.url.render_as_string(hide_password=False)).set(password=secret)
    db = open_database(url.update_query_dict({"sslmode": "prefer"}).render_as_string(hide_password=False))
    server = server_of(db)
    assert server.secrets == {"PGPASSWORD": secret}
    assert (secret in server.conninfo, "sslmode=prefer" in server.conninfo) == (False, True)
    log = tmp_path / "log"
    real = server.program("pg_dump")
    script(tmp_path / "bin" / "pg_dump", f'echo "$@" >> {log}; echo "[$PGPASSWORD]" >> {log}; exec {real} "$@"')
    monkeypatch.setattr(postgres_programs, "INSTALLED", tmp_path / "nowhere")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin{os.pathsep}{real.parent}{os.pathsep}{os.environ['PATH']}")
    backup(db, tmp_path / "copy")
    told = log.read_text(encoding="utf-8").splitlines()
    assert any("--dbname=" in line and " host=127.0.0.1 " in line for line in told)
    assert [line for line in told if secret in line] == [f"[{secret}]"]  # in the environment
    db.dispose()


def test_behind_a_pooler_the_server_itself_is_asked_for(
    book: Engine, postgres: Postgres, require: Callable[[str], Path], tmp_path: Path
) -> None:
    with run_pgbouncer(require, postgres) as port:
        pooled = open_database(postgres.url(str(book.url.database), port=port))
        with pytest.raises(ProgramError, match="a pooler stands before this database; name the server itself"):
            backup(pooled, tmp_path / "copy")
        pooled.dispose()


def test_the_commands(book: Engine, tmp_path: Path) -> None:
    url = book.url.render_as_string(hide_password=False)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "tracker.toml").write_text(f'[database]\nurl = "{url}"\n', encoding="utf-8")
    copy = tmp_path / "copy.dump"
    told = run(tmp_path, "db", "backup", str(copy), "--json").json()
    assert told == {"file": str(copy), "bytes": copy.stat().st_size}
    refused = run(tmp_path, "db", "restore", str(copy))
    assert (refused.code, refused.err.count("\n"), "--force puts the backup in its place" in refused.err) == (1, 1, True)
    assert run(tmp_path, "db", "restore", str(copy), "--force", "--json").json() == {"file": str(copy), "replaced": None}
