"""What tokens cost: one request, a usage record, a month of a workload. Tokens partition the prompt; unknown is never zero."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

from engine.exact import to_decimal
from engine.rates import TOKEN_KINDS, TokenKind, TokenPrices
from engine.units import MTOK
from engine.workloads import TokenMix, Workload

_WRITES: tuple[TokenKind, ...] = ("cache_write_5m", "cache_write_1h")


@dataclass(frozen=True, slots=True, kw_only=True)
class CostLine:
    """Tokens of one kind at one price per Mtok. ``assumed`` marks a price taken from another kind; None is unknown."""

    kind: TokenKind
    tokens: Decimal
    price_per_mtok: Decimal | None
    amount: Decimal | None
    assumed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """``amount`` in the currency of the prices; None where a needed price is unknown: no figure, never zero.

    ``missing`` are the kinds used whose own price is unknown. ``upper_bound``: cached tokens were counted at the input price.
    """

    amount: Decimal | None
    upper_bound: bool = False
    missing: tuple[TokenKind, ...] = ()
    lines: tuple[CostLine, ...] = ()

    def times(self, factor: Decimal) -> Cost:
        """The same cost ``factor`` times."""
        lines = tuple(replace(x, tokens=x.tokens * factor, amount=None if x.amount is None else x.amount * factor) for x in self.lines)
        return replace(self, amount=None if self.amount is None else self.amount * factor, lines=lines)

    def plus(self, other: Cost) -> Cost:
        """Both together; without a figure where one has none."""
        amount = None if self.amount is None or other.amount is None else self.amount + other.amount
        missing = tuple(kind for kind in TOKEN_KINDS if kind in self.missing + other.missing)
        return Cost(
            amount=amount,
            upper_bound=self.upper_bound or other.upper_bound,
            missing=missing,
            lines=_merged(self.lines + other.lines),
        )


def usage_cost(tokens: Mapping[TokenKind, int], prices: TokenPrices) -> Cost:
    """Cost of counted tokens by kind: sum of tokens x price per Mtok / 10**6, exact."""
    lines = tuple(_line(kind, tokens[kind], prices) for kind in TOKEN_KINDS if tokens.get(kind))
    missing = tuple(line.kind for line in lines if prices.of(line.kind) is None)
    amounts = [line.amount for line in lines if line.amount is not None]
    return Cost(
        amount=sum(amounts, Decimal(0)) if len(amounts) == len(lines) else None,
        upper_bound="cache_read" in missing and len(amounts) == len(lines),
        missing=missing,
        lines=lines,
    )


def request_cost(mix: TokenMix, prices: TokenPrices) -> Cost:
    """Cost of one request; the prices must be those of its context tier (``prices_at`` with ``mix.prompt``)."""
    return usage_cost(dict(mix.by_kind()), prices)


def _line(kind: TokenKind, tokens: int, prices: TokenPrices) -> CostLine:
    price = prices.of(kind)
    assumed = price is None
    if price is None:
        price = _stand_in(kind, prices)
    amount = None if price is None else tokens * price / MTOK
    return CostLine(kind=kind, tokens=Decimal(tokens), price_per_mtok=price, amount=amount, assumed=assumed and price is not None)


def _stand_in(kind: TokenKind, prices: TokenPrices) -> Decimal | None:
    """Price per Mtok to use for a kind without its own: input for a cache read (an upper bound) and for a provider without writes.

    A provider that prices one cache lifetime sells the other at a price we do not know, or not at all.
    """
    if kind == "cache_read":
        return prices.input
    if kind in _WRITES and all(prices.of(write) is None for write in _WRITES):
        return prices.input
    return None


def _merged(lines: tuple[CostLine, ...]) -> tuple[CostLine, ...]:
    """One line for each kind and price."""
    sums: dict[tuple[TokenKind, Decimal | None, bool], CostLine] = {}
    for line in lines:
        key = (line.kind, line.price_per_mtok, line.assumed)
        seen = sums.get(key)
        if seen is None:
            sums[key] = line
        else:
            amount = None if seen.amount is None or line.amount is None else seen.amount + line.amount
            sums[key] = replace(seen, tokens=seen.tokens + line.tokens, amount=amount)
    return tuple(sorted(sums.values(), key=lambda line: TOKEN_KINDS.index(line.kind)))


def blend_per_mtok(mix: TokenMix, prices: TokenPrices) -> Decimal | None:
    """Price per Mtok of the mix, cached tokens counted: cost of a request / its tokens x 10**6. A blend always names its mix."""
    return per_mtok(request_cost(mix, prices), Decimal(mix.total))


def per_mtok(cost: Cost, tokens: Decimal) -> Decimal | None:
    """Cost per Mtok of ``tokens``; None without a figure."""
    return None if cost.amount is None else to_decimal(Fraction(cost.amount) / Fraction(tokens) * MTOK)


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthlyBill:
    """A workload's month. ``saving`` is what caching saves against the same requests with every prompt token as input."""

    requests: Decimal
    tokens: Decimal
    cost: Cost
    without_caching: Cost
    batch_priced: bool  # False where a batch share had to be counted at the standard price

    @property
    def saving(self) -> Decimal | None:
        """Money a month; negative where cache writes cost more than they save."""
        if self.cost.amount is None or self.without_caching.amount is None:
            return None
        return self.without_caching.amount - self.cost.amount

    @property
    def per_request(self) -> Decimal | None:
        """Average cost of one request."""
        return None if self.cost.amount is None else to_decimal(Fraction(self.cost.amount) / Fraction(self.requests))

    @property
    def per_mtok(self) -> Decimal | None:
        """Average cost per Mtok, cached tokens counted."""
        return per_mtok(self.cost, self.tokens)


def monthly_bill(workload: Workload, prices: TokenPrices, batch_prices: TokenPrices | None = None) -> MonthlyBill:
    """Bill of a month of the workload with its cold starts and batch share, and the same without caching.

    A batch share without batch prices is counted at ``prices`` and the bill is an upper bound.
    """
    unpriced = batch_prices is None and workload.batch_share > 0
    shares = [(s, p) for s, p in ((1 - workload.batch_share, prices), (workload.batch_share, batch_prices or prices)) if s]
    cost = _sum([_requests_cost(workload, price, share) for share, price in shares])
    return MonthlyBill(
        requests=workload.requests_per_month,
        tokens=workload.tokens_per_month,
        cost=replace(cost, upper_bound=True) if unpriced and cost.amount is not None else cost,
        without_caching=_sum([_uncached_cost(workload, price, share) for share, price in shares]),
        batch_priced=not unpriced,
    )


def _requests_cost(workload: Workload, prices: TokenPrices, share: Decimal) -> Cost:
    requests, cold = workload.requests_per_month * share, workload.cold_start_share
    warm = request_cost(workload.mix, prices).times(requests * (1 - cold))
    return warm if cold == 0 else warm.plus(request_cost(workload.mix.cold(), prices).times(requests * cold))


def _uncached_cost(workload: Workload, prices: TokenPrices, share: Decimal) -> Cost:
    return request_cost(workload.mix.uncached(), prices).times(workload.requests_per_month * share)


def _sum(costs: list[Cost]) -> Cost:
    total = costs[0]
    for cost in costs[1:]:
        total = total.plus(cost)
    return total
