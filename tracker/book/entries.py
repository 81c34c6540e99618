"""The offers and rates of a book as the database told them: whole numbers in rows. A row becomes a value, with its exact money in
two currencies and its moments, when somebody first looks at it; most of a book's tens of thousands nobody ever does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from operator import itemgetter
from typing import Any, Generic, Literal, TypeVar, overload

from engine.offers import GpuOffer
from engine.rates import TokenRate
from tracker.book.asof import AT, ID, IMPORTED, SOURCE, Row
from tracker.book.cheapest import Shape, cheapest
from tracker.book.exchange import Exchange
from tracker.book.parts import Part, parted
from tracker.book.trail import Fields, Trail
from tracker.config import Source, whole_s
from tracker.database.rows import from_s, to_s

ALL: Literal["all"] = "all"  # instead of the entries themselves, which would then hold themselves
ENDLESS = 2**63 - 1  # a moment after every other

Value = TypeVar("Value", GpuOffer, TokenRate)


@dataclass(frozen=True, slots=True)
class Listed(Generic[Value]):
    """An offer or rate of the book. ``fresh``: seen live within its source's age limit; imported rows never are."""

    value: Value
    origin: str
    fresh: bool
    imported: bool
    is_slice: bool = False

    @property
    def seen_at(self) -> datetime:
        """When its price was last seen."""
        return self.value.seen_at


@dataclass(slots=True, kw_only=True)
class Reading(Generic[Value]):
    """What the rows of one reading have in common, and the values that were made of them so far.

    ``at`` is the day of exchange rates, ``until`` the moment ages are counted to. Entries that are no rows of the database are
    ``given``; they have numbers below 0.
    """

    at: datetime
    until: datetime
    exchange: Exchange
    sources: Mapping[str, Source]
    covered: Mapping[str, int]  # source -> last moment it was covered whole
    unseen: Mapping[int, int]  # id -> its own last sighting, of what is listed and was not printed
    starts: Mapping[int, int]  # id -> first moment of the price, of imported rows
    build: Callable[[Row, Reading[Value]], Listed[Value]]
    given: Mapping[int, Listed[Value]] = field(default_factory=dict)
    _made: dict[int, Listed[Value]] = field(init=False)
    _fx: dict[str, tuple[Decimal, date | None]] = field(default_factory=dict, init=False)
    _oldest: dict[str, int] = field(default_factory=dict, init=False)
    _moments: dict[int, datetime] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._made = dict(self.given)

    def listed(self, row: Row) -> Listed[Value]:
        """The entry of a row, the same one whenever it is asked for."""
        found = self._made.get(row[ID])
        return self._made.setdefault(row[ID], self.build(row, self)) if found is None else found

    def imported(self, row: Row) -> bool:
        """Whether it was imported, and not seen live."""
        return self.given[row[ID]].imported if row[ID] < 0 else row[SOURCE].startswith(IMPORTED)

    def seen_at(self, row: Row) -> int:
        """When the price was last seen, as it is stored."""
        own: int = row[AT]
        return self.unseen.get(row[ID]) or max(own, self.covered.get(row[SOURCE], own))

    def fresh(self, row: Row) -> bool:
        """Whether a price was seen within its source's age limit; never of what is not configured, such as imported rows."""
        return self.given[row[ID]].fresh if row[ID] < 0 else self.seen_at(row) >= self.oldest(row[SOURCE])

    def fresh_ones(self, rows: Sequence[Row], sources: Collection[str]) -> Sequence[Row]:
        """Those of some rows of the sources that are fresh; the same rows where all are, as nearly always."""
        if sources and self._all_fresh(sources):
            return rows
        odd = self.unseen.keys() | self.given.keys()
        whole = {source for source in sources if self.covered.get(source, -1) >= self.oldest(source)}
        found = [row for row in rows if (self.fresh(row) if row[ID] in odd else row[SOURCE] in whole or self.fresh(row))]
        return rows if len(found) == len(rows) else found

    def _all_fresh(self, sources: Collection[str]) -> bool:
        """Whether nothing of these sources can be stale, as nearly always; told without looking at any row."""
        oldest = [self.oldest(source) for source in sources if source in self.covered]
        return (
            len(oldest) == len(sources)
            and not self.given
            and all(self.covered[source] >= self.oldest(source) for source in sources)
            and min(self.unseen.values(), default=ENDLESS) >= max(oldest)
        )

    def oldest(self, source: str) -> int:
        """The first stored moment that is within the source's age limit."""
        if source not in self._oldest:
            known = self.sources.get(source)
            self._oldest[source] = ENDLESS if known is None else to_s(self.until) - whole_s(known.settings.max_age_hours)
        return self._oldest[source]

    def fx(self, currency: str) -> tuple[Decimal, date | None]:
        """Units of the currency for one USD, and the day of that; 1, of no day, for USD itself and without a rate."""
        if currency not in self._fx:
            self._fx[currency] = self.exchange.fx(currency, self.at.date())
        return self._fx[currency]

    def moment(self, at: int) -> datetime:
        """A stored moment."""
        if at not in self._moments:
            self._moments[at] = from_s(at)
        return self._moments[at]

    def usd(self, native: Decimal, currency: str) -> Decimal | None:
        """USD; None where there is no rate."""
        return native if currency == "USD" else self.exchange.usd(native, currency, self.at.date())


