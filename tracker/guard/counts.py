"""How much of each source is held back, for metrics and health."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, bindparam, func, select

from tracker.guard.quarantine import PENDING, QUARANTINE


def waiting(connection: Connection, at: datetime) -> Counter[str]:
    """Prices that wait to be confirmed, by source, as it was at a moment."""
    return Counter(dict(connection.execute(_waiting(), {"at": at}).all()))


@cache
def _waiting() -> Select[Any]:
    """Built once: it is asked with every look."""
    at: Any = bindparam("at", type_=QUARANTINE.c.first_seen.type)
    waits = (QUARANTINE.c.state == PENDING) | (QUARANTINE.c.decided_at > at)
    return select(QUARANTINE.c.source, func.count()).where(QUARANTINE.c.first_seen <= at, waits).group_by(QUARANTINE.c.source)
