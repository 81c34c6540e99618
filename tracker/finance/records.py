"""Reads ``usage.csv`` and ``rentals.csv``. A wrong cell is one clear error with file, line and column; nothing is guessed.

usage.csv: day,provider,model and token columns input,cache_read,cache_write_5m,cache_write_1h,output (those you have; the kinds
partition the tokens: a cached token is not also an input token); optional sku and region.
rentals.csv: start,end (UTC),provider,gpu,gpu_count,price_per_hour (of the whole rental); optional currency (USD).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path

from engine.rates import TOKEN_KINDS, TokenKind
from tracker.errors import BreakevenError, did_you_mean

USAGE_COLUMNS = ("day", "provider", "model")
USAGE_OPTIONAL = ("sku", "region", *TOKEN_KINDS)
RENTAL_COLUMNS = ("start", "end", "provider", "gpu", "gpu_count", "price_per_hour")
RENTAL_OPTIONAL = ("currency",)
MAX_TOKENS = 10**15


class RecordError(BreakevenError):
    """A file of usage or rentals is wrong; says where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one day (UTC) by kind."""

    line: int
    day: date
    provider: str
    model: str
    sku: str
    region: str
    tokens: Mapping[TokenKind, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rental:
    """GPUs rented from ``start`` (inclusive) to ``end`` (exclusive), ``price_per_hour`` for all of them."""

    line: int
    start: datetime
    end: datetime
    provider: str
    gpu: str
    gpu_count: int
    price_per_hour: Decimal
    currency: str


def read_usage(path: Path) -> tuple[Usage, ...]:
    """The usage records of a file."""
    return tuple(_usage(cells) for cells in _lines(path, USAGE_COLUMNS, USAGE_OPTIONAL))


def read_rentals(path: Path) -> tuple[Rental, ...]:
    """The rentals of a file."""
    return tuple(_rental(cells) for cells in _lines(path, RENTAL_COLUMNS, RENTAL_OPTIONAL))


@dataclass(frozen=True, slots=True)
class _Cells:
    path: Path
    number: int
    values: Mapping[str, str | None]

    def wrong(self, column: str, expected: str) -> RecordError:
        return RecordError(
            f"{self.path}: line {self.number}: {column}: expected {expected}, found {(self.values.get(column) or '')[:60]!r}"
        )

    def text(self, column: str, default: str = "") -> str:
        return (self.values.get(column) or "").strip() or default

    def required(self, column: str) -> str:
        if not (value := self.text(column)):
            raise self.wrong(column, "a value")
        return value

    def whole(self, column: str, most: int, least: int = 0) -> int:
        value = self.text(column, "0")
        if not (value.isascii() and value.isdigit() and len(value) <= len(str(most)) and least <= int(value) <= most):
            raise self.wrong(column, f"a whole number from {least} to {most}, without separators")
        return int(value)

    def money(self, column: str) -> Decimal:
        try:
            value = Decimal(self.required(column))
        except InvalidOperation as error:
            raise self.wrong(column, "an amount such as 55.52") from error
        if not value.is_finite() or not 0 <= value < 10**9:
            raise self.wrong(column, "an amount of at least 0")
        return value

    def moment(self, column: str) -> datetime:
        try:
            when = datetime.fromisoformat(self.required(column))
            return when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)
        except (ValueError, OverflowError) as error:
            raise self.wrong(column, "a UTC time such as 2026-11-01T00:00:00Z") from error


def _lines(path: Path, needed: Sequence[str], optional: Sequence[str]) -> Iterator[_Cells]:
    try:
        reader = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig"), newline=""), strict=True)
        header = [name.strip() for name in reader.fieldnames or ()]
        reader.fieldnames = header
        for name in needed:
            if name not in header:
                raise RecordError(f"{path}: line 1: column {name} is missing; expected {','.join(needed)} and any of {','.join(optional)}")
        for name in header:
            if header.count(name) > 1:
                raise RecordError(f"{path}: line 1: column {name!r} is there twice")
            if name not in (*needed, *optional):
                raise RecordError(f"{path}: line 1: unknown column {name!r}{did_you_mean(name, (*needed, *optional))}")
        for values in reader:
            if None in values:
                raise RecordError(f"{path}: line {reader.line_num}: has more cells than the header")
            if None in values.values():
                raise RecordError(f"{path}: line {reader.line_num}: has fewer cells than the header")
            yield _Cells(path, reader.line_num, values)
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RecordError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start})") from error
    except csv.Error as error:
        raise RecordError(f"{path}: line {reader.reader.line_num}: {error}") from error


def _usage(cells: _Cells) -> Usage:
    try:
        day = date.fromisoformat(cells.required("day"))
    except ValueError as error:
        raise cells.wrong("day", "a day such as 2026-11-01") from error
    return Usage(
        line=cells.number,
        day=day,
        provider=cells.required("provider"),
        model=cells.required("model"),
        sku=cells.text("sku", "standard"),
        region=cells.text("region"),
        tokens={kind: cells.whole(kind, MAX_TOKENS) for kind in TOKEN_KINDS},
    )


def _rental(cells: _Cells) -> Rental:
    start, end = cells.moment("start"), cells.moment("end")
    if end <= start:
        raise cells.wrong("end", "a time after start")
    return Rental(
        line=cells.number,
        start=start,
        end=end,
        provider=cells.required("provider"),
        gpu=cells.required("gpu"),
        gpu_count=cells.whole("gpu_count", 100_000, 1),
        price_per_hour=cells.money("price_per_hour"),
        currency=cells.text("currency", "USD").upper(),
    )
