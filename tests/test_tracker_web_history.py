"""Histories of the API: pages of steps, answers of before the first decision, and the lowest price of each day."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

import pytest
from asgi import Served, body, get
from small_world import T0, fill, fx, offer, sweep
from sqlalchemy import Engine

from tracker.answers.ageing import latest
from tracker.answers.decisions import keep_decisions
from tracker.answers.recompute import Sizer, recompute
from tracker.rollup.run import roll_up
from tracker.web.front import make_front
from tracker.web.past import AT_ONCE
from tracker.web.scrape import App
from tracker.web.series import MOST_BOOKS
from tracker.world import World

DAY = timedelta(days=1)
MIDNIGHT = T0 - timedelta(hours=12)
MODEL = "/api/v1/history/setup/large-60b"


def app_at(db: Engine, world: World, now: datetime) -> App:
    return make_front(Served(world, db, recompute(db, world, Sizer(world), now), lambda: now))


# --- answers ------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def decided(db: Engine, world: World) -> App:
    """``fill`` at noon, unseen by anybody; $2.00 from two on, which a daemon decided at three."""
    fill(db)
    sweep(db, "rents", T0 + timedelta(hours=2), offer("2.00"))
    newest, snapshot = latest(db, world, Sizer(world), T0 + timedelta(hours=3))
    keep_decisions(db, world.config.sources, snapshot, newest)
    return app_at(db, world, T0 + timedelta(hours=4))


def test_pages_of_an_answer_add_up(decided: App) -> None:
    """$2.30 of noon until it is gone; then what was decided at three o'clock."""
    asked = f"{MODEL}?until=2026-11-02T16:00Z&step=30m"
    whole = body(decided, f"{asked}&since=2026-11-02T12:30Z")
    assert [(row["at"][11:16], row["usd_per_hour"], (row["decided_at"] or "")[11:16]) for row in whole["history"]] == [
        ("12:30", "2.30", ""), ("13:00", "2.30", ""), ("13:30", "2.30", ""), ("14:00", "2.00", ""), ("14:30", "2.00", ""),
        ("15:00", "2.00", "15:00"), ("15:30", "2.00", "15:00"),
    ]  # fmt: skip
    assert whole["next"] is None
    read: list[Any] = []
    since: str | None = "2026-11-02T12:30Z"
    while since:
        page = body(decided, f"{asked}&since={since}&limit=3")
        assert len(page["history"]) <= 3
        read, since = read + page["history"], page["next"]
    assert read == whole["history"]


def test_a_break_even_is_told_with_both_sides(decided: App) -> None:
    """2.00 x 730 = $1,460 a month against $1.15 a Mtok (``fill``): 1,269.57 Mtok."""
    (row,) = body(decided, "/api/v1/history/breakeven/large-60b?since=2026-11-02T15:00Z&until=2026-11-02T15:30Z&step=1h")["history"]
    assert (row["api_provider"], row["api_usd_per_mtok"], row["break_even_tokens"]) == ("vendor", "1.1500", "1269565217")


def test_another_question_has_a_history_of_its_own(decided: App) -> None:
    """Nothing was decided for it: it is what the book says, with twelve per cent over the weights."""
    (row,) = body(decided, f"{MODEL}?since=2026-11-02T15:00Z&until=2026-11-02T15:30Z&step=1h&policy=canitrun&workload=turns")["history"]
    assert (row["usd_per_hour"], row["decided_at"]) == ("2.00", None)


def test_of_before_the_first_decision_only_so_much_is_worked_out(decided: App) -> None:
    (answer,) = get(decided, f"{MODEL}?since=2026-11-02T12:00Z&until=2026-11-02T15:00Z&step=5m")
    assert answer.status_code == 400
    assert answer.json()["detail"] == (
        f"nothing was decided at 36 of those steps, and at most {MOST_BOOKS} are worked out anew; begin after 2026-11-02T14:55Z, "
        "lengthen the step, or ask for a smaller limit"
    )
    assert len(body(decided, f"{MODEL}?since=2026-11-02T15:00Z&until=2026-11-02T16:00Z&step=1m")["history"]) == 60
    few = [f"{MODEL}?since=2026-11-02T12:00Z&until=2026-11-02T15:00Z&step=5m&limit={MOST_BOOKS}"] * (AT_ONCE // 10 + 1)
    assert [found.status_code for found in get(decided, *few)] == [200, 200, 429]


def test_when_to_begin_is_told_as_a_time_that_can_be_asked_for(decided: App) -> None:
    (answer,) = get(decided, f"{MODEL}?since=0001-01-01")  # a page is 400 days, of which the last is 399 after the first
    assert "begin after 0002-02-04T00:00Z, " in answer.json()["detail"]


# --- days -----------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def days(db: Engine, world: World) -> App:
    """Three days of hourly prices: $3, $2.40 and $2.60 of the cloud, EUR 2.00 (at 1.25) of another; at noon of the third it is now."""
    sweep(db, "ecb", MIDNIGHT - DAY, fx=fx(date(2026, 10, 30), USD="1.25"))
    for hour in range(0, 60, 2):
        euro = offer("2.00", provider="euro", currency="EUR", max_gpu_count=9)
        sweep(db, "rents", MIDNIGHT + timedelta(hours=hour), offer(("3", "2.4", "2.6")[hour // 24]), euro)
    now = MIDNIGHT + timedelta(hours=60)
    roll_up(db, world.config.sources, now)
    return app_at(db, world, now)


def test_the_lowest_price_of_each_day(days: App) -> None:
    found = body(days, "/api/v1/history/days/test-141")
    assert [(row["day"], row["usd_per_gpu_hour"], row["provider"], row["offers"]) for row in found["history"]] == [
        ("2026-11-02", "2.5", "euro", 1), ("2026-11-03", "2.4", "cloud", 1), ("2026-11-04", "2.5", "euro", 1),
    ]  # fmt: skip
    assert [row["held_hours"] for row in found["history"]] == ["24.0", "24.0", "12.0"]
    eight = body(days, "/api/v1/history/days/test-141?gpu_count=8&since=2026-11-03&until=2026-11-04")["history"]
    assert [(row["day"], row["provider"], row["gpu_count"]) for row in eight] == [("2026-11-03", "euro", 8)]
    assert body(days, "/api/v1/history/days/test-141?tier=spot")["history"] == []


def test_a_day_that_was_not_over_by_then_is_left_out(days: App) -> None:
    assert [row["day"] for row in body(days, "/api/v1/history/days/test-141?at=2026-11-03T12:00Z")["history"]] == ["2026-11-02"]
    assert [row["day"] for row in body(days, "/api/v1/history/days/test-141?at=2026-11-04")["history"]] == ["2026-11-02", "2026-11-03"]


def test_every_history_is_described(days: App) -> None:
    paths = body(days, "/api/v1/openapi.json")["paths"]
    told = paths["/api/v1/history/{what}/{name}"]["get"]
    assert all(f"``{what}``" in told["description"] for what in ("offer", "gpu", "rate", "setup", "breakeven", "decided_at", "next"))
    assert {one["name"] for one in told["parameters"]} >= {"since", "until", "step", "at", "workload", "policy", "limit"}
    assert "figures a day" in paths["/api/v1/history/days/{name}"]["get"]["description"]
