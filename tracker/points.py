"""Writes what a judged sweep changed: change points, corrected descriptions, and stretches in which a listed price was not printed."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import Connection, Table, bindparam, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.dml import Insert

from tracker.asof import REWORDED
from tracker.listing import ACCEPTED, HELD, MISSED, RATES, SWEEP, UNSEEN, Kind, Known, Row, last_whole_sweep, whole_sweeps
from tracker.rows import OfferRow, RateRow, columns, state, to_s, values

MANY = 500  # SQLite allows 999 parameters in old builds
GONE = {"offer": (None, 0, None), "rate": (*(None,) * len(RateRow.VALUES), True)}  # what the last point of something gone says


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a sweep said about one kind of price, by identity: to be listed, seen as it is listed, held back, and not printed."""

    listed: Mapping[str, Row] = field(default_factory=dict)
    seen: Collection[str] = ()
    held: Collection[str] = ()
    missed: Collection[str] = ()


def write_rows(connection: Connection, kind: Kind, source: str, at: int, known: Mapping[str, Known], outcome: Outcome, misses: int) -> int:
    """Write the points of one kind: new and changed rows, and the end of those missed ``misses`` times. Returns how many."""
    new: dict[str, Row] = {}
    moved: dict[str, Row] = {}
    for key, row in outcome.listed.items():
        entry = known.get(key)
        if entry is None:
            new[key] = row
        elif entry.gone or entry.state != state(row):
            moved[key] = row
    ids = _add_new(connection, kind, source, new)
    points = [(ids[key], at, *_stated(row)) for key, row in new.items()]
    points += [(known[key].id, at, *_stated(row)) for key, row in moved.items() if known[key].gone or not _same_price(known[key], row)]
    _correct_descriptions(connection, kind, moved, known, at)
    ended = _absences(connection, kind, source, at, known, outcome, misses)
    points += [(known[key].id, at, *GONE[kind.name]) for key in ended]
    insert_rows(connection, kind.point, point_names(kind), points)
    return len(points)


def _same_price(known: Known, row: Row) -> bool:
    return known.state[: len(row.VALUES)] == values(row)


def _stated(row: Row) -> tuple[object, ...]:
    """What a point says, after what it is of and when."""
    return values(row) if isinstance(row, OfferRow) else (*values(row), False)


def point_names(kind: Kind) -> tuple[str, ...]:
    """The columns of a point."""
    return (kind.link, "at", *kind.row.VALUES, *(("gone",) if kind is RATES else ()))


def insert_rows(
    connection: Connection, table: Table, names: Sequence[str], rows: Sequence[tuple[object, ...]], *, new: bool = False
) -> None:
    """Insert tuples of the named columns, as fast as the driver does; with ``new``, rows that exist already are left alone."""
    if not rows:
        return
    mark = "%s" if connection.dialect.name == "postgresql" else "?"
    leave = " on conflict do nothing" if new else ""
    marks = ", ".join([mark] * len(names))
    connection.exec_driver_sql(f"insert into {table.name} ({', '.join(names)}) values ({marks}){leave}", list(rows))  # names are ours


def _absences(
    connection: Connection, kind: Kind, source: str, at: int, known: Mapping[str, Known], outcome: Outcome, misses: int
) -> list[str]:
    """Open and close stretches without a listed price. Returns the identities that were missed often enough to be gone."""
    missed = [key for key in outcome.missed if not known[key].gone]
    before = _whole_since(connection, source, [known[key] for key in missed])
    ended = [key for key in missed if 1 + _missed_before(known[key], before) >= misses]
    absent = [key for key, entry in known.items() if entry.absence is not None]
    _close(connection, kind, [known[key] for key in [*(key for key in absent if key in outcome.listed or key in outcome.seen), *ended]], at)
    seen_before = last_whole_sweep(connection, source) if missed or outcome.held else None
    for why, keys in ((HELD, [k for k in outcome.held if k in known and not known[k].gone]), (MISSED, missed)):
        _open(connection, kind, [known[key] for key in keys if key not in ended], at, why, seen_before)
    return ended


def _whole_since(connection: Connection, source: str, missed: Sequence[Known]) -> Sequence[int]:
    """Whole sweeps since the first of those that are missed began to be, ascending."""
    since = [entry.absence.since for entry in missed if entry.absence is not None and entry.is_missed]
    return whole_sweeps(connection, source, min(since)) if since else ()


