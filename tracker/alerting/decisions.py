"""What people decide about alerts: seen, not now, never; and what there is to see."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, delete, insert, select, update

from tracker.alerting.ledger import ALERT, DELIVERY, FAILED, SILENCE, STORED
from tracker.answers.snapshot import ActiveAlert
from tracker.errors import UnknownName


def active(connection: Connection, at: datetime | None = None) -> Sequence[RowMapping]:
    """Alerts that are true, news, and not acknowledged, or were at a moment; newest first."""
    if at is None:
        return connection.execute(_active()).mappings().all()
    query = select(ALERT).where(ALERT.c.fired_at <= at).order_by(ALERT.c.id.desc())
    for ended in (ALERT.c.over_at, ALERT.c.acked_at):
        query = query.where(ended.is_(None) | (ended > at))
    return connection.execute(query).mappings().all()


@cache
def _active() -> Select[Any]:
    """Built once: it is asked with every recompute."""
    return select(ALERT).where(ALERT.c.over_at.is_(None), ALERT.c.acked_at.is_(None)).order_by(ALERT.c.id.desc())


def active_alerts(connection: Connection, at: datetime | None = None) -> tuple[ActiveAlert, ...]:
    """The same as values."""
    return tuple(_value(row, json.loads(row["body"])) for row in active(connection, at))


def _value(row: RowMapping, body: Mapping[str, Any]) -> ActiveAlert:
    return ActiveAlert(
        id=row["id"], rule=row["rule"], kind=row["kind"], subject=row["subject"], fired_at=row["fired_at"], held_until=row["held_until"],
        title=str(body.get("title", "")), text=str(body.get("text", "")),
    )  # fmt: skip


def since(connection: Connection, start: datetime, end: datetime) -> Sequence[RowMapping]:
    """Everything that was told from then on, up to ``end``; newest first."""
    query = select(ALERT).where(ALERT.c.fired_at >= start, ALERT.c.fired_at <= end).order_by(ALERT.c.id.desc())
    return connection.execute(query).mappings().all()


def undelivered(connection: Connection, *states: str) -> Sequence[RowMapping]:
    """Deliveries that wait or failed, with their alerts; oldest first."""
    query = select(ALERT.c.key, ALERT.c.kind, DELIVERY).join(DELIVERY, DELIVERY.c.alert_id == ALERT.c.id)
    return connection.execute(query.where(DELIVERY.c.state.in_(states or (STORED, FAILED))).order_by(ALERT.c.id)).mappings().all()


def acknowledge(connection: Connection, id_: int, who: str, now: datetime) -> RowMapping:
    """Note that somebody knows: it is no longer active, and closed at an Alertmanager."""
    found = _alert(connection, id_)
    if found["acked_at"] is None:
        connection.execute(update(ALERT).where(ALERT.c.id == id_).values(acked_at=now, acked_by=who))
    return found


def _alert(connection: Connection, id_: int) -> RowMapping:
    found = connection.execute(select(ALERT).where(ALERT.c.id == id_)).mappings().first()
    if found is None:
        raise UnknownName(f"no alert {id_}; breakeven alerts history lists them")
    return found


def snooze(connection: Connection, id_: int, until: datetime, who: str, now: datetime) -> RowMapping:
    """Tell nothing more about the alert's subject by its rule until then; what is still so is told afterwards."""
    found = acknowledge(connection, id_, who, now)
    silence(connection, found["rule"], found["subject"], who, now, until)
    return found


def silence(connection: Connection, rule: str, subject: str, who: str, now: datetime, until: datetime | None = None) -> None:
    """Tell nothing of a rule and subject (empty: all), until then or until it is lifted."""
    lift(connection, rule, subject)
    connection.execute(insert(SILENCE).values(rule=rule, subject=subject, until=until, created_at=now, created_by=who))


def lift(connection: Connection, rule: str, subject: str = "") -> int:
    """End silences of exactly that rule and subject; how many there were."""
    return connection.execute(delete(SILENCE).where(SILENCE.c.rule == rule, SILENCE.c.subject == subject)).rowcount


def silent(connection: Connection, now: datetime) -> Sequence[RowMapping]:
    """Silences in force."""
    query = select(SILENCE).where(SILENCE.c.until.is_(None) | (SILENCE.c.until > now)).order_by(SILENCE.c.id)
    return connection.execute(query).mappings().all()


def retry(connection: Connection, now: datetime) -> int:
    """Put every dead letter back into the outbox; how many."""
    again = {"state": STORED, "attempts": 0, "created_at": now, "claimed_until": None}
    return connection.execute(update(DELIVERY).where(DELIVERY.c.state == FAILED).values(**again)).rowcount
