"""One source, once, in its turn: claim it, collect it, and hand the claim back with the sweep or without."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from time import monotonic
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from engine.units import SECONDS_PER_HOUR
from tracker.config import Source, off_reason
from tracker.sweeps.collect import Collector, collect_source
from tracker.sweeps.leases import Lease, LeaseLost, NotYet, Terms, claim, give_back, owner_name, renew
from tracker.sweeps.store import SweepReport

WORKERS = 40  # as many as there are sources: a sweep mostly waits, for its turn at a host or for an answer
JITTER_SHARE = 0.1  # of a source's interval, so that sources and replicas do not march in step


@dataclass(slots=True, kw_only=True)
class Turns:
    """The claims of this process."""

    db: Engine
    now: Callable[[], datetime]
    lease_s: float
    owner: str = field(default_factory=owner_name)

    def take(self, source: Source, *, early: bool = False) -> Lease | NotYet:
        """The right to collect a source now, or when to look again. ``early``: also before it is due."""
        terms = Terms(
            interval_s=source.settings.interval_minutes * 60,
            lease_s=self.lease_s,
            max_age_s=source.settings.max_age_hours * SECONDS_PER_HOUR,
        )
        wait_s = terms.interval_s * random.uniform(1 - JITTER_SHARE, 1 + JITTER_SHARE)
        return claim(self.db, source.id, self.owner, self.now(), terms, wait_s=wait_s, early=early)

    def keep_alive(self) -> int:
        """Prolong the leases of what is being collected now; how many."""
        return renew(self.db, self.owner, self.now(), self.lease_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What came of a turn: the sweep, if one was kept, and in how many seconds to look again. ``holder`` had it instead of us."""

    report: SweepReport | None = None
    again_s: float
    holder: str = ""


def sweep_in_turn(collector: Collector, turns: Turns, source: Source, *, early: bool = False, **how: Any) -> Turn:
    """Collect a source if it is due and nobody else does; ``how`` goes to ``collect_source``. A database that fails is raised."""
    if off_reason(source):
        return Turn(again_s=source.settings.interval_minutes * 60)
    lease = turns.take(source, early=early)
    if isinstance(lease, NotYet):
        return Turn(again_s=lease.seconds, holder=lease.holder)
    began, report = monotonic(), None
    try:
        report = collect_source(collector, source, lease=lease, **how)
    except LeaseLost as error:
        collector.trouble.say(str(error))
        return Turn(again_s=lease.wait_s, holder="another process")
    finally:
        if report is None:  # off, stopping, or whatever went wrong: no sweep was kept
            _try_to_give_back(turns, lease)
    return Turn(report=report, again_s=max(0.0, lease.wait_s - (monotonic() - began)))


def _try_to_give_back(turns: Turns, lease: Lease) -> None:
    try:
        give_back(turns.db, lease)
    except SQLAlchemyError:
        return  # then it ends by itself
