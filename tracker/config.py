"""Settings: TOML in the shipped ``config`` folder, whole tables replaced by files of the same name in the user's folder."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, RootModel, ValidationError, model_validator

from engine.offers import VOUCHED_FOR, Tier, Trust
from tracker.budgets.settings import BudgetsSettings
from tracker.errors import ConfigError, UnknownName, did_you_mean
from tracker.guard.settings import GpuBands, GuardSettings
from tracker.strict import Strict

HOUR_S = 3600


def whole_s(hours: float) -> int:
    """The whole seconds of an age limit: what is kept to the second is within the limit where it is within these."""
    return round(hours * HOUR_S * 1000) // 1000


MOST_DAYS = 36_600
MOST_QUESTIONS = 20  # beside the default one: each is worked out, kept and exported for every model, once a minute at least
YEAR_H = 366 * 24  # times beyond are slips of the pen, and infinity is a TOML number


class DatabaseSettings(Strict):
    """Where the history is kept, and how long a process that collects a source is left alone with it."""

    url: str = ""
    lease_s: float = Field(default=60, ge=1, le=HOUR_S)


class WebSettings(Strict):
    """Where the page, the API and ``/metrics`` listen, and the address people reach the page at."""

    host: str = "127.0.0.1"
    port: int = Field(default=10733, ge=0, le=65535)
    public_url: str = Field(default="", pattern=r"^(https?://[^\s?#]*[^\s?#/])?$")


class AlsoSettings(Strict):
    """A further question: what it leaves out is as in ``[track]``. ``name`` stands for the offers it admits."""

    name: str = Field(default="", pattern=r"^([a-z0-9][a-z0-9_-]{0,39})?$")
    workload: str = ""
    policy: str = ""
    models: tuple[str, ...] = ()
    tiers: tuple[Tier, ...] = ()
    trusts: tuple[Trust, ...] = ()
    providers: tuple[str, ...] = ()


class TrackSettings(Strict):
    """What is compared: models, the workload, the memory policy and which offers and rates are eligible; and what else is asked."""

    models: tuple[str, ...]
    workload: str
    policy: str = "studiotv"
    tiers: tuple[Tier, ...] = ("on_demand",)
    trusts: tuple[Trust, ...] = VOUCHED_FOR
    also: tuple[AlsoSettings, ...] = Field(default=(), max_length=MOST_QUESTIONS)
    skus: tuple[str, ...] = ("standard",)
    sessions: int = Field(default=1, ge=1)
    rate_sources: tuple[str, ...] = ()


class FetchSettings(Strict):
    """How gently and how long a source is asked. Times in seconds, sizes in bytes."""

    user_agent: str = Field(min_length=1)
    connect_timeout_s: float = Field(default=10, gt=0, le=HOUR_S)
    read_timeout_s: float = Field(default=30, gt=0, le=HOUR_S)
    deadline_s: float = Field(default=120, gt=0, le=HOUR_S)
    max_bytes: int = Field(default=64 * 2**20, gt=0)
    attempts: int = Field(default=4, ge=1, le=20)
    host_spacing_s: float = Field(default=1, ge=0, le=HOUR_S)


class BodiesSettings(Strict):
    """How long and how much of what the sources answered is kept. Sizes in bytes: all bodies compressed, one as it was read."""

    days: int = Field(default=30, ge=0, le=10 * 366)
    max_bytes: int = Field(default=512 * 2**20, ge=0)
    max_body_bytes: int = Field(default=32 * 2**20, ge=0)


class RecomputeSettings(Strict):
    """How often ages move when nothing is collected."""

    every_s: int = Field(default=60, ge=1, le=60)


class RetentionSettings(Strict):
    """How many days are kept; 0 is for ever."""

    points_days: int = Field(default=0, ge=0, le=MOST_DAYS)
    sweeps_days: int = Field(default=400, ge=0, le=MOST_DAYS)


class PrecedenceSettings(RootModel[dict[str, tuple[str, ...]]]):
    """Provider -> sources, first believed first."""

    model_config = ConfigDict(frozen=True, defer_build=True)


class BaselineSettings(RootModel[dict[str, Annotated[Decimal, Field(gt=0, le=10**6)]]]):
    """Model -> USD an hour of what is rented for it today: what a saving is measured against."""

    model_config = ConfigDict(frozen=True, defer_build=True)


class Settings(Strict):
    """``tracker.toml``."""

    database: DatabaseSettings = Field(default_factory=DatabaseSettings)
    web: WebSettings = Field(default_factory=WebSettings)
    track: TrackSettings
    fetch: FetchSettings
    bodies: BodiesSettings = Field(default_factory=BodiesSettings)
    recompute: RecomputeSettings = Field(default_factory=RecomputeSettings)
    guard: GuardSettings = Field(default_factory=GuardSettings)
    retention: RetentionSettings = Field(default_factory=RetentionSettings)
    precedence: PrecedenceSettings = Field(default_factory=lambda: PrecedenceSettings({}))
    baseline: BaselineSettings = Field(default_factory=lambda: BaselineSettings({}))
    budget: BudgetsSettings = Field(default_factory=lambda: BudgetsSettings({}))


class SourceSettings(Strict):
    """One table of ``sources.toml``."""

    kind: Literal["rent", "marketplace", "token", "fx"]
    base_url: str = Field(pattern=r"^https?://[^/\s]+")
    module: str = ""
    names: str = ""  # whose spellings of GPUs and models it uses, where not its own: a table of gpu_names.toml, a key of [aliases]
    regions: tuple[Annotated[str, Field(pattern=r"^[a-z0-9-]{1,40}$")], ...] = ()  # each takes the place of {region} in base_url
    interval_minutes: float = Field(gt=0, le=YEAR_H * 60)
    max_age_hours: float = Field(gt=0, le=YEAR_H)
    enabled: bool = True
    robots: bool = False
    auth: str = "none"
    key_env: str = ""
    deadline_s: float | None = Field(default=None, gt=0, le=HOUR_S)  # these two: instead of [fetch]
    host_spacing_s: float | None = Field(default=None, ge=0, le=HOUR_S)
    terms: str = ""
    licence: str = ""

    @model_validator(mode="after")
    def _regions_have_a_place(self) -> SourceSettings:
        if ("{region}" in self.base_url) != bool(self.regions) or set("{}") & set(self.base_url.replace("{region}", "")):
            raise ValueError("base_url must hold {region} where there are regions, and no other braces")
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A configured scraper."""

    id: str
    settings: SourceSettings

    @property
    def module(self) -> str:
        """Name of its module in ``scrapers``."""
        return self.settings.module or self.id

    @property
    def names(self) -> str:
        """Whose spellings of GPUs and models it uses."""
        return self.settings.names or self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything read at start-up; never changes while the daemon runs."""

    settings: Settings
    sources: Mapping[str, Source]
    config_dir: Path
    user_dir: Path | None

    def source(self, name: str) -> Source:
        """The source of that id; UnknownName with the closest one when there is none."""
        if name not in self.sources:
            raise UnknownName(f"no source named {name!r}{did_you_mean(name, self.sources)}; breakeven sources lists them")
        return self.sources[name]


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file with exact decimals; ConfigError with file, line and reason when it is none."""
    try:
        with path.open("rb") as file:
            return tomllib.load(file, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start})") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error


