"""Pushes active alerts to an Alertmanager (API v2) and closes them there when they are over.

``endsAt`` is renewed while an alert is active: should this process end, the alert ends by itself. Labels are its identity, so that
they hold nothing that changes; prices are annotations.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar

import httpx
from sqlalchemy import Connection, RowMapping, and_, or_, select

from tracker.alerting.ledger import ALERT, DELIVERY, TEST, message_of
from tracker.alerting.picture import Picture
from tracker.alerting.routes import AlertmanagerRoute, secret
from tracker.alerting.webhook import post
from tracker.plain import plain
from tracker.sweeps.leases import SKEW

PATH = "/api/v2/alerts"
RENEWED = timedelta(minutes=5)  # an active alert is pushed at least every half minute; a restart may take longer
CLOSING = timedelta(minutes=15)  # so long an end is told, lest a push of another process that was under way opens it again
TRIAL = timedelta(minutes=1)
TROUBLE = ("source_stale", "quarantine", "setup_gone")  # the rest is about money; deploy/alertmanager routes by severity
LABELS = ("rule", "kind", "subject", "model", "workload", "policy", "gpu", "tier", "source", "sku")


@dataclass(frozen=True, slots=True)
class AlertmanagerSender:
    """Pushes to one Alertmanager."""

    variable: str
    url: str
    timeout_s: float
    takes_pictures: ClassVar[bool] = False

    def send(self, client: httpx.Client, message: Mapping[str, Any], now: datetime, pictures: Sequence[Picture] = ()) -> str:
        """What went wrong; empty when the message was taken. It is open until renewed; a test ends in a minute."""
        return self.push(client, [pushed(message, now + (TRIAL if message["kind"] == TEST else RENEWED))])

    def push(self, client: httpx.Client, alerts: Sequence[Mapping[str, Any]]) -> str:
        """The same of several alerts in one request."""
        body = json.dumps(alerts, ensure_ascii=False).encode()
        return post(client, self.url.rstrip("/") + PATH, self.variable, body, {"content-type": "application/json"}, self.timeout_s)


def alertmanager_sender(route: AlertmanagerRoute) -> AlertmanagerSender:
    """A sender with the address of the environment."""
    return AlertmanagerSender(route.url_env, secret(route.url_env), route.timeout_s)


def pushed(message: Mapping[str, Any], ends_at: datetime) -> dict[str, Any]:
    """A message as an Alertmanager takes it."""
    name = "Breakeven" + "".join(word.capitalize() for word in str(message["kind"]).split("_"))
    severity = "warning" if message["kind"] in TROUBLE else "info"
    labels = {"alertname": name, "severity": severity} | {label: str(message[label]) for label in LABELS if message.get(label)}
    annotations = {"summary": str(message["title"]), "description": str(message["text"])}
    annotations |= {label: str(message[label]) for label in ("saving_usd_per_month", "source_url", "history_png_url") if message.get(label)}
    return {
        "labels": labels, "annotations": annotations, "startsAt": message["fired_at"], "endsAt": plain(ends_at),
        "generatorURL": str(message.get("page_url", "")),
    }  # fmt: skip


def due(connection: Connection, route: str, now: datetime) -> list[dict[str, Any]]:
    """What is to be pushed now: active alerts of the route, and those that ended a short while ago. Of one subject the newest."""
    ended = or_(*(and_(column > now - CLOSING, column <= now + SKEW) for column in (ALERT.c.over_at, ALERT.c.acked_at)))
    wanted = or_(and_(ALERT.c.over_at.is_(None), ALERT.c.acked_at.is_(None)), ended)
    sent = select(ALERT.c.id, ALERT.c.key).join(DELIVERY, DELIVERY.c.alert_id == ALERT.c.id).where(DELIVERY.c.route == route).subquery()
    told = or_(ALERT.c.id.in_(select(sent.c.id)), ALERT.c.digest.in_(select(sent.c.key)))  # by itself, or in a digest
    query = select(ALERT).where(wanted, told, ALERT.c.held_until.is_(None), ALERT.c.kind.not_in(("digest", TEST))).order_by(ALERT.c.id)
    newest = {(row["rule"], row["subject"]): row for row in connection.execute(query).mappings()}
    return [pushed(message_of(row), _end(row, now)) for row in newest.values()]


def _end(row: RowMapping, now: datetime) -> datetime:
    """When it ended, or when it will unless it is renewed."""
    moments = [moment for moment in (row["over_at"], row["acked_at"]) if moment is not None]
    return min(moments, default=now + RENEWED)
