"""Facts of one open-weight model, as a list of layer groups: no scalar field can describe a hybrid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Literal

from engine.facts import Fact

AttentionKind = Literal["gqa", "mla", "linear"]
CheckpointKind = Literal["official", "community", "pruned"]

__all__ = ["AttentionKind", "Checkpoint", "CheckpointKind", "Fact", "LayerGroup", "Licence", "ModelSpec", "RecordedCapacity"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerGroup:
    """``count`` equal layers and what one of them caches.

    gqa: ``kv_heads`` x (``k_dim`` + ``v_dim``) elements a token, up to ``window`` tokens where set.
    mla: one latent of ``k_dim`` (compressed rank) + ``v_dim`` (RoPE) elements a token, stored once, plus ``index_dim``
    indexer elements and ``index_scale_bytes`` where sparse attention keeps them.
    linear: ``state_bytes`` per sequence, whatever its length.
    """

    count: int
    kind: AttentionKind
    kv_heads: int = 0
    k_dim: int = 0
    v_dim: int = 0
    window: int | None = None
    index_dim: int = 0
    index_scale_bytes: int = 0
    state_bytes: int = 0  # per layer and sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """One downloadable build. ``size_bytes`` is the sum of its weight files; None is unknown."""

    name: str
    kind: CheckpointKind
    weight_format: str
    size_bytes: int | None
    engine: str = ""
    engine_min_version: str = ""
    quality: str = ""
    source: str = ""
    checked: date | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCapacity:
    """Cache tokens one deployment holds as its engine or recipe reports them. ``dcp`` is decode context parallelism, 1 is off."""

    gpu: str
    gpu_count: int
    cache_format: str
    tokens: int
    dcp: int = 1
    source: str = ""
    checked: date | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Licence:
    """Licence name and its conditions; ``verified`` is False where nobody read the text."""

    name: str
    conditions: str = ""
    verified: bool = False
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """What sizing needs to know of a model. Counts are parameters (not bytes); None is unknown.

    ``params_16bit`` of the total stay 16-bit in the native checkpoint (attention, shared experts, embeddings).
    """

    id: str
    name: str
    organisation: str
    params: int
    params_active: int | None
    params_16bit: int | None = None
    layers: int | None  # None is unknown: no split by layers can be judged
    layer_groups: tuple[LayerGroup, ...] = ()
    attention_heads: int | None = None
    hidden_size: int | None = None
    vocab_size: int | None = None
    experts: int | None = None
    experts_per_token: int | None = None
    shared_experts: int | None = None
    moe_intermediate: int | None = None
    dense_layers: int = 0  # leading layers without routed experts
    tied_embeddings: bool = False  # the output head is the embedding matrix
    native_format: str
    context: int | None = None
    modalities: tuple[str, ...] = ("text",)
    dates: Mapping[str, date] = field(default_factory=dict)  # announced, api, weights
    licence: Licence | None = None
    checkpoints: tuple[Checkpoint, ...] = ()
    facts: tuple[Fact, ...] = ()
    kv_bytes_per_token: int | None = None  # measured, overrides the formula of the layer groups
    recorded_capacity: tuple[RecordedCapacity, ...] = ()
    benchmarks: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    checked: date | None = None

    @property
    def official_checkpoint(self) -> Checkpoint | None:
        """The vendor's own build with a known size; the default answer to 'how large is it'."""
        return next((c for c in self.checkpoints if c.kind == "official" and c.size_bytes is not None), None)
