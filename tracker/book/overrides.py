"""``overrides.toml``: prices a person states, from day to day, believed before every source."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from engine.rates import TokenPrices
from engine.units import HOURS_PER_MONTH
from tracker.config import read_tables
from tracker.facts.toml import validated
from tracker.strict import Strict

Price = Annotated[Decimal, Field(ge=0, le=1_000_000, allow_inf_nan=False)]
PERIODS = {"hour": Decimal(1), "month": Decimal(HOURS_PER_MONTH)}


class _Stated(Strict):
    provider: str = Field(min_length=1)
    region: str = ""
    currency: str = Field(default="USD", pattern="^[A-Z]{3}$")
    start: date = Field(alias="from")
    end: date | None = Field(default=None, alias="to")
    source: str = Field(min_length=1)
    checked: date

    @model_validator(mode="after")
    def _in_order(self) -> _Stated:
        if self.end is not None and self.end <= self.start:
            raise ValueError(f"to {self.end} is not after from {self.start}")
        return self


class PricesTable(Strict):
    """API rates per Mtok by token kind; one that is left out is unknown."""

    input: Price | None = None
    cache_read: Price | None = None
    cache_write_5m: Price | None = None
    cache_write_1h: Price | None = None
    output: Price | None = None


class RateTable(_Stated):
    """API rates of a contract."""

    model: str = Field(min_length=1)
    sku: str = Field(default="standard", min_length=1)
    prices: PricesTable


class FactorTable(_Stated):
    """A discount: ``factor`` times the price of the sku ``of``."""

    model: str = ""
    sku: str = Field(min_length=1)
    of: str = Field(default="standard", min_length=1)
    factor: Decimal = Field(gt=0, le=10)

    @model_validator(mode="after")
    def _of_another(self) -> FactorTable:
        if self.sku == self.of:
            raise ValueError(f"sku {self.sku!r} cannot be a part of its own price; state prices instead")
        return self


class RentTable(_Stated):
    """A machine of a contract."""

    sku: str = ""
    gpu: str = Field(min_length=1)
    gpu_count: int = Field(ge=1, le=1024)
    price: Decimal = Field(gt=0, le=1_000_000)
    per: Literal["gpu_hour", "node_hour", "gpu_month", "node_month"]
    tier: Literal["on_demand", "spot", "reserved"] = "on_demand"
    term_months: int | None = Field(default=None, ge=1, le=120)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """What every entry has: its name, whose price it is, when it holds ([start, end), UTC), and who says so."""

    id: str
    provider: str
    region: str
    currency: str
    start: datetime
    end: datetime | None
    source: str

    def in_force(self, at: datetime) -> bool:
        """Whether it holds at a moment."""
        return self.start <= at and (self.end is None or at < self.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedRate(Stated):
    """API rates per Mtok in ``currency``."""

    model: str
    sku: str
    native: TokenPrices


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedFactor(Stated):
    """``factor`` times what the sku ``of`` costs, of one model or of all (empty)."""

    model: str
    sku: str
    of: str
    factor: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedRent(Stated):
    """A machine: ``native_per_hour`` is for all its GPUs."""

    sku: str
    gpu: str
    gpu_count: int
    native_per_hour: Decimal
    tier: Literal["on_demand", "spot", "reserved"]
    term_months: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """Every entry of the file, by kind, in its order."""

    rates: tuple[StatedRate, ...] = ()
    factors: tuple[StatedFactor, ...] = ()
    rents: tuple[StatedRent, ...] = ()

    @property
    def all(self) -> tuple[Stated, ...]:
        """Every one of them."""
        return (*self.rates, *self.factors, *self.rents)


def load_overrides(config_dir: Path, user_dir: Path | None = None) -> Overrides:
    """The entries of ``overrides.toml``; the user's replace shipped ones of the same name. ConfigError says what is wrong."""
    tables, origin = read_tables("overrides.toml", config_dir, user_dir) if (config_dir / "overrides.toml").exists() else ({}, {})
    found = [_stated(name, table, origin[name]) for name, table in tables.items()]
    return Overrides(rates=_only(found, StatedRate), factors=_only(found, StatedFactor), rents=_only(found, StatedRent))


def _only(found: Iterable[Stated], kind: Any) -> tuple[Any, ...]:
    return tuple(entry for entry in found if isinstance(entry, kind))


def _stated(name: str, table: Any, path: Path) -> Stated:
    """One entry: a machine where it names a GPU, a discount where it has a factor, else rates."""
    keys = set(table) if isinstance(table, dict) else set()
    if "gpu" in keys:
        return _rent(name, validated(RentTable, table, path, name))
    if keys & {"factor", "of"}:
        discount = validated(FactorTable, table, path, name)
        return StatedFactor(**_common(name, discount), model=discount.model, sku=discount.sku, of=discount.of, factor=discount.factor)
    rate = validated(RateTable, table, path, name)
    return StatedRate(**_common(name, rate), model=rate.model, sku=rate.sku, native=TokenPrices(**rate.prices.model_dump()))


def _rent(name: str, table: RentTable) -> StatedRent:
    whom, _, period = table.per.partition("_")
    per_hour = table.price * (table.gpu_count if whom == "gpu" else 1) / PERIODS[period]
    return StatedRent(
        **_common(name, table),
        sku=table.sku or name,
        gpu=table.gpu,
        gpu_count=table.gpu_count,
        native_per_hour=per_hour,
        tier=table.tier,
        term_months=table.term_months,
    )


def _common(name: str, table: _Stated) -> dict[str, Any]:
    return {
        "id": name,
        "provider": table.provider,
        "region": table.region,
        "currency": table.currency,
        "start": _midnight(table.start),
        "end": None if table.end is None else _midnight(table.end),
        "source": table.source,
    }


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
