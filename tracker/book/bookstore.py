"""Imports and exports the book files of ``tracker.book.bookfile``: idempotent in, every run of equal prices out."""

from __future__ import annotations

import csv
import heapq
import tempfile
from array import array
from bisect import bisect_left
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, func, insert, select

from engine.offers import AVAILABILITIES
from engine.rates import TOKEN_KINDS
from tracker.book.asof import BACKDATED, IMPORTED, Moment, as_known, known_by, old_wording
from tracker.book.bookfile import OFFER_COLUMNS, RATE_COLUMNS, BookFileError, Dated, read_book_files
from tracker.book.bookmark import book_digest
from tracker.book.listing import OFFER_POINT, OFFERS, RATES, SWEEP, Absence, Kind, absences_of, gone_column
from tracker.book.points import add_dimensions, insert_new, insert_rows, point_names
from tracker.database.handle import reading, writing
from tracker.database.limits import in_parts
from tracker.database.listen import announce
from tracker.database.months import make_months
from tracker.database.postgres import serialize
from tracker.database.rows import OfferRow, RateRow, columns, from_s, identity, row_from, to_ms, to_s, unscaled
from tracker.database.schema import RATE_SCALE, RENT_SCALE
from tracker.facts.values import Catalogue

LINES_AT_ONCE = 20_000  # of an export, held in memory


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import did."""

    rows: int
    new_points: int


def import_book(db: Engine, folder: Path, catalogue: Catalogue, now: datetime, *, latest: datetime | None = None) -> Imported:
    """Add the rows of ``folder`` to the history, all or none; rows that are there already change nothing.

    BookFileError where one is dated after ``latest``: a person's slip. The shipped book is right, whatever this machine's clock says.
    """
    dated = read_book_files(folder, catalogue)
    for entry in dated:
        last = from_s(max(entry.seen_at, entry.gone_at or 0))
        if latest is not None and last > latest:
            what = f"{entry.row.provider} {entry.row.sku} of {entry.origin}"
            raise BookFileError(f"{folder}: {what} is dated {last:%Y-%m-%d %H:%M}, after now; correct it, or this machine's clock")
    with writing(db) as connection:
        serialize(connection, "import")  # replicas that start together import the same book
        new, digest = _add(connection, dated, now), book_digest(folder)
        if new or not _is_marked(connection, digest):
            _mark(connection, digest, len(dated), now)
    return Imported(len(dated), new)


def import_dated(db: Engine, dated: Sequence[Dated], now: datetime) -> Imported:
    """Add dated rows to the history, all or none; rows that are there already change nothing."""
    with writing(db) as connection:
        return add_dated(connection, dated, now)


def add_dated(connection: Connection, dated: Sequence[Dated], now: datetime) -> Imported:
    """The same within an open transaction."""
    serialize(connection, "import")
    new = _add(connection, dated, now)
    if new:
        _mark(connection, "", len(dated), now)
    return Imported(len(dated), new)


def _add(connection: Connection, dated: Sequence[Dated], now: datetime) -> int:
    for kind in (OFFERS, RATES):  # all months before anything is written: who makes one waits for those that write
        mine = [entry for entry in dated if isinstance(entry.row, kind.row)]
        moments = {at for e in mine for at in (e.since, e.seen_at, e.gone_at) if at is not None}
        make_months(connection, kind.point.name, moments)
    new = sum(_import(connection, dated, kind, now) for kind in (OFFERS, RATES))
    _cover(connection, dated, now)
    announce(connection, "")
    return new


def _import(connection: Connection, dated: Sequence[Dated], kind: Kind, now: datetime) -> int:
    """Write the points that are not there yet, and when we learnt them: an answer of before must not come to know them."""
    mine = [entry for entry in dated if isinstance(entry.row, kind.row)]
    keys = [identity(IMPORTED + entry.origin, entry.row) for entry in mine]
    wanted = {
        key: {"key": key, "source": IMPORTED + e.origin, "origin": e.origin, **columns(e.row)} for key, e in zip(keys, mine, strict=True)
    }
    ids = add_dimensions(connection, kind.dimension, list(wanted.values()))
    link = kind.link
    points = {(p[link], p["at"]): p for key, e in zip(keys, mine, strict=True) for p in _points(e, link, ids[key], kind.point)}
    there = _there(connection, kind, sorted(set(ids.values())))
    new = [point for key, point in points.items() if key not in there]
    if new:
        names = point_names(kind)
        insert_rows(connection, kind.point, names, [tuple(point[name] for name in names) for point in new])
        late = [{"kind": kind.name, "target": p[link], "at": p["at"], "known_at": to_s(now)} for p in new if p["at"] < to_s(now)]
        if late:
            connection.execute(insert(BACKDATED), late)
    return len(new)


def _there(connection: Connection, kind: Kind, ids: Sequence[int]) -> set[tuple[int, int]]:
    """The points of those ids by id and moment."""
    found: set[tuple[int, int]] = set()
    for some in in_parts(ids):
        query = select(kind.point.c[kind.link], kind.point.c.at).where(kind.point.c[kind.link].in_(some))
        found.update((id_, at) for id_, at in connection.execute(query))
    return found


def _points(entry: Dated, link: str, id_: int, point: Any) -> Iterator[dict[str, Any]]:
    """The first and the last sighting of a price, and its end."""
    stated = {name: getattr(entry.row, name) for name in entry.row.VALUES} | ({} if point is OFFER_POINT else {"gone": False})
    for at in sorted({entry.since, entry.seen_at}):
        yield {link: id_, "at": at, **stated}
    if entry.gone_at is not None:
        empty = dict.fromkeys(entry.row.VALUES, None) | ({"availability": 0} if point is OFFER_POINT else {"gone": True})
        yield {link: id_, "at": entry.gone_at, **empty}


def _cover(connection: Connection, dated: Sequence[Dated], now: datetime) -> None:
    """One coverage row an origin: imported rows vouch for themselves only."""
    last: dict[str, int] = {}
    rows: dict[str, int] = {}
    for entry in dated:
        last[entry.origin] = max(last.get(entry.origin, 0), entry.seen_at)
        rows[entry.origin] = rows.get(entry.origin, 0) + 1
    found = [_coverage_row(IMPORTED + origin, at, rows[origin], now, "") for origin, at in last.items()]
    if found:
        connection.execute(insert_new(connection, SWEEP), found)


def _mark(connection: Connection, digest: str, rows: int, now: datetime) -> None:
    """Remember that something was imported, and which book. The embedded one and the user's own may come in one moment."""
    last = connection.scalar(select(func.max(SWEEP.c.at)).where(SWEEP.c.source == IMPORTED))
    at = to_s(now) if last is None else max(to_s(now), last + 1)
    connection.execute(insert(SWEEP).values(**_coverage_row(IMPORTED, at, rows, now, digest)))


