"""The catalogue of facts: GPUs, weight formats, models, and which of them a printed name means. Exact or not at all."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from engine.formats import WeightFormat
from engine.gpus import Gpu
from engine.models import ModelSpec
from tracker.facts.gpus import GpuName, Instance, load_formats, load_gpu_names, load_gpus, load_instances
from tracker.facts.models import ModelAlias, load_models, model_paths

ANY = "any"  # names that mean the same GPU in every catalogue
OWN_IDS = ""  # in the place of a source: names are our own ids
TABLES = ("formats.toml", "gpus.toml", "gpu_names.toml", "instances.csv")


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


def load_catalogue(config_dir: Path, user_dir: Path | None = None) -> Catalogue:
    """Everything in ``config_dir``; the user's tables and files of the same name replace whole ones. ConfigError says what is wrong."""
    formats = load_formats(config_dir, user_dir)
    gpus = load_gpus(config_dir, user_dir)
    models, aliases = load_models(config_dir, user_dir, formats, gpus)
    return Catalogue(
        gpus=gpus,
        formats=formats,
        models=models,
        gpu_names=load_gpu_names(config_dir, user_dir, gpus),
        instances=load_instances(replaced("instances.csv", config_dir, user_dir), gpus),
        model_aliases=aliases,
        digest=_digest(config_dir, user_dir),
    )


def replaced(name: str, config_dir: Path, user_dir: Path | None) -> Path:
    """The user's file of that name where there is one, else the shipped one."""
    return user_dir / name if user_dir and (user_dir / name).exists() else config_dir / name


def _digest(config_dir: Path, user_dir: Path | None) -> str:
    shared = [folder / name for folder in (config_dir, user_dir) if folder for name in TABLES]
    digest = hashlib.sha256()
    for path in (*(p for p in shared if p.exists()), *model_paths(config_dir, user_dir).values()):
        body = path.read_bytes()
        digest.update(f"{path.name}\0{len(body)}\0".encode() + body)
    return digest.hexdigest()
