"""What the break-even says about a volume: which side is cheaper, in one sentence with both bills."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Literal

from engine.breakeven import BreakEven
from engine.exact import Number, cents, to_decimal

Answer = Literal["api", "self_host", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Which side is cheaper at a volume. ``self_host_usd_per_month`` is a lower bound while the capacity is unknown."""

    answer: Answer
    reason: str
    tokens_per_month: Decimal
    api_usd_per_month: Decimal
    self_host_usd_per_month: Decimal
    replicas: int | None


def verdict(point: BreakEven, tokens_per_month: Number) -> Verdict:
    """Cheaper side at the volume, with both bills in a sentence. Equal costs count for self-hosting."""
    volume, terms = Fraction(tokens_per_month), point.terms
    api, own, replicas = terms.api_usd(volume), terms.self_host_usd(volume), terms.replicas(volume)
    answer: Answer = "api" if api < own else ("unknown" if replicas is None else "self_host")
    return Verdict(
        answer=answer,
        reason=_sentence(answer, api, own, replicas, point),
        tokens_per_month=to_decimal(volume),
        api_usd_per_month=to_decimal(api),
        self_host_usd_per_month=to_decimal(own),
        replicas=replicas,
    )


def _sentence(answer: Answer, api: Fraction, own: Fraction, replicas: int | None, point: BreakEven) -> str:
    bills = f"the API bill is ${cents(to_decimal(api)):,} a month against ${cents(to_decimal(own)):,} for {_replicas(replicas)}"
    if answer == "unknown":
        return f"{bills}, but what the setup can serve is unknown"
    if point.tokens is None:
        return f"{bills}; {point.reason}"
    return f"{bills}; break-even is at {billions(point.tokens)} tokens a month"


def _replicas(replicas: int | None) -> str:
    if replicas is None:
        return "at least one replica"
    return "one replica" if replicas == 1 else f"{replicas} replicas"


def billions(tokens: Decimal) -> str:
    """Tokens for a reader: "87.8 billion", "460.8 million"."""
    if tokens >= 10**9:
        return f"{tokens / 10**9:,.1f} billion"
    return f"{tokens / 10**6:,.1f} million" if tokens >= 10**6 else f"{tokens:,.0f}"
