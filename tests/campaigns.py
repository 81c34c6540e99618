"""Runs corruptions of every source against a book in which all sources are listed well, and looks for anything wrong that is listed."""

from __future__ import annotations

import importlib
import json
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from time import monotonic
from typing import Any

from corruptions import BODIES, ROWS, corrupt_pages
from sqlalchemy import delete

from engine.rates import TOKEN_KINDS
from scrapers.contract import FxQuote, GpuQuote, LayoutChanged, Page, Row, ScrapeError, TokenQuote
from scrapers.http import HostGate
from tracker.book.book import Book, read_book
from tracker.book.bookstore import import_book
from tracker.book.exchange import FX, load_shipped, store_rates
from tracker.config import Source
from tracker.database.handle import migrate, open_database, reading, writing
from tracker.facts.values import GpuName, ModelAlias
from tracker.paths import config_dir
from tracker.sweeps.collect import Collector, keep, read_rows
from tracker.sweeps.store import SweepReport
from tracker.world import World, load_world

RECORDED = Path(__file__).parent / "recorded"
T0 = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
KINDS = (*BODIES, *ROWS)
Listed = dict[tuple[str, ...], Any]


@dataclass
class Outcome:
    """What one corruption of one source did."""

    source: str
    kind: str
    status: str
    applied: bool = True
    wrong: list[str] = field(default_factory=list)  # listed and fresh, and not a price the source prints
    elsewhere: list[str] = field(default_factory=list)  # other sources that changed
    crash: str = ""
    healed: bool = True  # a good sweep afterwards lists what was listed before


def pages_of(module: str) -> list[Page]:
    """The pages of the normal case of a module's recordings."""
    case = RECORDED / module / "normal"
    entries = json.loads((case / "pages.json").read_text(encoding="utf-8"))
    return [
        Page(
            url=e["url"],
            body=(case / e["file"]).read_bytes(),
            headers=e.get("headers", {}),
            fetched_at=datetime.fromisoformat(e["fetched_at"]) if e.get("fetched_at") else T0,
        )
        for e in entries
    ]


def rows_of(source: Source, pages: list[Page]) -> list[Row]:
    """What a source's parser makes of pages."""
    return list(importlib.import_module(f"scrapers.{source.module}").parse(pages))


