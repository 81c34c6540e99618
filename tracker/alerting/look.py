"""One look at a snapshot, in one transaction: what it tells, what it keeps in mind and what it sends stand or fall together."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import Connection

from tracker.alerting.hearing import Heard, bases_of, hear, over_unseen
from tracker.alerting.ledger import Ways, end, held_back, is_silent, release, silences, store
from tracker.alerting.message import Alarm, alarm_of
from tracker.alerting.state import is_late, load_states, save_states
from tracker.alerting.unsent import since_last_sent, still_news, unsaid
from tracker.alerting.view import View
from tracker.answers.snapshot import Snapshot
from tracker.world import World


def look(
    connection: Connection,
    world: World,
    ways: Ways,
    snapshot: Snapshot,
    started_at: datetime,
    note: Callable[[Heard], None] = lambda heard: None,
) -> list[Alarm]:
    """Judge a snapshot, store what is new and send what is due; returns what is new. ``note`` is given all that was seen."""
    found = _new(connection, world, ways, snapshot, started_at, note)
    release(connection, world, ways, snapshot.at)
    return found


def _new(
    connection: Connection, world: World, ways: Ways, snapshot: Snapshot, started_at: datetime, note: Callable[[Heard], None]
) -> list[Alarm]:
    now, rules = snapshot.at, world.alerts.rules
    if is_late(connection, now):
        return []
    before, quiet, held = load_states(connection), silences(connection, now), held_back(connection)
    states = {key: still_news(state, held, now) for key, state in before.items()}
    view = View(snapshot=snapshot, states=states, started_at=started_at, bases=bases_of(world))
    after, seen, told = dict(states), set(), []
    for found in hear(rules, view, now, lambda rule, subject: is_silent(quiet, rule, subject)):
        heard = since_last_sent(found, held)
        note(heard)
        key = (heard.seen.rule, heard.seen.subject)
        seen.add(key)
        after[key] = heard.ruling.state
        if heard.ruling.over:
            end(connection, heard.ruling.over, now)
        if heard.ruling.told:
            told.append(alarm_of(heard, world, now))
    for key, ended in over_unseen(rules, view, seen, now):
        end(connection, states[key].active, now)
        after[key] = unsaid(ended) if states[key].active in held else ended
    save_states(connection, before, after, now)
    many = len(told) > world.alerts.delivery.bundle_above
    return [alarm for alarm in told if store(connection, alarm, world.alerts, ways, now, bundle=many)]
