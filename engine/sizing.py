"""Whether a model fits on so many GPUs, with what to spare and for how many sessions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from engine.balance import Case, Load, capacity_of, load_of, most_sessions, sessions_that_fit, short_reason, tight_reason
from engine.cache import CONVENTIONS
from engine.counts import CountCheck, Layout, candidate_counts, check_count
from engine.engines import choose_engine
from engine.facts import MissingFact
from engine.fits import Fit, Need
from engine.formats import WeightFormat
from engine.gpus import Gpu
from engine.models import ModelSpec
from engine.policies import FitPolicy
from engine.weights import Weights, weight_bytes

__all__ = ["Fit", "Need", "feasible_fits", "fit", "sessions_that_fit", "smallest_fit"]


def fit(
    model: ModelSpec,
    gpu: Gpu,
    weight_format: WeightFormat,
    gpu_count: int,
    *,
    need: Need,
    policy: FitPolicy,
    weights: Weights | None = None,
) -> Fit:
    """Whether the model fits on ``gpu_count`` of the GPU, and if not, why. ``weights`` sizes a named build instead."""
    return _fit_count(_case(model, gpu, weight_format, need, policy, weights), gpu_count, {})


def smallest_fit(
    model: ModelSpec, gpu: Gpu, weight_format: WeightFormat, *, need: Need, policy: FitPolicy, weights: Weights | None = None
) -> Fit:
    """The fit on the fewest GPUs; where none fits, the one that came closest, with its reason."""
    return next(_walk(_case(model, gpu, weight_format, need, policy, weights), {}, misses=False))


def feasible_fits(model: ModelSpec, gpus: Iterable[Gpu], formats: Sequence[WeightFormat], need: Need, policy: FitPolicy) -> tuple[Fit, ...]:
    """For each GPU and format the near miss below the smallest fit, the smallest, and the larger counts up to twice it.

    Independent of offers: compute it once per catalogue. A format that never fits yields its closest miss alone.
    """
    found: list[Fit] = []
    known: dict[tuple[str, Layout], Load] = {}
    sized = {form.id: _weights(model, form, policy) for form in formats}
    cache, refusal = _cache(model, need, policy)
    for gpu in gpus:
        for form in formats:
            engine, reason = choose_engine(gpu, form, need, policy)
            case = Case(
                model=model,
                gpu=gpu,
                weight_format=form,
                need=need,
                policy=policy,
                engine=engine,
                weights=sized[form.id],
                cache=cache,
                refusal=reason or refusal,
            )
            found.extend(_walk(case, known, misses=True))
    return tuple(found)


def _case(model: ModelSpec, gpu: Gpu, form: WeightFormat, need: Need, policy: FitPolicy, weights: Weights | None) -> Case:
    engine, reason = choose_engine(gpu, form, need, policy)
    cache, missing = _cache(model, need, policy)
    return Case(
        model=model,
        gpu=gpu,
        weight_format=form,
        need=need,
        policy=policy,
        engine=engine,
        weights=weights or _weights(model, form, policy),
        cache=cache,
        refusal=reason or missing,
    )


def _weights(model: ModelSpec, form: WeightFormat, policy: FitPolicy) -> Weights:
    return weight_bytes(model, form, policy.weights_basis)


def _cache(model: ModelSpec, need: Need, policy: FitPolicy) -> tuple[int, str]:
    """Cache of one session by the policy's convention and "", or why it is not known."""
    try:
        return CONVENTIONS[policy.cache_convention](model, need.context, need.cache_format), ""
    except MissingFact as missing:
        return 0, str(missing)


def _walk(case: Case, known: dict[tuple[str, Layout], Load], misses: bool) -> Iterator[Fit]:
    """Fits by rising count: with ``misses`` the near miss, all fits up to twice the smallest; without, the smallest alone."""
    miss: Fit | None = None
    limit = 0
    for count in candidate_counts(case.gpu, case.policy):
        if limit and count > limit:
            return
        found = _fit_count(case, count, known)
        if not found.fits:
            miss = found if miss is None or found.layout is not None else miss
            if case.refusal:
                break
            continue
        if misses and not limit and miss is not None:
            yield miss
        yield found
        if not misses:
            return
        limit = limit or max(case.gpu.node_gpus, 2 * count)
    if not limit and miss is not None:
        yield miss


def _fit_count(case: Case, count: int, known: dict[tuple[str, Layout], Load]) -> Fit:
    if case.refusal:
        return _refused(case, count, case.refusal)
    check = check_count(case.model, case.gpu, case.weight_format, count, case.policy, case.engine, case.need.expert_parallel)
    if check.layout is None or (dcp := _dcp_reason(check, case.need)):
        return _refused(case, count, check.reason or dcp)
    key = (case.weight_format.id, check.layout)
    if key not in known:
        known[key] = load_of(case, check.layout)
    return _weighed(case, count, check.layout, known[key])


def _weighed(case: Case, count: int, layout: Layout, load: Load) -> Fit:
    gpu, need = case.gpu, case.need
    nodes = -(-count // gpu.node_gpus)
    capacity = capacity_of(case, count, nodes)
    most, basis = most_sessions(case, count, load, capacity)
    reason = short_reason(load, capacity, most, need)
    why = "" if reason else tight_reason(case, count, load, capacity, layout)
    return Fit(
        model=case.model.id,
        gpu=gpu.id,
        weight_format=case.weight_format.id,
        gpu_count=count,
        nodes=nodes,
        engine=case.engine,
        layout=layout,
        weight_bytes=case.weights.size_bytes if case.weights else 0,
        cache_bytes=case.cache * need.sessions,
        load_bytes=load.of(need.sessions),
        capacity_bytes=capacity,
        fits=not reason,
        tight=bool(why),
        max_sessions=most,
        reason=reason,
        note="; ".join(part for part in (layout.note, why, basis) if part),
        need=need,
        policy=case.policy,
        weights=case.weights,
    )


def _refused(case: Case, count: int, reason: str) -> Fit:
    return Fit(
        model=case.model.id,
        gpu=case.gpu.id,
        weight_format=case.weight_format.id,
        gpu_count=count,
        nodes=-(-count // case.gpu.node_gpus),
        engine=case.engine,
        weight_bytes=case.weights.size_bytes if case.weights else 0,
        cache_bytes=case.cache * case.need.sessions,
        reason=reason,
        need=case.need,
        policy=case.policy,
        weights=case.weights,
    )


def _dcp_reason(check: CountCheck, need: Need) -> str:
    if check.layout is None or need.dcp == 1 or check.layout.tp % need.dcp == 0:
        return ""
    return f"DCP {need.dcp} does not divide TP {check.layout.tp}"
