"""The judge's memory in the database, so that it does not matter which process looks next."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache, lru_cache
from typing import Any

from sqlalchemy import Connection, Select, select

from tracker.alerting.judge import State
from tracker.database.inserts import insert_into
from tracker.database.schema import TABLES
from tracker.plain import plain
from tracker.sweeps.leases import SKEW

STATE = TABLES["alert_state"]
TIMES = ("since", "counted", "told_at", "told_earlier", "news_at", "faded")
PRICES = ("prices", "told_from")
LOOK = ("", "")  # the row of the last look

Key = tuple[str, str]


def load_states(connection: Connection) -> dict[Key, State]:
    """All states by rule and subject."""
    return {(rule, subject): _read(body) for rule, subject, body in connection.execute(_all())}


@cache
def _all() -> Select[Any]:
    """Built once: it is asked with every look."""
    return select(STATE.c.rule, STATE.c.subject, STATE.c.body).where(STATE.c.rule != "")


@lru_cache(maxsize=4096)
def _read(body: str) -> State:
    """The state in a row: most are as they were at the last look. It is never changed, so whoever asks may have the same one."""
    return state_of(json.loads(body))


def state_of(found: Mapping[str, Any]) -> State:
    """A state from its JSON."""
    known = {field.name: found[field.name] for field in fields(State) if field.name in found}
    times = {name: None if known.get(name) is None else datetime.fromisoformat(known[name]) for name in TIMES}
    prices = {name: {kind: Decimal(price) for kind, price in known.get(name, {}).items()} for name in PRICES}
    return State(**known | times | prices)


def save_states(connection: Connection, before: Mapping[Key, State], after: Mapping[Key, State], now: datetime) -> None:
    """Write what changed, and that a look was taken."""
    bodies: dict[Key, str] = {key: json.dumps(plain(state)) for key, state in after.items() if before.get(key) != state}
    rows = [{"rule": rule, "subject": subject, "judged_at": now, "body": body} for (rule, subject), body in [*bodies.items(), (LOOK, "{}")]]
    new = insert_into(connection, STATE)
    found = {name: new.excluded[name] for name in ("judged_at", "body")}
    connection.execute(new.on_conflict_do_update(index_elements=["rule", "subject"], set_=found), rows)


def is_late(connection: Connection, now: datetime) -> bool:
    """Whether another process judged a newer look than this; one from a clock that was far ahead does not count."""
    last = connection.scalar(_last_look())
    return last is not None and timedelta(0) < last - now <= SKEW


@cache
def _last_look() -> Select[Any]:
    return select(STATE.c.judged_at).where(STATE.c.rule == "", STATE.c.subject == "")
