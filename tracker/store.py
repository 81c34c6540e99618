"""Writes sweeps: change points and one coverage row, in one transaction. Everything here is Core; no table instance is built.

A sweep is kept whole or not at all, so a killed process leaves no half sweep behind.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, RowMapping, Table, and_, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlmodel import SQLModel

from scrapers.contract import FxQuote
from scrapers.http import StoredPage
from tracker.database import reading, writing
from tracker.exchange import store_rates
from tracker.rows import OfferRow, RateRow, columns, identity, to_ms, values
from tracker.tables import Sweep as Sweep  # registers the tables

_TABLES = SQLModel.metadata.tables
SWEEP, PAGE, UNMAPPED = _TABLES["sweep"], _TABLES["page"], _TABLES["unmapped"]
OFFER, OFFER_POINT = _TABLES["offer"], _TABLES["offer_point"]
RATE, RATE_POINT = _TABLES["rate"], _TABLES["rate_point"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepReport:
    """What one sweep of one source brought. Times are aware UTC; ``finished_at`` is the moment the prices were seen."""

    source: str
    started_at: datetime
    finished_at: datetime
    status: str  # ok, unchanged, failed
    complete: bool = True
    rows: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    bytes: int = 0
    input_hash: str = ""
    error: str = ""
    offers: Sequence[OfferRow] = ()
    rates: Sequence[RateRow] = ()
    fx: Sequence[FxQuote] = ()
    unmapped: Sequence[tuple[str, str]] = ()
    pages: Sequence[StoredPage] = ()


def record_sweep(db: Engine, report: SweepReport) -> int:
    """Keep one sweep; returns the number of change points written."""
    with writing(db) as connection:
        at = _next_at(connection, report)
        changed = 0
        if report.status == "ok":
            changed += _append(connection, OFFER, OFFER_POINT, "offer_id", report, report.offers, at)
            changed += _append(connection, RATE, RATE_POINT, "rate_id", report, report.rates, at)
            changed += store_rates(connection, report.fx, report.source)
            _note_unmapped(connection, report)
        _keep_pages(connection, report)
        _add_coverage(connection, report, at, changed)
    return changed


def _next_at(connection: Connection, report: SweepReport) -> int:
    """The sweep's moment; never at or before the last one of its source, also when the clock was set back."""
    last = connection.scalar(select(func.max(SWEEP.c.at)).where(SWEEP.c.source == report.source))
    at = to_ms(report.finished_at)
    return at if last is None else max(at, last + 1)


def _add_coverage(connection: Connection, report: SweepReport, at: int, changed: int) -> None:
    connection.execute(
        insert(SWEEP).values(
            source=report.source, at=at, recorded_at=report.finished_at, started_at=report.started_at, finished_at=report.finished_at,
            status=report.status, complete=report.complete, rows=report.rows, changed=changed,
            skipped=json.dumps(dict(report.skipped), sort_keys=True), bytes=report.bytes,
            input_hash=report.input_hash, error=report.error[:2000],
        )
    )  # fmt: skip


def _append(
    connection: Connection,
    dimension: Table,
    point: Table,
    link: str,
    report: SweepReport,
    rows: Sequence[OfferRow] | Sequence[RateRow],
    at: int,
) -> int:
    """Write the points of one kind: new and changed rows, and gone ones where the sweep covers its whole source."""
    known = _current(connection, dimension, point, link, report.source)
    seen = {identity(report.source, row): row for row in rows}
    ids = {key: entry.id for key, entry in known.items()} | _add_dimensions(connection, dimension, report.source, seen, known)
    _correct_descriptions(connection, dimension, seen, known)
    points = [_point(link, ids[key], at, row) for key, row in seen.items() if key not in known or known[key].values != values(row)]
    if report.complete:
        points += [_gone(point, link, entry.id, at) for key, entry in known.items() if key not in seen and not entry.gone]
    if points:
        connection.execute(insert(point), points)
    return len(points)


@dataclass(frozen=True, slots=True)
class _Known:
    id: int
    gone: bool
    values: tuple[int | None, ...] | None  # None when gone
    description: tuple[Any, ...]


def _current(connection: Connection, dimension: Table, point: Table, link: str, source: str) -> dict[str, _Known]:
    """Last state of every offer or rate of ``source``, by identity."""
    row_type = OfferRow if dimension is OFFER else RateRow
    latest = select(func.max(point.c.at)).where(point.c[link] == dimension.c.id).correlate(dimension).scalar_subquery()
    query = (
        select(
            dimension.c.id,
            dimension.c.key,
            gone_column(point),
            *(point.c[n] for n in row_type.VALUES),
            *(dimension.c[n] for n in row_type.DESCRIPTION),
        )
        .join(point, and_(point.c[link] == dimension.c.id, point.c.at == latest))
        .where(dimension.c.source == source)
    )
    count = len(row_type.VALUES)
    return {
        key: _Known(id_, bool(gone), None if gone else tuple(rest[:count]), tuple(rest[count:]))
        for id_, key, gone, *rest in connection.execute(query)
    }


