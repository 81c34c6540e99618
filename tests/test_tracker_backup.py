"""A backup of a book that is written to is the book of one moment; a restore is checked first and loses nothing."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from homes import run
from small_world import T0, fill, offer, sweep
from sqlalchemy import Engine

from tracker.database.handle import DatabaseProblem, alembic_config, only_daemon, open_database
from tracker.maintenance.backup import BackupError, backup, restore
from tracker.maintenance.dump import dump

HOUR = timedelta(hours=1)


def ask(file: Path, query: str) -> list[tuple[Any, ...]]:
    """Rows of a SQLite file, read with no code of ours."""
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(query).fetchall()


def counts(file: Path) -> tuple[int, int, int]:
    """Sweeps, points, and how many points the sweeps say they wrote."""
    (found,) = ask(
        file,
        "select (select count(*) from sweep), (select count(*) from offer_point) + (select count(*) from rate_point),"
        " (select sum(changed) from sweep where source != 'ecb')",
    )
    return found[0], found[1], found[2]


def book_of(db: Engine) -> Path:
    assert db.url.database
    return Path(db.url.database)


def others(folder: Path) -> set[str]:
    """What lies beside the book, but for its own companions."""
    return {path.name for path in folder.iterdir()} - {"book.db", "book.db-wal", "book.db-shm", "book.db.lock", "small", "data", "config"}


# --- backup --------------------------------------------------------------------------------------------------------------


def test_backups_of_a_book_that_is_written_to_hold_whole_sweeps(db: Engine, tmp_path: Path) -> None:
    """Every copy is of one moment: no sweep without its points, no points without their sweep, and each is later than the last."""
    fill(db)
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            rows = [offer(f"{200 + (number + sku) % 97}e-2", sku=f"m{sku}") for sku in range(40)]
            sweep(db, "rents", T0 + number * HOUR, *rows)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        found = []
        for number in range(12):
            assert backup(db, tmp_path / f"copy{number}") > 0
            found.append(counts(tmp_path / f"copy{number}"))
    finally:
        stop.set()
        writer.join()
    assert [points for _, points, _ in found] == [told for _, _, told in found]
    assert found == sorted(found)
    assert found[-1][0] > found[0][0]
    assert ask(tmp_path / "copy5", "PRAGMA integrity_check") == [("ok",)]
    assert others(tmp_path) == {f"copy{number}" for number in range(12)}  # one file each


def test_a_backup_never_takes_the_place_of_a_file_unasked(db: Engine, tmp_path: Path) -> None:
    fill(db)
    backup(db, tmp_path / "copy")
    with pytest.raises(BackupError, match="copy: is there already; name another file, or say --force"):
        backup(db, tmp_path / "copy")
    sweep(db, "rents", T0 + HOUR, offer("2.00"))
    backup(db, tmp_path / "copy", replace=True)
    assert counts(tmp_path / "copy") == counts(book_of(db))


@pytest.mark.parametrize("part", ["", "-wal", "-shm", "-journal", ".lock"])
@pytest.mark.parametrize("write", [backup, dump])
def test_nothing_is_written_over_the_book_or_a_part_of_it(
    db: Engine, tmp_path: Path, write: Callable[..., object], part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(db)
    book, before = book_of(db), counts(book_of(db))
    monkeypatch.chdir(book.parent)
    (tmp_path / "link").symlink_to(f"{book}{part}")
    for target in (Path(f"{book}{part}"), Path(f"{book.name}{part}"), tmp_path / "link"):
        with pytest.raises(BackupError, match=r"is the book itself; name another file$"):
            write(db, target, replace=True)
    assert counts(book) == before


def test_an_export_never_takes_the_place_of_a_file_unasked_nor_of_what_is_none(db: Engine, tmp_path: Path) -> None:
    fill(db)
    (tmp_path / "mine").write_text("the only copy", encoding="utf-8")
    with pytest.raises(BackupError, match="mine: is there already; name another file, or say --force"):
        dump(db, tmp_path / "mine")
    assert (tmp_path / "mine").read_text(encoding="utf-8") == "the only copy"
    os.mkfifo(tmp_path / "pipe")
    for write in (backup, dump):
        with pytest.raises(BackupError, match=r"pipe: is there already; name another file$"):
            write(db, tmp_path / "pipe", replace=True)
    assert (tmp_path / "pipe").is_fifo()
    dump(db, tmp_path / "mine", replace=True)
    assert (tmp_path / "mine").read_bytes()[:4] == b"\x28\xb5\x2f\xfd"  # RFC 8878, 3.1.1: the number of a Zstandard frame


def test_a_damaged_book_makes_no_backup(db: Engine, tmp_path: Path) -> None:
    fill(db)
    db.dispose()
    damage(book_of(db))
    with pytest.raises(BackupError, match=r"damaged|cannot be copied") as caught:
        backup(db, tmp_path / "copy")
    assert "\n" not in str(caught.value)
    assert others(tmp_path) == set()


def damage(file: Path) -> None:
    """Overwrite the pages in the middle, as a failing disk might."""
    ask(file, "PRAGMA wal_checkpoint(TRUNCATE)")
    body = bytearray(file.read_bytes())
    for place in range(4096 * 4, len(body) - 4096, 4096):
        body[place : place + 64] = b"\xa5" * 64
    file.write_bytes(body)


# --- restore -------------------------------------------------------------------------------------------------------------


def test_a_restore_brings_back_the_book_and_keeps_the_other_beside(db: Engine, tmp_path: Path) -> None:
    fill(db)
    backup(db, tmp_path / "copy")
    before = counts(book_of(db))
    sweep(db, "rents", T0 + HOUR, offer("2.00"))
    after = counts(book_of(db))
    kept = restore(db, tmp_path / "copy", T0, replace=True)
    assert kept == tmp_path / "book.db.replaced-20261102T120000Z"
    assert (counts(book_of(db)), counts(kept)) == (before, after)
    assert sweep(db, "rents", T0 + 2 * HOUR, offer("1.99")) > 0  # and it goes on from there


def test_a_book_is_not_replaced_unasked(db: Engine, tmp_path: Path) -> None:
    fill(db)
    backup(db, tmp_path / "copy")
    before = counts(book_of(db))
    with pytest.raises(BackupError, match=r"book\.db: holds a book; --force puts the backup in its place"):
        restore(db, tmp_path / "copy", T0)
    assert counts(book_of(db)) == before


def test_a_restore_is_refused_while_a_daemon_holds_the_book(db: Engine, tmp_path: Path) -> None:
    fill(db)
    backup(db, tmp_path / "copy")
    before = counts(book_of(db))
    program = (
        "import sys; from tracker.database.handle import only_daemon, open_database\n"
        "with only_daemon(open_database(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(db.url)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ}
    ) as daemon:
        assert daemon.stdout is not None and daemon.stdout.readline() == b"held\n"
        with pytest.raises(DatabaseProblem, match=f"another breakeven \\(process {daemon.pid}\\) runs on .*; stop it"):
            restore(db, tmp_path / "copy", T0, replace=True)
        daemon.communicate()
    assert counts(book_of(db)) == before
    assert others(tmp_path) == {"copy"}


def newer(copy: Path) -> None:
    with closing(sqlite3.connect(copy)) as connection:
        connection.execute("update alembic_version set version_num = '9999'")
        connection.commit()


def no_book(copy: Path) -> None:
    copy.unlink()
    ask(copy, "create table other (x)")


def another_program(copy: Path) -> None:
    copy.unlink()
    ask(copy, "create table sweep (x)")
    ask(copy, "create table alembic_version (other)")


def dangling(copy: Path) -> None:
    with closing(sqlite3.connect(copy)) as connection:
        connection.execute("delete from offer where id = (select min(offer_id) from offer_point)")
        connection.commit()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (damage, "damaged|cannot be copied"),
        (newer, "copy: has schema 9999, which is newer than this program; install the newer breakeven"),
        (no_book, "copy: is no book of breakeven"),
        (another_program, "copy: is no book of breakeven"),
        (dangling, "copy: is damaged: offer_point without its offer"),
        (lambda copy: copy.write_bytes(b"prices"), "copy: cannot be copied: file is not a database"),
        (lambda copy: copy.unlink(), "copy: no such file"),
    ],
    ids=["damaged", "newer", "no-book", "another-program", "dangling", "no-database", "missing"],
)
def test_what_cannot_be_a_book_takes_no_place(db: Engine, tmp_path: Path, spoil: Any, message: str) -> None:
    fill(db)
    backup(db, tmp_path / "copy")
    before = counts(book_of(db))
    spoil(tmp_path / "copy")
    with pytest.raises(BackupError, match=message):
        restore(db, tmp_path / "copy", T0, replace=True)
    assert counts(book_of(db)) == before
    assert others(tmp_path) <= {"copy"}


def test_a_backup_of_an_earlier_schema_is_brought_up_first(db: Engine, tmp_path: Path) -> None:
    old = open_database(f"sqlite:///{tmp_path / 'old'}")
    command.upgrade(alembic_config(old), "0001")
    old.dispose()
    restore(db, tmp_path / "old", T0, replace=True)
    command.check(alembic_config(db))
    assert ask(tmp_path / "old", "select version_num from alembic_version") == [("0001",)]  # the backup is as it was


def no_links(source: Path, target: Path) -> None:
    """As a file system that has none."""
    raise OSError(95, "Operation not supported")


@pytest.fixture(params=["settled", "read", "unlinked"])
def swapped(request: pytest.FixtureRequest, db: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int, int]]:
    """A book with more in it than its backup, by itself, while somebody reads it, or where a file has one name; what it holds."""
    fill(db)
    backup(db, tmp_path / "copy")
    sweep(db, "rents", T0 + HOUR, offer("2.00"))
    if request.param == "unlinked":
        monkeypatch.setattr(os, "link", no_links)
    with closing(sqlite3.connect(book_of(db))) as reader:
        if request.param == "read":
            reader.execute("begin").connection.execute("select count(*) from sweep").fetchall()
        yield counts(book_of(db))


@pytest.mark.parametrize("fails_at", range(1, 5))
def test_a_swap_that_fails_leaves_the_book_as_it_was(
    db: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swapped: tuple[int, int, int], fails_at: int
) -> None:
    replace, calls = os.replace, 0

    def fail(source: Path, target: Path) -> None:
        nonlocal calls
        calls += 1
        if calls == fails_at:
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail)
    try:
        restore(db, tmp_path / "copy", T0, replace=True)
    except OSError:
        assert counts(book_of(db)) == swapped
        assert others(tmp_path) == {"copy"}
    else:
        assert calls < fails_at  # fewer files had to move


class Killed(BaseException):
    """As a kill: nothing is put right after it."""


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_restore_that_is_killed_leaves_a_whole_book(db: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    """Looked at where the new file takes its place, the one step there is."""
    fill(db)
    backup(db, tmp_path / "copy")
    restored = counts(tmp_path / "copy")
    sweep(db, "rents", T0 + HOUR, offer("2.00"))
    before, replace = counts(book_of(db)), os.replace

    def killed(source: Path, target: Path) -> None:
        if moment == "after":
            replace(source, target)
        raise Killed

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(Killed):
        restore(db, tmp_path / "copy", T0, replace=True)
    assert counts(book_of(db)) == (before if moment == "before" else restored)
    assert counts(tmp_path / "book.db.replaced-20261102T120000Z") == before


def test_the_commands(tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    missing = run(tmp_path, "db", "backup", str(copy))
    assert (missing.code, "there is no book yet" in missing.err) == (1, True)
    assert run(tmp_path, "sources").code == 0  # makes the book
    told = run(tmp_path, "db", "backup", str(copy), "--json").json()
    assert told == {"file": str(copy), "bytes": copy.stat().st_size}
    past = [run(tmp_path, "db", verb, str(tmp_path / "past"), "--at", "2026-11-01") for verb in ("backup", "restore", "export", "import")]
    assert {(told.code, "this command takes the book as it is now" in told.err) for told in past} == {(1, True)}
    folders = [run(tmp_path, "db", *words) for words in (("backup", ".", "--force"), ("backup", "", "--force"), ("export", "/"))]
    assert {(told.code, told.err.partition(": ")[2].partition(": ")[2]) for told in folders} == {(1, "is a folder; name a file in it\n")}
    assert "--force puts the backup in its place" in run(tmp_path, "db", "restore", str(copy)).err
    assert "say --force" in run(tmp_path, "db", "export", str(copy)).err
    restored = run(tmp_path, "db", "restore", str(copy), "--force")
    assert (
        restored.code,
        restored.out.startswith(f"{copy} is the book now; the one before is {tmp_path}/data/breakeven.db.replaced-"),
    ) == (0, True)
    with only_daemon(open_database(f"sqlite:///{tmp_path}/data/breakeven.db")):
        held = run(tmp_path, "db", "restore", str(copy), "--force")
    assert (held.code, "another breakeven (process " in held.err) == (1, True)
