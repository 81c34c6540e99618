"""Workloads (``workloads.toml``) and what price lists leave out about providers of tokens (``providers.toml``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

from pydantic import Field

from engine.models import ModelSpec
from engine.rate_choice import RatePolicy
from engine.workloads import StatedCapacity, TokenMix, Workload, requests_per_month
from tracker.config import read_tables
from tracker.errors import ConfigError, UnknownName, did_you_mean
from tracker.facts.toml import validated
from tracker.strict import Strict


class MixTable(Strict):
    """Tokens of one request by kind."""

    input: int = 0
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    output: int = 0


class CapacityTable(Strict):
    """A measured capacity."""

    model: str
    gpu: str
    gpu_count: int = Field(ge=1)
    weight_format: str = ""
    requests_per_month: Decimal = Field(gt=0)
    source: str = Field(min_length=1)
    checked: date


class WorkloadTable(Strict):
    """One table of ``workloads.toml``."""

    name: str
    mix: MixTable
    requests_per_month: Decimal | None = None
    users: int | None = None
    requests_per_user_workday: Decimal | None = None
    workdays_per_month: int | None = None
    context: int
    sessions: int = 1
    utilization: Decimal = Decimal(1)
    batch_share: Decimal = Decimal(0)
    cold_start_share: Decimal = Decimal(0)
    hour_shares: tuple[Decimal, ...] = ()
    min_tok_s_per_user: Decimal | None = None
    max_ttft_s: Decimal | None = None
    capacities: tuple[CapacityTable, ...] = ()
    source: str = ""
    checked: date | None = None


class ProviderTable(Strict):
    """One table of ``providers.toml``."""

    name: str
    organisations: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    source: str = Field(min_length=1)
    checked: date


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A seller of tokens: whose vendor it is, and other spellings of its id."""

    id: str
    name: str
    organisations: tuple[str, ...]
    aliases: tuple[str, ...]


def load_workloads(config_dir: Path, user_dir: Path | None = None) -> dict[str, Workload]:
    """Workloads by id; ConfigError names file, table and reason."""
    tables, origin = read_tables("workloads.toml", config_dir, user_dir)
    return {name: _workload(name, validated(WorkloadTable, table, origin[name], name), origin[name]) for name, table in tables.items()}


def _workload(name: str, table: WorkloadTable, path: Path) -> Workload:
    try:
        values: dict[str, Any] = {key: getattr(table, key) for key in _SAME}
        capacities = tuple(StatedCapacity(**entry.model_dump()) for entry in table.capacities)
        mix = TokenMix(**table.mix.model_dump())
        return Workload(id=name, mix=mix, requests_per_month=_requests(table), capacities=capacities, **values)
    except ValueError as error:
        raise ConfigError(f"{path}: [{name}] {error}") from error


_SAME = (
    "name", "context", "sessions", "utilization", "batch_share", "cold_start_share", "hour_shares", "min_tok_s_per_user", "max_ttft_s",
    "source", "checked",
)  # fmt: skip


def _requests(table: WorkloadTable) -> Decimal:
    team = (table.users, table.requests_per_user_workday, table.workdays_per_month)
    if table.requests_per_month is not None and team == (None, None, None):
        return table.requests_per_month
    users, each, days = team
    if table.requests_per_month is None and users is not None and each is not None and days is not None:
        return requests_per_month(users=users, per_user_workday=each, workdays=days)
    raise ValueError("state either requests_per_month, or users, requests_per_user_workday and workdays_per_month")


def load_providers(config_dir: Path, user_dir: Path | None = None) -> dict[str, Provider]:
    """Providers of tokens by id."""
    tables, origin = read_tables("providers.toml", config_dir, user_dir)
    return {name: _provider(name, validated(ProviderTable, table, origin[name], name)) for name, table in tables.items()}


def _provider(name: str, table: ProviderTable) -> Provider:
    return Provider(id=name, name=table.name, organisations=table.organisations, aliases=table.aliases)


def find_workload(workloads: Mapping[str, Workload], name: str) -> Workload:
    """The workload of that id; UnknownName with the closest one."""
    if name not in workloads:
        raise UnknownName(f"no workload named {name!r}{did_you_mean(name, workloads)}; workloads.toml has {', '.join(workloads)}")
    return workloads[name]


def rate_policy(model: ModelSpec, providers: Mapping[str, Provider], skus: tuple[str, ...], source_order: tuple[str, ...]) -> RatePolicy:
    """Which price lists of ``model`` are compared; the vendor's own is the official one."""
    official = next((p.id for p in providers.values() if model.organisation in p.organisations), None)
    return RatePolicy(skus=skus, source_order=source_order, official_provider=official)
