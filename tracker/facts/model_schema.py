"""What a model's file may hold: strict tables, before they become values of the engine."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal

from pydantic import Field, model_validator

from tracker.facts.schema import Basis, Count, Facts, OtherFact, Positive, Sourced, Text
from tracker.strict import Strict


class LayerGroupTable(Strict):
    """One ``[[layer_groups]]`` of a model."""

    count: Count
    kind: Literal["gqa", "mla", "linear"]
    kv_heads: Count | None = None
    k_dim: Count | None = None
    v_dim: Count | None = None
    window: Count | None = None
    index_dim: Count | None = None
    index_scale_bytes: Count | None = None
    state_bytes: Count | None = None
    basis: Basis | None = None
    source: str = ""

    @model_validator(mode="after")
    def _needs_its_fields(self) -> LayerGroupTable:
        needed = {"gqa": ("kv_heads", "k_dim", "v_dim"), "mla": ("k_dim", "v_dim"), "linear": ("state_bytes",)}[self.kind]
        allowed = {"gqa": (*needed, "window"), "mla": (*needed, "index_dim", "index_scale_bytes"), "linear": needed}[self.kind]
        if (self.basis is None) != (not self.source):
            raise ValueError("a group with its own basis needs its source, and the other way round")
        given = [name for name in self.model_fields_set if name not in ("count", "kind", "basis", "source")]
        for name in needed:
            if name not in given:
                raise ValueError(f"a group of kind {self.kind} needs {name}")
        for name in given:
            if name not in allowed:
                raise ValueError(f"a group of kind {self.kind} has no {name}")
        return self


class CheckpointTable(Strict):
    """One ``[[checkpoints]]`` of a model."""

    name: Text
    kind: Literal["official", "community", "pruned"]
    weight_format: Text
    size_bytes: Count | None = None
    engine: str = ""
    engine_min_version: str = ""
    quality: str = ""
    source: Text
    checked: date | None = None


class LicenceTable(Strict):
    """``[licence]`` of a model."""

    name: Text
    conditions: str = ""
    verified: bool = False
    source: Text


class DateTable(Strict):
    """One ``[[dates]]`` of a model."""

    kind: Literal["announced", "api", "weights_uploaded", "weights"]
    day: date
    source: Text


class BenchmarkTable(Strict):
    """One ``[[benchmarks]]`` of a model: a figure means nothing without who measured it."""

    name: Text
    score: Positive
    measured_by: Text
    source: Text


class CapacityTable(Strict):
    """One ``[[recorded_capacity]]`` of a model."""

    gpu: Text
    gpu_count: Count
    cache_format: Literal["bf16", "fp8", "nvfp4"]
    tokens: Count
    dcp: Count = 1
    source: Text
    checked: date | None = None


class AliasTable(Strict):
    """A spelling that is another sku or region of the model."""

    id: Text
    sku: str = ""
    region: str = ""


class ModelTable(Sourced):
    """``models/<id>.toml``."""

    name: Text
    organisation: Text
    basis: Basis = "config"  # of the figures that carry none of their own
    params: Facts
    params_active: Facts | None = None
    params_16bit: Facts | None = None
    layers: Count | None = None
    cacheless_layers: Annotated[int, Field(ge=0)] = 0  # layers that keep neither cache nor state
    layer_groups: tuple[LayerGroupTable, ...] = ()
    kv_bytes_per_token: Facts | None = None
    attention_heads: Count | None = None
    hidden_size: Count | None = None
    vocab_size: Count | None = None
    experts: Count | None = None
    experts_per_token: Count | None = None
    shared_experts: Count | None = None
    moe_intermediate: Count | None = None
    dense_layers: Annotated[int, Field(ge=0)] = 0
    tied_embeddings: bool = False
    native_format: Text
    context: Count | None = None
    modalities: tuple[Literal["text", "image", "audio", "video"], ...] = ("text",)
    dates: tuple[DateTable, ...] = ()
    licence: LicenceTable | None = None
    checkpoints: tuple[CheckpointTable, ...] = ()
    recorded_capacity: tuple[CapacityTable, ...] = ()
    benchmarks: tuple[BenchmarkTable, ...] = ()
    facts: tuple[OtherFact, ...] = ()
    aliases: dict[str, tuple[str | AliasTable, ...]] = Field(default_factory=dict)
