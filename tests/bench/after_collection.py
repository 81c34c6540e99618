"""From collected prices to what is told of them, 30,000 offers: compare, store, recompute, alerts, /metrics, beside a bare prototype.

    python tests/bench/after_collection.py [--offers 30000] [--rates 3000] [--rounds 5]    (--short: 3,000 offers, 2 rounds)

The program keeps the sweeps of all sources of an hour (5.9 % changed), recomputes once, judges alerts and writes the metrics page. The
prototype does the least of the same with tuples of whole numbers: compares and appends to a SQLite file, takes the lowest price of each
group, finds the cheapest setup of 120 models in four formats by size, writes a page of the groups and compresses it. It has no money,
no receipts, no ages, no history to ask. Parsing counts for neither. Fails beyond 6. --guarded has the guard judge every sweep as well,
for which the prototype has nothing; that is shown and not judged.
"""

from __future__ import annotations

import argparse
import gzip
import sqlite3
import sys
import tempfile
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import process_time

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "bench")]

from sqlalchemy import Engine  # noqa: E402  the path is set above
from stream import Stream, stream  # noqa: E402

from tracker.book.exchange import exchange_of  # noqa: E402
from tracker.config import Source, SourceSettings  # noqa: E402
from tracker.database.handle import migrate, open_database  # noqa: E402
from tracker.guard.context import Guard  # noqa: E402
from tracker.guard.settings import GuardSettings  # noqa: E402
from tracker.metrics.exposition import Renderer, pieces  # noqa: E402
from tracker.metrics.families import families  # noqa: E402
from tracker.metrics.packing import Packer  # noqa: E402
from tracker.paths import config_dir  # noqa: E402
from tracker.service.daemon import Daemon  # noqa: E402
from tracker.service.memory import collect_rarely  # noqa: E402
from tracker.sweeps.store import SweepReport, record_sweep  # noqa: E402
from tracker.world import World, load_world  # noqa: E402

GOAL = 6
MODELS, FORMATS = 120, (16, 8, 4, 4.5)


def main() -> int:
    """Prints the parts, both sums and the ratio; 1 where the goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, default in (("offers", 30_000), ("rates", 3_000), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--guarded", action="store_true", help="with the guard, without a goal")
    asked = parser.parse_args()
    offers, rounds = (3_000, 2) if asked.short else (asked.offers, asked.rounds)
    collect_rarely()  # as the program does
    with tempfile.TemporaryDirectory() as folder:
        ratio = run(Path(folder), offers, asked.rates, rounds, guarded=asked.guarded)
    return 0 if ratio <= GOAL or asked.short or asked.guarded else 1


def run(folder: Path, offers: int, rates: int, rounds: int, *, guarded: bool) -> float:
    world = load_world(config_dir(), folder / "none")
    gpus = tuple(sorted(gpu.id for gpu in world.catalogue.gpus.values() if gpu.gpu_class != "unified"))
    market = stream(offers, rates, gpus=gpus)
    world = replace(world, config=replace(world.config, sources=sources_of(market)))
    db = open_database(f"sqlite:///{folder / 'book.db'}")
    migrate(db)
    program, bare = Program(db, world, market, guarded=guarded), Prototype(folder / "bare.db", market)
    program.pass_over(list(market.sweeps()))  # the hour it was started in
    pairs: list[tuple[float, float]] = []
    for _ in range(rounds):
        market.step()
        reports, rows = list(market.sweeps()), prices(market)
        pairs.append((timed(lambda: program.pass_over(reports)), timed(lambda: bare.pass_over(rows))))  # noqa: B023  called at once
    ratio = median(one / other for one, other in pairs)
    mine, least = (median(side) * 1000 for side in zip(*pairs, strict=True))
    for name, spent in program.parts.items():
        print(f"  {name:<10} {median(spent[-rounds:]) * 1000:8.1f} ms")
    print(f"{offers:,} offers: the program {mine:8.1f} ms   prototype {least:8.1f} ms   ratio {ratio:5.1f}   (goal {GOAL})")
    bare.close()
    db.dispose()
    return ratio


def sources_of(market: Stream) -> dict[str, Source]:
    """Settings of the market's sources."""
    found = {}
    for report in market.sweeps():
        kind = "rent" if report.offers else "token"
        settings = SourceSettings(kind=kind, base_url="https://x", interval_minutes=60, max_age_hours=6)  # type: ignore[arg-type]
        found[report.source] = Source(id=report.source, settings=settings)
    return found


