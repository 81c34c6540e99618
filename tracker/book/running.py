"""The book of now, kept from one look to the next: of a source that moved since only what moved is taken over.

Each look asks the database where every source stands. Whether it stands where it did, what this process itself stored of it since, or,
where another process did, its rows read anew: the book is always that of the transaction that looks. It is read whole at the start, after
an import, when the clock was set back, and now and then, should somebody have changed the database by hand.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection

from tracker.book.asof import AT, ID, IMPORTED, SOURCE, Moment, Row, Rows, as_known, rows_at
from tracker.book.book import Book, book_of, read_book
from tracker.book.exchange import PUBLISHED, Exchange, load_exchange
from tracker.book.listing import OFFERS, RATES, Kind, Known
from tracker.book.marks import Marks, marks_of
from tracker.book.remembered import Remembered, Updates
from tracker.book.row_fields import (
    CURRENCY,
    GPU,
    IS_SLICE,
    MODEL,
    PROVIDER,
    RATE_CURRENCY,
    RATE_REGION,
    RATE_SKU,
    REGION,
    SELLER,
    TIER,
    VALID_FROM,
)
from tracker.book.standing import Version
from tracker.config import HOUR_S, Source
from tracker.database.rows import to_s

COUNTED = {  # by the name of a kind: fields of an identity, and whether it is a slice
    "offer": ((SOURCE, PROVIDER, TIER, REGION), (SOURCE, PROVIDER, GPU, CURRENCY, VALID_FROM, IS_SLICE)),
    "rate": ((SOURCE, SELLER, MODEL, RATE_SKU, RATE_REGION, RATE_CURRENCY),),
}
WHOLE_S = 6 * HOUR_S  # after which it is read whole again
SETTLED_S = 2  # after which a price that a person accepted, dated after everything else, is seen
MOST = 6  # sources that are read one by one; for more the whole book is


@dataclass(slots=True)
class _Side:
    """The rows of one kind by id, ascending; None where an offer or rate is not listed any more."""

    kind: Kind
    rows: dict[int, Row | None] = field(default_factory=dict)
    unsorted: bool = False  # rows came that were not listed, and have lower ids
    unseen: dict[int, int] = field(default_factory=dict)
    starts: Mapping[int, int] = field(default_factory=dict)
    counts: dict[tuple[int, ...], Counter[Any]] = field(default_factory=dict)  # rows by fields that a price does not move
    every: dict[tuple[int, ...], frozenset[Any]] = field(default_factory=dict)  # what is counted, while that stays the same

    def take_whole(self, found: Rows) -> None:
        """Everything that was read."""
        self.rows = dict(zip([row[ID] for row in found.told], _with_shared_words(found.told), strict=True))
        self.unseen, self.starts = dict(found.unseen), found.starts
        self.counts = {fields: Counter(map(itemgetter(*fields), found.told)) for fields in COUNTED[self.kind.name]}
        self.every = {}

    def take_source(self, source: str, found: Rows) -> None:
        """Everything that was read of one source."""
        for id_ in [id_ for id_, row in self.rows.items() if row is not None and row[SOURCE] == source]:
            self._drop(id_)
            self.unseen.pop(id_, None)
        for row in _with_shared_words(found.told):
            self._put(row[ID], row)
            if row[ID] in found.unseen:
                self.unseen[row[ID]] = found.unseen[row[ID]]

    def take_changes(self, source: str, changed: Mapping[str, Known]) -> None:
        """What a sweep of this process changed of a source."""
        prices, words = len(self.kind.row.VALUES), AT + 1 + len(self.kind.row.IDENTITY)
        rows, unseen = self.rows, self.unseen
        for key, (id_, at, gone, state, absence) in changed.items():
            held = rows.get(id_)
            if gone:
                self._drop(id_)
            elif held is None:
                self._put(id_, (id_, source, source, at, *json.loads(key)[1:], *state[prices:], *state[:prices]))
            elif at != held[AT]:
                self._put(id_, (*held[:AT], at, *held[AT + 1 : words], *state[prices:], *state[:prices]))
            elif held[words:] != (told := (*state[prices:], *state[:prices])):  # else it was only not printed, or printed again
                self._put(id_, (*held[:words], *told))
            if absence is None:
                unseen.pop(id_, None)
            else:
                unseen[id_] = absence.last_seen

    def _put(self, id_: int, row: Row) -> None:
        held = self.rows.get(id_)
        if held is None:
            self.unsorted = self.unsorted or (id_ not in self.rows and bool(self.rows) and id_ < next(reversed(self.rows)))
        if held is None or (held[IS_SLICE] != row[IS_SLICE] and self.kind is OFFERS):
            self._count(row, 1)
            self._count(held, -1)
        self.rows[id_] = row

    def _drop(self, id_: int) -> None:
        self._count(self.rows.get(id_), -1)
        self.rows[id_] = None

    def _count(self, row: Row | None, one: int) -> None:
        if row is None:
            return
        for fields, counted in self.counts.items():
            what = itemgetter(*fields)(row)
            now = counted[what] = counted[what] + one
            if not now:
                del counted[what]
            if now in (0, one):  # the last one went, or the first came
                self.every.pop(fields, None)

    def told(self, covered: Mapping[str, int]) -> Rows:
        """The rows as one reading gives them."""
        if self.unsorted:
            self.rows, self.unsorted = {id_: self.rows[id_] for id_ in sorted(self.rows)}, False
        for fields, counted in self.counts.items():
            if fields not in self.every:
                self.every[fields] = _the_same(frozenset(counted))
        told = list(filter(None, self.rows.values()))
        return Rows(told=told, covered=covered, unseen=dict(self.unseen), starts=self.starts, every=dict(self.every))


@lru_cache(maxsize=8)
def _the_same(told: frozenset[Any]) -> frozenset[Any]:
    """What was told before, where this is equal to it: what follows from it is looked up by its being the same."""
    return told


def _with_shared_words(rows: list[Row]) -> list[Row]:
    """The rows with every text once: most are the same in thousands of rows."""
    words: dict[str, str] = {}
    return [tuple([words.setdefault(x, x) if type(x) is str else x for x in row]) for row in rows]


@dataclass(slots=True)
class RunningBook:
    """Owns the rows of the book as of its last look. One thread looks at a time."""

    sources: Mapping[str, Source]
    remembered: Remembered
    _sides: tuple[_Side, ...] = ()
    _marks: Marks | None = None
    _read_at: int = 0  # when it was read whole
    _looked_at: int = 0
    _again: set[str] = field(default_factory=set)  # sources of which an accepted price may still come to be seen
    _settled: dict[str, Version] = field(default_factory=dict)
    _exchange: tuple[Any, Exchange] | None = None

    def read(self, connection: Connection, at: datetime) -> Book:
        """The book at ``at``, as this transaction sees it."""
        before, self._marks = self._marks, None  # whatever goes wrong from here on, the next look reads it whole
        moment, marks = as_known(connection, at), marks_of(connection)
        if moment.in_hindsight or marks.latest > to_s(at):  # what is known by then is not all that is stored
            return read_book(connection, at, self.sources)
        read = None if before is None else self._follow(connection, moment, before, marks)
        if read is None:
            read = self._read_whole(connection, moment, marks)
        self._settle(read, marks, to_s(at))
        offers, rates = (side.told(marks.covered) for side in self._sides)
        found = book_of(offers, rates, moment, self.sources, self._rates(connection, moment, marks))
        self._marks, self._looked_at = marks, to_s(at)
        return found

    def _read_whole(self, connection: Connection, moment: Moment, marks: Marks) -> set[str]:
        self._sides, self._read_at, self._settled = (_Side(OFFERS), _Side(RATES)), to_s(moment.at), {}
        for side in self._sides:
            side.take_whole(rows_at(connection, side.kind, moment))
        return set(marks.versions)

    def _follow(self, connection: Connection, moment: Moment, before: Marks, marks: Marks) -> set[str] | None:
        """Take over what changed since, and tell which sources were read for that; None where only the whole book tells."""
        at = to_s(moment.at)
        if before.learnt != marks.learnt or not self._looked_at <= at < self._read_at + WHOLE_S:
            return None
        moves = {source: self._moves(source, before.versions.get(source), version) for source, version in marks.versions.items()}
        anew = {source for source, found in moves.items() if found is None} | self._again
        if len(anew) > MOST or any(source.startswith(IMPORTED) for source in anew):
            return None
        for source, found in moves.items():
            for changed in found or ():
                for side in self._sides:
                    side.take_changes(source, changed.get(side.kind.name, {}))
        for source in anew:
            self._read_source(connection, moment, source)
        return anew

    def _moves(self, source: str, before: Version | None, after: Version) -> list[Updates] | None:
        """What this process stored of a source between two versions of it; None where it does not know all of that."""
        if before == after:
            return []
        return None if before is None else self.remembered.moves(source, before, after)

    def _read_source(self, connection: Connection, moment: Moment, source: str) -> None:
        for side in self._sides:
            side.take_source(source, rows_at(connection, side.kind, moment, {"source": (source,)}))

    def _settle(self, read: set[str], marks: Marks, at: int) -> None:
        """A price that a person accepted may be dated a little after this look: its source is read until it can no longer be."""
        self._again = set()
        for source, version in marks.versions.items():
            accepted = version._replace(sweep=0, at=0)
            if version.accepted and self._settled.get(source) != accepted:
                if source in read and at > max(marks.decided.get(source, 0), version.at) + SETTLED_S:
                    self._settled[source] = accepted
                else:
                    self._again.add(source)

    def _rates(self, connection: Connection, moment: Moment, marks: Marks) -> Exchange:
        """Exchange rates: others when their source was read, at midnight, and when those of the day are published."""
        key = (moment.at.date(), moment.at.timetz() >= PUBLISHED, marks.other, self._read_at)
        if self._exchange is None or self._exchange[0] != key:
            self._exchange = (key, load_exchange(connection, moment))
        return self._exchange[1]
