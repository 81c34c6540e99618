"""Setups, plans, the curve over volume and the flips as JSON values."""

from __future__ import annotations

from typing import Any

from engine.plans import Plan
from tracker.answers.candidates import Candidate
from tracker.answers.planning import PlanAnswer
from tracker.answers.snapshot import ModelAnswer
from tracker.plain import plain


def plan_facts(planned: PlanAnswer) -> dict[str, Any]:
    """The plans, the envelope and the flips as JSON values."""
    found = planned.answer
    return {
        "model": found.model.id,
        "workload": found.workload.id,
        "policy": found.policy,
        "tokens_per_month": plain(planned.tokens_per_month),
        "utilization": plain(planned.demand.utilization),
        "api_usd_per_mtok": plain(planned.demand.api_usd_per_mtok),
        "api_provider": found.rate.rate.provider if found.rate else None,
        "setup_fresh": found.setup_fresh,
        "rate_fresh": found.rate_fresh,
        "best": None if planned.best is None else _plan_facts(planned.best),
        "plans": [_plan_facts(one) for one in planned.plans],
        "rentals": [_candidate_facts(candidate, planned) for candidate in planned.candidates],
        "not_planned": list(planned.not_planned),
        "envelope": [plain(segment) | {"rental": segment.rental.name if segment.rental else None} for segment in planned.segments],
        "flips": plain(planned.flips),
        "flips_of": planned.pivot.rental.name if planned.pivot else None,
        "verdict": plain(planned.verdict),
        "capacity_low": None if planned.low is None else _plan_facts(planned.low),
        "capacity_high": None if planned.high is None else _plan_facts(planned.high),
        "why_not": found.why_not,
    }


def _plan_facts(one: Plan) -> dict[str, Any]:
    names = ("kind", "replicas", "usd_per_month", "own_tokens", "api_tokens", "reason")
    return {name: plain(getattr(one, name)) for name in names} | {"rental": one.rental.name if one.rental else None}


def _candidate_facts(candidate: Candidate, planned: PlanAnswer) -> dict[str, Any]:
    served = {name: plain(getattr(candidate.served, name)) for name in ("requests_per_month", "kind", "error_factor", "source")}
    return {**plain(candidate.rental), "once": candidate.once, "capacity": served, "setup": setup_plain(planned.answer, candidate.setup)}


def setup_plain(answer: ModelAnswer, setup: Any) -> dict[str, Any]:
    """A setup as JSON values."""
    return {
        "fresh": answer.setup_fresh,
        "kind": setup.kind,
        "gpu": setup.gpu,
        "gpu_count_needed": setup.gpu_count_needed,
        "gpu_count_rented": setup.gpu_count_rented,
        "machines": setup.machines,
        "weight_format": setup.weight_format,
        "tight": setup.fit.tight,
        "usd_per_hour": plain(setup.usd_per_hour),
        "usd_per_month": plain(setup.usd_per_month),
        "offer": plain(setup.offer),
    }
