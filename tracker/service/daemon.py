"""The composition root: schedules the sources, recomputes, judges alerts behind what is served, and stops cleanly."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from time import monotonic

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from scrapers.http import HostGate
from tracker.alerting.desk import AlertDesk
from tracker.alerting.outbox import outbox_of
from tracker.answers.ageing import aged, latest
from tracker.answers.decisions import keep_decisions
from tracker.answers.recompute import Sizer
from tracker.answers.snapshot import Snapshot
from tracker.book.running import RunningBook
from tracker.budgets.live import Budgets
from tracker.config import Source, off_reason
from tracker.database.faults import CLOCK, READS, WRITES
from tracker.database.handle import writing
from tracker.database.listen import Listener
from tracker.database.rows import to_s
from tracker.maintenance.upkeep import schedule_upkeep
from tracker.metrics.vitals import Watcher
from tracker.now import utc_now
from tracker.service.clock import Watch, mend_future
from tracker.service.serving import Serving, say
from tracker.service.systemd import STUCK_S, Pulse
from tracker.sweeps.collect import Collector, describe
from tracker.sweeps.leases import ClockWrong, start_alone
from tracker.sweeps.turns import WORKERS, Turns, sweep_in_turn
from tracker.world import World

log = logging.getLogger("breakeven")

STAGGER_S = 0.5  # between the first runs of two sources
SPREAD_S = 0.5  # over which processes that wait for the same lease to end look again
RETRY_S = 15.0  # until the next look at a source after the database failed
RENEWALS = 3  # of a lease while it lasts
CLOCK_S = 5.0  # between two looks at the clock
STOP_WITHIN_S = 8  # for sweeps in flight; the supervisor's limit is 10


class Daemon:
    """Owns the scheduler of one process, and keeps the snapshot that is served up to date."""

    def __init__(self, world: World, db: Engine, *, now: Callable[[], datetime] = utc_now, serving: Serving | None = None) -> None:
        self.world = world
        self.db = db
        self.now = now
        self.serving = serving or Serving(world, db, now=now)
        self.stop = self.serving.stop
        self._recomputing = threading.Lock()
        self.alerts = AlertDesk(db=db, world=world, started_at=self.serving.started_at, outbox=outbox_of(db, world, now, self.serving.draw))
        self.trouble = self.serving.trouble
        self._budgets = Budgets(db, world)
        self.collector = Collector(world=world, db=db, now=now, gate=HostGate(monotonic=monotonic), stop=self.stop, trouble=self.trouble)
        self.running = RunningBook(world.config.sources, self.collector.remembered)
        self.turns = Turns(db=db, now=now, lease_s=world.settings.database.lease_s)
        # the newest sweep that alerts were judged on, and the last one before the clock was set ahead
        self._last_sweep = self.serving.newest_sweep
        self._ahead_since: int | None = None
        self._executors = {"default": ThreadPoolExecutor(WORKERS), "clock": ThreadPoolExecutor(2)}
        self.scheduler = BackgroundScheduler(
            timezone=UTC,
            executors=self._executors,
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        )
        self._watcher = Watcher(db, self.scheduler, self.trouble, self.alerts.outbox.names)
        self._listener = Listener(db, self.turns.owner, self.refresh, self.stop, say)
        self._beat = monotonic()

    @property
    def snapshot(self) -> Snapshot:
        """The current results; swapped whole, never changed."""
        return self.serving.snapshot

    def refresh(self) -> None:
        """Work everything out again and swap the snapshot; alerts are judged on what was collected, here or by another process.

        Where the database fails, the last book goes on ageing, so that nothing old looks fresh; where the program does, too, and the
        metrics go on to say when it was last worked out.
        """
        with self._recomputing:
            now, found, sizer = self.now(), self.snapshot, self.serving.sizer
            try:
                newest, found = latest(self.db, self.world, sizer, now, self.running.read)
                found = self._budgets.on(found)
                keep_decisions(self.db, self.world.config.sources, found, newest)
                self.alerts.judge(found)
                self.trouble.over(*((*READS, *WRITES) if newest > self._last_sweep else READS))
                self._last_sweep = newest
            except SQLAlchemyError as error:
                self.trouble.met(error)
                found = aged(found, self.world, sizer, now)
            except BaseException:  # with nothing that is kept, which may be what is wrong
                found = replace(aged(found, self.world, Sizer(self.world), now), grown_old_since=found.grown_old_since or found.at)
                raise
            finally:
                self.serving.snapshot = self._watcher.on(found)
                self._beat = monotonic()  # a recompute that fails is no hang: the database may be back for the next

    def run_source(self, source: Source) -> None:
        """One sweep, if it is due and no other process has it, and what follows from it; then the next look."""
        if self.stop.is_set():
            return
        again_s = RETRY_S
        try:
            turn = sweep_in_turn(self.collector, self.turns, source)
            self.trouble.over(CLOCK)
            again_s = turn.again_s + (random.random() * SPREAD_S if turn.holder else 0)
            if turn.report is not None and not self.stop.is_set():
                say(describe(turn.report))
                self.refresh()
        except (SQLAlchemyError, ClockWrong) as error:
            self.trouble.met(error)
        finally:
            self._look_again(source.id, again_s)

    def _look_again(self, job: str, seconds: float) -> None:
        """The interval of a job only catches what went wrong: when a source is due stands in the database."""
        if not self.stop.is_set() and self.scheduler.get_job(job) is not None:
            with suppress(JobLookupError):  # stopped since
                self.scheduler.modify_job(job, next_run_time=utc_now() + timedelta(seconds=seconds))

    def schedule(self) -> None:
        """One job a source, the first looks staggered from now; the clock that lets prices age and leases live; and the others' notices."""
        start_alone(self.db, self.now())
        on = [source for source in self.world.config.sources.values() if not off_reason(source)]
        for number, source in enumerate(on):
            first = utc_now() + timedelta(seconds=STAGGER_S * number + random.random() * STAGGER_S)
            seconds = source.settings.interval_minutes * 60
            self.scheduler.add_job(self.run_source, "interval", args=[source], id=source.id, seconds=seconds, next_run_time=first)
        self.scheduler.add_job(self.refresh, "interval", id="age", seconds=self.world.settings.recompute.every_s, executor="clock")
        self.scheduler.add_job(self._keep_leases, "interval", id="leases", seconds=self.turns.lease_s / RENEWALS, executor="clock")
        schedule_upkeep(self.scheduler, self.db, self.world, self.now, self.trouble, self.stop)
        self.scheduler.start()
        self.alerts.outbox.start()
        self._listener.start()
        threading.Thread(target=self._watch_clock, name="clock", daemon=True).start()
        self.serving.starting = False

    def _keep_leases(self) -> None:
        try:
            self.turns.keep_alive()
        except SQLAlchemyError as error:
            self.trouble.met(error)

    def _watch_clock(self) -> None:
        """The scheduler sleeps by the wall clock: when that is set, everything looks again."""
        watch, before = Watch(self.now, monotonic), self._last_sweep
        while not self.stop.wait(CLOCK_S):
            if step := watch.step():
                say(f"clock: moved by {step:+.0f} s; every source is looked at again")
                self.clock_moved(step, before)
            before = self._last_sweep

    def clock_moved(self, step: float, last_sweep: int) -> None:
        """Look at every source, lease and age now; sweeps of a clock that we saw go ahead come back with it.

        ``last_sweep`` is the newest one of before the step.
        """
        if step > 0:
            self._ahead_since = last_sweep if self._ahead_since is None else self._ahead_since
        elif self._ahead_since is not None:
            try:
                with writing(self.db) as connection:
                    mend_future(connection, to_s(self.now()), self._ahead_since)
                self._ahead_since = None
            except SQLAlchemyError as error:
                self.trouble.met(error)
        for job in self.scheduler.get_jobs():
            self._look_again(job.id, 0)

    def pulse(self) -> Pulse:
        """Whether the server runs and the scheduler still gets to recompute, for a supervisor."""
        if not self.serving.alive:
            return Pulse(alive=False, status="the web server has ended")
        if monotonic() - self._beat > STUCK_S:
            return Pulse(alive=False, status=f"no recompute for {STUCK_S} s: stuck")
        on = [source for source in self.snapshot.sources if source.enabled]
        stale = sum(source.stale for source in on)
        return Pulse(alive=True, status=f"{len(on)} sources, {stale} stale; answers of {self.snapshot.at:%H:%M:%S} UTC")

    def close(self) -> bool:
        """Stop sweeps and server; False when a sweep did not end in time."""
        self.stop.set()
        if self.scheduler.running:
            self.scheduler.pause()
        self.serving.close()
        waiter = threading.Thread(target=self._finish, daemon=True)
        if self.scheduler.running:
            waiter.start()
            waiter.join(STOP_WITHIN_S)
        self.alerts.close()
        return not waiter.is_alive()

    def _finish(self) -> None:
        """Wait for the jobs that run; not in the scheduler's own shutdown, which holds locks that they may ask for."""
        self.scheduler.shutdown(wait=False)
        for executor in self._executors.values():
            executor.shutdown(wait=True)
