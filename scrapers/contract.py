"""What a scraper gives back: prices exactly as a source prints them.

A scraper is a module with ``parse(pages) -> Iterator[Row]`` (pure: the same bytes give the same rows) and either
``PATH`` (one GET under the configured base URL) or ``fetch(client, secrets) -> list[Page]``. It never converts,
renames, retries, sleeps, logs or catches ``Exception``; ``tracker.sweeps.resolve`` alone turns quotes into offers and rates.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal, NoReturn, Protocol

Tier = Literal["on_demand", "spot", "reserved"]
Trust = Literal["datacenter", "verified", "community", "unverified"]
Availability = Literal["available", "listed", "unavailable", "unknown"]
PriceKind = Literal["list", "ask", "starting_at", "indicative"]
RentUnit = Literal["gpu_hour", "node_hour", "gpu_month", "node_month", "gpu_minute", "node_minute", "gpu_second", "node_second"]
TokenUnit = Literal["token", "ktok", "mtok"]


class ScrapeError(Exception):
    """A source could not be read; its last good prices stay and age."""


class MissingKey(ScrapeError):
    """A credential is not set: the source is off."""


class FetchError(ScrapeError):
    """Network or status: retried by the client, then reported."""


class LayoutChanged(ScrapeError):
    """The source answered, but not in the shape its parser knows. Not retried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One response. ``body`` is decompressed; ``headers`` have lower-case names."""

    url: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    fetched_at: datetime | None = None
    not_modified: bool = False  # the source answered 304: ``body`` is the one kept from the last sweep

    @property
    def text(self) -> str:
        """Body as UTF-8 text; LayoutChanged when it is not."""
        try:
            return self.body.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise LayoutChanged(f"{self.url}: expected UTF-8 text, found byte {error.start} that is not ({error.reason})") from error

    def json(self) -> Any:
        """Body as JSON with exact Decimals; LayoutChanged when it is none, holds NaN or Infinity, or is nested too deep."""
        try:
            return json.loads(self.text, parse_float=Decimal, parse_constant=_refuse_constant)
        except (ValueError, RecursionError, ArithmeticError) as error:  # ArithmeticError: an exponent beyond Decimal
            start = self.text[:40].replace("\n", " ")
            raise LayoutChanged(f"{self.url}: expected JSON, found {start!r} ({type(error).__name__}: {error})") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuQuote:
    """A rental price as printed. ``price * scale`` is in ``currency`` for one ``per``."""

    provider: str
    sku: str  # their name of the rentable thing; stable over time
    gpu: str  # their name of the GPU
    gpu_count: int  # GPUs in one unit of ``sku``
    max_gpu_count: int | None = None  # any count up to this is sold on one machine at the same price per GPU
    memory_gb: Decimal | None = None  # per GPU as printed; only tells apart names that several GPUs share
    region: str = ""
    tier: Tier
    term_months: int | None = None
    price: Decimal
    per: RentUnit
    scale: Decimal = Decimal(1)  # 0.01 where they print cents
    currency: str
    trust: Trust = "datacenter"
    availability: Availability = "unknown"
    price_kind: PriceKind = "list"
    interconnect: str = "unknown"
    is_slice: bool = False  # MIG or a fraction of a GPU: kept apart, never ranked
    valid_from: datetime | None = None  # an announced price
    host: str = ""  # marketplaces: who rents the machine out
    reliability: Decimal | None = None  # marketplaces: 0..1, as printed
    parts: tuple[tuple[str, Decimal | None], ...] = ()  # composed prices: what each part costs; None: it has no price there


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenQuote:
    """API token prices as printed, by token kind: input, cache_read, cache_write_5m, cache_write_1h, output."""

    provider: str
    model: str  # their id of the model
    sku: str = "standard"
    region: str = ""
    prices: Mapping[str, Decimal]
    per: TokenUnit
    scale: Decimal = Decimal(1)
    currency: str
    min_prompt_tokens: int = 0
    tier_inclusive: bool = False
    hours_utc: str = ""
    weekdays: str = ""
    valid_from: datetime | None = None
    valid_to: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FxQuote:
    """Reference exchange rate of one day: ``rate`` units of ``currency`` for one ``base``."""

    base: str
    currency: str
    rate: Decimal
    day: date


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A row that was read and cannot be used; counted by ``reason`` and shown with ``raw`` (cut to 200 characters)."""

    reason: str
    raw: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Licence:
    """On what terms the rows of a source may be used, where its data says so itself."""

    name: str
    url: str = ""
    publisher: str = ""
    published_at: str = ""
    terms: str = ""  # what is granted beside it


Row = GpuQuote | TokenQuote | FxQuote | Skipped | Licence


class Lines(Protocol):
    """Which lines of a large text are kept. Its repr names it: what was kept is stored under that name."""

    @property
    def packed(self) -> str:
        """How the file itself is compressed: "" or "xz"."""

    def reader(self) -> Callable[[bytes], bool]:
        """A fresh judge of one reading: whether a line, without its line break, is kept. It may remember earlier lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFilter:
    """Which lines of a large text are kept: those that start with ``head``, and those that hold all of ``all_of`` and one of ``any_of``."""

    head: bytes
    all_of: tuple[bytes, ...]
    any_of: tuple[bytes, ...]
    packed: str = ""

    def reader(self) -> Callable[[bytes], bool]:
        """One that remembers nothing."""
        return self.keeps

    def keeps(self, line: bytes) -> bool:
        """Whether a line, without its line break, is kept."""
        for literal in self.all_of:  # no generator: this runs for every line of half a gigabyte
            if literal not in line:
                return line.startswith(self.head)
        return any(literal in line for literal in self.any_of) or line.startswith(self.head)


class Client(Protocol):
    """What ``fetch`` may do. Paths are relative to the source's base URL or absolute within its host."""

    def get(self, path: str, *, params: Mapping[str, str | int] | None = None, headers: Mapping[str, str] | None = None) -> Page:
        """GET; raises FetchError."""

    def post(self, path: str, *, json: Any, headers: Mapping[str, str] | None = None) -> Page:
        """POST a JSON body; raises FetchError."""


class TrackingClient(Client, Protocol):
    """A client for sources that are asked about one model at a time."""

    @property
    def tracked(self) -> Sequence[str]:
        """The models the program compares, as the source spells them."""


class LineClient(Client, Protocol):
    """A client for sources that publish files too large to hold."""

    def get_lines(self, path: str, lines: Lines) -> Page:
        """GET, reading the body as a stream: a page of the kept lines alone, each with its line break; raises FetchError."""


Sign = Callable[[str, datetime], Mapping[str, str]]  # address and moment of sending -> headers


class RegionClient(Client, Protocol):
    """A client for sources that have a host a region and want their requests signed."""

    @property
    def regions(self) -> Sequence[str]:
        """The configured regions."""

    def now(self) -> datetime:
        """The moment, aware UTC."""

    def get_signed(self, path: str, *, region: str, params: Mapping[str, str | int], sign: Sign) -> Page:
        """GET at the host of a region, with the headers that ``sign`` gives for each attempt; raises FetchError."""


class Scraper(Protocol):
    """A scraper module."""

    def parse(self, pages: Sequence[Page]) -> Iterator[Row]:
        """Rows as printed."""
