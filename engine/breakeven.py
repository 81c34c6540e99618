"""The volume at which renting equals paying per token, whether a setup can reach it, and what that says about a workload.

V* = (C + f) / (p - v) x 10**6 tokens a month, with C the rent of a replica, f fixed overheads, p the API price and v the marginal
cost of self-hosting per Mtok. V* does not depend on utilization; whether one replica can serve it does: k = u x K x d tokens a month
with K its capacity at full use, u the utilization and d the share of hours billed. Beyond k the rent is a staircase of replicas.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import ceil
from typing import Literal

from engine.bills import MonthlyBill
from engine.exact import Number, to_decimal
from engine.receipts import Receipt, ReceiptLine
from engine.terms import Terms
from engine.units import MTOK
from engine.workloads import Workload

Status = Literal["feasible", "never_at_this_utilization", "never", "always", "capacity_unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakEven:
    """Where rent meets the API bill. Token figures are tokens a month, cached ones counted as the API bills them.

    ``tokens`` is V* (one replica, any utilization); ``first_tokens`` and ``replicas`` the first volume that replicas can serve at
    which renting wins; ``sustained_tokens`` the volume from which it wins for good, past every step to another replica.
    """

    status: Status
    reason: str
    terms: Terms
    tokens: Decimal | None
    requests: Decimal | None = None
    replicas: int | None = None
    first_tokens: Decimal | None = None
    sustained_tokens: Decimal | None = None
    breakeven_utilization: Decimal | None = None  # above 1: this setup never reaches it
    usd_per_mtok_at_utilization: Decimal | None = None
    usd_per_mtok_at_full_use: Decimal | None = None
    receipt: Receipt = ()


def break_even(
    *,
    replica_usd_per_month: Decimal,
    api_usd_per_mtok: Number,
    capacity_tokens_per_month: Number | None = None,
    utilization: Decimal = Decimal(1),
    fixed_usd_per_month: Decimal = Decimal(0),
    marginal_usd_per_mtok: Decimal = Decimal(0),
    billed_fraction: Decimal = Decimal(1),
    tokens_per_request: int | None = None,
) -> BreakEven:
    """Break-even of one setup against one API price. ``replica_usd_per_month`` and the capacity are of all hours at full use."""
    terms = _terms(
        replica_usd_per_month,
        api_usd_per_mtok,
        capacity_tokens_per_month,
        utilization,
        fixed_usd_per_month,
        marginal_usd_per_mtok,
        billed_fraction,
    )
    status, reason = _status(terms)
    first = _first(terms) if status == "feasible" else None
    volume = terms.volume
    return BreakEven(
        status=status,
        reason=reason,
        terms=terms,
        tokens=_decimal(volume),
        requests=None if volume is None or tokens_per_request is None else to_decimal(volume / tokens_per_request),
        replicas=first[0] if first else (1 if status == "capacity_unknown" else None),
        first_tokens=_decimal(first[1]) if first else (Decimal(0) if status == "always" else None),
        sustained_tokens=_decimal(_sustained(terms, first[1])) if first else None,
        breakeven_utilization=None if volume is None or not terms.full else to_decimal(volume / terms.full),
        usd_per_mtok_at_utilization=_usd_per_mtok(terms, terms.capacity),
        usd_per_mtok_at_full_use=_usd_per_mtok(terms, terms.full),
        receipt=_receipt(terms, tokens_per_request),
    )


def _terms(
    rent: Decimal, api: Number, capacity: Number | None, utilization: Decimal, fixed: Decimal, marginal: Decimal, billed: Decimal
) -> Terms:
    _need(0 < utilization <= 1, f"utilization must be above 0 and at most 1, got {utilization}")
    _need(0 < billed <= 1, f"billed_fraction must be above 0 and at most 1, got {billed}")
    _need(min(rent, fixed, marginal, api) >= 0, "rent, overheads and prices must not be negative")
    _need(capacity is None or capacity > 0, f"capacity must be above 0 or unknown, got {capacity}")
    return Terms(
        rent=Fraction(rent) * Fraction(billed),
        fixed=Fraction(fixed),
        api=Fraction(api),
        marginal=Fraction(marginal),
        full=None if capacity is None else Fraction(capacity) * Fraction(billed),
        utilization=Fraction(utilization),
    )


def _status(terms: Terms) -> tuple[Status, str]:
    volume, capacity, full = terms.volume, terms.capacity, terms.full
    if volume is None:
        return "never", "the API costs no more per token than self-hosting does beyond its rent"
    if volume == 0:
        return "always", "self-hosting has no rent and no overheads"
    if capacity is None or full is None:
        return "capacity_unknown", "what the setup can serve is unknown"
    if volume <= capacity or terms.gain(capacity) > 0:
        return "feasible", "the setup can serve the break-even volume"
    if volume <= full or terms.gain(full) > 0:
        return "never_at_this_utilization", "at this utilization every replica costs more than the API would; a higher one reaches it"
    return "never", "even at full use a replica costs more than the API would"


def _first(terms: Terms) -> tuple[int, Fraction]:
    """Replicas n and tokens V1 of the first break-even: n = 1 where V* <= k, else n = ceil(f / g), V1 = (n C + f) / m."""
    volume, capacity = terms.volume, terms.capacity
    assert volume is not None and capacity is not None
    if volume <= capacity:
        return 1, volume
    replicas = ceil(terms.fixed / terms.gain(capacity))
    return replicas, (replicas * terms.rent + terms.fixed) / terms.margin * MTOK


def _sustained(terms: Terms, first: Fraction) -> Fraction | None:
    """Tokens from which renting wins for good: V_s = max(V1, ((n - 1) C + f) / m), n = max(2, ceil((f + m k) / g)); None: never."""
    capacity = terms.capacity
    assert capacity is not None
    gain = terms.gain(capacity)
    if gain <= 0:
        return None
    replicas = max(2, ceil((terms.fixed + terms.margin * capacity / MTOK) / gain))
    return max(first, ((replicas - 1) * terms.rent + terms.fixed) / terms.margin * MTOK)


def _usd_per_mtok(terms: Terms, tokens: Fraction | None) -> Decimal | None:
    """(C + f) / k + v in USD per Mtok."""
    return None if tokens is None else to_decimal((terms.rent + terms.fixed) / tokens * MTOK + terms.marginal)


def _receipt(terms: Terms, tokens_per_request: int | None) -> Receipt:
    volume = terms.volume
    lines = [
        ReceiptLine(name="rent of a replica (C)", value=to_decimal(terms.rent), unit="USD/month"),
        ReceiptLine(name="fixed overheads (f)", value=to_decimal(terms.fixed), unit="USD/month"),
        ReceiptLine(name="API price (p)", value=to_decimal(terms.api), unit="USD/Mtok"),
        ReceiptLine(name="marginal cost of self-hosting (v)", value=to_decimal(terms.marginal), unit="USD/Mtok"),
        ReceiptLine(name="break-even volume (V*)", value=_decimal(volume), unit="tokens/month", formula="(C + f) / (p - v) * 10**6"),
        ReceiptLine(name="capacity at full use (K)", value=_decimal(terms.full), unit="tokens/month"),
        ReceiptLine(name="utilization (u)", value=to_decimal(terms.utilization)),
        ReceiptLine(name="capacity at the utilization (k)", value=_decimal(terms.capacity), unit="tokens/month", formula="u * K"),
    ]
    if volume is not None and tokens_per_request is not None:
        requests = to_decimal(volume / tokens_per_request)
        lines.append(
            ReceiptLine(name="break-even requests", value=requests, unit="requests/month", formula=f"V* / {tokens_per_request} tokens")
        )
    return tuple(lines)


def workload_break_even(
    workload: Workload,
    bill: MonthlyBill,
    *,
    replica_usd_per_month: Decimal,
    capacity_requests_per_month: Decimal | None = None,
    fixed_usd_per_month: Decimal = Decimal(0),
    marginal_usd_per_mtok: Decimal = Decimal(0),
    billed_fraction: Decimal = Decimal(1),
) -> BreakEven | None:
    """Break-even of a setup for the workload at its API bill; None where the bill has no figure.

    Capacity is counted in requests, so that cached tokens, which cost a server almost nothing, are not counted as work.
    """
    if bill.cost.amount is None:
        return None
    tokens = workload.mix.total
    return break_even(
        replica_usd_per_month=replica_usd_per_month,
        api_usd_per_mtok=Fraction(bill.cost.amount) / Fraction(bill.tokens) * MTOK,
        capacity_tokens_per_month=None if capacity_requests_per_month is None else capacity_requests_per_month * tokens,
        utilization=workload.utilization,
        fixed_usd_per_month=fixed_usd_per_month,
        marginal_usd_per_mtok=marginal_usd_per_mtok,
        billed_fraction=billed_fraction,
        tokens_per_request=tokens,
    )


def _decimal(value: Fraction | None) -> Decimal | None:
    return None if value is None else to_decimal(value)


def _need(ok: bool, message: str) -> None:
    if not ok:
        raise ValueError(message)
