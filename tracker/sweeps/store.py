"""Keeps sweeps: what was listed, what waits, and one coverage row, in one transaction. Core only; no table instance is built.

A sweep is kept whole or not at all, so a killed process leaves no half sweep behind.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import Connection, Engine, RowMapping, select

from scrapers.contract import FxQuote, Licence
from scrapers.http import StoredPage
from tracker.book.exchange import store_rates
from tracker.book.listing import ACCEPTED, GOOD, MISSED, OFFERS, RATES, Kind, Known, Listing, Row, load_listing
from tracker.book.listing import OFFER as OFFER
from tracker.book.listing import OFFER_POINT as OFFER_POINT
from tracker.book.listing import RATE as RATE
from tracker.book.listing import RATE_POINT as RATE_POINT
from tracker.book.listing import SWEEP as SWEEP
from tracker.book.points import Outcome, Sheet, insert_row, write_rows
from tracker.book.points import insert_new as insert_new
from tracker.book.remembered import Listings, Remembered
from tracker.book.standing import Standing, standing_of
from tracker.database.handle import reading, writing
from tracker.database.inserts import insert_into
from tracker.database.months import make_months
from tracker.database.postgres import serialize
from tracker.database.rows import OfferRow, RateRow, counts_of, counts_text, identified, to_ms, to_s
from tracker.database.schema import TABLES
from tracker.guard.case import Case, Printed
from tracker.guard.context import Guard
from tracker.guard.quarantine import Sighting, note_refusal
from tracker.guard.ruling import Ruling, allowed_faults, rule, rule_unchanged, settle_refusals
from tracker.guard.settings import GuardSettings
from tracker.guard.statistics import Statistic, keep_statistics
from tracker.sweeps.licences import keep_licence

PAGE, UNMAPPED = TABLES["page"], TABLES["unmapped"]
MISSES = GuardSettings().misses  # where nobody judges
LONGEST_MS = 2**31 - 1


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
    fault: str = ""  # why the guard refused the whole sweep
    offers: Sequence[OfferRow] = ()
    rates: Sequence[RateRow] = ()
    fx: Sequence[FxQuote] = ()
    conflicts: Mapping[str, Sequence[Row]] = field(default_factory=dict)  # identity -> rows at different prices
    rejected: Mapping[str, Row] = field(default_factory=dict)  # by identity: what was printed and cannot be a price
    statistics: Mapping[str, Statistic] = field(default_factory=dict)  # identity -> what the asks behind an offer were
    unmapped: Sequence[tuple[str, str]] = ()
    licence: Licence | None = None  # where the data states one
    pages: Sequence[StoredPage] = ()


@dataclass(slots=True)
class Kept:
    """What became of a sweep's rows."""

    changed: int = 0
    quarantined: int = 0
    conflicts: int = 0
    warned: Counter[str] = field(default_factory=Counter)
    listings: Listings | None = None  # what was listed before; None: not asked
    entries: dict[str, Mapping[str, Known]] = field(default_factory=dict)  # what is to be known of it from now on


def record_sweep(
    db: Engine,
    report: SweepReport,
    guard: Guard | None = None,
    *,
    first: Callable[[Connection], object] | None = None,
    remembered: Remembered | None = None,
) -> int:
    """Keep one sweep, all of it or nothing; returns the number of change points written.

    ``guard`` judges it first: SweepRefused, and nothing kept, where it cannot be true. Without one every row is believed.
    ``first`` is done in the same transaction, before anything is written; what it raises keeps nothing either.
    ``remembered`` is what this process knows of sources from their last sweeps; it is read from the database where it is not so.
    """
    with writing(db) as connection:
        serialize(connection, f"source {report.source}")
        for kind, rows in ((OFFERS, report.offers), (RATES, report.rates)):
            if rows:  # before anything is written: who makes a month waits for those that write
                make_months(connection, kind.point.name, [to_s(report.finished_at)])
        if first is not None:
            first(connection)
        standing = standing_of(connection, report.source)
        kept = Kept(listings=None if remembered is None else remembered.at(report.source, standing.version))
        if kept.listings is None and report.status in GOOD:
            kept.listings = {kind.name: load_listing(connection, kind, report.source) for kind in (OFFERS, RATES)}
        seen = Sighting(source=report.source, at=_next_at(standing, report, kept.listings or {}), when=report.finished_at)
        if report.status in GOOD:
            _keep(connection, report, guard, seen, standing, kept)
        if report.status == "ok":
            if report.fx:  # two of three statements of it count all rates
                kept.changed += store_rates(connection, report.fx, report.source, seen.at)
            _note_unmapped(connection, report)
            if report.licence is not None:
                keep_licence(connection, report.source, report.licence, seen.at)
        if report.fault:
            note_refusal(connection, seen, report.fault, report.error)
        _keep_pages(connection, report)
        id_ = _add_coverage(connection, report, seen.at, kept)
    if remembered is not None:
        version = standing.version._replace(sweep=id_, at=seen.at)
        remembered.moved(report.source, standing.version, version, kept.entries)
        if kept.listings is not None:
            remembered.put(report.source, version, kept.listings, kept.entries)
    return kept.changed


