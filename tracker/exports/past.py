"""What ``/metrics`` would have said at each step of a range, as runs of equal values: nothing where nothing fresh was known.

Answers are worked out from what was known then, with today's facts and settings. Runs of a series are short where prices rest, so
that years need little room: open ones in memory, one a series, closed ones in a temporary file.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Engine

from tracker.answers.recompute import Sizer, of_book
from tracker.answers.snapshot import Snapshot
from tracker.book.book import read_book
from tracker.database.handle import reading
from tracker.exports.carried import Remembered, Swept
from tracker.exports.moments import Changes, stale_after
from tracker.metrics.exposition import Family
from tracker.metrics.families import families
from tracker.metrics.table import PREFIX
from tracker.moments import NoSuchTime
from tracker.world import World

# What the book can tell of any moment. The others are about the running program, or known of today only.
KNOWN_THEN = (
    "best_setup_usd_per_hour", "best_setup_info", "best_setup_tight", "setup_usd_per_hour", "self_host_usd_per_mtok",
    "self_host_usd_per_month", "api_usd_per_mtok", "api_info", "api_usd_per_month", "break_even_tokens_per_month",
    "break_even_utilization_ratio", "break_even_feasible", "break_even_info", "token_rate_usd_per_mtok", "rental_usd_per_gpu_hour",
    "rental_median_usd_per_gpu_hour", "rental_offers", "fx_units_per_usd", "source_last_success_timestamp_seconds",
    "source_last_attempt_timestamp_seconds", "source_rows", "source_rejected_rows", "source_rejected_rows_by_reason",
    "source_sweep_duration_seconds", "disagreement_ratio", "book_timestamp_seconds", "source_sweeps", "source_failures",
)  # fmt: skip

LAST, VALUE = 1, 2  # of an open run
Labels = tuple[tuple[str, str], ...]
Sample = tuple[str, tuple[str, ...]]  # family, values of its labels


@dataclass(frozen=True, slots=True)
class Run:
    """Equal values of one series at every step from ``first`` to ``last``, both inclusive."""

    labels: Labels
    first: int
    last: int
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Moments from ``start`` on, before ``end``, ``step`` apart."""

    start: datetime
    end: datetime
    step: timedelta

    def __post_init__(self) -> None:
        if self.step <= timedelta(0):
            raise NoSuchTime("the step must be longer than nothing")
        if self.end <= self.start:
            raise NoSuchTime(f"the range ends ({self.end:%Y-%m-%d %H:%M}) before it begins ({self.start:%Y-%m-%d %H:%M})")

    def __len__(self) -> int:
        return -((self.start - self.end) // self.step)

    def at(self, number: int) -> datetime:
        """The moment of a step."""
        return self.start + number * self.step


class Past:
    """The runs of every series over a range, kept in a file that ends with ``close``."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="breakeven-export-")
        self._runs = sqlite3.connect(Path(self._folder.name) / "runs.db", isolation_level=None)
        for pragma in ("journal_mode=OFF", "synchronous=OFF"):  # of use to this run alone
            self._runs.execute(f"PRAGMA {pragma}")
        self._runs.execute(
            "create table run (series integer, first integer, last integer, value real, primary key (series, first)) without rowid"
        )
        self._runs.execute("begin")
        self._ids: dict[Sample, int] = {}
        self._open: dict[Sample, list[Any]] = {}  # first and last step, value
        self.families: dict[str, Family] = {}
        self.samples = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._runs.close()
        self._folder.cleanup()

    def note(self, values: dict[Sample, float], first: int, last: int) -> None:
        """Every series had these values, and no other series any, from step ``first`` to ``last``."""
        self.samples += len(values) * (last - first + 1)
        open_ = self._open
        for sample in open_.keys() - values.keys():
            self._close(sample, open_.pop(sample))
        for sample, value in values.items():
            run = open_.get(sample)
            if run is not None and run[VALUE] == value:
                run[LAST] = last
                continue
            open_[sample] = [first, last, value]
            if run is not None:
                self._close(sample, run)

    def _close(self, sample: Sample, run: list[Any]) -> None:
        number = self._ids.setdefault(sample, len(self._ids))
        self._runs.execute("insert into run values (?, ?, ?, ?)", (number, *run))

    def series(self, family: str) -> Iterator[Run]:
        """The runs of a family, series by series, each ascending."""
        for sample, run in self._open.items():
            self._close(sample, run)
        self._open.clear()
        names = self.families[family].labels
        mine = ((tuple(zip(names, told, strict=True)), number) for (name, told), number in self._ids.items() if name == family)
        for labels, number in sorted(mine):
            for first, last, value in self._runs.execute("select first, last, value from run where series = ? order by first", (number,)):
                yield Run(labels, first, last, value)


def record(past: Past, db: Engine, world: World, steps: Steps) -> None:
    """Work out every step of the range."""
    sizer, number, count, rates = Sizer(world), 0, len(steps), Remembered()
    with reading(db) as connection, reading(db) as ahead:
        changes, swept = Changes(ahead, steps.start), Swept(ahead, world.config.sources)
        while number < count:
            at = steps.at(number)
            book = read_book(connection, at, world.config.sources)
            book = replace(book, price_lists=rates.of(book.price_lists))
            snapshot = of_book(book, swept.health(at), world, sizer)
            until = min(changes.after(at), stale_after(snapshot, world))
            following = min(count, max(number + 1, -((steps.start - until) // steps.step)))
            past.note(_values(past, snapshot), number, following - 1)
            number = following


def _values(past: Past, snapshot: Snapshot) -> dict[Sample, float]:
    """What ``/metrics`` says of a snapshot, as far as it can be told of any moment."""
    found: dict[Sample, float] = {}
    for family in families(snapshot):
        if family.name.removeprefix(PREFIX) in KNOWN_THEN:
            past.families.setdefault(family.name, replace(family, samples=()))
            for values, number in family.samples:
                found[family.name, values] = number
    return found