def _is_marked(connection: Connection, digest: str) -> bool:
    return connection.scalar(select(SWEEP.c.id).where(SWEEP.c.source == IMPORTED, SWEEP.c.input_hash == digest).limit(1)) is not None


def _coverage_row(source: str, at: int, rows: int, now: datetime, digest: str) -> dict[str, Any]:
    return {
        "source": source, "at": at, "lag_ms": to_ms(now) - at * 1000, "took_ms": 0, "status": "ok", "complete": False, "rows": rows,
        "changed": 0, "skipped": "", "warned": "", "bytes": 0, "input_hash": digest, "error": "",
    }  # fmt: skip


def export_book(db: Engine, folder: Path, at: datetime | None = None) -> tuple[int, int]:
    """Write every run of equal prices as ``offers.csv`` and ``rates.csv``, as known at ``at``; returns how many of both."""
    if folder.exists() and not folder.is_dir():
        raise BookFileError(f"{folder}: is a file; name a folder for offers.csv and rates.csv")
    folder.mkdir(parents=True, exist_ok=True)
    with reading(db) as connection:
        with closing(runs_of(connection, OFFERS, at)) as runs:
            offers = _write(folder / "offers.csv", OFFER_COLUMNS, map(_offer_cells, runs))
        with closing(runs_of(connection, RATES, at)) as runs:
            rates = _write(folder / "rates.csv", RATE_COLUMNS, map(_rate_cells, runs))
    return offers, rates


def _write(path: Path, header: Sequence[str], rows: Iterable[Mapping[str, object]]) -> int:
    """Rows in a stable order, so that equal books are equal files; replaced whole, never half written. Returns how many."""
    temporary, count = path.with_name(path.name + ".part"), 0
    with ExitStack() as stack, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        for cells in _sorted(([str(row[name]) for name in header] for row in rows), stack):
            writer.writerow(cells)
            count += 1
    temporary.replace(path)
    return count


def _sorted(lines: Iterator[list[str]], stack: ExitStack) -> Iterator[list[str]]:
    """Lines in order; so many at a time are held in memory, the others wait in temporary files until ``stack`` ends."""
    parts: list[Iterator[list[str]]] = []
    while part := sorted(islice(lines, LINES_AT_ONCE)):
        if len(part) < LINES_AT_ONCE:
            parts.append(iter(part))
            break
        file = stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8", newline=""))  # noqa: SIM115 - stack closes it
        csv.writer(file).writerows(part)
        file.seek(0)
        parts.append(csv.reader(file))
    return heapq.merge(*parts)


def runs_of(connection: Connection, kind: Kind, at: datetime | None = None) -> Generator[Dated, None, None]:
    """Every stretch of equal values of every offer or rate known at ``at``, with its first and last sighting and its end. Close it."""
    moment = None if at is None else as_known(connection, at)
    return _runs(connection, kind, _covered(connection, moment), moment)


def _covered(connection: Connection, moment: Moment | None) -> dict[str, array[int]]:
    """Moments each source was covered whole by then, ascending; eight bytes each, for there is one a sweep."""
    moments: dict[str, array[int]] = {}
    query = (
        select(SWEEP.c.source, SWEEP.c.at).where(SWEEP.c.complete.is_(True), SWEEP.c.status.in_(("ok", "unchanged"))).order_by(SWEEP.c.at)
    )
    if moment is not None:
        query = query.where(SWEEP.c.at <= to_s(moment.at))
    for source, at in connection.execute(query.execution_options(yield_per=LINES_AT_ONCE)):
        moments.setdefault(source, array("q")).append(at)
    return moments


