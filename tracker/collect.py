"""Collects one source once: fetch, parse, resolve, guard, store. Whatever goes wrong becomes a failed sweep of that source alone."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from sqlalchemy import Engine

import scrapers
from scrapers.contract import FxQuote, GpuQuote, LayoutChanged, MissingKey, Page, Row, ScrapeError, Skipped, TokenQuote
from scrapers.http import HostGate, SourceClient, SourceLimits, Stopped, StoredPage, open_client
from tracker.config import Source, secrets_of
from tracker.database import reading
from tracker.exchange import Exchange, fx_fault, load_exchange
from tracker.guard import offer_fault, rate_fault, without_conflicts
from tracker.health import off_reason
from tracker.resolve import Refused, clean, resolve_gpu, resolve_tokens
from tracker.rows import OfferRow, RateRow
from tracker.scrapers import scraper_module
from tracker.store import SweepReport, last_counts, last_input_hash, record_sweep, stored_pages
from tracker.world import World

log = logging.getLogger("breakeven.collect")


@dataclass(frozen=True, slots=True, kw_only=True)
class Collector:
    """What every sweep needs; shared by all sources of a process."""

    world: World
    db: Engine
    now: Callable[[], datetime]
    gate: HostGate
    stop: threading.Event = field(default_factory=threading.Event)


@dataclass(slots=True)
class _Harvest:
    """Rows of one sweep while they are sorted out."""

    offers: list[OfferRow] = field(default_factory=list)
    rates: list[RateRow] = field(default_factory=list)
    fx: list[FxQuote] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    unmapped: list[tuple[str, str]] = field(default_factory=list)
    samples: dict[str, str] = field(default_factory=dict)

    def refuse(self, reason: str, detail: str) -> None:
        self.skipped[reason] += 1
        self.samples.setdefault(reason, detail)

    @property
    def accepted(self) -> int:
        return len(self.offers) + len(self.rates) + len(self.fx)


def collect_source(collector: Collector, source: Source, *, save_to: Path | None = None, force: bool = False) -> SweepReport | None:
    """One sweep, recorded. None when the source is off or the program is stopping; never raises for what a source did.

    ``force`` parses again even if the bodies are unchanged; ``save_to`` keeps the bodies as files.
    """
    if off_reason(source):
        return None
    started = collector.now()
    try:
        report = _sweep(collector, source, started, save_to, force)
    except Stopped:
        return None
    except MissingKey as error:
        report = _failed(source, started, collector.now(), str(error))
    except ScrapeError as error:
        report = _failed(source, started, collector.now(), str(error))
    except Exception as error:  # the one place: a fault in one scraper must not stop the others
        log.debug("unexpected fault in source %s", source.id, exc_info=True)
        report = _failed(
            source, started, collector.now(), f"unexpected {type(error).__name__}: {error}; run breakeven collect {source.id} --save"
        )
    record_sweep(collector.db, report)
    log.log(logging.INFO if report.status != "failed" else logging.WARNING, "%s", describe(report))
    return report


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
    return SweepReport(source=source.id, started_at=started, finished_at=finished, status="failed", error=error)


def _sweep(collector: Collector, source: Source, started: datetime, save_to: Path | None, force: bool) -> SweepReport:
    module = scraper_module(source)
    kept = stored_pages(collector.db, source.id)
    with _client(collector, source, kept) as client:
        pages = fetch_pages(module, client, source)
    if save_to is not None:
        _save(save_to / source.id, pages)
    finished = collector.now()
    digest = input_hash(pages, module, collector)
    if digest == last_input_hash(collector.db, source.id) and not force:
        return _unchanged(collector, source, started, finished, digest, client.received_bytes)
    harvest = sort_out(module.parse(pages), source, collector, pages)
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
        bytes=client.received_bytes,
        input_hash=digest,
        offers=harvest.offers,
        rates=harvest.rates,
        fx=harvest.fx,
        unmapped=harvest.unmapped,
        pages=list(client.stored.values()),
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
    limits = SourceLimits(
        base_url=source.settings.base_url,
        user_agent=fetch.user_agent,
        connect_timeout_s=fetch.connect_timeout_s,
        read_timeout_s=fetch.read_timeout_s,
        deadline_s=fetch.deadline_s,
        max_bytes=fetch.max_bytes,
        attempts=fetch.attempts,
        min_interval_s=fetch.host_spacing_s,
        obey_robots=source.settings.robots,
        secrets=tuple(secrets_of(source).values()),
    )
    return open_client(limits, host_gate=collector.gate, now=collector.now, stored=kept, stop=collector.stop)


def fetch_pages(module: ModuleType, client: SourceClient, source: Source) -> list[Page]:
    """The pages of a source: its own ``fetch`` where it has one, else one GET of ``PATH``."""
    if hasattr(module, "fetch"):
        return list(module.fetch(client, secrets_of(source)))
    return [client.get(module.PATH)]


def input_hash(pages: Sequence[Page], module: ModuleType, collector: Collector) -> str:
    """Hash of all that decides a sweep's rows: the bodies, the parser, and the catalogue that resolves names."""
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
    return digest.hexdigest()


