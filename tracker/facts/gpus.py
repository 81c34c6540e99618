"""GPUs, weight formats, the names catalogues give to GPUs, and what is inside named instance types."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from engine.facts import Fact
from engine.formats import WeightFormat
from engine.gpus import Gpu
from tracker.config import read_tables
from tracker.errors import ConfigError, did_you_mean
from tracker.facts.schema import FormatTable, GpuTable, MemoryName
from tracker.facts.toml import chosen, other, stated, validated, whole
from tracker.facts.values import GpuName, Instance

INSTANCE_COLUMNS = ("provider", "sku", "gpu", "gpu_count", "verified", "source", "checked")


def load_formats(config_dir: Path, user_dir: Path | None) -> dict[str, WeightFormat]:
    """Weight formats by id."""
    tables, origin = read_tables("formats.toml", config_dir, user_dir)
    return {name: _format(name, validated(FormatTable, table, origin[name], name)) for name, table in tables.items()}


def _format(name: str, table: FormatTable) -> WeightFormat:
    return WeightFormat(
        id=name,
        name=table.name,
        bits_per_weight=table.bits_per_weight,
        fidelity=table.fidelity,
        engines=table.engines,
        compute=table.compute,
        fallback_compute=None if table.fallback_compute == "none" else table.fallback_compute,
        bytes_per_param_by_basis=table.bytes_per_param_by_basis,
        source=table.source,
    )


def load_gpus(config_dir: Path, user_dir: Path | None) -> dict[str, Gpu]:
    """GPUs and unified-memory boxes by id."""
    tables, origin = read_tables("gpus.toml", config_dir, user_dir)
    return {name: _gpu(name, validated(GpuTable, table, origin[name], name), origin[name]) for name, table in tables.items()}


def _gpu(name: str, table: GpuTable, path: Path) -> Gpu:
    facts = _gpu_facts(table)
    marketed = chosen(facts, "memory_marketed_gb")
    if marketed is None:
        raise ConfigError(f"{path}: [{name}] memory_marketed_gb: no value that can be chosen")
    flops = {k: v for k in ("bf16", "fp8", "fp4", "int8") if (v := getattr(table.dense_tflops, k, None)) is not None}
    return Gpu(
        id=name,
        name=table.name,
        vendor=table.vendor,
        architecture=table.architecture,
        gpu_class=table.gpu_class,
        memory_marketed_gb=marketed,
        memory_reported_mib=whole(facts, "memory_reported_mib", f"{path}: [{name}]"),
        usable_share=table.usable_share,
        bandwidth_gb_s=chosen(facts, "bandwidth_gb_s"),
        dense_tflops=flops,
        native_formats=frozenset(table.native_formats),
        engines=table.engines,
        node_gpus=table.node_gpus,
        link=table.link,
        link_gb_s=table.link_gb_s,
        facts=tuple(facts),
        source=table.source,
    )


def _gpu_facts(table: GpuTable) -> list[Fact]:
    facts: list[Fact] = []
    for field in ("memory_marketed_gb", "memory_reported_mib", "bandwidth_gb_s"):
        facts += stated(field, getattr(table, field), basis="vendor", source=table.source, checked=table.checked)
    flops = table.dense_tflops
    for compute in ("bf16", "fp8", "fp4", "int8") if flops else ():
        value = getattr(flops, compute)
        if flops and value is not None:
            field = f"dense_tflops.{compute}"
            when = flops.checked or table.checked
            facts.append(Fact(field=field, value=value, unit="TFLOPS", basis=flops.basis, source=flops.source, checked=when))
    return facts + other(table.facts, table.checked)


def load_gpu_names(config_dir: Path, user_dir: Path | None, gpus: Mapping[str, Gpu]) -> dict[str, dict[str, GpuName]]:
    """Exact names by catalogue (``any``: names that mean the same everywhere); every one leads to a known GPU."""
    tables, origin = read_tables("gpu_names.toml", config_dir, user_dir)
    names: dict[str, dict[str, GpuName]] = {}
    for catalogue, table in tables.items():
        if not isinstance(table, dict):
            raise ConfigError(f"{origin[catalogue]}: {catalogue} must be a table of names, found {type(table).__name__}")
        names[catalogue] = {name: _gpu_name(value, origin[catalogue], f'{catalogue}."{name}"', gpus) for name, value in table.items()}
    return names


def _gpu_name(value: Any, path: Path, where: str, gpus: Mapping[str, Gpu]) -> GpuName:
    if isinstance(value, str):
        return GpuName(gpu=_known(value, gpus, f"{path}: [{where}]"))
    if not isinstance(value, list) or not value:
        raise ConfigError(f"{path}: [{where}] must be a GPU id or a list of {{ memory_gb, gpu }}, found {type(value).__name__}")
    entries = [validated(MemoryName, entry, path, where) for entry in value]
    return GpuName(by_memory=tuple((e.memory_gb, _known(e.gpu, gpus, f"{path}: [{where}]")) for e in entries))


def _known(gpu: str, gpus: Mapping[str, Gpu], place: str) -> str:
    if gpu not in gpus:
        raise ConfigError(f"{place} unknown GPU {gpu!r}{did_you_mean(gpu, gpus)}")
    return gpu


def load_instances(path: Path, gpus: Mapping[str, Gpu]) -> dict[tuple[str, str], Instance]:
    """Instance types by exact (provider, sku)."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        if tuple(rows.fieldnames or ()) != INSTANCE_COLUMNS:
            raise ConfigError(f"{path}: columns must be {','.join(INSTANCE_COLUMNS)}, found {','.join(rows.fieldnames or ())}")
        return _instances(path, list(rows), gpus)


def _instances(path: Path, rows: Sequence[Mapping[str, str]], gpus: Mapping[str, Gpu]) -> dict[tuple[str, str], Instance]:
    instances: dict[tuple[str, str], Instance] = {}
    for line, row in enumerate(rows, start=2):
        place, key = f"{path}: line {line}", (row["provider"], row["sku"])
        if key in instances:
            raise ConfigError(f"{place}: {row['provider']} {row['sku']} is listed twice")
        if not row["source"] or not row["checked"]:
            raise ConfigError(f"{place}: source and checked must be given")
        instances[key] = Instance(
            gpu=_known(row["gpu"], gpus, f"{place}:"),
            gpu_count=_count(row["gpu_count"], place),
            verified=row["verified"] == "yes",
            source=row["source"],
        )
    return instances


def _count(text: str, place: str) -> Decimal:
    try:
        count = Decimal(text)
    except InvalidOperation as error:
        raise ConfigError(f"{place}: gpu_count must be a number, found {text!r}") from error
    if not count.is_finite() or count <= 0:
        raise ConfigError(f"{place}: gpu_count must be above 0, found {text!r}")
    return count
