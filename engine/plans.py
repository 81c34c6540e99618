"""How to serve a volume for the least money: the API alone, r replicas, or replicas for the base and the API for the rest.

A month is 730 hours, spread over the 168 hours of the week. In an hour with the share w of the volume V, r replicas of k tokens a
month serve min(w V, r k / 168), the API the rest. Cost = r C + f + v x own tokens + p x API tokens. What the next replica saves
falls with r, so the best r is where it stops paying.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Literal

from engine.exact import Number, cents, to_decimal
from engine.receipts import Receipt, ReceiptLine
from engine.units import MTOK
from engine.workloads import HOURS_PER_WEEK

PlanKind = Literal["api", "self_host", "hybrid"]
MAX_REPLICAS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rental:
    """One way to rent a replica. ``capacity_tokens_per_month`` is at full use of 730 hours.

    ``interruption_loss`` is the share of a spot machine's hours that is paid and lost, restarts included: it adds to the rent.
    """

    name: str
    usd_per_month: Decimal
    capacity_tokens_per_month: Decimal
    marginal_usd_per_mtok: Decimal = Decimal(0)
    tier: str = "on_demand"
    interruption_loss: Decimal = Decimal(0)

    def __post_init__(self) -> None:
        if self.usd_per_month < 0 or self.capacity_tokens_per_month <= 0 or self.marginal_usd_per_mtok < 0:
            raise ValueError(f"{self.name}: rent and marginal cost must be at least 0 and capacity above 0")
        if not 0 <= self.interruption_loss < 1:
            raise ValueError(f"{self.name}: interruption_loss must be 0 or more and below 1, got {self.interruption_loss}")
        if self.tier == "spot" and self.interruption_loss == 0:
            raise ValueError(f"{self.name}: a spot machine is interrupted; state interruption_loss")

    @property
    def rent(self) -> Fraction:
        """USD a month of one replica, with what interruptions cost."""
        return Fraction(self.usd_per_month) * (1 + Fraction(self.interruption_loss))


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Tokens a month and how they fall on the week. ``utilization`` is the most of a replica's capacity any hour may use."""

    tokens_per_month: Number
    api_usd_per_mtok: Number | None  # None: no API sells the model
    hour_shares: tuple[Decimal, ...] = ()  # of the week's 168 hours; () is even
    utilization: Decimal = Decimal(1)
    fixed_usd_per_month: Decimal = Decimal(0)  # paid once where anything is self-hosted

    def __post_init__(self) -> None:
        if self.tokens_per_month <= 0 or not 0 < self.utilization <= 1:
            raise ValueError("tokens_per_month must be above 0 and utilization above 0 and at most 1")
        if len(self.hour_shares) not in (0, HOURS_PER_WEEK) or (self.hour_shares and not any(self.hour_shares)):
            raise ValueError(f"hour_shares must be {HOURS_PER_WEEK} values, not all 0")

    def weights(self) -> tuple[tuple[Fraction, int], ...]:
        """Distinct shares of the week's volume in one hour, largest first, with the number of hours that have them."""
        return _weights(self.hour_shares)


