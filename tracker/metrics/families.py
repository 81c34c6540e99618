"""What Prometheus sees of a snapshot: families of numbers. Only fresh figures leave; their timestamps stay.

A value series carries no label that changes when the answer changes; the changing facts are labels of an ``_info`` series.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cache
from importlib.metadata import version
from typing import Literal

from engine.units import SECONDS_PER_HOUR, SECONDS_PER_MINUTE
from tracker.alerting.rules import RULES
from tracker.answers.snapshot import ModelAnswer, Snapshot, SourceHealth, Vitals
from tracker.budgets.state import BudgetState
from tracker.database.faults import ADVICE, CLOCK
from tracker.metrics.exposition import Family, Sample
from tracker.metrics.market import exchange_rates, rentals, token_rates
from tracker.metrics.table import COUNTERS, GAUGES, PREFIX, PROCESS_COUNTERS, PROCESS_GAUGES, Table

MOST_REASONS = 10  # of rejected rows of one source
OTHER = "other"

Figure = tuple[str, tuple[str, ...], float]
Key = tuple[str, str, str]


def families(snapshot: Snapshot) -> Iterator[Family]:
    """All families, in the order of the contract; what vanished from the book is not in them."""
    told: dict[str, list[Sample]] = {}
    for name, values, number in _figures(snapshot):
        told.setdefault(name, []).append((values, number))
    samples = told | dict((token_rates(snapshot.book), *rentals(snapshot.market)))
    yield from _of_table(GAUGES, PREFIX, "gauge", samples)
    yield from _of_table(COUNTERS, PREFIX, "counter", samples)
    yield from _of_table(PROCESS_GAUGES, "", "gauge", samples)
    yield from _of_table(PROCESS_COUNTERS, "", "counter", samples)


def _of_table(table: Table, prefix: str, kind: Literal["gauge", "counter"], samples: Mapping[str, Sequence[Sample]]) -> Iterator[Family]:
    for name, (text, labels) in table.items():
        yield Family(name=prefix + name, text=text, kind=kind, labels=labels, samples=samples.get(name, ()))


def _figures(snapshot: Snapshot) -> Iterator[Figure]:
    for answer in snapshot.every:
        yield from _answer(answer)
    yield from exchange_rates(snapshot.book)
    for budget in snapshot.budgets:
        yield from _budget(budget)
    for source in snapshot.sources:
        yield from _source(source)
    for found in snapshot.disagreements:
        yield "disagreement_ratio", (found.provider, found.what), float(found.ratio)
    yield from _program(snapshot)


# --- answers ------------------------------------------------------------------------------------------------------------


def _answer(answer: ModelAnswer) -> Iterator[Figure]:
    key = (answer.model.id, answer.workload.id, answer.policy)
    yield from _setups(answer, key)
    if answer.rate is not None and answer.rate_fresh:
        yield "api_usd_per_mtok", key, float(answer.rate.usd_per_mtok)
        yield "api_usd_per_month", key, float(answer.rate.usd_per_month)
        yield "api_info", (*key, answer.rate.rate.provider, answer.rate.rate.sku), 1
    if answer.all_fresh:
        yield from _break_even(answer, key)


def _setups(answer: ModelAnswer, key: Key) -> Iterator[Figure]:
    if answer.running_usd_per_hour is not None:
        yield "baseline_usd_per_hour", key, float(answer.running_usd_per_hour)
    if answer.setup is None or not answer.setup_fresh:
        return
    best = answer.setup
    facts = (best.offer.provider, best.gpu, str(best.gpu_count_rented), best.weight_format, best.offer.tier)
    yield "best_setup_usd_per_hour", key, float(best.usd_per_hour)
    yield "best_setup_info", (*key, *facts), 1
    yield "best_setup_tight", key, float(best.fit.tight)
    if answer.saving_ratio is not None:
        yield "best_setup_saving_ratio", key, float(answer.saving_ratio)
    for setup in answer.per_gpu:
        yield "setup_usd_per_hour", (*key, setup.gpu, setup.weight_format), float(setup.usd_per_hour)


def _break_even(answer: ModelAnswer, key: Key) -> Iterator[Figure]:
    point, verdict = answer.break_even, answer.verdict
    if point is None or verdict is None:
        return
    yield "break_even_info", (*key, point.status, verdict.answer), 1
    figures: dict[str, Decimal | None] = {
        "break_even_tokens_per_month": point.tokens,
        "break_even_utilization_ratio": point.breakeven_utilization,
        "self_host_usd_per_mtok": point.usd_per_mtok_at_utilization,
        "self_host_usd_per_month": None if verdict.replicas is None else verdict.self_host_usd_per_month,
    }
    yield from ((name, key, float(figure)) for name, figure in figures.items() if figure is not None)
    if point.status != "capacity_unknown":
        yield "break_even_feasible", key, float(point.status in ("feasible", "always"))


def _budget(state: BudgetState) -> Iterator[Figure]:
    key = (state.name,)
    yield "budget_usd", key, float(state.budget_usd)
    if (spent := state.spent_usd) is not None:
        yield "month_to_date_usd", key, float(spent)
    yield "month_to_date_unknown_seconds", key, float(state.unknown_hours * SECONDS_PER_HOUR)
    if (projected := state.projected_usd) is not None:
        yield "month_projected_usd", key, float(projected)


# --- sources and the program --------------------------------------------------------------------------------------------


def _source(source: SourceHealth) -> Iterator[Figure]:
    key = (source.id,)
    yield "source_enabled", key, float(source.enabled)
    yield "source_interval_seconds", key, source.interval_minutes * SECONDS_PER_MINUTE
    yield "source_max_age_seconds", key, source.max_age_hours * SECONDS_PER_HOUR
    yield "source_sweeps", key, source.sweeps
    yield "source_failures", key, source.failures
    yield "source_quarantined_prices", key, source.quarantined
    yield "source_conflicting_prices", key, source.conflicts
    if source.last_success is not None:
        yield "source_last_success_timestamp_seconds", key, source.last_success.timestamp()
    if source.last_attempt is not None:
        yield "source_last_attempt_timestamp_seconds", key, source.last_attempt.timestamp()
        yield "source_rows", key, source.rows
        yield "source_rejected_rows", key, sum(source.skipped.values())
        yield from (("source_rejected_rows_by_reason", (source.id, why), count) for why, count in _reasons(source.skipped))
        yield "source_sweep_duration_seconds", key, source.duration_s


def _reasons(skipped: Mapping[str, int]) -> list[tuple[str, int]]:
    """Rows by reason, by name; the rarest together where there are many."""
    ranked = sorted(skipped.items(), key=lambda found: (-found[1], found[0]))
    kept = dict(ranked) if len(ranked) <= MOST_REASONS else dict(ranked[: MOST_REASONS - 1])
    rest = sum(skipped.values()) - sum(kept.values())
    if rest:
        kept[OTHER] = kept.get(OTHER, 0) + rest
    return sorted(kept.items())


def _program(snapshot: Snapshot) -> Iterator[Figure]:
    if snapshot.newest_price_at is not None:
        yield "book_timestamp_seconds", (), snapshot.newest_price_at.timestamp()
    yield "snapshot_timestamp_seconds", (), (snapshot.grown_old_since or snapshot.at).timestamp()
    yield "build_info", (_version(),), 1
    if snapshot.vitals is not None:
        yield from _vitals(snapshot.vitals)


@cache
def _version() -> str:
    """Ours; it is read from a file."""
    return version("breakeven")


def _vitals(seen: Vitals) -> Iterator[Figure]:
    yield "jobs", (), seen.jobs
    yield "jobs_missed", (), seen.missed
    for kind in (*ADVICE, CLOCK):
        yield "trouble", (kind,), float(kind == seen.trouble)
    counts = {
        "database_size_bytes": seen.database_bytes,
        "outbox_waiting_deliveries": seen.waiting,
        "outbox_failed_deliveries": seen.failed,
    }
    yield from ((name, (), count) for name, count in counts.items() if count is not None)
    if seen.oldest_waiting is not None:
        yield "outbox_oldest_timestamp_seconds", (), seen.oldest_waiting.timestamp()
    if seen.alerts is not None:
        found = Counter(alert.kind for alert in seen.alerts)
        yield from (("alerts_active", (kind,), found[kind]) for kind in RULES)
    yield from (("process_" + name, (), number) for name, number in seen.process.items())
