"""Tables of what was worked out from prices, as SQLModel. Scales and times are those of ``tracker.database.tables``."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, Column, Text, UniqueConstraint
from sqlmodel import Field, SQLModel


class Decision(SQLModel, table=True):
    """The answer for a model, workload and policy from ``at`` on, until the next row of it, with the offer and rate it stood on.

    The columns of the rent are NULL where no fresh offer held the model, those of the rate (``api_``) where no fresh rate priced it.
    """

    __table_args__ = {"sqlite_with_rowid": False}

    model: str = Field(primary_key=True)
    workload: str = Field(primary_key=True)
    policy: str = Field(primary_key=True)
    at: int = Field(primary_key=True, sa_type=BigInteger)
    sweep: int  # number of the newest sweep it followed from
    fresh: bool  # rent and rate are both known and within their age limits
    reason: str = Field(sa_column=Column(Text, nullable=False))  # the verdict in a sentence, or what is missing for one
    # the rent
    source: str | None
    provider: str | None
    sku: str | None
    region: str | None
    tier: str | None
    currency: str | None
    native_per_hour: int | None = Field(sa_type=BigInteger)  # of the offer, 1e-9 native
    offer_usd_per_hour: int | None = Field(sa_type=BigInteger)  # of the offer, 1e-9 USD
    gpu: str | None
    gpu_count: int | None  # rented, over all machines
    machines: int | None
    weight_format: str | None
    usd_per_hour: int | None = Field(sa_type=BigInteger)  # of the setup, 1e-9 USD
    seen_at: datetime | None
    source_url: str | None
    # the rate
    api_source: str | None
    api_provider: str | None
    api_sku: str | None
    api_region: str | None
    api_currency: str | None
    api_prices: str | None = Field(sa_column=Column(Text))  # JSON: token kind -> native price per Mtok; what is unknown is left out
    api_usd_per_mtok: int | None = Field(sa_type=BigInteger)  # of the workload's mix, 1e-12 USD
    api_usd_per_month: int | None = Field(sa_type=BigInteger)  # the bill of the workload, 1e-9 USD
    api_seen_at: datetime | None
    api_source_url: str | None
    # what they say together
    break_even_status: str | None
    break_even_tokens: int | None = Field(sa_type=BigInteger)  # a month
    break_even_utilization: int | None = Field(sa_type=BigInteger)  # 1e-12
    replicas: int | None = Field(sa_type=BigInteger)  # that serve the workload; NULL where the capacity is unknown
    self_host_usd_per_month: int | None = Field(sa_type=BigInteger)  # of those replicas, 1e-9 USD
    verdict: str | None  # api, self_host, unknown


class RollupGroup(SQLModel, table=True):
    """What a day's figures are of: the offers of one source for a provider, GPU, tier and currency that are sold at a count."""

    __tablename__ = "rollup_group"
    __table_args__ = (UniqueConstraint("source", "provider", "gpu", "gpu_count", "tier", "currency"),)

    id: int | None = Field(default=None, primary_key=True)
    source: str
    provider: str
    gpu: str = Field(index=True)
    gpu_count: int  # 1, 2 (2 and 3), 4 (4 to 7), 8 (8 to 15), 16 (16 and more)
    tier: str
    currency: str


class RollupDay(SQLModel, table=True):
    """One UTC day of a group, in 1e-9 native per GPU and hour. ``median`` weighs every price by the time it was known to hold."""

    __tablename__ = "rollup_day"
    __table_args__ = {"sqlite_with_rowid": False}

    group_id: int = Field(primary_key=True, foreign_key="rollup_group.id")
    day: int = Field(primary_key=True)  # since 1970-01-01
    least: int = Field(sa_type=BigInteger)
    median: int = Field(sa_type=BigInteger)
    most: int = Field(sa_type=BigInteger)
    offers: int
    held_s: int = Field(sa_type=BigInteger)  # how long prices were known to hold, all offers together


class RollupMarket(SQLModel, table=True):
    """What the lowest price of a day over all providers is of. ``gpu_count`` as in a group."""

    __tablename__ = "rollup_market"
    __table_args__ = (UniqueConstraint("gpu", "gpu_count", "tier"),)

    id: int | None = Field(default=None, primary_key=True)
    gpu: str
    gpu_count: int
    tier: str


class RollupLeast(SQLModel, table=True):
    """The lowest price of a UTC day over all providers, in 1e-9 native per GPU and hour, a row for each currency."""

    __tablename__ = "rollup_least"
    __table_args__ = {"sqlite_with_rowid": False}

    market_id: int = Field(primary_key=True, foreign_key="rollup_market.id")
    day: int = Field(primary_key=True)  # since 1970-01-01
    currency: str = Field(primary_key=True)
    least: int = Field(sa_type=BigInteger)
    group_id: int = Field(foreign_key="rollup_group.id")  # whose price it is


class RollupModel(SQLModel, table=True):
    """The winner of a UTC day: the setup that was the answer for a model the longest, with what the answers of the day cost."""

    __tablename__ = "rollup_model"
    __table_args__ = {"sqlite_with_rowid": False}

    model: str = Field(primary_key=True)
    workload: str = Field(primary_key=True)
    policy: str = Field(primary_key=True)
    day: int = Field(primary_key=True)  # since 1970-01-01
    provider: str
    sku: str
    region: str
    tier: str
    gpu: str
    gpu_count: int
    weight_format: str
    held_s: int = Field(sa_type=BigInteger)  # how long this setup was the answer
    decided_s: int = Field(sa_type=BigInteger)  # how long there was any
    least: int = Field(sa_type=BigInteger)  # USD an hour of the setup, 1e-9
    median: int = Field(sa_type=BigInteger)  # by time
    most: int = Field(sa_type=BigInteger)
    setups: int  # different ones that were the answer


class RollupState(SQLModel, table=True):
    """How far the rollups of a source, of the models (an empty source) or of all providers go, and what they were worked out from."""

    __tablename__ = "rollup_state"

    source: str = Field(primary_key=True)
    until: int = Field(sa_type=BigInteger)  # s, exclusive
    sweep: int  # number of the newest sweep that counted; of all providers: how often their days were postponed
    offer: int  # the highest id of an offer that counted
    basis: str  # digest of what may change in hindsight: age limit, descriptions of those offers, imported points
