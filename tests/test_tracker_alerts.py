"""Alerts: what is told, once, and what is not; and how it gets to a webhook without the webhook's address getting anywhere."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from time import monotonic
from typing import Any

import httpx
import pytest
from small_world import FILES, T0, offer, rate, small_world, sweep
from sqlalchemy import Engine, select, text
from upstream import Upstream

from tracker.alerts import ALERT, BASELINE, Alarm, AlertDesk
from tracker.config import AlertSettings
from tracker.database import reading, writing
from tracker.notify import MAX_ATTEMPTS, Outbox
from tracker.recompute import Sizer, recompute
from tracker.rows import OfferRow
from tracker.tables import RENT_SCALE
from tracker.world import World

URL_VARIABLE = "BREAKEVEN_WEBHOOK_URL"
SECRET = "s3cret-path-of-the-hook"
TRACK_ONE = '[track]\nmodels = ["large-60b"]\nworkload = "turns"\n\n[fetch]\nuser_agent = "breakeven-tests"\n'
SECOND = FILES["sources.toml"] + FILES["sources.toml"].partition("[tokens]")[0].replace("[rents]", "[others]")


@dataclass(slots=True)
class Watch:
    """A book, a clock and a desk: ``look`` is a sweep of one source and what the desk tells after it."""

    db: Engine
    world: World
    at: datetime = T0
    settings: AlertSettings = field(default_factory=AlertSettings)
    started_at: datetime = T0
    desk: AlertDesk = field(init=False)
    sizer: Sizer = field(init=False)

    def __post_init__(self) -> None:
        self.sizer = Sizer(self.world)
        self.restart()

    def restart(self) -> None:
        """A new process on the same book."""
        self.started_at = self.at
        self.desk = AlertDesk(self.db, self.settings, self.at, Outbox(self.db, self.settings, lambda: self.at))

    def look(self, *offers: OfferRow | str, source: str = "rents", **how: object) -> tuple[Alarm, ...]:
        """A quarter of an hour later ``source`` lists ``offers`` (a text is the price of one test-141 at its own provider)."""
        self.at += timedelta(minutes=15)
        provider = {"rents": "cloud"}.get(source, source)
        sweep(self.db, source, self.at, *(offer(o, provider=provider) if isinstance(o, str) else o for o in offers), **how)
        return self.judge()

    def judge(self, *, after_sweep: bool = True) -> tuple[Alarm, ...]:
        return self.desk.judge(recompute(self.db, self.world, self.sizer, self.at), after_sweep=after_sweep)

    def told(self) -> list[dict[str, Any]]:
        """Everything stored."""
        with reading(self.db) as connection:
            return [dict(row) for row in connection.execute(select(ALERT).order_by(ALERT.c.id)).mappings()]

    def baseline(self) -> Decimal | None:
        """USD an hour the next price is measured against."""
        with reading(self.db) as connection:
            price = connection.scalar(select(BASELINE.c.price))
        return None if price is None else Decimal(price) / RENT_SCALE


@pytest.fixture
def watch(db: Engine, tmp_path: Path) -> Watch:
    """One model, one rental source: large-60b runs on one test-141."""
    return Watch(db, small_world(tmp_path / "small", tracker_toml=TRACK_ONE))


@pytest.fixture
def two_sources(db: Engine, tmp_path: Path) -> Watch:
    """The same with a second rental source, ``others``."""
    return Watch(db, small_world(tmp_path / "small", tracker_toml=TRACK_ONE, sources_toml=SECOND))


# --- cheaper setup --------------------------------------------------------------------------------------------------------


def test_a_first_run_is_silent(watch: Watch) -> None:
    assert [watch.look("2.00") for _ in range(4)] == [()] * 4
    assert (watch.told(), watch.baseline()) == ([], Decimal("2.00"))


def test_a_first_run_is_silent_though_the_cheaper_source_answers_last(two_sources: Watch) -> None:
    watch = two_sources
    for _ in range(3):
        assert watch.look("3.00") == ()
    assert watch.baseline() is None  # only one of two sources was asked
    for _ in range(3):
        assert watch.look("2.00", source="others") == ()
    assert (watch.told(), watch.baseline()) == ([], Decimal("2.00"))


def test_a_source_that_was_asked_in_vain_holds_nothing_up(two_sources: Watch) -> None:
    two_sources.look(source="others", status="failed", error="no answer")
    two_sources.look("3.00")
    assert two_sources.baseline() == Decimal("3.00")


def test_a_cheaper_setup_is_told_once_with_the_old_the_new_and_the_saving(watch: Watch) -> None:
    watch.look("2.00")
    assert watch.look("1.80") == ()  # it must hold for two sweeps
    (alarm,) = watch.look("1.80")
    assert alarm.text == (
        "cheaper setup for large-60b: $1.80/h instead of $2.00/h (10.0 % or $146.00 a month less): "
        "1 x test-141, bf16, cloud 141x1, seen 2026-11-02 12:45 UTC"
    )  # 0.20 * 730 = 146
    assert [watch.look("1.80") for _ in range(3)] == [()] * 3
    (stored,) = watch.told()
    body = json.loads(stored["body"])
    assert (stored["kind"], stored["subject"], stored["delivery"], stored["attempts"]) == (
        "cheaper_setup", "large-60b/turns/studiotv", "stored", 0,
    )  # fmt: skip
    assert (body["old_usd_per_hour"], body["new_usd_per_hour"]) == ("2", "1.8")
    assert Decimal(body["saving_usd_per_month"]) == 146
    assert Decimal(body["saving_percent"]) == 10
    new = body["new_setup"]
    assert (new["provider"], new["gpu"], new["gpu_count"], new["source"], new["seen_at"]) == (
        "cloud", "test-141", 1, "rents", "2026-11-02T12:45:00Z",
    )  # fmt: skip
    assert Decimal(body["old_setup"]["usd_per_month"]) == 1460


def test_the_winner_may_change_and_both_are_named(watch: Watch) -> None:
    """Two test-80 at $1.70 take over from one test-141 at $2.00: 15 %, $219 a month."""
    watch.look("2.00")
    pair = offer("1.70", sku="80x2", gpu="test-80", gpu_count=2, provider="newcomer")
    watch.look("2.00", pair)
    (alarm,) = watch.look("2.00", pair)
    assert "15.0 % or $219.00 a month less): 2 x test-80, bf16, newcomer 80x2" in alarm.text
    assert (alarm.facts["old_setup"]["provider"], alarm.facts["new_setup"]["provider"]) == ("cloud", "newcomer")


def test_a_slow_slide_is_told_because_it_is_measured_from_the_last_message(watch: Watch) -> None:
    """1 % a sweep: 0.99 ** 5 is 4.9 % down, 0.99 ** 6 is 5.9 %; one sweep more to hold. Then the same again from there."""
    watch.look("2.00")
    told = [step for step in range(1, 21) if watch.look(f"{Decimal(2) * Decimal('0.99') ** step:.9f}")]
    assert told == [7, 14]


def test_a_flutter_is_not_told(watch: Watch) -> None:
    watch.look("2.00")
    assert [watch.look("1.80" if step % 2 else "2.00") for step in range(12)] == [()] * 12
    assert watch.baseline() == Decimal("2.00")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2.00", "1.92"),  # 4 %
        ("0.90", "0.84"),  # 6.7 %, but 0.06 * 730 = $43.80 a month
        ("2.00", "2.00"),
        ("2.00", "1.900000001"),  # a hair less than 5 %
    ],
)
def test_what_is_not_worth_telling_is_not_told(watch: Watch, old: str, new: str) -> None:
    watch.look(old)
    assert [watch.look(new) for _ in range(4)] == [()] * 4
    assert watch.baseline() == Decimal(old)


def test_exactly_the_threshold_is_worth_telling(watch: Watch) -> None:
    watch.look("2.00")
    watch.look("1.90")
    assert len(watch.look("1.90")) == 1


def test_a_lasting_rise_moves_the_baseline_without_a_word(watch: Watch) -> None:
    watch.look("2.00")
    assert [watch.look("2.40") for _ in range(2)] == [()] * 2
    assert watch.baseline() == Decimal("2.40")
    watch.look("2.20")
    (alarm,) = watch.look("2.20")  # dearer than at first, and 8.3 % less than has been usual since
    assert "$2.20/h instead of $2.40/h (8.3 % or $146.00 a month less)" in alarm.text


def test_a_short_rise_moves_nothing(watch: Watch) -> None:
    for price in ("2.00", "2.40", "2.00", "2.40", "2.00"):
        assert watch.look(price) == ()
    assert watch.baseline() == Decimal("2.00")


@pytest.mark.parametrize("sweeps", [1, 3, 5])
def test_it_must_hold_as_many_sweeps_as_configured(watch: Watch, sweeps: int) -> None:
    watch.settings = AlertSettings(sweeps=sweeps)
    watch.restart()
    watch.look("2.00")
    told = [len(watch.look("1.50")) for _ in range(6)]
    assert told == [int(number == sweeps) for number in range(1, 7)]


def test_sweeps_of_other_sources_say_nothing_about_its_price(watch: Watch) -> None:
    """Six sources are read within seconds: a slip of one page must not become news because five others were read after it."""
    watch.look("2.00")
    watch.look("1.80")
    for _ in range(6):
        sweep(watch.db, "tokens", watch.at + timedelta(seconds=1), rate(input="2", output="10"))
        assert watch.judge() == ()
    assert watch.look("2.00") == ()
    watch.look("1.80")
    sweep(watch.db, "tokens", watch.at + timedelta(seconds=1), rate(input="2", output="10"))
    assert watch.judge() == ()
    assert len(watch.look("1.80")) == 1


def test_looking_at_the_clock_is_no_sweep(watch: Watch) -> None:
    watch.look("2.00")
    watch.look("1.50")
    assert [watch.judge(after_sweep=False) for _ in range(5)] == [()] * 5
    assert len(watch.look("1.50")) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"tier": "spot"},
        {"tier": "reserved", "term_months": 12},
        {"trust": "community"},
        {"trust": "unverified"},
        {"availability": 2},  # unavailable
        {"price_kind": "starting_at"},
        {"price_kind": "indicative"},
        {"is_slice": True},
        {"gpu": "test-80"},  # does not hold the model
    ],
)
def test_what_one_cannot_rent_is_never_told(watch: Watch, other: dict[str, object]) -> None:
    watch.look("2.00")
    assert [watch.look("2.00", offer("0.50", sku="tempting", **other)) for _ in range(4)] == [()] * 4


def test_a_stale_price_is_never_told(watch: Watch) -> None:
    watch.look("2.00")
    watch.look("1.50")
    watch.at += timedelta(hours=4)  # rents may be 3 h old
    assert [alarm.kind for _ in range(4) for alarm in watch.judge()] == ["source_stale"]
    assert watch.baseline() == Decimal("2.00")


def test_a_source_s_outage_makes_nothing_dearer_so_its_return_is_no_news(two_sources: Watch) -> None:
    watch = two_sources
    watch.look("3.00", source="others")
    watch.look("2.00")
    for _ in range(20):  # five hours: the cheap source is stale for two of them
        assert [alarm for alarm in watch.look("3.00", source="others") if alarm.kind == "cheaper_setup"] == []
    assert watch.baseline() == Decimal("2.00")
    assert [watch.look("2.00") for _ in range(3)] == [()] * 3


def test_a_setup_that_is_no_longer_listed_did_become_dearer(two_sources: Watch) -> None:
    watch = two_sources
    watch.look("3.00", source="others")
    watch.look("2.00")
    for _ in range(4):
        watch.look(offer("9.00", sku="another"))  # the source answers, without the cheap offer
        watch.look("3.00", source="others")
    assert watch.baseline() == Decimal("3.00")
    watch.look("2.00")
    assert len(watch.look("2.00")) == 1


def test_a_restart_keeps_the_baseline_and_repeats_nothing(watch: Watch) -> None:
    watch.look("2.00")
    watch.restart()
    watch.look("1.80")
    assert len(watch.look("1.80")) == 1
    watch.restart()
    assert [watch.look("1.80") for _ in range(3)] == [()] * 3
    assert len(watch.told()) == 1


def test_a_restart_after_a_long_pause_is_silent_while_the_sources_come_back_one_by_one(two_sources: Watch) -> None:
    watch = two_sources
    watch.look("3.00", source="others")
    watch.look("2.00")
    watch.at += timedelta(hours=8)
    watch.restart()
    for _ in range(3):
        assert [alarm for alarm in watch.look("3.00", source="others") if alarm.kind == "cheaper_setup"] == []
    assert [watch.look("2.00") for _ in range(3)] == [()] * 3


# --- stale source ---------------------------------------------------------------------------------------------------------


def fail(watch: Watch, hours: float) -> tuple[Alarm, ...]:
    """That much later ``rents`` is asked in vain."""
    watch.at += timedelta(hours=hours) - timedelta(minutes=15)
    return watch.look(status="failed", error="answered 503")


def test_a_stale_source_is_told_once_an_outage(watch: Watch) -> None:
    watch.look("2.00")
    assert fail(watch, 3) == ()  # exactly at the limit
    (alarm,) = fail(watch, 1)
    assert (alarm.kind, alarm.subject) == ("source_stale", "source/rents")
    assert alarm.text == "source rents is stale: last read 4 h ago, limit 3 h; answered 503"
    assert [fail(watch, 1) for _ in range(3)] == [()] * 3
    assert watch.judge(after_sweep=False) == ()
    watch.restart()
    assert fail(watch, 1) == ()
    watch.look("2.00")  # it is back
    assert fail(watch, 3) == ()
    assert [alarm.kind for alarm in fail(watch, 1)] == ["source_stale"]
    assert len(watch.told()) == 2


def test_the_passing_of_time_alone_makes_a_source_stale(watch: Watch) -> None:
    watch.look("2.00")
    watch.at += timedelta(hours=4)
    assert [alarm.kind for alarm in watch.judge(after_sweep=False)] == ["source_stale"]


def test_nobody_complains_before_having_asked(watch: Watch) -> None:
    watch.look("2.00")
    watch.at += timedelta(hours=30)
    watch.restart()
    assert watch.judge(after_sweep=False) == ()
    assert [alarm.kind for alarm in fail(watch, 1)] == ["source_stale"]


def test_a_source_that_is_off_or_was_never_read_is_no_outage(watch: Watch) -> None:
    watch.look(status="failed", error="no answer")
    watch.at += timedelta(days=30)
    assert watch.judge() == ()  # keyed is off: its key is not set


# --- the webhook ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def stored(watch: Watch) -> Watch:
    """One alert waits, fired three quarters of an hour after T0."""
    watch.look("2.00")
    watch.look("1.80")
    watch.look("1.80")
    return watch


def outbox(watch: Watch, monkeypatch: pytest.MonkeyPatch, url: str, **how: Any) -> Outbox:
    monkeypatch.setenv(URL_VARIABLE, url)
    return Outbox(watch.db, watch.settings.model_copy(update=how), lambda: watch.at)


def deliver(box: Outbox, timeout: float = 5) -> int:
    with httpx.Client(timeout=timeout, trust_env=False) as client:
        return box.deliver(client)


def state(watch: Watch) -> tuple[str, int, str]:
    (row,) = watch.told()
    return row["delivery"], row["attempts"], row["last_error"]


@pytest.mark.loopback
def test_an_alert_is_posted_as_json_and_then_left_alone(stored: Watch, upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    upstream.add("/hook", b"", method="POST", status=204)
    box = outbox(stored, monkeypatch, f"{upstream.url}/hook")
    assert (deliver(box), deliver(box)) == (1, 0)
    (request,) = upstream.seen
    message = request.json()
    assert request.headers["content-type"] == "application/json"
    assert message["id"] == request.headers["webhook-id"] == f"large-60b/turns/studiotv@{1793620800 + 2700}000"
    assert (message["kind"], message["subject"]) == ("cheaper_setup", "large-60b/turns/studiotv")
    assert (message["fired_at"], message["new_usd_per_hour"], message["old_usd_per_hour"]) == ("2026-11-02T12:45:00Z", "1.8", "2")
    assert message["text"].startswith("cheaper setup for large-60b: $1.80/h instead of $2.00/h")
    assert state(stored) == ("delivered", 1, "")
    assert stored.told()[0]["delivered_at"] == stored.at


@pytest.mark.loopback
def test_a_failure_is_noted_and_tried_again_when_its_pause_is_over(
    stored: Watch, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream.add("/hook", b"", method="POST", faults=["status:503"])
    box = outbox(stored, monkeypatch, f"{upstream.url}/hook")
    assert deliver(box) == 0
    assert state(stored) == ("stored", 1, "answered 503")
    stored.at += timedelta(seconds=29)
    assert (deliver(box), len(upstream.seen)) == (0, 1)
    stored.at += timedelta(seconds=1)
    assert (deliver(box), len(upstream.seen)) == (1, 2)
    assert state(stored) == ("delivered", 2, "")


@pytest.mark.loopback
def test_after_eight_attempts_over_an_hour_it_is_given_up_and_stays_visible(
    stored: Watch, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """30 s after the first attempt, then each pause twice as long: 30 x (2 ** n - 1) seconds after the alert."""
    upstream.add("/hook", b"", method="POST", status=500)
    box, fired, tried = outbox(stored, monkeypatch, f"{upstream.url}/hook"), stored.at, []
    with httpx.Client(trust_env=False) as client:
        for seconds in range(0, 7200, 10):
            stored.at, before = fired + timedelta(seconds=seconds), len(upstream.seen)
            box.deliver(client)
            tried += [seconds] * (len(upstream.seen) - before)
    assert tried == [0, 30, 90, 210, 450, 930, 1890, 3810]
    assert len(tried) == MAX_ATTEMPTS
    assert state(stored) == ("failed", 8, "answered 500")


FAULTS = [("redirect:http://127.0.0.1:9/elsewhere", "answered 302"), ("reset", "ReadError"), ("hang", "ReadTimeout")]


@pytest.mark.loopback
@pytest.mark.parametrize(("fault", "noted"), FAULTS)
def test_no_fault_of_the_webhook_s_gets_further_than_the_note(
    stored: Watch, upstream: Upstream, monkeypatch: pytest.MonkeyPatch, fault: str, noted: str
) -> None:
    upstream.add("/hook", b"", method="POST", lasting_fault=fault)
    assert deliver(outbox(stored, monkeypatch, f"{upstream.url}/hook"), timeout=0.3) == 0
    delivery, attempts, error = state(stored)
    assert (delivery, attempts, error.partition(":")[0]) == ("stored", 1, noted)
    assert len(upstream.seen) == 1


@pytest.mark.loopback
@pytest.mark.parametrize(
    "url",
    [
        f"http://127.0.0.1:9/{SECRET}",
        f"http://127.0.0.1:9/hook?token={SECRET}",
        f"http://user:{SECRET}@127.0.0.1:9/hook",
        f"http://hook:{SECRET}",  # reads as a port, and httpx quotes what it cannot read
        f"{SECRET}://x/hook",
        f"/{SECRET}",
        f"http://127.0.0.1:9/{SECRET}\n",
    ],
)
def test_the_address_is_in_no_log_and_no_row(
    stored: Watch, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, url: str
) -> None:
    for name in ("httpx", "httpcore"):
        caplog.set_level(logging.DEBUG, logger=name)
    caplog.set_level(logging.DEBUG)
    box = outbox(stored, monkeypatch, url)
    box.start()
    until(lambda: stored.told()[0]["attempts"] == 1, box.wake)
    box.close()
    assert "was not taken by the webhook (attempt 1 of 8)" in caplog.text
    assert SECRET not in caplog.text
    assert SECRET not in json.dumps(stored.told(), default=str)


def until(holds: Callable[[], bool], nudge: Callable[[], None] = lambda: None) -> None:
    """Wait until it holds."""
    end, pause = monotonic() + 20, threading.Event()
    while not holds():
        nudge()
        assert monotonic() < end
        pause.wait(0.01)


@pytest.mark.loopback
def test_the_address_stays_out_of_the_log_when_all_goes_well(
    stored: Watch, upstream: Upstream, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    upstream.add(f"/{SECRET}", b"", method="POST")
    for name in ("httpx", "httpcore"):
        caplog.set_level(logging.DEBUG, logger=name)
    caplog.set_level(logging.DEBUG)
    box = outbox(stored, monkeypatch, f"{upstream.url}/{SECRET}")
    box.start()
    until(lambda: state(stored)[0] == "delivered", box.wake)
    box.close()
    assert SECRET not in caplog.text


@pytest.mark.loopback
def test_what_an_earlier_process_left_is_sent_by_the_next(stored: Watch, upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    upstream.add("/hook", b"", method="POST", faults=["status:500"])
    deliver(outbox(stored, monkeypatch, f"{upstream.url}/hook"))
    stored.at += timedelta(days=1)
    assert deliver(outbox(stored, monkeypatch, f"{upstream.url}/hook")) == 1


@pytest.mark.loopback
def test_a_name_that_no_header_can_hold_is_quoted(watch: Watch, upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    watch.look("2.00")
    with writing(watch.db) as connection:
        row = dict(
            key="größe/x@1", kind="k", subject="s", fired_at=watch.at, body='{"text": "t"}', delivery="stored", attempts=0,
            delivered_at=None, last_error="",
        )  # fmt: skip
        connection.execute(ALERT.insert().values(**row))
    upstream.add("/hook", b"", method="POST")
    assert deliver(outbox(watch, monkeypatch, f"{upstream.url}/hook")) == 1
    assert (upstream.seen[0].headers["webhook-id"], upstream.seen[0].json()["id"]) == ("gr%C3%B6%C3%9Fe/x@1", "größe/x@1")


@pytest.mark.loopback
def test_the_thread_outlives_a_database_that_fails_for_a_while(
    stored: Watch, upstream: Upstream, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    upstream.add("/hook", b"", method="POST")
    with writing(stored.db) as connection:
        connection.execute(text("alter table alert rename to elsewhere"))
    box = outbox(stored, monkeypatch, f"{upstream.url}/hook")
    box.start()
    until(lambda: "alerts cannot be read or noted: OperationalError" in caplog.text, box.wake)
    with writing(stored.db) as connection:
        connection.execute(text("alter table elsewhere rename to alert"))
    until(lambda: state(stored)[0] == "delivered", box.wake)
    box.close()


@pytest.mark.loopback
def test_closing_does_not_wait_for_a_webhook_that_hangs(stored: Watch, upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    upstream.add("/hook", b"", method="POST", lasting_fault="hang")
    box = outbox(stored, monkeypatch, f"{upstream.url}/hook", webhook_timeout_s=60)
    box.start()
    until(lambda: len(upstream.seen) == 1, box.wake)
    before = monotonic()
    box.close()
    assert monotonic() - before < 5
    assert state(stored)[:2] == ("stored", 0)  # sent again by the next start


def test_without_a_webhook_an_alert_is_stored_and_logged(watch: Watch, caplog: pytest.LogCaptureFixture) -> None:
    threads = threading.active_count()
    watch.desk.outbox.start()
    watch.look("2.00")
    watch.look("1.80")
    (alarm,) = watch.look("1.80")
    assert threading.active_count() == threads
    assert [record.getMessage() for record in caplog.records if record.name == "breakeven.alerts"] == [alarm.text]
    assert state(watch) == ("stored", 0, "")
    watch.desk.close()
