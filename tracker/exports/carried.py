"""What is carried from one step of an export to the next: how sources did, and token rates, most of which rest for weeks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, select

from engine.rates import TokenRate
from tracker.answers.health import health_of
from tracker.answers.snapshot import SourceHealth
from tracker.book.asof import ID, Row
from tracker.book.entries import Entries, Listed, Reading
from tracker.book.entry_values import listed_rate
from tracker.book.listing import GOOD, SWEEP
from tracker.book.row_fields import RATE_CURRENCY
from tracker.config import Source
from tracker.database.rows import to_s
from tracker.guard.counts import GuardCounts

ROWS_AT_ONCE = 10_000


@dataclass(slots=True)
class _Done:
    """The sweeps of a source so far."""

    last: RowMapping
    sweeps: int = 0
    failures: int = 0
    success: int | None = None


class Swept:
    """How each source did, from its sweeps in the order of time: each is read once. Asked with moments that never go back.

    What waits in quarantine and what its data says of a licence are of today only, and not told.
    """

    def __init__(self, connection: Connection, sources: Mapping[str, Source]) -> None:
        self._sources = sources
        names = ("source", "at", "lag_ms", "status", "rows", "skipped", "took_ms", "bytes", "error")
        query = select(*(SWEEP.c[name] for name in names)).order_by(SWEEP.c.at).execution_options(yield_per=ROWS_AT_ONCE)
        self._ahead = iter(connection.execute(query).mappings())
        self._next = next(self._ahead, None)
        self._done: dict[str, _Done] = {}

    def health(self, at: datetime) -> tuple[SourceHealth, ...]:
        """Health of every configured source at ``at``."""
        while self._next is not None and self._next["at"] <= to_s(at):
            self._count(self._next)
            self._next = next(self._ahead, None)
        return tuple(self._of(source, at) for source in self._sources.values())

    def _count(self, row: RowMapping) -> None:
        done = self._done.setdefault(row["source"], _Done(row))
        good = row["status"] in GOOD
        done.last, done.sweeps, done.failures = row, done.sweeps + 1, done.failures + (not good)
        done.success = row["at"] if good else done.success

    def _of(self, source: Source, at: datetime) -> SourceHealth:
        done = self._done.get(source.id)
        totals = None if done is None else (done.sweeps, done.failures, done.success)
        return health_of(source, totals, None if done is None else done.last, GuardCounts(), at, "")


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
