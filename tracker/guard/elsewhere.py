"""What others ask for the same: the middle price of a GPU or model over providers, and second sources that tell the same price."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from statistics import median

from sqlalchemy import Connection, func, select

from tracker.exchange import Exchange
from tracker.guard.context import Guard
from tracker.guard.doubts import HAND, SOURCE, Doubt, factor
from tracker.guard.quarantine import PENDING, QUARANTINE, Sighting
from tracker.guard.settings import GuardSettings
from tracker.latest import with_latest
from tracker.listing import DAY_S, GOOD, SWEEP, Kind, Row, gone_column, unseen_at
from tracker.rows import OfferRow, row_from

IMPORTED = "book:"
MOST_THINGS = 200  # more are not named one by one in a query
REFERENCES = ("price", "input", "output")  # cached input is no measure: real prices of one model lie a factor of 40 apart
HALF = Decimal("0.5")  # of the lowest price elsewhere: above that, somebody else asks about the same
OVER = Decimal("1.5")  # of the highest


@dataclass(frozen=True, slots=True)
class Told:
    """A row that is listed, or that waits in a quarantine. ``own``: of the source that is judged; ``old``: no measure of a market."""

    source: str
    row: Row
    fresh: bool
    own: bool = False
    old: bool = False
    waiting: bool = False


# (field, gpu or model, tier) -> provider -> USD
Middles = Mapping[tuple[str, ...], Mapping[str, Decimal]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """What others ask. ``tables`` go from the best measure to the weakest: the first that knows enough providers counts."""

    told: tuple[Told, ...]
    exchange: Exchange
    settings: GuardSettings
    tables: tuple[Middles, ...]

    def doubt(self, row: Row) -> Doubt | None:
        """Why a price is out of line with what others ask for the same, or None. Free prices and slices are not compared.

        One low component is enough, and where another is not low too it is a dip that only a person can believe; a price is
        too high only as a whole.
        """
        if isinstance(row, OfferRow) and row.is_slice:
            return None
        low, high = self._limits(row)
        places = {field: found for field in REFERENCES if (found := self._place(row, field)) is not None}
        for field, place in places.items():
            lopsided = self._lopsided(field, places)
            if place.is_past and (place.share * low <= 1 or lopsided):
                return Doubt(f"{field} {place}", HAND if lopsided else SOURCE)
        if places and all(place.is_over and place.share >= high for place in places.values()):
            field, place = next(iter(places.items()))
            return Doubt(f"{field} {place}", SOURCE)
        return None

    def _limits(self, row: Row) -> tuple[Decimal, Decimal]:
        s = self.settings
        return (s.rent_low, s.rent_high) if isinstance(row, OfferRow) else (s.token_low, s.token_high)

    def _lopsided(self, field: str, places: Mapping[str, _Place]) -> bool:
        """Whether one token price is low by much more than another is, against what enough others ask."""
        place, least = places[field], 1 / self.settings.token_alone
        highest = max(found.share for found in places.values())
        dips = place.share < least and highest / place.share >= self.settings.token_lopsided
        return dips and place.others >= self.settings.providers

    def _place(self, row: Row, field: str) -> _Place | None:
        own = usd_of(row, field, self.exchange)
        key = (field, *_what(row))
        if not own:
            return None
        enough = self.settings.providers if isinstance(row, OfferRow) else self.settings.token_providers
        for table in self.tables:
            others = [usd for provider, usd in table.get(key, {}).items() if provider != row.provider]
            if len(others) >= enough:
                return _Place(own, median(others), min(others), max(others), len(others))
        return None

    def twin(self, row: Row) -> str | None:
        """Another source with a fresh price of the very same thing within the tolerance; None without one."""
        own = [usd_of(row, name, self.exchange) for name in _compared(row)]
        for told in self.told:
            if told.fresh and not told.own and same_thing(told.row, row):
                theirs = [usd_of(told.row, name, self.exchange) for name in _compared(row)]
                if _agree(own, theirs, self.settings.tolerance):
                    return told.source
        return None


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


def load_elsewhere(
    connection: Connection, kind: Kind, guard: Guard, seen: Sighting, printed: Collection[Row], moved: Collection[Row]
) -> Elsewhere:
    """What is listed or waits anywhere about the things of ``moved``, and what this sweep itself printed about them."""
    things = sorted({row.gpu if isinstance(row, OfferRow) else row.model for row in moved})
    told = (*_listed(connection, kind, guard, seen, things), *_waiting(connection, kind, guard, seen))
    listed = [one for one in told if not one.waiting and not one.old]
    now = [Told(seen.source, row, fresh=True, own=True) for row in printed]
    tables = (
        [one for one in listed if one.fresh and not one.own],
        [one for one in listed if one.fresh],
        listed,
        [*listed, *now],
    )
    middles = tuple(_middles(table, seen.at, guard.exchange) for table in tables)
    return Elsewhere(told=told, exchange=guard.exchange, settings=guard.settings, tables=middles)


def _listed(connection: Connection, kind: Kind, guard: Guard, seen: Sighting, things: Sequence[str]) -> Iterator[Told]:
    dimension = kind.dimension
    covered, unseen = _covered(connection, seen.at), unseen_at(connection, seen.at)
    oldest = seen.at - guard.settings.reference_days * DAY_S
    beside, point = with_latest(connection.dialect.name, dimension, kind.point, kind.link, kind.point.c.at <= seen.at)
    query = (
        select(dimension, *(point.c[n] for n in kind.row.VALUES), point.c.at.label("point_at"))
        .select_from(beside)
        .where(gone_column(point).is_(False))
    )
    if len(things) <= MOST_THINGS:
        query = query.where(dimension.c[kind.thing].in_(things))
    for found in connection.execute(query).mappings():
        source, printed = found["source"], max(found["point_at"], covered.get(found["source"], 0))
        last_seen = unseen.get((kind.name, found["id"]), printed)
        fresh, own = guard.is_fresh(source, last_seen, seen.at), source == seen.source
        yield Told(source, row_from(kind.row, found), fresh, own=own, old=last_seen < oldest)


def _covered(connection: Connection, at: int) -> dict[str, int]:
    query = select(SWEEP.c.source, func.max(SWEEP.c.at)).where(SWEEP.c.complete.is_(True), SWEEP.c.status.in_(GOOD), SWEEP.c.at <= at)
    return dict(connection.execute(query.group_by(SWEEP.c.source)).all())


def _waiting(connection: Connection, kind: Kind, guard: Guard, seen: Sighting) -> Iterator[Told]:
    """Prices that other sources saw and that wait there: two sources may confirm each other."""
    query = select(QUARANTINE.c.source, QUARANTINE.c.row, QUARANTINE.c.last_at).where(
        QUARANTINE.c.kind == kind.name, QUARANTINE.c.state == PENDING, QUARANTINE.c.source != seen.source, QUARANTINE.c.row != ""
    )
    for source, row, last_at in connection.execute(query):
        yield Told(source, kind.row(**json.loads(row)), guard.is_fresh(source, last_at, seen.at), waiting=True)


def _middles(told: Iterable[Told], at: int, exchange: Exchange) -> dict[tuple[str, ...], dict[str, Decimal]]:
    """For each field and thing the middle price of every provider."""
    found: dict[tuple[str, ...], dict[str, list[Decimal]]] = {}
    for row in (one.row for one in told if _speaks(one.row, at)):
        for name in REFERENCES:
            usd = usd_of(row, name, exchange)
            if usd:
                found.setdefault((name, *_what(row)), {}).setdefault(row.provider, []).append(usd)
    return {key: {provider: median(prices) for provider, prices in by.items()} for key, by in found.items()}


def _speaks(row: Row, at: int) -> bool:
    """Whether a price says what its provider asks now: in force, standard, without conditions, of a machine somebody vouches for."""
    if row.valid_from is not None and row.valid_from > at:
        return False
    if isinstance(row, OfferRow):
        return not row.is_slice and row.trust != "unverified" and row.price_kind != "indicative"
    ended = row.valid_to is not None and row.valid_to <= at
    return not ended and row.sku == "standard" and not (row.min_prompt_tokens or row.hours_utc or row.weekdays)