def gone_column(point: Table) -> Any:
    """Whether a point says that its offer or rate is no longer listed."""
    return point.c.price.is_(None) if point is OFFER_POINT else point.c.gone


def _add_dimensions(
    connection: Connection, dimension: Table, source: str, seen: Mapping[str, OfferRow | RateRow], known: Mapping[str, _Known]
) -> dict[str, int]:
    new = [{"key": key, "source": source, "origin": source, **columns(row)} for key, row in seen.items() if key not in known]
    return add_dimensions(connection, dimension, new)


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


def insert_new(connection: Connection, table: Table) -> Any:
    """An INSERT that leaves rows alone that exist already."""
    module = postgresql if connection.dialect.name == "postgresql" else sqlite
    return module.insert(table).on_conflict_do_nothing()


def _correct_descriptions(
    connection: Connection, dimension: Table, seen: Mapping[str, OfferRow | RateRow], known: Mapping[str, _Known]
) -> None:
    """Descriptions are not prices: the newest wording replaces the old one."""
    for key, row in seen.items():
        if key in known and known[key].description != tuple(getattr(row, n) for n in row.DESCRIPTION):
            fresh = {n: getattr(row, n) for n in row.DESCRIPTION}
            connection.execute(update(dimension).where(dimension.c.id == known[key].id).values(**fresh))


def _point(link: str, id_: int, at: int, row: OfferRow | RateRow) -> dict[str, object]:
    point: dict[str, object] = {link: id_, "at": at, **{name: getattr(row, name) for name in row.VALUES}}
    return point if isinstance(row, OfferRow) else point | {"gone": False}


def _gone(point: Table, link: str, id_: int, at: int) -> dict[str, object]:
    empty: dict[str, object] = dict.fromkeys((c.name for c in point.columns), None)
    return empty | {link: id_, "at": at} | ({"availability": 0} if point is OFFER_POINT else {"gone": True})


def _note_unmapped(connection: Connection, report: SweepReport) -> None:
    rows = [
        {"source": report.source, "kind": kind, "name": name, "first_seen": report.finished_at, "last_seen": report.finished_at}
        for kind, name in dict.fromkeys(report.unmapped)
    ]
    if rows:
        module = postgresql if connection.dialect.name == "postgresql" else sqlite
        statement = module.insert(UNMAPPED)
        connection.execute(
            statement.on_conflict_do_update(index_elements=["source", "kind", "name"], set_={"last_seen": statement.excluded.last_seen}),
            rows,
        )


def _keep_pages(connection: Connection, report: SweepReport) -> None:
    for page in report.pages:
        row = {
            "source": report.source, "url": page.url, "etag": page.etag, "last_modified": page.last_modified,
            "headers": json.dumps(dict(page.headers)), "body": zlib.compress(page.body, 6), "fetched_at": page.fetched_at,
        }  # fmt: skip
        module = postgresql if connection.dialect.name == "postgresql" else sqlite
        statement = module.insert(PAGE).values(**row)
        connection.execute(statement.on_conflict_do_update(index_elements=["source", "url"], set_=row))


def stored_pages(db: Engine, source: str) -> dict[str, StoredPage]:
    """The last responses of a source by URL."""
    with reading(db) as connection:
        found = connection.execute(select(PAGE).where(PAGE.c.source == source)).mappings().all()
    return {
        row["url"]: StoredPage(
            url=row["url"], etag=row["etag"], last_modified=row["last_modified"], headers=json.loads(row["headers"]),
            body=zlib.decompress(row["body"]), fetched_at=row["fetched_at"],
        )
        for row in found
    }  # fmt: skip


def last_input_hash(db: Engine, source: str) -> str:
    """Hash of the input of the last sweep that succeeded; empty before the first."""
    query = select(SWEEP.c.input_hash).where(SWEEP.c.source == source, SWEEP.c.status.in_(("ok", "unchanged"))).order_by(SWEEP.c.at.desc())
    with reading(db) as connection:
        return connection.scalar(query.limit(1)) or ""


def unmapped_names(db: Engine) -> Sequence[RowMapping]:
    """Names no alias knows, newest first."""
    with reading(db) as connection:
        return connection.execute(select(UNMAPPED).order_by(UNMAPPED.c.last_seen.desc(), UNMAPPED.c.name)).mappings().all()


def last_counts(db: Engine, source: str) -> tuple[int, dict[str, int]]:
    """Prices and skipped rows by reason of the last sweep that succeeded."""
    query = (
        select(SWEEP.c.rows, SWEEP.c.skipped)
        .where(SWEEP.c.source == source, SWEEP.c.status.in_(("ok", "unchanged")))
        .order_by(SWEEP.c.at.desc())
        .limit(1)
    )
    with reading(db) as connection:
        found = connection.execute(query).first()
    return (found.rows, json.loads(found.skipped)) if found else (0, {})