def read_tables(name: str, config_dir: Path, user_dir: Path | None) -> tuple[dict[str, Any], dict[str, Path]]:
    """The tables of ``name`` and the file each came from; the user's file replaces whole tables."""
    tables: dict[str, Any] = {}
    origin: dict[str, Path] = {}
    for path in [config_dir / name, *([user_dir / name] if user_dir else [])]:
        if path == config_dir / name or path.exists():
            found = read_toml(path)
            tables.update(found)
            origin.update(dict.fromkeys(found, path))
    return tables, origin


def load_config(config_dir: Path, user_dir: Path | None = None) -> Config:
    """Settings and sources; ConfigError names file, key and reason, with the closest known key."""
    tables, origin = read_tables("tracker.toml", config_dir, user_dir)
    for name in tables:
        if name == "alerts":
            raise ConfigError(f"{origin[name]}: [alerts] has a file of its own; move it to [rules] and [routes] of alerts.toml")
        if name not in Settings.model_fields:
            raise ConfigError(f"{origin[name]}: unknown table [{name}]{did_you_mean(name, Settings.model_fields)}")
    parts = {n: validated(Settings.model_fields[n].annotation, t, origin[n], n) for n, t in tables.items()}
    missing = [n for n, f in Settings.model_fields.items() if f.is_required() and n not in parts]
    if missing:
        raise ConfigError(f"{config_dir / 'tracker.toml'}: table [{missing[0]}] is missing; restore it from the shipped file")
    parts["guard"] = (parts.get("guard") or GuardSettings()).model_copy(update={"bands": _load_bands(config_dir, user_dir)})
    settings = Settings.model_construct(**parts)  # of tables that have been checked, one by one
    return Config(settings=settings, sources=_load_sources(config_dir, user_dir), config_dir=config_dir, user_dir=user_dir)


