"""Collects one source once: fetch, parse, resolve, guard, store. Whatever goes wrong becomes a failed sweep of that source alone."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import lru_cache, partial
from pathlib import Path
from types import ModuleType

from sqlalchemy import Engine
from sqlalchemy.exc import DataError, IntegrityError, SQLAlchemyError

import scrapers
from scrapers.contract import LayoutChanged, Page, Row, ScrapeError
from scrapers.http import HostGate, SourceClient, SourceLimits, Stopped, StoredPage, open_client
from scrapers.redact import redact
from tracker.attempt import attempt
from tracker.book.exchange import load_newest
from tracker.book.remembered import Remembered
from tracker.config import Source, base_urls, hidden_of, off_reason, secrets_of
from tracker.database.column_types import HASH_SIZE
from tracker.database.faults import Trouble, fault_cause
from tracker.database.handle import reading
from tracker.database.limits import clean
from tracker.guard.context import Guard
from tracker.guard.doubts import SweepRefused
from tracker.sweeps.bodies import keep_bodies
from tracker.sweeps.harvest import Harvest, harvested
from tracker.sweeps.leases import Lease, LeaseLost, settle
from tracker.sweeps.patience import patiently
from tracker.sweeps.scrapers import scraper_module
from tracker.sweeps.store import SweepReport, last_counts, last_input_hash, record_sweep, stored_pages
from tracker.world import World

log = logging.getLogger("breakeven.collect")
OWN = (Stopped, ScrapeError, SQLAlchemyError, LeaseLost)  # the last two are the database's and another process's, and no failed sweep
MAX_ERROR = 2000  # characters kept of a message, which may quote the source


@dataclass(frozen=True, slots=True, kw_only=True)
class Collector:
    """What every sweep needs; shared by all sources of a process."""

    world: World
    db: Engine
    now: Callable[[], datetime]
    gate: HostGate
    stop: threading.Event = field(default_factory=threading.Event)
    trouble: Trouble = field(default_factory=Trouble)
    remembered: Remembered = field(default_factory=Remembered)


def collect_source(
    collector: Collector, source: Source, *, lease: Lease | None = None, save_to: Path | None = None, force: bool = False
) -> SweepReport | None:
    """One sweep, recorded. None when the source is off or the program is stopping; never raises for what a source did.

    ``force`` parses again even if the bodies are unchanged; ``save_to`` keeps the bodies as files; ``lease`` ends with the sweep.
    """
    if off_reason(source):
        return None
    started = collector.now()
    read: list[Page] = []
    try:
        found = attempt(lambda: keep(collector, _sweep(collector, source, started, save_to, force, read), lease), OWN)
    except Stopped:
        return None
    except ScrapeError as error:
        report = keep(collector, _failed(source, started, collector.now(), str(error)), lease)
    else:
        if isinstance(found, Exception):  # a fault in one scraper must not stop the others
            log.debug("unexpected fault in source %s", source.id, exc_info=found)
            told = f"unexpected {type(found).__name__}: {found}; run breakeven collect {source.id} --save"
            found = keep(collector, _failed(source, started, collector.now(), told), lease)
        report = found
    keep_bodies(collector.db, collector.world.settings.bodies, report, read, hidden_of(source))
    log.log(logging.INFO if report.status != "failed" else logging.WARNING, "%s", describe(report))
    return report


def longest_first(sources: Iterable[Source]) -> list[Source]:
    """Sources in the order to start them in where there are fewer threads: those that are given most time first, so that none is last."""
    return sorted(sources, key=lambda source: -(source.settings.deadline_s or 0))


def keep(collector: Collector, report: SweepReport, lease: Lease | None = None) -> SweepReport:
    """Have the guard judge a sweep and keep it; a sweep that cannot be true is kept as a failed one. Returns what was kept."""
    return patiently(partial(_keep, collector, report, lease), collector.trouble, collector.stop)


def _keep(collector: Collector, report: SweepReport, lease: Lease | None) -> SweepReport:
    first = None if lease is None else partial(settle, lease=lease)
    world = collector.world
    with reading(collector.db) as connection:
        exchange = load_newest(connection)
    guard = Guard(settings=world.settings.guard, sources=world.config.sources, exchange=exchange)
    try:
        record_sweep(collector.db, report, guard, first=first, remembered=collector.remembered)
        return report
    except SweepRefused as error:
        fault, reason = error.fault, str(error)
    except (DataError, IntegrityError) as error:  # a value no column takes: the source's fault after all
        fault, reason = "", f"{report.source}: the database refuses its rows: {fault_cause(error)}"
    refused = SweepReport(
        source=report.source,
        started_at=report.started_at,
        finished_at=report.finished_at,
        status="failed",
        bytes=report.bytes,
        error=clean(reason, MAX_ERROR),
        fault=fault,
    )
    record_sweep(collector.db, refused, first=first, remembered=collector.remembered)
    return refused


def describe(report: SweepReport) -> str:
    """One line about a sweep for people."""
    seconds = (report.finished_at - report.started_at).total_seconds()
    if report.status == "failed":
        return f"{report.source}: failed after {seconds:.1f} s: {first_part(report.error)}"
    skipped = sum(report.skipped.values())
    return f"{report.source}: {report.status}, {report.rows} prices, {skipped} skipped, {report.bytes} bytes, {seconds:.1f} s"


def first_part(error: str) -> str:
    """What happened, without the advice; ``breakeven sources`` shows all of it."""
    return clean(error.partition(" (attempt")[0].partition(";")[0])


def _failed(source: Source, started: datetime, finished: datetime, error: str) -> SweepReport:
    shown = clean(redact(error, hidden_of(source)), MAX_ERROR)  # a message may quote an answer that quotes the key
    return SweepReport(source=source.id, started_at=started, finished_at=finished, status="failed", error=shown)


def _sweep(collector: Collector, source: Source, started: datetime, save_to: Path | None, force: bool, read: list[Page]) -> SweepReport:
    """What one sweep brings; its pages are added to ``read``, also where they cannot be read as prices."""
    module = scraper_module(source)
    kept = stored_pages(collector.db, source.id)
    with _client(collector, source, kept) as client:
        pages = fetch_pages(module, client, source)
    read += pages
    if save_to is not None:
        _save(save_to / source.id, pages)
    finished = collector.now()
    digest = input_hash(pages, module, collector)
    if digest == last_input_hash(collector.db, source.id) and not force:
        return _unchanged(collector, source, started, finished, digest, client.received_bytes)
    report = read_rows(collector, source, module.parse(pages), started, finished, pages)
    return replace(report, bytes=client.received_bytes, input_hash=digest, pages=list(client.stored.values()))


def read_rows(
    collector: Collector, source: Source, rows: Iterable[Row], started: datetime, finished: datetime, pages: Sequence[Page] = ()
) -> SweepReport:
    """What a source's rows bring, before the guard has judged them; LayoutChanged when not one of them is a price."""
    harvest = sort_out(rows, source, collector, pages)
    if harvest.accepted == 0:
        reasons = ", ".join(f"{count} {reason}" for reason, count in harvest.skipped.most_common(5)) or "no rows at all"
        raise LayoutChanged(f"{source.id}: not one usable price ({reasons}); run breakeven collect {source.id} --save")
    for reason, sample in harvest.samples.items():
        log.debug("%s: %s, first: %s", source.id, reason, sample)
    return SweepReport(
        source=source.id,
        started_at=started,
        finished_at=finished,
        status="ok",
        complete=True,
        rows=harvest.accepted,
        skipped=harvest.skipped,
        offers=harvest.told_apart[0],
        rates=harvest.told_apart[1],
        fx=harvest.fx,
        conflicts=harvest.conflicts,
        rejected=harvest.rejected,
        statistics=harvest.statistics,
        unmapped=harvest.unmapped,
        licence=harvest.licence,
    )


