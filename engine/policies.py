"""How much of a GPU weights and cache may fill: the fit rules of the calculators we compare with, by name, and our default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from engine.facts import choose
from engine.gpus import Gpu, GpuClass
from engine.units import GB, GIB
from engine.weights import WeightsBasis

ANY_ENGINE = "any"
ALL_CLASSES: frozenset[GpuClass] = frozenset(("datacenter", "workstation", "consumer", "unified"))
ONE = Decimal(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class FitPolicy:
    """``total_factor * (weight_factor * weights + cache) <= share * memory - reserve``, counted per GPU or per whole node.

    ``checks_engine`` False means the rule asks nothing of engine, format or count: memory alone decides.
    ``layer_split`` lets a server split 3, 5, 6 or 7 GPUs by layers, where the GPU with most layers must hold its share.
    """

    name: str
    weights_basis: WeightsBasis = "studiotv"
    cache_convention: str = "layer_groups"  # a key of engine.cache.CONVENTIONS
    weight_factor: Decimal = ONE
    total_factor: Decimal = ONE
    marketed_memory: bool = False  # the label as 10**9 bytes, instead of what the device reports
    vllm_share: Decimal = Decimal("0.9")  # --gpu-memory-utilization of vLLM, its default
    llama_cpp_share: Decimal = ONE
    reserve_bytes: int = GIB  # per GPU: activations and runtime; 16-20 GiB is nearer for models of 10**12 parameters
    whole_nodes: bool = False
    one_gpu: bool = True  # with whole_nodes: a single GPU is allowed where it holds everything
    node_bases: tuple[str, ...] = ("vendor", "recipe")
    checks_engine: bool = True
    native_only: bool = True  # an FP4 or FP8 build needs silicon for it; False allows dequantizing kernels (Marlin)
    layer_split: bool = True
    vllm_classes: frozenset[GpuClass] = frozenset(("datacenter",))
    llama_cpp_classes: frozenset[GpuClass] = ALL_CLASSES - {"datacenter"}
    tight_gpu_bytes: int = 2 * GIB  # StudioTV asks 1 to 3 GiB for the engine and the reserve covers 1
    tight_setup_bytes: int = 0
    source: str = ""


# Swfte: weights alone against the label of whole nodes; under about 100 GB spare is not usable in practice.
SWFTE = FitPolicy(
    name="swfte",
    weights_basis="swfte",
    cache_convention="none",
    marketed_memory=True,
    reserve_bytes=0,
    whole_nodes=True,
    one_gpu=False,
    checks_engine=False,
    layer_split=False,
    tight_gpu_bytes=0,
    tight_setup_bytes=100 * GB,
    source="Swfte, node table, 2026-11-09",
)

# CanItRun: 12 % on weights and an FP16 cache against the label; reproduces all 24 printed totals.
CANITRUN = FitPolicy(
    name="canitrun",
    weights_basis="canitrun",
    cache_convention="canitrun",
    total_factor=Decimal("1.12"),
    marketed_memory=True,
    reserve_bytes=0,
    checks_engine=False,
    layer_split=False,
    tight_gpu_bytes=0,
    source="CanItRun, table of totals, 2026-10-17",
)

# vLLM recipes: vram_minimum_gb = 1.2 x weights, one GPU where that fits, else whole nodes.
RECIPE = FitPolicy(
    name="recipe",
    weights_basis="files",
    cache_convention="none",
    weight_factor=Decimal("1.2"),
    marketed_memory=True,
    reserve_bytes=0,
    whole_nodes=True,
    node_bases=("recipe", "vendor"),
    native_only=False,
    layer_split=False,
    vllm_classes=ALL_CLASSES,
    llama_cpp_classes=frozenset(),
    tight_gpu_bytes=0,
    source="vllm-project/recipes at 8959cf64189c, 2026-08-21",
)

# StudioTV: vLLM fills 90 % of a data-centre GPU, llama.cpp all of the others; 34 of 34 printed counts reproduce.
STUDIOTV = FitPolicy(name="studiotv", source="StudioTV, table of GPU counts, 2026-10-16; rule inferred from its counts")

POLICIES: Mapping[str, FitPolicy] = {p.name: p for p in (STUDIOTV, SWFTE, CANITRUN, RECIPE)}


def custom_policy(base: FitPolicy = STUDIOTV, *, reserve_gib: Decimal | None = None, **changes: Any) -> FitPolicy:
    """A policy of your own: any field of ``base`` changed, the reserve in GiB per GPU."""
    if reserve_gib is not None:
        changes["reserve_bytes"] = int(reserve_gib * GIB)
    return replace(base, **{"name": "custom", "source": f"configured, from {base.name}", **changes})


def offered_engines(policy: FitPolicy, gpu: Gpu) -> tuple[str, ...]:
    """Engines the policy would use on the GPU, first choice first; () where none is offered."""
    if not policy.checks_engine:
        return (ANY_ENGINE,)
    classes = {"vllm": policy.vllm_classes, "llama.cpp": policy.llama_cpp_classes}
    return tuple(engine for engine in gpu.engines if gpu.gpu_class in classes.get(engine, ALL_CLASSES))


def usable_share(policy: FitPolicy, engine: str) -> Decimal:
    """Share of a GPU's memory the engine may fill; a rule on labels takes all of it."""
    if policy.marketed_memory:
        return ONE
    return {"vllm": policy.vllm_share, "llama.cpp": policy.llama_cpp_share}.get(engine, ONE)


def usable_gpu_bytes(policy: FitPolicy, gpu: Gpu, engine: str) -> int:
    """Bytes weights and cache may fill on one GPU."""
    memory = gpu.marketed_bytes if policy.marketed_memory else gpu.usable_bytes
    return max(0, int(memory * usable_share(policy, engine)) - policy.reserve_bytes)


def node_bytes(policy: FitPolicy, gpu: Gpu) -> int:
    """Bytes of one whole node by its data sheet (10**9 bytes a GB), else the labels of its GPUs added up."""
    stated = choose(gpu.facts, "node_memory_gb", policy.node_bases)
    return gpu.node_gpus * gpu.marketed_bytes if stated is None else int(stated.value * GB)
