"""The stored history as snapshots, one for every moment at which something was read. Imported prices count as read while their
source was listed, which they never do for the daemon."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import zip_longest

from sqlalchemy import Connection, select

from tracker.answers.health import source_health
from tracker.answers.recompute import Sizer, of_book
from tracker.answers.snapshot import Snapshot, SourceHealth
from tracker.book.asof import IMPORTED
from tracker.book.book import Book, Listed, Value, read_book
from tracker.book.entry_values import offers_of, rates_of
from tracker.book.listing import OFFER, OFFER_POINT, RATE, RATE_POINT, SWEEP
from tracker.budgets.costs import Meter
from tracker.config import YEAR_H, Source, SourceSettings
from tracker.database.rows import from_s
from tracker.errors import BreakevenError
from tracker.world import World

MOST = 20_000  # looks


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """When each source was read, ascending. Imported ones carry the prefix of the book."""

    live: Mapping[str, Sequence[datetime]]
    imported: Mapping[str, Sequence[datetime]]

    def looks(self, since: datetime, until: datetime, step: timedelta) -> list[datetime]:
        """The moments to look: every reading, but of several within ``step`` the last."""
        moments = sorted({m for series in (*self.live.values(), *self.imported.values()) for m in series if since <= m <= until})
        looks = [m for m, following in zip_longest(moments, moments[1:]) if following is None or following - m >= step]
        if len(looks) > MOST:
            raise BreakevenError(f"that is {len(looks):,} looks, more than {MOST:,}; lengthen --step or begin later")
        return looks


def read_past(connection: Connection) -> Past:
    """When everything was read."""
    live: dict[str, list[datetime]] = {}
    for source, at in connection.execute(select(SWEEP.c.source, SWEEP.c.at).order_by(SWEEP.c.at)):
        if not source.startswith(IMPORTED):
            live.setdefault(source, []).append(from_s(at))
    found: dict[str, set[int]] = {}
    for dimension, point, link in ((OFFER, OFFER_POINT, "offer_id"), (RATE, RATE_POINT, "rate_id")):
        query = select(dimension.c.source, point.c.at).join(point, point.c[link] == dimension.c.id).distinct()
        for source, at in connection.execute(query.where(dimension.c.source.like(IMPORTED + "%"))):
            found.setdefault(source, set()).add(at)
    return Past(live=live, imported={source: [from_s(at) for at in sorted(moments)] for source, moments in found.items()})


def snapshots(connection: Connection, world: World, past: Past, looks: Sequence[datetime], known: datetime) -> Iterator[Snapshot]:
    """The answers at each moment, worked out as the daemon works them out."""
    sizer, meter, sources = Sizer(world), Meter(world), dict(world.config.sources)
    sources |= {name: _as_source(name) for name in past.imported}
    for at in looks:
        book = _vouched(read_book(connection, at, sources, known), past)
        yield meter.on(of_book(book, tuple(_health(connection, world, past, at)), world, sizer))


def _as_source(name: str) -> Source:
    settings = SourceSettings(kind="rent", base_url="http://imported", interval_minutes=60, max_age_hours=YEAR_H)
    return Source(id=name, settings=settings)


def _vouched(book: Book, past: Past) -> Book:
    """Imported prices as seen when their source was last read: one that is listed is neither gone nor another by then."""
    offers = offers_of(_seen(entry, past, book.at) for entry in book.offers)
    return replace(book, offers=offers, price_lists=rates_of(_seen(entry, past, book.at) for entry in book.price_lists))


def _seen(entry: Listed[Value], past: Past, at: datetime) -> Listed[Value]:
    moments = past.imported.get(entry.value.source)
    if moments is None:
        return entry
    seen_at = moments[bisect_right(moments, at) - 1]
    return replace(entry, value=replace(entry.value, seen_at=seen_at), fresh=at - seen_at <= timedelta(hours=YEAR_H))


def _health(connection: Connection, world: World, past: Past, at: datetime) -> Iterator[SourceHealth]:
    """Sources that had been read by then: others are not waited for."""
    begun = {source for source, moments in past.live.items() if moments[0] <= at}
    for health in source_health(connection, {name: s for name, s in world.config.sources.items() if name in begun}, at):
        yield replace(health, enabled=True, off_reason="", quarantined=0, stale=_late(health, at))
    for source, moments in past.imported.items():
        if moments[0] <= at:
            last = moments[bisect_right(moments, at) - 1]
            yield SourceHealth(
                id=source, kind="rent", enabled=True, off_reason="", last_attempt=last, last_success=last, status="ok", rows=0,
                skipped={}, duration_s=0, bytes=0, error="", max_age_hours=YEAR_H, interval_minutes=60, sweeps=0, failures=0, stale=False,
            )  # fmt: skip


def _late(health: SourceHealth, at: datetime) -> bool:
    return health.last_success is None or at - health.last_success > timedelta(hours=health.max_age_hours)
