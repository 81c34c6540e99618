"""The desk judges every snapshot, and wakes whoever sends what it tells."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Engine

from tracker.alerting.look import look
from tracker.alerting.message import Alarm
from tracker.alerting.outbox import Outbox
from tracker.answers.snapshot import Snapshot
from tracker.database.handle import writing
from tracker.database.postgres import serialize
from tracker.world import World

log = logging.getLogger("breakeven.alerts")


@dataclass(slots=True, kw_only=True)
class AlertDesk:
    """The alerts of one process. It remembers nothing itself: of several desks on one book, whoever looks first tells."""

    db: Engine
    world: World
    started_at: datetime
    outbox: Outbox

    def judge(self, snapshot: Snapshot) -> tuple[Alarm, ...]:
        """Look at a snapshot, store what is new, hand it to the outbox; returns what is new."""
        with writing(self.db) as connection:
            serialize(connection, "alerts")  # of two that see the same fall, the second waits and finds it told
            found = look(connection, self.world, self.outbox.ways, snapshot, self.started_at)
        for alarm in found:
            log.warning("%s", alarm.text)
        self.outbox.wake()
        return tuple(found)

    def close(self) -> None:
        """Stop sending; what is unsent stays in the database."""
        self.outbox.close()
