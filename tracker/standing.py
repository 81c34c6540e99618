"""Where a source stands in the database, asked at the start of each sweep's transaction: its last sweep, and what waits of it.

From that follows whether what a process remembers of the source's listing is what the database holds. Whoever changes the listing
of a source leaves one of two marks in the same transaction: a sweep, or an entry of the quarantine that a person accepted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, bindparam, func, select
from sqlmodel import SQLModel

from tracker.listing import GOOD, SWEEP

_QUARANTINE = SQLModel.metadata.tables["quarantine"]
_PENDING, _ACCEPTED, _REJECTED = "pending", "accepted", "rejected"


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
    pending: int  # entries that wait in the quarantine
    judged: int  # those that a person accepted or rejected

    @property
    def at(self) -> int | None:
        """The last sweep; None before the first."""
        return self.version.at if self.version.sweep else None


def standing_of(connection: Connection, source: str) -> Standing:
    """Where ``source`` stands, as this transaction sees it."""
    of = {"source": source}
    last = connection.execute(_last_sweep(), of).first()
    entries: Mapping[str, tuple[int, int]] = {state: (count, sum_) for state, count, sum_ in connection.execute(_entries(), of)}
    accepted, rejected = entries.get(_ACCEPTED, (0, 0)), entries.get(_REJECTED, (0, 0))
    sweep, at, whole_at = (0, 0, None) if last is None else last
    return Standing(
        version=Version(sweep, at, accepted[0], int(accepted[1])),
        whole_at=whole_at,
        pending=entries.get(_PENDING, (0, 0))[0],
        judged=accepted[0] + rejected[0],
    )


@cache  # built once: they are asked with every sweep
def _last_sweep() -> Select[Any]:
    whole = SWEEP.alias("whole")
    covered = (whole.c.source == bindparam("source"), whole.c.complete.is_(True), whole.c.status.in_(GOOD))
    whole_at = select(whole.c.at).where(*covered).order_by(whole.c.at.desc()).limit(1).scalar_subquery()
    return select(SWEEP.c.id, SWEEP.c.at, whole_at).where(SWEEP.c.source == bindparam("source")).order_by(SWEEP.c.at.desc()).limit(1)


@cache
def _entries() -> Select[Any]:
    state, of = _QUARANTINE.c.state, _QUARANTINE.c.source == bindparam("source")
    return select(state, func.count(), func.sum(_QUARANTINE.c.id)).where(of, state.in_((_PENDING, _ACCEPTED, _REJECTED))).group_by(state)