class Program:
    """Keeps, recomputes, judges, writes."""

    def __init__(self, db: Engine, world: World, market: Stream, *, guarded: bool) -> None:
        self.daemon = Daemon(world, db, now=lambda: market.at(40))
        self.remembered = self.daemon.collector.remembered  # as a sweep of the daemon has it
        self.guard: Guard | None = None  # the first hour is believed: it has nothing to be held against
        self.judge = Guard(settings=GuardSettings(), sources=world.config.sources, exchange=exchange_of([])) if guarded else None
        self.renderer, self.packer = Renderer(), Packer()
        self.parts: dict[str, list[float]] = {}

    def pass_over(self, reports: list[SweepReport]) -> None:
        """One hour."""
        self.timed("store", lambda: [record_sweep(self.daemon.db, report, self.guard, remembered=self.remembered) for report in reports])
        self.guard = self.judge
        self.timed("recompute", self.daemon.refresh)  # alerts are judged in it
        self.timed("metrics", self.write)

    def write(self) -> None:
        """The page as it is served to who takes gzip."""
        self.packer.packed(pieces(self.renderer.lines(families(self.daemon.snapshot)), "text"))

    def timed(self, name: str, work: Callable[[], object]) -> None:
        """Note what a part takes."""
        self.parts.setdefault(name, []).append(timed(work))


Row = tuple[int, int, int, int, int]  # id, gpu, count, tier, price


def prices(market: Stream) -> list[Row]:
    """What is printed, as whole numbers."""
    gpus: dict[str, int] = {}
    tiers: dict[str, int] = {}
    found: list[Row] = []
    number = 0
    for rows, away in zip(market.offers, market.away, strict=True):
        for place, row in enumerate(rows):
            number += 1
            if place not in away:
                told = (gpus.setdefault(row.gpu, len(gpus)), row.gpu_count, tiers.setdefault(row.tier, len(tiers)), row.price)
                found.append((number, *told))
    return found


class Prototype:
    """The least of the same."""

    def __init__(self, path: Path, market: Stream) -> None:
        self.book = sqlite3.connect(path, isolation_level=None)
        self.book.execute("pragma journal_mode=WAL")
        self.book.execute("create table point (id integer, at integer, price integer, primary key (id, at)) without rowid")
        self.known = {row[0]: row[4] for row in prices(market)}
        self.memory_gb = [80 + 20 * (number % 12) for number in range(200)]
        self.needs = [(7 + 11 * number) * bits / 8 for number in range(MODELS) for bits in FORMATS]
        self.at = 0

    def pass_over(self, rows: list[Row]) -> None:
        """One hour."""
        self.at += 1
        listed = {row[0]: row[4] for row in rows}
        changed = [(id_, self.at, price) for id_, price in listed.items() if self.known.get(id_) != price]
        changed += [(id_, self.at, None) for id_ in self.known.keys() - listed.keys()]  # type: ignore[list-item]
        self.book.execute("begin immediate")
        self.book.executemany("insert into point values (?, ?, ?)", changed)
        self.book.execute("commit")
        self.known = listed
        least: dict[tuple[int, int, int], int] = {}
        for _, gpu, count, tier, price in rows:
            group = (gpu, count, tier)
            if group not in least or price < least[group]:
                least[group] = price
        by_size = sorted((self.memory_gb[gpu] * count, price) for (gpu, count, tier), price in least.items() if tier == 0)
        cheapest_above: list[int] = []
        for _, price in reversed(by_size):
            cheapest_above.append(min(price, cheapest_above[-1]) if cheapest_above else price)
        cheapest_above.reverse()
        sizes = [size for size, _ in by_size]
        winners = [cheapest_above[place] for need in self.needs if (place := bisect_left(sizes, need)) < len(sizes)]
        page = [f'rent{{gpu="{gpu}",count="{count}",tier="{tier}"}} {price / 1e9}' for (gpu, count, tier), price in least.items()]
        page += [f'best{{number="{number}"}} {price / 1e9}' for number, price in enumerate(winners)]
        gzip.compress("\n".join(page).encode(), 1)

    def close(self) -> None:
        """Let go of the file."""
        self.book.close()


def timed(work: Callable[[], object]) -> float:
    started = process_time()
    work()
    return process_time() - started


if __name__ == "__main__":
    raise SystemExit(main())