def _keep(connection: Connection, report: SweepReport, guard: Guard | None, seen: Sighting, standing: Standing, kept: Kept) -> None:
    """Judge and write both kinds of prices."""
    allowed = set() if guard is None else allowed_faults(connection, guard, report.source, standing, report.finished_at)
    assert kept.listings is not None
    misses = MISSES if guard is None else guard.settings.misses
    for kind, rows in ((OFFERS, report.offers), (RATES, report.rates)):
        listing = kept.listings[kind.name]
        if not (rows or listing.known or report.conflicts or report.rejected or standing.pending):
            continue  # most sources have one kind of price
        printed = _printed(report, kind, rows, listing)
        ruling = Ruling(passed=dict(printed.changed))
        if guard is not None:
            has_entries = standing.pending or standing.judged
            case = Case(
                connection=connection, guard=guard, kind=kind, seen=seen, listing=listing, printed=printed, has_entries=has_entries
            )  # fmt: skip
            ruling = rule(case, allowed) if report.status == "ok" else rule_unchanged(case)
        sheet = Sheet(
            connection=connection, kind=kind, source=report.source, at=seen.at, whole_at=standing.whole_at, listing=listing, misses=misses
        )  # fmt: skip
        written = write_rows(sheet, _outcome(report, listing, printed, ruling))
        kept.entries[kind.name] = written.entries
        kept.changed += written.points
        believed = {key: found for key, found in report.statistics.items() if key in printed.rows and key not in ruling.held}
        keep_statistics(connection, seen.at, believed)
        kept.quarantined += ruling.quarantined
        kept.conflicts += len(printed.conflicts)
        kept.warned += ruling.warned
    if guard is not None and report.status == "ok" and standing.pending:
        settle_refusals(connection, report.source, report.finished_at)


def _printed(report: SweepReport, kind: Kind, rows: Sequence[Row], listing: Listing) -> Printed:
    """The rows of one kind by identity; equal ones are one."""
    conflicts = {key: found for key, found in report.conflicts.items() if isinstance(found[0], kind.row)}
    told = identified(report.source, rows)
    usable, changed = told.by_identity, listing.differing(told.by_identity, told.states)
    rejected = frozenset(key for key, row in report.rejected.items() if key not in usable and isinstance(row, kind.row))
    return Printed(rows=usable, changed=changed, conflicts=conflicts, rejected=rejected, whole=report.complete)


def _outcome(report: SweepReport, listing: Listing, printed: Printed, ruling: Ruling) -> Outcome:
    """What is listed, held and missed. An unchanged body misses what the last one missed; an incomplete sweep misses nothing."""
    if report.status == "unchanged":
        changed = listing.differing(ruling.passed)
        why = {key: absence.why for key in listing.absent if (absence := listing.known[key].absence) and key not in ruling.passed}
        missed, seen = ({key for key, word in why.items() if word == wanted} for wanted in (MISSED, ACCEPTED))
        return Outcome(changed=changed, seen=seen | ruling.passed.keys(), missed=missed)
    held = ruling.held | {key for key in (*printed.conflicts, *printed.rejected) if key not in printed.rows}
    seen = {key for key in listing.absent if key in printed.rows and key not in held}
    return Outcome(changed=ruling.passed, seen=seen, held=held, missed=printed.missing(listing))


def _next_at(standing: Standing, report: SweepReport, listings: Listings) -> int:
    """The sweep's moment: never at or before the last one of its source, also when the clock was set back, nor before a price that a
    person accepted since."""
    absences = [listing.known[key].absence for listing in listings.values() for key in listing.absent]
    before = [absence.since for absence in absences if absence is not None and absence.why == ACCEPTED]
    return max([to_s(report.finished_at), *(at + 1 for at in (*before, standing.at) if at is not None)])


def _add_coverage(connection: Connection, report: SweepReport, at: int, kept: Kept) -> int:
    """Returns the sweep's number."""
    told = {
        "source": report.source, "at": at, "lag_ms": to_ms(report.finished_at) - at * 1000,
        "took_ms": _took_ms(report), "status": report.status, "complete": report.complete,
        "rows": report.rows, "changed": kept.changed, "skipped": counts_text(report.skipped),
        "warned": counts_text(kept.warned), "quarantined": kept.quarantined, "conflicts": kept.conflicts,
        "bytes": report.bytes, "input_hash": bytes.fromhex(report.input_hash), "error": report.error[:2000],
    }  # fmt: skip
    return insert_row(connection, SWEEP, told)


def _took_ms(report: SweepReport) -> int:
    """How long it took by the clock, as far as the column holds that: a clock may be set by years meanwhile, and back."""
    return min(max(to_ms(report.finished_at) - to_ms(report.started_at), 0), LONGEST_MS)


def _note_unmapped(connection: Connection, report: SweepReport) -> None:
    rows = [
        {"source": report.source, "kind": kind, "name": name, "first_seen": report.finished_at, "last_seen": report.finished_at}
        for kind, name in dict.fromkeys(report.unmapped)
    ]
    if rows:
        statement = insert_into(connection, UNMAPPED)
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
        statement = insert_into(connection, PAGE).values(**row)
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


def unmapped_names(db: Engine, at: datetime | None = None) -> Sequence[RowMapping]:
    """Names no alias knows, newest first; those met by ``at``."""
    query = select(UNMAPPED) if at is None else select(UNMAPPED).where(UNMAPPED.c.first_seen <= at)
    with reading(db) as connection:
        return connection.execute(query.order_by(UNMAPPED.c.last_seen.desc(), UNMAPPED.c.name)).mappings().all()


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
    return (found.rows, counts_of(found.skipped)) if found else (0, {})
