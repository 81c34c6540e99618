"""One replica as the throughput formula sees it: bytes, operations and seconds of its model on its GPUs, and the fitted constants."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.counts import Layout
from engine.engines import computes
from engine.facts import MissingFact
from engine.formats import WeightFormat
from engine.gpus import Gpu
from engine.models import ModelSpec
from engine.units import GB

FOUR_BIT = 5  # bits per weight below which a mixture of experts keeps all but its experts 16-bit
SIXTEEN_BIT_BYTES = 2.0
LEAST_DENSE = 0.5  # of all parameters: what is called active of a dense model leaves out embeddings at most; mixtures stay below
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
# TP 1 to 8) and rounded; tests/bench/roofline_error.py reports the error, also with each model, GPU, engine or format left out.
FITTED = Constants(
    bandwidth_share=0.82,
    compute_share=0.58,
    link_share=0.34,
    layer_s=68e-6,
    rank_s=10e-6,
    sequence_s=21e-6,
    engine_overhead={"vllm": 1.0, "trtllm": 0.6, "sglang": 1.2},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One replica: what the formula needs of it. Rates are of one GPU, with the shares of the peak taken off."""

    model: ModelSpec
    layout: Layout
    dense_bytes: float
    expert_bytes: float
    touched: float  # k / E; 0 for a dense model
    active: int
    layers: int
    launches: int  # layers by what they cost beside bytes and operations: one with an indexer counts twice
    cache_room_bytes: float  # memory of all its GPUs beside the weights
    bytes_s: float
    flops: float
    link_bytes_s: float
    overhead: float


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
    dense_bytes, expert_bytes = dense * (SIXTEEN_BIT_BYTES if sixteen else per_param), experts * per_param
    return Machine(
        model=model,
        layout=layout,
        dense_bytes=dense_bytes,
        expert_bytes=expert_bytes,
        touched=touched,
        active=active,
        layers=model.layers,
        launches=model.layers + sum(group.count for group in model.layer_groups if group.index_dim),
        cache_room_bytes=layout.tp * layout.pp * gpu.usable_bytes - dense_bytes - expert_bytes,
        bytes_s=float(gpu.bandwidth_gb_s) * GB * constants.bandwidth_share,
        flops=compute_flops(gpu, weight_format, bool(experts)) * constants.compute_share,
        link_bytes_s=(float(gpu.link_gb_s) if gpu.link_gb_s else PCIE_GB_S) * GB * constants.link_share,
        overhead=constants.engine_overhead.get(engine, 1.0),
    )


def split_params(model: ModelSpec) -> tuple[float, float, float, int]:
    """Share of experts one token touches, dense and expert parameters, active ones.

    From total, active and k/E alone: ``active = dense + experts * k/E``, so ``experts = (total - active) / (1 - k/E)``.
    """
    missing = missing_experts(model)
    if missing:
        raise MissingFact(model.id, missing[0], "a throughput estimate")
    if not model.experts or model.params_active is None or model.experts_per_token is None:
        return 0.0, float(model.params), 0.0, model.params
    touched = model.experts_per_token / model.experts
    experts = (model.params - model.params_active) / (1 - touched)
    return touched, model.params - experts, experts, model.params_active


def missing_experts(model: ModelSpec) -> tuple[str, ...]:
    """Fields a throughput estimate needs of a mixture of experts and that are not known; () for a dense model."""
    if not model.experts and (model.params_active is None or model.params_active > model.params * LEAST_DENSE):
        return ()
    return tuple(name for name in ("params_active", "experts", "experts_per_token") if not getattr(model, name))


def compute_flops(gpu: Gpu, weight_format: WeightFormat, experts: bool = False) -> float:
    """Dense operations per second of the format its kernels compute in on this GPU; infinite where nobody states them.

    A mixture of experts counts at the 16-bit peak in every format: its matrices meet few rows each, and on the measured points
    8- and 4-bit units gained nothing over it.
    """
    native = computes(gpu, weight_format.compute)
    compute = weight_format.compute if native else weight_format.fallback_compute or weight_format.compute
    tflops = gpu.dense_tflops.get("bf16" if experts or compute == "fp16" else compute) or gpu.dense_tflops.get("bf16")
    return math.inf if tflops is None else float(tflops) * TERA
