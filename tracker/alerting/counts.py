"""How alerts are doing, for metrics, health and the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, func, select

from tracker.alerting.ledger import ALERT, DELIVERED, DELIVERY, FAILED, STORED


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertCounts:
    """Deliveries that wait, dead letters, deliveries that arrived, and active alerts by kind."""

    outbox: int = 0
    dead_letters: int = 0
    delivered: int = 0
    active: Mapping[str, int] = field(default_factory=dict)


def alert_counts(connection: Connection) -> AlertCounts:
    """The counts of this moment."""
    states: dict[str, int] = dict(connection.execute(select(DELIVERY.c.state, func.count()).group_by(DELIVERY.c.state)).all())
    by_kind = select(ALERT.c.kind, func.count()).where(ALERT.c.over_at.is_(None), ALERT.c.acked_at.is_(None)).group_by(ALERT.c.kind)
    active: dict[str, int] = dict(connection.execute(by_kind).all())
    return AlertCounts(
        outbox=states.get(STORED, 0), dead_letters=states.get(FAILED, 0), delivered=states.get(DELIVERED, 0),
        active=active,
    )  # fmt: skip
