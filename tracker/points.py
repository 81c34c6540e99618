"""Writes what a judged sweep changed: change points, corrected descriptions, and stretches in which a listed price was not printed."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import Connection, Table, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.dml import Insert

from tracker.asof import REWORDED
from tracker.listing import ACCEPTED, HELD, MISSED, OFFER_POINT, SWEEP, UNSEEN, Kind, Known, Row, last_whole_sweep, whole_sweeps
from tracker.rows import OfferRow, columns, to_ms, values


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a sweep said about one kind of price, by identity: to be listed, seen as it is listed, held back, and not printed."""

    listed: Mapping[str, Row] = field(default_factory=dict)
    seen: Collection[str] = ()
    held: Collection[str] = ()
    missed: Collection[str] = ()


def write_rows(connection: Connection, kind: Kind, source: str, at: int, known: Mapping[str, Known], outcome: Outcome, misses: int) -> int:
    """Write the points of one kind: new and changed rows, and the end of those missed ``misses`` times. Returns how many."""
    ids = {key: entry.id for key, entry in known.items()} | _add_new(connection, kind, source, outcome.listed, known)
    _correct_descriptions(connection, kind, outcome.listed, known, at)
    points = [
        _point(kind, ids[key], at, row) for key, row in outcome.listed.items() if key not in known or known[key].values != values(row)
    ]
    ended = _absences(connection, kind, source, at, known, outcome, misses)
    points += [_gone(kind, known[key].id, at) for key in ended]
    if points:
        connection.execute(insert(kind.point), points)
    return len(points)


def _absences(
    connection: Connection, kind: Kind, source: str, at: int, known: Mapping[str, Known], outcome: Outcome, misses: int
) -> list[str]:
    """Open and close stretches without a listed price. Returns the identities that were missed often enough to be gone."""
    seen_before = last_whole_sweep(connection, source)
    missed = [key for key in outcome.missed if not known[key].gone]
    ended = [key for key in missed if 1 + _missed_before(connection, source, known[key]) >= misses]
    for key in [*_absent([*outcome.listed, *outcome.seen], known), *ended]:
        _close(connection, kind, known[key], at)
    for why, keys in ((HELD, [k for k in outcome.held if k in known and not known[k].gone]), (MISSED, missed)):
        for key in keys:
            if key not in ended:
                _open(connection, kind, known[key], at, why, seen_before)
    return ended


def _absent(keys: Collection[str], known: Mapping[str, Known]) -> Iterator[str]:
    return (key for key in keys if key in known and known[key].absence is not None)


def _missed_before(connection: Connection, source: str, entry: Known) -> int:
    """How many sweeps in a row, before this one, did not print it."""
    if entry.absence is None or not entry.is_missed:
        return 0
    return len(whole_sweeps(connection, source, entry.absence.since))


def _open(connection: Connection, kind: Kind, entry: Known, at: int, why: str, seen_before: int | None) -> None:
    if entry.absence is not None and entry.absence.why == why:
        return
    last_seen = max(entry.at, seen_before or 0) if entry.absence is None else entry.absence.last_seen
    _close(connection, kind, entry, at)
    connection.execute(insert(UNSEEN).values(kind=kind.name, target=entry.id, since=at, until=None, last_seen=last_seen, why=why))


def _close(connection: Connection, kind: Kind, entry: Known, at: int) -> None:
    if entry.absence is not None:
        of = (UNSEEN.c.kind == kind.name, UNSEEN.c.target == entry.id, UNSEEN.c.until.is_(None))
        connection.execute(update(UNSEEN).where(*of).values(until=at))


def _add_new(connection: Connection, kind: Kind, source: str, rows: Mapping[str, Row], known: Mapping[str, Known]) -> dict[str, int]:
    new = [{"key": key, "source": source, "origin": source, **columns(row)} for key, row in rows.items() if key not in known]
    return add_dimensions(connection, kind.dimension, new)


def add_dimensions(connection: Connection, dimension: Table, new: Sequence[Mapping[str, object]]) -> dict[str, int]:
    """Insert dimension rows that are not there yet; returns the id of each key."""
    if not new:
        return {}
    connection.execute(insert_new(connection, dimension), list(new))
    ids: dict[str, int] = {}
    keys = [str(row["key"]) for row in new]
    for start in range(0, len(keys), 500):  # SQLite allows 999 parameters in old builds
        found = connection.execute(select(dimension.c.key, dimension.c.id).where(dimension.c.key.in_(keys[start : start + 500])))
        ids.update((key, id_) for key, id_ in found)
    return ids


def insert_new(connection: Connection, table: Table) -> Insert:
    """An INSERT that leaves rows alone that exist already."""
    module = postgresql if connection.dialect.name == "postgresql" else sqlite
    insertion: Insert = module.insert(table).on_conflict_do_nothing()
    return insertion


def _correct_descriptions(connection: Connection, kind: Kind, rows: Mapping[str, Row], known: Mapping[str, Known], at: int) -> None:
    """Descriptions are not prices: the newest wording replaces the old one, which is kept for answers about the time before."""
    for key, row in rows.items():
        if key in known and known[key].description != (words := tuple(getattr(row, n) for n in row.DESCRIPTION)):
            was = json.dumps(dict(zip(row.DESCRIPTION, known[key].description, strict=True)))
            connection.execute(insert(REWORDED).values(kind=kind.name, target=known[key].id, until=at, was=was))
            fresh = dict(zip(row.DESCRIPTION, words, strict=True))
            connection.execute(update(kind.dimension).where(kind.dimension.c.id == known[key].id).values(**fresh))


def _point(kind: Kind, id_: int, at: int, row: Row) -> dict[str, object]:
    point: dict[str, object] = {kind.link: id_, "at": at, **{name: getattr(row, name) for name in row.VALUES}}
    return point if isinstance(row, OfferRow) else point | {"gone": False}


def _gone(kind: Kind, id_: int, at: int) -> dict[str, object]:
    empty: dict[str, object] = dict.fromkeys((c.name for c in kind.point.columns), None)
    return empty | {kind.link: id_, "at": at} | ({"availability": 0} if kind.point is OFFER_POINT else {"gone": True})


def list_accepted(connection: Connection, kind: Kind, source: str, key: str, row: Row, last_seen: int, now: datetime) -> None:
    """List a row from now on that was last printed at ``last_seen``: being accepted makes no price look seen."""
    (id_,) = add_dimensions(connection, kind.dimension, [{"key": key, "source": source, "origin": source, **columns(row)}]).values()
    last_point = connection.scalar(select(func.max(kind.point.c.at)).where(kind.point.c[kind.link] == id_))
    last_sweep = connection.scalar(select(func.max(SWEEP.c.at)).where(SWEEP.c.source == source))
    at = max(to_ms(now), (last_point or 0) + 1, (last_sweep or 0) + 1)
    connection.execute(insert(kind.point), [_point(kind, id_, at, row)])
    of = (UNSEEN.c.kind == kind.name, UNSEEN.c.target == id_, UNSEEN.c.until.is_(None))
    connection.execute(update(UNSEEN).where(*of).values(until=at))
    connection.execute(insert(UNSEEN).values(kind=kind.name, target=id_, since=at, until=None, last_seen=last_seen, why=ACCEPTED))