@lru_cache(maxsize=1)
def code_digest() -> str:
    """Hash of the code that turns bodies into rows: a corrected parser reads an unchanged body again."""
    digest = hashlib.sha256()
    here = Path(__file__).parent
    for path in sorted([*Path(scrapers.__file__).parent.glob("*.py"), here / "resolve.py", here / "guard.py"]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def sort_out(rows: Iterable[Row], source: Source, collector: Collector, pages: Sequence[Page]) -> _Harvest:
    """Resolve every row and hold back what is implausible; counted by reason."""
    harvest = _Harvest()
    with reading(collector.db) as connection:
        exchange = load_exchange(connection)
    url = pages[0].url if pages else source.settings.base_url
    for row in rows:
        _sort_one(row, source, collector, exchange, url, harvest)
    harvest.offers = without_conflicts(harvest.offers, source.id, harvest.skipped)
    harvest.rates = without_conflicts(harvest.rates, source.id, harvest.skipped)
    return harvest


def _sort_one(row: Row, source: Source, collector: Collector, exchange: Exchange, url: str, harvest: _Harvest) -> None:
    if isinstance(row, Skipped):
        harvest.refuse(row.reason, clean(row.raw))
        return
    if isinstance(row, FxQuote):
        fault = fx_fault(row)
        if fault is None:
            harvest.fx.append(row)
        else:
            harvest.refuse(fault, clean(row.currency))
        return
    resolved = _resolve(row, source, collector.world, url)
    if isinstance(resolved, Refused):
        harvest.refuse(resolved.reason, resolved.detail)
        if resolved.unmapped is not None:
            harvest.unmapped.append(resolved.unmapped)
        return
    guard = collector.world.settings.guard
    fault = offer_fault(resolved, guard, exchange) if isinstance(resolved, OfferRow) else rate_fault(resolved, guard, exchange)
    if fault is not None:
        harvest.refuse(fault, clean(f"{resolved.provider} {resolved.sku}"))
    elif isinstance(resolved, OfferRow):
        harvest.offers.append(resolved)
    else:
        harvest.rates.append(resolved)


def _resolve(row: GpuQuote | TokenQuote, source: Source, world: World, url: str) -> OfferRow | RateRow | Refused:
    if isinstance(row, GpuQuote):
        return resolve_gpu(row, source.id, world.catalogue, url)
    return resolve_tokens(row, source.id, world.catalogue, url, world.provider_ids)


def _save(folder: Path, pages: Sequence[Page]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, page in enumerate(pages):
        (folder / f"{number:03d}.body").write_bytes(page.body)
        headers = "".join(f"{name}: {value}\n" for name, value in page.headers.items())
        (folder / f"{number:03d}.headers").write_text(f"{page.url}\n{headers}", encoding="utf-8")
