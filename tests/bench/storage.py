"""What a year of hourly sweeps takes on disk: bytes of a change, and a year of 30,000 offers and 3,000 rates, on SQLite and PostgreSQL.

    python tests/bench/storage.py [--hours 720] [--offers 30000] [--rates 3000] [--postgres] [--keep year.db]   (--short)

The first hour is kept by the program. The others are written as it writes them (tests/bench/ingest.py holds the two equal): points of
what changed, the end of what was missed twice, a coverage row a source, a transaction a source. --hours 8760 is the whole year; fewer
are extrapolated from the second half, when pages have been split and filled as they will be. Fails beyond 20 bytes a change or 300 MB a
year on SQLite, 1.2 GB on PostgreSQL. Then the rows of the book are read as of three moments, and the points of one offer; ``--keep``
leaves the SQLite file where it is said.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "bench")]

from sqlalchemy import Connection, Engine, func, select  # noqa: E402  the path is set above
from stream import START, Stream, stream  # noqa: E402

from tracker.book.asof import Moment, rows_at  # noqa: E402
from tracker.book.listing import OFFERS, RATES, SWEEP, Kind  # noqa: E402
from tracker.book.points import GONE, insert_rows, point_names  # noqa: E402
from tracker.database.handle import migrate, open_database, reading, writing  # noqa: E402
from tracker.database.rows import OfferRow, RateRow, identities, to_s, values  # noqa: E402
from tracker.sweeps.store import record_sweep  # noqa: E402

HOURS_PER_YEAR = 8_760
BYTES_A_CHANGE, MB_A_YEAR, POSTGRES_MB_A_YEAR = 20, 300, 1_200
MB = 10**6


def main() -> int:
    """Prints sizes; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--offers", type=int, default=30_000)
    parser.add_argument("--rates", type=int, default=3_000)
    parser.add_argument("--hours", type=int, default=720)
    parser.add_argument("--postgres", action="store_true", help="also on a PostgreSQL of its own")
    parser.add_argument("--keep", type=Path, help="where the SQLite file stays")
    parser.add_argument("--short", action="store_true")
    asked = parser.parse_args()
    offers, rates, hours = (3_000, 300, 200) if asked.short else (asked.offers, asked.rates, asked.hours)
    with tempfile.TemporaryDirectory() as folder:
        path = asked.keep or Path(folder) / "book.db"
        met = measure(f"sqlite:///{path}", lambda db: sqlite_bytes(db, path), stream(offers, rates), hours, BYTES_A_CHANGE, MB_A_YEAR)
    if asked.postgres:
        met &= on_postgres(stream(offers, rates), hours)
    return 0 if met or asked.short else 1


def on_postgres(market: Stream, hours: int) -> bool:
    """The same on a cluster of its own."""
    import shutil  # here: the rest needs no PostgreSQL

    from databases import run_postgres

    def require(name: str) -> Path:
        found = shutil.which(name) or next(iter(sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))), None)
        if found is None:
            raise SystemExit(f"--postgres needs {name}; on Debian: apt-get install postgresql")
        return Path(found)

    with run_postgres(require) as server:
        return measure(server.url(server.make()), postgres_bytes, market, hours, None, POSTGRES_MB_A_YEAR)


def sqlite_bytes(db: Engine, path: Path) -> int:
    with db.connect() as connection:
        connection.exec_driver_sql("pragma wal_checkpoint(truncate)")
    return path.stat().st_size


def postgres_bytes(db: Engine) -> int:
    with db.connect() as connection:
        size: int = connection.exec_driver_sql("select pg_database_size(current_database())").scalar_one()
    return size


def measure(url: str, size: Callable[[Engine], int], market: Stream, hours: int, goal_bytes: float | None, goal_mb: float) -> bool:
    """One database; whether it meets the goals."""
    db = open_database(url)
    migrate(db)
    for report in market.sweeps():
        record_sweep(db, report)
    writer = Writer(db, market)
    first, half = size(db), 0
    points_half = 0
    for hour in range(1, hours + 1):
        market.step()
        writer.hour()
        if hour == hours // 2:
            half, points_half = size(db), writer.points
    whole = size(db)
    each = (whole - half) / (writer.points - points_half)
    year = whole + each * writer.points / hours * (HOURS_PER_YEAR - hours)
    print(f"{db.dialect.name}: {len(market.offers)} + {len(market.rates)} sources, {hours} hours, {writer.points:,} points")
    print(f"  first hour {first / MB:8.1f} MB, all of them {whole / MB:8.1f} MB: {(whole - first) / writer.points:6.1f} bytes a point")
    print(f"  in the second half {each:6.1f} bytes a point" + (f"   (goal {goal_bytes})" if goal_bytes else ""))
    print(f"  a year {'(extrapolated)' if hours < HOURS_PER_YEAR else ''} {year / MB:8.1f} MB   (goal {goal_mb})")
    _read(db, market)
    db.dispose()
    return (goal_bytes is None or each <= goal_bytes) and year <= goal_mb * MB