def _unchanged(collector: Collector, source: Source, started: datetime, finished: datetime, digest: str, received: int) -> SweepReport:
    last = last_counts(collector.db, source.id)
    return SweepReport(
        source=source.id,
        started_at=started,
        finished_at=finished,
        status="unchanged",
        rows=last[0],
        skipped=last[1],
        bytes=received,
        input_hash=digest,
    )


def _client(collector: Collector, source: Source, kept: Mapping[str, StoredPage]) -> SourceClient:
    fetch = collector.world.settings.fetch
    own, bases = source.settings, base_urls(source)
    limits = SourceLimits(
        base_url=next(iter(bases.values())),
        regions=bases if own.regions else {},
        tracked=tracked_names(collector.world, source),
        user_agent=fetch.user_agent,
        connect_timeout_s=fetch.connect_timeout_s,
        read_timeout_s=fetch.read_timeout_s,
        deadline_s=fetch.deadline_s if own.deadline_s is None else own.deadline_s,
        max_bytes=fetch.max_bytes,
        attempts=fetch.attempts,
        min_interval_s=fetch.host_spacing_s if own.host_spacing_s is None else own.host_spacing_s,
        obey_robots=own.robots,
        secrets=hidden_of(source),
    )
    return open_client(limits, host_gate=collector.gate, now=collector.now, stored=kept, stop=collector.stop)


