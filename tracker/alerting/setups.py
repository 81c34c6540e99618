"""What rules see of setups: the cheapest one, like with like, and whether the one that was told can still be rented."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from operator import itemgetter
from typing import Any

from engine.candidates import Setup
from tracker.alerting.facts import offer_name, setup_facts
from tracker.alerting.judge import Seen, State
from tracker.alerting.rules import CheaperSetup, SetupGone
from tracker.alerting.view import GONE, RENT, THERE, View, answers_of, subject_of
from tracker.answers.snapshot import ModelAnswer
from tracker.book.asof import SOURCE, Row
from tracker.book.row_fields import AVAILABILITY, GPU, PROVIDER, REGION, RENTAL, SKU, TIER, TRUST
from tracker.database.rows import UNAVAILABLE

_named = itemgetter(PROVIDER, SKU, REGION, GPU, TIER, TRUST)
COARSER = "|coarser"  # nothing as exact is sold any more: what is left is compared anew, and not called cheaper


def cheaper_setups(name: str, rule: CheaperSetup, view: View) -> Iterator[Seen]:
    for answer in answers_of(rule, view):
        best, subject = answer.setup if answer.setup_fresh else None, subject_of(answer)
        if best is None:
            continue
        state = view.states.get((name, subject))
        if state is None and not view.all_asked(*RENT):
            continue
        before = {} if state is None else state.facts
        like = _rival(answer, rule, before)
        if like is None and view.stale(str(before.get("source", ""))):
            continue
        rival = like or best
        basis = view.basis(*RENT, answer=answer) + ("" if like else COARSER)
        yield Seen(
            rule=name, kind=rule.kind, subject=subject, basis=basis, seen_at=rival.seen_at, facts=setup_facts(answer, rival),
            prices={"usd_per_hour": rival.usd_per_hour}, anew=({"usd_per_hour": best.usd_per_hour}, setup_facts(answer, best)),
            unmoved=_same_price(before, rival) or (_dearer(state, rival) and view.stale(str(before.get("source", "")))),
        )  # fmt: skip


def _rival(answer: ModelAnswer, rule: CheaperSetup, before: Mapping[str, Any]) -> Setup | None:
    """The cheapest setup of no lower quality than the one that was told, and like it on one machine or on several."""
    if rule.quality == "any":
        return answer.setup
    least, behind, best = int(before.get("fidelity", 0)), bool(before.get("behind", True)), answer.fresh.best
    if best is not None and best.fidelity >= least and (behind or not best.behind):
        return best
    fit = [s for s in answer.fresh.buyable if s.fidelity >= least and (behind or not s.behind)]
    return min(fit, key=lambda s: s.order) if fit else None


def _same_price(before: Mapping[str, Any], setup: Setup) -> bool:
    """Whether it is the offer that was told, at the price that was printed then: only the exchange rate moved."""
    return before.get("offer") == offer_name(setup) and before.get("native_per_hour") == f"{setup.offer.native_per_hour:f}"


def _dearer(state: State | None, setup: Setup) -> bool:
    return state is not None and setup.usd_per_hour > state.prices.get("usd_per_hour", setup.usd_per_hour)


def gone_setups(name: str, rule: SetupGone, view: View) -> Iterator[Seen]:
    for answer in answers_of(rule, view):
        best, subject = answer.setup if answer.setup_fresh else None, subject_of(answer)
        state = view.states.get((name, subject))
        if state is None and (best is None or not view.all_asked(*RENT)):
            continue
        before = {} if state is None else state.facts
        label = THERE if best is not None else ""
        old = before.get("usd_per_hour")
        if old and not _is_sold(view, before, best):
            rise = None if best is None else (best.usd_per_hour - Decimal(old)) * 100 / Decimal(old)
            known = not view.stale(str(before.get("source", "")))
            label = "" if not known else GONE if rise is None or (rise > 0 and rise >= rule.percent) else THERE
        facts = dict(before) if best is None else setup_facts(answer, best) | {"listed": _listed_name(best.offer)}
        seen_at = _last_read(view, str(before.get("source", ""))) or view.snapshot.at
        yield Seen(
            rule=name, kind=rule.kind, subject=subject, basis=view.basis(*RENT, answer=answer), seen_at=seen_at, label=label,
            follow=label == THERE, facts=facts | {"left": best is not None}, becomes=THERE if best is not None else GONE,
        )  # fmt: skip


def _is_sold(view: View, before: Mapping[str, Any], best: Setup | None) -> bool:
    """Whether the offer that was told is listed by a source that is believed about it, or still by the one it was told from.

    That another source lists it proves nothing where the provider's own does not: a catalogue learns late what is gone.
    """
    name, source = before.get("listed"), before.get("source")
    if best is not None and (name, source) == (_listed_name(best.offer), best.offer.source):
        return True
    fresh, book = view.snapshot.market.fresh(), view.snapshot.book.offers
    part = fresh.by(*RENTAL).get((before.get("provider"), before.get("gpu"), before.get("tier")))
    if part is not None and any(_is_had(row, name) for row in part.rows):
        return True
    others = () if view.snapshot.market is book else book.rows
    return any(row[SOURCE] == source and _is_had(row, name) and book.reading.fresh(row) for row in others)


def _is_had(row: Row, name: object) -> bool:
    """Whether it is an offer of that name, and to be had."""
    return row[AVAILABILITY] != UNAVAILABLE and "|".join(_named(row)) == name


def _listed_name(offer: Any) -> str:
    return "|".join((offer.provider, offer.sku, offer.region, offer.gpu, offer.tier, offer.trust))


def _last_read(view: View, source: str) -> datetime | None:
    return next((s.last_success for s in view.snapshot.sources if s.id == source), None)
