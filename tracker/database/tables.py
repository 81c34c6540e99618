"""Tables, as SQLModel. Dimensions say what a price is of, points say when it changed, a sweep says what was covered.

Money is kept as scaled integers (exact on SQLite and PostgreSQL): rents in 1e-9 of the native currency an hour, token
prices in 1e-12 of it per Mtok. ``at`` is the moment of observation in whole seconds since 1970, UTC, so that points stay
small (4 bytes in SQLite until 2038, no fault after it); what is asked about is cut to its second too. Every other time is an
aware UTC datetime. ``valid_to`` and ``last_seen`` are derived, never written each sweep.

This is what migrations are made from. The program reads and writes by ``tracker.database.schema``, which names the same columns.
"""

from __future__ import annotations

from datetime import date, datetime

from sqlalchemy import BigInteger, Column, Index, LargeBinary, SmallInteger, Text, UniqueConstraint
from sqlmodel import Field, SQLModel

from tracker.database.column_types import Hex
from tracker.database.schema import FX_SCALE as FX_SCALE
from tracker.database.schema import MAX_SCALED as MAX_SCALED
from tracker.database.schema import RATE_SCALE as RATE_SCALE
from tracker.database.schema import RENT_SCALE as RENT_SCALE


class Sweep(SQLModel, table=True):
    """One run of one source. ``complete`` sweeps vouch for every offer of the source, imported ones for their own points."""

    __table_args__ = (UniqueConstraint("source", "at"),)

    id: int | None = Field(default=None, primary_key=True)
    source: str
    at: int = Field(sa_type=BigInteger)
    lag_ms: int = Field(sa_type=BigInteger)  # from ``at`` to its end, when it was recorded; years for imported history
    took_ms: int
    status: str  # ok, unchanged, failed
    complete: bool
    rows: int
    changed: int
    skipped: str = Field(sa_column=Column(Text, nullable=False))  # JSON: reason -> count; empty for none, as below
    warned: str = Field(sa_column=Column(Text, nullable=False, server_default="{}"))  # JSON: what looked odd and was kept -> count
    quarantined: int = Field(sa_column_kwargs={"server_default": "0"})  # prices held back by this sweep
    conflicts: int = Field(sa_column_kwargs={"server_default": "0"})  # things printed at two prices in it
    bytes: int = Field(sa_type=BigInteger)
    input_hash: str = Field(sa_type=Hex)
    error: str = Field(sa_column=Column(Text, nullable=False))


class StoredPage(SQLModel, table=True):
    """Last response of one URL of a source, so that an unchanged page costs a 304 and no parsing."""

    __tablename__ = "page"

    source: str = Field(primary_key=True)
    url: str = Field(primary_key=True)
    etag: str
    last_modified: str
    headers: str = Field(sa_column=Column(Text, nullable=False))  # JSON of those a parser pages by
    body: bytes = Field(sa_column=Column(LargeBinary, nullable=False))  # zlib
    fetched_at: datetime


class Body(SQLModel, table=True):
    """A body that sweeps read, once however many did."""

    sha256: str = Field(primary_key=True)  # of the body as it was read, decompressed
    size: int = Field(sa_type=BigInteger)  # bytes of it
    stored: int = Field(sa_type=BigInteger, index=True)  # bytes of ``zstd``; the index alone is read to add them up
    zstd: bytes = Field(sa_column=Column(LargeBinary, nullable=False))


class KeptSweep(SQLModel, table=True):
    """A sweep whose bodies are kept, and how long the following ones read the same."""

    __tablename__ = "kept_sweep"

    first_sweep: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})  # id of the sweep
    last_sweep: int
    source: str = Field(index=True)
    last_read: int = Field(sa_type=BigInteger, index=True)  # s; the oldest go first


class KeptPage(SQLModel, table=True):
    """One response of a kept sweep. A body larger than may be kept has its hash here and no row of its own."""

    __tablename__ = "kept_page"

    first_sweep: int = Field(primary_key=True, foreign_key="kept_sweep.first_sweep")
    place: int = Field(primary_key=True)  # in the order the parser gets them
    sha256: str = Field(index=True)
    size: int = Field(sa_type=BigInteger)
    url: str = Field(sa_column=Column(Text, nullable=False))  # without credentials
    headers: str = Field(sa_column=Column(Text, nullable=False))  # JSON of those a parser may read
    fetched_at: datetime | None


class Offer(SQLModel, table=True):
    """What a rental price is of. ``key`` joins its identity; the other columns may be corrected in place."""

    id: int | None = Field(default=None, primary_key=True)
    key: str = Field(unique=True)
    source: str = Field(index=True)
    origin: str  # who told: the source, or the origin named by an imported row
    provider: str
    sku: str
    region: str
    gpu: str = Field(index=True)
    gpu_count: int
    tier: str
    term_months: int
    trust: str
    currency: str
    valid_from: int | None = Field(sa_type=BigInteger)  # s, inclusive; set for an announced price
    is_slice: bool
    price_kind: str
    interconnect: str
    source_url: str


