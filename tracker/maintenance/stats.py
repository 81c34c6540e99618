"""How large the book is, table by table, and how to give back what pruning freed."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, Engine, Table, func, select, text
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlmodel import SQLModel

from tracker.database import derived_tables as derived_tables  # registers the tables, as the next line does
from tracker.database import tables as tables
from tracker.database.handle import reading
from tracker.database.months import months_there
from tracker.database.rows import from_s

# the column that dates a row; ``day`` of the rollups counts from 1970
DATED = {
    "sweep": "at", "offer_point": "at", "rate_point": "at", "statistic": "at", "unseen": "since", "decision": "at", "fx": "day",
    "rollup_day": "day", "rollup_model": "day", "page": "fetched_at", "alert": "fired_at", "quarantine": "first_seen",
    "unmapped": "first_seen", "rollup_least": "day",
}  # fmt: skip
CHANGES = ("offer_point", "rate_point")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSize:
    """One table. ``bytes`` with its indexes; None where the database does not tell."""

    table: str
    rows: int
    bytes: int | None
    oldest: datetime | None
    newest: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BookSize:
    """The whole book. ``bytes_per_change``: of the points, with their indexes; None without one. ``months``: partitions of the points."""

    tables: tuple[TableSize, ...]
    bytes: int | None
    bytes_per_change: Decimal | None
    months: int


def book_size(db: Engine) -> BookSize:
    """Rows, bytes and age of every table, largest first."""
    with reading(db) as connection:
        sizes = _bytes(connection)
        found = [_table(connection, table, sizes) for table in SQLModel.metadata.sorted_tables]
        months = sum(len(months_there(connection, table)) for table in CHANGES)
    ordered = tuple(sorted(found, key=lambda one: (-(one.bytes or 0), one.table)))
    changes = [one for one in ordered if one.table in CHANGES]
    rows, held = sum(one.rows for one in changes), [one.bytes for one in changes if one.bytes is not None]
    per_change = (Decimal(sum(held)) / rows).quantize(Decimal("0.1")) if rows and held else None
    return BookSize(tables=ordered, bytes=sum(sizes.values()) if sizes else None, bytes_per_change=per_change, months=months)


def _table(connection: Connection, table: Table, sizes: dict[str, int]) -> TableSize:
    column = DATED.get(table.name)
    wanted = [func.count()] if column is None else [func.count(), func.min(table.c[column]), func.max(table.c[column])]
    rows, *ages = connection.execute(select(*wanted).select_from(table)).one()
    oldest, newest = [_time(age) for age in ages] or [None, None]
    return TableSize(table=table.name, rows=rows, bytes=sizes.get(table.name), oldest=oldest, newest=newest)


def _time(value: Any) -> datetime | None:
    if value is None or isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    return from_s(0) + timedelta(days=value) if value < 1_000_000 else from_s(value)  # a million days is the year 4707


def _bytes(connection: Connection) -> dict[str, int]:
    """Bytes by table, indexes included; empty where an SQLite was built without its statistics."""
    if connection.dialect.name == "postgresql":
        query = (
            "select coalesce(i.inhparent::regclass::text, c.relname), sum(pg_total_relation_size(c.oid)) from pg_class c "
            "left join pg_inherits i on i.inhrelid = c.oid where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace group by 1"
        )
        return {str(name): int(size) for name, size in connection.execute(text(query))}
    pages = (
        "select coalesce(m.tbl_name, s.name), sum(s.pgsize) from dbstat s left join sqlite_master m on m.name = s.name "
        "where s.aggregate = 1 group by 1"
    )
    try:
        return {str(name): int(size) for name, size in connection.execute(text(pages))}
    except DBAPIError:
        return {}


def vacuum(db: Engine) -> None:
    """Give back what is free. SQLite writes the file anew: it needs as much room again, and nobody else may write meanwhile."""
    with db.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        if db.dialect.name == "postgresql":
            connection.execute(text("vacuum (analyze)"))
            return
    raw = db.raw_connection()
    try:
        raw.driver_connection.execute("vacuum")  # type: ignore[union-attr]  # sqlite3's own: outside any transaction
        raw.driver_connection.execute("pragma wal_checkpoint(truncate)")  # type: ignore[union-attr]  # as above
    except sqlite3.Error as error:
        raise OperationalError("vacuum", None, error) from error
    finally:
        raw.close()
