"""What a rule sees in a snapshot: one ``Seen`` for each of its subjects. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from engine.candidates import Setup
from tracker.alerting.facts import market_facts, offer_name, setup_facts
from tracker.alerting.judge import MOVED, Seen, State, Terms
from tracker.alerting.markets import gpu_prices, token_prices
from tracker.alerting.rules import (
    BreakEvenCrossed,
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
from tracker.snapshot import ModelAnswer, Snapshot, SourceHealth

States = Mapping[tuple[str, str], State]
TELLS = {"cheaper_setup": "down", "price_drop": "down", "price_rise": "up", "rate_change": MOVED}
OK, STALE, GROWN = "ok", "stale", "grown"
THERE, GONE = "there", "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A snapshot and what it is compared with. ``question`` is what the snapshot answers: another one starts anew."""

    snapshot: Snapshot
    states: States
    started_at: datetime  # sources that were not asked since are not complained of
    question: str = ""

    def stale(self, source: str) -> bool:
        """Whether a configured source is stale, so that its prices are missing and not gone."""
        return any(s.id == source and s.stale for s in self.snapshot.sources)

    def basis(self, *kinds: str) -> str:
        """What is compared: the question, and the sources of those kinds that were ever read."""
        read = sorted(s.id for s in self.snapshot.sources if s.kind in kinds and s.last_success is not None)
        return "|".join([self.question, *read])

    def all_asked(self, *kinds: str) -> bool:
        """Whether every source was tried: until then the cheapest known price is only that of those that answered first."""
        return all(s.last_attempt is not None for s in self.snapshot.sources if s.enabled and s.kind in kinds)


RENT, PAID = ("rent", "marketplace"), ("rent", "marketplace", "token")


