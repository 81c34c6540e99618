"""Tables as files: CSV, JSON lines, Parquet. Written row by row; a file appears whole or not at all."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime
from decimal import ROUND_HALF_EVEN, Decimal
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from tracker.database.handle import reading
from tracker.errors import BreakevenError
from tracker.exports.tables import Row, TableOf, Type
from tracker.plain import as_line, plain

FORMATS = ("csv", "jsonl", "parquet")
ROWS_A_GROUP = 10_000  # of a Parquet file: what is held in memory
DECIMALS: Mapping[str, int] = {"rent": 9, "rate": 12, "usd": 12}  # a USD price is rounded there: currencies are divided
PRECISION = 38  # digits of a decimal of 128 bits


class ExportError(BreakevenError):
    """An export cannot be made: says what is in the way."""


def write_tables(db: Engine, tables: Iterable[TableOf], folder: Path, format_: str) -> dict[str, int]:
    """Write each table as a file of ``folder``; returns how many rows each has."""
    if folder.exists() and not folder.is_dir():
        raise ExportError(f"{folder}: is a file; name a folder")
    folder.mkdir(parents=True, exist_ok=True)
    writers: dict[str, Callable[[TableOf, Iterable[Row], Path], int]] = {
        "csv": _write_csv,
        "jsonl": _write_lines,
        "parquet": _write_parquet,
    }
    with reading(db) as connection:
        counts = {}
        for table in tables:
            with replacing(folder / f"{table.name}.{format_}") as part, closing(table.rows(connection)) as rows:
                counts[table.name] = writers[format_](table, rows, part)
        return counts


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Where to write what then takes the place of ``path``; nothing is left of it where that fails."""
    if path.is_dir():
        raise ExportError(f"{path}: is a folder; name a file in it")
    part = path.with_name(path.name + ".part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _write_csv(table: TableOf, rows: Iterable[Row], path: Path) -> int:
    count = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table.columns)
        for row in rows:
            count += 1
            writer.writerow(_cell(row[name], kind) for name, kind in table.columns.items())
    return count


def _cell(value: Any, kind: Type) -> Any:
    if value is None:
        return ""
    return str(value).lower() if kind == "flag" else plain(_exact(value, kind))


def _write_lines(table: TableOf, rows: Iterable[Row], path: Path) -> int:
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            count += 1
            file.write(as_line({name: _exact(row[name], kind) for name, kind in table.columns.items()}) + "\n")
    return count


def _write_parquet(table: TableOf, rows: Iterable[Row], path: Path) -> int:
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        raise ExportError(f"Parquet needs the package {error.name}: pip install 'breakeven[parquet]'") from error
    types: dict[str, Any] = {"text": arrow.string(), "whole": arrow.int64(), "flag": arrow.bool_(), "time": arrow.timestamp("ms", tz="UTC")}
    types |= {kind: arrow.decimal128(PRECISION, places) for kind, places in DECIMALS.items()}
    schema = arrow.schema([(name, types[kind]) for name, kind in table.columns.items()])
    count, remaining = 0, iter(rows)
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        while group := list(islice(remaining, ROWS_A_GROUP)):
            exact = [{name: _exact(row[name], kind) for name, kind in table.columns.items()} for row in group]
            writer.write_table(arrow.Table.from_pylist(exact, schema=schema))
            count += len(group)
    return count


def _exact(value: Any, kind: Type) -> Any:
    """A cell as it is written: decimals as they are stored, no longer; a USD price to 12 decimals."""
    if isinstance(value, Decimal) and kind == "usd":
        return value.quantize(Decimal(1).scaleb(-DECIMALS[kind]), rounding=ROUND_HALF_EVEN).normalize() + 0
    assert not isinstance(value, datetime) or value.tzinfo is not None
    return value
