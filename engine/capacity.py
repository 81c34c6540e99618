"""Requests per month one setup can serve, counted in requests so that cached tokens are no work."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from engine.facts import MissingFact
from engine.measured import MAX_AGE_DAYS, matching_points, measured_throughput
from engine.roofline import Work
from engine.speeds import Deployment, Throughput, ThroughputPoint
from engine.throughput import FITTED_CONCURRENCY, estimated_throughput
from engine.units import HOURS_PER_MONTH, SECONDS_PER_HOUR
from engine.workloads import TokenMix

MAX_SEQUENCES = FITTED_CONCURRENCY  # --max-num-seqs of vLLM


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceLevel:
    """What each user must see. None asks nothing."""

    min_tok_s_per_user: float | None = None
    max_ttft_s: float | None = None

    def met_by(self, found: Throughput) -> bool:
        """Whether the figure keeps both promises; an unknown time to the first token keeps none about it."""
        slow = self.min_tok_s_per_user is not None and found.tok_s_per_user < self.min_tok_s_per_user
        late = self.max_ttft_s is not None and (found.ttft_s is None or found.ttft_s > self.max_ttft_s)
        return not slow and not late


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """Requests one replica serves in a 730-hour month when always busy; ``throughput`` says how well that is known."""

    requests_per_month: Decimal
    concurrency: int
    limited_by: str  # sessions in the cache, service level, sequences of the engine, measured range
    throughput: Throughput

    @property
    def low(self) -> Decimal:
        """Requests per month at the lower end of the error band."""
        return self.requests_per_month / Decimal(str(round(self.throughput.error_factor, 4)))


def work_of(mix: TokenMix) -> Work:
    """A billed request as a server sees it: cache reads are in memory already, everything else of the prompt is computed."""
    return Work(fresh=mix.prompt - mix.cache_read, cached=mix.cache_read, output=max(1, mix.output))


def capacity(
    deployment: Deployment,
    work: Work,
    max_sessions: int | None,
    level: ServiceLevel = ServiceLevel(),
    points: Iterable[ThroughputPoint] = (),
    *,
    on: date,
    max_age_days: int = MAX_AGE_DAYS,
) -> Capacity | str:
    """The largest concurrency that memory and service level allow, and the requests it serves; else the reason there is none.

    Measured points are used where they match, within the concurrencies measured; else the estimate.
    """
    if not max_sessions:
        return "no session fits in the cache" if max_sessions == 0 else "the sessions that fit are not known"
    most = min(max_sessions, MAX_SEQUENCES)
    bound = "sessions in the cache" if max_sessions <= MAX_SEQUENCES else "sequences of the engine"
    matching = matching_points(points, deployment, work, on, max_age_days)
    if matching and matching[0].concurrency <= most:
        top = matching[-1].concurrency
        measured = _largest(
            lambda c: measured_throughput(matching, work, c, deployment.engine), matching[0].concurrency, min(most, top), level
        )
        if measured is not None:
            return _served(measured, work, min(most, top), "measured range" if top < most else bound)
    try:
        found = _largest(lambda c: estimated_throughput(deployment, work, c), 1, most, level)
    except MissingFact as missing:
        return str(missing)
    return "the service level is not met even for one user" if found is None else _served(found, work, most, bound)


def _largest(rate: Callable[[int], Throughput | None], low: int, high: int, level: ServiceLevel) -> Throughput | None:
    """Figure at the largest concurrency in [low, high] that keeps the level, by halving: more users make no user faster."""
    best = rate(high)
    if best is not None and level.met_by(best):
        return best
    best, high = None, high - 1
    while low <= high:
        middle = (low + high) // 2
        found = rate(middle)
        if found is not None and level.met_by(found):
            best, low = found, middle + 1
        else:
            high = middle - 1
    return best


def _served(found: Throughput, work: Work, most: int, bound: str) -> Capacity:
    per_month = found.output_tok_s / work.output * SECONDS_PER_HOUR * HOURS_PER_MONTH
    limited_by = bound if found.concurrency == most else "service level"
    return Capacity(
        requests_per_month=Decimal(str(round(per_month, 3))), concurrency=found.concurrency, limited_by=limited_by, throughput=found
    )
