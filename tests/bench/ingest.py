"""Keeping a sweep, beside plain sqlite3 that does the same with ready-made tuples: unchanged, changed, and a first load, as ratios.

    python tests/bench/ingest.py [--offers 30000] [--rates 3000] [--rounds 7]    (--short: 3,000 offers, 300 rates, 5 rounds)

Both keep one file each of the same tables, plain sqlite3 with the values of an offer's point in three plain columns. It reads what is
listed, compares it by identity and values, appends the points and the coverage row, in one transaction a source; it judges nothing and
its rows come as tuples with their identity already worked out. The program gets rows as parsers give them. Fails beyond 1.5 (unchanged),
3 (changed) and 2.5 (first load), which are of the whole size: a short run shows what sweeps of few rows cost. Fails where the two books
differ, or a table class is instantiated.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from time import process_time

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "bench")]

from sqlalchemy import Engine, event  # noqa: E402  the path is set above
from stream import Stream, stream  # noqa: E402

from tracker.book.remembered import Remembered  # noqa: E402
from tracker.database.handle import migrate, open_database  # noqa: E402
from tracker.database.rows import OfferRow, RateRow, columns, identity, to_s, values  # noqa: E402
from tracker.database.tables import Offer, OfferPoint, Rate, RatePoint, Sweep  # noqa: E402
from tracker.service.memory import collect_rarely  # noqa: E402
from tracker.sweeps.store import SweepReport, record_sweep  # noqa: E402

GOALS = {"unchanged": 1.5, "changed": 3.0, "first load": 2.5}
TABLES = (Offer, OfferPoint, Rate, RatePoint, Sweep)
KINDS = {"offer": ("offer_id", OfferRow), "rate": ("rate_id", RateRow)}
PLAIN_POINTS = """create table offer_point (offer_id integer not null references offer (id), at bigint not null, price bigint,
    availability smallint not null, max_gpu_count smallint, primary key (offer_id, at)) without rowid"""
Times = tuple[float, float, float]  # ours, ours just started, plain
Prepared = list[tuple[str, str, int, list[tuple[str, tuple[object, ...], tuple[object, ...]]]]]  # source, kind, at, rows


def main() -> int:
    """Prints times and ratios; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--offers", type=int, default=30_000)
    parser.add_argument("--rates", type=int, default=3_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--short", action="store_true")
    asked = parser.parse_args()
    offers, rates, rounds = (3_000, 300, 5) if asked.short else (asked.offers, asked.rates, asked.rounds)
    collect_rarely()  # as the program does
    for table in TABLES:
        event.listen(table, "init", _refuse)
    with tempfile.TemporaryDirectory() as folder:
        same, met = run(Path(folder), offers, rates, rounds)
    return 0 if same and (met or asked.short) else 1


def _refuse(target: object, *_: object) -> None:
    raise AssertionError(f"an instance of {type(target).__name__} was built on the way in")


def run(folder: Path, offers: int, rates: int, rounds: int) -> tuple[bool, bool]:
    """Whether the books are equal, and whether the goals are met: first loads in files of their own, then hours on one book."""
    loads = [first_load(folder, number, stream(offers, rates)) for number in range(max(3, rounds // 2))]
    market, remembered = stream(offers, rates), Remembered()
    ours, anew, plain = new_book(folder / "ours.db"), new_book(folder / "anew.db"), raw_book(folder / "plain.db")
    keep(ours, list(market.sweeps()), remembered)
    keep(anew, list(market.sweeps()))
    raw_load(plain, prepared(market))
    times: dict[str, list[Times]] = {"first load": loads, "unchanged": [], "changed": []}
    for what in [*["changed"] * rounds, *["settling"] * 3, *["unchanged"] * rounds]:  # what is missed once ends when it is missed again
        if what == "changed":
            market.step()
        else:
            market.hour += 1
        reports, again, rows = list(market.sweeps()), list(market.sweeps()), prepared(market)
        ran = timed(lambda: keep(ours, reports, remembered)), timed(lambda: keep(anew, again)), timed(lambda: raw_sweep(plain, rows))  # noqa: B023  called at once
        times.setdefault(what, []).append(ran)
    same = contents(folder / "ours.db") == contents(folder / "anew.db") == contents(folder / "plain.db")
    for book in (ours, anew):
        book.dispose()
    plain.close()
    print(f"{offers:,} offers, {rates:,} rates, {market.changes:,} changes in {market.hour} hours; equal books: {same}")
    met = [tell(what, times[what], GOALS[what]) for what in GOALS]
    return same, all(met)


def tell(what: str, times: list[Times], goal: float) -> bool:
    """One line; whether the goal is met by the median of the rounds' ratios."""
    running, started = (median(ran[place] / ran[2] for ran in times) for place in (0, 1))
    ours, anew, plain = (median(ran[place] for ran in times) * 1000 for place in range(3))
    print(
        f"{what:<12} {ours:8.1f} ms  just started {anew:8.1f} ms  plain sqlite3 {plain:8.1f} ms"
        f"  ratios {running:5.2f} {started:5.2f}  (goal {goal})"
    )
    return max(running, started) <= goal


def timed(work: Callable[[], object]) -> float:
    """Seconds of processor time one call takes."""
    started = process_time()
    work()
    return process_time() - started


def keep(db: Engine, reports: list[SweepReport], remembered: Remembered | None = None) -> None:
    """What the program does; without what it remembers, as a process does that was just started."""
    for report in reports:
        record_sweep(db, report, remembered=remembered)


def first_load(folder: Path, number: int, market: Stream) -> Times:
    """Seconds to keep everything for the first time, ours with and without remembering, and plain."""
    ours, anew, plain = new_book(folder / f"ours{number}.db"), new_book(folder / f"anew{number}.db"), raw_book(folder / f"plain{number}.db")
    reports, again, rows = list(market.sweeps()), list(market.sweeps()), prepared(market)
    found = timed(lambda: keep(ours, reports, Remembered())), timed(lambda: keep(anew, again)), timed(lambda: raw_load(plain, rows))
    for book in (ours, anew):
        book.dispose()
    plain.close()
    return found


def new_book(path: Path) -> Engine:
    db = open_database(f"sqlite:///{path}")
    migrate(db)
    return db


def raw_book(path: Path) -> sqlite3.Connection:
    """The same tables, with points as one writes them by hand, opened as the program opens them, with nothing of it in between."""
    new_book(path).dispose()
    plain = sqlite3.connect(path, isolation_level=None)
    plain.execute("drop table offer_point")
    plain.execute(PLAIN_POINTS)
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
        plain.execute(f"pragma {pragma}")
    return plain


def prepared(market: Stream) -> Prepared:
    """Sweeps as tuples: identity, values, and the columns of a new row."""
    found: Prepared = []
    for report in market.sweeps():
        for kind, rows in (("offer", report.offers), ("rate", report.rates)):
            if rows:
                ready = [(identity(report.source, row), values(row), tuple(columns(row).values())) for row in rows]
                found.append((report.source, kind, to_s(report.finished_at), ready))
    return found


def raw_load(plain: sqlite3.Connection, prepared: Prepared) -> None:
    """Dimension rows and points by executemany, numbered in their order."""
    for source, kind, at, rows in prepared:
        link, row = KINDS[kind]
        names = ("id", "key", "source", "origin", *row.IDENTITY, *row.DESCRIPTION)
        plain.execute("begin immediate")
        first = plain.execute(f"select coalesce(max(id), 0) + 1 from {kind}").fetchone()[0]
        dimensions = [(first + place, key, source, source, *rest) for place, (key, _, rest) in enumerate(rows)]
        plain.executemany(f"insert into {kind} ({', '.join(names)}) values ({', '.join('?' * len(names))})", dimensions)
        _append(plain, kind, [(first + place, at, stated) for place, (_, stated, _) in enumerate(rows)], link, row)
        _cover(plain, source, at, len(rows), len(rows))
        plain.execute("commit")


def raw_sweep(plain: sqlite3.Connection, prepared: Prepared) -> None:
    """Read what is listed, compare, append what changed or is missed for the second time, and cover."""
    for source, kind, at, rows in prepared:
        link, row = KINDS[kind]
        plain.execute("begin immediate")
        listed = {key: (id_, gone, tuple(stated)) for key, id_, gone, *stated in _listed(plain, source, kind, link, row)}
        changed = [(listed[key][0], at, stated) for key, stated, _ in rows if listed[key][1] or listed[key][2] != stated]
        missed = [listed[key][0] for key in listed.keys() - {key for key, _, _ in rows} if not listed[key][1]]
        known = dict(plain.execute("select target, since from unseen where kind = ? and until is null", (kind,)))
        back = [(at, kind, listed[key][0]) for key, _, _ in rows if listed[key][0] in known]
        gone = [id_ for id_ in missed if id_ in known]
        new = [(kind, id_, at, at - 3_600, "missed") for id_ in missed if id_ not in known]
        plain.executemany("insert into unseen (kind, target, since, last_seen, why) values (?, ?, ?, ?, ?)", new)
        ended = [*back, *((at, kind, id_) for id_ in gone)]
        plain.executemany("update unseen set until = ? where kind = ? and target = ? and until is null", ended)
        empty = (None, 0, None) if kind == "offer" else (None,) * 6
        _append(plain, kind, [*changed, *((id_, at, empty) for id_ in gone)], link, row)
        _cover(plain, source, at, len(rows), len(changed))
        plain.execute("commit")


def _listed(plain: sqlite3.Connection, source: str, kind: str, link: str, row: type[OfferRow | RateRow]) -> Iterator[tuple[object, ...]]:
    gone = "p.price is null" if kind == "offer" else "p.gone"
    return plain.execute(
        f"select d.key, d.id, {gone}, {', '.join('p.' + name for name in row.VALUES)} from {kind} d join {kind}_point p"
        f" on p.{link} = d.id and p.at = (select max(at) from {kind}_point where {link} = d.id) where d.source = ?", (source,),
    )  # fmt: skip


def _append(plain: sqlite3.Connection, kind: str, points: list[tuple[object, int, tuple[object, ...]]], link: str, row: type) -> None:
    names = (link, "at", *row.VALUES, *(() if kind == "offer" else ("gone",)))  # type: ignore[attr-defined]
    told = [(id_, at, *stated, *(() if kind == "offer" else (not any(stated),))) for id_, at, stated in points]
    plain.executemany(f"insert into {kind}_point ({', '.join(names)}) values ({', '.join('?' * len(names))})", told)


def _cover(plain: sqlite3.Connection, source: str, at: int, rows: int, changed: int) -> None:
    told = {
        "status": "ok",
        "complete": 1,
        "skipped": "",
        "warned": "",
        "quarantined": 0,
        "conflicts": 0,
        "bytes": 0,
        "input_hash": b"",
        "error": "",
    }
    told |= {"source": source, "at": at, "rows": rows, "changed": changed} | dict.fromkeys(("lag_ms", "took_ms"), 0)
    plain.execute(f"insert into sweep ({', '.join(told)}) values ({', '.join('?' * len(told))})", tuple(told.values()))


def contents(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """All points by identity, and the stretches without one."""
    with sqlite3.connect(path) as book:
        found = {kind: book.execute(_every_point(kind, link, row)).fetchall() for kind, (link, row) in KINDS.items()}
        found["unseen"] = book.execute(
            "select o.key, u.since, u.until from unseen u join offer o on o.id = u.target order by 1, 2"
        ).fetchall()
    book.close()
    return found


def _every_point(kind: str, link: str, row: type[OfferRow | RateRow]) -> str:
    names = ("at", *row.VALUES, *(() if kind == "offer" else ("gone",)))
    return f"select d.key, p.{', p.'.join(names)} from {kind} d join {kind}_point p on p.{link} = d.id order by d.key, p.at"


if __name__ == "__main__":
    raise SystemExit(main())
