"""Resolved prices on their way into and out of the database, in its scaled integers."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from functools import lru_cache
from operator import attrgetter
from typing import Any, ClassVar, TypeVar

from engine.offers import AVAILABILITIES
from engine.rates import TOKEN_KINDS, TokenPrices
from tracker.database.schema import MAX_SCALED, RATE_SCALE, RENT_SCALE

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TICK = timedelta(seconds=1)  # the smallest step of stored time
MAX_DIGITS = len(str(MAX_SCALED))
UNAVAILABLE = AVAILABILITIES.index("unavailable")  # as it is kept


def to_s(when: datetime) -> int:
    """Seconds since 1970 of the second that an aware time lies in, exactly (no float)."""
    if when.tzinfo is None:
        raise ValueError(f"time {when} has no zone; times are aware UTC")
    return (when - EPOCH) // TICK


def to_ms(when: datetime) -> int:
    """Milliseconds since 1970 of an aware time, without what is finer: when a sweep ended."""
    return (when - EPOCH) // timedelta(milliseconds=1)


def from_ms(at: int) -> datetime:
    """The aware UTC time of that many milliseconds since 1970."""
    return EPOCH + timedelta(milliseconds=at)


def from_s(at: int) -> datetime:
    """The aware UTC time of that many seconds since 1970."""
    return EPOCH + at * TICK


def counts_text(counts: Mapping[str, int]) -> str:
    """Counts by reason as JSON; empty for none, as most sweeps have."""
    return json.dumps(dict(counts), sort_keys=True) if counts else ""


def counts_of(text: str) -> dict[str, int]:
    """The counts by reason of such a text."""
    found: dict[str, int] = json.loads(text) if text else {}
    return found


def whole(when: datetime) -> datetime:
    """The second that an aware time lies in: what is asked about is as coarse as what is kept."""
    return from_s(to_s(when))


def scaled(value: Decimal, scale: int) -> int:
    """``value`` as the whole number of 1/``scale`` that the database keeps, half-even; ValueError when it does not fit.

    A price too small to be kept is refused: stored as 0 it would read as free.
    """
    if value and value.adjusted() > MAX_DIGITS:  # before any arithmetic: 1e999999 is a number too
        raise ValueError(f"{value} is larger than the database holds")
    whole = int((value * scale).to_integral_value(rounding=ROUND_HALF_EVEN))
    if abs(whole) > MAX_SCALED:
        raise ValueError(f"{value} is larger than the database holds")
    if value and not whole:
        raise ValueError(f"{value} is smaller than the database holds")
    return whole


@lru_cache(maxsize=65_536)  # most prices of a book are those of the book before it
def unscaled(whole: int, scale: int) -> Decimal:
    """The exact decimal of a stored number, without trailing zeros beyond what it needs."""
    value = (Decimal(whole) / scale).normalize()
    return value.quantize(Decimal(1)) if value == value.to_integral_value() else value


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferRow:
    """One offer at one moment: identity, description, and the values whose change is a point."""

    provider: str
    sku: str
    region: str
    gpu: str
    gpu_count: int
    tier: str
    term_months: int = 0  # 0: no term
    trust: str
    currency: str
    valid_from: int | None = None
    is_slice: bool = False
    price_kind: str = "list"
    interconnect: str = "unknown"
    source_url: str = ""
    price: int  # whole offer an hour in 1e-9 of ``currency``
    availability: int = AVAILABILITIES.index("unknown")
    max_gpu_count: int | None = None

    IDENTITY: ClassVar[tuple[str, ...]] = (
        "provider",
        "sku",
        "region",
        "gpu",
        "gpu_count",
        "tier",
        "term_months",
        "trust",
        "currency",
        "valid_from",
    )
    DESCRIPTION: ClassVar[tuple[str, ...]] = ("is_slice", "price_kind", "interconnect", "source_url")
    VALUES: ClassVar[tuple[str, ...]] = ("price", "availability", "max_gpu_count")

    @property
    def native_per_hour(self) -> Decimal:
        """Price of the whole offer an hour, in ``currency``."""
        return unscaled(self.price, RENT_SCALE)


@dataclass(frozen=True, slots=True, kw_only=True)
class RateRow:
    """One token rate at one moment. Prices in 1e-12 of ``currency`` per Mtok; None is unknown."""

    provider: str
    source_model: str
    model: str
    sku: str = "standard"
    region: str = ""
    currency: str
    min_prompt_tokens: int = 0
    tier_inclusive: bool = False
    hours_utc: str = ""
    weekdays: str = ""
    valid_from: int | None = None
    source_url: str = ""
    input: int | None = None
    cache_read: int | None = None
    cache_write_5m: int | None = None
    cache_write_1h: int | None = None
    output: int | None = None
    valid_to: int | None = None

    IDENTITY: ClassVar[tuple[str, ...]] = (
        "provider", "source_model", "model", "sku", "region", "currency",
        "min_prompt_tokens", "tier_inclusive", "hours_utc", "weekdays", "valid_from",
    )  # fmt: skip
    DESCRIPTION: ClassVar[tuple[str, ...]] = ("source_url",)
    VALUES: ClassVar[tuple[str, ...]] = (*TOKEN_KINDS, "valid_to")

    @property
    def native(self) -> TokenPrices:
        """Prices per Mtok in ``currency``."""
        return TokenPrices(**{k: None if (v := getattr(self, k)) is None else unscaled(v, RATE_SCALE) for k in TOKEN_KINDS})


R = TypeVar("R", bound=OfferRow | RateRow)
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode  # made once: a sweep works out an identity a row
_FIELDS = {kind: tuple(field.name for field in fields(kind)) for kind in (OfferRow, RateRow)}
_NAMED = {kind: attrgetter(*kind.IDENTITY) for kind in (OfferRow, RateRow)}
_STATED = {kind: attrgetter(*kind.VALUES) for kind in (OfferRow, RateRow)}
_STATE = {kind: attrgetter(*kind.VALUES, *kind.DESCRIPTION) for kind in (OfferRow, RateRow)}


def identity(source: str, row: OfferRow | RateRow) -> str:
    """The stable key of what ``row`` is a price of, within ``source``; a price never enters it."""
    return _encode((source, *_NAMED[type(row)](row)))


def identities(source: str, rows: Sequence[OfferRow | RateRow]) -> list[str]:
    """``identity`` of each row, for thousands: they are encoded in one go and parted again."""
    if not rows:
        return []
    parts = _encode([(source, *_NAMED[type(row)](row)) for row in rows])[2:-2].split("],[")
    return [f"[{part}]" for part in parts] if len(parts) == len(rows) else [identity(source, row) for row in rows]


class Identified(tuple[R, ...]):
    """Rows of one source, each under its identity; of rows with one identity the last.

    ``states`` are what may change of them, in the same order. Both are worked out once, before a sweep's transaction begins: nobody
    waits for it.
    """

    source: str
    by_identity: Mapping[str, R]
    states: Sequence[tuple[Any, ...]]


def identified(source: str, rows: Sequence[R] | Mapping[str, R]) -> Identified[R]:
    """Rows with their identities: worked out here, unless they are told or known already."""
    if isinstance(rows, Identified) and rows.source == source:
        return rows
    by_identity = rows if isinstance(rows, Mapping) else dict(zip(identities(source, rows), rows, strict=True))
    found = Identified(by_identity.values())
    found.source, found.by_identity, found.states = source, by_identity, list(states(found))
    return found


def values(row: OfferRow | RateRow) -> tuple[int | None, ...]:
    """What a change point keeps of ``row``."""
    found: tuple[int | None, ...] = _STATED[type(row)](row)
    return found


def state(row: OfferRow | RateRow) -> tuple[Any, ...]:
    """Its values, then its description: everything of ``row`` that may change."""
    found: tuple[Any, ...] = _STATE[type(row)](row)
    return found


def states(rows: Collection[OfferRow | RateRow]) -> Iterator[tuple[Any, ...]]:
    """``state`` of rows of one kind."""
    first = next(iter(rows), None)
    return iter(()) if first is None else map(_STATE[type(first)], rows)


def columns(row: OfferRow | RateRow) -> dict[str, object]:
    """Identity and description of ``row`` as column values."""
    return {name: getattr(row, name) for name in (*row.IDENTITY, *row.DESCRIPTION)}


def row_from(kind: type[OfferRow] | type[RateRow], found: Mapping[Any, Any]) -> OfferRow | RateRow:
    """A row of ``kind`` from a joined dimension and point."""
    return kind(**{name: found[name] for name in _FIELDS[kind]})
