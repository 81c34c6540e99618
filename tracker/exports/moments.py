"""When answers may change: between two such moments the book of one is the book of the other, so that it is read once."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, time, timedelta
from itertools import chain
from typing import Any

from sqlalchemy import Connection, select

from tracker.answers.snapshot import Snapshot
from tracker.book.asof import BACKDATED, ID, SOURCE
from tracker.book.entries import Entries
from tracker.book.exchange import FX, PUBLISHED
from tracker.book.listing import ENDED_MS, OFFER, RATE, RATE_POINT, SWEEP, UNSEEN
from tracker.config import whole_s
from tracker.database.rows import from_s, to_s
from tracker.world import World

ROWS_AT_ONCE = 10_000


class Changes:
    """Moments at which something was stored or learnt, or a dated price began or ended, ascending; and those of each day at which
    exchange rates change. Asked with moments that never go back."""

    def __init__(self, connection: Connection, start: datetime) -> None:
        self._ahead = heapq.merge(_swept(connection, start), _others(connection, start))
        self._next = next(self._ahead, None)

    def after(self, at: datetime) -> datetime:
        """The first one after ``at``: less than a day later."""
        while self._next is not None and self._next <= at:
            self._next = next(self._ahead, None)
        published = datetime.combine(at.date(), PUBLISHED)
        daily = published if at < published else datetime.combine(at.date() + timedelta(days=1), time(tzinfo=UTC))
        return daily if self._next is None else min(daily, self._next)


def _swept(connection: Connection, start: datetime) -> Iterator[datetime]:
    query = select(SWEEP.c.at).where(SWEEP.c.at > to_s(start)).order_by(SWEEP.c.at).execution_options(yield_per=ROWS_AT_ONCE)
    return (from_s(at) for at in connection.scalars(query))


def _others(connection: Connection, start: datetime) -> Iterator[datetime]:
    """Announced prices, prices that a person accepted between sweeps, and what was learnt later than it was true."""
    found: set[int] = set()
    for column in (OFFER.c.valid_from, RATE.c.valid_from, RATE_POINT.c.valid_to, UNSEEN.c.since, BACKDATED.c.known_at, FX.c.known_at):
        found.update(connection.scalars(select(column).where(column > to_s(start)).distinct()))
    began = connection.scalar(select(ENDED_MS).order_by(SWEEP.c.id).limit(1))
    if began is not None and began // 1000 > to_s(start):
        found.add(began // 1000)
    return (from_s(at) for at in sorted(found))


def stale_after(snapshot: Snapshot, world: World) -> datetime:
    """A moment up to which every price that is fresh in ``snapshot`` stays so, if nothing is collected until then."""
    limits = {name: whole_s(source.settings.max_age_hours) for name, source in world.config.sources.items()}
    ends = chain(_ends(snapshot.book.offers, limits), _ends(snapshot.book.price_lists, limits))
    return min(map(from_s, ends), default=datetime.max.replace(tzinfo=UTC))


def _ends(entries: Entries[Any], limits: Mapping[str, int]) -> Iterator[int]:
    """When prices grow old, the first of each source: of one that is covered none before its coverage does."""
    reading, sources = entries.reading, {row[SOURCE] for row in entries.rows} & limits.keys()
    whole = {source for source in sources if reading.covered.get(source, -1) >= reading.oldest(source)}
    yield from (reading.covered[source] + limits[source] + 1 for source in whole)
    if reading.unseen or whole != sources:
        for row in entries.rows:
            source = row[SOURCE]
            if (row[ID] in reading.unseen or source not in whole) and row[ID] >= 0 and source in limits and reading.fresh(row):
                yield reading.seen_at(row) + limits[source] + 1
