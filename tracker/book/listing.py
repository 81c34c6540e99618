"""What a source listed last: its offers and rates with their last prices, and those that its last sweeps did not print."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import compress
from operator import itemgetter, ne
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, Table, bindparam, select

from engine.rates import TOKEN_KINDS
from tracker.database.latest import newest_first, with_latest
from tracker.database.limits import in_parts
from tracker.database.postgres import marked
from tracker.database.rows import OfferRow, RateRow, states
from tracker.database.schema import TABLES

SWEEP, UNSEEN = TABLES["sweep"], TABLES["unseen"]
OFFER, OFFER_POINT, STATISTIC = TABLES["offer"], TABLES["offer_point"], TABLES["statistic"]
RATE, RATE_POINT = TABLES["rate"], TABLES["rate_point"]
ENDED_MS = (SWEEP.c.at * 1000 + SWEEP.c.lag_ms).label("ended_ms")  # when a sweep ended and was recorded
GOOD = ("ok", "unchanged")
_told = itemgetter(3)  # the state of an entry
MISSED, HELD, ACCEPTED = "missed", "held", "accepted"  # why a listed price is not printed
_ABSENCE = (UNSEEN.c.since, UNSEEN.c.until, UNSEEN.c.last_seen, UNSEEN.c.why)

Row = OfferRow | RateRow
Prices = Mapping[str, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Offers or rates: where they are kept, and which of their fields are prices."""

    name: str
    dimension: Table
    point: Table
    link: str
    row: type[OfferRow] | type[RateRow]
    thing: str  # column of what is sold
    prices: tuple[str, ...]


OFFERS = Kind(name="offer", dimension=OFFER, point=OFFER_POINT, link="offer_id", row=OfferRow, thing="gpu", prices=("price",))
RATES = Kind(name="rate", dimension=RATE, point=RATE_POINT, link="rate_id", row=RateRow, thing="model", prices=TOKEN_KINDS)


@dataclass(frozen=True, slots=True)
class Absence:
    """A stretch of sweeps that did not print the listed price. ``until`` is None while it goes on."""

    since: int
    until: int | None
    last_seen: int
    why: str  # missed, held, accepted

    def holds(self, at: int) -> bool:
        """Whether it includes a moment."""
        return self.since <= at and (self.until is None or at < self.until)


class Known(NamedTuple):
    """The last state of an offer or rate: its values, then its description. A tuple: every sweep makes one of each."""

    id: int
    at: int
    gone: bool  # no longer listed; its values say nothing then
    state: tuple[Any, ...]
    absence: Absence | None

    @property
    def is_missed(self) -> bool:
        """Whether the last sweep did not print it."""
        return self.absence is not None and self.absence.why == MISSED


known_of: Callable[[tuple[Any, ...]], Known] = partial(tuple.__new__, Known)  # of its fields; Known(...) itself takes twice as long


@dataclass(slots=True)
class Listing:
    """The last states of a source's offers or rates by identity, and which of them are missing or no longer listed."""

    known: dict[str, Known] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    _states: dict[str, tuple[Any, ...]] = field(init=False, compare=False)  # of ``known``: most rows need no more than a look at it

    def __post_init__(self) -> None:
        self._states = {key: entry[3] for key, entry in self.known.items()}

    def differing(self, rows: Mapping[str, Row], told: Iterable[tuple[Any, ...]] | None = None) -> dict[str, Row]:
        """Those of the rows, by identity and all of one kind, that are new or not as they are listed. ``told``: their states, if known."""
        if told is None:
            told = states(rows.values())
        found = {key: rows[key] for key in compress(rows, map(ne, told, map(self._states.get, rows)))}
        back = [key for key in self.gone if key in rows and key not in found]
        return {key: row for key, row in rows.items() if key in found or key in back} if back else found

    def share_words(self, kind: Kind) -> None:
        """Hold one copy of each description: most rows of a source have the same, and a third of the memory was theirs."""
        words: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        prices = len(kind.row.VALUES)
        for key, (id_, at, gone, told, absence) in self.known.items():
            own = told[prices:]
            self._states[key] = told[:prices] + words.setdefault(own, own)
            self.known[key] = known_of((id_, at, gone, self._states[key], absence))

    def update(self, changed: Mapping[str, Known]) -> None:
        """What some of them are from now on."""
        self.known.update(changed)
        self._states.update(zip(changed, map(_told, changed.values()), strict=True))
        self.absent = self.absent - changed.keys() | {key for key, entry in changed.items() if entry.absence is not None}
        self.gone = self.gone - changed.keys() | {key for key, entry in changed.items() if entry.gone}


def said(kind: Kind, identity: str, name: str) -> Any:
    """What an identity says of the column of that name."""
    return json.loads(identity)[1 + kind.row.IDENTITY.index(name)]


def prices_of(row: Row) -> Prices:
    """The prices of a row by field, scaled; None is unknown."""
    names = ("price",) if isinstance(row, OfferRow) else TOKEN_KINDS
    return {name: getattr(row, name) for name in names}


def known_prices(known: Known, kind: Kind) -> Prices:
    """The last prices of a listed offer or rate."""
    return {name: value for name, value in zip(kind.row.VALUES, known.state, strict=False) if name in kind.prices}


