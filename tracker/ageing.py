"""The newest snapshot of the book; and an older one that grew old, for when the database does not answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import Engine

from tracker.book import Listed, Value
from tracker.clock import newest_sweep, reading_moment
from tracker.config import Source
from tracker.database import reading
from tracker.recompute import Sizer, of_book, snapshot_of
from tracker.snapshot import Snapshot, SourceHealth
from tracker.world import World


def latest(db: Engine, world: World, sizer: Sizer, now: datetime) -> tuple[int, Snapshot]:
    """Number of the newest sweep, and the answers from the book with it."""
    with reading(db) as connection:
        return newest_sweep(connection), snapshot_of(connection, world, sizer, reading_moment(connection, now))


def aged(snapshot: Snapshot, world: World, sizer: Sizer, now: datetime) -> Snapshot:
    """The same book later, with nothing new in it: what has passed its age limit since is fresh no more."""
    at, sources = max(now, snapshot.at), world.config.sources
    book = replace(
        snapshot.book,
        at=at,
        known=at,
        offers=tuple(_aged(entry, at, sources) for entry in snapshot.book.offers),
        price_lists=tuple(_aged(entry, at, sources) for entry in snapshot.book.price_lists),
    )
    return of_book(book, tuple(_aged_health(source, at) for source in snapshot.sources), world, sizer)


def _aged(entry: Listed[Value], at: datetime, sources: Mapping[str, Source]) -> Listed[Value]:
    source = sources.get(entry.value.source)
    in_time = source is not None and at - entry.seen_at <= timedelta(hours=source.settings.max_age_hours)
    return replace(entry, fresh=entry.fresh and in_time)


def _aged_health(source: SourceHealth, at: datetime) -> SourceHealth:
    late = source.last_success is None or at - source.last_success > timedelta(hours=source.max_age_hours)
    return replace(source, stale=source.enabled and late)
