"""What a provider asks per token, by token kind, and when an entry of its price list holds."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Literal

from engine.units import HOURS_PER_DAY, MINUTES_PER_HOUR

TokenKind = Literal["input", "cache_read", "cache_write_5m", "cache_write_1h", "output"]
TOKEN_KINDS: tuple[TokenKind, ...] = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output")
Money = Literal["usd", "native"]

MINUTES_PER_DAY = HOURS_PER_DAY * MINUTES_PER_HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPrices:
    """Price per Mtok (10**6 tokens) by token kind, all in one currency. None is unknown; 0 is free and was stated."""

    input: Decimal | None = None
    cache_read: Decimal | None = None
    cache_write_5m: Decimal | None = None
    cache_write_1h: Decimal | None = None
    output: Decimal | None = None

    def __post_init__(self) -> None:
        for kind in TOKEN_KINDS:
            value = self.of(kind)
            if value is not None and (not value.is_finite() or value < 0):
                raise ValueError(f"token price {kind} must be a finite number of at least 0, got {value}")

    def of(self, kind: TokenKind) -> Decimal | None:
        """Price per Mtok of one kind; None is unknown."""
        value: Decimal | None = getattr(self, kind)
        return value

    def times(self, factor: Decimal) -> TokenPrices:
        """Every known price times ``factor`` (an exchange rate or a batch discount); unknown stays unknown."""
        return TokenPrices(**{f.name: None if (v := getattr(self, f.name)) is None else v * factor for f in fields(self)})

    def over(self, base: TokenPrices) -> TokenPrices:
        """These prices, and ``base`` where they say nothing."""
        return TokenPrices(**{kind: base.of(kind) if (v := self.of(kind)) is None else v for kind in TOKEN_KINDS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """When a rate applies. The default always applies; several rates of one key are told apart by these."""

    min_prompt_tokens: int = 0  # the whole request is re-rated when its prompt is larger than (or equal to) this
    tier_inclusive: bool = False  # True: a prompt of exactly ``min_prompt_tokens`` is already in the tier
    hours_utc: str = ""  # "06:00-10:00" or several with commas; start inclusive, end exclusive, may wrap midnight; "" is all day
    weekdays: str = ""  # ISO weekdays, "12345"; a window that wraps midnight belongs to the day it starts on; "" is every day

    def __post_init__(self) -> None:
        if self.min_prompt_tokens < 0:
            raise ValueError(f"min_prompt_tokens must be at least 0, got {self.min_prompt_tokens}")
        if set(self.weekdays) - set("1234567"):
            raise ValueError(f"weekdays must be ISO digits 1..7, got {self.weekdays!r}")
        windows(self.hours_utc)

    @property
    def timed(self) -> bool:
        """Whether the hour or the weekday decides."""
        return bool(self.hours_utc or self.weekdays)

    @property
    def specificity(self) -> tuple[int, int, bool]:
        """Orders entries from general to special: by how much they ask, then by the higher tier, then by hours."""
        tiered = self.min_prompt_tokens > 0
        return (tiered + bool(self.hours_utc) + bool(self.weekdays), self.min_prompt_tokens, bool(self.hours_utc))

    def hold(self, prompt_tokens: int, at: datetime) -> bool:
        """Whether they hold for a prompt of this size at this time."""
        return self._in_tier(prompt_tokens) and (not self.timed or self._in_hours(at.astimezone(UTC)))

    def _in_tier(self, prompt_tokens: int) -> bool:
        if self.min_prompt_tokens == 0:
            return True
        return prompt_tokens > self.min_prompt_tokens or (self.tier_inclusive and prompt_tokens == self.min_prompt_tokens)

    def _in_hours(self, at: datetime) -> bool:
        minute = at.hour * MINUTES_PER_HOUR + at.minute
        today, yesterday = self._on(at.date()), self._on(at.date() - timedelta(days=1))
        for start, end in windows(self.hours_utc):
            if start < end:
                if today and start <= minute < end:
                    return True
            elif (today and minute >= start) or (yesterday and minute < end):
                return True
        return False

    def _on(self, day: date) -> bool:
        return not self.weekdays or str(day.isoweekday()) in self.weekdays


@lru_cache(maxsize=512)
def windows(hours_utc: str) -> tuple[tuple[int, int], ...]:
    """Windows of a day as (start, end) in minutes from midnight; end <= start wraps; "" is the whole day."""
    if not hours_utc:
        return ((0, MINUTES_PER_DAY),)
    return tuple(_window(text) for text in hours_utc.split(","))


def _window(text: str) -> tuple[int, int]:
    start, dash, end = text.strip().partition("-")
    if not dash:
        raise ValueError(f'hours must read "06:00-10:00", got {text!r}')
    first, last = _minute(start), _minute(end)
    if first >= MINUTES_PER_DAY:
        raise ValueError(f"a window must start before 24:00, got {text!r}")
    return first, last


def _minute(text: str) -> int:
    hour, colon, minute = text.strip().partition(":")
    if not (colon and hour.isdecimal() and minute.isdecimal() and len(minute) == 2):
        raise ValueError(f'a time must read "06:00", got {text!r}')
    total = int(hour) * MINUTES_PER_HOUR + int(minute)
    if int(minute) >= MINUTES_PER_HOUR or total > MINUTES_PER_DAY:
        raise ValueError(f"a time must lie within 00:00..24:00, got {text!r}")
    return total


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRate:
    """One provider's price list entry for one model. ``native`` is as printed, ``usd`` at ``fx_rate`` of ``fx_day``."""

    provider: str
    source: str
    model: str
    source_model: str
    sku: str = "standard"
    region: str = ""
    currency: str
    native: TokenPrices
    usd: TokenPrices
    fx_rate: Decimal = Decimal(1)  # native currency per USD
    fx_day: date | None = None
    conditions: Conditions = Conditions()
    valid_from: datetime | None = None  # inclusive; None: in force since before it was first seen
    valid_to: datetime | None = None  # exclusive; None: open
    seen_at: datetime
    source_url: str = ""

    def in_force(self, at: datetime) -> bool:
        """Whether the validity interval [valid_from, valid_to) holds ``at``."""
        return (self.valid_from is None or self.valid_from <= at) and (self.valid_to is None or at < self.valid_to)

    def prices(self, money: Money) -> TokenPrices:
        """Prices per Mtok in USD or in the currency as printed."""
        return self.usd if money == "usd" else self.native
