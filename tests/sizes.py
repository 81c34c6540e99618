"""Small models, GPUs and formats the sizing tests stand on; figures chosen so that sums can be done by hand."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any

from engine.facts import Fact
from engine.formats import WeightFormat
from engine.gpus import Gpu
from engine.models import Checkpoint, LayerGroup, ModelSpec

D = Decimal
DAY = date(2026, 11, 29)
LLAMA_8B_GROUP = LayerGroup(count=32, kind="gqa", kv_heads=8, k_dim=128, v_dim=128)


def fact(field: str, value: str | int, basis: str, checked: date = DAY) -> Fact:
    return Fact(field=field, value=D(value), unit="", basis=basis, source=f"test, {basis}", checked=checked)


def spec(**changes: Any) -> ModelSpec:
    """A dense model of 8 billion parameters, 32 layers, 32 heads, 8 KV heads of 128."""
    base: dict[str, Any] = {
        "id": "dense-8b",
        "name": "Dense 8B",
        "organisation": "Test",
        "params": 8_000_000_000,
        "params_active": 8_000_000_000,
        "layers": 32,
        "layer_groups": (LLAMA_8B_GROUP,),
        "attention_heads": 32,
        "native_format": "bf16",
        "source": "test",
    }
    return ModelSpec(**{**base, **changes})


def device(**changes: Any) -> Gpu:
    """A data-centre GPU of 100 GiB reported, 100 GB labelled, 1000 GB/s, 100 TFLOPS."""
    base: dict[str, Any] = {
        "id": "test-100",
        "name": "Test 100",
        "vendor": "nvidia",
        "architecture": "test",
        "gpu_class": "datacenter",
        "memory_marketed_gb": D(100),
        "memory_reported_mib": 102_400,
        "bandwidth_gb_s": D(1000),
        "dense_tflops": {"bf16": D(100), "fp8": D(200), "fp4": D(400)},
        "native_formats": frozenset(("bf16", "fp8", "fp4", "int8")),
        "engines": ("vllm", "llama.cpp"),
        "link_gb_s": D(100),
        "source": "test",
    }
    return Gpu(**{**base, **changes})


def weight_format(name: str, bits: str, **changes: Any) -> WeightFormat:
    base: dict[str, Any] = {
        "id": name,
        "name": name.upper(),
        "bits_per_weight": D(bits),
        "fidelity": 50,
        "engines": ("vllm",),
        "source": "test",
    }
    return WeightFormat(**{**base, **changes})


BF16 = weight_format("bf16", "16", engines=("vllm", "llama.cpp"), fidelity=100)
FP8 = weight_format("fp8", "8", compute="fp8", fidelity=80)
INT8 = weight_format("int8", "8", compute="int8", fallback_compute=None, fidelity=80)
NVFP4 = weight_format("nvfp4", "4.5", compute="fp4", fidelity=40)
Q4 = weight_format("q4_k_m", "4.82", engines=("llama.cpp",), fidelity=40)
FORMATS: Mapping[str, WeightFormat] = {f.id: f for f in (BF16, FP8, INT8, NVFP4, Q4)}


def build(size_bytes: int | None, weight_format: str = "bf16", kind: Any = "official") -> Checkpoint:
    return Checkpoint(name=f"{kind} {weight_format}", kind=kind, weight_format=weight_format, size_bytes=size_bytes, source="test listing")
