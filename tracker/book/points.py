"""Writes what a judged sweep changed: change points, corrected descriptions, and stretches in which a listed price was not printed."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Table, func, insert, select, update
from sqlalchemy.sql.dml import Insert

from tracker.book.asof import REWORDED
from tracker.book.listing import ACCEPTED, HELD, MISSED, RATES, SWEEP, UNSEEN, Absence, Kind, Known, Listing, Row, known_of, whole_sweeps
from tracker.database.inserts import insert_into
from tracker.database.limits import MAX_ASKED
from tracker.database.months import TABLES, make_months
from tracker.database.packed import as_kept
from tracker.database.postgres import marked
from tracker.database.rows import RateRow, columns, state, states, to_s, values

# what the last point of something gone says, and what one of something listed says beyond its values
GONE: dict[str, tuple[int | None, ...]] = {"offer": (None, 0, None), "rate": (*(None,) * len(RateRow.VALUES), True)}
LISTED: dict[str, tuple[bool, ...]] = {"offer": (), "rate": (False,)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a sweep said about one kind of price, by identity.

    ``changed``: to be listed, new or not as they are listed; ``seen``: seen again as they are listed; held back; and not printed.
    """

    changed: Mapping[str, Row] = field(default_factory=dict)
    seen: Collection[str] = ()
    held: Collection[str] = ()
    missed: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """Where the outcome of a sweep is written: one kind of price of one source, as it was listed before."""

    connection: Connection
    kind: Kind
    source: str
    at: int
    whole_at: int | None  # the sweep before that covered everything
    listing: Listing
    misses: int  # sweeps that do not print a price until it is gone


@dataclass(frozen=True, slots=True)
class Written:
    """How many points were written, and the entries of the listing that are not as they were."""

    points: int = 0
    entries: Mapping[str, Known] = field(default_factory=dict)


def write_rows(sheet: Sheet, outcome: Outcome) -> Written:
    """Write the points of one kind: new and changed rows, and the end of those missed often enough."""
    known, kind, at = sheet.listing.known, sheet.kind, sheet.at
    new = {key: row for key, row in outcome.changed.items() if key not in known}
    ids = _add_new(sheet, new)
    found = {key: Known(ids[key], at, False, state(row), None) for key, row in new.items()}
    found |= _moved(sheet, outcome.changed)
    prices, listed = len(kind.row.VALUES), LISTED[kind.name]
    points = [(id_, at, *told[:prices], *listed) for id_, since, _, told, _ in found.values() if since == at]
    ended, absent = _absences(sheet, outcome)
    found |= absent | {key: _ended(kind, known[key], at) for key in ended}
    points.sort()  # by their ids, which differ
    points += [(known[key].id, at, *GONE[kind.name]) for key in ended]
    insert_rows(sheet.connection, kind.point, point_names(kind), points)
    return Written(len(points), found)


def _moved(sheet: Sheet, rows: Mapping[str, Row]) -> Iterator[tuple[str, Known]]:
    """What is known of listed rows that are not as they were. Words alone make no new point: the newest replace the old ones, which
    are kept for answers about the time before."""
    known, at, prices = sheet.listing.known, sheet.at, len(sheet.kind.row.VALUES)
    for key, told in zip(rows, states(rows.values()), strict=True):
        if (was := known.get(key)) is None:
            continue
        id_, since, gone, before, _ = was
        price, old = told[:prices], before[prices:]
        if told[prices:] == old:
            told = price + old  # of equal words one copy is held
        else:
            _reword(sheet, id_, old, told[prices:])
        yield key, known_of((id_, at if gone or price != before[:prices] else since, False, told, None))


def _reword(sheet: Sheet, id_: int, old: Sequence[Any], new: Sequence[Any]) -> None:
    """Descriptions are not prices."""
    names, dimension = sheet.kind.row.DESCRIPTION, sheet.kind.dimension
    was = json.dumps({name: bool(value) if name == "is_slice" else value for name, value in zip(names, old, strict=True)})
    sheet.connection.execute(insert(REWORDED).values(kind=sheet.kind.name, target=id_, until=sheet.at, was=was))
    sheet.connection.execute(update(dimension).where(dimension.c.id == id_).values(**dict(zip(names, new, strict=True))))


def _ended(kind: Kind, known: Known, at: int) -> Known:
    """A price that is no longer listed."""
    empty = GONE[kind.name][: len(kind.row.VALUES)]
    return Known(known.id, at, True, empty + known.state[len(empty) :], None)


def point_names(kind: Kind) -> tuple[str, ...]:
    """The columns of a point."""
    return (kind.link, "at", *kind.row.VALUES, *(("gone",) if kind is RATES else ()))


def insert_rows(
    connection: Connection, table: Table, names: Sequence[str], rows: Sequence[tuple[object, ...]], *, new: bool = False
) -> None:
    """Insert tuples of the named columns, as fast as the driver does; with ``new``, rows that exist already are left alone."""
    if not rows:
        return
    if table.name in TABLES:
        place = names.index("at")
        make_months(connection, table.name, (row[place] for row in rows))  # type: ignore[misc]  # a moment is a number
    leave = " on conflict do nothing" if new else ""
    names, rows = as_kept(connection.dialect.name, table.name, names, rows)
    connection.exec_driver_sql(marked(connection, _insertion(table, names) + leave), rows)


def insert_row(connection: Connection, table: Table, row: Mapping[str, object]) -> int:
    """Insert one row of values as the driver takes them; returns its number."""
    statement, told = _insertion(table, row), tuple(row.values())
    if connection.dialect.name == "postgresql":
        return int(connection.exec_driver_sql(marked(connection, statement) + " returning id", told).scalar_one())
    return connection.exec_driver_sql(statement, told).lastrowid


