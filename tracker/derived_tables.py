"""Tables of what was worked out from prices, as SQLModel. Scales and times are those of ``tracker.tables``."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, Column, Text
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
