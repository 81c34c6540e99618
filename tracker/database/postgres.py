"""What is particular to PostgreSQL: how to connect so that a pooler in transaction mode may stand between, and whether one does."""

from __future__ import annotations

from typing import Any

from sqlalchemy import URL, Connection, func, select, text

DRIVER = "postgresql+psycopg"
NAMES = ("postgres", "postgresql")  # as other programs spell it
# seconds; tcp_user_timeout in ms: a server that is gone is noticed, also by a connection that only listens
DEFAULTS: dict[str, Any] = {
    "application_name": "breakeven", "client_encoding": "utf8", "connect_timeout": 10, "keepalives_idle": 30,
    "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 60_000,
}  # fmt: skip


def driver_url(url: URL) -> URL:
    """The URL with the driver we use where it names none."""
    return url.set(drivername=DRIVER) if url.drivername in NAMES else url


def connect_args(url: URL) -> dict[str, Any]:
    """Arguments of psycopg that the URL does not state itself. No prepared statements: they belong to a session."""
    return {name: value for name, value in DEFAULTS.items() if name not in url.query} | {"prepare_threshold": None}


def marked(connection: Connection, statement: str) -> str:
    """A statement with its parameters marked as the driver wants them."""
    return statement.replace("?", "%s") if connection.dialect.name == "postgresql" else statement


def serialize(connection: Connection, what: str) -> None:
    """Wait until no other transaction works on ``what``; over with this one. SQLite has one writer anyway."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("select pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"breakeven {what}",))


def is_pooled(connection: Connection) -> bool:
    """Whether a pooler stands between: the process number told at login is not the one that answers."""
    told: int = connection.connection.driver_connection.info.backend_pid  # type: ignore[union-attr]  # psycopg's own, untyped here
    return told != connection.scalar(select(func.pg_backend_pid()))


def others(connection: Connection) -> int:
    """How many other connections of breakeven use this database; none on SQLite, where a lock is held instead."""
    if connection.dialect.name != "postgresql":
        return 0
    told = text(
        "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() "
        "and application_name in ('breakeven', current_setting('application_name'))"  # the URL may name it otherwise
    )
    return int(connection.scalar(told) or 0)


def encoding(connection: Connection) -> str:
    """How the database keeps text."""
    return str(connection.scalar(text("show server_encoding")))
