"""One kind of price of one sweep, with what is known about it. Read when asked for: most sweeps change little."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from itertools import filterfalse

from sqlalchemy import Connection

from tracker.book.listing import Kind, Known, Listing, Prices, Row, known_prices, past_prices, prices_of
from tracker.book.spans import DAY_S
from tracker.database.rows import OfferRow
from tracker.guard.balance import balance_doubt
from tracker.guard.changes import change_doubt, flip_doubt, history_doubt
from tracker.guard.context import Guard
from tracker.guard.doubts import Doubt
from tracker.guard.elsewhere import Elsewhere
from tracker.guard.own import imported_twin, own_doubts
from tracker.guard.quarantine import Entry, Sighting, load_entries
from tracker.guard.siblings import Contradictions, contradictions
from tracker.guard.told import Telling

HELD = ("gpu", "gpu_count", "model", "currency")  # parts of an identity that a name of a source does not change


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """What a sweep printed of one kind: usable rows by identity, identities at two prices, and identities of rows that were rejected.

    ``changed`` are those of the rows that are new or not as they are listed; ``whole``: what is not in it is missing.
    """

    rows: Mapping[str, Row]
    changed: Mapping[str, Row] = field(default_factory=dict)
    conflicts: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    rejected: Collection[str] = ()
    whole: bool = True

    def has(self, key: str) -> bool:
        """Whether it was there, usable or not."""
        return key in self.rows or key in self.conflicts or key in self.rejected

    def missing(self, listing: Listing) -> dict[str, Known]:
        """Listed prices that a whole sweep did not print."""
        known = listing.known
        printed = sum(key in known and not known[key].gone for key in self.changed) + len(self.rows) - len(self.changed)
        if not self.whole or printed == len(known) - len(listing.gone):
            return {}
        unseen = filterfalse(self.rows.__contains__, known)
        return {key: known[key] for key in unseen if not known[key].gone and key not in self.conflicts and key not in self.rejected}


@dataclass(frozen=True, slots=True)
class Doubts:
    """Why one price is doubted: for how it moved, and for what contradicts it."""

    moved: tuple[Doubt, ...] = ()
    out_of_line: tuple[Doubt, ...] = ()
    contradicted: tuple[Doubt, ...] = ()

    @property
    def all(self) -> list[Doubt]:
        """Every one of them."""
        return [*self.moved, *self.out_of_line, *self.contradicted]


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is judged. Without slots: what is read lazily is kept in it."""

    connection: Connection
    guard: Guard
    kind: Kind
    seen: Sighting
    listing: Listing
    printed: Printed
    has_entries: bool = True  # False: the quarantine is known to hold nothing of the source

    @property
    def known(self) -> Mapping[str, Known]:
        """The last states by identity."""
        return self.listing.known

    @cached_property
    def moved(self) -> dict[str, Row]:
        """Rows that are new or at another price than the listed one."""
        return {key: row for key, row in self.printed.changed.items() if self.listed(key) != prices_of(row)}

    def listed(self, key: str) -> Prices | None:
        """The listed price; None when there is none."""
        known = self.known.get(key)
        return None if known is None or known.gone else known_prices(known, self.kind)

    @cached_property
    def missing(self) -> dict[str, Known]:
        """Listed prices that a whole sweep did not print."""
        return self.printed.missing(self.listing)

    @cached_property
    def entries(self) -> dict[str, list[Entry]]:
        """What the quarantine holds about the source's prices."""
        return load_entries(self.connection, self.kind, self.seen.source) if self.has_entries else {}

    @cached_property
    def elsewhere(self) -> Elsewhere:
        """What others ask for the same, and what other sources say."""
        printed = self.printed.rows.values()
        telling = Telling(connection=self.connection, kind=self.kind, guard=self.guard, seen=self.seen, printed=printed)
        return Elsewhere(telling=telling, exchange=self.guard.exchange, settings=self.guard.settings)

    @cached_property
    def past(self) -> dict[int, list[tuple[int, Prices]]]:
        """Earlier prices, by id, of the moved rows that were listed before."""
        ids = [self.known[key].id for key in self.moved if key in self.known]
        days = max(self.guard.settings.flip_days, self.guard.settings.history_days)
        return past_prices(self.connection, self.kind, ids, self.seen.at - days * DAY_S)

    @cached_property
    def contradictions(self) -> Contradictions:
        """What the rows of the sweep say against each other."""
        offers = {key: row for key, row in self.printed.rows.items() if isinstance(row, OfferRow)}
        return contradictions(offers, frozenset(self.moved), self.guard.settings, self.guard.exchange)

    @cached_property
    def names(self) -> dict[tuple[object, ...], tuple[object, ...]]:
        """What is listed under each name: the parts of an identity that say which thing it is, and those that say what it holds."""
        found = (self._split(json.loads(key)[1:]) for key, known in self.known.items() if not known.gone)
        return dict(found)

    def _split(self, identity: Sequence[object]) -> tuple[tuple[object, ...], tuple[object, ...]]:
        """An identity as its name, and what is sold under that name in which currency."""
        parts = list(zip(self.kind.row.IDENTITY, identity, strict=True))
        return tuple(v for n, v in parts if n not in HELD), tuple(v for n, v in parts if n in HELD)

    def tolerance(self, row: Row) -> Decimal:
        """How far a second sighting may be from the first."""
        moving = isinstance(row, OfferRow) and (row.tier == "spot" or row.price_kind == "ask")
        return self.guard.settings.moving_tolerance if moving else self.guard.settings.tolerance

    def doubts(self, key: str, row: Row) -> Doubts:
        """Why a moved row is doubted."""
        before, new, settings = self._before(key, row), prices_of(row), self.guard.settings
        contradicted = (*self.contradictions.doubts.get(key, ()), *_only(balance_doubt(row, settings)))
        if before is None:
            return Doubts((), _only(self.elsewhere.doubt(row)), (*contradicted, *self._odd(row)))
        change = change_doubt(before, row, settings)
        if change is not None:
            return Doubts((change,), _only(self.elsewhere.doubt(row)), contradicted)
        past = self.past.get(self.known[key].id, []) if key in self.known else []
        at = self.seen.at
        return Doubts(_only(flip_doubt(past, new, at, settings), history_doubt(past, row, at, settings)), (), contradicted)

    def _odd(self, row: Row) -> tuple[Doubt, ...]:
        """Why something new does not fit to what the same source and provider list."""
        return (*_only(self._renamed(row)), *own_doubts(self.elsewhere, row))

    def _before(self, key: str, row: Row) -> Prices | None:
        """The last price known: listed, listed until it was gone, or imported; None for something new."""
        known = self.known.get(key)
        if known is not None:
            past = self.past.get(known.id, [])
            return self.listed(key) or (past[-1][1] if past else None)
        imported = imported_twin(self.elsewhere, row)
        return prices_of(imported) if imported is not None and imported.currency == row.currency else None

    def _renamed(self, row: Row) -> Doubt | None:
        """The same name is listed with other GPUs or in another currency."""
        name, holds = self._split([getattr(row, part) for part in row.IDENTITY])
        before = self.names.get(name, holds)
        return None if before == holds else Doubt(f"{' '.join(map(str, before))} is now {' '.join(map(str, holds))}")


def _only(*doubts: Doubt | None) -> tuple[Doubt, ...]:
    return tuple(doubt for doubt in doubts if doubt is not None)