def _load_bands(config_dir: Path, user_dir: Path | None) -> dict[str, GpuBands]:
    """``gpu_bands.toml``: what a GPU-hour may cost, by GPU and tier."""
    tables, origin = read_tables("gpu_bands.toml", config_dir, user_dir)
    return {gpu: validated(GpuBands, table, origin[gpu], gpu) for gpu, table in tables.items()}


def _load_sources(config_dir: Path, user_dir: Path | None) -> dict[str, Source]:
    tables, origin = read_tables("sources.toml", config_dir, user_dir)
    return {n: Source(id=n, settings=validated(SourceSettings, t, origin[n], n)) for n, t in sorted(tables.items())}


def validated(model: Any, table: Any, path: Path, name: str) -> Any:
    """``table`` as ``model``; ConfigError with file, table, key and reason."""
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: {name} must be a table, found {type(table).__name__}; write it as [{name}]")
    try:
        return model.model_validate(table)
    except ValidationError as error:
        first = max(error.errors(), key=lambda e: e["type"] == "extra_forbidden")  # a misspelt key says more than the one that is missing
        key = ".".join(str(part) for part in first["loc"])
        hint = did_you_mean(key, model.model_fields) if first["type"] == "extra_forbidden" else ""
        reason = "unknown key" if first["type"] == "extra_forbidden" else first["msg"]
        raise ConfigError(f"{path}: [{name}] {key}: {reason}{hint}") from error


def base_urls(source: Source) -> dict[str, str]:
    """The base URL of each region of a source; "" where it has none."""
    address = source.settings.base_url
    return {region: address.replace("{region}", region) for region in source.settings.regions} or {"": address}


def hidden_of(source: Source) -> tuple[str, ...]:
    """What of the source's key must never be shown: the whole, and what follows the name in ``name:secret``."""
    return tuple(part for value in secrets_of(source).values() for part in (value, *value.strip().split(":")[1:]) if part)


def secrets_of(source: Source) -> dict[str, str]:
    """The source's key from the environment, under ``key``; empty when none is configured or set."""
    value = os.environ.get(source.settings.key_env, "") if source.settings.key_env else ""
    return {"key": value} if value else {}


def off_reason(source: Source) -> str:
    """Why a source is not collected; empty when it is."""
    if not source.settings.enabled:
        return "switched off in sources.toml"
    if source.settings.key_env and not secrets_of(source):
        return f"no key: set {source.settings.key_env} in the environment"
    return ""
