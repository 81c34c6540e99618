"""The desk of the daemon over a book of alerts in memory: what it would have sent and when, and what would have waited."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import Self

from sqlalchemy import Engine, func, select
from sqlmodel import SQLModel

from tracker.alerting.hearing import Heard
from tracker.alerting.ledger import ALERT, DELIVERY, SILENCE, Ways, release
from tracker.alerting.look import look
from tracker.alerting.message import Alarm
from tracker.alerting.state import STATE
from tracker.answers.snapshot import Snapshot
from tracker.database import tables as tables  # registers them
from tracker.database.handle import open_database, writing
from tracker.world import World

EVERY = "every"  # a route that is always on: where none is configured, there would still be messages


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """When an alert would have gone out, and whether in one message with others. Where it would not: until when it waits at the end of
    the history, or None for what was over before."""

    at: datetime | None = None
    bundled: bool = False
    waits_until: datetime | None = None


@dataclass(slots=True)
class Rehearsal:
    """A desk that sends to nobody, on a book of its own for as long as the ``with`` lasts."""

    world: World
    db: Engine = field(default_factory=lambda: open_database("sqlite://"))
    started_at: datetime | None = None

    def __enter__(self) -> Self:
        with writing(self.db) as connection:
            SQLModel.metadata.create_all(
                connection, tables=[SQLModel.metadata.tables[table.name] for table in (ALERT, DELIVERY, SILENCE, STATE)]
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.db.dispose()

    @property
    def ways(self) -> Ways:
        """Every route that is configured, whether or not it is on."""
        return {name: (name,) for name in (*self.world.alerts.routes, EVERY)}

    def judge(self, snapshot: Snapshot, note: Callable[[Heard], None]) -> list[Alarm]:
        """Send what has become due since the last look, then look as the desk does."""
        self.started_at = self.started_at or snapshot.at
        with writing(self.db) as connection:
            while (due := connection.scalar(select(func.min(ALERT.c.held_until)))) is not None and due < snapshot.at:
                release(connection, self.world, self.ways, due)
            return look(connection, self.world, self.ways, snapshot, self.started_at, note)

    def sent(self) -> Mapping[str, Sent]:
        """What became of each alert, by its key."""
        out = select(DELIVERY.c.alert_id, func.min(DELIVERY.c.created_at).label("at")).group_by(DELIVERY.c.alert_id).subquery()
        query = select(ALERT.c.key, ALERT.c.digest, ALERT.c.held_until, out.c.at).join_from(
            ALERT, out, ALERT.c.id == out.c.alert_id, isouter=True
        )
        with writing(self.db) as connection:
            rows = connection.execute(query).all()
        digests = {row.key: row.at for row in rows}
        return {
            row.key: Sent(at=digests[row.digest] if row.digest else row.at, bundled=bool(row.digest), waits_until=row.held_until)
            for row in rows
        }  # fmt: skip
