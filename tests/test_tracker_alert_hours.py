"""When people are told: quiet hours across summer time, so many a day, one digest, and silences."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_world import T0, rate
from sqlalchemy import Engine
from watching import CHEAPER, HOOK, SECOND, STALE, Watch, watch_with

from tracker.alerting import decisions
from tracker.alerting.alertmanager import due
from tracker.alerting.hours import day_start, hold_until, is_quiet, next_digest, quiet_until
from tracker.alerting.rules import Delivery
from tracker.book.newest import newest_sweep
from tracker.database.handle import reading, writing
from tracker.database.rows import to_s
from tracker.service.clock import mend_future

PARIS = Delivery(time_zone="Europe/Paris", quiet_hours="22:00-07:00", digest_at="08:00")
minutes = st.integers(min_value=0, max_value=366 * 24 * 60)
moments = minutes.map(lambda m: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=m))
clocks = st.integers(min_value=0, max_value=24 * 60 - 1).map(lambda m: f"{m // 60:02}:{m % 60:02}")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "until"),
    [
        ("2026-11-02T20:59", None),  # 21:59 in Paris
        ("2026-11-02T21:00", "2026-11-03T06:00"),
        ("2026-11-03T05:59", "2026-11-03T06:00"),
        ("2026-11-03T06:00", None),
        ("2026-07-01T19:59", None),  # in summer 21:59
        ("2026-07-01T20:00", "2026-07-02T05:00"),
        ("2026-03-28T21:30", "2026-03-29T05:00"),  # the night is an hour shorter
        ("2026-10-24T20:30", "2026-10-25T06:00"),  # and an hour longer
    ],
)
def test_quiet_hours_are_those_of_the_wall_clock(now: str, until: str | None) -> None:
    held = hold_until(PARIS, at(now), digest=False, urgent=False, told_today=0)
    assert held == (at(until) if until else None)
    assert hold_until(PARIS, at(now), digest=False, urgent=True, told_today=99) is None


@pytest.mark.parametrize(
    ("quiet", "now", "until"),
    [
        ("01:00-02:30", "2026-03-29T00:15", "2026-03-29T01:30"),  # 02:30 is left out: the clock shows 03:30 then
        ("01:00-02:30", "2026-10-24T23:15", "2026-10-25T00:30"),  # the first 02:30, of summer
        ("01:00-02:30", "2026-10-25T01:15", "2026-10-25T01:30"),  # and the second, of winter
    ],
)
def test_quiet_hours_may_end_in_the_hour_that_is_left_out_or_comes_twice(quiet: str, now: str, until: str) -> None:
    delivery = Delivery(time_zone="Europe/Paris", quiet_hours=quiet)
    assert is_quiet(delivery, at(now))
    assert quiet_until(delivery, at(now)) == at(until)


@given(moments, clocks, clocks, st.sampled_from(["UTC", "Europe/Paris", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"]))
def test_what_is_held_is_held_until_an_hour_that_is_not_quiet_within_a_day(now: datetime, start: str, end: str, zone: str) -> None:
    delivery = Delivery(time_zone=zone, quiet_hours=f"{start}-{end}")
    if not is_quiet(delivery, now):
        return
    until = quiet_until(delivery, now)
    assert now < until <= now + timedelta(hours=25)
    assert not is_quiet(delivery, until)


@given(moments, st.sampled_from(["UTC", "Europe/Paris", "America/New_York"]))
def test_a_digest_comes_once_a_day(now: datetime, zone: str) -> None:
    delivery = Delivery(time_zone=zone, digest_at="08:00")
    due = next_digest(delivery, now)
    assert now < due <= now + timedelta(hours=25)
    assert due.astimezone(delivery.zone).strftime("%H:%M") == "08:00"
    assert day_start(delivery, now) <= now < day_start(delivery, now) + timedelta(hours=25)


def test_a_digest_that_is_due_in_quiet_hours_waits_for_their_end() -> None:
    delivery = Delivery(quiet_hours="22:00-09:00", digest_at="08:00")
    assert hold_until(delivery, at("2026-11-02T12:00"), digest=True, urgent=False, told_today=0) == at("2026-11-03T09:00")


# --- on the desk ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def make(db: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Watch]:
    monkeypatch.setenv("BREAKEVEN_WEBHOOK_URL", "http://127.0.0.1:9/hook")
    return lambda rules, **changed: watch_with(db, tmp_path, rules + HOOK, **changed)


def sent(watch: Watch) -> list[str]:
    """Titles in the outbox, in order."""
    rows = {row["id"]: json.loads(row["body"])["title"] for row in watch.told()}
    return [rows[delivery["alert_id"]] for delivery in watch.deliveries()]


def night(watch: Watch) -> None:
    """Two alerts between 21:00 and 22:00: a cheaper setup, and a source that is stale."""
    watch.at = T0 + timedelta(hours=9)
    for price in ("2.00", "1.80", "1.80"):
        watch.look(price)
    watch.look(status="failed", error="no answer")
    watch.wait(hours=3, minutes=20)
    watch.look(status="failed", error="no answer")


QUIET = '[delivery]\nquiet_hours = "21:00-07:00"\n'


def test_the_night_s_alerts_come_in_the_morning_as_one_message(make: Callable[..., Watch]) -> None:
    watch = make(CHEAPER + STALE + QUIET)
    night(watch)
    assert (len(watch.told()), sent(watch)) == (2, [])
    watch.at = T0 + timedelta(hours=18, minutes=59)
    watch.judge()
    assert sent(watch) == []
    watch.at = T0 + timedelta(hours=19)  # 07:00
    watch.judge()
    assert sent(watch) == ["2 alerts"]
    body = watch.bodies()[-1]
    assert body["text"].splitlines() == [found["text"] for found in watch.bodies()[:2]]
    assert [alert["kind"] for alert in body["alerts"]] == ["cheaper_setup", "source_stale"]
    watch.judge()
    assert sent(watch) == ["2 alerts"]


def test_what_is_over_by_the_morning_is_not_sent(make: Callable[..., Watch]) -> None:
    watch = make(CHEAPER + STALE + QUIET)
    night(watch)
    watch.at = T0 + timedelta(hours=18, minutes=45)
    watch.look("1.80")  # the source is back at 07:00
    assert sent(watch) == ["large-60b: $1.80/h instead of $2.00/h"]


def test_an_urgent_rule_wakes_people(make: Callable[..., Watch]) -> None:
    watch = make(CHEAPER + "urgent = true\n" + STALE + QUIET)
    night(watch)
    assert sent(watch) == ["large-60b: $1.80/h instead of $2.00/h"]


def test_a_digest_rule_waits_for_the_digest(make: Callable[..., Watch]) -> None:
    watch = make(CHEAPER + "digest = true\n" + '[delivery]\ndigest_at = "08:00"\n')
    for price in ("2.00", "1.80", "1.80"):
        watch.look(price)
    assert sent(watch) == []
    watch.at = T0 + timedelta(hours=20)
    watch.judge()
    assert sent(watch) == ["large-60b: $1.80/h instead of $2.00/h"]


def test_more_than_so_many_a_day_wait_for_the_digest(make: Callable[..., Watch]) -> None:
    watch = make(CHEAPER + "[delivery]\nmax_per_day = 2\n")
    for price in ("4.00", "3.00", "3.00", "2.00", "2.00", "1.50", "1.50", "1.20", "1.20"):
        watch.look(price)
    assert (len(watch.told()), len(sent(watch))) == (4, 2)
    watch.at = T0 + timedelta(hours=20)
    watch.judge()
    assert sent(watch)[2:] == ["large-60b: $1.20/h instead of $2.00/h"]  # not of $1.50: nobody was told of that
    for price in ("1.00", "1.00"):
        watch.look(price)
    assert sent(watch)[3:] == ["large-60b: $1.00/h instead of $1.20/h"]  # a new day


def test_many_at_once_are_one_message(make: Callable[..., Watch]) -> None:
    """The network is away: both rental sources are stale in one look, and with a limit of one they are told together."""
    watch = make(STALE + "[delivery]\nbundle_above = 1\n", sources_toml=SECOND)
    for source in ("rents", "others"):
        watch.look("2.00", source=source)
    watch.wait(hours=4)
    assert len(watch.judge()) == 2
    assert sent(watch) == ["2 alerts"]
    watch.judge()
    assert len(sent(watch)) == 1


def test_a_rule_s_routes_are_the_only_ones(make: Callable[..., Watch], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BREAKEVEN_OTHER_URL", "http://127.0.0.1:9/other")
    other = '[routes.other]\nkind = "webhook"\nurl_env = "BREAKEVEN_OTHER_URL"\n'
    watch = make(CHEAPER + 'routes = ["other"]\n' + STALE + other)
    night(watch)
    assert [(row["alert_id"], row["route"]) for row in watch.deliveries()] == [(1, "other"), (2, "other"), (2, "webhook")]


# --- what waits -----------------------------------------------------------------------------------------------------------

ONCE = CHEAPER.replace("sweeps = 2", "sweeps = 1")
HALF = ["large-60b: $1.00/h instead of $2.00/h"]


@pytest.mark.parametrize(
    ("delivery", "first_look", "digest"),
    [
        ('digest_at = "08:00"\n', "2026-11-02T07:00:30", "2026-11-03T08:00"),  # found half a minute after a digest
        ('time_zone = "Europe/Paris"\ndigest_at = "08:00"\n', "2026-10-24T05:20", "2026-10-25T07:00"),  # 25 hours apart, found at 8:20
        ('quiet_hours = "22:00-10:00"\ndigest_at = "08:00"\n', "2026-11-02T08:30", "2026-11-03T10:00"),  # due in quiet hours
    ],
)
def test_what_waits_a_day_or_longer_for_its_digest_is_sent_with_it(
    make: Callable[..., Watch], delivery: str, first_look: str, digest: str
) -> None:
    watch = make(ONCE + "digest = true\n[delivery]\n" + delivery)
    watch.minutes = 60
    watch.at = at(first_look) - timedelta(hours=1)
    watch.look("2.00")
    watch.look("1.00")
    while watch.at < at(digest):
        assert (sent(watch), watch.told()[0]["held_until"]) == ([], at(digest))
        watch.look("1.00")
    assert sent(watch) == HALF


def test_what_waited_is_news_from_when_it_was_sent(make: Callable[..., Watch]) -> None:
    """Two hours, though it was found at 13:00 and the digest came at 8:00."""
    watch = make(ONCE + 'digest = true\nactive_hours = 2\n[delivery]\ndigest_at = "08:00"\n')
    watch.minutes = 60
    watch.look("2.00")
    for _ in range(20):
        watch.look("1.00")
    assert (watch.at, sent(watch)) == (T0 + timedelta(hours=21), HALF)
    assert watch.told()[0]["over_at"] is None
    watch.look("1.00")
    assert watch.told()[0]["over_at"] == watch.at == T0 + timedelta(hours=22)


def test_what_waits_is_sent_though_nothing_was_looked_at_for_days(make: Callable[..., Watch]) -> None:
    watch = make(ONCE + 'digest = true\n[delivery]\ndigest_at = "08:00"\n')
    watch.look("2.00")
    watch.look("1.00")
    watch.wait(days=3)
    watch.look("1.00")
    assert sent(watch) == HALF


def test_a_dip_of_the_night_that_nobody_heard_of_is_not_the_price_of_the_last_message(make: Callable[..., Watch]) -> None:
    watch = make(ONCE + '[delivery]\nquiet_hours = "22:00-07:00"\n')
    watch.at, watch.minutes = at("2026-11-02T22:00"), 60
    for price in ("2.00", "1.00", *["2.00"] * 9):
        watch.look(price)
    assert (sent(watch), watch.baseline()) == ([], 2)
    watch.look("1.00")  # at 10:00
    assert sent(watch) == HALF


def test_what_was_told_before_a_night_s_dip_still_holds_the_cooldown(make: Callable[..., Watch]) -> None:
    """$1.50 is told at 21:00; $1.20 of the night is not, and is over; $1.30 from 10:00 on waits until a day after the message."""
    watch = make(ONCE + 'cooldown_hours = 24\ncooldown_percent = 20\n[delivery]\nquiet_hours = "22:00-07:00"\n')
    watch.at, watch.minutes = at("2026-11-02T19:00"), 60
    for price in ("2.00", "1.50", "1.50", "1.20", *["1.50"] * 10, *["1.30"] * 7):
        watch.look(price)
    assert (sent(watch), watch.baseline()) == (["large-60b: $1.50/h instead of $2.00/h"], Decimal("1.5"))
    assert watch.at == at("2026-11-03T16:00")
    watch.at = at("2026-11-03T20:00")
    watch.look("1.30")
    assert sent(watch)[1:] == ["large-60b: $1.30/h instead of $1.50/h"]


NIGHT = '[rules.verdict]\nkind = "verdict_flip"\nsweeps = 1\n[delivery]\nquiet_hours = "22:00-07:00"\n'


def judged(watch: Watch, *rents: str) -> None:
    """Every half hour at those rents; $2 is cheaper than the API, $900 is not."""
    watch.minutes = 15
    for rent in rents:
        watch.list(rate(input="2", cache_read="0.2", output="10"), source="tokens")
        watch.look(rent)


def test_a_verdict_that_flips_and_is_back_in_one_night_is_no_message(make: Callable[..., Watch]) -> None:
    watch = make(NIGHT)
    watch.at = at("2026-11-02T21:30")
    judged(watch, "2.00", *["900"] * 4, *["2.00"] * 18)
    assert watch.at == at("2026-11-03T09:00")
    assert sent(watch) == []
    judged(watch, "900")
    assert sent(watch) == ["large-60b: API instead of self-host"]


def test_a_token_price_that_is_back_by_the_morning_is_no_message(make: Callable[..., Watch]) -> None:
    watch = make('[rules.rates]\nkind = "rate_change"\npercent = 1\nsweeps = 1\n' + QUIET)
    watch.at, watch.minutes = at("2026-11-02T21:00"), 60
    for price in ("10", "8", *["10"] * 12, "8"):
        watch.look(rate(input="2", cache_read="0.2", output=price), source="tokens")
    assert [body["new_per_mtok"] for body in watch.bodies()] == [{"output": "8"}] * 2
    assert [row["alert_id"] for row in watch.deliveries()] == [2]


def test_what_waits_is_not_sent_while_its_rule_is_muted_and_is_afterwards(make: Callable[..., Watch]) -> None:
    watch = make(ONCE + '[delivery]\nquiet_hours = "22:00-07:00"\n')
    watch.at, watch.minutes = at("2026-11-02T22:00"), 60
    for price in ("2.00", "1.00"):
        watch.look(price)
    with writing(watch.db) as connection:
        decisions.silence(connection, "cheaper", "", "ann", watch.at)
    for _ in range(40):
        watch.look("1.00")
    assert sent(watch) == []
    with writing(watch.db) as connection:
        decisions.lift(connection, "cheaper")
    watch.look("1.00")
    assert sent(watch) == HALF


def a_year_ahead(watch: Watch) -> datetime:
    """$2.00 is seen, then $1.00 with a clock that is a year ahead, which is set right; and when that is."""
    watch.look("2.00")
    right = watch.at + timedelta(minutes=5)
    with writing(watch.db) as connection:
        before = newest_sweep(connection)
    watch.wait(days=365)
    watch.look("1.00")
    watch.at = right
    with writing(watch.db) as connection:
        assert mend_future(connection, to_s(right), before) == 1
    watch.judge()
    return right


def test_what_a_clock_a_year_ahead_holds_back_is_sent_when_it_is_set_right(make: Callable[..., Watch]) -> None:
    watch = make(ONCE + 'digest = true\n[delivery]\ndigest_at = "08:00"\n')
    a_year_ahead(watch)
    assert sent(watch) == HALF


def test_what_a_clock_a_year_ahead_told_is_over_when_it_is_set_right(make: Callable[..., Watch]) -> None:
    watch = make(ONCE + "[delivery]\nmax_per_day = 1\n")
    right = a_year_ahead(watch)
    assert [row["over_at"] for row in watch.told()] == [right]
    watch.look("0.50")
    assert len(sent(watch)) == 2  # and it is none of today's


def test_each_alert_of_a_digest_goes_where_the_digest_goes(make: Callable[..., Watch], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BREAKEVEN_ALERTMANAGER_URL", "http://127.0.0.1:9")
    rules = ONCE + 'digest = true\n[rules.drop]\nkind = "price_drop"\ngpus = ["test-141"]\npercent = 10\nsweeps = 1\ndigest = true\n'
    watch = make(rules.replace("digest = true", 'digest = true\nroutes = ["webhook", "one"]') + MANAGERS)
    watch.minutes = 60
    for price in ("2.00", *["1.00"] * 24):
        watch.look(price)
    assert sent(watch) == ["2 alerts"] * 2
    with reading(watch.db) as connection:
        assert [len(due(connection, route, watch.at)) for route in ("one", "two")] == [2, 0]


MANAGERS = '[routes.one]\nkind = "alertmanager"\n[routes.two]\nkind = "alertmanager"\n'
