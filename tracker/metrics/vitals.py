"""How the program itself is doing: its jobs, what waits to be told, its database and its process; read with every recompute."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from apscheduler.events import EVENT_JOB_MAX_INSTANCES, EVENT_JOB_MISSED
from prometheus_client.process_collector import ProcessCollector
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from tracker.alerting.counts import alert_counts
from tracker.alerting.decisions import active_alerts
from tracker.answers.snapshot import Snapshot, Vitals
from tracker.database.faults import Trouble
from tracker.database.handle import reading

PROCESS = ("cpu_seconds", "resident_memory_bytes", "start_time_seconds", "open_fds", "max_fds")


class Watcher:
    """Looks at the parts of a running daemon."""

    def __init__(self, db: Engine, scheduler: Any, trouble: Trouble, ways: Collection[str] = ()) -> None:
        self._db, self._scheduler, self._trouble, self._ways = db, scheduler, trouble, ways
        self._missed = 0
        self._process = ProcessCollector(registry=None)
        scheduler.add_listener(self._miss, EVENT_JOB_MISSED | EVENT_JOB_MAX_INSTANCES)

    def _miss(self, _event: object) -> None:
        self._missed += 1

    def on(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with a look at the program in it."""
        seen = Vitals(
            jobs=len(self._scheduler.get_jobs()), missed=self._missed, trouble=self._trouble.kind, process=dict(self._process_figures())
        )
        try:
            with reading(self._db) as connection:
                seen = replace(seen, database_bytes=database_bytes(connection), **messages(connection, self._ways))
        except SQLAlchemyError:  # whoever read the book just before has said what is wrong
            return replace(snapshot, vitals=seen)
        return replace(snapshot, vitals=seen)

    def _process_figures(self) -> Iterator[tuple[str, float]]:
        for family in self._process.collect():
            for sample in family.samples:
                name = sample.name.removeprefix("process_").removesuffix("_total")
                if name in PROCESS:
                    yield name, sample.value


def database_bytes(connection: Connection) -> int:
    """Size of the book, with what is free in it."""
    if connection.dialect.name == "postgresql":
        return int(connection.execute(text("select pg_database_size(current_database())")).scalar_one())
    pages, size = (connection.exec_driver_sql(f"pragma {name}").scalar_one() for name in ("page_count", "page_size"))
    return int(pages) * int(size)


def messages(connection: Connection, ways: Collection[str]) -> dict[str, Any]:
    """Deliveries that wait for a route that is on and that were given up, since when the oldest waits, and the active alerts."""
    found = alert_counts(connection, ways)
    return {
        "waiting": found.waiting, "failed": found.failed, "oldest_waiting": found.oldest_waiting, "alerts": active_alerts(connection),
    }  # fmt: skip
