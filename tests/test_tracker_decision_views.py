"""The SQL views of decisions say what the program says, and a month's cost is that of its hours, on both databases."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from databases import BOTH, new_book, opened
from small_world import offer, rate, small_world, sweep
from sqlalchemy import Engine, text

from tracker.answers.ageing import latest
from tracker.answers.decided import Decided, course
from tracker.answers.decisions import keep_decisions
from tracker.answers.recompute import Sizer
from tracker.database.handle import reading
from tracker.database.rows import TICK
from tracker.sweeps.leases import Terms, claim
from tracker.world import World

NOW = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=1)  # the views know the real time only
LARGE = {"model": "large-60b", "workload": "turns", "policy": "studiotv"}
EXACT = Fraction(1, 10**9)  # SQLite divides in binary


@pytest.fixture(params=BOTH)
def db(request: pytest.FixtureRequest) -> Iterator[Engine]:
    yield from opened(new_book(request, request.param))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return small_world(tmp_path / "small")


def fill(db: Engine, world: World, last: float) -> None:
    """Two months and more: looked at every two hours for some days, then a hole of ten days, then until ``last`` hours ago."""
    sizer = Sizer(world)
    for source in ("rents", "tokens"):
        limit = world.config.sources[source].settings.max_age_hours * 3600
        claim(db, source, "test", datetime.now(UTC), Terms(interval_s=900, lease_s=60, max_age_s=limit), wait_s=900)
    hours = [*range(70 * 24, 68 * 24, -2), *range(58 * 24, 57 * 24, -2), 31 * 24, 31 * 24 - 2, *(last + n for n in (4, 2, 0))]
    for number, ago in enumerate(hours):
        at = NOW - timedelta(hours=ago)
        sweep(db, "tokens", at, rate(input="2", cache_read="0.2", output="10" if number < 30 else "8", source_url="https://v.example/r"))
        sweep(db, "rents", at, offer(f"{Decimal('2.30') + Decimal(number // 9) / 7:.9f}"))
        newest, snapshot = latest(db, world, sizer, at)
        keep_decisions(db, world.config.sources, snapshot, newest)


def view(db: Engine, query: str) -> list[dict[str, Any]]:
    with reading(db) as connection:
        return [dict(row) for row in connection.execute(text(query)).mappings()]


def held(db: Engine, world: World) -> list[Decided]:
    with reading(db) as connection:
        return course(connection, world.config.sources, NOW - timedelta(days=90), datetime.now(UTC), **LARGE)


def as_time(value: object) -> datetime | None:
    if value is None:
        return None
    return (value if isinstance(value, datetime) else datetime.fromisoformat(str(value))).astimezone(UTC)


def nearly(value: object) -> str | None:
    """A figure to eleven digits: SQLite divides in binary."""
    return None if value is None else f"{Decimal(str(value)):.10e}"


@pytest.mark.parametrize("last", [0, 2, 5, 60])
def test_break_evens_are_the_course_of_the_decisions(db: Engine, world: World, last: float) -> None:
    fill(db, world, last)
    expected = held(db, world)
    stored = view(db, "select * from v_breakeven where model = 'large-60b' order by decided_from")
    # the program also tells what is left of a decision whose price grew old while nobody looked; the view says when it ended
    rows = [found for found in expected if found.at in {as_time(row["decided_from"]) for row in stored}]
    assert len(rows) == len(stored) > 6
    ends = [following.at for following in expected[1:]] + [None]
    for found, row in zip(rows, stored, strict=True):
        assert as_time(row["decided_to"]) == ends[expected.index(found)]
        for name in ("usd_per_hour", "api_usd_per_mtok", "api_usd_per_month", "self_host_usd_per_month", "break_even_utilization"):
            assert nearly(row[name]) == nearly(getattr(found, name)), name
        for name in ("provider", "gpu", "gpu_count", "weight_format", "api_provider", "api_sku", "replicas", "verdict", "reason"):
            assert row[name] == getattr(found, name), name
        assert (bool(row["fresh"]), row["break_even_status"], row["break_even_tokens"]) == (
            found.fresh, found.break_even_status, found.break_even_tokens
        )  # fmt: skip


@pytest.mark.parametrize(("last", "fresh"), [(0, True), (2, True), (3.1, False)])
def test_the_cheapest_setup_is_the_decision_of_now(db: Engine, world: World, last: float, fresh: bool) -> None:
    """Rents are fresh for three hours."""
    fill(db, world, last)
    (row,) = view(db, "select * from v_cheapest where model = 'large-60b'")
    with reading(db) as connection:
        decided = NOW - timedelta(hours=last)
        (found,) = course(connection, world.config.sources, decided, decided + TICK, **LARGE)
    assert found.usd_per_hour is not None
    assert (bool(row["fresh"]), as_time(row["seen_at"]), as_time(row["decided_at"])) == (fresh, NOW - timedelta(hours=last), found.at)
    names = ("provider", "sku", "region", "tier", "gpu", "gpu_count", "machines", "weight_format", "currency", "source", "source_url")
    assert {name: row[name] for name in names} == {name: getattr(found, name) for name in names}
    for name in ("native_per_hour", "offer_usd_per_hour", "usd_per_hour"):
        assert nearly(row[name]) == nearly(getattr(found, name))
    assert nearly(row["usd_per_month"]) == nearly(found.usd_per_hour * 730)


@pytest.mark.parametrize("last", [2, 60])
def test_a_month_costs_what_its_hours_cost(db: Engine, world: World, last: float) -> None:
    """Every span of the program's course, cut at the first of the month, at the price that held."""
    fill(db, world, last)
    spans = held(db, world)
    before = datetime.now(UTC).replace(microsecond=0)  # the view counts whole seconds
    rows = view(db, "select * from v_monthly_cost where model = 'large-60b' order by month")
    least, most = costs(spans, before), costs(spans, datetime.now(UTC))
    assert set(least) <= {str(row["month"]) for row in rows} <= set(most)
    for row in rows:
        month = str(row["month"])
        figures = [Fraction(str(row[name])) for name in ("hours", "self_host_usd", "api_usd", "one_setup_usd")]
        for figure, at_least, at_most in zip(figures, least.get(month, [Fraction(0)] * 4), most[month], strict=True):
            assert at_least * (1 - EXACT) <= figure <= at_most * (1 + EXACT)
        year, number, _ = map(int, month.split("-"))
        days = (datetime(year + number // 12, number % 12 + 1, 1, tzinfo=UTC) - datetime(year, number, 1, tzinfo=UTC)).days
        assert Fraction(str(row["month_hours"])) == days * 24


def costs(spans: list[Decided], now: datetime) -> dict[str, list[Fraction]]:
    """Known hours, and what they cost on own GPUs, at the API and on one setup, by month, until ``now``."""
    found: dict[str, list[Fraction]] = defaultdict(lambda: [Fraction(0)] * 4)
    for span, end in zip(spans, [*(following.at for following in spans[1:]), now], strict=True):
        start = span.at
        while span.fresh and start < end:
            following = (start.replace(day=1, hour=0, minute=0, second=0, microsecond=0) + timedelta(days=32)).replace(day=1)
            stop = min(end, following)
            hours = Fraction((stop - start) // timedelta(microseconds=1), 3_600_000_000)
            assert span.self_host_usd_per_month and span.api_usd_per_month and span.usd_per_hour
            parts = (1, span.self_host_usd_per_month / Decimal(730), span.api_usd_per_month / Decimal(730), span.usd_per_hour)
            month = f"{start:%Y-%m-01}"
            found[month] = [old + hours * Fraction(part) for old, part in zip(found[month], parts, strict=True)]
            start = stop
    return dict(found)


def test_without_a_decision_there_is_nothing(db: Engine) -> None:
    for name in ("v_cheapest", "v_breakeven", "v_monthly_cost"):
        assert view(db, f"select * from {name}") == []
