"""Where a source stands in the database, asked at the start of each sweep's transaction: its last sweep, and what waits of it.

From that follows whether what a process remembers of the source's listing is what the database holds. Whoever changes the listing
of a source leaves one of two marks in the same transaction: a sweep, or an entry of the quarantine that a person accepted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection

from tracker.database.postgres import marked


class Version(NamedTuple):
    """Of a source's listing: while it is the same, the listing is."""

    sweep: int  # id of the last sweep
    at: int
    accepted: int  # by a person, and the sum of their numbers
    accepted_sum: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a source stands before a sweep is kept. ``whole_at``: its last sweep that covered everything."""

    version: Version
    whole_at: int | None
    pending: bool  # whether the quarantine may hold entries that wait
    judged: bool  # and such that a person accepted or rejected

    @property
    def at(self) -> int | None:
        """The last sweep; None before the first."""
        return self.version.at if self.version.sweep else None


def standing_of(connection: Connection, source: str) -> Standing:
    """Where ``source`` stands, as this transaction sees it."""
    found = connection.exec_driver_sql(marked(connection, _STANDING), (source,)).first()
    if found is None:
        return Standing(version=Version(0, 0, 0, 0), whole_at=None, pending=True, judged=True)
    sweep, at, whole_at, accepted, total, pending, rejected = found
    return Standing(
        version=Version(sweep, at, accepted, int(total or 0)),
        whole_at=whole_at,
        pending=bool(pending),
        judged=bool(accepted or rejected),
    )


# as text: it is asked with every sweep, and to build it anew takes longer than to answer it
_ENTRY = "from quarantine entry where entry.source = sweep.source and entry.state"
_STANDING = f"""select sweep.id, sweep.at, (select covered.at from sweep covered where covered.source = sweep.source and covered.complete
    and covered.status in ('ok', 'unchanged') order by covered.at desc limit 1),
    (select count(*) {_ENTRY} = 'accepted'), (select sum(entry.id) {_ENTRY} = 'accepted'),
    exists (select 1 {_ENTRY} = 'pending'), exists (select 1 {_ENTRY} = 'rejected')
    from sweep where sweep.source = ? order by sweep.at desc limit 1"""