@lru_cache(maxsize=64)
def _weights(hour_shares: tuple[Decimal, ...]) -> tuple[tuple[Fraction, int], ...]:
    if not hour_shares:
        return ((Fraction(1, HOURS_PER_WEEK), HOURS_PER_WEEK),)
    total = Fraction(sum(hour_shares))
    counted = Counter(share for share in hour_shares if share)
    return tuple(sorted(((Fraction(share) / total, hours) for share, hours in counted.items()), reverse=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One way to serve the volume. Money in USD a month."""

    kind: PlanKind
    rental: Rental | None
    replicas: int
    usd_per_month: Decimal
    own_tokens: Decimal
    api_tokens: Decimal
    reason: str
    receipt: Receipt = ()


def plans(demand: Demand, rentals: Iterable[Rental], *, max_replicas: int = MAX_REPLICAS) -> tuple[Plan, ...]:
    """The API alone, and for every rental the best number of replicas with API overflow and the number that needs none; cheapest first."""
    found = [] if demand.api_usd_per_mtok is None else [_plan(demand, None, 0)]
    for rental in rentals:
        whole = replicas_for_all(demand, rental)
        counts = {best_replicas(demand, rental, max_replicas)} - {0} | ({whole} if whole <= max_replicas else set())
        found += [_plan(demand, rental, replicas) for replicas in sorted(counts)]
    return tuple(sorted(found, key=_by_cost))


def cheapest_plan(demand: Demand, rentals: Iterable[Rental], *, max_replicas: int = MAX_REPLICAS) -> Plan | None:
    """The cheapest plan; None where nothing can serve the volume."""
    return next(iter(plans(demand, rentals, max_replicas=max_replicas)), None)


def _by_cost(plan: Plan) -> tuple[Decimal, int, str]:
    return (plan.usd_per_month, plan.replicas, plan.rental.name if plan.rental else "")


def hourly_capacity(demand: Demand, rental: Rental) -> Fraction:
    """Tokens a month one replica may serve in one of the week's 168 hours."""
    return Fraction(rental.capacity_tokens_per_month) * Fraction(demand.utilization) / HOURS_PER_WEEK


def own_tokens(demand: Demand, rental: Rental, replicas: int, tokens: Fraction | None = None) -> Fraction:
    """Tokens a month the replicas serve: the sum over the hours of min(w V, r k / 168)."""
    volume = Fraction(demand.tokens_per_month) if tokens is None else tokens
    most = replicas * hourly_capacity(demand, rental)
    return sum((hours * min(weight * volume, most) for weight, hours in demand.weights()), Fraction(0))


def replicas_for_all(demand: Demand, rental: Rental, tokens: Fraction | None = None) -> int:
    """Replicas that serve the busiest hour without the API."""
    busiest = demand.weights()[0][0] * (Fraction(demand.tokens_per_month) if tokens is None else tokens)
    return ceil(busiest / hourly_capacity(demand, rental))


def best_replicas(
    demand: Demand, rental: Rental, max_replicas: int = MAX_REPLICAS, tokens: Fraction | None = None, *, fixed: bool = True
) -> int:
    """Replicas beside the API at which the next one would cost more than it saves; 0 where the API alone is cheaper.

    Without ``fixed`` the fixed overheads are left out of account.
    """
    if demand.api_usd_per_mtok is None:
        return 0
    volume = Fraction(demand.tokens_per_month) if tokens is None else tokens
    margin = Fraction(demand.api_usd_per_mtok) - Fraction(rental.marginal_usd_per_mtok)
    low, high = 0, max_replicas  # invariant: the low-th replica pays
    while low < high:
        middle = (low + high + 1) // 2
        more = own_tokens(demand, rental, middle, volume) - own_tokens(demand, rental, middle - 1, volume)
        pays = margin > 0 and margin * more / MTOK > rental.rent
        low, high = (middle, high) if pays else (low, middle - 1)
    if not fixed:
        return low
    saved = margin * own_tokens(demand, rental, low, volume) / MTOK - low * rental.rent
    return low if saved > Fraction(demand.fixed_usd_per_month) else 0


def plan_usd(demand: Demand, rental: Rental | None, replicas: int, tokens: Fraction | None = None) -> Fraction:
    """Cost of the month in USD: r C + f + v x own tokens + p x API tokens."""
    volume = Fraction(demand.tokens_per_month) if tokens is None else tokens
    own = Fraction(0) if rental is None else own_tokens(demand, rental, replicas, volume)
    api = Fraction(demand.api_usd_per_mtok or 0) * (volume - own) / MTOK
    if rental is None or replicas == 0:
        return api
    return replicas * rental.rent + Fraction(demand.fixed_usd_per_month) + Fraction(rental.marginal_usd_per_mtok) * own / MTOK + api


def _plan(demand: Demand, rental: Rental | None, replicas: int) -> Plan:
    volume = Fraction(demand.tokens_per_month)
    own = Fraction(0) if rental is None else own_tokens(demand, rental, replicas)
    kind: PlanKind = "api" if rental is None else ("self_host" if own == volume else "hybrid")
    usd = to_decimal(plan_usd(demand, rental, replicas))
    return Plan(
        kind=kind,
        rental=rental,
        replicas=replicas,
        usd_per_month=usd,
        own_tokens=to_decimal(own),
        api_tokens=to_decimal(volume - own),
        reason=_reason(kind, rental, replicas, usd, own / volume),
        receipt=_receipt(demand, rental, replicas, own, volume - own),
    )


def _reason(kind: PlanKind, rental: Rental | None, replicas: int, usd: Decimal, share: Fraction) -> str:
    if rental is None:
        return f"everything at the API: ${cents(usd):,} a month"
    machines = f"{replicas} x {rental.name}" + (f" on spot, {float(rental.interruption_loss):.1%} lost," if rental.tier == "spot" else "")
    rest = "" if kind == "self_host" else f", the API for the other {1 - float(share):.1%}"
    return f"{machines} for {float(share):.1%} of the tokens{rest}: ${cents(usd):,} a month"


def _receipt(demand: Demand, rental: Rental | None, replicas: int, own: Fraction, api: Fraction) -> Receipt:
    lines: Sequence[ReceiptLine] = ()
    if rental is not None:
        lines = (
            ReceiptLine(name="replicas (r)", value=replicas),
            ReceiptLine(name="rent of a replica (C)", value=to_decimal(rental.rent), unit="USD/month", source=rental.name),
            ReceiptLine(name="fixed overheads (f)", value=demand.fixed_usd_per_month, unit="USD/month"),
            ReceiptLine(name="own tokens", value=to_decimal(own), unit="tokens/month", formula="sum of min(w V, r k / 168)"),
            ReceiptLine(name="marginal cost (v)", value=rental.marginal_usd_per_mtok, unit="USD/Mtok"),
        )
    price = None if demand.api_usd_per_mtok is None else to_decimal(Fraction(demand.api_usd_per_mtok))
    return (
        *lines,
        ReceiptLine(name="API tokens", value=to_decimal(api), unit="tokens/month"),
        ReceiptLine(name="API price (p)", value=price, unit="USD/Mtok"),
    )