def _runs(connection: Connection, of: Kind, covered: Mapping[str, Sequence[int]], moment: Moment | None) -> Generator[Dated, None, None]:
    dimension, point, link, kind = of.dimension, of.point, of.link, of.row
    query = (
        select(dimension, *(point.c[n] for n in kind.VALUES), point.c.at.label("moment"), gone_column(point).label("is_gone"))
        .join(point, point.c[link] == dimension.c.id)
        .order_by(dimension.c.id, point.c.at)
    )
    if moment is not None:
        query = query.where(point.c.at <= to_s(moment.at), *known_by(connection, of, moment))
    unseen, wording = absences_of(connection, of), {} if moment is None else old_wording(connection, of, to_s(moment.at))
    open_run: tuple[Mapping[Any, Any], int, int] | None = None  # found, since, last own sighting
    with connection.execute(query.execution_options(yield_per=LINES_AT_ONCE)) as points:
        for row in points.mappings():
            found = {**row, **wording[row["id"]]} if row["id"] in wording else row
            same_offer = open_run is not None and open_run[0]["id"] == found["id"]
            if open_run is not None and same_offer and not found["is_gone"] and _equal(kind, open_run[0], found):
                open_run = (open_run[0], open_run[1], found["moment"])
                continue
            if open_run is not None:
                yield _run(kind, open_run, found if same_offer else None, covered, unseen.get(open_run[0]["id"], ()))
            open_run = None if found["is_gone"] else (found, found["moment"], found["moment"])
    if open_run is not None:
        yield _run(kind, open_run, None, covered, unseen.get(open_run[0]["id"], ()))


def _equal(kind: type[OfferRow] | type[RateRow], one: Mapping[Any, Any], other: Mapping[Any, Any]) -> bool:
    return all(one[name] == other[name] for name in kind.VALUES)


def _run(
    kind: type[OfferRow] | type[RateRow],
    run: tuple[Mapping[Any, Any], int, int],
    following: Mapping[Any, Any] | None,
    covered: Mapping[str, Sequence[int]],
    unseen: Sequence[Absence],
) -> Dated:
    found, since, own = run
    moments = covered.get(found["source"], ())
    end = len(moments) if following is None else bisect_left(moments, following["moment"])
    covered_at = max(own, moments[end - 1] if end else own)
    absent = next((absence for absence in unseen if absence.holds(covered_at)), None)
    seen_at = covered_at if absent is None else max(own, absent.last_seen)
    gone_at = following["moment"] if following is not None and following["is_gone"] else None
    return Dated(row_from(kind, found), found["origin"], since, seen_at, gone_at)


def _moment(at: int | None) -> str:
    """ISO time, as short as it is exact; empty for none."""
    if at is None:
        return ""
    when = from_s(at).isoformat().replace("+00:00", "Z")
    return when.removesuffix("T00:00:00Z")


def _span_cells(run: Dated) -> dict[str, object]:
    return {
        "valid_from": _moment(run.since), "seen_at": _moment(run.seen_at), "gone_at": _moment(run.gone_at),
        "source": run.origin, "source_url": run.row.source_url,
    }  # fmt: skip


def _offer_cells(run: Dated) -> dict[str, object]:
    row = run.row
    assert isinstance(row, OfferRow)
    return _span_cells(run) | {
        "provider": row.provider, "sku": row.sku, "region": row.region, "gpu": row.gpu, "gpu_count": row.gpu_count,
        "max_gpu_count": "" if row.max_gpu_count is None else row.max_gpu_count, "tier": row.tier, "term_months": row.term_months,
        "trust": row.trust, "availability": AVAILABILITIES[row.availability], "price_kind": row.price_kind,
        "interconnect": row.interconnect,
        "is_slice": str(row.is_slice).lower(), "currency": row.currency, "price_per_hour": f"{unscaled(row.price, RENT_SCALE):f}",
        "announced_from": _moment(row.valid_from),
    }  # fmt: skip


def _rate_cells(run: Dated) -> dict[str, object]:
    row = run.row
    assert isinstance(row, RateRow)
    prices = {kind: "" if (value := getattr(row, kind)) is None else f"{unscaled(value, RATE_SCALE):f}" for kind in TOKEN_KINDS}
    return _span_cells(run) | prices | {
        "provider": row.provider, "source_model": row.source_model, "model": row.model, "sku": row.sku, "region": row.region,
        "currency": row.currency, "min_prompt_tokens": row.min_prompt_tokens, "tier_inclusive": str(row.tier_inclusive).lower(),
        "hours_utc": row.hours_utc, "weekdays": row.weekdays,
        "in_force_from": _moment(row.valid_from), "in_force_to": _moment(row.valid_to),
    }  # fmt: skip
