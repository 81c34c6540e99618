"""The whole book as one file that any database takes: every row of every table, zstd-compressed JSON lines.

The first line names the schema; then each table with its columns, and a line a row; the last line counts the rows and holds the
SHA-256 of all lines before. Read and written row by row, within one transaction.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import Column, Connection, Engine, Table, func, insert, inspect, select, text
from sqlalchemy.types import TypeDecorator
from sqlmodel import SQLModel

from tracker.book.points import insert_rows
from tracker.database import derived_tables as derived_tables  # registers its tables
from tracker.database import tables as tables
from tracker.database.column_types import Hex
from tracker.database.handle import only_daemon, reading, revision, revisions, writing
from tracker.database.months import TABLES, is_month
from tracker.errors import BreakevenError
from tracker.exports.files import replacing
from tracker.maintenance.backup import free_place, need_alone

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

FORMAT = "breakeven book 1"
ROWS_AT_ONCE = 2_000
VERSION_TABLE = "alembic_version"


class DumpError(BreakevenError):
    """A dump cannot be written or read: says why. Nothing of it is in the book."""


@dataclass(frozen=True, slots=True)
class _Dumped:
    """Lines with their hash so far."""

    file: Any
    digest: Any

    def put(self, value: Any) -> None:
        line = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        self.digest.update(line)
        self.file.write(line)


def dump(db: Engine, path: Path, *, replace: bool = False) -> dict[str, int]:
    """Write every row of the book to ``path``, as it is at one moment; returns how many each table has."""
    free_place(db, path, replace=replace)
    counts: dict[str, int] = {}
    with replacing(path) as part, reading(db) as connection, zstd.open(part, "wb") as file:
        out = _Dumped(file, hashlib.sha256())
        out.put({"format": FORMAT, "schema": _own_schema(connection)})
        for table in _tables(connection):
            out.put({"table": table.name, "columns": [column.name for column in table.columns]})
            counts[table.name] = 0
            query = select(table).order_by(*table.primary_key.columns).execution_options(yield_per=ROWS_AT_ONCE)
            with connection.execute(query) as rows:
                for row in rows:
                    out.put([_plain(value) for value in row])
                    counts[table.name] += 1
        file.write(json.dumps({"rows": counts, "sha256": out.digest.hexdigest()}).encode() + b"\n")
    return counts


def load(db: Engine, path: Path, *, replace: bool = False) -> dict[str, int]:
    """Put a dump into the book, all of it or nothing; returns how many rows each table got.

    The book has this program's schema and holds no prices, or is emptied first where it may be replaced.
    """
    with only_daemon(db), writing(db) as connection:
        need_alone(connection)
        known = {table.name: table for table in _tables(connection)}
        if not replace and any(connection.scalar(select(func.count()).select_from(known[name])) for name in ("sweep", "offer", "rate")):
            raise DumpError("the book holds prices; --force empties it first")
        for table in reversed(known.values()):
            connection.execute(table.delete())
        counts = _read_all(connection, path, known)
        if connection.dialect.name == "postgresql":
            _continue_numbers(connection, known)
    return counts


def _own_schema(connection: Connection) -> str:
    """The schema of the book; DumpError where it is not this program's: what it does not know would be left out, or could not be read."""
    found, (known, ours) = revision(connection), revisions()
    if found is None:
        raise DumpError("there is no book yet")
    if found != ours:
        how = "breakeven db stats brings it up to date" if found in known else "install the newer breakeven"
        raise DumpError(f"the book has schema {found}, and this program writes {ours}; {how}")
    return found


def _tables(connection: Connection) -> list[Table]:
    """Every table of the book, those that others refer to first."""
    there = {name for name in inspect(connection).get_table_names() if not is_month(name)} - {VERSION_TABLE}
    found = [table for table in SQLModel.metadata.sorted_tables if table.name in there]
    if missing := there - {table.name for table in found}:
        raise DumpError(f"the database has tables that are none of ours: {', '.join(sorted(missing))}")
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, datetime | date):
        return value.isoformat()
    return base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else value


# --- reading -------------------------------------------------------------------------------------------------------------


def _read_all(connection: Connection, path: Path, known: Mapping[str, Table]) -> dict[str, int]:
    try:
        with zstd.open(path, "rb") as file:
            return _insert(connection, path, known, iter(file))
    except (OSError, EOFError, zstd.ZstdError) as error:
        raise DumpError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DumpError(f"{path}: is no whole export of a book: {error!r}") from error


def _insert(connection: Connection, path: Path, known: Mapping[str, Table], lines: Iterator[bytes]) -> dict[str, int]:
    head = next(lines, b"")
    digest, counts = hashlib.sha256(head), dict[str, int]()
    found = json.loads(head)
    if found["format"] != FORMAT or found["schema"] != (ours := revision(connection)):
        raise DumpError(f"{path}: is {found['format']!r} of schema {found['schema']}; this program reads {FORMAT!r} of schema {ours}")
    line = next(lines, b"")
    while True:
        found = json.loads(line)
        if "sha256" in found:
            break
        digest.update(line)
        table, columns = known[found["table"]], found["columns"]
        counts[table.name], line = _insert_rows(connection, table, columns, lines, digest)
    if found["sha256"] != digest.hexdigest() or found["rows"] != counts or next(lines, None) is not None:
        raise DumpError(f"{path}: is damaged: its rows are not those that were written")
    return counts


def _insert_rows(connection: Connection, table: Table, columns: list[str], lines: Iterator[bytes], digest: Any) -> tuple[int, bytes]:
    """Insert the rows of one table; returns how many, and the line that follows them."""
    readers = [_reader(table.columns[name]) for name in columns]
    count, after = 0, b""

    def rows() -> Iterator[dict[str, Any]]:
        nonlocal after
        for line in lines:
            if not line.startswith(b"["):
                after = line
                return
            digest.update(line)
            values = json.loads(line)
            yield {name: None if value is None else read(value) for name, read, value in zip(columns, readers, values, strict=True)}

    found = rows()
    while batch := list(islice(found, ROWS_AT_ONCE)):
        if table.name in TABLES:
            insert_rows(connection, table, columns, [tuple(row.values()) for row in batch])
        else:
            connection.execute(insert(table), batch)
        count += len(batch)
    if not after:
        raise DumpError(f"the export ends within {table.name}")
    return count, after


def kind_of(column: Column[Any]) -> type:
    """The Python type of the column's values."""
    if isinstance(column.type, Hex):
        return str
    inner = column.type.impl_instance if isinstance(column.type, TypeDecorator) else column.type
    return inner.python_type


def _reader(column: Column[Any]) -> Callable[[Any], Any]:
    """How a value of the column is read from JSON."""
    kind = kind_of(column)
    if kind is datetime:
        return _time
    if kind is date:
        return date.fromisoformat
    return base64.b64decode if kind is bytes else _same


def _time(value: str) -> datetime:
    found = datetime.fromisoformat(value)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _same(value: Any) -> Any:
    return value


def _continue_numbers(connection: Connection, known: Mapping[str, Table]) -> None:
    """PostgreSQL goes on counting after the highest number that was put in."""
    sequence_of, set_to = text("select pg_get_serial_sequence(:table, :column)"), text("select setval(:sequence, :highest)")
    for table in known.values():
        column = table.autoincrement_column
        if column is not None and (highest := connection.scalar(select(func.max(column)))) is not None:
            sequence = connection.scalar(sequence_of, {"table": table.name, "column": column.name})
            if sequence is not None:
                connection.execute(set_to, {"sequence": sequence, "highest": highest})
