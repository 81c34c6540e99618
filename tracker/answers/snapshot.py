"""All current results as one immutable value: what ``/metrics``, the page, the API and the command line show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from engine.breakeven import BreakEven
from engine.models import ModelSpec
from engine.offers import GpuOffer
from engine.rate_choice import RateChoice, RateRanking
from engine.served import Served
from engine.setups import Ranking, Setup
from engine.verdicts import Verdict
from engine.workloads import Workload
from tracker.book.book import Book
from tracker.book.entries import Entries
from tracker.book.entry_values import NO_OFFERS
from tracker.book.precedence import Disagreement
from tracker.budgets.state import BudgetState


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceHealth:
    """How a source did. Times are aware UTC; None is never."""

    id: str
    kind: str
    enabled: bool
    off_reason: str  # why it is off; empty when it is on
    last_attempt: datetime | None
    last_success: datetime | None
    status: str  # ok, unchanged, failed, never
    rows: int
    skipped: Mapping[str, int]
    duration_s: float
    bytes: int
    error: str
    max_age_hours: float
    interval_minutes: float
    sweeps: int
    failures: int
    stale: bool
    quarantined: int = 0  # prices that wait to be confirmed
    conflicts: int = 0  # prices printed twice with different values in the last kept sweep
    licence: str = ""  # what its data says it may be used under; empty where it says nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswer:
    """The answer for one model to one question, which is known by its workload and policy (``policy@name`` where it is of other offers).

    ``fresh`` is ranked from prices within their age limits; ``setup`` and ``rate`` fall back to the last known ones, and
    ``setup_fresh`` and ``rate_fresh`` say so. Only fresh figures may leave as metrics or alerts.
    """

    model: ModelSpec
    workload: Workload
    policy: str
    fresh: Ranking
    setup: Setup | None
    setup_fresh: bool
    shown: Ranking  # what ``setup`` is the best of
    rates: RateRanking
    rate: RateChoice | None
    rate_fresh: bool
    capacity: Served | None  # requests a month the setup serves, and how well that is known
    break_even: BreakEven | None
    verdict: Verdict | None
    why_not: str  # what is missing for an answer; empty when nothing is
    running_usd_per_hour: Decimal | None = None  # what the operator pays today, as stated in tracker.toml

    @property
    def indicative(self) -> Setup | None:
        """The cheapest setup at the lowest price per GPU, whether or not anybody sells that many together."""
        return self.shown.best_indicative

    @property
    def per_gpu(self) -> tuple[Setup, ...]:
        """The best setup of every GPU, cheapest first."""
        return self.shown.per_gpu()

    @property
    def saving_ratio(self) -> Decimal | None:
        """Share of today's rent that the cheapest setup would save; below 0 where it costs more. None where no rent is stated."""
        if self.running_usd_per_hour is None or self.setup is None:
            return None
        return 1 - self.setup.usd_per_hour / self.running_usd_per_hour

    @property
    def all_fresh(self) -> bool:
        """Whether rent and rate are both within their age limits."""
        return self.setup_fresh and self.rate_fresh

    @property
    def seen_at(self) -> datetime | None:
        """The oldest price the answer stands on."""
        moments = [part.seen_at for part in (self.setup, self.rate.rate if self.rate else None) if part is not None]
        return min(moments, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveAlert:
    """An alert that is true, news and not acknowledged. ``held_until``: it waits for the end of quiet hours or for a digest."""

    id: int
    rule: str
    kind: str
    subject: str
    fired_at: datetime
    held_until: datetime | None
    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """One look at the program. What the database had to tell is None where it did not answer."""

    jobs: int
    missed: int  # runs that were left out since the start: the one before had not ended, or nothing was free
    trouble: str  # a kind of tracker.database.faults, or empty
    process: Mapping[str, float]  # by the name's end after process_; empty where the system has no /proc
    database_bytes: int | None = None
    waiting: int | None = None  # messages that are still to be delivered
    failed: int | None = None  # messages nobody took, given up
    oldest_waiting: datetime | None = None
    alerts: tuple[ActiveAlert, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything worked out from the book at one moment: the answers to the default question, and ``also`` those to the others."""

    at: datetime
    book: Book
    answers: tuple[ModelAnswer, ...]
    sources: tuple[SourceHealth, ...]
    disagreements: tuple[Disagreement, ...] = ()
    market: Entries[GpuOffer] = NO_OFFERS  # what may be compared: of one source for each provider, tier and region, no slices
    budgets: tuple[BudgetState, ...] = ()  # of the daemon and of a replay; empty elsewhere
    vitals: Vitals | None = None  # of the daemon; None on the command line
    also: tuple[ModelAnswer, ...] = ()
    grown_old_since: datetime | None = None  # when it was worked out, where a fault in the program keeps the next from being so

    @property
    def every(self) -> tuple[ModelAnswer, ...]:
        """The answers to all questions, the default one first."""
        return (*self.answers, *self.also)

    def asked(self, workload: str, policy: str) -> tuple[ModelAnswer, ...]:
        """The answers to the first question of that workload and policy; an empty name is any. None where nobody asks that."""
        found = [a for a in self.every if workload in ("", a.workload.id) and policy in ("", a.policy)]
        return tuple(a for a in found if (a.workload.id, a.policy) == (found[0].workload.id, found[0].policy))

    @property
    def newest_price_at(self) -> datetime | None:
        """When any price was last seen live."""
        return max((s.last_success for s in self.sources if s.last_success is not None and s.kind != "fx"), default=None)
