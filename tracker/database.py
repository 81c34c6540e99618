"""The database handle ``db``: opened with the right pragmas, migrated with Alembic, one daemon at a time on SQLite."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config as AlembicConfig
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, NoSuchModuleError

from tracker.errors import BreakevenError

BUSY_TIMEOUT_MS = 10_000


class DatabaseProblem(BreakevenError):
    """The database cannot be opened or used: says which one, why and what to do."""


def database_url(configured: str, data_dir: Path) -> str:
    """The configured URL, else the SQLite file in the data directory."""
    return configured or f"sqlite:///{data_dir / 'breakeven.db'}"


def open_database(url: str) -> Engine:
    """The handle for ``url``; nothing is created or read until it is used."""
    try:
        parsed = make_url(url)
        db = create_engine(parsed, pool_pre_ping=parsed.get_backend_name() != "sqlite")
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
        raise DatabaseProblem(
            f"database url {_shown(url)!r} cannot be used: {error}; expected sqlite:///FILE or postgresql+psycopg://..."
        ) from error
    if db.dialect.name == "sqlite":
        _prepare_sqlite(db)
    return db


def _shown(url: str) -> str:
    """``url`` without its password."""
    try:
        return make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        return url


def _prepare_sqlite(db: Engine) -> None:
    @event.listens_for(db, "connect")
    def _pragmas(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # transactions are begun below, so that a reader never holds a write lock
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", f"busy_timeout={BUSY_TIMEOUT_MS}", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(db, "begin")
    def _begin(connection: Connection) -> None:
        # A reader that turns writer in mid-transaction is refused at once; a writer that says so first waits its turn.
        connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.get_execution_options().get("writes") else "BEGIN")


@contextmanager
def writing(db: Engine) -> Iterator[Connection]:
    """One transaction that writes: all of it is kept, or nothing."""
    with db.connect().execution_options(writes=True) as connection, connection.begin():
        yield connection


@contextmanager
def reading(db: Engine) -> Iterator[Connection]:
    """One consistent view of the book."""
    with db.connect() as connection, connection.begin():
        yield connection


def _alembic(db: Engine) -> AlembicConfig:
    config = AlembicConfig()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["db"] = db
    return config


def migrate(db: Engine) -> None:
    """Bring the schema up to this program's; refuses one that is newer."""
    if db.dialect.name == "sqlite" and db.url.database:
        Path(db.url.database).parent.mkdir(parents=True, exist_ok=True)
    config = _alembic(db)
    try:
        with db.connect() as connection:
            current = MigrationContext.configure(connection).get_current_revision()
        known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
        if current is not None and current not in known:
            raise DatabaseProblem(
                f"database {_shown(str(db.url))} has schema {current}, which is newer than this program; install the newer breakeven"
            )
        command.upgrade(config, "head")
    except DatabaseError as error:
        raise DatabaseProblem(f"database {_shown(str(db.url))} cannot be opened: {_cause(error)}") from error
    except OSError as error:
        raise DatabaseProblem(f"database {_shown(str(db.url))} cannot be created: {error.strerror}") from error


def _cause(error: DatabaseError) -> str:
    return " ".join(str(error.orig).split())


@contextmanager
def only_daemon(db: Engine) -> Iterator[None]:
    """Hold the right to write to one SQLite file; a second daemon is refused. PostgreSQL needs no such lock here."""
    if db.dialect.name != "sqlite" or not db.url.database or db.url.database == ":memory:":
        yield
        return
    path = Path(db.url.database + ".lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            owner = file.read().strip() or "unknown"
            raise DatabaseProblem(
                f"another breakeven (process {owner}) runs on {db.url.database}; stop it, or set BREAKEVEN_DATA to another folder"
            ) from error
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
