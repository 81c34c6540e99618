"""A book that the guard watches, with sources that are told what to print."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from databases import BOTH, new_book, opened
from sqlalchemy import Engine, RowMapping

from tracker.book.book import Book, read_book
from tracker.book.exchange import exchange_of
from tracker.book.remembered import Remembered
from tracker.config import Source, SourceSettings
from tracker.database.handle import reading
from tracker.database.rows import OfferRow, RateRow, identity, scaled
from tracker.database.tables import RATE_SCALE, RENT_SCALE
from tracker.guard.context import Guard
from tracker.guard.decisions import entries
from tracker.guard.settings import GuardSettings
from tracker.sweeps.store import SweepReport, record_sweep

T0 = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)
MAX_AGE_HOURS = 3
RENTS = ("runpod", "gpuhunt", "lambda", "nebius", "crusoe", "hyperstack", "azure", "aws", "gcp")
TOKENS = ("genai_prices", "openrouter", "litellm", "moonshot", "together")
SOURCES = {
    name: Source(id=name, settings=SourceSettings(kind=kind, base_url="https://x", interval_minutes=15, max_age_hours=MAX_AGE_HOURS))  # type: ignore[arg-type]
    for names, kind in ((RENTS, "rent"), (TOKENS, "token"), (("vast",), "marketplace"))
    for name in names
}


@pytest.fixture(params=BOTH)
def db(request: pytest.FixtureRequest) -> Iterator[Engine]:
    yield from opened(new_book(request, request.param))


def offer(price: str | int, sku: str = "H200", **other: Any) -> OfferRow:
    """One H200 of RunPod at ``price`` USD an hour, or what is told instead."""
    stated: dict[str, Any] = dict(
        provider="runpod", sku=sku, region="", gpu="nvidia-h200-sxm-141", gpu_count=1, tier="on_demand", trust="datacenter",
        currency="USD", price=scaled(Decimal(price), RENT_SCALE),
    )  # fmt: skip
    return OfferRow(**(stated | other))


def rate(input: str | None, output: str | None, cache_read: str | None = None, **other: Any) -> RateRow:
    """Kimi K3's rate at OpenRouter in USD per Mtok, or what is told instead."""
    prices = {"input": input, "output": output, "cache_read": cache_read}
    known = {kind: scaled(Decimal(price), RATE_SCALE) for kind, price in prices.items() if price is not None}
    stated: dict[str, Any] = dict(provider="openrouter", source_model="moonshotai/kimi-k3", model="kimi-k3", currency="USD")
    return RateRow(**(stated | known | other))


class Watched:
    """A guarded book: sweeps by minutes after T0, and what is listed and what waits afterwards."""

    def __init__(self, db: Engine, **limits: Any) -> None:
        self.db = db
        self.at = T0
        self.settings = GuardSettings(**limits)
        self.remembered = Remembered()  # as the daemon does

    def sweep(self, minutes: float, *rows: OfferRow | RateRow, source: str = "runpod", status: str = "ok", **other: Any) -> int:
        """One sweep of a source; returns the change points."""
        self.at = T0 + timedelta(minutes=minutes)
        report = SweepReport(
            source=source, started_at=self.at - timedelta(seconds=2), finished_at=self.at, status=status, rows=len(rows),
            offers=[row for row in rows if isinstance(row, OfferRow)], rates=[row for row in rows if isinstance(row, RateRow)], **other,
        )  # fmt: skip
        guard = Guard(settings=self.settings, sources=SOURCES, exchange=exchange_of([]))
        return record_sweep(self.db, report, guard, remembered=self.remembered)

    def book(self) -> Book:
        """Everything listed at the last sweep."""
        with reading(self.db) as connection:
            return read_book(connection, self.at, SOURCES)

    def prices(self, source: str = "runpod") -> dict[str, str]:
        """SKU -> USD an hour listed by a source."""
        return {e.value.sku: f"{e.value.usd_per_hour:f}" for e in self.book().offers if e.value.source == source}

    def seen(self, sku: str = "H200") -> float:
        """Minutes after T0 at which a listed price was last seen."""
        return next((e.seen_at - T0).total_seconds() / 60 for e in self.book().offers if e.value.sku == sku)

    def tokens(self, source: str = "openrouter") -> tuple[str | None, ...]:
        """Input, cached input and output of the one rate a source lists."""
        (found,) = [e.value.native for e in self.book().rates if e.value.source == source]
        return tuple(None if price is None else f"{price:f}" for price in (found.input, found.cache_read, found.output))

    def quarantine(self, **which: Any) -> list[RowMapping]:
        """Entries, those that wait or every one."""
        with reading(self.db) as connection:
            return entries(connection, **which)

    def states(self) -> list[tuple[str, str]]:
        """State and reason of every entry there ever was."""
        return [(entry["state"], entry["reason"]) for entry in self.quarantine(every=True)]


@pytest.fixture
def watched(db: Engine) -> Watched:
    return Watched(db)


def key_of(row: OfferRow | RateRow, source: str = "runpod") -> str:
    """A row's identity."""
    return identity(source, row)


def neighbours(watched: Watched, prices: Mapping[str, str | int] | Sequence[str], **other: Any) -> None:
    """Other providers that ask so much for the same GPU, each from its own source, at T0."""
    asked = prices if isinstance(prices, Mapping) else dict(zip(("lambda", "nebius", "crusoe", "hyperstack"), prices, strict=False))
    for provider, price in asked.items():
        watched.sweep(0, offer(price, sku=f"{provider} H200", provider=provider, **other), source=provider)
