"""Models: one file each, ``models/<id>.toml``, with every stated figure, and the exact spellings that mean it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from engine.facts import Fact
from engine.formats import WeightFormat
from engine.gpus import Gpu
from engine.models import Checkpoint, LayerGroup, Licence, ModelSpec, RecordedCapacity
from engine.replicas import missing_experts
from tracker.config import read_toml
from tracker.errors import ConfigError, did_you_mean
from tracker.facts.model_schema import AliasTable, CapacityTable, CheckpointTable, LayerGroupTable, ModelTable
from tracker.facts.toml import other, stated, validated, whole
from tracker.facts.values import ModelAlias

MODEL_ID = re.compile(r"[a-z0-9]+([.-][a-z0-9]+)*")
FACT_KEYS = ("params", "params_active", "params_16bit", "kv_bytes_per_token")
GROUP_UNITS = {
    "count": "layers",
    "kv_heads": "heads",
    "k_dim": "elements",
    "v_dim": "elements",
    "window": "tokens",
    "index_dim": "elements",
    "index_scale_bytes": "B",
    "state_bytes": "B",
}


AS_WRITTEN = {
    *("name", "organisation", "native_format", "context", "modalities", "source", "checked", "dense_layers", "tied_embeddings"),
    *("attention_heads", "hidden_size", "vocab_size", "experts", "experts_per_token", "shared_experts", "moe_intermediate"),
}
Aliases = dict[tuple[str, str], ModelAlias]


def model_paths(config_dir: Path, user_dir: Path | None) -> dict[str, Path]:
    """Model files by id; the user's file replaces the shipped one of the same name."""
    found = {path.stem: path for folder in (config_dir, user_dir) if folder for path in sorted((folder / "models").glob("*.toml"))}
    for name, path in found.items():
        if not MODEL_ID.fullmatch(name):
            raise ConfigError(f"{path}: the file name is the model's id: lower-case letters, digits, single dots and dashes")
    return dict(sorted(found.items()))


def load_models(
    config_dir: Path, user_dir: Path | None, formats: Mapping[str, WeightFormat], gpus: Mapping[str, Gpu]
) -> tuple[dict[str, ModelSpec], Aliases]:
    """Models by id, and the model of each (provider or source, spelling)."""
    models: dict[str, ModelSpec] = {}
    aliases: Aliases = {}
    paths = model_paths(config_dir, user_dir)
    for name, path in paths.items():
        table = validated(ModelTable, read_toml(path), path)
        _check_names(table, path, formats, gpus)
        models[name] = model_spec(name, table, path)
        for key, alias in _aliases(name, table):
            if aliases.get(key, alias) != alias:
                raise ConfigError(f"{path}: alias {key[1]!r} of {key[0]} already means {aliases[key].model} ({paths[aliases[key].model]})")
            aliases[key] = alias
    return models, aliases


def _aliases(name: str, table: ModelTable) -> Iterable[tuple[tuple[str, str], ModelAlias]]:
    for provider, spellings in table.aliases.items():
        for spelling in spellings:
            entry = spelling if isinstance(spelling, AliasTable) else AliasTable(id=spelling)
            yield (provider, entry.id), ModelAlias(model=name, sku=entry.sku or None, region=entry.region)


def _check_names(table: ModelTable, path: Path, formats: Mapping[str, WeightFormat], gpus: Mapping[str, Gpu]) -> None:
    for name in (table.native_format, *(c.weight_format for c in table.checkpoints)):
        if name not in formats:
            raise ConfigError(f"{path}: unknown weight format {name!r}{did_you_mean(name, formats)}")
    for capacity in table.recorded_capacity:
        if capacity.gpu not in gpus:
            raise ConfigError(f"{path}: unknown GPU {capacity.gpu!r}{did_you_mean(capacity.gpu, gpus)}")
    covered = sum(group.count for group in table.layer_groups) + table.cacheless_layers
    if table.layer_groups and covered != table.layers:
        raise ConfigError(f"{path}: layer_groups and cacheless_layers count {covered} layers, layers says {table.layers}")
    kinds = [entry.kind for entry in table.dates]
    if len(kinds) != len(set(kinds)):
        raise ConfigError(f"{path}: dates: one entry a kind, found {', '.join(kinds)}")


def model_spec(name: str, table: ModelTable, path: Path) -> ModelSpec:
    """The engine's value of one model file."""
    facts = _facts(table)
    numbers = {key: whole(facts, key, f"{path}:") for key in FACT_KEYS}
    params = numbers["params"]
    if params is None:
        raise ConfigError(f"{path}: params: no value that can be chosen")
    return ModelSpec(
        id=name,
        params=params,
        params_active=numbers["params_active"],
        params_16bit=numbers["params_16bit"],
        kv_bytes_per_token=numbers["kv_bytes_per_token"],
        layers=table.layers,
        layer_groups=tuple(LayerGroup(**g.model_dump(exclude_none=True, exclude={"basis", "source"})) for g in table.layer_groups),
        dates={entry.kind: entry.day for entry in table.dates},
        licence=Licence(**table.licence.model_dump()) if table.licence else None,
        checkpoints=tuple(Checkpoint(**_dated(entry, table)) for entry in table.checkpoints),
        recorded_capacity=tuple(RecordedCapacity(**_dated(entry, table)) for entry in table.recorded_capacity),
        benchmarks={b.name: f"{b.score} ({b.measured_by}; {b.source})" for b in table.benchmarks},
        facts=tuple(facts),
        **table.model_dump(include=AS_WRITTEN),
    )


def _dated(entry: CheckpointTable | CapacityTable, table: ModelTable) -> dict[str, Any]:
    return entry.model_dump() | {"checked": entry.checked or table.checked}


def missing_facts(model: ModelSpec) -> tuple[str, ...]:
    """What is not known and sizing or a throughput estimate needs, by field; empty for a model that can be sized and timed."""
    missing = []
    if not model.layers:
        missing.append("layers")
    if not model.layer_groups and model.kv_bytes_per_token is None:
        missing.append("layer_groups (or a measured kv_bytes_per_token)")
    if model.params_active is None:
        missing.append("params_active")
    return tuple(dict.fromkeys((*missing, *missing_experts(model))))


def _facts(table: ModelTable) -> list[Fact]:
    facts: list[Fact] = []
    for key in FACT_KEYS:
        facts += stated(key, getattr(table, key), basis=table.basis, source=table.source, checked=table.checked)
    for number, group in enumerate(table.layer_groups, start=1):
        facts += _group_facts(f"layer_groups.{number}", group, table)
    return facts + other(table.facts, table.checked)


def _group_facts(prefix: str, group: LayerGroupTable, table: ModelTable) -> list[Fact]:
    """One fact a number of the group, so that what is written from general knowledge says so."""
    return [
        Fact(
            field=f"{prefix}.{key}",
            value=Decimal(value),
            unit=unit,
            basis=group.basis or table.basis,
            source=group.source or table.source,
            checked=table.checked,
        )
        for key, unit in GROUP_UNITS.items()
        if (value := getattr(group, key)) is not None
    ]
