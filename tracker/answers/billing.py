"""What a workload costs at each provider of a model: a request and a month, by token kind, with and without caching, in batch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal

from engine.bills import Cost, MonthlyBill, request_cost
from engine.models import ModelSpec
from engine.rate_choice import RateChoice, RateRanking, UnrankedRate, cheapest_rate
from engine.rates import TokenRate
from engine.workloads import Workload
from tracker.book.book import Book
from tracker.facts.workloads import rate_policy
from tracker.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderBill:
    """The workload at one price list, in USD. ``batch`` is the same month all in batch; None where no batch price is known."""

    choice: RateChoice
    request: Cost  # one request whose prefix is cached
    cold_request: Cost  # the first request of a session
    uncached_request: Cost
    batch: MonthlyBill | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bills:
    """Bills from cheapest to dearest; ``fresh`` is False where only prices beyond their age limit are known."""

    model: ModelSpec
    workload: Workload
    rows: tuple[ProviderBill, ...]
    official: ProviderBill | None
    unranked: tuple[UnrankedRate, ...]
    spread_usd_per_mtok: Decimal | None
    fresh: bool


def bills(
    world: World, book: Book, model: ModelSpec, workload: Workload, skus: tuple[str, ...], providers: frozenset[str] | None = None
) -> Bills:
    """Bills at every eligible price list: fresh ones, else the last known."""
    known = book.rates_of(model.id)
    fresh = [entry.value for entry in known if entry.fresh]
    rates = fresh
    ranking = _ranked(world, rates, book, model, workload, skus, providers)
    is_fresh = bool(ranking.ranked)
    if not is_fresh:
        rates = [entry.value for entry in known]
        ranking = _ranked(world, rates, book, model, workload, skus, providers)
    batch = _ranked(world, rates, book, model, replace(workload, batch_share=Decimal(1)), skus, providers)
    rows = tuple(_row(choice, workload, batch) for choice in ranking.ranked)
    return Bills(
        model=model,
        workload=workload,
        rows=rows,
        official=next((row for row in rows if row.choice is ranking.official), None),
        unranked=ranking.unranked,
        spread_usd_per_mtok=ranking.spread_usd_per_mtok,
        fresh=is_fresh,
    )


def _ranked(
    world: World,
    rates: Iterable[TokenRate],
    book: Book,
    model: ModelSpec,
    workload: Workload,
    skus: tuple[str, ...],
    providers: frozenset[str] | None,
) -> RateRanking:
    policy = rate_policy(model, world.providers, skus, world.settings.track.rate_sources)
    return cheapest_rate(rates, model.id, book.at, workload, replace(policy, providers=providers))


def _row(choice: RateChoice, workload: Workload, batch: RateRanking) -> ProviderBill:
    mix = workload.mix
    same = next((other for other in batch.ranked if other.card == choice.card), None)
    return ProviderBill(
        choice=choice,
        request=request_cost(mix, choice.prices),
        cold_request=request_cost(mix.cold(), choice.prices),
        uncached_request=request_cost(mix.uncached(), choice.prices),
        batch=same.bill if same is not None and same.bill.batch_priced else None,
    )
