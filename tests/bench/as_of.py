"""The book as of a moment in the past, all offers: the program's book, beside the bare SQL that fetches the same rows, as a ratio.

    python tests/bench/as_of.py [--offers 30000] [--rates 3000] [--hours 48] [--rounds 9]    (--short: 3,000 offers)

The bare SQL is the query of the book over sqlite3, from points in plain columns, its rows fetched as tuples and not looked at. The
program knows of each row whether it holds, what it is worth and until when it is fresh; it makes an offer of one, with exact money in two
currencies and its moments, when somebody looks at it. What that costs where somebody looks at every one is told too. Fails beyond 1.3.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import process_time

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "bench")]

from storage import Writer, copy_plainly  # noqa: E402  the path is set above
from stream import stream  # noqa: E402

from engine.offers import GpuOffer  # noqa: E402
from tracker.book.asof import Moment  # noqa: E402
from tracker.book.book import read_offers  # noqa: E402
from tracker.book.entries import Entries  # noqa: E402
from tracker.book.exchange import load_exchange  # noqa: E402
from tracker.config import Source, SourceSettings  # noqa: E402
from tracker.database.handle import migrate, open_database, reading  # noqa: E402
from tracker.database.rows import OfferRow, to_s  # noqa: E402
from tracker.service.memory import collect_rarely  # noqa: E402
from tracker.sweeps.store import record_sweep  # noqa: E402

GOAL = 1.3
BARE = f"""
select o.*, {", ".join("p." + name for name in OfferRow.VALUES)}, p.at from offer o join plain_point p on p.offer_id = o.id
and p.at = (select max(at) from plain_point where offer_id = o.id and at <= ?) where p.price is not null order by o.id
"""


def main() -> int:
    """Prints both times and the ratio; 1 where the goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, default in (("offers", 30_000), ("rates", 3_000), ("hours", 48), ("rounds", 9)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--short", action="store_true")
    asked = parser.parse_args()
    collect_rarely()  # as the program does
    with tempfile.TemporaryDirectory() as folder:
        return run(Path(folder) / "book.db", 3_000 if asked.short else asked.offers, asked)


def run(path: Path, offers: int, asked: argparse.Namespace) -> int:
    db = open_database(f"sqlite:///{path}")
    migrate(db)
    market = stream(offers, asked.rates)
    for report in market.sweeps():
        record_sweep(db, report)
    writer = Writer(db, market)
    for _ in range(asked.hours):
        market.step()
        writer.hour()
    names = [f"rents-{number:02}" for number in range(len(market.offers))]
    settings = SourceSettings(kind="rent", base_url="https://x", interval_minutes=60, max_age_hours=6)
    sources = {name: Source(id=name, settings=settings) for name in names}
    market.hour //= 2
    at = market.at(len(names))
    plain = sqlite3.connect(path)
    copy_plainly(plain)

    def bare() -> int:
        return len(plain.execute(BARE, (to_s(at),)).fetchall())

    def ours() -> int:
        return len(opened())

    def opened() -> Entries[GpuOffer]:
        with reading(db) as connection:
            moment = Moment(at=at, known=at)
            return read_offers(connection, moment, sources, load_exchange(connection, moment))

    def every_one() -> int:
        return sum(entry.fresh for entry in opened())

    if bare() != ours():
        print(f"the bare SQL finds {bare()} offers, the book {ours()}")
        return 1
    pairs = [(timed(ours), timed(bare)) for _ in range(asked.rounds)]
    looked = median(timed(every_one) for _ in range(asked.rounds)) * 1000
    ratio = median(one / other for one, other in pairs)
    book, rows = (median(column) * 1000 for column in zip(*pairs, strict=True))
    print(f"{bare():,} offers as of {at:%Y-%m-%d %H:%M}, {writer.points:,} points in {asked.hours} hours")
    print(f"the book {book:8.1f} ms   bare SQL {rows:8.1f} ms   ratio {ratio:5.2f}   (goal {GOAL})")
    print(f"every offer of it made and looked at: {looked:.1f} ms")
    plain.close()
    db.dispose()
    return 0 if ratio <= GOAL or asked.short else 1


def timed(work: Callable[[], object]) -> float:
    started = process_time()
    work()
    return process_time() - started


if __name__ == "__main__":
    raise SystemExit(main())
