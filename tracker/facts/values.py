"""What the facts are once they have been read: values, and the names that mean them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from engine.formats import WeightFormat
from engine.gpus import Gpu
from engine.models import ModelSpec
from engine.throughput import ThroughputPoint

MEMORY_TOLERANCE = Decimal("0.07")  # 39,936 MiB is sold as 40 GB, 81,559 MiB as 80 GB
ANY = "any"  # names that mean the same GPU in every catalogue
OWN_IDS = ""  # in the place of a source: names are our own ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """What one named instance type holds. ``gpu_count`` below 1 is a slice; unverified counts resolve to nothing."""

    gpu: str
    gpu_count: Decimal
    verified: bool
    source: str

    @property
    def whole(self) -> bool:
        """Whether it holds whole GPUs, for certain."""
        return self.verified and self.gpu_count == self.gpu_count.to_integral_value()


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuName:
    """What a name means: one GPU, or one by memory (marketed GB)."""

    gpu: str = ""
    by_memory: tuple[tuple[Decimal, str], ...] = ()

    def resolve(self, memory_gb: Decimal | None) -> str | None:
        """The GPU's id; None when the memory is unknown or does not single one out."""
        if self.gpu:
            return self.gpu
        near = {g for m, g in self.by_memory if memory_gb is not None and abs(memory_gb - m) <= m * MEMORY_TOLERANCE}
        return near.pop() if len(near) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAlias:
    """The model a spelling means. ``sku`` or ``region`` is set where the spelling names another one (kimi-k3.1-pro-highspeed)."""

    model: str
    sku: str | None = None
    region: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """All facts of one start; never changes while the daemon runs. ``digest`` changes whenever a fact or a name does."""

    gpus: Mapping[str, Gpu]
    formats: Mapping[str, WeightFormat]
    models: Mapping[str, ModelSpec]
    gpu_names: Mapping[str, Mapping[str, GpuName]]
    instances: Mapping[tuple[str, str], Instance]
    model_aliases: Mapping[tuple[str, str], ModelAlias]
    digest: str

    def gpu_for(self, source: str, provider: str, name: str, *, memory_gb: Decimal | None = None, sku: str = "") -> str | None:
        """The id of the GPU a source means by ``name``: instance type, the source's own names, names that hold everywhere, or None."""
        instance = self.instances.get((provider, sku))
        if instance is not None:
            return instance.gpu if instance.whole else None
        if source == OWN_IDS and name in self.gpus:
            return name
        for catalogue in (source, ANY):
            meaning = self.gpu_names.get(catalogue, {}).get(name)
            if meaning is not None:
                return meaning.resolve(memory_gb)
        return None

    def model_for(self, source: str, provider: str, source_model_id: str) -> ModelAlias | None:
        """The model an id means, as its provider or (where ids name the provider themselves) its source spells it."""
        if source == OWN_IDS and source_model_id in self.models:
            return ModelAlias(model=source_model_id)
        return self.model_aliases.get((provider, source_model_id)) or self.model_aliases.get((source, source_model_id))


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The catalogue, and measured throughput."""

    catalogue: Catalogue
    points: tuple[ThroughputPoint, ...]
