"""The SQL views say what the program says, on both databases, and a reader of them reads nothing else."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from databases import BOTH, Postgres, new_book, opened
from sqlalchemy import Engine, text

from scrapers.contract import FxQuote
from tracker.book.book import read_book
from tracker.book.bookfile import Dated
from tracker.book.bookstore import import_dated
from tracker.book.exchange import store_rates
from tracker.config import Source, SourceSettings
from tracker.database.handle import reading, writing
from tracker.database.rows import OfferRow, scaled, to_s
from tracker.database.tables import RENT_SCALE
from tracker.sweeps.leases import Terms, claim
from tracker.sweeps.store import SweepReport, record_sweep

ROOT = Path(__file__).parents[1]
NOW = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=1)  # the views know the real time only
SOURCES = {
    name: Source(id=name, settings=SourceSettings(kind="rent", base_url="https://x", interval_minutes=15, max_age_hours=hours))
    for name, hours in (("runpod", 3), ("scaleway", 6), ("vast", 1))
}


@pytest.fixture(params=BOTH)
def db(request: pytest.FixtureRequest) -> Iterator[Engine]:
    yield from opened(new_book(request, request.param))


def offer(price: str, sku: str = "H200", **other: object) -> OfferRow:
    stated: dict[str, object] = dict(
        provider="runpod", sku=sku, region="", gpu="nvidia-h200-sxm-141", gpu_count=1, tier="on_demand", trust="datacenter",
        currency="USD", price=scaled(Decimal(price), RENT_SCALE), max_gpu_count=8, source_url="https://x/prices",
    )  # fmt: skip
    return OfferRow(**(stated | other))  # type: ignore[arg-type]


def sweep(db: Engine, source: str, hours_ago: float, *rows: OfferRow, status: str = "ok") -> None:
    at = NOW - timedelta(hours=hours_ago)
    record_sweep(db, SweepReport(source=source, started_at=at, finished_at=at, status=status, rows=len(rows), offers=rows))


def fill(db: Engine) -> None:
    """Euros, a gone offer, one that is missed, dated prices, a stale source, a currency without a rate, and imported rows."""
    today = NOW.date()
    rates = [("USD", "1.1555", 3), ("USD", "1.20", -1), ("CNY", "8.2340", 5), ("USD", "1.10", 5), ("GBP", "0.8790", 3)]
    quotes = [FxQuote(base="EUR", currency=c, rate=Decimal(rate), day=today - timedelta(days=days)) for c, rate, days in rates]
    with writing(db) as connection:
        store_rates(connection, quotes, "test")
    for name, source in SOURCES.items():
        claim(
            db,
            name,
            "test",
            datetime.now(UTC),
            Terms(interval_s=900, lease_s=60, max_age_s=source.settings.max_age_hours * 3600),
            wait_s=900,
        )
    gone = offer("1.50", sku="GONE")
    missed = offer("9.99", sku="MISSED")
    sweep(db, "runpod", 5, offer("4.00"), gone, missed, offer("0.123456789", sku="TINY"))
    sweep(db, "runpod", 4, offer("3.59"), missed, offer("0.123456789", sku="TINY"))
    sweep(db, "runpod", 2, offer("3.59"), missed, offer("0.123456789", sku="TINY"))
    sweep(db, "runpod", 1, offer("3.49"), offer("0.123456789", sku="TINY"))
    scaleway = dict(provider="scaleway", currency="EUR", gpu_count=8, max_gpu_count=None)
    dated = [
        offer(price, sku="DATED", valid_from=to_s(NOW + timedelta(days=d)), **scaleway) for price, d in (("70", -30), ("65", -2), ("50", 9))
    ]
    sweep(db, "scaleway", 8, offer("60.00", sku="B300", **scaleway), *dated)
    sweep(db, "scaleway", 5, offer("60.00", sku="B300", **scaleway), *dated)
    sweep(db, "vast", 3, offer("7", sku="CN", provider="vast", currency="CNY"), offer("5", sku="X", provider="vast", currency="XTS"))
    seen = to_s(NOW - timedelta(days=40))
    rows = [
        offer("9", sku="OLD"),
        offer("76", sku="NEBIUS", provider="nebius", gpu_count=8),
        offer("80", sku="EUR", provider="nebius", currency="EUR"),
    ]
    import_dated(db, [Dated(row, "page", seen, seen + 3_600, None) for row in rows], NOW)


def as_time(value: object) -> datetime:
    return (value if isinstance(value, datetime) else datetime.fromisoformat(str(value))).astimezone(UTC)


def view(db: Engine, query: str) -> list[dict[str, Any]]:
    with reading(db) as connection:
        return [dict(row) for row in connection.execute(text(query)).mappings()]


def test_current_offers_are_those_of_the_book(db: Engine) -> None:
    fill(db)
    with reading(db) as connection:
        book = read_book(connection, datetime.now(UTC), SOURCES).offers
    expected = {
        (e.value.source, e.value.sku, e.value.currency): (
            e.origin, e.imported, e.fresh, e.value.availability, e.value.gpu_count, e.value.native_per_hour, e.value.usd_per_hour,
            e.value.usd_per_gpu_hour, e.value.seen_at,
        )
        for e in book
    }  # fmt: skip
    assert {sku for _, sku, _ in expected} == {"H200", "MISSED", "TINY", "B300", "DATED", "CN", "NEBIUS", "EUR"}  # see fill
    assert expected["scaleway", "DATED", "EUR"][5] == 65
    found = view(db, "select * from v_current_offers")
    shown = {
        (row["source"], row["sku"], row["currency"]): (
            row["origin"], bool(row["imported"]), bool(row["fresh"]), row["availability"], row["gpu_count"],
            *(nearly(row[name]) for name in ("price_per_hour", "usd_per_hour", "usd_per_gpu_hour")), as_time(row["seen_at"]),
        )
        for row in found
    }  # fmt: skip
    assert len(found) == len(shown)
    assert shown == {key: (*facts[:5], *map(nearly, facts[5:8]), facts[8]) for key, facts in expected.items()}


def nearly(value: object) -> str:
    """A price to twelve digits: SQLite divides in binary."""
    return f"{Decimal(str(value)):.11e}"


def test_exact_prices_are_whole_numbers(db: Engine) -> None:
    fill(db)
    (row,) = view(db, "select price_nano from v_current_offers where sku = 'TINY'")
    assert row["price_nano"] == 123_456_789
    if db.dialect.name == "postgresql":
        (exact,) = view(db, "select price_per_hour, usd_per_hour from v_current_offers where sku = 'B300'")
        assert exact["usd_per_hour"] == Decimal("60") * Decimal("1.1555")


def test_price_history_is_every_price_with_its_time(db: Engine) -> None:
    fill(db)
    rows = view(
        db, "select price_per_hour, listed_from, listed_to from v_price_history where source = 'runpod' and sku = 'H200' order by 2"
    )
    hours = [(nearly(row["price_per_hour"]), as_time(row["listed_from"]), row["listed_to"] and as_time(row["listed_to"])) for row in rows]
    moments = [NOW - timedelta(hours=h) for h in (5, 4, 1)]
    assert hours == [(nearly(p), a, b) for p, a, b in zip(("4.00", "3.59", "3.49"), moments, (*moments[1:], None), strict=True)]
    (gone,) = view(db, "select listed_from, listed_to from v_price_history where sku = 'GONE'")
    assert as_time(gone["listed_to"]) > as_time(gone["listed_from"])


COLUMNS = {
    "v_current_offers": "source origin imported provider sku region gpu gpu_count max_gpu_count tier term_months trust availability "
    "price_kind interconnect is_slice currency price_nano price_per_hour usd_per_hour usd_per_gpu_hour seen_at fresh source_url",
    "v_price_history": "source origin imported provider sku region gpu gpu_count tier term_months trust currency price_nano price_per_hour "
    "listed_from listed_to",
    "v_cheapest": "model workload policy decided_at provider sku region tier gpu gpu_count machines weight_format currency native_per_hour "
    "offer_usd_per_hour usd_per_hour usd_per_month fresh seen_at source source_url",
    "v_breakeven": "model workload policy decided_from decided_to fresh provider gpu gpu_count weight_format usd_per_hour api_provider "
    "api_sku api_usd_per_mtok api_usd_per_month self_host_usd_per_month replicas break_even_status break_even_tokens "
    "break_even_utilization verdict reason",
    "v_gpu_days": "gpu gpu_count tier day provider source currency price_nano usd_per_gpu_hour",
    "v_monthly_cost": "model workload policy month hours month_hours self_host_usd api_usd one_setup_usd",
}


@pytest.mark.parametrize("name", COLUMNS)
def test_the_columns_are_a_contract(db: Engine, name: str) -> None:
    with reading(db) as connection:
        assert list(connection.execute(text(f"select * from {name}")).keys()) == COLUMNS[name].split()


@pytest.mark.real
def test_a_reader_reads_the_views_and_nothing_else(
    postgres: Postgres, require: Callable[[str], Path], request: pytest.FixtureRequest
) -> None:
    for db in opened(new_book(request, "postgres")):
        fill(db)
        name = db.url.database
        assert name is not None
        words = ["-v", "reader=views_reader", "-v", "password=for-tests", "-f", ROOT / "deploy/postgres/reader.sql"]
        command = [require("psql"), "-h", "127.0.0.1", "-p", str(postgres.port), "-U", "breakeven", "-X", "-q", "-d", name, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert postgres.psql(name, "select count(*) from v_current_offers", user="views_reader") == [("8",)]
        assert int(postgres.psql(name, "select count(*) from v_price_history", user="views_reader")[0][0]) > 8
        for name_of_view in ("v_cheapest", "v_breakeven", "v_monthly_cost", "v_gpu_days"):
            assert postgres.psql(name, f"select count(*) from {name_of_view}", user="views_reader") == [("0",)]
        for forbidden in (
            "select * from alert",
            "select * from page",
            "select * from offer",
            "delete from sweep",
            "create table x (y int)",
        ):
            with pytest.raises(AssertionError, match=r"permission denied|read-only transaction"):
                postgres.psql(name, forbidden, user="views_reader")


def test_current_offers_are_found_without_reading_all_points(request: pytest.FixtureRequest) -> None:
    """By their plan on SQLite, which has no statistics to go by."""
    (book,) = opened(new_book(request, "sqlite"))
    with book.connect() as connection:
        plan = [row[3] for row in connection.execute(text("explain query plan select * from v_current_offers"))]
    assert "SCAN o" in plan
    assert "SCAN p" not in plan
    assert any(step.startswith("SEARCH p USING PRIMARY KEY (offer_id=? AND at=?)") for step in plan)
