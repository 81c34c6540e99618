"""The desk judges every snapshot in one transaction: what it tells, what it keeps in mind and what it sends stand or fall together."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, Engine

from tracker.alerting.hearing import bases_of, hear, over_unseen
from tracker.alerting.ledger import end, held_back, is_silent, release, silences, store
from tracker.alerting.message import Alarm, alarm_of
from tracker.alerting.outbox import Outbox
from tracker.alerting.state import is_late, load_states, save_states
from tracker.alerting.unsent import since_last_sent, still_news, unsaid
from tracker.alerting.view import View
from tracker.database import writing
from tracker.postgres import serialize
from tracker.snapshot import Snapshot
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
            found = self._found(connection, snapshot)
            release(connection, self.world, self.outbox.ways, snapshot.at)
        for alarm in found:
            log.warning("%s", alarm.text)
        self.outbox.wake()
        return tuple(found)

    def _found(self, connection: Connection, snapshot: Snapshot) -> list[Alarm]:
        now, rules = snapshot.at, self.world.alerts.rules
        if is_late(connection, now):
            return []
        before, quiet, held = load_states(connection), silences(connection, now), held_back(connection)
        states = {key: still_news(state, held, now) for key, state in before.items()}
        view = View(snapshot=snapshot, states=states, started_at=self.started_at, bases=bases_of(self.world))
        after, seen, told = dict(states), set(), []
        for found in hear(rules, view, now, lambda rule, subject: is_silent(quiet, rule, subject)):
            heard = since_last_sent(found, held)
            key = (heard.seen.rule, heard.seen.subject)
            seen.add(key)
            after[key] = heard.ruling.state
            if heard.ruling.over:
                end(connection, heard.ruling.over, now)
            if heard.ruling.told:
                told.append(alarm_of(heard, self.world, now))
        for key, ended in over_unseen(rules, view, seen, now):
            end(connection, states[key].active, now)
            after[key] = unsaid(ended) if states[key].active in held else ended
        save_states(connection, before, after, now)
        many = len(told) > self.world.alerts.delivery.bundle_above
        return [alarm for alarm in told if store(connection, alarm, self.world.alerts, self.outbox.ways, now, bundle=many)]

    def close(self) -> None:
        """Stop sending; what is unsent stays in the database."""
        self.outbox.close()