@lru_cache(maxsize=32)
def _narrowed(told: frozenset[Row], places: tuple[int, ...]) -> frozenset[Any]:
    """Some of the fields of those. What a book tells of its rows is mostly what the book before it told."""
    return frozenset(map(itemgetter(*places), told))


class Entries(Sequence[Listed[Value]]):
    """Rows of one reading in the order of the book, as entries. ``rows`` are for those who look at them all."""

    __slots__ = ("_by", "_cheapest", "_every", "_fresh", "_where", "reading", "rows")

    def __init__(self, rows: Sequence[Row], reading: Reading[Value], every: Mapping[tuple[int, ...], Set[Any]] | None = None) -> None:
        self.rows = rows
        self.reading: Reading[Value] = reading
        self._by: dict[Fields, Mapping[Any, Part]] = {}
        self._cheapest: dict[Fields, Mapping[Shape, Row]] = {}
        self._fresh: Entries[Value] | Literal["all"] | None = None
        self._where: dict[tuple[int, frozenset[Any]], Sequence[Row]] = {}
        self._every: dict[tuple[int, ...], Set[Any]] = dict(every or {})

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Listed[Value]]:
        return map(self.reading.listed, self.rows)

    @overload
    def __getitem__(self, place: int) -> Listed[Value]: ...
    @overload
    def __getitem__(self, place: slice) -> Entries[Value]: ...
    def __getitem__(self, place: int | slice) -> Listed[Value] | Entries[Value]:
        return self.of(self.rows[place]) if isinstance(place, slice) else self.reading.listed(self.rows[place])

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, Entries | tuple | list) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def of(self, rows: Iterable[Row]) -> Entries[Value]:
        """Some of the rows, in their order."""
        found = tuple(rows)
        return self if len(found) == len(self.rows) else Entries(found, self.reading)

    def every(self, *fields: int) -> Set[Any]:
        """Each combination of those fields, or each value of one, that some row has."""
        found = self._every.get(fields)
        if found is None:
            wider = self._wider(fields)
            known = self.rows if wider is None else self._every[wider]
            places = fields if wider is None else tuple(map(wider.index, fields))
            narrowed = _narrowed(known, places) if isinstance(known, frozenset) else set(map(itemgetter(*places), known))
            found = self._every.setdefault(fields, narrowed)
        return found

    def _wider(self, fields: tuple[int, ...]) -> tuple[int, ...] | None:
        """Fields with these among them, of which the combinations are known."""
        for known in list(self._every):
            if len(known) > 1 and set(known).issuperset(fields):
                return known
        return None

    def fresh(self) -> Entries[Value]:
        """Those that are fresh."""
        if self._fresh is None:
            rows = self.reading.fresh_ones(self.rows, self.every(SOURCE))
            self._fresh = ALL if rows is self.rows else Entries(rows, self.reading)
        return self if isinstance(self._fresh, str) else self._fresh

    def by(self, *fields: int) -> Mapping[Any, Part]:
        """The rows by some of their fields, or by one."""
        found = self._by.get(fields)
        return self._by.setdefault(fields, parted(self.rows, fields)) if found is None else found

    def where(self, field: int, wanted: frozenset[Any]) -> Sequence[Row]:
        """The rows with one of these values in a field, in the order of the book."""
        found = self._where.get((field, wanted))
        return self._where.setdefault((field, wanted), [r for r in self.rows if r[field] in wanted]) if found is None else found

    def cheapest(self, *fields: int) -> Mapping[Shape, Row]:
        """The cheapest row of those that are alike in those fields."""
        found = self._cheapest.get(fields)
        return self._cheapest.setdefault(fields, cheapest(self.rows, fields)) if found is None else found

    def follow(self, trail: Trail, by: Fields, alike: Iterable[Fields] = ()) -> None:
        """Take the rows by some of their fields, and the cheapest of those alike in others, from one who follows the books."""
        trail.move(self.rows)
        self._by[by] = trail.parts(by)
        self._cheapest |= {fields: trail.cheapest(fields) for fields in alike}

    def given(self) -> Iterator[Listed[Value]]:
        """Those that are no rows of the database."""
        known = self.reading.given
        return (known[row[ID]] for row in self.rows if row[ID] < 0) if known else iter(())
