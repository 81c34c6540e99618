"""Sweeps in, book out: change points, coverage, gone offers, ages, and nothing half written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from databases import BOTH, new_book, opened
from sqlalchemy import Engine, func, select, text

from scrapers.contract import FxQuote
from tracker.answers.health import source_health
from tracker.book.book import read_book
from tracker.config import Source, SourceSettings
from tracker.database.handle import DatabaseProblem, migrate, only_daemon, open_database, reading, writing
from tracker.database.rows import OfferRow, RateRow, from_s, identified, scaled, to_s, unscaled
from tracker.database.tables import RATE_SCALE, RENT_SCALE
from tracker.sweeps.store import OFFER, OFFER_POINT, RATE_POINT, SWEEP, SweepReport, last_input_hash, record_sweep

T0 = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)
SOURCES = {"runpod": Source(id="runpod", settings=SourceSettings(kind="rent", base_url="https://x", interval_minutes=15, max_age_hours=3))}


@pytest.fixture(params=BOTH)
def db(request: pytest.FixtureRequest) -> Iterator[Engine]:
    yield from opened(new_book(request, request.param))


def offer(price: str, sku: str = "NVIDIA H200", **other: object) -> OfferRow:
    """A RunPod H200 at ``price`` USD an hour."""
    stated: dict[str, object] = dict(
        provider="runpod", sku=sku, region="", gpu="nvidia-h200-sxm-141", gpu_count=1, tier="on_demand", trust="datacenter",
        currency="USD", price=scaled(Decimal(price), RENT_SCALE), max_gpu_count=8,
    )  # fmt: skip
    return OfferRow(**(stated | other))  # type: ignore[arg-type]


def sweep(minutes: float, *rows: OfferRow, status: str = "ok", error: str = "", **other: object) -> SweepReport:
    """A sweep of runpod that many minutes after T0."""
    seen = T0 + timedelta(minutes=minutes)
    return SweepReport(
        source="runpod", started_at=seen - timedelta(seconds=2), finished_at=seen, status=status, rows=len(rows), offers=rows,
        error=error, **other
    )  # type: ignore[arg-type]  # fmt: skip


def listed(db: Engine, at: datetime) -> dict[str, tuple[Decimal, datetime, bool]]:
    """SKU -> USD an hour, last seen, fresh."""
    with reading(db) as connection:
        book = read_book(connection, at, SOURCES)
    return {entry.value.sku: (entry.value.usd_per_hour, entry.seen_at, entry.fresh) for entry in book.offers}


def points(db: Engine) -> int:
    with reading(db) as connection:
        return connection.scalar(select(func.count()).select_from(OFFER_POINT)) or 0


def test_an_unchanged_sweep_costs_one_row_and_moves_the_last_sighting(db: Engine) -> None:
    assert record_sweep(db, sweep(0, offer("3.59"))) == 1
    assert record_sweep(db, sweep(15, offer("3.59"))) == 0
    assert record_sweep(db, sweep(30, status="unchanged")) == 0
    assert points(db) == 1
    assert listed(db, T0 + timedelta(minutes=40)) == {"NVIDIA H200": (Decimal("3.59"), T0 + timedelta(minutes=30), True)}


def test_a_changed_price_is_a_point_and_the_past_keeps_the_old_one(db: Engine) -> None:
    record_sweep(db, sweep(0, offer("3.59")))
    assert record_sweep(db, sweep(15, offer("3.19"))) == 1
    assert listed(db, T0 + timedelta(minutes=20))["NVIDIA H200"][0] == Decimal("3.19")
    assert listed(db, T0 + timedelta(minutes=10))["NVIDIA H200"][0] == Decimal("3.59")
    assert listed(db, T0 - timedelta(minutes=1)) == {}


def test_an_offer_is_gone_after_two_misses_and_a_failed_sweep_is_none(db: Engine) -> None:
    record_sweep(db, sweep(0, offer("3.59"), offer("5.98", sku="NVIDIA B200")))
    record_sweep(db, sweep(15, status="failed", error="no answer"))
    assert set(listed(db, T0 + timedelta(minutes=20))) == {"NVIDIA H200", "NVIDIA B200"}
    record_sweep(db, sweep(30, offer("3.59")))
    assert listed(db, T0 + timedelta(minutes=31))["NVIDIA B200"][1] == T0  # missed once: still listed, no longer looking seen
    record_sweep(db, sweep(35, status="failed", error="no answer"))
    record_sweep(db, sweep(40, offer("3.59")))
    assert set(listed(db, T0 + timedelta(minutes=41))) == {"NVIDIA H200"}
    record_sweep(db, sweep(45, offer("3.59"), offer("5.98", sku="NVIDIA B200")))
    assert set(listed(db, T0 + timedelta(minutes=46))) == {"NVIDIA H200", "NVIDIA B200"}


def test_a_failed_sweep_does_not_refresh_an_age(db: Engine) -> None:
    record_sweep(db, sweep(0, offer("3.59")))
    record_sweep(db, sweep(200, status="failed", error="no answer"))
    assert listed(db, T0 + timedelta(minutes=201)) == {"NVIDIA H200": (Decimal("3.59"), T0, False)}


def test_a_price_is_fresh_up_to_its_age_limit_and_not_a_moment_longer(db: Engine) -> None:
    record_sweep(db, sweep(0, offer("3.59")))
    assert listed(db, T0 + timedelta(hours=3))["NVIDIA H200"][2] is True
    assert listed(db, T0 + timedelta(hours=3, seconds=1))["NVIDIA H200"][2] is False


def test_a_clock_that_was_set_back_loses_no_sweep_and_moves_no_point_backwards(db: Engine) -> None:
    record_sweep(db, sweep(30, offer("3.59")))
    record_sweep(db, sweep(10, offer("3.19")))
    with reading(db) as connection:
        moments = connection.execute(select(SWEEP.c.at).order_by(SWEEP.c.id)).scalars().all()
    assert moments == sorted(moments)
    assert len(set(moments)) == 2
    assert listed(db, T0 + timedelta(minutes=31))["NVIDIA H200"][0] == Decimal("3.19")


def test_money_is_exact_to_the_last_stored_digit(db: Engine) -> None:
    record_sweep(db, sweep(0, offer("0.123456789")))
    assert listed(db, T0)["NVIDIA H200"][0] == Decimal("0.123456789")
    with reading(db) as connection:
        kept_as = {"sqlite": ("typeof", "integer"), "postgresql": ("pg_typeof", "bigint")}[db.dialect.name]
        assert connection.execute(text(f"select {kept_as[0]}(price) from offer_point")).scalars().all() == [kept_as[1]]
    assert unscaled(scaled(Decimal("1.99997"), RATE_SCALE), RATE_SCALE) == Decimal("1.99997")
    with pytest.raises(ValueError, match="larger than the database holds"):
        scaled(Decimal("1e10"), RENT_SCALE)


def test_what_is_worked_out_of_rows_before_a_sweep_is_of_each_of_them() -> None:
    """Also of one printed twice, at its last price."""
    rows = [offer(f"{price}", sku=f"m{number % 4}") for number, price in enumerate(("1", "2", "3", "4", "5"))]
    told = identified("rents", rows)
    assert [json.loads(key)[2] for key in told.by_identity] == ["m0", "m1", "m2", "m3"]
    assert [row.price for row in told] == [5 * 10**9, 2 * 10**9, 3 * 10**9, 4 * 10**9]
    assert [one[:3] for one in told.states] == [(row.price, row.availability, row.max_gpu_count) for row in told]
    assert identified("rents", told) is told
    assert identified("rents", []).states == []


def test_times_round_trip_and_naive_ones_are_refused() -> None:
    moment = datetime(2026, 11, 1, 12, 0, 7, tzinfo=UTC)
    assert from_s(to_s(moment)) == from_s(to_s(moment.replace(microsecond=999_999))) == moment
    with pytest.raises(ValueError, match="no zone"):
        to_s(datetime(2026, 11, 1))  # noqa: DTZ001


def test_identity_holds_the_tier_and_the_cloud_and_never_the_price(db: Engine) -> None:
    rows = (offer("3.59"), offer("2.99", trust="community"), offer("1.79", tier="spot"))
    assert record_sweep(db, sweep(0, *rows)) == 3
    assert record_sweep(db, sweep(1, *(offer("3.00", trust=row.trust, tier=row.tier) for row in rows))) == 3
    with reading(db) as connection:
        assert connection.scalar(select(func.count()).select_from(OFFER)) == 3


def test_euros_become_dollars_at_the_rate_of_the_day_and_the_move_writes_no_point(db: Engine) -> None:
    fx = [
        FxQuote(base="EUR", currency="USD", rate=Decimal(rate), day=day)
        for rate, day in (("1.16", date(2026, 10, 30)), ("1.20", date(2026, 11, 2)))
    ]
    row = offer("60.00", sku="B300-SXM-8-288G", currency="EUR", gpu_count=8, max_gpu_count=None)
    record_sweep(db, sweep(0, row, fx=fx))
    before = points(db)
    assert listed(db, T0)["B300-SXM-8-288G"][0] == Decimal("69.60")
    record_sweep(db, sweep(1440, row))
    assert listed(db, T0 + timedelta(days=1))["B300-SXM-8-288G"][0] == Decimal("72.00")
    assert points(db) == before


def test_a_price_without_an_exchange_rate_is_counted_and_not_shown(db: Engine) -> None:
    record_sweep(db, sweep(0, offer("100", currency="XTS")))
    with reading(db) as connection:
        book = read_book(connection, T0, SOURCES)
    assert (book.offers, dict(book.unpriced)) == ((), {"XTS": 1})


def test_rates_keep_unknown_apart_from_zero_and_follow_their_validity(db: Engine) -> None:
    now, later = (
        RateRow(
            provider="moonshot", source_model="kimi-k3.1-pro", model="kimi-k3.1-pro", currency="USD",
            input=scaled(Decimal(price), RATE_SCALE), cache_read=0, valid_from=start, valid_to=end,
        )
        for price, start, end in (("2", None, to_s(T0 + timedelta(days=1))), ("1.5", to_s(T0 + timedelta(days=1)), None))
    )  # fmt: skip
    record_sweep(db, sweep(0, rates=[now, later]))
    with reading(db) as connection:
        today, tomorrow = (read_book(connection, T0 + timedelta(days=days), SOURCES) for days in (0, 1))
    assert [(r.value.usd.input, r.value.usd.cache_read, r.value.usd.output) for r in today.rates] == [(Decimal(2), Decimal(0), None)]
    assert [r.value.usd.input for r in today.announced] == [Decimal("1.5")]
    assert [r.value.usd.input for r in tomorrow.rates] == [Decimal("1.5")]
    with reading(db) as connection:
        assert connection.scalar(select(func.count()).select_from(RATE_POINT)) == 2


def test_a_sweep_that_fails_while_it_is_written_leaves_nothing(db: Engine) -> None:
    record_sweep(db, sweep(0, offer("3.59")))
    broken = offer("3.19", sku="B")
    with pytest.raises(Exception, match=r"(?i)not.null"):
        record_sweep(db, sweep(15, offer("3.19"), broken, status=None))  # type: ignore[arg-type]
    with reading(db) as connection:
        assert connection.scalar(select(func.count()).select_from(SWEEP)) == 1
    assert listed(db, T0 + timedelta(minutes=20))["NVIDIA H200"][0] == Decimal("3.59")


def test_the_input_hash_is_that_of_the_last_good_sweep(db: Engine) -> None:
    record_sweep(db, sweep(0, offer("3.59"), input_hash="ab"))
    record_sweep(db, sweep(15, status="failed", error="x", input_hash=""))
    assert last_input_hash(db, "runpod") == "ab"


def test_health_tells_failed_from_stale(db: Engine) -> None:
    record_sweep(db, sweep(0, offer("3.59"), skipped={"unmapped gpu": 2}))
    record_sweep(db, sweep(15, status="failed", error="no answer"))
    with reading(db) as connection:
        (first,) = source_health(connection, SOURCES, T0 + timedelta(minutes=1))
        (soon,) = source_health(connection, SOURCES, T0 + timedelta(minutes=16))
        assert connection.execute(select(SWEEP.c.skipped).order_by(SWEEP.c.at)).scalars().all() == ['{"unmapped gpu": 2}', ""]
        (late,) = source_health(connection, SOURCES, T0 + timedelta(hours=4))
    assert (soon.status, soon.error, soon.stale, soon.failures, soon.last_success) == ("failed", "no answer", False, 1, T0)
    assert (first.skipped, soon.skipped) == ({"unmapped gpu": 2}, {})
    assert late.stale is True


def test_a_second_daemon_on_one_file_is_refused_and_one_on_a_server_is_welcome(db: Engine) -> None:
    if db.dialect.name == "postgresql":
        with only_daemon(db), only_daemon(db):
            return
    with only_daemon(db), pytest.raises(DatabaseProblem, match=r"another breakeven \(process \d+\) runs on"), only_daemon(db):
        pass


def test_a_schema_newer_than_the_program_is_refused(db: Engine) -> None:
    with writing(db) as connection:
        connection.execute(text("update alembic_version set version_num = '9999'"))
    with pytest.raises(DatabaseProblem, match="newer than this program"):
        migrate(db)


def test_a_file_that_is_no_database_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "book.db"
    path.write_bytes(b"not a database, " * 100)
    with pytest.raises(DatabaseProblem, match="cannot be opened: file is not a database"):
        migrate(open_database(f"sqlite:///{path}"))