def _read(db: Engine, market: Stream) -> None:
    """Times of the book as of a moment, and of all points of the offer that has most, the best of three."""
    point = OFFERS.point
    with reading(db) as connection:
        busiest = select(point.c.offer_id, func.count()).group_by(point.c.offer_id).order_by(func.count().desc()).limit(1)
        offer, points = connection.execute(busiest).one()
        for share in (1.0, 0.5, 0.0):
            at = START + share * (market.at(0) - START) + timedelta(minutes=1)
            moment = Moment(at=at, known=at)
            spent, found = _best(lambda moment=moment: sum(len(rows_at(connection, kind, moment).told) for kind in (OFFERS, RATES)))
            print(f"  as of {at:%Y-%m-%d %H:%M}   {spent * 1000:8.1f} ms   {found:,} rows")
        one = select(point).where(point.c.offer_id == offer).order_by(point.c.at)
        spent, found = _best(lambda: len(connection.execute(one).all()))
        print(f"  one offer, all the time  {spent * 1000:8.2f} ms   {found:,} of {points:,} points")


def copy_plainly(book: sqlite3.Connection) -> None:
    """A second table of the offers' points, ``plain_point``, with its values in columns of their own: what bare SQL is measured on."""
    values = ", ".join(OfferRow.VALUES)
    book.executescript(
        "create table plain_point (offer_id integer, at bigint, price bigint, availability smallint, max_gpu_count smallint,"
        f" primary key (offer_id, at)) without rowid; insert into plain_point select offer_id, at, {values} from offer_point"
    )


def _best(work: Callable[[], int]) -> tuple[float, int]:
    found, times = 0, list[float]()
    for _ in range(3):
        begun = perf_counter()
        found = work()
        times.append(perf_counter() - begun)
    return min(times), found


@dataclass(slots=True)
class Writer:
    """Writes what changed since the last hour, as the program does."""

    db: Engine
    market: Stream
    points: int = 0
    _ids: list[list[int]] = field(default_factory=list)  # of every source, in the order of its rows
    _known: list[list[tuple[object, ...] | None]] = field(default_factory=list)  # last values; None is gone
    _missed: list[set[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        with reading(self.db) as connection:
            for kind, source, rows in self._sources():
                found = dict(connection.execute(select(kind.dimension.c.key, kind.dimension.c.id)).all())
                self._ids.append([found[key] for key in identities(source, rows)])
                self._known.append([values(row) for row in rows])
                self._missed.append(set())

    def _sources(self) -> Iterator[tuple[Kind, str, list[OfferRow] | list[RateRow]]]:
        yield from ((OFFERS, f"rents-{number:02}", rows) for number, rows in enumerate(self.market.offers))
        yield from ((RATES, f"tokens-{number}", rows) for number, rows in enumerate(self.market.rates))

    def hour(self) -> None:
        """One sweep of every source."""
        for number, (kind, source, rows) in enumerate(self._sources()):
            away = self.market.away[number] if kind is OFFERS else {}
            points = list(self._changed(number, kind, rows, away, to_s(self.market.at(number))))
            self.points += len(points)
            with writing(self.db) as connection:
                insert_rows(connection, kind.point, point_names(kind), points)
                _cover(connection, source, self.market, number, len(rows), len(points))

    def _changed(
        self, number: int, kind: Kind, rows: list[OfferRow] | list[RateRow], away: dict[int, int], at: int
    ) -> Iterator[tuple[object, ...]]:
        ids, known, missed = self._ids[number], self._known[number], self._missed[number]
        for place, row in enumerate(rows):
            if place in away:
                if place in missed and known[place] is not None:
                    known[place] = None
                    yield (ids[place], at, *GONE[kind.name])
                missed.add(place)
                continue
            missed.discard(place)
            if known[place] != (stated := values(row)):
                known[place] = stated
                yield (ids[place], at, *stated, *((False,) if kind is RATES else ()))


def _cover(connection: Connection, source: str, market: Stream, number: int, rows: int, changed: int) -> None:
    at = market.at(number)
    connection.execute(
        SWEEP.insert().values(
            source=source, at=to_s(at), lag_ms=number, took_ms=2_000 + number, status="ok", complete=True, rows=rows, changed=changed,
            skipped="", warned="", quarantined=0, conflicts=0, bytes=400_000, input_hash="0f" * 8, error="",
        )
    )  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
