"""What a rule sees in a snapshot: one ``Seen`` for each of its subjects. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from tracker.alerting.facts import market_facts
from tracker.alerting.judge import MOVED, Seen, Terms
from tracker.alerting.markets import gpu_prices, token_prices
from tracker.alerting.paces import budget_paces
from tracker.alerting.rules import (
    BreakEvenCrossed,
    BudgetPace,
    CheaperSetup,
    Priced,
    PriceDrop,
    PriceRise,
    QuarantineGrown,
    RateChange,
    Rule,
    SetupGone,
    SourceStale,
    VerdictFlip,
)  # fmt: skip
from tracker.alerting.setups import cheaper_setups, gone_setups
from tracker.alerting.view import GROWN, OK, PAID, RENT, STALE, THERE, View, answers_of, subject_of
from tracker.answers.snapshot import ModelAnswer, SourceHealth
from tracker.plain import plain

TELLS = {"cheaper_setup": "down", "price_drop": "down", "price_rise": "up", "rate_change": MOVED}


def terms_of(rule: Rule) -> Terms:
    """When the rule tells."""
    cooldown, active, hold = (timedelta(hours=hours) for hours in (rule.cooldown_hours, rule.active_hours, rule.hold_hours))
    if not isinstance(rule, Priced):
        lasting = isinstance(rule, SourceStale | QuarantineGrown | BudgetPace)
        return Terms(sweeps=rule.sweeps, hold=hold, cooldown=cooldown, active=active, silent=frozenset({OK, THERE}), lasting=lasting)
    return Terms(
        sweeps=rule.sweeps,
        hold=hold,
        tells=frozenset({TELLS[rule.kind]}),
        percent=rule.percent,
        usd_per_month=rule.usd_per_month if isinstance(rule, CheaperSetup) else Decimal(0),
        rearm=timedelta(hours=rule.rearm_hours),
        cooldown_percent=rule.cooldown_percent,
        cooldown=cooldown,
        active=active,
    )


def observe(name: str, rule: Rule, view: View) -> Iterator[Seen]:
    """Everything the rule is about, as it is now."""
    yield from LOOK[rule.kind](name, rule, view)


# --- which side -------------------------------------------------------------------------------------------------------


def _crossed(name: str, rule: BreakEvenCrossed, view: View) -> Iterator[Seen]:
    def side(answer: ModelAnswer) -> str:
        point, volume = answer.break_even, Decimal(answer.workload.tokens_per_month)
        if point is None:
            return ""
        margin = 0 if point.tokens is None else point.tokens * rule.margin_percent / 100
        if point.tokens is None or volume < point.tokens - margin:
            return "below"
        return "above" if volume >= point.tokens + margin else ""

    yield from _sides(name, rule, view, side)


def _flipped(name: str, rule: VerdictFlip, view: View) -> Iterator[Seen]:
    def side(answer: ModelAnswer) -> str:
        found = answer.verdict
        if found is None or found.answer == "unknown":
            return ""
        api, own = found.api_usd_per_month, found.self_host_usd_per_month
        return found.answer if abs(api - own) * 100 >= max(api, own) * rule.margin_percent else ""

    yield from _sides(name, rule, view, side)


def _sides(name: str, rule: Any, view: View, side: Callable[[ModelAnswer], str]) -> Iterator[Seen]:
    for answer in answers_of(rule, view):
        subject = subject_of(answer)
        if not answer.all_fresh or answer.seen_at is None or (not view.all_asked(*PAID) and (name, subject) not in view.states):
            continue
        state, facts = view.states.get((name, subject)), market_facts(answer)
        moved = _moved(facts, {} if state is None else state.facts)
        yield Seen(
            rule=name, kind=rule.kind, subject=subject, basis=view.basis(*PAID, answer=answer), seen_at=min(moved, default=answer.seen_at),
            label=side(answer), facts=facts, follow=bool(moved),
        )  # fmt: skip


def _moved(facts: Mapping[str, Any], before: Mapping[str, Any]) -> list[datetime]:
    """When the prices were read that differ: that the others were read again proves nothing about these."""
    sides = (("usd_per_hour", "seen_at"), ("api_usd_per_mtok", "api_seen_at"))
    return [facts[read] for price, read in sides if facts.get(price) != before.get(price)]


# --- sources ----------------------------------------------------------------------------------------------------------


def _stale(name: str, rule: SourceStale, view: View) -> Iterator[Seen]:
    for source in _sources(rule, view):
        asked = source.last_attempt is not None and source.last_attempt >= view.started_at
        label = OK if not source.stale else STALE if asked and source.last_success is not None else ""
        facts = {
            "source": source.id, "last_success": plain(source.last_success), "error": source.error, "max_age_hours": source.max_age_hours,
        }  # fmt: skip
        yield _of_source(name, rule, view, source, label, facts)


def _grown(name: str, rule: QuarantineGrown, view: View) -> Iterator[Seen]:
    for source in _sources(rule, view):
        label = GROWN if source.quarantined >= rule.prices else OK if source.quarantined * 2 < rule.prices else ""
        yield _of_source(name, rule, view, source, label, {"source": source.id, "quarantined": source.quarantined, "prices": rule.prices})


def _sources(rule: Any, view: View) -> Iterator[SourceHealth]:
    return (s for s in view.snapshot.sources if s.enabled and (not rule.sources or s.id in rule.sources))


def _of_source(name: str, rule: Rule, view: View, source: SourceHealth, label: str, facts: Mapping[str, Any]) -> Seen:
    seen_at = view.snapshot.at if rule.kind == SourceStale.kind else source.last_attempt or view.snapshot.at
    return Seen(
        rule=name, kind=rule.kind, subject=f"source/{source.id}", basis="", seen_at=seen_at, label=label, start=OK, facts=facts,
    )  # fmt: skip


# --- prices -----------------------------------------------------------------------------------------------------------


def _watched(name: str, rule: PriceDrop | PriceRise, view: View) -> Iterator[Seen]:
    for subject, price, facts in gpu_prices(rule, view.snapshot):
        state = view.states.get((name, subject))
        if state is None and not view.all_asked(*RENT):
            continue
        before = {} if state is None else state.facts
        same = before.get("offer") == facts["offer"] and before.get("native_per_hour") == facts["native_per_hour"]
        old = None if state is None else state.prices.get("usd_per_gpu_hour")
        small = old is not None and abs(price - old) < rule.usd_per_gpu_hour
        missing = old is not None and price > old and view.stale(str(before.get("source", "")))
        yield Seen(
            rule=name, kind=rule.kind, subject=subject, basis=view.basis(*RENT), seen_at=facts["seen_at"], facts=facts,
            prices={"usd_per_gpu_hour": price}, unmoved=same or small or missing,
        )  # fmt: skip


def _rates(name: str, rule: RateChange, view: View) -> Iterator[Seen]:
    seen: set[str] = set()  # a price list is one thing, however many questions it answers
    for answer in view.snapshot.every:
        for subject, prices, facts in token_prices(rule, answer) if not rule.models or answer.model.id in rule.models else ():
            if subject not in seen:
                seen.add(subject)
                yield Seen(
                    rule=name, kind=rule.kind, subject=subject, basis=facts["currency"], seen_at=facts["seen_at"], facts=facts,
                    prices=prices,
                )  # fmt: skip


LOOK: Mapping[str, Callable[[str, Any, View], Iterator[Seen]]] = {
    CheaperSetup.kind: cheaper_setups, SetupGone.kind: gone_setups, PriceDrop.kind: _watched, PriceRise.kind: _watched,
    RateChange.kind: _rates, BreakEvenCrossed.kind: _crossed, VerdictFlip.kind: _flipped, SourceStale.kind: _stale,
    QuarantineGrown.kind: _grown, BudgetPace.kind: budget_paces,
}  # fmt: skip
