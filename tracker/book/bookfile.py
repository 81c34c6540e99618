"""The book as two CSV files, ``offers.csv`` and ``rates.csv``: written by ``export book``, read by ``import book``, and shipped
as the embedded starter book.

A row is one price over the time it was seen: ``valid_from`` the first and ``seen_at`` the last moment it was observed,
``gone_at`` when it was seen to be delisted. Prices are native, per hour of the whole offer and per Mtok. Importing a file
twice changes nothing; imported prices keep their own dates and never count as fresh.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path

from engine.offers import AVAILABILITIES, PRICE_KINDS, TIERS, TRUSTS
from engine.rates import TOKEN_KINDS, windows
from tracker.database.limits import MAX_GPUS, MAX_NAME, MAX_TERM_MONTHS, clean
from tracker.database.rows import OfferRow, RateRow, scaled, to_s
from tracker.database.schema import RATE_SCALE, RENT_SCALE
from tracker.errors import BreakevenError, did_you_mean
from tracker.facts.values import Catalogue

OFFER_COLUMNS = (
    "provider", "sku", "region", "gpu", "gpu_count", "max_gpu_count", "tier", "term_months", "trust", "availability", "price_kind",
    "interconnect", "is_slice", "currency", "price_per_hour", "announced_from", "valid_from", "seen_at", "gone_at", "source", "source_url",
)  # fmt: skip
RATE_COLUMNS = (
    "provider", "source_model", "model", "sku", "region", "currency", *TOKEN_KINDS, "min_prompt_tokens", "tier_inclusive", "hours_utc",
    "weekdays", "in_force_from", "in_force_to", "valid_from", "seen_at", "gone_at", "source", "source_url",
)  # fmt: skip
MAX_URL = 2000
MAX_WHOLE = 10**9
YEARS = range(2000, 2101)  # a date outside is a slip of the pen, and far outside it is no date on every system


class BookFileError(BreakevenError):
    """A book file is wrong: names file, line, column and reason. Nothing of it is imported."""


@dataclass(frozen=True, slots=True)
class Dated:
    """One price and the time it was seen, in seconds since 1970."""

    row: OfferRow | RateRow
    origin: str
    since: int
    seen_at: int
    gone_at: int | None


def read_book_files(folder: Path, catalogue: Catalogue) -> list[Dated]:
    """All rows of ``offers.csv`` and ``rates.csv`` in ``folder`` (one may be missing); BookFileError on the first wrong one."""
    dated: list[Dated] = []
    present = [path for name in ("offers.csv", "rates.csv") if (path := folder / name).exists()]
    if not present:
        raise BookFileError(f"{folder}: holds neither offers.csv nor rates.csv; breakeven export book writes them")
    for path in present:
        dated += _read(path, OFFER_COLUMNS if path.name == "offers.csv" else RATE_COLUMNS, catalogue)
    return dated


def _read(path: Path, expected: Sequence[str], catalogue: Catalogue) -> Iterator[Dated]:
    parse = _offer_of if expected is OFFER_COLUMNS else _rate_of
    try:
        reader = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig"), newline=""), strict=True)
        header = tuple(reader.fieldnames or ())
        if missing := [name for name in expected if name not in header]:
            raise BookFileError(f"{path}: line 1: column {missing[0]} is missing; expected {','.join(expected)}")
        if twice := [name for name in expected if header.count(name) > 1]:
            raise BookFileError(f"{path}: line 1: column {twice[0]} is there twice")
        for line in reader:
            if None in line:
                raise BookFileError(f"{path}: line {reader.line_num}: has more cells than the header")
            yield parse(_Cells(path, reader.line_num, line), catalogue)
    except OSError as error:
        raise BookFileError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BookFileError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start})") from error
    except csv.Error as error:
        raise BookFileError(f"{path}: line {reader.reader.line_num}: {error}") from error


@dataclass(frozen=True, slots=True)
class _Cells:
    """One line of a book file; every reader names file, line and column when it refuses."""

    path: Path
    number: int
    line: Mapping[str, str | None]

    def wrong(self, column: str, expected: str) -> BookFileError:
        found = (self.line.get(column) or "")[:60]
        return BookFileError(f"{self.path}: line {self.number}: {column}: expected {expected}, found {found!r}")

    def text(self, column: str, most: int = MAX_NAME) -> str:
        value = self.line.get(column)
        if value is None:
            raise self.wrong(column, "as many cells as the header has")
        if value != clean(value, most):
            raise self.wrong(column, f"at most {most} characters, none of them invisible and no space at the ends")
        return value

    def required(self, column: str) -> str:
        if not (value := self.text(column)):
            raise self.wrong(column, "a value")
        return value

    def word(self, column: str, known: Sequence[str]) -> str:
        value = self.text(column)
        if value not in known:
            raise self.wrong(column, f"one of {', '.join(known)}{did_you_mean(value, known)}")
        return value

    def whole(self, column: str, least: int = 0, most: int = MAX_WHOLE) -> int:
        value = self.text(column)
        if not value.isascii() or not value.isdigit() or int(value) < least:
            raise self.wrong(column, f"a whole number of at least {least}")
        if int(value) > most:
            raise self.wrong(column, f"a whole number of at most {most}")
        return int(value)

    def optional(self, column: str, read: Callable[[str], int]) -> int | None:
        return read(column) if self.text(column) else None

    def flag(self, column: str) -> bool:
        return self.word(column, ("true", "false")) == "true"

    def money(self, column: str, scale: int, *, above_zero: bool) -> int:
        try:
            value = Decimal(self.text(column))
            if not value.is_finite() or value < 0 or (above_zero and value == 0):
                raise ValueError
            return scaled(value, scale)
        except (InvalidOperation, ValueError) as error:
            raise self.wrong(column, f"a price {'above' if above_zero else 'of at least'} 0") from error

    def moment(self, column: str) -> int:
        value = self.text(column)
        try:
            when = datetime.fromisoformat(value)
        except ValueError as error:
            raise self.wrong(column, "a UTC time such as 2026-10-16 or 2026-10-16T12:00:00Z") from error
        if when.year not in YEARS:
            raise self.wrong(column, f"a year from {YEARS[0]} to {YEARS[-1]}")
        return to_s(when if when.tzinfo else when.replace(tzinfo=UTC))

    def currency(self) -> str:
        value = self.text("currency")
        if len(value) != 3 or not value.isascii() or not value.isalpha() or not value.isupper():
            raise self.wrong("currency", "a currency code such as USD")
        return value

    def hours(self, column: str) -> str:
        value = self.text(column)
        try:
            windows(value)
        except ValueError as error:
            raise self.wrong(column, "UTC hours such as 06:00-10:00") from error
        return value

    def weekdays(self, column: str) -> str:
        value = self.text(column)
        if set(value) - set("1234567"):
            raise self.wrong(column, "ISO weekdays such as 12345")
        return value

    def span(self, row: OfferRow | RateRow) -> Dated:
        since, seen_at = self.moment("valid_from"), self.moment("seen_at")
        gone_at = self.optional("gone_at", self.moment)
        if seen_at < since:
            raise self.wrong("seen_at", "a time at or after valid_from")
        if gone_at is not None and gone_at <= seen_at:
            raise self.wrong("gone_at", "a time after seen_at")
        return Dated(row, self.required("source"), since, seen_at, gone_at)


def _offer_of(cells: _Cells, catalogue: Catalogue) -> Dated:
    gpu, count = cells.text("gpu"), cells.whole("gpu_count", 1, MAX_GPUS)
    if gpu not in catalogue.gpus:
        raise cells.wrong("gpu", f"a GPU of config/gpus.toml{did_you_mean(gpu, catalogue.gpus)}")
    return cells.span(
        OfferRow(
            provider=cells.required("provider"),
            sku=cells.required("sku"),
            region=cells.text("region"),
            gpu=gpu,
            gpu_count=count,
            max_gpu_count=cells.optional("max_gpu_count", lambda column: cells.whole(column, count, MAX_GPUS)),
            tier=cells.word("tier", TIERS),
            term_months=cells.whole("term_months", 0, MAX_TERM_MONTHS),
            trust=cells.word("trust", TRUSTS),
            availability=AVAILABILITIES.index(cells.word("availability", AVAILABILITIES)),
            price_kind=cells.word("price_kind", PRICE_KINDS),
            interconnect=cells.required("interconnect"),
            is_slice=cells.flag("is_slice"),
            currency=cells.currency(),
            price=cells.money("price_per_hour", RENT_SCALE, above_zero=True),
            valid_from=cells.optional("announced_from", cells.moment),
            source_url=cells.text("source_url", MAX_URL),
        )
    )


def _rate_of(cells: _Cells, catalogue: Catalogue) -> Dated:
    model = cells.text("model")
    if model not in catalogue.models:
        raise cells.wrong("model", f"a model of config/models{did_you_mean(model, catalogue.models)}")
    prices = {kind: cells.money(kind, RATE_SCALE, above_zero=False) if cells.text(kind) else None for kind in TOKEN_KINDS}
    return cells.span(
        RateRow(
            provider=cells.required("provider"),
            source_model=cells.required("source_model"),
            model=model,
            sku=cells.required("sku"),
            region=cells.text("region"),
            currency=cells.currency(),
            min_prompt_tokens=cells.whole("min_prompt_tokens"),
            tier_inclusive=cells.flag("tier_inclusive"),
            hours_utc=cells.hours("hours_utc"),
            weekdays=cells.weekdays("weekdays"),
            valid_from=cells.optional("in_force_from", cells.moment),
            valid_to=cells.optional("in_force_to", cells.moment),
            source_url=cells.text("source_url", MAX_URL),
            **prices,
        )
    )
