"""Alerts in the database: stored once, held back, released to their routes, over."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, func, insert, select, update
from sqlmodel import SQLModel

from tracker.alerting.hours import day_start, hold_until
from tracker.alerting.message import Alarm, digest, message_id
from tracker.alerting.rules import AlertConfig
from tracker.plain import plain
from tracker.points import insert_new
from tracker.world import World

_TABLES = SQLModel.metadata.tables
ALERT, DELIVERY, SILENCE = _TABLES["alert"], _TABLES["alert_delivery"], _TABLES["alert_silence"]
STORED, DELIVERED, FAILED = "stored", "delivered", "failed"
TEST = "test"  # kind of a message that only tries a route


def store(connection: Connection, alarm: Alarm, config: AlertConfig, now: datetime, *, bundle: bool = False) -> bool:
    """Keep an alarm, and send it or hold it back; False when it was told before. ``bundle``: for the next release, with others."""
    held = hold_until(
        config.delivery, now, digest=alarm.digest, urgent=alarm.urgent, told_today=_told_since(connection, day_start(config.delivery, now))
    )
    held = now if held is None and bundle else held
    row = {
        "key": alarm.key, "rule": alarm.rule, "kind": alarm.kind, "subject": alarm.subject, "fired_at": now, "held_until": held,
        "digest": "", "over_at": None, "acked_at": None, "acked_by": "", "body": json.dumps(body_of(alarm)),
    }  # fmt: skip
    # rows of an INSERT are counted only when asked for
    if connection.execute(insert_new(connection, ALERT).values(**row).execution_options(preserve_rowcount=True)).rowcount == 0:
        return False
    if held is None:
        send(connection, alarm.key, routes_of(config, alarm.routes), now)
    return True


def body_of(alarm: Alarm) -> dict[str, Any]:
    """What is kept of a message and sent, as JSON values."""
    body: dict[str, Any] = plain({"title": alarm.title, "text": alarm.text, **alarm.facts})
    return body


def routes_of(config: AlertConfig, wanted: Sequence[str] = ()) -> list[str]:
    """The routes that are on, of those that are wanted; none wanted is all."""
    return [name for name, route in config.routes.items() if (not wanted or name in wanted) and not route.off_reason]


def send(connection: Connection, key: str, routes: Iterable[str], now: datetime) -> None:
    """Put an alert into the outbox of each route."""
    (id_,) = connection.execute(select(ALERT.c.id).where(ALERT.c.key == key)).one()
    for route in routes:
        row = {"alert_id": id_, "route": route, "state": STORED, "attempts": 0, "created_at": now, "last_error": ""}
        connection.execute(insert_new(connection, DELIVERY).values(**row))


def _told_since(connection: Connection, since: datetime) -> int:
    """Alerts that went out one by one since then."""
    query = select(func.count()).where(ALERT.c.fired_at >= since, ALERT.c.held_until.is_(None), ALERT.c.digest == "")
    return connection.scalar(query.where(ALERT.c.kind.not_in(("digest", TEST)))) or 0


def end(connection: Connection, key: str, now: datetime) -> None:
    """An alert is over."""
    connection.execute(update(ALERT).where(ALERT.c.key == key, ALERT.c.over_at.is_(None)).values(over_at=now))


def release(connection: Connection, world: World, now: datetime) -> None:
    """Send what was held back until now: one alert by itself, several as a digest. What is over by now is not sent."""
    config = world.alerts
    due = connection.execute(select(ALERT).where(ALERT.c.held_until <= now).order_by(ALERT.c.id)).mappings().all()
    groups: dict[tuple[str, ...], list[RowMapping]] = {}
    for row in due:
        if row["over_at"] is None and row["acked_at"] is None:
            rule = config.rules.get(row["rule"])
            groups.setdefault(rule.routes if rule else (), []).append(row)
    for routes, rows in groups.items():
        key = rows[0]["key"]
        if len(rows) > 1:
            key = f"digest@{message_id(' '.join(row['key'] for row in rows))}"
            _store_digest(connection, digest([message_of(row) for row in rows], key, world, routes), now)
            connection.execute(update(ALERT).where(ALERT.c.id.in_([row["id"] for row in rows])).values(digest=key))
        send(connection, key, routes_of(config, routes), now)
    if due:
        connection.execute(update(ALERT).where(ALERT.c.id.in_([row["id"] for row in due])).values(held_until=None))


def _store_digest(connection: Connection, alarm: Alarm, now: datetime) -> None:
    row = {"key": alarm.key, "rule": "", "kind": alarm.kind, "subject": alarm.subject, "fired_at": now, "over_at": now}
    connection.execute(insert(ALERT).values(**row, digest="", acked_by="", body=json.dumps(body_of(alarm))))


def message_of(row: RowMapping) -> dict[str, Any]:
    """The whole message of a stored alert, as it is sent."""
    return {
        "type": f"alert.{row['kind']}", "id": message_id(row["key"]), "key": row["key"], "rule": row["rule"], "kind": row["kind"],
        "subject": row["subject"], "fired_at": plain(row["fired_at"]), **json.loads(row["body"]),
    }  # fmt: skip


def held_back(connection: Connection) -> dict[str, datetime]:
    """What waits for the end of quiet hours or for a digest, and until when, by key. Who acknowledged it knows."""
    query = select(ALERT.c.key, ALERT.c.held_until).where(ALERT.c.held_until.is_not(None), ALERT.c.acked_at.is_(None))
    return {row.key: row.held_until for row in connection.execute(query)}


def silences(connection: Connection, now: datetime) -> list[tuple[str, str]]:
    """Rule and subject of what nobody is told of now; an empty one stands for all."""
    query = select(SILENCE.c.rule, SILENCE.c.subject).where(SILENCE.c.until.is_(None) | (SILENCE.c.until > now))
    return [(rule, subject) for rule, subject in connection.execute(query)]
