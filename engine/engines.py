"""Which serving engine would run a weight format on a GPU, or why none does."""

from __future__ import annotations

from engine.fits import Need
from engine.formats import WeightFormat
from engine.gpus import Gpu
from engine.policies import ANY_ENGINE, FitPolicy, offered_engines

SIXTEEN_BIT = frozenset(("bf16", "fp16"))


def choose_engine(gpu: Gpu, weight_format: WeightFormat, need: Need, policy: FitPolicy) -> tuple[str, str]:
    """The engine that would serve the format on the GPU and "", or the nearest one and why it cannot."""
    if not policy.checks_engine:
        return ANY_ENGINE, ""
    offered = offered_engines(policy, gpu)
    allowed = tuple(engine for engine in offered if not need.engines or engine in need.engines)
    if not offered:
        return "", f"no serving engine is offered on {gpu.name}"
    if not allowed:
        return offered[0], f"{' or '.join(need.engines)} is not offered on {gpu.name} by the policy {policy.name}"
    able = tuple(engine for engine in allowed if engine in weight_format.engines)
    if not able:
        return allowed[0], f"{allowed[0]} has no {weight_format.name} loader"
    reasons = {engine: silicon_reason(gpu, weight_format, policy, engine) for engine in able}
    runnable = next((engine for engine in able if not reasons[engine]), able[0])
    return runnable, reasons[runnable]


def silicon_reason(gpu: Gpu, weight_format: WeightFormat, policy: FitPolicy, engine: str) -> str:
    """Why the GPU cannot compute the format under the engine; "" where it can. llama.cpp dequantizes everything."""
    if engine != "vllm" or computes(gpu, weight_format.compute):
        return ""
    units = f"{gpu.name} has no {weight_format.compute.upper()} units"
    if policy.native_only:
        return f"{units} for {weight_format.name}"
    if weight_format.fallback_compute is None or not computes(gpu, weight_format.fallback_compute):
        return f"{units} and {weight_format.name} has no other kernel"
    return ""


def computes(gpu: Gpu, compute: str) -> bool:
    """Whether the silicon runs the compute format; the two 16-bit formats stand in for each other."""
    return compute in gpu.native_formats or (compute in SIXTEEN_BIT and bool(gpu.native_formats & SIXTEEN_BIT))
