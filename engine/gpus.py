"""Hardware facts of one GPU (or one unified-memory box counted as one device)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from engine.facts import Fact, choose
from engine.units import GB, GIB, MIB

GpuClass = Literal["datacenter", "workstation", "consumer", "unified"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """Facts of one device. Marketed and reported memory stay apart: a label of 288 GB reports 275,040 MiB.

    ``dense_tflops`` is by compute format (bf16, fp8, fp4, int8), dense, per device; a missing key is unknown.
    ``native_formats`` are the compute formats the silicon runs without dequantizing (bf16, fp8, fp4, ...).
    ``engines`` are the serving engines that are offered on it (vllm, llama.cpp).
    """

    id: str
    name: str
    vendor: str
    architecture: str
    gpu_class: GpuClass
    memory_marketed_gb: Decimal
    memory_reported_mib: int | None
    usable_share: Decimal = Decimal(1)  # of the memory the device can give a model at all (0.75 on a Mac)
    bandwidth_gb_s: Decimal | None = None  # 10**9 bytes per second
    dense_tflops: Mapping[str, Decimal] = field(default_factory=dict)
    native_formats: frozenset[str] = frozenset()
    engines: tuple[str, ...] = ("vllm",)
    node_gpus: int = 8  # GPUs of the usual whole node; 1 for a box
    link: str = "unknown"
    link_gb_s: Decimal | None = None  # 10**9 bytes per second, one direction, GPU to GPU in a node
    facts: tuple[Fact, ...] = ()  # other stated values: bandwidth_gb_s, node_memory_gb, rack_gpus
    source: str = ""

    @property
    def memory_bytes(self) -> int:
        """Bytes of device memory: as reported where known, else the marketed figure read as GiB."""
        if self.memory_reported_mib is not None:
            return self.memory_reported_mib * MIB
        return int(self.memory_marketed_gb * GIB)

    @property
    def usable_bytes(self) -> int:
        """Bytes the device can give a model before any policy reserve."""
        return int(self.memory_bytes * self.usable_share)

    @property
    def marketed_bytes(self) -> int:
        """Bytes of the label read as 10**9: what a data sheet adds up, not what a model can use."""
        return int(self.memory_marketed_gb * GB)


def rack_bytes(gpu: Gpu) -> int | None:
    """Bytes of a whole rack by its labels (10**9 a GB); None where nobody states how many GPUs a rack holds."""
    stated = choose(gpu.facts, "rack_gpus")
    return None if stated is None else int(stated.value) * gpu.marketed_bytes
