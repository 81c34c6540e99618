"""How deliveries are doing, for metrics and the command line."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, bindparam, func, or_, select

from tracker.alerting.ledger import DELIVERED, DELIVERY, FAILED, STORED


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertCounts:
    """Deliveries that wait, since when the oldest does, dead letters, and those that arrived."""

    waiting: int
    oldest_waiting: datetime | None
    failed: int
    delivered: int


def alert_counts(connection: Connection, ways: Collection[str]) -> AlertCounts:
    """The counts of this moment. What is for a route that is off does not wait: nobody will send it."""
    found = {state: (count, oldest) for state, count, oldest in connection.execute(_by_state(), {"ways": list(ways)})}
    waiting, oldest = found.get(STORED, (0, None))
    failed, delivered = (found.get(state, (0, None))[0] for state in (FAILED, DELIVERED))
    return AlertCounts(waiting=waiting, oldest_waiting=oldest, failed=failed, delivered=delivered)


@cache
def _by_state() -> Select[Any]:
    """Built once: it is asked with every recompute."""
    query = select(DELIVERY.c.state, func.count(), func.min(DELIVERY.c.created_at)).group_by(DELIVERY.c.state)
    return query.where(or_(DELIVERY.c.state != STORED, DELIVERY.c.route.in_(bindparam("ways", expanding=True))))
