"""What the catalogue's files may hold: strict tables, before they become values of the engine."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from tracker.strict import Strict

Basis = Literal[
    "files", "config", "measured", "vendor", "recipe", "secondary", "rounded", "derived", "idealised", "overhead", "memory"
]  # fmt: skip
Compute = Literal["bf16", "fp16", "fp8", "fp4", "int8"]
Engine = Literal["vllm", "llama.cpp"]
Text = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=1)]
Positive = Annotated[Decimal, Field(gt=0)]


class Sourced(Strict):
    """A table that says where its figures come from and when that was looked at."""

    source: Text
    checked: date


class FactTable(Strict):
    """One stated value. Without basis and source it is the enclosing table's own."""

    value: Positive
    basis: Basis | None = None
    source: str = ""
    checked: date | None = None

    @model_validator(mode="after")
    def _basis_needs_source(self) -> FactTable:
        if (self.basis is None) != (not self.source):
            raise ValueError("a stated value needs both basis and source")
        return self


def _as_list(value: Any) -> Any:
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return [{"value": value}]
    if not isinstance(value, dict | list):
        raise ValueError("must be a number, or tables of value, basis and source")
    return [value] if isinstance(value, dict) else value


Facts = Annotated[tuple[FactTable, ...], BeforeValidator(_as_list), Field(min_length=1)]


class OtherFact(Strict):
    """A stated value of a field that is no key of the table."""

    field: Text
    value: Positive
    unit: Text
    basis: Basis
    source: Text
    checked: date | None = None


class FormatTable(Sourced):
    """One table of ``formats.toml``."""

    name: Text
    bits_per_weight: Positive
    fidelity: Annotated[int, Field(ge=0, le=100)]
    engines: tuple[Engine, ...]
    compute: Compute = "bf16"
    fallback_compute: Literal["bf16", "fp8", "none"] = "bf16"
    bytes_per_param_by_basis: dict[str, Positive] = Field(default_factory=dict)


class FlopsTable(Strict):
    """Dense TFLOPS by compute format."""

    bf16: Positive | None = None
    fp8: Positive | None = None
    fp4: Positive | None = None
    int8: Positive | None = None
    basis: Basis
    source: Text
    checked: date | None = None


class GpuTable(Sourced):
    """One table of ``gpus.toml``."""

    name: Text
    vendor: Literal["nvidia", "amd", "intel", "google", "apple"]
    architecture: Text
    gpu_class: Literal["datacenter", "workstation", "consumer", "unified"]
    engines: tuple[Engine, ...]
    native_formats: tuple[Compute, ...]
    memory_marketed_gb: Facts
    memory_reported_mib: Facts | None = None
    usable_share: Annotated[Decimal, Field(gt=0, le=1)] = Decimal(1)
    bandwidth_gb_s: Facts | None = None
    dense_tflops: FlopsTable | None = None
    node_gpus: Count = 8
    link: Text = "unknown"
    link_gb_s: Positive | None = None
    facts: tuple[OtherFact, ...] = ()


class MemoryName(Strict):
    """One meaning of a name that several GPUs share: told apart by memory."""

    memory_gb: Positive
    gpu: Text
