"""Whether a model fits on so many GPUs, with what to spare and for how many sessions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from engine.cache import CONVENTIONS
from engine.counts import CountCheck, Layout, candidate_counts, check_count
from engine.engines import choose_engine
from engine.facts import MissingFact
from engine.fits import Fit, Need
from engine.formats import WeightFormat
from engine.gpus import Gpu
from engine.models import ModelSpec
from engine.policies import FitPolicy, node_bytes, usable_gpu_bytes
from engine.sharding import layout_cache_bytes, recorded_tokens
from engine.units import GB
from engine.weights import Weights, weight_bytes

__all__ = ["Fit", "Need", "feasible_fits", "fit", "sessions_that_fit", "smallest_fit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """One model, GPU and format under one need and policy; ``refusal`` says why no count can serve it."""

    model: ModelSpec
    gpu: Gpu
    weight_format: WeightFormat
    need: Need
    policy: FitPolicy
    engine: str
    weights: Weights | None
    cache: int
    refusal: str


@dataclass(frozen=True, slots=True)
class _Load:
    """Bytes one layout takes over the setup, every GPU counted as full as the fullest one: weights, cache of one session."""

    weights: int
    session: int

    def of(self, sessions: int) -> int:
        return self.weights + self.session * sessions


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
    known: dict[tuple[str, Layout], _Load] = {}
    sized = {form.id: _weights(model, form, policy) for form in formats}
    cache, refusal = _cache(model, need, policy)
    for gpu in gpus:
        for form in formats:
            engine, reason = choose_engine(gpu, form, need, policy)
            case = _Case(
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


def sessions_that_fit(cache_tokens: int, context: int) -> int:
    """Whole sessions of ``context`` tokens in a cache of ``cache_tokens``."""
    return cache_tokens // context


def _case(model: ModelSpec, gpu: Gpu, form: WeightFormat, need: Need, policy: FitPolicy, weights: Weights | None) -> _Case:
    engine, reason = choose_engine(gpu, form, need, policy)
    cache, missing = _cache(model, need, policy)
    return _Case(
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


def _walk(case: _Case, known: dict[tuple[str, Layout], _Load], misses: bool) -> Iterator[Fit]:
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


def _fit_count(case: _Case, count: int, known: dict[tuple[str, Layout], _Load]) -> Fit:
    if case.refusal:
        return _refused(case, count, case.refusal)
    check = check_count(case.model, case.gpu, case.weight_format, count, case.policy, case.engine, case.need.expert_parallel)
    if check.layout is None or (dcp := _dcp_reason(check, case.need)):
        return _refused(case, count, check.reason or dcp)
    key = (case.weight_format.id, check.layout)
    if key not in known:
        known[key] = _load(case, check.layout)
    return _weighed(case, count, check.layout, known[key])


def _load(case: _Case, layout: Layout) -> _Load:
    model, need, policy = case.model, case.need, case.policy
    assert case.weights is not None
    spread = layout.largest_share(model.layers) * layout.tp * layout.pp
    weights = Fraction(policy.total_factor * policy.weight_factor * case.weights.size_bytes) * spread
    session = Fraction(case.cache)
    if policy.cache_convention == "layer_groups":
        session = layout_cache_bytes(model, need.context, need.cache_format, layout, need.dcp)
    return _Load(math.ceil(weights), math.ceil(Fraction(policy.total_factor) * session))


def _weighed(case: _Case, count: int, layout: Layout, load: _Load) -> Fit:
    gpu, need = case.gpu, case.need
    nodes = -(-count // gpu.node_gpus)
    capacity = _capacity(case, count, nodes)
    most, recorded = _most_sessions(case, count, load, capacity)
    reason = _short_reason(load, capacity, most, recorded, need)
    why = "" if reason else _tight_reason(case, count, load, capacity, layout)
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
        note="; ".join(part for part in (layout.note, why, recorded) if part),
        need=need,
        policy=case.policy,
        weights=case.weights,
    )


def _refused(case: _Case, count: int, reason: str) -> Fit:
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


def _capacity(case: _Case, count: int, nodes: int) -> int:
    if case.policy.whole_nodes and (count > 1 or case.gpu.node_gpus == 1):
        return nodes * node_bytes(case.policy, case.gpu)
    return count * usable_gpu_bytes(case.policy, case.gpu, case.engine)


def _most_sessions(case: _Case, count: int, load: _Load, capacity: int) -> tuple[int | None, str]:
    """Sessions the cache holds: as the engine reported for this deployment, else what memory leaves; None without a cache."""
    need = case.need
    if load.session == 0:
        return None, ""
    if load.weights > capacity:
        return 0, ""
    recorded = recorded_tokens(case.model, case.gpu.id, count, need.cache_format, need.dcp)
    if recorded is not None and case.policy.cache_convention == "layer_groups":
        return sessions_that_fit(recorded, need.context), f"{recorded:,} cache tokens as the engine reports"
    return (capacity - load.weights) // load.session, ""


def _short_reason(load: _Load, capacity: int, most: int | None, recorded: str, need: Need) -> str:
    """Why memory does not suffice; what the engine reported decides over what the formula leaves."""
    if load.weights > capacity:
        return f"{_gb(load.weights - capacity)} GB short of weights"
    if most is None or most >= need.sessions:
        return ""
    if recorded:
        return f"cache holds {most} of {need.sessions} sessions at {need.context:,} tokens"
    return f"{_gb(load.of(need.sessions) - capacity)} GB short of cache for {need.sessions} x {need.context:,} tokens"


def _tight_reason(case: _Case, count: int, load: _Load, capacity: int, layout: Layout) -> str:
    policy, layers, total = case.policy, case.model.layers, load.of(case.need.sessions)
    if layout.even and policy.checks_engine and layers and total * -(-layers // count) * count > capacity * layers:
        return "tight: whole layers per GPU would not fit, only a finer split"
    if capacity - total < max(policy.tight_setup_bytes, policy.tight_gpu_bytes * count):
        return f"tight: {_gb(capacity - total)} GB spare"
    return ""


def _dcp_reason(check: CountCheck, need: Need) -> str:
    if check.layout is None or need.dcp == 1 or check.layout.tp % need.dcp == 0:
        return ""
    return f"DCP {need.dcp} does not divide TP {check.layout.tp}"


def _gb(size: int) -> str:
    """Decimal gigabytes for a message: whole ones, below 1 with one digit that is never 0."""
    return f"{round(size / GB):,}" if size >= GB else str(max(0.1, round(size / GB, 1)))