def _missed_before(entry: Known, whole: Sequence[int]) -> int:
    """How many sweeps in a row, before this one, did not print it."""
    if entry.absence is None or not entry.is_missed:
        return 0
    return len(whole) - bisect_left(whole, entry.absence.since)


def _open(connection: Connection, kind: Kind, entries: Sequence[Known], at: int, why: str, seen_before: int | None) -> None:
    fresh = [entry for entry in entries if entry.absence is None or entry.absence.why != why]
    _close(connection, kind, fresh, at)
    stretches = [
        {
            "kind": kind.name,
            "target": entry.id,
            "since": at,
            "until": None,
            "last_seen": max(entry.at, seen_before or 0) if entry.absence is None else entry.absence.last_seen,
            "why": why,
        }
        for entry in fresh
    ]
    if stretches:
        connection.execute(insert(UNSEEN), stretches)


def _close(connection: Connection, kind: Kind, entries: Sequence[Known], at: int) -> None:
    closed = [{"id_": entry.id, "end": at} for entry in entries if entry.absence is not None]
    if closed:
        of = (UNSEEN.c.kind == kind.name, UNSEEN.c.target == bindparam("id_"), UNSEEN.c.until.is_(None))
        connection.execute(update(UNSEEN).where(*of).values(until=bindparam("end")), closed)


def _add_new(connection: Connection, kind: Kind, source: str, rows: Mapping[str, Row]) -> dict[str, int]:
    return add_dimensions(
        connection, kind.dimension, [{"key": key, "source": source, "origin": source, **columns(row)} for key, row in rows.items()]
    )


def add_dimensions(connection: Connection, dimension: Table, new: Sequence[Mapping[str, object]]) -> dict[str, int]:
    """Insert dimension rows that are not there yet; returns the id of each key."""
    if not new:
        return {}
    names = tuple(new[0])
    insert_rows(connection, dimension, names, [tuple(row[name] for name in names) for row in new], new=True)
    keys = {str(row["key"]) for row in new}
    query = select(dimension.c.key, dimension.c.id)
    if len(keys) > MANY:  # rather all of their sources than one by one
        found = connection.execute(query.where(dimension.c.source.in_({str(row["source"]) for row in new}))).all()
    else:
        found = connection.execute(query.where(dimension.c.key.in_(keys))).all()
    return {key: id_ for key, id_ in found if key in keys}


def insert_new(connection: Connection, table: Table) -> Insert:
    """An INSERT that leaves rows alone that exist already."""
    module = postgresql if connection.dialect.name == "postgresql" else sqlite
    insertion: Insert = module.insert(table).on_conflict_do_nothing()
    return insertion


def _correct_descriptions(connection: Connection, kind: Kind, rows: Mapping[str, Row], known: Mapping[str, Known], at: int) -> None:
    """Descriptions are not prices: the newest wording replaces the old one, which is kept for answers about the time before."""
    for key, row in rows.items():
        entry, words = known[key], state(row)[len(row.VALUES) :]
        if (before := entry.state[len(row.VALUES) :]) != words:
            was = json.dumps({name: bool(old) if name == "is_slice" else old for name, old in zip(row.DESCRIPTION, before, strict=True)})
            connection.execute(insert(REWORDED).values(kind=kind.name, target=entry.id, until=at, was=was))
            fresh = dict(zip(row.DESCRIPTION, words, strict=True))
            connection.execute(update(kind.dimension).where(kind.dimension.c.id == entry.id).values(**fresh))


def list_accepted(connection: Connection, kind: Kind, source: str, key: str, row: Row, last_seen: int, now: datetime) -> None:
    """List a row from now on that was last printed at ``last_seen``: being accepted makes no price look seen."""
    (id_,) = add_dimensions(connection, kind.dimension, [{"key": key, "source": source, "origin": source, **columns(row)}]).values()
    last_point = connection.scalar(select(func.max(kind.point.c.at)).where(kind.point.c[kind.link] == id_))
    last_sweep = connection.scalar(select(func.max(SWEEP.c.at)).where(SWEEP.c.source == source))
    at = max(to_s(now), (last_point or 0) + 1, (last_sweep or 0) + 1)
    insert_rows(connection, kind.point, point_names(kind), [(id_, at, *_stated(row))])
    of = (UNSEEN.c.kind == kind.name, UNSEEN.c.target == id_, UNSEEN.c.until.is_(None))
    connection.execute(update(UNSEEN).where(*of).values(until=at))
    connection.execute(insert(UNSEEN).values(kind=kind.name, target=id_, since=at, until=None, last_seen=last_seen, why=ACCEPTED))
