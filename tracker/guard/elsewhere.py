"""What others ask for the same: the middle price of a GPU or model over providers, and second sources that tell the same price."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from statistics import median

from tracker.book.exchange import Exchange
from tracker.book.listing import Row
from tracker.database.rows import OfferRow
from tracker.guard.doubts import HAND, SOURCE, Doubt, factor
from tracker.guard.settings import GuardSettings
from tracker.guard.told import Telling, Told

REFERENCES = ("price", "input", "output")  # cached input is no measure: real prices of one model lie a factor of 40 apart
HALF = Decimal("0.5")  # of the lowest price elsewhere: above that, somebody else asks about the same
OVER = Decimal("1.5")  # of the highest
# from the best measure of a market to the weakest: the first that knows enough providers counts
TABLES: tuple[Callable[[Told], bool], ...] = (
    lambda one: one.fresh and not one.own and not one.old,
    lambda one: one.fresh and not one.printed and not one.old,
    lambda one: not one.printed and not one.old,
    lambda one: not one.old,
)
# one of others that speaks: its row, and what it asks in USD
Voice = tuple[Told, Decimal]


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """What others ask for the things that a sweep is doubted about."""

    telling: Telling
    exchange: Exchange
    settings: GuardSettings
    _voices: dict[tuple[str, ...], Sequence[Voice]] = field(default_factory=dict)
    _found: dict[tuple[object, ...], Mapping[str, Decimal]] = field(default_factory=dict)

    def about(self, row: Row) -> Sequence[Told]:
        """What is listed, or waits at other sources, of the row's provider and GPU or model."""
        return self.telling.about(row)

    def doubt(self, row: Row) -> Doubt | None:
        """Why a price is out of line with what others ask for the same, or None. Free prices and slices are not compared.

        One low component is enough, and where another is not low too it is a dip that only a person can believe; a price is
        too high only as a whole.
        """
        if isinstance(row, OfferRow) and row.is_slice:
            return None
        low, high = self._limits(row)
        places = {name: found for name in REFERENCES if (found := self._place(row, name)) is not None}
        for name, place in places.items():
            lopsided = self._lopsided(name, places)
            if place.is_past and (place.share * low <= 1 or lopsided):
                return Doubt(f"{name} {place}", HAND if lopsided else SOURCE)
        if places and all(place.is_over and place.share >= high for place in places.values()):
            name, place = next(iter(places.items()))
            return Doubt(f"{name} {place}", SOURCE)
        return None

    def _limits(self, row: Row) -> tuple[Decimal, Decimal]:
        s = self.settings
        return (s.rent_low, s.rent_high) if isinstance(row, OfferRow) else (s.token_low, s.token_high)

    def _lopsided(self, name: str, places: Mapping[str, _Place]) -> bool:
        """Whether one token price is low by much more than another is, against what enough others ask."""
        place, least = places[name], 1 / self.settings.token_alone
        highest = max(found.share for found in places.values())
        dips = place.share < least and highest / place.share >= self.settings.token_lopsided
        return dips and place.others >= self.settings.providers

    def _place(self, row: Row, name: str) -> _Place | None:
        own = usd_of(row, name, self.exchange)
        if not own:
            return None
        enough = self.settings.providers if isinstance(row, OfferRow) else self.settings.token_providers
        for table in range(len(TABLES)):
            others = [usd for provider, usd in self._middles(table, name, row).items() if provider != row.provider]
            if len(others) >= enough:
                return _Place(own, median(others), min(others), max(others), len(others))
        return None

    def twin(self, row: Row) -> str | None:
        """Another source with a fresh price of the very same thing within the tolerance; None without one."""
        own = [usd_of(row, name, self.exchange) for name in _compared(row)]
        for told in self.about(row):
            if told.fresh and not told.own and same_thing(told.row, row):
                theirs = [usd_of(told.row, name, self.exchange) for name in _compared(row)]
                if _agree(own, theirs, self.settings.tolerance):
                    return told.source
        return None

    def _middles(self, table: int, name: str, row: Row) -> Mapping[str, Decimal]:
        """What each provider asks in the middle for what ``row`` is of, by those whom a table counts."""
        what = (table, name, *_what(row))
        if what not in self._found:
            prices: dict[str, list[Decimal]] = {}
            for one, usd in self._speaking(name, row):
                if TABLES[table](one):
                    prices.setdefault(one.row.provider, []).append(usd)
            self._found[what] = {provider: median(asked) for provider, asked in prices.items()}
        return self._found[what]

    def _speaking(self, name: str, row: Row) -> Sequence[Voice]:
        what = (name, *_what(row))
        if what not in self._voices:
            same = (one for one in self.telling.market(row) if _what(one.row) == _what(row) and _speaks(one.row, self.telling.seen.at))
            self._voices[what] = [(one, usd) for one in same if (usd := usd_of(one.row, name, self.exchange))]
        return self._voices[what]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a price stands among those of other providers."""

    own: Decimal
    middle: Decimal
    lowest: Decimal
    highest: Decimal
    others: int

    @property
    def share(self) -> Decimal:
        return self.own / self.middle

    def __str__(self) -> str:
        side = "below" if self.own < self.middle else "above"
        return f"is {factor(self.own, self.middle):.1f} times {side} the middle of {self.others} other providers"

    @property
    def is_past(self) -> bool:
        """Whether nobody else asks about so little."""
        return self.own < self.lowest * HALF

    @property
    def is_over(self) -> bool:
        """Whether nobody else asks nearly as much."""
        return self.own > self.highest * OVER


def _what(row: Row) -> tuple[str, ...]:
    return (row.gpu, row.tier) if isinstance(row, OfferRow) else (row.model,)


def _compared(row: Row) -> tuple[str, ...]:
    return ("price",) if isinstance(row, OfferRow) else ("input", "cache_read", "output")


def usd_of(row: Row, name: str, exchange: Exchange) -> Decimal | None:
    """USD per GPU-hour or per Mtok; None when unknown."""
    if isinstance(row, OfferRow):
        usd = exchange.usd(row.native_per_hour, row.currency) if name == "price" else None
        return None if usd is None else usd / row.gpu_count
    native = getattr(row.native, name, None)
    return None if native is None else exchange.usd(native, row.currency)


def same_thing(one: Row, other: Row) -> bool:
    """Whether two rows price one thing, whatever their sources call it and in whichever currency."""
    names = (
        ("provider", "gpu", "gpu_count", "tier", "term_months", "trust", "region")
        if isinstance(one, OfferRow)
        else ("provider", "model", "sku", "region", "min_prompt_tokens", "hours_utc", "weekdays", "valid_from")
    )
    return type(one) is type(other) and all(getattr(one, name) == getattr(other, name) for name in names)


def _agree(own: list[Decimal | None], theirs: list[Decimal | None], tolerance: Decimal) -> bool:
    """Whether all prices that both know are the same, and there is one."""
    both = [(a, b) for a, b in zip(own, theirs, strict=True) if a is not None and b is not None]
    return bool(both) and all(abs(a - b) <= tolerance * max(a, b) for a, b in both)


def _speaks(row: Row, at: int) -> bool:
    """Whether a price says what its provider asks now: in force, standard, without conditions, of a machine somebody vouches for."""
    if row.valid_from is not None and row.valid_from > at:
        return False
    if isinstance(row, OfferRow):
        return not row.is_slice and row.trust != "unverified" and row.price_kind != "indicative"
    ended = row.valid_to is not None and row.valid_to <= at
    return not ended and row.sku == "standard" and not (row.min_prompt_tokens or row.hours_utc or row.weekdays)