class OfferPoint(SQLModel, table=True):
    """A change of an offer: its price from ``at`` on; None is gone. On SQLite the three values are generated from one column that holds
    them all (``tracker.database.packed``): they are read like any column, and written by ``insert_rows`` alone."""

    __tablename__ = "offer_point"
    __table_args__ = {"sqlite_with_rowid": False, "postgresql_partition_by": "RANGE (at)"}  # by month, see tracker.database.months

    offer_id: int = Field(primary_key=True, foreign_key="offer.id")
    at: int = Field(primary_key=True, sa_type=BigInteger)
    price: int | None = Field(sa_type=BigInteger)  # whole offer an hour, 1e-9 native
    availability: int = Field(sa_type=SmallInteger)
    max_gpu_count: int | None = Field(sa_type=SmallInteger)


class Rate(SQLModel, table=True):
    """What a token price is of."""

    id: int | None = Field(default=None, primary_key=True)
    key: str = Field(unique=True)
    source: str = Field(index=True)
    origin: str
    provider: str
    source_model: str
    model: str = Field(index=True)
    sku: str
    region: str
    currency: str
    min_prompt_tokens: int
    tier_inclusive: bool
    hours_utc: str
    weekdays: str
    valid_from: int | None = Field(sa_type=BigInteger)  # s, inclusive
    source_url: str


class RatePoint(SQLModel, table=True):
    """A change of a rate: its prices from ``at`` on, in 1e-12 native per Mtok; ``gone`` when the source no longer lists it."""

    __tablename__ = "rate_point"
    __table_args__ = {"sqlite_with_rowid": False, "postgresql_partition_by": "RANGE (at)"}

    rate_id: int = Field(primary_key=True, foreign_key="rate.id")
    at: int = Field(primary_key=True, sa_type=BigInteger)
    gone: bool
    input: int | None = Field(sa_type=BigInteger)
    cache_read: int | None = Field(sa_type=BigInteger)
    cache_write_5m: int | None = Field(sa_type=BigInteger)
    cache_write_1h: int | None = Field(sa_type=BigInteger)
    output: int | None = Field(sa_type=BigInteger)
    valid_to: int | None = Field(sa_type=BigInteger)  # s, exclusive


class Backdated(SQLModel, table=True):
    """A point that was written later than the moment it is of, such as imported history: when we learnt it.

    A point without such a row was known when it was observed.
    """

    __table_args__ = {"sqlite_with_rowid": False}

    kind: str = Field(primary_key=True)  # offer, rate
    target: int = Field(primary_key=True)  # id of the offer or rate
    at: int = Field(primary_key=True, sa_type=BigInteger)
    known_at: int = Field(sa_type=BigInteger, index=True)


class Reworded(SQLModel, table=True):
    """How an offer or rate was described until a source worded it anew, so that what was answered before stays as it was."""

    __table_args__ = {"sqlite_with_rowid": False}

    kind: str = Field(primary_key=True)  # offer, rate
    target: int = Field(primary_key=True)
    until: int = Field(primary_key=True, sa_type=BigInteger)  # exclusive: the sweep with the new wording
    was: str = Field(sa_column=Column(Text, nullable=False))  # JSON: column -> value


class Unseen(SQLModel, table=True):
    """A stretch in which no sweep printed a listed price: it was missing, another price was held back, or a person accepted it.

    Through it the price stays listed and keeps ``last_seen``, the moment of its own last sighting.
    """

    kind: str = Field(primary_key=True)  # offer, rate
    target: int = Field(primary_key=True)  # id of the offer or rate
    since: int = Field(primary_key=True, sa_type=BigInteger)  # the first such sweep
    until: int | None = Field(sa_type=BigInteger)  # the sweep that ended it
    last_seen: int = Field(sa_type=BigInteger)
    why: str  # missed, held, accepted


class Quarantine(SQLModel, table=True):
    """A price, or a whole sweep, that is held back, and what became of it. ``old`` and ``new`` are shown, ``row`` would be listed."""

    __table_args__ = (Index("ix_quarantine_source_state", "source", "state"),)

    id: int | None = Field(default=None, primary_key=True)
    kind: str  # offer, rate, sweep
    source: str
    key: str = Field(sa_column=Column(Text, nullable=False, index=True))  # identity of the offer or rate; of a sweep, what is wrong with it
    subject: str = Field(sa_column=Column(Text, nullable=False))  # for people
    old: str = Field(sa_column=Column(Text, nullable=False))  # JSON: price or prices; null when there was none
    new: str = Field(sa_column=Column(Text, nullable=False))  # JSON
    row: str = Field(sa_column=Column(Text, nullable=False))  # JSON of the whole row in scaled integers; empty where nothing can be listed
    reason: str = Field(sa_column=Column(Text, nullable=False))
    release: str  # repeat, source, hand: what it waits for
    first_seen: datetime
    last_seen: datetime
    last_at: int = Field(sa_type=BigInteger)  # the sweep of ``last_seen``
    sweeps: int
    state: str  # pending, confirmed, accepted, rejected, withdrawn
    decided_at: datetime | None
    decided_by: str  # who or what released it


