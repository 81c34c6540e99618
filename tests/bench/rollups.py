"""The daily minimum of a GPU over months: read from the rollups, beside carrying every point forward, as a ratio.

    python tests/bench/rollups.py [--offers 30000] [--days 90] [--rounds 7] [--book year.db]    (--short: 3,000 offers, 20 days)

--book takes a copy of what ``storage.py --hours 8760 --keep year.db`` wrote: the year, in place of days written here.

The plain way reads all points of the GPU's machines of eight on demand, in plain columns of SQLite, and carries each price to the next
point, so that a price that did not change that day counts too. Fails where a day differs, or below 30.
"""

from __future__ import annotations

import argparse
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from statistics import median
from time import process_time

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "bench")]

from storage import Writer, copy_plainly  # noqa: E402  the path is set above
from stream import START, Stream, stream  # noqa: E402

from tracker.book.exchange import load_shipped  # noqa: E402
from tracker.config import Source, SourceSettings  # noqa: E402
from tracker.database.handle import migrate, open_database, reading, writing  # noqa: E402
from tracker.rollup.read import least_days  # noqa: E402
from tracker.rollup.run import roll_up  # noqa: E402
from tracker.service.memory import collect_rarely  # noqa: E402
from tracker.sweeps.store import record_sweep  # noqa: E402

GOAL = 30
GPU, COUNT, TIER = "gpu-20", 8, "on_demand"
DAY_S = 86_400
POINTS = """
select p.offer_id, p.at, p.price from plain_point p join offer o on o.id = p.offer_id
where o.gpu = ? and o.gpu_count = ? and o.tier = ? order by p.offer_id, p.at
"""


def main() -> int:
    """Prints both times and the ratio; 1 where the goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, default in (("offers", 30_000), ("days", 90), ("rounds", 7)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--book", type=Path)
    parser.add_argument("--short", action="store_true")
    asked = parser.parse_args()
    offers, days = (3_000, 20) if asked.short else (asked.offers, 365 if asked.book else asked.days)
    collect_rarely()  # as the program does
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "book.db"
        market = stream(offers, 0)
        points = copied(asked.book, path) if asked.book else written(path, market, days)
        print(f"{offers:,} offers, {days} days, {points:,} points")
        same, ratio = run(path, market, days, asked.rounds)
    return 0 if same and (ratio >= GOAL or asked.short) else 1


def copied(book: Path, path: Path) -> int:
    """A book of a whole year; how many points of offers it holds."""
    shutil.copy(book, path)
    with closing(sqlite3.connect(path)) as plain:
        count: int = plain.execute("select count(*) from offer_point").fetchone()[0]
    db = open_database(f"sqlite:///{path}")
    migrate(db)
    with writing(db) as connection:
        load_shipped(connection)
    db.dispose()
    return count


def written(path: Path, market: Stream, days: int) -> int:
    """A book of those days; how many points were written."""
    db = open_database(f"sqlite:///{path}")
    migrate(db)
    with writing(db) as connection:
        load_shipped(connection)  # as every book has them
    for report in market.sweeps():
        if report.rows:
            record_sweep(db, report)
    writer = Writer(db, market)
    for _ in range(days * 24):
        market.step()
        writer.hour()
    db.dispose()
    return writer.points


def run(path: Path, market: Stream, days: int, rounds: int) -> tuple[bool, float]:
    db = open_database(f"sqlite:///{path}")
    settings = SourceSettings(kind="rent", base_url="https://x", interval_minutes=60, max_age_hours=6)
    sources = {f"rents-{number:02}": Source(id=f"rents-{number:02}", settings=settings) for number in range(len(market.offers))}
    roll_up(db, sources, market.at(0) if market.hour else START + timedelta(days=days))
    first, end = START.date(), START.date() + timedelta(days=days)
    plain = sqlite3.connect(path)
    copy_plainly(plain)

    def rolled() -> list[tuple[date, Decimal]]:
        with reading(db) as connection:
            return least_days(connection, GPU, COUNT, TIER, first, end)

    def carried() -> list[tuple[date, Decimal]]:
        return carry(plain, first, days)

    same = rolled() == carried()
    pairs = [(timed(rolled), timed(carried)) for _ in range(rounds)]
    ratio = median(other / one for one, other in pairs)
    mine, least = (median(side) * 1000 for side in zip(*pairs, strict=True))
    print(f"equal on every day: {same}")
    print(f"rollups {mine:8.2f} ms   carried forward {least:8.1f} ms   ratio {ratio:6.1f}   (goal {GOAL})")
    plain.close()
    db.dispose()
    return same, ratio


def carry(plain: sqlite3.Connection, first: date, days: int) -> list[tuple[date, Decimal]]:
    """The lowest price of each day, a price counting on every day it held at any moment."""
    start = (first - date(1970, 1, 1)).days
    least: list[int | None] = [None] * days
    points = plain.execute(POINTS, (GPU, COUNT, TIER)).fetchall()
    for (offer, at, price), (following, until, _) in zip(points, [*points[1:], (None, 0, None)], strict=True):
        if price is None:
            continue
        last = (until - 1) // DAY_S - start if following == offer else days - 1
        for day in range(max(at // DAY_S - start, 0), min(last, days - 1) + 1):
            known = least[day]
            if known is None or price < known:
                least[day] = price
    return [(first + timedelta(days=day), Decimal(price) / COUNT / 10**9) for day, price in enumerate(least) if price is not None]


def timed(work: Callable[[], object]) -> float:
    started = process_time()
    work()
    return process_time() - started


if __name__ == "__main__":
    raise SystemExit(main())
