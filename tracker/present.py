"""Answers as the words and rounded figures a person reads: one row for the terminal, the page and the log alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from engine.candidates import Setup
from engine.exact import cents
from engine.verdicts import billions
from tracker.answers.snapshot import ModelAnswer, SourceHealth

NONE = "-"
VERDICTS = {"api": "API", "self_host": "self-host", "unknown": "unknown"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One tracked model. ``stale`` names the parts whose price is older than its limit."""

    model: str
    setup: str
    usd_per_hour: str
    usd_per_month: str
    api_usd_per_mtok: str
    break_even: str
    capacity: str
    verdict: str
    age: str
    stale: bool
    reason: str


HEADER = ("model", "cheapest setup", "$/h", "$/month", "API $/Mtok", "break-even tokens/month", "verdict", "age of prices")


def rows(answers: Iterable[ModelAnswer], now: datetime) -> tuple[Row, ...]:
    """The table of tracked models."""
    return tuple(row(answer, now) for answer in answers)


def row(answer: ModelAnswer, now: datetime) -> Row:
    """One line of the table."""
    setup, rate, point = answer.setup, answer.rate, answer.break_even
    return Row(
        model=answer.model.id,
        setup=NONE if setup is None else setup_text(setup),
        usd_per_hour=NONE if setup is None else money(setup.usd_per_hour),
        usd_per_month=NONE if setup is None else money(setup.usd_per_month),
        api_usd_per_mtok=NONE if rate is None else f"{rate.usd_per_mtok:.4f} ({rate.rate.provider})",
        break_even=NONE if point is None else billions(point.tokens) if point.tokens is not None else point.status,
        capacity=capacity_text(answer),
        verdict=NONE if answer.verdict is None else VERDICTS[answer.verdict.answer],
        age=_ages(answer, now),
        stale=(setup is not None and not answer.setup_fresh) or (rate is not None and not answer.rate_fresh),
        reason=answer.why_not or (f"{answer.verdict.reason}; serves {capacity_text(answer)}" if answer.verdict else ""),
    )


def capacity_text(answer: ModelAnswer) -> str:
    """What the setup serves of the workload, and whether that reaches break-even."""
    found, point = answer.capacity, answer.break_even
    if found is None or point is None:
        return NONE
    if found.requests_per_month is None:
        return f"unknown: {found.reason}"
    kind = f"estimate, x/÷ {found.error_factor:.1f}" if found.kind == "estimate" else str(found.kind)
    use = "" if point.breakeven_utilization is None else f"; break-even at {point.breakeven_utilization * 100:,.0f} % use"
    return f"{found.requests_per_month:,.0f} requests/month ({kind}){use}"


def setup_text(setup: Setup) -> str:
    """GPUs, format, and where they are rented."""
    offer = setup.offer
    where = " ".join(part for part in (offer.provider, offer.sku, offer.region) if part)
    needed = "" if setup.gpu_count_rented == setup.gpu_count_needed else f" ({setup.gpu_count_needed} needed)"
    return f"{setup.gpu_count_rented} x {setup.gpu}{needed}, {setup.weight_format}, {where}"


def money(amount: Decimal) -> str:
    """USD to the cent, half up, with thousands separators."""
    return f"{cents(amount):,}"


def _ages(answer: ModelAnswer, now: datetime) -> str:
    parts = []
    if answer.setup is not None:
        parts.append(f"rent {age(now - answer.setup.seen_at)}{'' if answer.setup_fresh else ' (stale)'}")
    if answer.rate is not None:
        parts.append(f"rate {age(now - answer.rate.rate.seen_at)}{'' if answer.rate_fresh else ' (stale)'}")
    return ", ".join(parts) or NONE


def age(span: timedelta) -> str:
    """How long ago, in the largest unit that fits: 40 s, 12 min, 5 h, 44 days."""
    seconds = max(0, span // timedelta(seconds=1))
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size or (unit != "days" and seconds >= size):
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def source_line(source: SourceHealth, now: datetime) -> str:
    """One line about a source."""
    if not source.enabled:
        return f"{source.id}: off ({source.off_reason})"
    if source.last_attempt is None:
        return f"{source.id}: not tried yet"
    read = "never read" if source.last_success is None else f"last read {age(now - source.last_success)} ago"
    stale = " (stale)" if source.stale else ""
    if source.status == "failed":
        return f"{source.id}: {read}{stale}; last try failed: {source.error}"
    licence = f"; its data is under {source.licence}" if source.licence else ""
    return f"{source.id}: {read}, {source.rows} price{'' if source.rows == 1 else 's'}{stale}{licence}"
