"""How the program tells of itself: jobs, runs that were left out, what waits to be delivered, its database and its process."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from apscheduler.events import EVENT_JOB_MAX_INSTANCES, EVENT_JOB_MISSED
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from small_world import T0, fill
from sqlalchemy import Engine, insert
from sqlalchemy.exc import OperationalError

from tracker.alerting.ledger import ALERT, DELIVERY
from tracker.answers.recompute import Sizer, recompute
from tracker.answers.snapshot import Vitals
from tracker.database.faults import Trouble
from tracker.database.handle import writing
from tracker.metrics.vitals import Watcher
from tracker.world import World


class Jobs:
    """A scheduler with two jobs that tells of what it left out when it is told to."""

    def __init__(self) -> None:
        self.listener: Any = None

    def add_listener(self, listener: Any, mask: int) -> None:
        self.listener, self.mask = listener, mask

    def get_jobs(self) -> list[str]:
        return ["age", "leases"]


def look(db: Engine, world: World, watcher: Watcher) -> Vitals:
    found = watcher.on(recompute(db, world, Sizer(world), T0)).vitals
    assert found is not None
    return found


def alert(db: Engine, key: str, at: datetime, **routes: str) -> None:
    """An alert of that moment with the state of its delivery by each route."""
    row = {"key": key, "kind": "k", "subject": "s", "fired_at": at, "body": "{}"}
    with writing(db) as connection:
        (number,) = connection.execute(insert(ALERT).values(**row)).inserted_primary_key  # type: ignore[misc]
        for route, state in routes.items():
            way = {"alert_id": number, "route": route, "state": state, "attempts": 0, "created_at": at, "last_error": ""}
            connection.execute(insert(DELIVERY).values(**way))


def test_what_waits_what_was_given_up_and_since_when(db: Engine, world: World) -> None:
    watcher = Watcher(db, Jobs(), Trouble(), ("webhook", "mail"))
    assert (look(db, world, watcher).waiting, look(db, world, watcher).oldest_waiting) == (0, None)
    for number, state in enumerate(("stored", "failed", "stored", "delivered")):
        alert(db, f"a{number}", T0 - timedelta(hours=number), webhook=state, mail="stored" if number == 0 else "delivered")
    found = look(db, world, watcher)
    assert (found.waiting, found.failed, found.oldest_waiting) == (3, 1, T0 - timedelta(hours=2))


def test_what_is_for_a_route_that_is_off_does_not_wait(db: Engine, world: World) -> None:
    alert(db, "a", T0 - timedelta(days=90), webhook="stored", mail="failed")
    alert(db, "b", T0, mail="stored")
    found = look(db, world, Watcher(db, Jobs(), Trouble(), ("mail",)))
    assert (found.waiting, found.failed, found.oldest_waiting) == (1, 1, T0)


def test_the_size_is_that_of_the_file(db: Engine, world: World, tmp_path: Path) -> None:
    fill(db)
    with db.connect() as connection:
        connection.exec_driver_sql("pragma wal_checkpoint(truncate)")
    assert look(db, world, Watcher(db, Jobs(), Trouble())).database_bytes == (tmp_path / "book.db").stat().st_size > 10_000


def test_runs_that_were_left_out_are_counted_and_jobs_too(db: Engine, world: World) -> None:
    jobs = Jobs()
    watcher = Watcher(db, jobs, Trouble())
    assert jobs.mask == EVENT_JOB_MISSED | EVENT_JOB_MAX_INSTANCES
    for _ in range(3):
        jobs.listener(object())
    found = look(db, world, watcher)
    assert (found.jobs, found.missed) == (2, 3)


def test_a_real_scheduler_tells_of_a_run_that_found_the_one_before_running(db: Engine, world: World) -> None:
    scheduler = BackgroundScheduler(timezone=UTC, executors={"default": ThreadPoolExecutor(4)}, job_defaults={"max_instances": 1})
    watcher, go, missed = Watcher(db, scheduler, Trouble()), Event(), Event()
    scheduler.add_listener(lambda _event: missed.set(), EVENT_JOB_MAX_INSTANCES)
    scheduler.add_job(go.wait, "interval", seconds=0.05, id="slow", args=[30])
    scheduler.start()
    assert missed.wait(30)
    found = look(db, world, watcher)
    go.set()
    scheduler.shutdown()
    assert (found.jobs, found.missed > 0) == (1, True)


def test_trouble_is_told_by_its_kind_and_a_database_that_is_away_leaves_the_rest(db: Engine, world: World, tmp_path: Path) -> None:
    trouble = Trouble(say=lambda _line: None)
    trouble.met(OperationalError("select 1", {}, Exception("no answer")))
    snapshot = recompute(db, world, Sizer(world), T0)
    db.dispose()
    (tmp_path / "book.db").write_bytes(b"this is no database" * 1000)
    (tmp_path / "book.db-wal").unlink(missing_ok=True)
    found = Watcher(db, Jobs(), trouble).on(snapshot).vitals
    assert found is not None
    assert (found.trouble, found.database_bytes, found.waiting, found.jobs) == ("gone", None, None, 2)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the system has no /proc")
def test_the_process_is_this_one(db: Engine, world: World) -> None:
    figures = look(db, world, Watcher(db, Jobs(), Trouble())).process
    assert set(figures) == {"cpu_seconds", "resident_memory_bytes", "start_time_seconds", "open_fds", "max_fds"}
    assert 10 * 2**20 < figures["resident_memory_bytes"] < 2**34
    assert 0 < figures["cpu_seconds"] <= sum(os.times()[:2]) + 1
