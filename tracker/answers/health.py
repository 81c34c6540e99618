"""How each configured source is doing, by its sweeps."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from sqlalchemy import Connection

from tracker.answers.snapshot import SourceHealth
from tracker.answers.tallies import Tallies, Tally
from tracker.config import Source, off_reason
from tracker.database.rows import counts_of, from_ms, from_s, to_s
from tracker.guard.counts import waiting
from tracker.sweeps.licences import licence_texts


def source_health(
    connection: Connection, sources: Mapping[str, Source], at: datetime, tallies: Tallies | None = None
) -> tuple[SourceHealth, ...]:
    """Health of every configured source at ``at``, by id. ``tallies``: of the look before, to count on from."""
    tallies = Tallies() if tallies is None else tallies
    found = tallies.of(connection, [source.id for source in sources.values()], to_s(at))
    held, said = waiting(connection, at), licence_texts(connection, at)

    def health(source: Source) -> SourceHealth:
        tally = found.get(source.id, Tally())
        conflicts = 0 if tally.good is None else tally.good.conflicts
        return health_of(source, tally, at, quarantined=held[source.id], conflicts=conflicts, licence=said.get(source.id, ""))

    return tuple(health(source) for source in sources.values())


def health_of(source: Source, tally: Tally, at: datetime, *, quarantined: int = 0, conflicts: int = 0, licence: str = "") -> SourceHealth:
    """Health of a source by its sweeps up to ``at``."""
    last, success = tally.last, None if tally.good is None else from_s(tally.good.at)
    reason = off_reason(source)
    limit = timedelta(hours=source.settings.max_age_hours)
    return SourceHealth(
        id=source.id,
        kind=source.settings.kind,
        enabled=not reason,
        off_reason=reason,
        last_attempt=None if last is None else from_ms(last.at * 1000 + last.lag_ms),
        last_success=success,
        status="never" if last is None else last.status,
        rows=0 if last is None else last.rows,
        skipped={} if last is None else counts_of(last.skipped),
        duration_s=0.0 if last is None else last.took_ms / 1000,
        bytes=0 if last is None else last.bytes,
        error="" if last is None else last.error,
        max_age_hours=source.settings.max_age_hours,
        interval_minutes=source.settings.interval_minutes,
        sweeps=tally.sweeps,
        failures=tally.failures,
        stale=not reason and (success is None or at - success > limit),
        quarantined=quarantined,
        conflicts=conflicts,
        licence=licence,
    )
