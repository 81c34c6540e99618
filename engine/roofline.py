"""Throughput of one replica from bandwidth, compute, link and per-layer overhead: an estimate, fitted on measured points.

::

    cov    = 1 - (1 - k/E)^b                       share of routed experts b tokens touch; 1 if dense
    t_mem  = (W_dense + W_experts * cov) / (tp * BW * e) + b * KV(isl + osl/2) * share / (BW * e)
    t_cmp  = 2 * P_active * b / (tp * FLOPS * c)
    t_link = 2 * layers * 2 (n-1)/n * b * hidden * 2 B / (LINK * l)     two all-reduces a layer, tp > 1
    t_step = max(t_mem, t_cmp) + t_link + engine * (layers * (t0 + t1 * log2 tp) + t2 * b)
    t_pre  = (2 * P_active * fresh prompt tokens) / (tp * FLOPS * c) + t_link for those tokens
    tpot   = t_step + B * t_pre / (pp * osl);    output tok/s = B / tpot

with b = B / pp sequences a pipeline stage works on at once (llama.cpp passes the whole batch through its devices: pp = 1).
Form: Roofline after Williams et al. (2009); the per-layer overhead is what makes it fit small batches. Constants: see FITTED.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.cache import CacheFormat, cache_bytes
from engine.counts import Layout
from engine.engines import computes
from engine.facts import MissingFact
from engine.formats import WeightFormat
from engine.gpus import Gpu
from engine.models import ModelSpec
from engine.sharding import layout_cache_bytes
from engine.units import GB

FOUR_BIT = 5  # bits per weight below which a mixture of experts keeps all but its experts 16-bit
ACTIVATION_BYTES = 2
PCIE_GB_S = 32.0  # PCIe 4.0 x16, where no faster link is stated
TERA = 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """What the fit leaves free. Times in seconds, shares of the peak 0..1, ``engine_overhead`` relative to vLLM."""

    bandwidth_share: float
    compute_share: float
    link_share: float
    layer_s: float
    rank_s: float  # per layer and doubling of tensor parallel ranks
    sequence_s: float  # per sequence and step: scheduler and sampling
    first_token_s: float = 0.15  # request handling before the first prompt token is computed
    engine_overhead: Mapping[str, float] = field(default_factory=dict)


# Fitted 2026-11-29 on the 739 measured points of config/throughput (7 models, H100 H200 B200 B300, vLLM, SGLang, TensorRT-LLM,
# TP 1 to 8): median error factor 1.13, p90 1.35; tests/bench/roofline_error.py reports it, also with each model left out.
FITTED = Constants(
    bandwidth_share=0.70,
    compute_share=0.57,
    link_share=0.32,
    layer_s=52e-6,
    rank_s=16e-6,
    sequence_s=14e-6,
    engine_overhead={"vllm": 1.0, "trtllm": 0.6, "sglang": 1.25},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Tokens of one request as a server sees them. Cached prompt tokens fill the cache but are not computed again."""

    fresh: int  # prompt tokens to compute
    cached: int = 0
    output: int

    def __post_init__(self) -> None:
        if self.output < 1 or self.fresh < 0 or self.cached < 0:
            raise ValueError(f"work must have output and no negative tokens, got {self}")

    @property
    def prompt(self) -> int:
        """All prompt tokens."""
        return self.fresh + self.cached


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One replica: what the formula needs of it, in bytes, operations and seconds of one GPU."""

    model: ModelSpec
    layout: Layout
    dense_bytes: float
    expert_bytes: float
    touched: float  # k / E; 0 for a dense model
    active: int
    layers: int
    bytes_s: float
    flops: float
    link_bytes_s: float
    overhead: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Seconds of one replica at a concurrency: per output token of a user, until the first token; and its output tokens/s."""

    concurrency: int
    tpot_s: float
    ttft_s: float
    output_tok_s: float


def machine(
    model: ModelSpec, gpu: Gpu, weight_format: WeightFormat, layout: Layout, engine: str = "vllm", constants: Constants = FITTED
) -> Machine:
    """The replica as the formula sees it; MissingFact where a fact it needs is unknown."""
    if gpu.bandwidth_gb_s is None:
        raise MissingFact(gpu.id, "bandwidth_gb_s", "a throughput estimate")
    if not model.layers:
        raise MissingFact(model.id, "layers", "a throughput estimate")
    touched, dense, experts, active = split_params(model)
    per_param = float(weight_format.bytes_per_param)
    sixteen = bool(experts) and weight_format.bits_per_weight < FOUR_BIT
    return Machine(
        model=model,
        layout=layout,
        dense_bytes=dense * (2.0 if sixteen else per_param),
        expert_bytes=experts * per_param,
        touched=touched,
        active=active,
        layers=model.layers,
        bytes_s=float(gpu.bandwidth_gb_s) * GB * constants.bandwidth_share,
        flops=compute_flops(gpu, weight_format) * constants.compute_share,
        link_bytes_s=(float(gpu.link_gb_s) if gpu.link_gb_s else PCIE_GB_S) * GB * constants.link_share,
        overhead=constants.engine_overhead.get(engine, 1.0),
    )


