"""How much of each source is held back, for metrics and health."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass

from sqlalchemy import Connection, and_, func, select

from tracker.guard.quarantine import PENDING, QUARANTINE
from tracker.listing import GOOD, OFFERS, RATES, SWEEP, UNSEEN


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardCounts:
    """Of one source: entries that wait, listed prices that were not printed as listed, and what its last kept sweep counted."""

    pending: int = 0
    held: int = 0
    conflicts: int = 0
    warned: int = 0


def guard_counts(connection: Connection) -> dict[str, GuardCounts]:
    """Counts by source, of every source that was ever read."""
    pending, held = _pending(connection), _held(connection)
    return {
        source: GuardCounts(pending=pending[source], held=held[source], conflicts=conflicts, warned=sum(json.loads(warned).values()))
        for source, conflicts, warned in _last_kept(connection)
    }


def _pending(connection: Connection) -> Counter[str]:
    query = select(QUARANTINE.c.source, func.count()).where(QUARANTINE.c.state == PENDING).group_by(QUARANTINE.c.source)
    return Counter(dict(connection.execute(query).all()))


def _held(connection: Connection) -> Counter[str]:
    found: Counter[str] = Counter()
    for kind in (OFFERS, RATES):
        query = (
            select(kind.dimension.c.source, func.count())
            .join(UNSEEN, and_(UNSEEN.c.target == kind.dimension.c.id, UNSEEN.c.kind == kind.name))
            .where(UNSEEN.c.until.is_(None))
            .group_by(kind.dimension.c.source)
        )
        found.update(dict(connection.execute(query).all()))
    return found


def _last_kept(connection: Connection) -> list[tuple[str, int, str]]:
    last = select(SWEEP.c.source, func.max(SWEEP.c.at).label("at")).where(SWEEP.c.status.in_(GOOD)).group_by(SWEEP.c.source).subquery()
    query = select(SWEEP.c.source, SWEEP.c.conflicts, SWEEP.c.warned).join(
        last, and_(SWEEP.c.source == last.c.source, SWEEP.c.at == last.c.at)
    )
    failed = select(SWEEP.c.source).where(SWEEP.c.source.not_in(select(last.c.source))).distinct()
    kept = [(source, conflicts, warned) for source, conflicts, warned in connection.execute(query)]
    return kept + [(source, 0, "{}") for source in connection.execute(failed).scalars()]