def _insertion(table: Table, names: Collection[str]) -> str:
    return f"insert into {table.name} ({', '.join(names)}) values ({', '.join('?' * len(names))})"  # names are ours


def _absences(sheet: Sheet, outcome: Outcome) -> tuple[list[str], dict[str, Known]]:
    """Open and close stretches without a listed price: the identities missed often enough to be gone, and the entries that changed."""
    known = sheet.listing.known
    missed = [key for key in outcome.missed if not known[key].gone]
    before = _whole_since(sheet, [known[key] for key in missed])
    ended = [key for key in missed if 1 + _missed_before(known[key], before) >= sheet.misses]
    back = [key for key in sheet.listing.absent if key in outcome.changed or key in outcome.seen]
    held = [key for key in outcome.held if key in known and not known[key].gone]
    over = set(ended)
    opened = {
        key: entry for why, keys in ((HELD, held), (MISSED, [k for k in missed if k not in over])) for key, entry in _open(sheet, keys, why)
    }
    _close(sheet, [known[key] for key in [*back, *ended, *opened]])
    _insert_absences(sheet, opened.values())
    return ended, {key: known[key]._replace(absence=None) for key in back if key not in outcome.changed} | opened


def _whole_since(sheet: Sheet, missed: Sequence[Known]) -> Sequence[int]:
    """Whole sweeps since the first of those that are missed began to be, ascending."""
    since = [entry.absence.since for entry in missed if entry.absence is not None and entry.is_missed]
    if sheet.whole_at is None or not since or min(since) > sheet.whole_at:
        return ()
    return (sheet.whole_at,) if min(since) == sheet.whole_at else whole_sweeps(sheet.connection, sheet.source, min(since))


def _missed_before(entry: Known, whole: Sequence[int]) -> int:
    """How many sweeps in a row, before this one, did not print it."""
    if entry.absence is None or not entry.is_missed:
        return 0
    return len(whole) - bisect_left(whole, entry.absence.since)


def _open(sheet: Sheet, keys: Sequence[str], why: str) -> Iterator[tuple[str, Known]]:
    """The entries whose price goes unseen from now on for that reason, and went unseen for no or another one until now."""
    entries = {key: sheet.listing.known[key] for key in keys}
    fresh = {key: entry for key, entry in entries.items() if entry.absence is None or entry.absence.why != why}
    for key, entry in fresh.items():
        last_seen = max(entry.at, sheet.whole_at or 0) if entry.absence is None else entry.absence.last_seen
        yield key, entry._replace(absence=Absence(sheet.at, None, last_seen, why))


def _insert_absences(sheet: Sheet, entries: Iterable[Known]) -> None:
    names = ("kind", "target", "since", "until", "last_seen", "why")
    told = [(sheet.kind.name, e.id, e.absence.since, None, e.absence.last_seen, e.absence.why) for e in entries if e.absence is not None]
    insert_rows(sheet.connection, UNSEEN, names, told)


def _close(sheet: Sheet, entries: Iterable[Known]) -> None:
    closed = [(sheet.at, sheet.kind.name, entry.id) for entry in entries if entry.absence is not None]
    if closed:
        change = "update unseen set until = ? where kind = ? and target = ? and until is null"
        sheet.connection.exec_driver_sql(marked(sheet.connection, change), closed)


def _add_new(sheet: Sheet, rows: Mapping[str, Row]) -> dict[str, int]:
    told = [{"key": key, "source": sheet.source, "origin": sheet.source, **columns(row)} for key, row in rows.items()]
    return add_dimensions(sheet.connection, sheet.kind.dimension, told)


def add_dimensions(connection: Connection, dimension: Table, new: Sequence[Mapping[str, object]]) -> dict[str, int]:
    """Insert dimension rows that are not there yet; returns the id of each key."""
    if not new:
        return {}
    names = tuple(new[0])
    insert_rows(connection, dimension, names, [tuple(row[name] for name in names) for row in new], new=True)
    keys = {str(row["key"]) for row in new}
    query = select(dimension.c.key, dimension.c.id)
    if len(keys) > MAX_ASKED:  # rather all of their sources than one by one
        found = connection.execute(query.where(dimension.c.source.in_({str(row["source"]) for row in new}))).all()
    else:
        found = connection.execute(query.where(dimension.c.key.in_(keys))).all()
    return {key: id_ for key, id_ in found if key in keys}


def insert_new(connection: Connection, table: Table) -> Insert:
    """An INSERT that leaves rows alone that exist already."""
    return insert_into(connection, table).on_conflict_do_nothing()


def list_accepted(connection: Connection, kind: Kind, source: str, key: str, row: Row, last_seen: int, now: datetime) -> None:
    """List a row from now on that was last printed at ``last_seen``: being accepted makes no price look seen."""
    (id_,) = add_dimensions(connection, kind.dimension, [{"key": key, "source": source, "origin": source, **columns(row)}]).values()
    last_point = connection.scalar(select(func.max(kind.point.c.at)).where(kind.point.c[kind.link] == id_))
    last_sweep = connection.scalar(select(func.max(SWEEP.c.at)).where(SWEEP.c.source == source))
    at = max(to_s(now), (last_point or 0) + 1, (last_sweep or 0) + 1)
    insert_rows(connection, kind.point, point_names(kind), [(id_, at, *values(row), *LISTED[kind.name])])
    of = (UNSEEN.c.kind == kind.name, UNSEEN.c.target == id_, UNSEEN.c.until.is_(None))
    connection.execute(update(UNSEEN).where(*of).values(until=at))
    connection.execute(insert(UNSEEN).values(kind=kind.name, target=id_, since=at, until=None, last_seen=last_seen, why=ACCEPTED))
