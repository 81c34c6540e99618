"""What the sources answered, kept so that any price can be worked out again: every body once, by its SHA-256, zstd-compressed.

In the database and not beside it, so that every replica reads the same and a backup has them; writing one took a quarter of the
time of a file that is synced, at 1 % more room (2026-11-29). Bounded in days and bytes, the oldest sweeps go first and whole.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, Engine, RowMapping, delete, exists, func, insert, select, update
from sqlalchemy.exc import SQLAlchemyError

from scrapers.contract import Page
from scrapers.redact import redact, redact_bytes
from tracker.book.listing import ENDED_MS, SWEEP
from tracker.config import BodiesSettings
from tracker.database.faults import fault_line
from tracker.database.handle import reading, writing
from tracker.database.limits import in_parts
from tracker.database.postgres import serialize
from tracker.database.rows import from_s, to_ms, to_s
from tracker.database.schema import TABLES
from tracker.errors import BreakevenError
from tracker.sweeps.store import SweepReport

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

log = logging.getLogger("breakeven.bodies")

BODY, KEPT_SWEEP, KEPT_PAGE = TABLES["body"], TABLES["kept_sweep"], TABLES["kept_page"]
LEVEL = 9  # 8.2 times smaller at 100 MB a second on 10 MB of real answers; 3 gives 7.1 times, 15 8.5 times at 6 MB a second
HEADERS = ("content-type", "date", "etag", "last-modified", "link", "x-total-count")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSweep:
    """A sweep whose bodies are kept; ``read_until`` is the last time a sweep read the same."""

    id: int
    source: str
    at: datetime
    status: str
    read_until: datetime


def keep_bodies(db: Engine, settings: BodiesSettings, report: SweepReport, pages: Sequence[Page], secrets: Collection[str] = ()) -> None:
    """Keep the pages of a sweep that is recorded. What goes wrong is said and costs the bodies alone: the sweep stands."""
    if not pages or not settings.days or not settings.max_bytes:
        return
    try:
        _keep(db, settings, report, pages, secrets)
    except SQLAlchemyError as error:
        log.warning("%s: bodies not kept: %s", report.source, fault_line(error))
    except (zstd.ZstdError, MemoryError) as error:
        log.warning("%s: bodies not kept: %s", report.source, error or type(error).__name__)


def _keep(db: Engine, settings: BodiesSettings, report: SweepReport, pages: Sequence[Page], secrets: Collection[str]) -> None:
    read = [redact_bytes(page.body, secrets) for page in pages]
    hashes = [hashlib.sha256(body).hexdigest() for body in read]
    small = {key: body for key, body in zip(hashes, read, strict=True) if len(body) <= settings.max_body_bytes}
    with reading(db) as connection:
        there = _there(connection, small)
    packed = {key: zstd.compress(body, LEVEL) for key, body in small.items() if key not in there}
    rows = [
        {
            "place": place, "sha256": key, "size": len(body), "url": redact(page.url, secrets), "fetched_at": page.fetched_at,
            "headers": json.dumps({name: redact(page.headers[name], secrets) for name in HEADERS if name in page.headers}),
        }
        for place, (key, body, page) in enumerate(zip(hashes, read, pages, strict=True))
    ]  # fmt: skip
    with writing(db) as connection:
        serialize(connection, "bodies")
        sweep = _record(connection, report, rows)
        if sweep is not None:
            new = small.keys() - _there(connection, small)  # another process may have kept or evicted some since
            _add(
                connection,
                settings,
                report.finished_at,
                sweep,
                {key: packed.get(key) or zstd.compress(small[key], LEVEL) for key in new},
                small,
            )


def _add(
    connection: Connection, settings: BodiesSettings, now: datetime, sweep: int, new: Mapping[str, bytes], small: Mapping[str, bytes]
) -> None:
    """Make room and put the new bodies there; where there is none for all of them, none is kept."""
    incoming = sum(map(len, new.values()))
    if incoming > settings.max_bytes:
        incoming, new = 0, {}  # it finds no room however much is let go of
    evict(connection, settings, now, incoming=incoming, sparing=sweep)
    if new and kept_bytes(connection) + incoming <= settings.max_bytes:
        found = [{"sha256": key, "size": len(small[key]), "stored": len(body), "zstd": body} for key, body in new.items()]
        connection.execute(insert(BODY), found)


def _there(connection: Connection, keys: Collection[str]) -> set[str]:
    """Those of the hashes that are kept."""
    found: set[str] = set()
    for some in in_parts(list(keys)):
        found.update(connection.scalars(select(BODY.c.sha256).where(BODY.c.sha256.in_(some))))
    return found


def _record(connection: Connection, report: SweepReport, rows: Sequence[Mapping[str, object]]) -> int | None:
    """Link the pages to the sweep; one that read the same as the last kept one only prolongs it. Returns which one has them."""
    newest = select(SWEEP.c.id, ENDED_MS).where(SWEEP.c.source == report.source).order_by(SWEEP.c.at.desc()).limit(2).subquery()
    sweep = connection.scalar(select(func.max(newest.c.id)).where(newest.c.ended_ms == to_ms(report.finished_at)))
    if sweep is None:
        return None
    read = to_s(report.finished_at)
    last = connection.scalar(select(func.max(KEPT_SWEEP.c.first_sweep)).where(KEPT_SWEEP.c.source == report.source))
    if report.status == "unchanged" and last is not None and _hashes(connection, last) == [row["sha256"] for row in rows]:
        connection.execute(update(KEPT_SWEEP).where(KEPT_SWEEP.c.first_sweep == last).values(last_sweep=sweep, last_read=read))
        return int(last)
    connection.execute(insert(KEPT_SWEEP).values(first_sweep=sweep, last_sweep=sweep, source=report.source, last_read=read))
    connection.execute(insert(KEPT_PAGE), [{"first_sweep": sweep, **row} for row in rows])
    return int(sweep)


def _hashes(connection: Connection, sweep: int) -> list[str]:
    return list(connection.scalars(select(KEPT_PAGE.c.sha256).where(KEPT_PAGE.c.first_sweep == sweep).order_by(KEPT_PAGE.c.place)))


def kept_bytes(connection: Connection) -> int:
    """Bytes of all kept bodies, compressed."""
    return int(connection.scalar(select(func.coalesce(func.sum(BODY.c.stored), 0))) or 0)


def evict(connection: Connection, settings: BodiesSettings, now: datetime, *, incoming: int = 0, sparing: int = 0) -> None:
    """Let go of sweeps last read before the days that are kept, and of the oldest until ``incoming`` bytes find room.

    A sweep goes whole: one of its pages alone would be read as all of them. ``sparing`` goes last.
    """
    oldest_first = select(KEPT_SWEEP.c.first_sweep).order_by(KEPT_SWEEP.c.last_read, KEPT_SWEEP.c.first_sweep)
    past = oldest_first.where(KEPT_SWEEP.c.last_read < to_s(now - timedelta(days=settings.days)))
    for sweep in connection.scalars(past).all():
        _drop(connection, sweep)
    while kept_bytes(connection) + incoming > settings.max_bytes:
        sweep = connection.scalar(oldest_first.where(KEPT_SWEEP.c.first_sweep != sparing).limit(1))
        if sweep is None:
            break
        _drop(connection, sweep)
    if kept_bytes(connection) > settings.max_bytes:
        _drop(connection, sparing)


def _drop(connection: Connection, sweep: int) -> None:
    """Forget a kept sweep and the bodies that no other one has."""
    hashes = sorted(set(_hashes(connection, sweep)))
    connection.execute(delete(KEPT_PAGE).where(KEPT_PAGE.c.first_sweep == sweep))
    connection.execute(delete(KEPT_SWEEP).where(KEPT_SWEEP.c.first_sweep == sweep))
    unused = ~exists().where(KEPT_PAGE.c.sha256 == BODY.c.sha256)
    for some in in_parts(hashes):
        connection.execute(delete(BODY).where(BODY.c.sha256.in_(some), unused))


def kept_sweeps(connection: Connection, since: datetime, source: str = "", *, until: datetime | None = None) -> list[KeptSweep]:
    """Sweeps whose bodies are kept and that were read at or after ``since``, oldest first; those made by ``until`` where that is told."""
    query = (
        select(KEPT_SWEEP, SWEEP.c.at, SWEEP.c.status)
        .join(SWEEP, SWEEP.c.id == KEPT_SWEEP.c.first_sweep)
        .where(KEPT_SWEEP.c.last_read >= to_s(since))
        .order_by(SWEEP.c.at, SWEEP.c.id)
    )
    if source:
        query = query.where(KEPT_SWEEP.c.source == source)
    if until is not None:
        query = query.where(SWEEP.c.at <= to_s(until))
    return [
        KeptSweep(id=row.first_sweep, source=row.source, at=from_s(row.at), status=row.status, read_until=from_s(row.last_read))
        for row in connection.execute(query)
    ]


class NotKept(BreakevenError):
    """A sweep cannot be read again: says which of its bodies is missing and why."""


def pages_of(connection: Connection, sweep: KeptSweep) -> list[Page]:
    """The pages of a kept sweep as its parser got them; NotKept where one is missing or damaged."""
    query = (
        select(KEPT_PAGE, BODY.c.zstd)
        .join(BODY, BODY.c.sha256 == KEPT_PAGE.c.sha256, isouter=True)
        .where(KEPT_PAGE.c.first_sweep == sweep.id)
        .order_by(KEPT_PAGE.c.place)
    )
    return [_page(row) for row in connection.execute(query).mappings()]


def _page(row: RowMapping) -> Page:
    if row["zstd"] is None:
        raise NotKept(f"{row['url']}: its body of {row['size']} bytes was too large to be kept; see [bodies] in tracker.toml")
    try:
        body = zstd.decompress(row["zstd"])
    except zstd.ZstdError as error:
        raise NotKept(f"{row['url']}: its kept body is damaged: {error}") from error
    if hashlib.sha256(body).hexdigest() != row["sha256"]:
        raise NotKept(f"{row['url']}: its kept body is damaged: another hash")
    return Page(url=row["url"], body=body, headers=json.loads(row["headers"]), fetched_at=row["fetched_at"])