class Campaign:
    """A book with every source listed from two good sweeps, copied for every corruption."""

    def __init__(self, folder: Path, seed: int, **limits: Any) -> None:
        self.folder, self.seed = folder, seed
        self.at = T0
        self.world = _world(**limits)
        self.sources = _recorded_sources(self.world)
        self.good = {source.id: self._good_rows(source) for source in self.sources}
        self.path = folder / "good.db"
        collector = self._open(self.path)
        migrate(collector.db)
        with writing(collector.db) as connection:
            store_rates(connection, [FxQuote(base="EUR", currency="CNY", rate=Decimal("8.2"), day=T0.date())], "campaign")
        for minutes in (0, 15):
            for source in sorted(self.sources, key=lambda s: s.settings.kind != "fx"):
                self._sweep(collector, source, minutes, self.good[source.id])
        self.before = listed(self._book(collector, 15))
        collector.db.dispose()

    def _good_rows(self, source: Source) -> list[Row]:
        """Every source tells its rows; a marketplace enough of them, from enough hosts, to make a price."""
        rows = rows_of(source, pages_of(source.module))
        if source.settings.kind != "marketplace":
            return rows
        asks = [row for row in rows if isinstance(row, GpuQuote)]
        return [replace(ask, host=f"h{n}", sku=f"{ask.sku} {n}") for ask in asks for n in range(6)]

    def run(self, source: Source, kind: str) -> Outcome:
        """One corruption: a bad sweep, a look, and a good one."""
        dice = random.Random(f"{self.seed} {source.id} {kind}")
        outcome = Outcome(source.id, kind, "")
        path = self.folder / "bad.db"
        shutil.copy(self.path, path)
        collector = self._open(path)
        try:
            bad = self._bad_rows(source, kind, dice)
            if bad is None:
                outcome.applied = False
                return outcome
            outcome.status = self._sweep(collector, source, 30, bad)
            found = listed(self._book(collector, 30))
            outcome.wrong = [f"{key}: {found[key]}, was {self.before.get(key)}" for key in found if not self._is_right(key, found[key])]
            outcome.elsewhere = [str(key) for key in self.before if key[0] != source.id and found.get(key) != self.before[key]]
            for minutes in (45, 60):
                self._sweep(collector, source, minutes, self.good[source.id])
            outcome.healed = listed(self._book(collector, 60)) == self.before
        except Exception as error:  # noqa: BLE001 - whatever escapes the collector is what this looks for
            outcome.crash = f"{type(error).__name__}: {error}"
        finally:
            collector.db.dispose()
        return outcome

    def _is_right(self, key: tuple[str, ...], price: Any) -> bool:
        """A price as it was; under a name nobody saw before, the price of the same GPUs or of the same model as it was.

        A slice is ranked nowhere.
        """
        if len(key) > 8 and price[3]:
            return True
        if key in self.before:
            return bool(self.before[key] == price) or _less_known(self.before[key], price)
        thing = key[4:6] if len(key) > 8 else key[3:4]
        same = [known for old, known in self.before.items() if old[0] == key[0] and (old[4:6] if len(old) > 8 else old[3:4]) == thing]
        return price in same

    def _bad_rows(self, source: Source, kind: str, dice: random.Random) -> list[Row] | ScrapeError | None:
        if kind in ROWS:
            return ROWS[kind](list(self.good[source.id]), dice)
        pages = corrupt_pages(kind, pages_of(source.module), dice)
        if pages is None:
            return None
        try:
            return rows_of(source, pages)
        except ScrapeError as error:
            return error

    def _sweep(self, collector: Collector, source: Source, minutes: int, rows: list[Row] | ScrapeError) -> str:
        """One sweep of rows that are read already, judged and kept as the daemon does."""
        self.at = at = T0 + timedelta(minutes=minutes)
        try:
            if isinstance(rows, ScrapeError):
                raise rows
            report = read_rows(collector, source, rows, at - timedelta(seconds=1), at)
        except (LayoutChanged, ScrapeError) as error:
            report = SweepReport(source=source.id, started_at=at, finished_at=at, status="failed", error=str(error))
        return keep(collector, report).status

    def _open(self, path: Path) -> Collector:
        db = open_database(f"sqlite:///{path}")
        return Collector(world=self.world, db=db, now=lambda: self.at, gate=HostGate(monotonic=monotonic))

    def _book(self, collector: Collector, minutes: int) -> Book:
        with reading(collector.db) as connection:
            return read_book(connection, T0 + timedelta(minutes=minutes), self.world.config.sources)

    def all(self) -> Iterator[Outcome]:
        """Every kind on every source."""
        return (self.run(source, kind) for source in self.sources for kind in KINDS)


