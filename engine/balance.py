"""What a layout takes of a setup's memory against what the policy lets it fill, and what is said about the difference."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from engine.counts import Layout
from engine.fits import Need
from engine.formats import WeightFormat
from engine.gpus import Gpu
from engine.models import ModelSpec
from engine.policies import FitPolicy, node_bytes, usable_gpu_bytes
from engine.sharding import layout_cache_bytes, recorded_tokens
from engine.units import GB, GIB
from engine.weights import Weights

HUGE_PARAMS = 10**12
HUGE_RESERVE_BYTES = 16 * GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
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
class Load:
    """Bytes one layout takes over the setup, every GPU counted as full as the fullest one: weights, cache of one session."""

    weights: int
    session: int

    def of(self, sessions: int) -> int:
        """Bytes with so many sessions."""
        return self.weights + self.session * sessions


def sessions_that_fit(cache_tokens: int, context: int) -> int:
    """Whole sessions of ``context`` tokens in a cache of ``cache_tokens``."""
    return cache_tokens // context


def load_of(case: Case, layout: Layout) -> Load:
    """What the layout takes over the setup, with the policy's factors and every repeated copy of the cache."""
    model, need, policy = case.model, case.need, case.policy
    assert case.weights is not None
    spread = layout.largest_share(model.layers) * layout.tp * layout.pp
    weights = Fraction(policy.total_factor * policy.weight_factor * case.weights.size_bytes) * spread
    session = Fraction(case.cache)
    if policy.cache_convention == "layer_groups":
        session = layout_cache_bytes(model, need.context, need.cache_format, layout, need.dcp)
    return Load(math.ceil(weights), math.ceil(Fraction(policy.total_factor) * session))


def capacity_of(case: Case, count: int, nodes: int) -> int:
    """Bytes weights and cache may fill: whole nodes by their data sheet, or GPU by GPU."""
    if case.policy.whole_nodes and (count > 1 or case.gpu.node_gpus == 1):
        return nodes * node_bytes(case.policy, case.gpu)
    return count * usable_gpu_bytes(case.policy, case.gpu, case.engine)


def most_sessions(case: Case, count: int, load: Load, capacity: int) -> tuple[int | None, str]:
    """Sessions the cache holds: as the engine reported for this deployment, else what memory leaves; None without a cache."""
    need = case.need
    if load.session == 0:
        return None, ""
    if load.weights > capacity:
        return 0, ""
    recorded = recorded_tokens(case.model, case.gpu.id, count, need.cache_format, need.dcp)
    if recorded is not None and case.policy.cache_convention == "layer_groups":
        return sessions_that_fit(recorded, need.context), f"{recorded:,} cache tokens as the engine reports"
    return (capacity - load.weights) // load.session, _reserve_note(case)


def _reserve_note(case: Case) -> str:
    """A warning where the sessions are only an upper bound: huge models leave less than the policy's reserve says.

    8 x B300 hold 2.6 million cache tokens of Kimi K3.1 Pro by its recipe; 0.9 of memory less 1 GiB would leave room for more.
    """
    if case.engine != "vllm" or case.model.params < HUGE_PARAMS or case.policy.reserve_bytes >= HUGE_RESERVE_BYTES:
        return ""
    return "sessions are an upper bound: a reserve of 16 to 20 GiB a GPU is nearer for a model of this size"


def short_reason(load: Load, capacity: int, most: int | None, need: Need) -> str:
    """Why memory does not suffice; what the engine reported decides over what the formula leaves."""
    if load.weights > capacity:
        return f"{_gb(load.weights - capacity)} GB short of weights"
    if most is None or most >= need.sessions:
        return ""
    if most != (capacity - load.weights) // load.session:
        return f"cache holds {most} of {need.sessions} sessions at {need.context:,} tokens"
    return f"{_gb(load.of(need.sessions) - capacity)} GB short of cache for {need.sessions} x {need.context:,} tokens"


def tight_reason(case: Case, count: int, load: Load, capacity: int, layout: Layout) -> str:
    """Why a fit is nearer to failing than its memory says; "" where it is not."""
    policy, layers, total = case.policy, case.model.layers, load.of(case.need.sessions)
    if layout.even and policy.checks_engine and layers and total * -(-layers // count) * count > capacity * layers:
        return "tight: whole layers per GPU would not fit, only a finer split"
    if capacity - total < max(policy.tight_setup_bytes, policy.tight_gpu_bytes * count):
        return f"tight: {_gb(capacity - total)} GB spare"
    return ""


def _gb(size: int) -> str:
    """Decimal gigabytes for a message: whole ones, below 1 with one digit that is never 0."""
    return f"{round(size / GB):,}" if size >= GB else str(max(0.1, round(size / GB, 1)))