class Statistic(SQLModel, table=True):
    """What the asks behind a marketplace's offer were, from ``at`` on. Prices of the whole offer an hour in 1e-9 native."""

    __table_args__ = {"sqlite_with_rowid": False}

    offer_id: int = Field(primary_key=True, foreign_key="offer.id")
    at: int = Field(primary_key=True, sa_type=BigInteger)
    least: int = Field(sa_type=BigInteger)
    p10: int = Field(sa_type=BigInteger)
    median: int = Field(sa_type=BigInteger)
    asks: int
    hosts: int


class Unmapped(SQLModel, table=True):
    """A name no alias knows: listed, never guessed."""

    source: str = Field(primary_key=True)
    kind: str = Field(primary_key=True)  # gpu, model
    name: str = Field(primary_key=True)
    first_seen: datetime
    last_seen: datetime


class FxRate(SQLModel, table=True):
    """Reference rate of one day: ``rate`` / 1e9 units of ``currency`` for one EUR."""

    __tablename__ = "fx"

    currency: str = Field(primary_key=True)
    day: date = Field(primary_key=True)
    rate: int = Field(sa_type=BigInteger)
    origin: str
    known_at: int | None = Field(default=None, sa_type=BigInteger)  # s; None: when it was published


class Alert(SQLModel, table=True):
    """An alert: told once per ``key``, kept with what it said. It is active until it is over or acknowledged."""

    id: int | None = Field(default=None, primary_key=True)
    key: str = Field(unique=True)
    rule: str = Field(sa_column_kwargs={"server_default": ""})
    kind: str
    subject: str = Field(index=True)
    fired_at: datetime
    held_until: datetime | None = None  # quiet hours or a digest: nothing is sent before
    digest: str = Field(sa_column_kwargs={"server_default": ""})  # key of the digest it was sent with
    over_at: datetime | None = None  # no longer true, or no longer news
    acked_at: datetime | None = None
    acked_by: str = Field(sa_column_kwargs={"server_default": ""})
    body: str = Field(sa_column=Column(Text, nullable=False))  # JSON


class AlertDelivery(SQLModel, table=True):
    """An alert on its way to one route. ``failed`` is a dead letter: it was tried often enough, and stays to be seen."""

    __tablename__ = "alert_delivery"

    alert_id: int = Field(primary_key=True, foreign_key="alert.id")
    route: str = Field(primary_key=True)
    state: str  # stored, delivered, failed
    attempts: int
    created_at: datetime
    claimed_until: datetime | None = None  # a process is sending it now, until then at most
    delivered_at: datetime | None = None
    last_error: str = Field(sa_column=Column(Text, nullable=False))


class AlertState(SQLModel, table=True):
    """What was last told of a subject and seen since, so that any process may judge next. The row without names is the last look."""

    __tablename__ = "alert_state"

    rule: str = Field(primary_key=True)
    subject: str = Field(primary_key=True)
    judged_at: datetime
    body: str = Field(sa_column=Column(Text, nullable=False))  # JSON


class AlertSilence(SQLModel, table=True):
    """Nobody is told of a rule (empty: all) and subject (empty: all) until then; without an end, until it is lifted."""

    __tablename__ = "alert_silence"

    id: int | None = Field(default=None, primary_key=True)
    rule: str
    subject: str
    until: datetime | None = None
    created_at: datetime
    created_by: str


class SourceLease(SQLModel, table=True):
    """Who collects a source now and when it is due next; ``tracker.sweeps.leases`` alone writes it. Times are the database's own."""

    __tablename__ = "source_lease"

    source: str = Field(primary_key=True)
    owner: str  # empty: nobody
    fence: int = Field(sa_type=BigInteger)  # grows with every claim
    claimed_at: datetime | None
    lease_until: datetime | None
    next_due: datetime
    max_age_ms: int = Field(sa_type=BigInteger)  # when its prices stop being fresh, as configured where it was claimed last


class SourceLicence(SQLModel, table=True):
    """The licence a source states in its own data, from a sweep on until it states another one."""

    __tablename__ = "source_licence"

    source: str = Field(primary_key=True)
    since: int = Field(primary_key=True, sa_type=BigInteger)  # s
    name: str
    url: str
    publisher: str
    published_at: str  # as printed, of the newest data under it
    terms: str
