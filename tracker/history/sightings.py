"""What a recording saw: one price as printed, at one moment. Shared by the adapters of this package."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from scrapers.contract import GpuQuote, Skipped, TokenQuote
from tracker.errors import BreakevenError

MAX_BYTES = 256 * 2**20  # decompressed; the largest series known is 4 MB
DAY = re.compile(r"(?<!\d)(20\d\d-[01]\d-[0-3]\d)(?!\d)")
NUMBER = re.compile(r"\d{1,20}(\.\d{1,30})?([eE][+-]?\d{1,2})?")


class HistoryFileError(BreakevenError):
    """A series file is wrong: names file, line, column and reason. Nothing of it is imported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """A price as printed. ``whole``: its provider's region (for token prices: its provider) was listed whole at ``at``, so what is
    not seen then was gone. ``names`` is the catalogue whose spellings the quote uses, ``origin`` who told it."""

    at: datetime
    quote: GpuQuote | TokenQuote | Skipped
    names: str
    origin: str
    whole: bool = False
    source_url: str = ""


def read_text(path: Path) -> str:
    """Text of a plain or gzip file; HistoryFileError when it cannot be read, is no UTF-8 or unpacks to more than 256 MiB."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            body = file.read(MAX_BYTES + 1)
        if len(body) > MAX_BYTES:
            raise HistoryFileError(f"{path}: larger than {MAX_BYTES} bytes; split it")
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise HistoryFileError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start})") from error
    except (OSError, EOFError, zlib.error) as error:
        raise HistoryFileError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error


def read_json(path: Path) -> Any:
    """A JSON file with exact decimals."""
    try:
        return json.loads(read_text(path), parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise HistoryFileError(f"{path}: not valid JSON: {error}") from error


def day_of(path: Path) -> datetime:
    """The day in a snapshot's file name; HistoryFileError without one."""
    found = DAY.search(path.name)
    try:
        return datetime.fromisoformat(found[1]).replace(tzinfo=UTC) if found else _no_day(path)
    except ValueError:
        return _no_day(path)


def _no_day(path: Path) -> datetime:
    how = "a snapshot says when it was taken in its name, such as prices-2026-10-21.json, or is told with --dated"
    raise HistoryFileError(f"{path}: {how}")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a table; every reader names file, line and column when it refuses."""

    path: Path
    number: int
    cells: Mapping[str, str | None]

    def wrong(self, column: str, expected: str) -> HistoryFileError:
        """The error for one cell."""
        return HistoryFileError(
            f"{self.path}: line {self.number}: {column}: expected {expected}, found {(self.cells.get(column) or '')[:60]!r}"
        )

    def text(self, column: str) -> str:
        """The cell as it stands; empty where the table has no such column."""
        value = self.cells.get(column, "")
        if value is None:
            raise self.wrong(column, "as many cells as the header has")
        return value

    def moment(self, column: str) -> datetime:
        """An ISO time; a bare day is its midnight in UTC."""
        try:
            when = datetime.fromisoformat(self.text(column))
        except ValueError as error:
            raise self.wrong(column, "a UTC time such as 2026-10-16 or 2026-10-16T12:00:00Z") from error
        return when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)

    def price(self, column: str) -> Decimal | None:
        """A price; None where nothing is printed."""
        value = self.text(column)
        if not value:
            return None
        if not NUMBER.fullmatch(value):
            raise self.wrong(column, "a price")
        return Decimal(value)

    def count(self, column: str) -> int:
        """A whole number of at least 1."""
        value = self.text(column)
        if not value.isascii() or not value.isdigit() or not 1 <= len(value) <= 6 or int(value) < 1:
            raise self.wrong(column, "a whole number of at least 1")
        return int(value)

    def optional_count(self, column: str) -> int | None:
        """A whole number of at least 1, or None where the cell is empty."""
        return self.count(column) if self.text(column) else None


def read_table(path: Path, columns: Sequence[str]) -> Iterator[Line]:
    """The lines of a CSV file that has at least ``columns``."""
    reader = csv.DictReader(io.StringIO(read_text(path), newline=""), strict=True)
    try:
        header = tuple(reader.fieldnames or ())
        if missing := [name for name in columns if name not in header]:
            raise HistoryFileError(f"{path}: line 1: column {missing[0]} is missing; expected {','.join(columns)}")
        for cells in reader:
            line = Line(path, reader.line_num, cells)
            if None in cells:
                raise HistoryFileError(f"{path}: line {line.number}: more cells than the header has")
            yield line
    except csv.Error as error:
        raise HistoryFileError(f"{path}: line {reader.line_num}: {error}") from error


def exact_json(value: Any) -> str:
    """``value`` as JSON with its decimals as numbers, digit for digit."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{exact_json(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(exact_json(item) for item in value) + "]"
    return format(value, "f") if isinstance(value, Decimal) else json.dumps(value)
