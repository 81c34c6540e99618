"""The catalogue of facts: GPUs, weight formats, models, and which of them a printed name means. Exact or not at all."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tracker.facts.gpus import load_formats, load_gpu_names, load_gpus, load_instances
from tracker.facts.models import load_models, model_paths
from tracker.facts.values import Catalogue as Catalogue

TABLES = ("formats.toml", "gpus.toml", "gpu_names.toml", "instances.csv")


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
