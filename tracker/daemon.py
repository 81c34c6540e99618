"""The composition root: opens the book, schedules the sources, recomputes, serves, and stops cleanly."""

from __future__ import annotations

import logging
import random
import signal
import socket
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from types import FrameType

import uvicorn
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from sqlalchemy import Engine

from scrapers.http import HostGate
from tracker.alerts import AlertDesk
from tracker.bookstore import import_book, starter_is_loaded
from tracker.collect import Collector, collect_source, describe
from tracker.config import Source
from tracker.database import database_url, migrate, open_database, reading, writing
from tracker.errors import BreakevenError
from tracker.exchange import load_shipped
from tracker.health import off_reason
from tracker.notify import Outbox
from tracker.recompute import Sizer, recompute
from tracker.snapshot import Snapshot
from tracker.web.app import make_app
from tracker.world import World

log = logging.getLogger("breakeven")

STAGGER_S = 0.5  # between the first runs of two sources
JITTER_SHARE = 0.1  # of a source's interval
STOP_WITHIN_S = 8  # for sweeps in flight; the supervisor's limit is 10
WORKERS = 16


class PortTaken(BreakevenError):
    """Somebody else listens there."""


def utc_now() -> datetime:
    """The clock, read here and in the command line only."""
    return datetime.now(UTC)


def open_book(world: World, data_dir: Path, now: datetime) -> Engine:
    """The migrated database with exchange rates and the embedded starter book in it."""
    db = open_database(database_url(world.settings.database.url, data_dir))
    migrate(db)
    with writing(db) as connection:
        load_shipped(connection)
    starter = world.config.config_dir / "starter"
    with reading(db) as connection:
        wanted = (starter / "offers.csv").exists() and not starter_is_loaded(connection, starter)
    if wanted:
        import_book(db, starter, world.catalogue, now)
    return db


def listen(host: str, port: int) -> socket.socket:
    """A bound socket; PortTaken, in one line, where that cannot be."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise PortTaken(
            f"cannot listen on {host} port {port}: {error.strerror}; choose another with --port or [web] port in tracker.toml"
        ) from error
    bound.listen(128)
    return bound


class Daemon:
    """Owns the current snapshot, the scheduler and the web server of one process."""

    def __init__(self, world: World, db: Engine, *, now: Callable[[], datetime] = utc_now) -> None:
        self.world = world
        self.db = db
        self.now = now
        self.started_at = now()
        self.stop = threading.Event()
        self._recomputing = threading.Lock()
        settings = world.settings.alerts
        self.alerts = AlertDesk(db, settings, self.started_at, Outbox(db, settings, now))
        self.collector = Collector(world=world, db=db, now=now, gate=HostGate(monotonic=monotonic), stop=self.stop)
        self.sizer = Sizer(world)
        self._snapshot = recompute(db, world, self.sizer, now())
        self._scheduler = BackgroundScheduler(
            timezone=UTC,
            executors={"default": ThreadPoolExecutor(WORKERS)},
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        )
        self._server: uvicorn.Server | None = None

    @property
    def snapshot(self) -> Snapshot:
        """The current results; swapped whole, never changed."""
        return self._snapshot

    def refresh(self, *, after_sweep: bool) -> None:
        """Work everything out again and swap the snapshot; alerts are judged on what was collected."""
        with self._recomputing:
            self._snapshot = recompute(self.db, self.world, self.sizer, self.now())
            self.alerts.judge(self._snapshot, after_sweep=after_sweep)

    def run_source(self, source: Source) -> None:
        """One sweep and what follows from it."""
        if self.stop.is_set():
            return
        report = collect_source(self.collector, source)
        if report is not None and not self.stop.is_set():
            print(describe(report), flush=True)
            self.refresh(after_sweep=True)

    def schedule(self) -> None:
        """One job a source, the first runs staggered from now; and the clock that lets prices age."""
        start = self.now()
        for number, source in enumerate(s for s in self.world.config.sources.values() if not off_reason(s)):
            seconds = source.settings.interval_minutes * 60
            self._scheduler.add_job(
                self.run_source,
                "interval",
                args=[source],
                id=source.id,
                seconds=seconds,
                jitter=max(1, int(seconds * JITTER_SHARE)),
                next_run_time=start + timedelta(seconds=STAGGER_S * number + random.random() * STAGGER_S),
            )
        self._scheduler.add_job(
            self.refresh, "interval", id="age", kwargs={"after_sweep": False}, seconds=self.world.settings.recompute.every_s
        )
        self._scheduler.start()
        self.alerts.outbox.start()

    def serve(self, bound: socket.socket) -> threading.Thread:
        """Serve page, API and metrics on a bound socket, in a thread of its own."""
        server = uvicorn.Server(
            uvicorn.Config(make_app(self), log_config=None, access_log=False, timeout_graceful_shutdown=2, lifespan="off")
        )
        self._server = server
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, name="web", daemon=True)
        thread.start()
        return thread

    def close(self) -> bool:
        """Stop sweeps and server; False when a sweep did not end in time."""
        self.stop.set()
        if self._scheduler.running:
            self._scheduler.pause()
        if self._server is not None:
            self._server.should_exit = True
        waiter = threading.Thread(target=self._scheduler.shutdown, daemon=True)
        if self._scheduler.running:
            waiter.start()
            waiter.join(STOP_WITHIN_S)
        self.alerts.close()
        return not waiter.is_alive()


def stop_on_signals(stop: threading.Event) -> None:
    """SIGINT and SIGTERM ask to stop; a second one aborts at once."""

    def handle(number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)
