"""Across the providers of one model: which rates may be ranked, the cheapest for a workload, the vendor's own, and the spread."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from engine.bills import MonthlyBill, monthly_bill
from engine.ratecards import RateCard, rate_cards, week_prices
from engine.rates import TokenPrices, TokenRate
from engine.workloads import Workload

BATCH = "batch"


@dataclass(frozen=True, slots=True, kw_only=True)
class RateChoice:
    """One price list with what the workload costs at it. ``prices`` are USD per Mtok for its prompt, averaged over the week."""

    card: RateCard
    prices: TokenPrices
    batch_prices: TokenPrices | None
    bill: MonthlyBill

    @property
    def rate(self) -> TokenRate:
        """The entry that names the list."""
        return self.card.head

    @property
    def usd_per_month(self) -> Decimal:
        """USD a month of the workload."""
        assert self.bill.cost.amount is not None  # a choice is only made of a bill with a figure
        return self.bill.cost.amount

    @property
    def usd_per_mtok(self) -> Decimal:
        """USD per Mtok of the workload's mix."""
        blend = self.bill.per_mtok
        assert blend is not None
        return blend


@dataclass(frozen=True, slots=True, kw_only=True)
class UnrankedRate:
    """A price list that was not ranked, and why."""

    rate: TokenRate
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RateRanking:
    """Price lists from cheapest to dearest for the workload, the vendor's own, and those that were not ranked."""

    ranked: tuple[RateChoice, ...]
    official: RateChoice | None
    unranked: tuple[UnrankedRate, ...]

    @property
    def cheapest(self) -> RateChoice | None:
        """The cheapest eligible price list."""
        return self.ranked[0] if self.ranked else None

    @property
    def spread_usd_per_mtok(self) -> Decimal | None:
        """Dearest less cheapest, USD per Mtok of the mix; None without a ranked rate."""
        return self.ranked[-1].usd_per_mtok - self.ranked[0].usd_per_mtok if self.ranked else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RatePolicy:
    """Which price lists may be ranked. The default leaves out everything but pay-as-you-go: free, plan, flex, batch, spot skus.

    Where ``source_order`` is given, the first source in it that knows a provider's sku and region speaks for it; others come last.
    """

    skus: tuple[str, ...] = ("standard",)
    providers: frozenset[str] | None = None
    excluded_providers: frozenset[str] = frozenset()
    regions: frozenset[str] | None = None
    source_order: tuple[str, ...] = ()
    official_provider: str | None = None  # the model's vendor; wins ties
    rank_free: bool = False

    def admits(self, rate: TokenRate) -> bool:
        """Whether the provider, region and sku are asked for."""
        return (
            rate.sku in self.skus
            and rate.provider not in self.excluded_providers
            and (self.providers is None or rate.provider in self.providers)
            and (self.regions is None or rate.region in self.regions)
        )


PAY_AS_YOU_GO = RatePolicy()


def eligible_rates(rates: Iterable[TokenRate], model: str, at: datetime, policy: RatePolicy = PAY_AS_YOU_GO) -> tuple[RateCard, ...]:
    """Price lists of the model in force at ``at`` that the policy admits, one source for each provider, sku and region."""
    wanted = [rate for rate in rates if rate.model == model and rate.in_force(at) and policy.admits(rate)]
    return _one_source(rate_cards(wanted), policy.source_order)


def _one_source(cards: Sequence[RateCard], source_order: Sequence[str]) -> tuple[RateCard, ...]:
    if not source_order:
        return tuple(cards)
    rank = {source: place for place, source in enumerate(source_order)}
    best: dict[tuple[str, str, str], str] = {}
    for card in sorted(cards, key=lambda c: (rank.get(c.head.source, len(rank)), c.head.source)):
        best.setdefault(_seller(card), card.head.source)
    return tuple(card for card in cards if best[_seller(card)] == card.head.source)


def _seller(card: RateCard) -> tuple[str, str, str]:
    return (card.head.provider, card.head.sku, card.head.region)


def cheapest_rate(
    rates: Iterable[TokenRate], model: str, at: datetime, workload: Workload, policy: RatePolicy = PAY_AS_YOU_GO
) -> RateRanking:
    """The model's price lists ranked by what the workload costs a month; ties go to exact figures, the vendor, then names.

    A list without a price the workload needs, or with a price of 0 for input, output or cached tokens it uses, is not ranked and
    keeps its reason.
    """
    known = tuple(rates)
    batch = eligible_rates(known, model, at, replace(policy, skus=(BATCH,))) if workload.batch_share else ()
    judged = [_judge(card, batch, at, workload, policy) for card in eligible_rates(known, model, at, policy)]
    ranked = sorted((c for c in judged if isinstance(c, RateChoice)), key=lambda c: _order(c, policy.official_provider))
    return RateRanking(
        ranked=tuple(ranked),
        official=next((c for c in ranked if c.rate.provider == policy.official_provider), None),
        unranked=tuple(c for c in judged if isinstance(c, UnrankedRate)),
    )


def _judge(card: RateCard, batch: Sequence[RateCard], at: datetime, workload: Workload, policy: RatePolicy) -> RateChoice | UnrankedRate:
    prices = week_prices(card, workload.mix.prompt, at, hour_shares=workload.hour_shares)
    if prices is None:
        return UnrankedRate(rate=card.head, reason="no entry holds for the whole week")
    if not policy.rank_free and (free := _stated_free(prices, workload)):
        return UnrankedRate(rate=card.head, reason=f"stated free ({', '.join(free)}): a price of 0 is ranked only when asked")
    batch_prices = _batch_prices(card, batch, at, workload) if workload.batch_share else None
    bill = monthly_bill(workload, prices, batch_prices)
    if bill.cost.amount is None:
        return UnrankedRate(rate=card.head, reason=f"no price for {', '.join(bill.cost.missing)}")
    return RateChoice(card=card, prices=prices, batch_prices=batch_prices, bill=bill)


def _stated_free(prices: TokenPrices, workload: Workload) -> tuple[str, ...]:
    """Token kinds at a price of 0 that would make the bill look cheap: input, output, and what the workload uses of the cache.

    Lists print 0 for what is free, for what a plan pays, and for what they do not know or nobody bills apart.
    """
    return tuple(kind for kind, tokens in workload.mix.by_kind() if prices.of(kind) == 0 and (tokens or kind in ("input", "output")))


def _batch_prices(card: RateCard, batch: Sequence[RateCard], at: datetime, workload: Workload) -> TokenPrices | None:
    """The batch list of the same provider and region, from the same source where it has one."""
    same = [b for b in batch if (b.head.provider, b.head.region) == (card.head.provider, card.head.region)]
    if not same:
        return None
    twin = min(same, key=lambda b: (b.head.source != card.head.source, b.head.source, b.head.source_model))
    return week_prices(twin, workload.mix.prompt, at, hour_shares=workload.hour_shares)


def _order(choice: RateChoice, official_provider: str | None) -> tuple[Decimal, bool, bool, str, str, str, str]:
    rate, cost = choice.rate, choice.bill.cost
    return (
        choice.usd_per_month,
        cost.upper_bound,
        rate.provider != official_provider,
        rate.provider,
        rate.region,
        rate.source,
        rate.source_model,
    )
