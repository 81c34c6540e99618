"""A copy of a SQLite book while it is written to, and its way back: checked before it takes a book's place, and nothing is lost."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection, Engine

from tracker.database.handle import migrate, only_daemon, open_database, revisions
from tracker.database.postgres import others
from tracker.errors import BreakevenError

COMPANIONS = ("-wal", "-shm")  # files of a database in WAL mode
OURS = ("", *COMPANIONS, "-journal", ".lock")  # what a running book is made of


class BackupError(BreakevenError):
    """A backup cannot be made or restored: says why and what to do. What was there is as it was."""


def backup(db: Engine, target: Path, *, replace: bool = False) -> int:
    """Copy the book to ``target`` as it is at one moment, without stopping who writes to it; returns the copy's bytes."""
    source = sqlite_file(db)
    if not source.exists():
        raise BackupError(f"{source}: there is no book yet")
    free_place(db, target, replace=replace)
    with part_of(target) as part:
        _copy(source, part)
        _check(part, str(source))
        os.replace(part, target)
    return target.stat().st_size


def restore(db: Engine, found: Path, now: datetime, *, replace: bool = False) -> Path | None:
    """Put a backup in the place of the book; returns where the book that was there is now, or None where there was none.

    The copy is whole, of a schema this program knows and brought up to it before the book is touched.
    """
    book = sqlite_file(db)
    if not found.is_file():
        raise BackupError(f"{found}: no such file")
    if book.exists() and found.samefile(book):
        raise BackupError(f"{found}: is the book itself")
    if book.exists() and not replace:
        raise BackupError(f"{book}: holds a book; --force puts the backup in its place and keeps it beside")
    with only_daemon(db), part_of(book) as part:
        _copy(found, part)
        _check(part, str(found))
        _bring_up(part, found)
        db.dispose()
        return _swap(part, book, now)


def free_place(db: Engine, target: Path, *, replace: bool) -> None:
    """BackupError where a file must not be written: something is there, or it is the book itself."""
    spare_book(db, target)
    if target.is_dir():
        raise BackupError(f"{target}: is a folder; name a file in it")
    if target.exists() and not (replace and target.is_file()):
        raise BackupError(f"{target}: is there already; name another file{', or say --force' if target.is_file() else ''}")


def spare_book(db: Engine, target: Path) -> None:
    """BackupError where a file to be written is the book itself, or a part of it."""
    file = db.url.database if db.dialect.name == "sqlite" else None
    if file and target.resolve() in {Path(file + suffix).resolve() for suffix in OURS}:
        raise BackupError(f"{target}: is the book itself; name another file")


def need_alone(connection: Connection) -> None:
    """BackupError where other processes use a book in PostgreSQL: it is not replaced under them."""
    if users := others(connection):
        name = connection.engine.url.database
        raise BackupError(f"database {name}: {users} connections of breakeven use it; stop every process of it first")


def sqlite_file(db: Engine) -> Path:
    """The file of a SQLite book; BackupError where it has none."""
    if db.dialect.name != "sqlite" or not db.url.database:
        raise BackupError(f"{db.url.render_as_string()}: is no file")
    return Path(db.url.database)


@contextmanager
def part_of(target: Path) -> Iterator[Path]:
    """A new file beside ``target`` to be put in its place; gone afterwards."""
    part = target.with_name(target.name + ".part")
    part.parent.mkdir(parents=True, exist_ok=True)
    _remove(part)
    try:
        yield part
    finally:
        _remove(part)


def _remove(path: Path) -> None:
    for name in (path, *(path.with_name(path.name + suffix) for suffix in COMPANIONS)):
        name.unlink(missing_ok=True)


def _copy(source: Path, target: Path) -> None:
    """All pages in one go: a reader's snapshot, which in WAL mode keeps no writer waiting and cannot be overtaken by one."""
    try:
        with closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as here, closing(sqlite3.connect(target)) as there:
            here.backup(there, pages=-1)
            there.execute("PRAGMA journal_mode=DELETE")  # one file, without companions
        with target.open("rb") as written:
            os.fsync(written.fileno())
    except sqlite3.Error as error:
        raise BackupError(f"{source}: cannot be copied: {error}") from error


def _check(copy: Path, name: str) -> None:
    """Every page and every link of the copy is whole."""
    try:
        with closing(sqlite3.connect(f"{copy.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(3)")]
            found += [f"{row[0]} without its {row[2]}" for row in connection.execute("PRAGMA foreign_key_check").fetchmany(3)]
    except sqlite3.Error as error:
        found = [str(error)]
    if found != ["ok"]:
        raise BackupError(f"{name}: is damaged: {' '.join('; '.join(text for text in found if text != 'ok').split())}")


def _bring_up(copy: Path, found: Path) -> None:
    """The copy has this program's schema; BackupError where it is no book, or one of a newer program."""
    with closing(sqlite3.connect(copy)) as connection:
        tables = {row[0] for row in connection.execute("select name from sqlite_master where type = 'table'")}
        try:
            versions = [row[0] for row in connection.execute("select version_num from alembic_version")]
        except sqlite3.OperationalError:  # no such table, or that of another program
            versions = []
    if len(versions) != 1 or "sweep" not in tables:
        raise BackupError(f"{found}: is no book of breakeven")
    db = open_database(f"sqlite:///{copy}")
    try:
        if versions[0] not in revisions()[0]:
            raise BackupError(f"{found}: has schema {versions[0]}, which is newer than this program; install the newer breakeven")
        migrate(db)
    finally:
        db.dispose()
    with closing(sqlite3.connect(copy)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")


def _swap(part: Path, book: Path, now: datetime) -> Path | None:
    """The new file takes the book's place, which moves aside with its companions; back again where that fails."""
    if not book.exists():
        os.replace(part, book)
        return None
    aside = book.with_name(f"{book.name}.replaced-{now:%Y%m%dT%H%M%SZ}")
    if aside.exists():
        raise BackupError(f"{aside}: is there already; try again in a second")
    if not _take_over(part, book, aside):
        _change_places(part, book, aside)
    return aside


def _take_over(part: Path, book: Path, aside: Path) -> bool:
    """Whether the new file took the place of one that was there until then: a kill at any moment leaves one of them.

    The book must be one file for that, which a damaged one may not become, nor one that somebody reads, and have a second name, which
    not every file system gives.
    """
    try:
        with closing(sqlite3.connect(book, timeout=1)) as connection:
            settled = connection.execute("PRAGMA journal_mode=DELETE").fetchone() == ("delete",)
        if not settled or any(book.with_name(book.name + suffix).exists() for suffix in COMPANIONS):
            return False
        os.link(book, aside)
    except (sqlite3.Error, OSError):
        return False
    try:
        os.replace(part, book)
    except OSError:
        aside.unlink()
        raise
    return True


def _change_places(part: Path, book: Path, aside: Path) -> None:
    """The book moves aside with its companions, and the new file to where it was; back again where that fails."""
    moved: list[tuple[Path, Path]] = []
    try:
        for suffix in (*COMPANIONS, ""):
            old, kept = book.with_name(book.name + suffix), aside.with_name(aside.name + suffix)
            if old.exists():
                os.replace(old, kept)
                moved.append((old, kept))
        os.replace(part, book)
    except OSError:
        for old, kept in reversed(moved):
            os.replace(kept, old)
        raise
