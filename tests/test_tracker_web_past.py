"""The page and the API about a past moment, the feed of changes, histories, and how little of it a stranger can make us do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from asgi import Served, body, get
from fastapi import HTTPException
from small_world import T0, fill, offer, rate, sweep
from sqlalchemy import Engine

from tracker.alerting.ledger import ALERT
from tracker.answers.recompute import Sizer, recompute
from tracker.answers.snapshot import Snapshot
from tracker.book.bookfile import Dated
from tracker.book.bookstore import import_dated
from tracker.database.rows import to_s
from tracker.web.front import make_front
from tracker.web.past import AT_ONCE, KEPT, WAITING, Budget, Past
from tracker.web.scrape import App
from tracker.world import World

NOW = T0 + timedelta(hours=6)
THEN = (T0 + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%MZ")
ROUTES = ("/api/v1/models", "/api/v1/models/large-60b", "/api/v1/offers", "/api/v1/rates", "/api/v1/sources")
HISTORIES = tuple(f"/api/v1/history/{name}" for name in ("gpu/test-141", "setup/large-60b", "breakeven/large-60b", "days/test-141"))
EVERY_ROUTE = (*ROUTES, "/api/v1/alerts", "/api/v1/changes", *HISTORIES, "/")


@pytest.fixture
def app(db: Engine, world: World) -> App:
    """``fill`` at noon; at two in the afternoon the large GPU costs $9 instead of $2.30 and the API half of what it did."""
    fill(db)
    sweep(db, "rents", T0 + timedelta(hours=2), offer("9.00"), offer("3.00", sku="80x2", gpu="test-80", gpu_count=2))
    sweep(db, "tokens", T0 + timedelta(hours=2), rate(input="1", cache_read="0.1", output="5"))
    return make_front(Served(world, db, recompute(db, world, Sizer(world), NOW), lambda: NOW))


def test_a_model_is_answered_as_it_was_known_then(app: App) -> None:
    """2.30 x 730 = $1,679 against $9,200 at noon (``fill``); later two test-80 at $3.00 win and the API is at half price."""
    then, now = body(app, f"/api/v1/models/large-60b?at={THEN}"), body(app, "/api/v1/models/large-60b")
    assert (then["at"], then["setup"]["usd_per_hour"], then["rate"]["usd_per_mtok"]) == ("2026-11-02T13:00:00Z", "2.3", "1.15")
    assert (now["setup"]["usd_per_hour"], now["rate"]["usd_per_mtok"]) == ("3", "0.575")
    assert "known" not in then


@pytest.mark.parametrize("path", ROUTES)
def test_every_route_answers_as_of_then(app: App, path: str) -> None:
    then, early = body(app, f"{path}?at={THEN}"), body(app, f"{path}?at=2026-11-02T12:30Z")
    assert (then["at"], early["at"]) == ("2026-11-02T13:00:00Z", "2026-11-02T12:30:00Z")
    assert then != body(app, path)


def test_offers_rates_and_sources_are_those_of_then(app: App) -> None:
    found = body(app, f"/api/v1/offers?gpu=test-141&at={THEN}")["offers"]
    assert {o["usd_per_hour"] for o in found if o["sku"] == "141x1" and o["tier"] == "on_demand" and o["trust"] == "datacenter"} == {"2.3"}
    found = body(app, f"/api/v1/rates?model=large-60b&provider=vendor&at={THEN}")["rates"]
    assert "10" in {r["usd"]["output"] for r in found}
    rents = next(s for s in body(app, f"/api/v1/sources?at={THEN}")["sources"] if s["id"] == "rents")
    assert (rents["last_success"], rents["sweeps"]) == ("2026-11-02T12:00:00Z", 2)  # one of them failed


@pytest.mark.parametrize("path", EVERY_ROUTE)
@pytest.mark.parametrize(
    ("at", "why"),
    [
        ("yesterday", "at 'yesterday' is no time; write 2026-10-16 or 2026-10-16T12:00Z"),
        ("2026-11-02T18:00:00.001Z", "at '2026-11-02T18:00:00.001Z' lies in the future; it is 2026-11-02T18:00:00Z"),
        ("0001-01-01T00:00%2B14:00", "at '0001-01-01T00:00+14:00' is no time; write 2026-10-16 or 2026-10-16T12:00Z"),
    ],
)
def test_a_time_that_cannot_be_is_refused_in_one_line(app: App, path: str, at: str, why: str) -> None:
    (answer,) = get(app, f"{path}?at={at}")
    assert (answer.status_code, answer.headers["content-type"], answer.json()) == (400, "application/json", {"detail": why})


def test_now_itself_is_no_future(app: App) -> None:
    assert body(app, "/api/v1/models?at=2026-11-02T18:00Z")["models"] == body(app, "/api/v1/models")["models"]


def test_the_page_says_whose_moment_it_shows_and_the_way_back(app: App) -> None:
    then, now = (answer.text for answer in get(app, f"/?at={THEN}", "/"))
    banner = re.search(r'<p class="past" role="status">(.*?)</p>', then, re.DOTALL)
    assert banner is not None
    assert "As known at 2026-11-02 13:00:00 UTC." in banner[1]
    assert '<a href="/">Back to now</a>' in banner[1]
    assert 'class="past"' not in now
    assert "1 x test-141, bf16, cloud 141x1" in then
    assert "2 x test-80, bf16, cloud 80x2" in now
    assert set(re.findall(r'href="(/api/[^"]*)"', then)) == {
        f"/api/v1/{name}?at=2026-11-02T13:00Z" for name in ("models", "offers", "rates", "sources", "changes", "alerts")
    }
    assert not re.search(r'href="/api/[^"]*\?', now)


def test_the_form_asks_the_page_itself(app: App) -> None:
    (page,) = get(app, "/")
    assert '<form method="get" action="/">' in page.text
    assert 'value="2026-11-02T18:00"' in page.text
    (asked,) = get(app, "/?at=2026-11-02T13:00")  # as a browser sends a local time: it is UTC
    assert "As known at 2026-11-02 13:00:00 UTC." in asked.text


def test_before_the_book_began_imported_history_answers_and_says_so(db: Engine, world: World) -> None:
    sweep(db, "rents", T0, offer("2.30"))
    day = to_s(T0 - timedelta(days=10))
    import_dated(db, [Dated(offer("2.00", provider="old"), "price-page", day, day, None)], T0 + timedelta(hours=1))
    app = make_front(Served(world, db, recompute(db, world, Sizer(world), NOW), lambda: NOW))
    found = body(app, "/api/v1/offers?at=2026-10-25")
    assert ([o["usd_per_hour"] for o in found["offers"]], found["known"]) == (["2"], "2026-11-02T13:00:00Z")
    assert "The book began later: this is imported history, as known at 2026-11-02 13:00 UTC." in get(app, "/?at=2026-10-25")[0].text


def test_alerts_are_those_that_were_active_then(db: Engine, app: App) -> None:
    """One fired at 13:00 and was over at 15:00; one fired at 14:00 and was acknowledged at 15:30; one is active."""
    moments = [(1, {"over_at": T0 + timedelta(hours=3)}), (2, {"acked_at": T0 + timedelta(hours=3.5)}), (4, {})]
    with db.begin() as connection:
        for hour, ended in moments:
            told = {"key": f"k{hour}", "rule": "r", "kind": "price", "subject": "s", "fired_at": T0 + timedelta(hours=hour), "body": "{}"}
            connection.execute(ALERT.insert().values(**told, **ended))

    def fired(at: str) -> list[str]:
        return [alert["fired_at"][11:16] for alert in body(app, f"/api/v1/alerts?at=2026-11-02T{at}")["alerts"]]

    assert [fired(at) for at in ("12:59:59Z", "13:00Z", "14:00Z", "14:59:59Z", "15:00Z", "15:30Z", "16:00Z")] == [
        [], ["13:00"], ["14:00", "13:00"], ["14:00", "13:00"], ["14:00"], [], ["16:00"],
    ]  # fmt: skip


# --- the feed and the histories -------------------------------------------------------------------------------------------------


def test_the_feed_goes_on_from_its_cursor_and_ends_at_the_moment_asked(app: App) -> None:
    found = body(app, "/api/v1/changes?since=2026-11-02T13:00Z")
    rents = [c for c in found["changes"] if c["what"] == "offer" and c["kind"] == "changed"]
    assert [(c["old"], c["new"], c["percent"], c["source"]) for c in rents] == [
        ({"price": "2.3"}, {"price": "9"}, {"price": "291.30"}, "rents")  # (9 - 2.3) / 2.3 = 2.91304
    ]
    assert found["next"] == found["changes"][-1]["event"]
    assert body(app, f"/api/v1/changes?after={found['next']}") == {"at": "2026-11-02T18:00:00Z", "changes": [], "next": found["next"]}
    assert body(app, f"/api/v1/changes?since=2026-11-02T13:00Z&at={THEN}")["changes"] == []


def test_pages_of_the_feed_add_up(app: App) -> None:
    whole = body(app, "/api/v1/changes?since=2026-11-01")["changes"]
    read: list[Any] = []
    cursor = ""
    while page := body(app, f"/api/v1/changes?since=2026-11-01&limit=3&after={cursor}")["changes"]:
        read += page
        cursor = page[-1]["event"]
    assert read == whole
    assert len({c["event"] for c in whole}) == len(whole) > 6


def test_changes_of_the_last_minute_come_again_with_the_cursor(db: Engine, world: World) -> None:
    """A sweep that ended a moment before the newest one may not be in the book yet: its changes must not be passed over."""
    sweep(db, "rents", T0, offer("2.30"))
    sweep(db, "rents", NOW - timedelta(seconds=20), offer("2.40"))
    app = make_front(Served(world, db, recompute(db, world, Sizer(world), NOW), lambda: NOW))
    first = body(app, "/api/v1/changes?since=1d")
    assert len(first["changes"]) == 2
    assert first["next"] == first["changes"][0]["event"]
    sweep(db, "tokens", NOW - timedelta(seconds=25), rate(input="1", output="5"))
    again = body(app, f"/api/v1/changes?after={first['next']}")["changes"]
    assert [c["what"] for c in again] == ["rate", "offer"]


@pytest.mark.parametrize(
    ("path", "status", "why"),
    [
        ("/api/v1/changes?after=1-offer-1;drop", 400, "none of ours"),
        ("/api/v1/changes?after=99999999999999999999999-offer-1", 400, "none of ours"),
        ("/api/v1/changes?after=1-offer-99999999999", 400, "none of ours"),
        ("/api/v1/history/offer/%00", 400, "NUL character"),
        ("/api/v1/offers?gpu=%00", 400, "NUL character"),
        ("/api/v1/models/%00", 400, "NUL character"),
        ("/api/v1/changes?since=999999w", 400, "longer ago than there are dates"),
        ("/api/v1/changes?limit=0", 422, "greater than or equal to 1"),
        ("/api/v1/changes?limit=1000000", 422, "less than or equal to 1000"),
        ("/api/v1/history/gpu/test-14", 404, "test-141"),
        ("/api/v1/history/rate/nobody", 404, "nobody"),
        ("/api/v1/history/nothing/test-141", 404, "there are offer, gpu, rate, setup, breakeven, days"),
        ("/api/v1/history/gpu/test-141?limit=401", 422, "less than or equal to 400"),
        ("/api/v1/history/gpu/test-141?policy=studiotv", 400, "prices of gpu are of no workload or policy; leave them out"),
        ("/api/v1/history/setup/large-6b", 404, "did you mean large-60b"),
        ("/api/v1/history/setup/large-60b?workload=turn", 404, "did you mean turns"),
        ("/api/v1/history/breakeven/large-60b?policy=nobody", 404, "nobody"),
        ("/api/v1/history/setup/large-60b?step=1x", 400, "no length of time; write 30m, 6h, 7d or 2w"),
        ("/api/v1/history/days/test-14", 404, "test-141"),
        ("/api/v1/history/days/test-141?tier=spots", 404, "did you mean spot"),
        ("/api/v1/history/days/test-141?gpu_count=3", 400, "machines of 3 GPUs; there are 1, 2, 4, 8, 16"),
        ("/api/v1/history/days/test-141?since=1d&until=2d", 400, "ends .* before it begins"),
        ("/api/v1/history/gpu/test-141?since=1d&until=2d", 400, "ends .* before it begins"),
        ("/api/v1/history/gpu/test-141?step=0d", 400, "no length of time"),
    ],
)
def test_what_makes_no_sense_is_refused(app: App, path: str, status: int, why: str) -> None:
    (answer,) = get(app, path)
    assert answer.status_code == status
    assert re.search(why, json.dumps(answer.json()))


def test_a_gpu_over_time(app: App) -> None:
    found = body(app, "/api/v1/history/gpu/test-141?since=2026-11-02T12:00Z&until=2026-11-02T16:00Z&step=1h")["history"]
    shown = {row["at"]: (row["usd_per_gpu_hour"], row["seen_at"]) for row in found if row["tier"] == "on_demand"}
    noon, two = "2026-11-02T12:00:00Z", "2026-11-02T14:00:00Z"
    assert shown == {noon: ("2.3", noon), "2026-11-02T13:00:00Z": ("2.3", noon), two: ("9", two), "2026-11-02T15:00:00Z": ("9", two)}


def test_a_step_beyond_the_calendar_is_one_step(app: App) -> None:
    found = body(app, "/api/v1/history/gpu/test-141?since=2026-11-02T12:00Z&until=2026-11-02T16:00Z&step=999999w")["history"]
    assert {row["at"] for row in found} == {"2026-11-02T12:00:00Z"}


def test_an_offer_and_a_rate_over_time(app: App) -> None:
    offers = body(app, "/api/v1/history/offer/80x2?since=2026-11-02T13:00Z&until=2026-11-02T15:00Z&step=1h")["history"]
    assert [(row["usd_per_hour"], row["seen_at"][11:16]) for row in offers] == [("3", "12:00"), ("3", "14:00")]
    # 20 is for long prompts: missed once by the later sweep, which ends nothing
    rates = body(app, "/api/v1/history/rate/large-60b?since=2026-11-02T13:00Z&until=2026-11-02T15:00Z&step=1h")["history"]
    assert [row["output"] for row in rates if row["provider"] == "vendor" and row["sku"] == "standard"] == [
        "10",
        "20",
        "5",
        "20",
    ]  # 20: long prompts, missed once by the later sweep


# --- bounded work ------------------------------------------------------------------------------------------------------------


@dataclass
class Clock:
    """Seconds that pass when told to."""

    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def asked(db: Engine, world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Past, Clock, list[datetime]]]:
    """Past snapshots over a clock of ours, and the moments that were worked out."""
    sweep(db, "rents", T0, offer("2.30"))
    worked: list[datetime] = []

    def counted(db: Engine, world: World, sizer: Sizer, at: datetime) -> Snapshot:
        worked.append(at)
        return recompute(db, world, sizer, at)

    monkeypatch.setattr("tracker.web.past.recompute", counted)
    clock = Clock()
    yield Past(world, db, lambda: NOW, Budget(counted=clock, patience_s=0.01)), clock, worked


def test_a_moment_is_worked_out_once_while_it_is_kept(asked: tuple[Past, Clock, list[datetime]]) -> None:
    past, _, worked = asked
    moments = [T0 + timedelta(minutes=number) for number in range(KEPT)]
    for at in [*moments, *moments]:
        assert past.snapshot(at).at == at
    assert worked == moments
    past.snapshot(T0 + timedelta(hours=1))
    past.snapshot(moments[0])  # was the oldest
    assert len(worked) == KEPT + 2
    assert len(past._kept) == KEPT


def test_a_stranger_cannot_make_it_work_without_end(asked: tuple[Past, Clock, list[datetime]]) -> None:
    past, clock, worked = asked
    for number in range(AT_ONCE):
        past.snapshot(T0 + timedelta(minutes=number))
    with pytest.raises(HTTPException) as refused:
        past.snapshot(T0 + timedelta(hours=2))
    assert (refused.value.status_code, refused.value.headers) == (429, {"Retry-After": "4"})
    assert past.snapshot(T0 + timedelta(minutes=AT_ONCE - 1)).at == T0 + timedelta(minutes=AT_ONCE - 1)  # a kept one costs nothing
    clock.seconds += 3.0  # one more every three seconds
    past.snapshot(T0 + timedelta(hours=2))
    with pytest.raises(HTTPException):
        past.snapshot(T0 + timedelta(hours=3))
    clock.seconds += 3600
    for number in range(AT_ONCE):
        past.snapshot(T0 + timedelta(hours=4, minutes=number))
    with pytest.raises(HTTPException):
        past.snapshot(T0 + timedelta(hours=5))
    assert len(worked) == 2 * AT_ONCE + 1


def test_one_is_worked_out_at_a_time(asked: tuple[Past, Clock, list[datetime]]) -> None:
    past, _, worked = asked
    with past.budget.turn(), pytest.raises(HTTPException) as refused:
        past.snapshot(T0)
    assert (refused.value.status_code, worked) == (429, [])


def test_a_moment_that_a_sweep_may_still_come_into_is_not_kept(asked: tuple[Past, Clock, list[datetime]], db: Engine) -> None:
    past, _, _ = asked
    moment = NOW - timedelta(seconds=1)

    def price() -> Decimal | None:
        return next(answer.setup.usd_per_hour for answer in past.snapshot(moment).answers if answer.setup is not None)

    assert price() == Decimal("2.3")
    sweep(db, "rents", moment - timedelta(seconds=1), offer("3.00"))  # ended before the moment, was stored after the question
    assert price() == Decimal(3)


def test_few_wait_and_the_others_are_told_at_once(asked: tuple[Past, Clock, list[datetime]]) -> None:
    """Else a stranger's questions would hold every thread, that of the readiness probe too."""
    past, _, _ = asked
    past.budget.patience_s = 60
    held = [past.budget._here.acquire(blocking=False) for _ in range(WAITING)]
    with pytest.raises(HTTPException) as refused:
        past.snapshot(T0)
    assert (all(held), refused.value.status_code) == (True, 429)
    past.budget._here.release()
    assert past.snapshot(T0).at == T0


@pytest.mark.parametrize("path", ["/api/v1/changes?since=7d", "/api/v1/history/gpu/test-141?since=2026-11-01&until=2026-11-02&step=6h"])
def test_the_feed_and_histories_cost_too(app: App, path: str) -> None:
    assert {answer.status_code for answer in get(app, *[path] * (AT_ONCE + 2))} == {200, 429}


def test_refusals_are_plain_json_over_http(app: App) -> None:
    answers = get(app, *(f"/api/v1/models?at=2026-11-02T12:{number:02}Z" for number in range(AT_ONCE + 1)))
    assert [answer.status_code for answer in answers] == [200] * AT_ONCE + [429]
    assert re.fullmatch(r"too many questions about the past at once; ask again in \d+ s", answers[-1].json()["detail"])
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert Decimal(get(app, "/api/v1/models/large-60b")[0].json()["setup"]["usd_per_hour"]) == 3  # the present is not affected
