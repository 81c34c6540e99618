"""What is carried from one step of an export to the next: how sources did, and token rates, most of which rest for weeks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from engine.rates import TokenRate
from tracker.answers import tallies
from tracker.answers.health import health_of
from tracker.answers.snapshot import SourceHealth
from tracker.book.asof import ID, Row
from tracker.book.entries import Entries, Listed, Reading
from tracker.book.entry_values import listed_rate
from tracker.book.listing import SWEEP
from tracker.book.row_fields import RATE_CURRENCY
from tracker.config import Source
from tracker.database.rows import to_s

ROWS_AT_ONCE = 10_000


class Swept:
    """How each source did, from its sweeps in the order of time: each is read once. Asked with moments that never go back.

    What waits in quarantine and what its data says of a licence are of today only, and not told.
    """

    def __init__(self, connection: Connection, sources: Mapping[str, Source]) -> None:
        self._sources = sources
        names = ("source", *tallies.Swept._fields)
        query = select(*(SWEEP.c[name] for name in names)).order_by(SWEEP.c.at).execution_options(yield_per=ROWS_AT_ONCE)
        self._ahead = ((source, tallies.Swept(*rest)) for source, *rest in connection.execute(query))
        self._next = next(self._ahead, None)
        self._done: defaultdict[str, tallies.Tally] = defaultdict(tallies.Tally)

    def health(self, at: datetime) -> tuple[SourceHealth, ...]:
        """Health of every configured source at ``at``."""
        while self._next is not None and self._next[1].at <= to_s(at):
            source, swept = self._next
            self._done[source].add(swept)
            self._next = next(self._ahead, None)
        return tuple(health_of(source, self._done[source.id], at) for source in self._sources.values())


@dataclass(slots=True)
class Remembered:
    """Rates that were made of rows before, as long as all that is told of them stays; when they were seen is not told."""

    _made: dict[int, tuple[tuple[Any, ...], Listed[TokenRate]]] = field(default_factory=dict)

    def of(self, entries: Entries[TokenRate]) -> Entries[TokenRate]:
        """The same rows, whose values are made once."""
        return Entries(entries.rows, replace(entries.reading, build=self._build))

    def _build(self, row: Row, reading: Reading[TokenRate]) -> Listed[TokenRate]:
        told = (row, reading.fresh(row), reading.fx(row[RATE_CURRENCY]), reading.starts.get(row[ID]))
        known = self._made.get(row[ID])
        if known is None or known[0] != told:
            known = self._made[row[ID]] = (told, listed_rate(row, reading))
        return known[1]
