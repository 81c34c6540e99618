"""Alerts in the database: stored once, held back, released to their routes, over."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, and_, bindparam, func, insert, or_, select, update

from tracker.alerting.hours import day_start, hold_until
from tracker.alerting.message import Alarm, digest, message_id
from tracker.alerting.rules import AlertConfig
from tracker.book.points import insert_new
from tracker.database.schema import TABLES
from tracker.pictures.drawing import can_draw
from tracker.pictures.subjects import READ
from tracker.plain import plain
from tracker.sweeps.leases import SKEW
from tracker.world import World

ALERT, DELIVERY, SILENCE = TABLES["alert"], TABLES["alert_delivery"], TABLES["alert_silence"]
Ways = Mapping[str, Sequence[str]]  # of each route that is on, the names its deliveries are kept under
STORED, DELIVERED, FAILED = "stored", "delivered", "failed"
TEST = "test"  # kind of a message that only tries a route


def store(connection: Connection, alarm: Alarm, config: AlertConfig, ways: Ways, now: datetime, *, bundle: bool = False) -> bool:
    """Keep an alarm, and send it or hold it back; False when it was told before. ``bundle``: for the next release, with others."""
    held = hold_until(
        config.delivery,
        now,
        digest=alarm.digest,
        urgent=alarm.urgent,
        told_today=_told_since(connection, day_start(config.delivery, now), now),
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
        send(connection, alarm.key, wanted(ways, alarm.routes), now)
    return True


def body_of(alarm: Alarm) -> dict[str, Any]:
    """What is kept of a message and sent, as JSON values."""
    body: dict[str, Any] = plain({"title": alarm.title, "text": alarm.text, **alarm.facts})
    return body


def wanted(ways: Ways, routes: Sequence[str] = ()) -> list[str]:
    """The ways of those routes; none named is all."""
    return [way for route, found in ways.items() if not routes or route in routes for way in found]


def send(connection: Connection, key: str, ways: Iterable[str], now: datetime) -> None:
    """Put an alert into the outbox, once for each way."""
    (id_,) = connection.execute(select(ALERT.c.id).where(ALERT.c.key == key)).one()
    for way in ways:
        row = {"alert_id": id_, "route": way, "state": STORED, "attempts": 0, "created_at": now, "last_error": ""}
        connection.execute(insert_new(connection, DELIVERY).values(**row))


def _told_since(connection: Connection, since: datetime, now: datetime) -> int:
    """Alerts that went out one by one since then."""
    query = select(func.count()).where(ALERT.c.fired_at.between(since, now + SKEW), ALERT.c.held_until.is_(None), ALERT.c.digest == "")
    return connection.scalar(query.where(ALERT.c.kind.not_in(("digest", TEST)))) or 0


def end(connection: Connection, key: str, now: datetime) -> None:
    """An alert is over."""
    connection.execute(update(ALERT).where(ALERT.c.key == key, ALERT.c.over_at.is_(None)).values(over_at=now))


def release(connection: Connection, world: World, ways: Ways, now: datetime) -> None:
    """Send what was held back until now: one alert by itself, several as a digest. What is over by now is not sent.

    What somebody silenced meanwhile goes on waiting. The times of a clock that was far ahead are not waited for.
    """
    config, quiet = world.alerts, silences(connection, now)
    found = connection.execute(_waited(), {"now": now, "ahead": now + SKEW}).mappings().all()
    due = [row for row in found if row["over_at"] or row["acked_at"] or not is_silent(quiet, row["rule"], row["subject"])]
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
        send(connection, key, wanted(ways, routes), now)
    if due:
        connection.execute(update(ALERT).where(ALERT.c.id.in_([row["id"] for row in due])).values(held_until=None))


def _store_digest(connection: Connection, alarm: Alarm, now: datetime) -> None:
    row = {"key": alarm.key, "rule": "", "kind": alarm.kind, "subject": alarm.subject, "fired_at": now, "over_at": now}
    connection.execute(insert(ALERT).values(**row, digest="", acked_by="", body=json.dumps(body_of(alarm))))


def message_of(row: RowMapping) -> dict[str, Any]:
    """The whole message of a stored alert, as it is sent."""
    body = said(row)
    return {
        "type": f"alert.{row['kind']}", "id": message_id(row["key"]), "key": row["key"], "rule": row["rule"], "kind": row["kind"],
        "subject": row["subject"], "fired_at": plain(row["fired_at"]), **_picture_link(row, body), **body,
    }  # fmt: skip


def _picture_link(row: RowMapping, body: Mapping[str, Any]) -> dict[str, str]:
    """Where the picture of its price history is, for those who take a link."""
    if row["kind"] not in READ or "page_url" not in body or not can_draw():
        return {}
    return {"history_png_url": f"{body['page_url'].partition('?')[0]}api/v1/alerts/{row['id']}/history.png"}


def said(row: RowMapping) -> dict[str, Any]:
    """What a stored alert says. Those of the first version had no title."""
    body: dict[str, Any] = json.loads(row["body"])
    return {"title": str(body.get("text", "")), "text": ""} | body


def held_back(connection: Connection) -> dict[str, datetime]:
    """What waits for the end of quiet hours or for a digest, and until when, by key. Who acknowledged it knows."""
    return {row.key: row.held_until for row in connection.execute(_held_back())}


def silences(connection: Connection, now: datetime) -> list[tuple[str, str]]:
    """Rule and subject of what nobody is told of now; an empty one stands for all."""
    return [(rule, subject) for rule, subject in connection.execute(_silences(), {"now": now})]


# built once: they are asked with every look


@cache
def _held_back() -> Select[Any]:
    return select(ALERT.c.key, ALERT.c.held_until).where(ALERT.c.held_until.is_not(None), ALERT.c.acked_at.is_(None))


@cache
def _silences() -> Select[Any]:
    now: Any = bindparam("now", type_=SILENCE.c.until.type)
    return select(SILENCE.c.rule, SILENCE.c.subject).where(SILENCE.c.until.is_(None) | (SILENCE.c.until > now))


@cache
def _waited() -> Select[Any]:
    """What is due, and what was told by a clock that was far ahead."""
    now, ahead = (bindparam(name, type_=ALERT.c.fired_at.type) for name in ("now", "ahead"))
    waited = or_(ALERT.c.held_until <= now, and_(ALERT.c.held_until.is_not(None), ALERT.c.fired_at > ahead))
    return select(ALERT).where(waited).order_by(ALERT.c.id)


def is_silent(quiet: Iterable[tuple[str, str]], rule: str, subject: str) -> bool:
    """Whether one of those silences is of the rule and subject."""
    return any(r in ("", rule) and s in ("", subject) for r, s in quiet)
