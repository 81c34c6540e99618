"""How to serve a volume for the least money: plans from the book, the curve over volume, and what flips the verdict."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

from engine.breakeven import BreakEven, workload_break_even
from engine.envelope import Segment, envelope
from engine.exact import Number, to_decimal
from engine.flips import Flips, flips
from engine.plans import Demand, Plan, Rental, plans
from engine.rate_choice import RateChoice
from engine.units import MTOK
from engine.verdicts import Verdict, verdict
from tracker.answers.candidates import Candidate, candidates
from tracker.answers.questions import Question
from tracker.answers.recompute import Sizer
from tracker.answers.snapshot import ModelAnswer
from tracker.book.book import Book
from tracker.world import World

CHARTED = 2  # the envelope goes to so many times the larger of the volume and the break-even


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanAnswer:
    """Plans for one model and volume. ``pivot`` is the replica of the cheapest plan without the API; the flips are about it.

    ``low`` and ``high`` are the cheapest plans with every capacity at the lower and upper end of its error band.
    """

    answer: ModelAnswer
    tokens_per_month: Decimal
    demand: Demand
    candidates: tuple[Candidate, ...]
    not_planned: tuple[str, ...]
    plans: tuple[Plan, ...]
    segments: tuple[Segment, ...]
    pivot: Candidate | None
    break_even: BreakEven | None
    verdict: Verdict | None
    flips: Flips | None
    low: Plan | None
    high: Plan | None

    @property
    def best(self) -> Plan | None:
        """The cheapest plan."""
        return self.plans[0] if self.plans else None

    def candidate(self, rental: Rental | None) -> Candidate | None:
        """The candidate a plan rents."""
        return next((c for c in self.candidates if c.rental == rental), None)


def plan_answer(
    world: World,
    sizer: Sizer,
    book: Book,
    found: ModelAnswer,
    question: Question,
    tokens_per_month: Decimal,
    *,
    fixed_usd_per_month: Decimal = Decimal(0),
    interruption_loss: Decimal = Decimal(0),
    up_to_tokens: Decimal | None = None,
) -> PlanAnswer:
    """Plans at the volume from the prices ``found`` was ranked by: fresh ones, or the last known where it says so."""
    known = candidates(world, sizer, book, found, question, interruption_loss)
    demand = demand_for(found, question, tokens_per_month, fixed_usd_per_month)
    ranked = plans_of(demand, ((one, one.rental) for one in known.chosen))
    pivot = _pivot(ranked, known.chosen)
    point = _break_even(found, question, pivot, fixed_usd_per_month)
    reach = up_to_tokens or CHARTED * max(tokens_per_month, (point.tokens if point and point.tokens else Decimal(0)))
    return PlanAnswer(
        answer=found,
        tokens_per_month=tokens_per_month,
        demand=demand,
        candidates=known.chosen,
        not_planned=known.unknown,
        plans=ranked,
        segments=_envelope(demand, known.chosen, reach),
        pivot=pivot,
        break_even=point,
        verdict=None if point is None else verdict(point, tokens_per_month),
        flips=None if point is None else flips(point.terms, tokens_per_month),
        low=_cheapest_at(demand, known.chosen, -1),
        high=_cheapest_at(demand, known.chosen, 1),
    )


def api_usd_per_mtok(choice: RateChoice | None) -> Number | None:
    """Exact price per Mtok of the workload's mix; None without a rate."""
    if choice is None:
        return None
    return Fraction(choice.usd_per_month) / Fraction(choice.bill.tokens) * MTOK


def demand_for(found: ModelAnswer, question: Question, tokens_per_month: Decimal, fixed_usd_per_month: Decimal) -> Demand:
    """The volume with the workload's mix, week and utilization."""
    return Demand(
        tokens_per_month=tokens_per_month,
        api_usd_per_mtok=api_usd_per_mtok(found.rate),
        hour_shares=question.workload.hour_shares,
        utilization=question.workload.utilization,
        fixed_usd_per_month=fixed_usd_per_month,
    )


def plans_of(demand: Demand, rented: Iterable[tuple[Candidate, Rental]]) -> tuple[Plan, ...]:
    """Plans over rentals that can be had any number of times and over asks, of which there is one; cheapest first."""
    pairs = tuple(rented)
    many = plans(demand, [rental for candidate, rental in pairs if not candidate.once])
    once = plans(demand, [rental for candidate, rental in pairs if candidate.once], max_replicas=1)
    found = (*many, *(plan for plan in once if plan.rental is not None))
    return tuple(sorted(found, key=lambda plan: (plan.usd_per_month, plan.replicas, plan.rental.name if plan.rental else "")))


def _pivot(ranked: Iterable[Plan], chosen: Iterable[Candidate]) -> Candidate | None:
    whole = next((plan for plan in ranked if plan.kind == "self_host" and plan.rental is not None), None)
    return None if whole is None else next(one for one in chosen if one.rental == whole.rental)


def _break_even(found: ModelAnswer, question: Question, pivot: Candidate | None, fixed: Decimal) -> BreakEven | None:
    if pivot is None or found.rate is None:
        return None
    return workload_break_even(
        question.workload,
        found.rate.bill,
        replica_usd_per_month=to_decimal(pivot.rental.rent),
        capacity_requests_per_month=pivot.served.requests_per_month,
        fixed_usd_per_month=fixed,
    )


def _envelope(demand: Demand, chosen: Iterable[Candidate], up_to_tokens: Decimal) -> tuple[Segment, ...]:
    """The lower envelope over volume at prices one can have any number of times, so without asks."""
    return envelope(demand, [one.rental for one in chosen if not one.once and _may_pay(demand, one.rental)], up_to_tokens)


def _may_pay(demand: Demand, rental: Rental) -> bool:
    """Whether a full replica costs less than its tokens at the API: one that does not is in no cheapest plan."""
    if demand.api_usd_per_mtok is None:
        return True
    full = Fraction(rental.capacity_tokens_per_month) * Fraction(demand.utilization)
    return rental.rent < (Fraction(demand.api_usd_per_mtok) - Fraction(rental.marginal_usd_per_mtok)) * full / MTOK


def _cheapest_at(demand: Demand, chosen: Iterable[Candidate], end: int) -> Plan | None:
    """The cheapest plan with every capacity at the lower (-1) or upper (1) end of its error band."""
    rented = ((one, _at_band(one, Fraction(one.served.error_factor) ** end)) for one in chosen)
    return next(iter(plans_of(demand, rented)), None)


def _at_band(candidate: Candidate, factor: Fraction) -> Rental:
    """The rental with its capacity times the factor."""
    capacity = Fraction(candidate.rental.capacity_tokens_per_month) * factor
    return replace(candidate.rental, capacity_tokens_per_month=to_decimal(capacity))
