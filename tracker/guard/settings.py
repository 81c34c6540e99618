"""What is plausible: ``[guard]`` of tracker.toml and the bands of gpu_bands.toml. How the figures were chosen stands in the files."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Annotated

from pydantic import Field, model_validator

from tracker.strict import Strict

Factor = Annotated[Decimal, Field(gt=1)]
Share = Annotated[Decimal, Field(ge=0, le=1)]


class Band(Strict):
    """Least and most a price may be, both inclusive. USD per GPU-hour, or USD per Mtok."""

    least: Decimal = Field(ge=0)
    most: Decimal = Field(gt=0)

    @model_validator(mode="after")
    def _ordered(self) -> Band:
        if self.least > self.most:
            raise ValueError(f"least {self.least} is above most {self.most}")
        return self

    def holds(self, price: Decimal) -> bool:
        """Whether the price lies within."""
        return self.least <= price <= self.most


class GpuBands(Strict):
    """One GPU of gpu_bands.toml: bands by tier, USD per GPU-hour."""

    on_demand: Band
    spot: Band
    reserved: Band
    source: str = Field(min_length=1)
    checked: date

    def of(self, tier: str) -> Band:
        """The band of a tier."""
        band: Band = getattr(self, tier)
        return band


def _band(least: str, most: str) -> Band:
    return Band(least=Decimal(least), most=Decimal(most))


class TokenBands(Strict):
    """Bands by token kind, USD per Mtok. A stated 0 is free, which no band judges."""

    input: Band = _band("0.001", "200")
    cache_read: Band = _band("0.0001", "100")
    cache_write_5m: Band = _band("0.001", "400")
    cache_write_1h: Band = _band("0.001", "800")
    output: Band = _band("0.001", "800")

    def of(self, kind: str) -> Band:
        """The band of a token kind."""
        band: Band = getattr(self, kind)
        return band


class SpotSettings(Strict):
    """What a spot or reserved price may be of the on-demand price of the same machine."""

    strict: tuple[str, ...] = ("gcp", "azure", "oci", "scaleway")
    apart: tuple[str, ...] = ("gcp",)
    most_share: Decimal = Field(default=Decimal("1.05"), gt=0)
    least_share: Share = Decimal("0.09")
    far_share: Factor = Decimal("1.5")


class MarketSettings(Strict):
    """Statistics of marketplaces: which asks count, and when a figure is one."""

    reliability: Share = Decimal("0.95")
    trusts: tuple[str, ...] = ("datacenter", "verified")
    asks: int = Field(default=5, ge=1)
    hosts: int = Field(default=2, ge=1)
    headline: str = Field(default="second_host", pattern="^(second_host|p10)$")


class GuardSettings(Strict):
    """``[guard]``. A change is beyond a limit when it is at least that many times up or down."""

    # bands
    gpu: Band = _band("0.01", "100")  # for GPUs that gpu_bands.toml does not name
    bands: Mapping[str, GpuBands] = {}
    token: TokenBands = Field(default_factory=TokenBands)
    # changes
    rent_change: Factor = Decimal("1.9")
    spot_change: Factor = Decimal("3.95")
    reserved_change: Factor = Decimal("3.95")
    token_change: Factor = Decimal(5)
    token_alone: Factor = Decimal("2.5")
    token_apart: Factor = Decimal("1.5")
    flip: Factor = Decimal("1.3")
    flip_days: int = Field(default=30, ge=0)
    history: Factor = Decimal(3)
    history_days: int = Field(default=7, ge=0)
    tolerance: Share = Decimal("0.02")
    moving_tolerance: Share = Decimal("0.25")
    sweeps: int = Field(default=2, ge=1)
    fx_change: Factor = Decimal("1.2")
    fx_change_a_day: Decimal = Field(default=Decimal("0.005"), ge=0)
    all_rows: int = Field(default=4, ge=1)
    all_share: Share = Decimal("0.6")
    # within one sweep
    count: Factor = Decimal("1.8")
    region: Factor = Decimal(3)
    regions: int = Field(default=5, ge=2)
    spot: SpotSettings = Field(default_factory=SpotSettings)
    # elsewhere
    providers: int = Field(default=3, ge=1)
    token_providers: int = Field(default=2, ge=1)
    reference_days: int = Field(default=180, ge=0)
    rent_low: Factor = Decimal(5)
    rent_high: Factor = Decimal(5)
    token_low: Factor = Decimal(8)
    token_high: Factor = Decimal(9)
    token_lopsided: Factor = Decimal(3)
    token_balance: Band = _band("1", "50")
    own: Factor = Decimal(3)
    # whole sweeps
    misses: int = Field(default=2, ge=1)
    drop_rows: int = Field(default=4, ge=1)
    rent_drop: Share = Decimal("0.3")
    token_drop: Share = Decimal("0.2")
    provider_rows: int = Field(default=10, ge=1)
    drop_sweeps: int = Field(default=3, ge=1)
    lost_rows: int = Field(default=3, ge=1)
    lost_share: Share = Decimal("0.8")
    mass_rows: int = Field(default=5, ge=1)
    mass_first: int = Field(default=2, ge=1)
    mass_share: Share = Decimal("0.5")
    anchors: Mapping[str, tuple[str, ...]] = {}
    # marketplaces
    market: MarketSettings = Field(default_factory=MarketSettings)

    def rent_limit(self, tier: str) -> Decimal:
        """How far a rental price of a tier may move."""
        return {"spot": self.spot_change, "reserved": self.reserved_change}.get(tier, self.rent_change)