def split_params(model: ModelSpec) -> tuple[float, float, float, int]:
    """Share of experts one token touches, dense and expert parameters, active ones.

    From total, active and k/E alone: ``active = dense + experts * k/E``, so ``experts = (total - active) / (1 - k/E)``.
    """
    if not model.experts:
        return 0.0, float(model.params), 0.0, model.params
    if model.params_active is None or model.experts_per_token is None:
        missing = "params_active" if model.params_active is None else "experts_per_token"
        raise MissingFact(model.id, missing, "a throughput estimate")
    touched = model.experts_per_token / model.experts
    experts = (model.params - model.params_active) / (1 - touched)
    return touched, model.params - experts, experts, model.params_active


def compute_flops(gpu: Gpu, weight_format: WeightFormat) -> float:
    """Dense operations per second of the format its kernels compute in on this GPU; infinite where nobody states them."""
    native = computes(gpu, weight_format.compute)
    compute = weight_format.compute if native else weight_format.fallback_compute or weight_format.compute
    tflops = gpu.dense_tflops.get("bf16" if compute == "fp16" else compute) or gpu.dense_tflops.get("bf16")
    return math.inf if tflops is None else float(tflops) * TERA


def pace(
    replica: Machine,
    work: Work,
    concurrency: int,
    cache_format: CacheFormat = "fp8",
    *,
    dcp: int = 1,
    dcp_slowdown: float = 1.0,
    constants: Constants = FITTED,
) -> Pace:
    """Speed of the replica while ``concurrency`` requests of the kind are always in flight."""
    layout = replica.layout
    stages = 1 if layout.even else layout.pp
    batch = concurrency / stages
    step = _step_s(replica, work, batch, cache_format, dcp, constants) * dcp_slowdown
    prefill = 2 * replica.active * work.fresh / (layout.tp * replica.flops) + _link_s(replica, work.fresh)
    interruption = concurrency * prefill / (stages * work.output)
    tpot = step + interruption
    busy = interruption / tpot  # share of the time that goes into prompts
    waiting = prefill * concurrency * busy / 2  # on average half of the prompts under way are ahead
    return Pace(
        concurrency=concurrency,
        tpot_s=tpot,
        ttft_s=constants.first_token_s + step + prefill + waiting,
        output_tok_s=concurrency / tpot,
    )


def _step_s(replica: Machine, work: Work, batch: float, cache_format: CacheFormat, dcp: int, constants: Constants) -> float:
    """Seconds of one decode step through all layers for ``batch`` sequences."""
    tp = replica.layout.tp
    touched = 1 - (1 - replica.touched) ** batch if replica.touched else 1.0
    weights = (replica.dense_bytes + replica.expert_bytes * touched) / tp
    memory = (weights + batch * _cache_read(replica, work, cache_format, dcp)) / replica.bytes_s
    compute = 2 * replica.active * batch / (tp * replica.flops)
    layers = replica.layers * (constants.layer_s + constants.rank_s * math.log2(tp))
    return max(memory, compute) + _link_s(replica, batch) + replica.overhead * (layers + constants.sequence_s * batch)


def _cache_read(replica: Machine, work: Work, cache_format: CacheFormat, dcp: int) -> float:
    """Bytes of cache one rank reads for one sequence at the middle of its answer."""
    tokens = work.prompt + work.output // 2
    if replica.layout.even or replica.layout.tp == 1:
        return float(cache_bytes(replica.model, tokens, cache_format))
    ranks = Layout(tp=replica.layout.tp, pp=1)
    return float(layout_cache_bytes(replica.model, tokens, cache_format, ranks, dcp)) / replica.layout.tp


def _link_s(replica: Machine, tokens: float) -> float:
    """Seconds of the two all-reduces of every layer for so many tokens; 0 without tensor parallelism or a known width."""
    tp = replica.layout.tp
    if tp == 1 or replica.model.hidden_size is None:
        return 0.0
    moved = 2 * (tp - 1) / tp * tokens * replica.model.hidden_size * ACTIVATION_BYTES
    return 2 * replica.layers * moved / replica.link_bytes_s
