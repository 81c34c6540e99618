"""The newest snapshot of the book; and an older one that grew old, for when the database does not answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import Connection, Engine

from tracker.answers.recompute import Sizer, of_book, snapshot_of
from tracker.answers.snapshot import Snapshot, SourceHealth
from tracker.book.asof import ID
from tracker.book.book import Book
from tracker.book.entries import Entries, Listed, Reading, Value
from tracker.book.newest import newest_sweep, reading_moment
from tracker.database.handle import reading as transaction
from tracker.database.rows import whole
from tracker.world import World

Read = Callable[[Connection, datetime], Book]


def latest(db: Engine, world: World, sizer: Sizer, now: datetime, read: Read | None = None) -> tuple[int, Snapshot]:
    """Number of the newest sweep, and the answers from the book with it: from the one that ``read`` keeps, where it is given."""
    with transaction(db) as connection:
        at = reading_moment(connection, now)
        return newest_sweep(connection), snapshot_of(connection, world, sizer, at, None if read is None else read(connection, at))


def aged(snapshot: Snapshot, world: World, sizer: Sizer, now: datetime) -> Snapshot:
    """The same book later, with nothing new in it: what has passed its age limit since is fresh no more."""
    at = max(now, snapshot.at)
    book = replace(
        snapshot.book,
        at=at,
        known=at,
        offers=_aged(snapshot.book.offers, at),
        price_lists=_aged(snapshot.book.price_lists, at),
    )
    found = of_book(book, tuple(_aged_health(source, at) for source in snapshot.sources), world, sizer)
    return replace(found, grown_old_since=snapshot.grown_old_since)


def _aged(entries: Entries[Value], at: datetime) -> Entries[Value]:
    reading = entries.reading
    kept = {id_ for row in entries.rows if (id_ := row[ID]) < 0}  # others were given to the looks before
    given = {id_: replace(entry, fresh=entry.fresh and _in_time(entry, reading, at)) for id_, entry in reading.given.items() if id_ in kept}
    return Entries(entries.rows, replace(reading, until=at, given=given))


def _in_time(entry: Listed[Value], reading: Reading[Value], at: datetime) -> bool:
    source = reading.sources.get(entry.value.source)
    return source is not None and whole(at) - entry.seen_at <= timedelta(hours=source.settings.max_age_hours)


def _aged_health(source: SourceHealth, at: datetime) -> SourceHealth:
    late = source.last_success is None or at - source.last_success > timedelta(hours=source.max_age_hours)
    return replace(source, stale=source.enabled and late)
