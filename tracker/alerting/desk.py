"""The desk judges every snapshot in one transaction: what it tells, what it keeps in mind and what it sends stand or fall together."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection, Engine

from tracker.alerting.hearing import Heard, hear, over_unseen, question_of
from tracker.alerting.judge import State
from tracker.alerting.ledger import end, held_back, release, silences, store
from tracker.alerting.message import Alarm, alarm_of
from tracker.alerting.outbox import Outbox
from tracker.alerting.state import is_late, load_states, save_states
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
            release(connection, self.world, snapshot.at)
        for alarm in found:
            log.warning("%s", alarm.text)
        self.outbox.wake()
        return tuple(found)

    def _found(self, connection: Connection, snapshot: Snapshot) -> list[Alarm]:
        now, rules = snapshot.at, self.world.alerts.rules
        if is_late(connection, now):
            return []
        before, quiet, held = load_states(connection), silences(connection, now), held_back(connection)
        view = View(snapshot=snapshot, states=before, started_at=self.started_at, question=question_of(self.world))
        after, seen, told = dict(before), set(), []
        for found in hear(rules, view, now, lambda rule, subject: _is_silent(quiet, rule, subject)):
            heard = _since_last_sent(found, held)
            key = (heard.seen.rule, heard.seen.subject)
            seen.add(key)
            after[key] = heard.ruling.state
            if heard.ruling.over:
                end(connection, heard.ruling.over, now)
            if heard.ruling.told:
                told.append(alarm_of(heard, self.world, now))
        for key in over_unseen(rules, view, seen, now):
            end(connection, before[key].active, now)
            after[key] = replace(before[key], active="")
        save_states(connection, before, after, now)
        many = len(told) > self.world.alerts.delivery.bundle_above
        return [alarm for alarm in told if store(connection, alarm, self.world.alerts, now, bundle=many)]

    def close(self) -> None:
        """Stop sending; what is unsent stays in the database."""
        self.outbox.close()


def _since_last_sent(heard: Heard, held: set[str]) -> Heard:
    """The move since people last heard of it: a message that still waits is replaced by this one, and so is what it said was before."""
    ruling, before = heard.ruling, heard.ruling.before
    if before is None or before.active not in held or not before.told_from:
        return heard
    earlier = replace(before, prices=before.told_from, facts=before.told_before)
    return replace(heard, ruling=replace(ruling, state=_starting_at(ruling.state, earlier), before=earlier))


def _starting_at(state: State, earlier: State) -> State:
    return replace(state, told_from=earlier.prices, told_before=earlier.facts)


def _is_silent(quiet: list[tuple[str, str]], rule: str, subject: str) -> bool:
    return any(r in ("", rule) and s in ("", subject) for r, s in quiet)
