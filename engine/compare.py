"""Two models side by side under one policy: totals by format, cache by context, and the GPUs that hold only one of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from engine.cache import CONVENTIONS
from engine.engines import choose_engine
from engine.facts import MissingFact
from engine.fits import Fit, Need
from engine.formats import WeightFormat
from engine.gpus import Gpu
from engine.models import ModelSpec
from engine.policies import FitPolicy
from engine.sizing import smallest_fit
from engine.units import gb
from engine.weights import weight_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """Bytes both models need in one format; None where a model cannot be sized in it. ``None`` format is each one's native."""

    weight_format: str | None
    first_bytes: int | None
    second_bytes: int | None

    @property
    def percent(self) -> Decimal | None:
        """How much larger the first is than the second, in percent."""
        if not self.first_bytes or not self.second_bytes:
            return None
        return (Decimal(self.first_bytes) / self.second_bytes - 1) * 100


@dataclass(frozen=True, slots=True, kw_only=True)
class CachePoint:
    """Cache of one sequence of both models at one context, in bytes."""

    tokens: int
    first_bytes: int
    second_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """The smallest fit of each model on one GPU over the given formats; None where it does not fit."""

    gpu: str
    first: Fit | None
    second: Fit | None


def total_bytes(model: ModelSpec, weight_format: WeightFormat, need: Need, policy: FitPolicy) -> int | None:
    """Weights and cache with the policy's factors, before any split over GPUs; None where a fact is missing."""
    try:
        cache = CONVENTIONS[policy.cache_convention](model, need.context, need.cache_format) * need.sessions
    except MissingFact:
        return None
    weights = policy.weight_factor * weight_bytes(model, weight_format, policy.weights_basis).size_bytes
    return int(policy.total_factor * (weights + cache))


def totals(first: ModelSpec, second: ModelSpec, formats: Sequence[WeightFormat], need: Need, policy: FitPolicy) -> tuple[Total, ...]:
    """Totals of both models for every format, then each in its own native format."""
    rows = [
        Total(
            weight_format=form.id,
            first_bytes=total_bytes(first, form, need, policy),
            second_bytes=total_bytes(second, form, need, policy),
        )
        for form in formats
    ]
    native = {form.id: form for form in formats}
    if first.native_format in native and second.native_format in native:
        own = [total_bytes(m, native[m.native_format], need, policy) for m in (first, second)]
        rows.append(Total(weight_format=None, first_bytes=own[0], second_bytes=own[1]))
    return tuple(rows)


def cache_curve(first: ModelSpec, second: ModelSpec, contexts: Iterable[int], need: Need, policy: FitPolicy) -> tuple[CachePoint, ...]:
    """Cache of one sequence of both models over rising contexts, by the policy's convention; MissingFact where unknown."""
    size = CONVENTIONS[policy.cache_convention]
    return tuple(
        CachePoint(
            tokens=tokens,
            first_bytes=size(first, tokens, need.cache_format),
            second_bytes=size(second, tokens, need.cache_format),
        )
        for tokens in contexts
    )


def holdings(
    first: ModelSpec,
    second: ModelSpec,
    gpus: Iterable[Gpu],
    formats: Sequence[WeightFormat],
    need: Need,
    policy: FitPolicy,
    max_gpus: int,
) -> tuple[Holding, ...]:
    """For each GPU the smallest fit of each model on at most ``max_gpus``, over all formats."""
    return tuple(
        Holding(
            gpu=gpu.id,
            first=_smallest(first, gpu, formats, need, policy, max_gpus),
            second=_smallest(second, gpu, formats, need, policy, max_gpus),
        )
        for gpu in gpus
    )


def verdict_sentence(first: ModelSpec, second: ModelSpec, total: Total) -> str:
    """Which model is lighter, said with the numbers; "" where one of them is unknown."""
    if not total.first_bytes or not total.second_bytes:
        return ""
    light, heavy = (first, second) if total.first_bytes <= total.second_bytes else (second, first)
    low, high = sorted((total.first_bytes, total.second_bytes))
    times = Decimal(high) / low
    return f"{light.name} needs {gb(low):,.1f} GB, {heavy.name} {gb(high):,.1f} GB: {times:.1f} times as much"


def _smallest(model: ModelSpec, gpu: Gpu, formats: Sequence[WeightFormat], need: Need, policy: FitPolicy, max_gpus: int) -> Fit | None:
    able = (form for form in formats if not choose_engine(gpu, form, need, policy)[1])
    found = (smallest_fit(model, gpu, form, need=need, policy=policy) for form in able)
    fitting = [fit for fit in found if fit.fits and fit.gpu_count <= max_gpus]
    return min(fitting, key=lambda fit: (fit.gpu_count, fit.weight_format), default=None)