def terms_of(rule: Rule) -> Terms:
    """When the rule tells."""
    cooldown, active = timedelta(hours=rule.cooldown_hours), timedelta(hours=rule.active_hours)
    if not isinstance(rule, Priced):
        lasting = isinstance(rule, SourceStale | QuarantineGrown)
        return Terms(sweeps=rule.sweeps, cooldown=cooldown, active=active, silent=frozenset({OK, THERE}), lasting=lasting)
    return Terms(
        sweeps=rule.sweeps,
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


def _answers(rule: Any, view: View) -> Iterator[ModelAnswer]:
    return (a for a in view.snapshot.answers if not rule.models or a.model.id in rule.models)


def subject_of(answer: ModelAnswer) -> str:
    """Model, workload and policy."""
    return f"{answer.model.id}/{answer.workload.id}/{answer.policy}"


# --- setups -----------------------------------------------------------------------------------------------------------


def _cheaper(name: str, rule: CheaperSetup, view: View) -> Iterator[Seen]:
    for answer in _answers(rule, view):
        best, subject = answer.setup if answer.setup_fresh else None, subject_of(answer)
        if best is None:
            continue
        state = view.states.get((name, subject))
        if state is None and not view.all_asked(*RENT):
            continue
        before = {} if state is None else state.facts
        rival = _rival(answer, rule, before) or best
        yield Seen(
            rule=name, kind=rule.kind, subject=subject, basis=view.basis(*RENT), seen_at=rival.seen_at, facts=setup_facts(answer, rival),
            prices={"usd_per_hour": rival.usd_per_hour}, anew=({"usd_per_hour": best.usd_per_hour}, setup_facts(answer, best)),
            unmoved=_same_price(before, rival) or (_dearer(state, rival) and view.stale(str(before.get("source", "")))),
        )  # fmt: skip


def _rival(answer: ModelAnswer, rule: CheaperSetup, before: Mapping[str, Any]) -> Setup | None:
    """The cheapest setup of no lower quality than the one that was told, and like it on one machine or on several."""
    if rule.quality == "any":
        return answer.setup
    least, behind = int(before.get("fidelity", 0)), bool(before.get("behind", True))
    fit = [s for s in answer.fresh.buyable if s.fidelity >= least and (behind or not s.behind)]
    return min(fit, key=lambda s: s.order) if fit else None


def _same_price(before: Mapping[str, Any], setup: Setup) -> bool:
    """Whether it is the offer that was told, at the price that was printed then: only the exchange rate moved."""
    return before.get("offer") == offer_name(setup) and before.get("native_per_hour") == f"{setup.offer.native_per_hour:f}"


def _dearer(state: State | None, setup: Setup) -> bool:
    return state is not None and setup.usd_per_hour > state.prices.get("usd_per_hour", setup.usd_per_hour)


def _gone(name: str, rule: SetupGone, view: View) -> Iterator[Seen]:
    listed = {_listed_name(o.value) for o in view.snapshot.book.offers if o.value.availability != "unavailable"}
    for answer in _answers(rule, view):
        best, subject = answer.setup if answer.setup_fresh else None, subject_of(answer)
        state = view.states.get((name, subject))
        if state is None and (best is None or not view.all_asked(*RENT)):
            continue
        before = {} if state is None else state.facts
        label = THERE if best is not None else ""
        old = before.get("usd_per_hour")
        if old and before.get("listed") not in listed:
            rise = None if best is None else (best.usd_per_hour - Decimal(old)) * 100 / Decimal(old)
            known = not view.stale(str(before.get("source", "")))
            label = "" if not known else GONE if rise is None or (rise > 0 and rise >= rule.percent) else THERE
        facts = dict(before) if best is None else setup_facts(answer, best) | {"listed": _listed_name(best.offer)}
        seen_at = _last_read(view, str(before.get("source", ""))) or view.snapshot.at
        yield Seen(
            rule=name, kind=rule.kind, subject=subject, basis=view.basis(*RENT), seen_at=seen_at, label=label, follow=label == THERE,
            facts=facts | {"left": best is not None}, becomes=THERE if best is not None else GONE,
        )  # fmt: skip


def _listed_name(offer: Any) -> str:
    return "|".join((offer.provider, offer.sku, offer.region, offer.gpu, offer.tier, offer.trust))


def _last_read(view: View, source: str) -> datetime | None:
    return next((s.last_success for s in view.snapshot.sources if s.id == source), None)


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
    for answer in _answers(rule, view):
        subject = subject_of(answer)
        if not answer.all_fresh or answer.seen_at is None or (not view.all_asked(*PAID) and (name, subject) not in view.states):
            continue
        moments = [part.seen_at for part in (answer.setup, answer.rate.rate if answer.rate else None) if part is not None]
        yield Seen(
            rule=name, kind=rule.kind, subject=subject, basis=view.basis(*PAID), seen_at=max(moments), label=side(answer),
            facts=market_facts(answer),
        )  # fmt: skip


# --- sources ----------------------------------------------------------------------------------------------------------


def _stale(name: str, rule: SourceStale, view: View) -> Iterator[Seen]:
    for source in _sources(rule, view):
        asked = source.last_attempt is not None and source.last_attempt >= view.started_at
        label = OK if not source.stale else STALE if asked and source.last_success is not None else ""
        facts = {
            "source": source.id, "last_success": source.last_success, "error": source.error, "max_age_hours": source.max_age_hours,
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
    for answer in _answers(rule, view):
        for subject, prices, facts in token_prices(rule, answer):
            yield Seen(
                rule=name, kind=rule.kind, subject=subject, basis=f"{facts['source']}|{facts['currency']}", seen_at=facts["seen_at"],
                facts=facts, prices=prices,
            )  # fmt: skip


LOOK: Mapping[str, Callable[[str, Any, View], Iterator[Seen]]] = {
    CheaperSetup.kind: _cheaper, PriceDrop.kind: _watched, PriceRise.kind: _watched, RateChange.kind: _rates, SetupGone.kind: _gone,
    BreakEvenCrossed.kind: _crossed, VerdictFlip.kind: _flipped, SourceStale.kind: _stale, QuarantineGrown.kind: _grown,
}  # fmt: skip
