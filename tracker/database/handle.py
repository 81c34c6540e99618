"""The database handle ``db``: opened with the right settings, migrated with Alembic, one daemon at a time on SQLite."""

from __future__ import annotations

import fcntl
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Engine, create_engine, event, inspect
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from tracker.database.faults import fault_line
from tracker.database.postgres import connect_args, driver_url, encoding
from tracker.errors import BreakevenError

if TYPE_CHECKING:
    from alembic.config import Config as AlembicConfig

BUSY_TIMEOUT_MS = 10_000
PAGE_BYTES = 8_192  # of a new SQLite file: a year of points takes 1 % less room than in pages of 4,096; one that is there keeps its own
OLDEST_SQLITE = (3, 31)  # the first that has generated columns
MIGRATIONS = Path(__file__).resolve().parents[1] / "migrations" / "versions"
_REVISION = re.compile(r'^revision = "(\w+)"\ndown_revision = (?:"(\w+)"|None)$', re.MULTILINE)


class DatabaseProblem(BreakevenError):
    """The database cannot be opened or used: says which one, why and what to do."""


def database_url(configured: str, data_dir: Path) -> str:
    """The configured URL, else the SQLite file in the data directory."""
    return configured or f"sqlite:///{data_dir / 'breakeven.db'}"


def open_database(url: str) -> Engine:
    """The handle for ``url``; nothing is created or read until it is used."""
    try:
        parsed = driver_url(make_url(url))
        if parsed.get_backend_name() == "postgresql":
            return create_engine(parsed, pool_pre_ping=True, connect_args=connect_args(parsed))
        if parsed.get_backend_name() != "sqlite":
            raise NoSuchModuleError(f"no support for {parsed.get_backend_name()}")
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise DatabaseProblem(f"SQLite {sqlite3.sqlite_version} is too old, 3.31 is needed; use a newer Python, or PostgreSQL")
        db = create_engine(parsed)
    except ModuleNotFoundError as error:
        raise DatabaseProblem(f"database {_shown(url)} needs the driver {error.name}: pip install 'breakeven[postgres]'") from error
    except (ArgumentError, NoSuchModuleError) as error:
        raise DatabaseProblem(
            f"database url {_shown(url)!r} cannot be used: {error}; expected sqlite:///FILE or postgresql+psycopg://..."
        ) from error
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
        for pragma in (
            f"page_size={PAGE_BYTES}",
            "journal_mode=WAL",
            "synchronous=NORMAL",
            f"busy_timeout={BUSY_TIMEOUT_MS}",
            "foreign_keys=ON",
        ):
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
    """One consistent view of the book: a snapshot, whatever is written meanwhile. It cannot write."""
    options: dict[str, Any] = {}
    if db.dialect.name == "postgresql":
        options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    with db.connect().execution_options(**options) as connection, connection.begin():
        yield connection


def alembic_config(db: Engine, *, compares: bool = True) -> AlembicConfig:
    """The migrations, bound to that database; whoever ``compares`` it with the models loads these too."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS.parent).replace("%", "%%"))
    config.attributes.update(db=db, compares=compares)
    return config


def migrate(db: Engine) -> None:
    """Bring the schema up to this program's; refuses one that is newer. Alembic is loaded only where there is something to do."""
    if db.dialect.name == "sqlite" and db.url.database:
        Path(db.url.database).parent.mkdir(parents=True, exist_ok=True)
    try:
        with db.connect() as connection:
            _check_encoding(connection)
            current = revision(connection)
        known, head = revisions()
        if current is not None and current not in known:
            raise DatabaseProblem(
                f"database {_shown(str(db.url))} has schema {current}, which is newer than this program; install the newer breakeven"
            )
        if current != head:
            from alembic import command  # here: it costs 11 MB and a tenth of a start

            command.upgrade(alembic_config(db, compares=False), "head")
    except DBAPIError as error:
        raise DatabaseProblem(f"database {_shown(str(db.url))} cannot be opened: {fault_line(error)}") from error
    except OSError as error:
        raise DatabaseProblem(f"database {_shown(str(db.url))} cannot be created: {error.strerror}") from error


def revision(connection: Connection) -> str | None:
    """The schema of the database; None where there is none yet."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.exec_driver_sql("select version_num from alembic_version").scalar()
    return found


def revisions() -> tuple[set[str], str]:
    """The schemas that this program knows, and its own: the one that no other builds on."""
    texts = [path.read_text(encoding="utf-8") for path in MIGRATIONS.glob("[0-9]*.py")]
    found = {match[1]: match[2] for text in texts if (match := _REVISION.search(text))}
    (head,) = found.keys() - set(found.values())
    return set(found), head


def _check_encoding(connection: Connection) -> None:
    if connection.dialect.name == "postgresql" and (found := encoding(connection)) != "UTF8":
        raise DatabaseProblem(f"database {connection.engine.url.database} keeps text as {found}; make it with encoding 'UTF8'")


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
