"""Fields of JSON objects that may hold anything: read as one type, or refused with a reason short enough to count by."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeVar

from scrapers.contract import LayoutChanged, Licence, Page, Row, Skipped

T = TypeVar("T")

MAX_PRICE = Decimal(1_000_000)  # no rental is printed above a million an hour; more is a wrong unit or an attack
MIN_PRICE = Decimal("0.000001")
MAX_NAME = 200
MAX_COUNT = 1024  # GPUs in one rentable thing; the largest known are racks of 72
RAW_LENGTH = 200
CURRENCY = re.compile(r"[A-Z]{3}")
NUMBER = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?")  # Decimal() itself takes NaN, blanks and other digits


class BadRow(ValueError):
    """One row cannot be used; the message is the reason it is counted by, so it never quotes the row."""


def as_object(value: object, what: str) -> dict[str, Any]:
    """``value`` as a JSON object; BadRow when it is none."""
    if not isinstance(value, dict):
        raise BadRow(f"{what} is not an object")
    return value


def name(item: Mapping[str, Any], key: str) -> str:
    """A non-empty printable string of at most 200 characters."""
    value = item.get(key)
    if not isinstance(value, str) or not value.strip():
        raise BadRow(f"{key} is no text")
    return clean_name(value, key)


def clean_name(value: str, what: str) -> str:
    """``value`` without outer blanks; BadRow when it is overlong or holds control, bidi or other invisible characters."""
    value = value.strip()
    if not value:
        raise BadRow(f"{what} is empty")
    if len(value) > MAX_NAME:
        raise BadRow(f"{what} is longer than {MAX_NAME} characters")
    if not value.isprintable():
        raise BadRow(f"{what} holds control characters")
    return value


def currency(item: Mapping[str, Any], key: str) -> str:
    """A currency code of three capitals."""
    value = item.get(key)
    if not isinstance(value, str) or not CURRENCY.fullmatch(value):
        raise BadRow(f"{key} is no currency code")
    return value


def price(item: Mapping[str, Any], key: str) -> Decimal:
    """A price above 0 printed as a JSON number or as a numeric string."""
    value = item.get(key)
    if value is None:
        raise BadRow(f"{key} is not stated")
    return clean_price(_decimal(value, key), key)


def clean_price(value: Decimal, what: str) -> Decimal:
    """``value``; BadRow when it is no price anybody would print."""
    if value == 0:
        raise BadRow(f"{what} is 0")
    if value < 0:
        raise BadRow(f"{what} is negative")
    if not MIN_PRICE <= value <= MAX_PRICE:
        raise BadRow(f"{what} is out of range")
    return value


def optional_price(item: Mapping[str, Any], key: str) -> Decimal | None:
    """A price, or None where the field is absent, null or 0 (nothing is offered)."""
    value = item.get(key)
    if value is None or _decimal(value, key) == 0:
        return None
    return price(item, key)


def count(item: Mapping[str, Any], key: str) -> int:
    """A whole number from 1 to 1024, printed as a JSON number or as digits."""
    value = _decimal(item.get(key), key)
    if not 1 <= value <= MAX_COUNT or value != int(value):
        raise BadRow(f"{key} is no count")
    return int(value)


def optional_count(item: Mapping[str, Any], key: str) -> int | None:
    """A count, or None where it is absent or no count: a ceiling that cannot be read is not promised."""
    try:
        return count(item, key)
    except BadRow:
        return None


def optional_number(item: Mapping[str, Any], key: str) -> Decimal | None:
    """A JSON number, or None where the field is absent or anything else."""
    value = item.get(key)
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    number = Decimal(value)
    return number if number.is_finite() else None


def optional_memory(item: Mapping[str, Any], key: str, *, unit: Decimal = Decimal(1)) -> Decimal | None:
    """Memory per GPU in GB as printed (``unit`` GB each), or None: it only tells apart names that several GPUs share."""
    size = optional_number(item, key)
    return size * unit if size is not None and 0 < size * unit < 10_000 else None


def _decimal(value: object, what: str) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
        raise BadRow(f"{what} is not a number")
    if isinstance(value, str) and not NUMBER.fullmatch(value):
        raise BadRow(f"{what} is not a number")
    number = Decimal(value)
    if not number.is_finite():
        raise BadRow(f"{what} is not a number")
    return number


def skipped(reason: str, item: object) -> Skipped:
    """The row that could not be used, shown as ASCII JSON cut to 200 characters."""
    return Skipped(reason=reason, raw=json.dumps(item, default=str)[:RAW_LENGTH])


def each(items: Iterable[T], quotes: Callable[[T], Iterator[Row]]) -> Iterator[Row]:
    """The rows of every item; an item that cannot be read becomes one Skipped and never stops the others."""
    for item in items:
        try:
            yield from quotes(item)
        except BadRow as bad:
            yield skipped(str(bad), item)


def layout_changed(source: str, expected: str) -> LayoutChanged:
    """The error that says what was expected and how to save what came."""
    return LayoutChanged(f"{source}: {expected}; run breakeven collect {source} --save")


def require_page(source: str, pages: Sequence[Page]) -> Page:
    """The first page; LayoutChanged when there is none."""
    if not pages:
        raise layout_changed(source, "no page to read")
    return pages[0]


def require_fields(source: str, items: Sequence[object], fields: Iterable[str], what: str) -> None:
    """LayoutChanged when there are no items, or when a field is missing from every one of them."""
    if not items:
        raise layout_changed(source, f"no {what} in the answer")
    for field in fields:
        if not any(isinstance(item, dict) and field in item for item in items):
            raise layout_changed(source, f'no "{field}" in any of {len(items)} {what}')


def with_quotes(source: str, rows: Iterable[Row]) -> Iterator[Row]:
    """``rows``; LayoutChanged at the end when not one of them is a price, so that an emptied source is no success."""
    reasons: Counter[str] = Counter()
    quotes = 0
    for row in rows:
        if isinstance(row, Skipped):
            reasons[row.reason] += 1
        elif not isinstance(row, Licence):
            quotes += 1
        yield row
    if not quotes:
        why = ", ".join(f"{reason} ({n})" for reason, n in reasons.most_common(3)) or "no rows"
        raise layout_changed(source, f"no usable price in the answer: {why}")