class FirstSight(Campaign):
    """A book that holds the imported starter book and nothing live: every corruption is the first sweep of its source."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed, self.at = folder, seed, T0
        self.world = load_world(config_dir())
        self.sources = _recorded_sources(self.world)
        self.good = {source.id: self._good_rows(source) for source in self.sources}
        self.path = folder / "starter.db"
        collector = self._open(self.path)
        migrate(collector.db)
        with writing(collector.db) as connection:
            load_shipped(connection)  # reading a book reads them all, so only those that are needed stay
            connection.execute(delete(FX).where(FX.c.currency.not_in(("USD", "CNY"))))
        import_book(collector.db, config_dir() / "starter", self.world.catalogue, T0)
        collector.db.dispose()
        self._right: dict[str, Listed] = {}

    def run(self, source: Source, kind: str) -> Outcome:
        """One corrupted first sweep and a look: what is listed of it and is not what a good first sweep lists."""
        outcome = Outcome(source.id, kind, "")
        bad = self._bad_rows(source, kind, random.Random(f"{self.seed} {source.id} {kind}"))
        outcome.applied = bad is not None
        if bad is not None:
            self.before = self.right(source)
            outcome.status, found = self._first(source, bad)
            outcome.wrong = [f"{key}: {found[key]}, was {self.before.get(key)}" for key in found if not self._is_right(key, found[key])]
        return outcome

    def right(self, source: Source) -> Listed:
        """What a good first sweep lists."""
        if source.id not in self._right:
            self._right[source.id] = self._first(source, self.good[source.id])[1]
        return self._right[source.id]

    def _first(self, source: Source, rows: list[Row] | ScrapeError) -> tuple[str, Listed]:
        collector = self._open(Path(shutil.copy(self.path, self.folder / "first.db")))
        try:
            status = self._sweep(collector, source, 0, rows)
            return status, {key: price for key, price in listed(self._book(collector, 0)).items() if key[0] == source.id}
        finally:
            collector.db.dispose()


def _recorded_sources(world: World) -> list[Source]:
    """Sources with a recording."""
    return [s for s in world.config.sources.values() if (RECORDED / s.module / "normal" / "pages.json").exists()]


def _less_known(before: Any, now: Any) -> bool:
    """Token prices as they were, except that some are unknown now: that is no wrong price."""
    old, new = (getattr(prices[1], "of", None) for prices in (before, now))
    return old is not None and new is not None and all(new(kind) in (None, old(kind)) for kind in TOKEN_KINDS)


GPUS = {"RTX PRO 6000": "nvidia-rtx-pro-6000-server", "nvidia_h100": "nvidia-h100-sxm-80",
        "NVIDIA_A100": "nvidia-a100-pcie-80", "NVIDIA_L40S": "nvidia-l40s", "mi300x": "amd-mi300x"}  # fmt: skip


def _world(**limits: Any) -> World:
    """The shipped configuration, with a meaning for every name the recordings make up: each model of theirs is one of ours of its own.

    ``limits`` replace those of the guard.
    """
    world = load_world(config_dir())
    catalogue, names = world.catalogue, set()
    for source in world.config.sources.values():
        if (RECORDED / source.module / "normal" / "pages.json").exists():
            rows = [row for row in rows_of(source, pages_of(source.module)) if isinstance(row, TokenQuote)]
            names |= {(row.provider, row.model) for row in rows if catalogue.model_for(source.names, row.provider, row.model) is None}
    ours = sorted(catalogue.models)
    meant = {model: ours[number % len(ours)] for number, model in enumerate(sorted({model for _, model in names}))}
    aliases = {(provider, model): ModelAlias(model=meant[model]) for provider, model in names}
    gpus = {**catalogue.gpu_names["any"], **{name: GpuName(gpu=gpu) for name, gpu in GPUS.items()}}
    more = replace(catalogue, model_aliases={**catalogue.model_aliases, **aliases}, gpu_names={**catalogue.gpu_names, "any": gpus})
    guard = world.settings.guard.model_copy(update=limits)
    settings = world.settings.model_copy(update={"guard": guard})
    return replace(world, catalogue=more, config=replace(world.config, settings=settings))


def listed(book: Book) -> Listed:
    """Every fresh price of the book in USD and native money, by source and identity."""
    found: Listed = {}
    for entry in book.offers:
        o = entry.value
        key = (o.source, o.provider, o.sku, o.region, o.gpu, str(o.gpu_count), o.tier, str(o.term_months), o.trust)
        if entry.fresh:
            found[key] = (o.currency, o.native_per_hour, o.usd_per_hour, entry.is_slice)
    for entry in book.price_lists:
        r = entry.value
        key = (r.source, r.provider, r.source_model, r.model, r.sku, r.region, str(r.conditions), str(r.valid_from))
        if entry.fresh:
            found[key] = (r.currency, r.native, r.usd)
    return found
