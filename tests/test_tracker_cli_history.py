"""``breakeven history setup|breakeven``: what was decided at each step, and before the first decision what the book says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from asgi import Served, body
from books import B300
from commands import NOW, breakeven
from sqlalchemy import Engine

from tracker.answers.ageing import latest
from tracker.answers.decisions import keep_decisions
from tracker.answers.recompute import Sizer, recompute
from tracker.database.rows import OfferRow, RateRow, scaled
from tracker.database.tables import RATE_SCALE, RENT_SCALE
from tracker.paths import data_dir
from tracker.rollup.history import days_between
from tracker.rollup.run import roll_up
from tracker.service.opening import open_book
from tracker.sweeps.store import SweepReport, record_sweep
from tracker.web.front import make_front
from tracker.world import World, load_world

CONFIG = Path(__file__).resolve().parents[1] / "config"
PRICES = {10: "40", 8: "50", 6: "45"}  # USD an hour, by hours before now
DECIDED_FROM = 8  # the first look was then


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Engine]:
    """A machine of eight B300 at 40, 50 and 45 USD an hour, and the rate of seed 002; looked at from the second price on."""
    world = load_world(CONFIG)
    db, sizer = open_book(world, data_dir(), NOW - timedelta(days=1)), Sizer(world)
    for hours, price in PRICES.items():
        sweep(db, hours, price)
        if hours <= DECIDED_FROM:
            look(db, world, sizer, hours)
    yield db
    db.dispose()


def sweep(db: Engine, hours: float, price: str) -> None:
    seen = NOW - timedelta(hours=hours)
    rent = replace(B300, native_per_hour=Decimal(price), usd_per_hour=Decimal(price))
    row = OfferRow(
        **{name: getattr(rent, name) for name in ("provider", "sku", "region", "gpu", "gpu_count", "tier", "trust", "currency")},
        price=scaled(rent.native_per_hour, RENT_SCALE),
    )
    prices = {"input": "2", "cache_read": "0.2", "output": "10"}
    scaled_prices = {kind: scaled(Decimal(price), RATE_SCALE) for kind, price in prices.items()}
    rates = [RateRow(provider="moonshot", source_model="kimi-k3.1-pro", model="kimi-k3.1-pro", currency="USD", **scaled_prices)]  # type: ignore[arg-type]
    record_sweep(db, SweepReport(source="moonshot", started_at=seen, finished_at=seen, status="ok", rows=1, rates=rates))
    record_sweep(db, SweepReport(source="runpod", started_at=seen, finished_at=seen, status="ok", rows=1, offers=[row]))


def look(db: Engine, world: World, sizer: Sizer, hours: float) -> None:
    newest, snapshot = latest(db, world, sizer, NOW - timedelta(hours=hours))
    keep_decisions(db, world.config.sources, snapshot, newest)


def told(*words: str) -> list[dict[str, Any]]:
    found = breakeven("history", *words, "kimi-k3.1-pro", "--since", "10h", "--until", "5h", "--step", "1h", "--json")
    assert found.code == 0, found.err
    rows: list[dict[str, Any]] = found.json
    return rows


def moment(hours: float) -> str:
    return (NOW - timedelta(hours=hours)).isoformat().replace("+00:00", "Z")


def test_setups_are_those_that_were_decided(db: Engine) -> None:
    rows = told("setup")
    assert [row["at"] for row in rows] == [moment(hours) for hours in (10, 9, 8, 7, 6)]
    assert [row["usd_per_hour"] for row in rows] == ["40.00", "40.00", "50.00", "50.00", "45.00"]
    assert [row["decided_at"] for row in rows] == [None, None, moment(8), moment(8), moment(6)]
    assert {(row["provider"], row["setup"], row["fresh"]) for row in rows} == {("runpod", "8 x nvidia-b300-sxm-288 mxfp4", True)}


def test_break_evens_are_those_that_were_decided(db: Engine) -> None:
    """A price of $50 is 50 x 730 = $36,500 a month: a quarter more than the $29,200 of $40."""
    rows = told("breakeven")
    tokens = [Decimal(row["break_even_tokens"]) for row in rows]
    assert [round(value / tokens[0], 6) for value in tokens] == [1, 1, Decimal("1.25"), Decimal("1.25"), Decimal("1.125")]
    assert list(rows[0]) == list(rows[-1])
    assert {(row["api_provider"], row["status"]) for row in rows} == {("moonshot", rows[0]["status"])}


@pytest.mark.parametrize("what", ["setup", "breakeven"])
def test_the_api_tells_the_same(db: Engine, what: str) -> None:
    world = load_world(CONFIG)
    app = make_front(Served(world, db, recompute(db, world, Sizer(world), NOW), lambda: NOW))
    asked = f"/api/v1/history/{what}/kimi-k3.1-pro?since=10h&until=5h&step=1h"
    assert body(app, asked)["history"] == told(what) != []
    until = (NOW - timedelta(hours=7)).isoformat().replace("+00:00", "Z")
    early = breakeven("history", what, "kimi-k3.1-pro", "--since", "3h", "--step", "1h", "--json", at=NOW - timedelta(hours=7)).json
    found = body(app, f"/api/v1/history/{what}/kimi-k3.1-pro?since=3h&step=1h&at={until}")
    assert (found["at"], found["history"], found["next"]) == (until, early, None)
    assert [row["usd_per_hour"] for row in early] == ["40.00", "40.00", "50.00", "50.00"]


def test_the_lowest_price_of_a_day_is_that_of_the_api(db: Engine) -> None:
    """$40 an hour for eight is $5 a GPU."""
    world = load_world(CONFIG)
    words = ("history", "days", "nvidia-b300-sxm-288", "--gpus", "8", "--since", "2026-11-28")
    assert breakeven(*words).text == "nothing known of days nvidia-b300-sxm-288 in that time"
    roll_up(db, world.config.sources, NOW, precedence=world.settings.precedence.root)
    app = make_front(Served(world, db, recompute(db, world, Sizer(world), NOW), lambda: NOW))
    found = breakeven(*words, "--json").json
    assert found == body(app, "/api/v1/history/days/nvidia-b300-sxm-288?gpu_count=8&since=2026-11-28")["history"]
    assert [(row["day"], row["usd_per_gpu_hour"], row["most_usd_per_gpu_hour"], row["provider"]) for row in found] == [
        ("2026-11-29", "5", "6.25", "runpod")
    ]
    assert "2026-11-29 8 on_demand 5 runpod" in breakeven(*words).text
    assert breakeven(*words, at=NOW + timedelta(days=9)).text == breakeven(*words).text
    assert breakeven("--at", "2026-11-29T11:00Z", *words).text == "nothing known of days nvidia-b300-sxm-288 in that time"
    assert breakeven("history", "days", "nvidia-b300-sxm-288", "--gpus", "3").err == (
        "breakeven: no figures a day of machines of 3 GPUs; there are 1, 2, 4, 8, 16\n"
    )


def test_a_decision_is_not_told_longer_than_its_prices_were_fresh(db: Engine) -> None:
    found = breakeven("history", "setup", "kimi-k3.1-pro", "--since", "1d", "--step", "1h", at=NOW + timedelta(days=2)).text
    assert found.count("runpod") == 0
    limit = int(load_world(CONFIG).config.sources["runpod"].settings.max_age_hours)
    assert limit >= 1
    late = NOW - timedelta(hours=6 - limit - 1)  # an hour after the last price, of six hours ago, was too old
    rows = breakeven("history", "setup", "kimi-k3.1-pro", "--since", "2h", "--step", "1h", "--json", at=late).json
    assert [(row["fresh"], row["usd_per_hour"]) for row in rows] == [(True, "45.00"), (True, "45.00"), (False, None)]


def test_the_table_has_the_same_columns(db: Engine) -> None:
    text = breakeven("history", "setup", "kimi-k3.1-pro", "--since", "8h", "--until", "7h", "--step", "1h").text
    assert text.startswith("at setup provider usd_per_hour seen_at fresh decided_at")
    assert "2026-11-29 04:00" in text


def test_days_end_with_today_wherever_the_range_does() -> None:
    told = breakeven("history", "days", "nvidia-h100-sxm-80", "--until", "9999-12-31T12:00")
    assert (told.code, told.err) == (0, "")
    today, first = NOW.date(), NOW - timedelta(days=3)
    latest_moment = datetime.max.replace(tzinfo=UTC)
    assert days_between(first, latest_moment, NOW, past=False) == (first.date(), today + timedelta(days=1))
    assert days_between(first, latest_moment, NOW, past=True) == (first.date(), today)
    midnight = datetime.combine(today, time(), UTC)
    assert days_between(first, midnight, NOW, past=False) == (first.date(), today)  # the end is exclusive
    assert days_between(first, midnight, NOW, past=True) == (first.date(), today)
    year_1 = datetime(1, 1, 1, tzinfo=UTC)
    assert days_between(year_1, year_1 + timedelta(seconds=1), year_1, past=True) == (year_1.date(), year_1.date())
