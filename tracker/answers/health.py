"""How each configured source is doing, from its coverage rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta

from sqlalchemy import Connection, RowMapping, and_, case, func, select

from tracker.answers.snapshot import SourceHealth
from tracker.book.listing import SWEEP
from tracker.config import Source, off_reason
from tracker.database.rows import from_ms, from_s, to_s
from tracker.guard.counts import GuardCounts, guard_counts
from tracker.sweeps.licences import licence_texts


def source_health(connection: Connection, sources: Mapping[str, Source], at: datetime) -> tuple[SourceHealth, ...]:
    """Health of every configured source at ``at``, by id."""
    good = SWEEP.c.status.in_(("ok", "unchanged"))
    totals = {
        source: (count, failures or 0, success)
        for source, count, failures, success in connection.execute(
            select(
                SWEEP.c.source,
                func.count(),
                func.sum(case((good, 0), else_=1)),
                func.max(case((good, SWEEP.c.at))),
            )
            .where(SWEEP.c.at <= to_s(at))
            .group_by(SWEEP.c.source)
        )
    }
    last = select(SWEEP.c.source, func.max(SWEEP.c.at).label("at")).where(SWEEP.c.at <= to_s(at)).group_by(SWEEP.c.source).subquery()
    latest = {
        row["source"]: row
        for row in connection.execute(select(SWEEP).join(last, and_(SWEEP.c.source == last.c.source, SWEEP.c.at == last.c.at))).mappings()
    }
    held, said = guard_counts(connection, at), licence_texts(connection, at)
    return tuple(
        health_of(source, totals.get(source.id), latest.get(source.id), held.get(source.id, GuardCounts()), at, said.get(source.id, ""))
        for source in sources.values()
    )


def health_of(
    source: Source, totals: tuple[int, int, int | None] | None, row: RowMapping | None, held: GuardCounts, at: datetime, licence: str
) -> SourceHealth:
    """Health of a source: its sweeps, failures and last good sweep (s) up to ``at``, and the last of all."""
    success = from_s(totals[2]) if totals and totals[2] is not None else None
    reason = off_reason(source)
    limit = timedelta(hours=source.settings.max_age_hours)
    return SourceHealth(
        id=source.id,
        kind=source.settings.kind,
        enabled=not reason,
        off_reason=reason,
        last_attempt=from_ms(int(str(row["at"])) * 1000 + int(str(row["lag_ms"]))) if row else None,
        last_success=success,
        status=str(row["status"]) if row else "never",
        rows=int(str(row["rows"])) if row else 0,
        skipped=json.loads(str(row["skipped"])) if row else {},
        duration_s=int(str(row["took_ms"])) / 1000 if row else 0.0,
        bytes=int(str(row["bytes"])) if row else 0,
        error=str(row["error"]) if row else "",
        max_age_hours=source.settings.max_age_hours,
        interval_minutes=source.settings.interval_minutes,
        sweeps=totals[0] if totals else 0,
        failures=totals[1] if totals else 0,
        stale=not reason and (success is None or at - success > limit),
        quarantined=held.pending,
        conflicts=held.conflicts,
        licence=licence,
    )