def tracked_names(world: World, source: Source) -> tuple[str, ...]:
    """The tracked models as a source spells them: of several spellings the shortest, which is no dated one, and of no sku of its own."""
    found: dict[str, str] = {}
    for (names, name), alias in sorted(world.catalogue.model_aliases.items(), key=lambda item: (-len(item[0][1]), item[0][1])):
        if names == source.names and alias.model in world.settings.track.models and not alias.sku and not alias.region:
            found[alias.model] = name
    return tuple(sorted(found.values()))


def fetch_pages(module: ModuleType, client: SourceClient, source: Source) -> list[Page]:
    """The pages of a source: its own ``fetch`` where it has one, else one GET of ``PATH``."""
    if hasattr(module, "fetch"):
        return list(module.fetch(client, secrets_of(source)))
    return [client.get(module.PATH)]


def input_hash(pages: Sequence[Page], module: ModuleType, collector: Collector) -> str:
    """Hash of all that decides a sweep's rows, of 8 bytes: the bodies, the parser, and the catalogue that resolves names."""
    digest = hashlib.sha256()
    settings = collector.world.settings.guard.model_dump_json()
    for part in (
        module.__name__,
        code_digest(),
        collector.world.catalogue.digest,
        settings,
        json.dumps(dict(collector.world.provider_ids)),
    ):
        digest.update(hashlib.sha256(part.encode()).digest())
    for page in pages:
        digest.update(hashlib.sha256(page.url.encode()).digest() + hashlib.sha256(page.body).digest())
    return digest.hexdigest()[:HASH_SIZE]


@lru_cache(maxsize=1)
def code_digest() -> str:
    """Hash of the code that turns bodies into rows: a corrected parser reads an unchanged body again."""
    digest = hashlib.sha256()
    here = Path(__file__).parent
    rooms = (Path(scrapers.__file__).parent, here.parent / "guard")
    for path in sorted([*(path for room in rooms for path in room.glob("*.py")), here / "harvest.py", here / "resolve.py"]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def sort_out(rows: Iterable[Row], source: Source, collector: Collector, pages: Sequence[Page]) -> Harvest:
    """What the rows are, at the exchange rates of the collector's day."""
    today = collector.now().date()
    with reading(collector.db) as connection:
        exchange = load_newest(connection, today + timedelta(days=1))  # fx_fault allows tomorrow
    url = pages[0].url if pages else source.settings.base_url
    return harvested(rows, Harvest(source=source, world=collector.world, exchange=exchange, today=today, url=url))


def _save(folder: Path, pages: Sequence[Page]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, page in enumerate(pages):
        (folder / f"{number:03d}.body").write_bytes(page.body)
        headers = "".join(f"{name}: {value}\n" for name, value in page.headers.items())
        (folder / f"{number:03d}.headers").write_text(f"{page.url}\n{headers}", encoding="utf-8")
