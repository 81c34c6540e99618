"""How much of each source is held back, for metrics and health."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, and_, func, select

from tracker.book.listing import GOOD, OFFERS, RATES, SWEEP, UNSEEN
from tracker.database.rows import to_s
from tracker.guard.quarantine import PENDING, QUARANTINE

FOREVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardCounts:
    """Of one source: entries that wait, listed prices that were not printed as listed, and what its last kept sweep counted."""

    pending: int = 0
    held: int = 0
    conflicts: int = 0
    warned: int = 0


def guard_counts(connection: Connection, at: datetime | None = None) -> dict[str, GuardCounts]:
    """Counts by source, of every source that was ever read; as they were at ``at``, else as they are."""
    at = FOREVER if at is None else at
    pending, held = _pending(connection, at), _held(connection, at)
    return {
        source: GuardCounts(pending=pending[source], held=held[source], conflicts=conflicts, warned=sum(json.loads(warned).values()))
        for source, conflicts, warned in _last_kept(connection, at)
    }


def _pending(connection: Connection, at: datetime) -> Counter[str]:
    waits = (QUARANTINE.c.state == PENDING) | (QUARANTINE.c.decided_at > at)
    query = select(QUARANTINE.c.source, func.count()).where(QUARANTINE.c.first_seen <= at, waits).group_by(QUARANTINE.c.source)
    return Counter(dict(connection.execute(query).all()))


def _held(connection: Connection, at: datetime) -> Counter[str]:
    found: Counter[str] = Counter()
    for kind in (OFFERS, RATES):
        query = (
            select(kind.dimension.c.source, func.count())
            .join(UNSEEN, and_(UNSEEN.c.target == kind.dimension.c.id, UNSEEN.c.kind == kind.name))
            .where(UNSEEN.c.since <= to_s(at), UNSEEN.c.until.is_(None) | (UNSEEN.c.until > to_s(at)))
            .group_by(kind.dimension.c.source)
        )
        found.update(dict(connection.execute(query).all()))
    return found


def _last_kept(connection: Connection, at: datetime) -> list[tuple[str, int, str]]:
    kept = (SWEEP.c.status.in_(GOOD), SWEEP.c.at <= to_s(at))
    last = select(SWEEP.c.source, func.max(SWEEP.c.at).label("at")).where(*kept).group_by(SWEEP.c.source).subquery()
    query = select(SWEEP.c.source, SWEEP.c.conflicts, SWEEP.c.warned).join(
        last, and_(SWEEP.c.source == last.c.source, SWEEP.c.at == last.c.at)
    )
    failed = select(SWEEP.c.source).where(SWEEP.c.source.not_in(select(last.c.source)), SWEEP.c.at <= to_s(at)).distinct()
    found = [(source, conflicts, warned) for source, conflicts, warned in connection.execute(query)]
    return found + [(source, 0, "{}") for source in connection.execute(failed).scalars()]