def load_listing(connection: Connection, kind: Kind, source: str) -> Listing:
    """Last state of every offer or rate of ``source``."""
    with newest_first(connection):
        found = connection.execute(_last_states(kind, connection.dialect.name), {"source": source})
    rows = found.cursor.fetchall()  # the driver's own tuples: a third less time over thousands of rows
    found.close()
    absences = _open_absences(connection, kind, source) if rows else {}
    states_from = 4 if kind is RATES else 3
    known = {row[1]: known_of((row[0], row[2], False, row[states_from:], None)) for row in rows}
    absent = {row[1]: absences[row[0]] for row in rows if row[0] in absences} if absences else {}
    gone = {row[1] for row in rows if row[3]} if kind is RATES else {row[1] for row in rows if row[3] is None}
    for key in gone | absent.keys():  # few
        known[key] = known[key]._replace(gone=key in gone, absence=absent.get(key))
    return Listing(known, set(absent), gone)


@lru_cache(maxsize=4)
def _last_states(kind: Kind, dialect: str) -> Select[Any]:
    """The newest point of every offer or rate of a source, with what it is of. Built once: it is asked with every sweep.

    Whether it is gone a rate says itself, and an offer by its price: SQLite would work that out twice.
    """
    dimension = kind.dimension
    beside, point = with_latest(dialect, dimension, kind.point, kind.link)
    return (
        select(
            dimension.c.id,
            dimension.c.key,
            point.c.at,
            *((point.c.gone,) if kind is RATES else ()),
            *(point.c[n] for n in kind.row.VALUES),
            *(dimension.c[n] for n in kind.row.DESCRIPTION),
        )
        .select_from(beside)
        .where(dimension.c.source == bindparam("source"))
    )


def _open_absences(connection: Connection, kind: Kind, source: str) -> dict[int, Absence]:
    found = connection.execute(_absent(kind), {"source": source})
    return {target: Absence(*rest) for target, *rest in found.all()}


@lru_cache(maxsize=2)
def _absent(kind: Kind) -> Select[Any]:
    return (
        select(UNSEEN.c.target, *_ABSENCE)
        .join(kind.dimension, kind.dimension.c.id == UNSEEN.c.target)
        .where(UNSEEN.c.kind == kind.name, UNSEEN.c.until.is_(None), kind.dimension.c.source == bindparam("source"))
    )


def gone_column(point: Any) -> Any:
    """Whether a point says that its offer or rate is no longer listed."""
    return point.c.gone if "gone" in point.c else point.c.price.is_(None)


def whole_sweeps(connection: Connection, source: str, since: int) -> list[int]:
    """Moments since then at which the source was covered whole, ascending."""
    return list(connection.exec_driver_sql(marked(connection, _WHOLE_SWEEPS), (source, since)).scalars())


_WHOLE_SWEEPS = "select at from sweep where source = ? and at >= ? and complete and status in ('ok', 'unchanged') order by at"


def past_prices(connection: Connection, kind: Kind, ids: Sequence[int], since: int) -> dict[int, list[tuple[int, Prices]]]:
    """For each id the prices in force since then, each with the moment it was first seen, ascending; the first may be older."""
    dimension, table = kind.dimension, kind.point
    beside, before = with_latest(connection.dialect.name, dimension, table, kind.link, table.c.at <= since, gone_column(table).is_(False))
    found: dict[int, list[tuple[int, Prices]]] = {}
    for some in in_parts(ids):
        older = select(*_priced(before, kind)).select_from(beside).where(dimension.c.id.in_(some))
        later = select(*_priced(table, kind)).where(table.c[kind.link].in_(some), table.c.at > since, gone_column(table).is_(False))
        with newest_first(connection):
            points = list(connection.execute(older))
        points += connection.execute(later.order_by(table.c[kind.link], table.c.at)).all()
        for id_, at, *rest in points:
            found.setdefault(id_, []).append((at, dict(zip(kind.prices, rest, strict=True))))
    return found


def _priced(point: Any, kind: Kind) -> list[Any]:
    return [point.c[name] for name in (kind.link, "at", *kind.prices)]


def unseen_at(connection: Connection, at: int) -> dict[tuple[str, int], int]:
    """What was listed but not printed at a moment: (kind, id) -> its own last sighting."""
    query = select(UNSEEN.c.kind, UNSEEN.c.target, UNSEEN.c.last_seen).where(
        UNSEEN.c.since <= at, UNSEEN.c.until.is_(None) | (UNSEEN.c.until > at)
    )
    return {(kind, target): last_seen for kind, target, last_seen in connection.execute(query)}


def absences_of(connection: Connection, kind: Kind) -> dict[int, list[Absence]]:
    """Stretches without the listed price by id, ascending."""
    query = select(UNSEEN.c.target, *_ABSENCE).where(UNSEEN.c.kind == kind.name).order_by(UNSEEN.c.target, UNSEEN.c.since)
    found: dict[int, list[Absence]] = {}
    for target, *rest in connection.execute(query):
        found.setdefault(target, []).append(Absence(*rest))
    return found
