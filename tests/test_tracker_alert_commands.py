"""``breakeven alerts``: what people see, decide and try; and the replay of history, against expectations worked out by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import commands
import pytest
import replays
from commands import Ran, breakeven
from small_world import T0
from sqlalchemy import Engine, update
from upstream import Upstream
from watching import CHEAPER, HOOK, STALE, Watch, watch_with

from tracker.alerting import gallery
from tracker.alerting.backtest import Missed, backtest, summary
from tracker.alerting.counts import alert_counts
from tracker.alerting.decisions import retry
from tracker.alerting.ledger import ALERT, DELIVERY, message_of
from tracker.alerting.replay import read_past, snapshots
from tracker.alerting.routes import Email
from tracker.alerting.rules import Priced
from tracker.cli import session as sessions
from tracker.database.handle import reading, writing
from tracker.paths import config_dir
from tracker.world import load_world

RULES = CHEAPER + STALE + HOOK


@pytest.fixture
def watch(db: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watch:
    """One alert is active: $1.80 instead of $2.00, at 12:45. There is a route."""
    monkeypatch.setenv("BREAKEVEN_WEBHOOK_URL", "http://127.0.0.1:9/hook")
    found = watch_with(db, tmp_path, RULES)
    for price in ("2.00", "1.80", "1.80"):
        found.look(price)
    return found


@pytest.fixture
def shell(watch: Watch) -> Iterator[Watch]:
    """The command line works on that book with that configuration."""
    with patch.object(sessions, "world", lambda: watch.world), patch.object(commands, "sessions_open_book", lambda *_: watch.db):
        yield watch


def run(watch: Watch, *words: str) -> Ran:
    return breakeven("alerts", *words, at=watch.at)


def test_list_and_history(shell: Watch) -> None:
    listed = run(shell, "list")
    assert "1 active" in listed.text
    assert "cheaper setup for large-60b: $1.80/h instead of $2.00/h" in listed.text
    assert "route webhook: on" in listed.text
    assert "to webhook: waits; 0 attempts; not tried yet" in listed.text
    found = run(shell, "list", "--json").json
    assert [alert["state"] for alert in found["active"]] == ["active"]
    assert found["counts"] == {"waiting": 1, "oldest_waiting": "2026-11-02T12:45:00Z", "failed": 0, "delivered": 0}
    assert [alert["id"] for alert in run(shell, "history", "--json").json] == [1]
    shell.wait(days=8)
    assert run(shell, "history", "--json").json == []


def test_a_dead_letter_is_shown_and_can_be_sent_again(shell: Watch) -> None:
    with writing(shell.db) as connection:
        connection.execute(update(DELIVERY).values(state="failed", attempts=8, last_error="answered 500"))
    assert "DEAD LETTER, breakeven alerts retry sends it again; 8 attempts; answered 500" in run(shell, "list").text
    with reading(shell.db) as connection:
        assert alert_counts(connection, ()).failed == 1
    assert "1 dead letter back in the outbox" in run(shell, "retry").text
    assert [(row["state"], row["attempts"]) for row in shell.deliveries()] == [("stored", 0)]
    with writing(shell.db) as connection:
        assert retry(connection, shell.at) == 0


def test_ack(shell: Watch) -> None:
    assert "acknowledged" in run(shell, "ack", "1", "--by", "ann").text
    assert run(shell, "list", "--json").json["active"] == []
    assert [alert["state"] for alert in run(shell, "history", "--json").json] == ["acknowledged by ann"]
    for price in ("1.60", "1.60"):
        shell.look(price)
    assert len(shell.told()) == 2  # a further step is news
    done = run(shell, "ack", "99")
    assert (done.code, done.err.strip()) == (1, "breakeven: no alert 99; breakeven alerts history lists them")


def test_a_snoozed_subject_is_told_afterwards_if_it_is_still_so(shell: Watch) -> None:
    assert "silent until 2026-11-02 14:45 UTC" in run(shell, "snooze", "1", "--for", "2h").text
    assert [len(shell.look("1.50")) for _ in range(7)] == [0] * 7  # to 14:30
    assert len(shell.look("1.50")) == 1


def test_a_muted_rule_is_silent_until_it_is_not(shell: Watch) -> None:
    assert "silent until breakeven alerts unmute" in run(shell, "mute", "cheaper").text
    assert "silent until it is lifted: cheaper" in run(shell, "list").text
    shell.minutes = 60
    assert [len(shell.look("1.50")) for _ in range(30)] == [0] * 30
    assert "told again" in run(shell, "unmute", "cheaper").text
    assert len(shell.look("1.50")) == 1
    told = run(shell, "mute", "cheeper").err.strip()
    assert told == "breakeven: no rule named 'cheeper' (did you mean cheaper?); alerts.toml has cheaper, stale"


def test_a_message_for_a_route_that_is_off_is_shown_as_such(shell: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BREAKEVEN_WEBHOOK_URL")
    assert "to webhook: waits, and its route is off; 0 attempts" in run(shell, "list").text
    assert run(shell, "list", "--json").json["counts"]["waiting"] == 0


def test_an_alert_of_the_first_version_has_no_title_and_is_shown_by_its_text(shell: Watch) -> None:
    with writing(shell.db) as connection:
        connection.execute(update(ALERT).values(body='{"text": "old news"}'))
    assert run(shell, "ack", "1", "--by", "ann").text == "1: old news: acknowledged"
    assert message_of(shell.told()[0])["title"] == "old news"  # type: ignore[arg-type]


def test_a_test_is_sent_now_or_not_at_all(shell: Watch) -> None:
    done = breakeven("--at", "2026-11-02T12:00", "alerts", "test", at=shell.at)
    assert (done.code, done.err.strip()) == (1, "breakeven: --at is for looking back; this command knows only how things are now")


@pytest.mark.loopback
def test_a_test_is_really_sent(shell: Watch, upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    upstream.add("/hook", b"", method="POST", faults=["status:500"])
    monkeypatch.setenv("BREAKEVEN_WEBHOOK_URL", f"{upstream.url}/hook")
    done = run(shell, "test")
    assert (done.code, done.text) == (1, "webhook: answered 500")
    done = run(shell, "test", "--route", "webhook", "--json")
    assert (done.code, done.json) == (0, [{"route": "webhook", "taken": True, "answer": "taken"}])
    assert [seen.json()["text"][:6] for seen in upstream.seen] == ["[test]", "[test]"]
    assert len(shell.told()) == 1  # it is no alert


@pytest.mark.parametrize("can_draw", [True, False])
def test_an_address_nobody_can_have_is_told_in_a_line(shell: Watch, monkeypatch: pytest.MonkeyPatch, can_draw: bool) -> None:
    """And what pictures need, in another one, where it is not there."""
    monkeypatch.setattr(gallery, "can_draw", lambda: can_draw)
    mail = Email(host="127.0.0.1", port=9, security="none", to=("a@x..example",))
    shell.world = replace(shell.world, alerts=replace(shell.world.alerts, routes={"mail": mail}))
    done = run(shell, "test")
    missing = "" if can_draw else " messages carry no pictures of the price history: pip install 'breakeven[pictures]'"
    assert (done.code, done.text, done.err) == (1, "mail: unexpected HeaderParseError" + missing, "")


def test_a_route_that_is_off_says_why(shell: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BREAKEVEN_WEBHOOK_URL")
    assert run(shell, "test").err.strip() == "breakeven: no route is on: webhook: BREAKEVEN_WEBHOOK_URL is not set"
    done = run(shell, "test", "--route", "webhook")
    assert (done.code, done.text) == (1, "webhook: off: BREAKEVEN_WEBHOOK_URL is not set")


# --- replay ---------------------------------------------------------------------------------------------------------------


def replayed(watch: Watch, since: timedelta = timedelta(days=30)) -> Any:
    with reading(watch.db) as connection:
        past = read_past(connection)
        looks = past.looks(watch.at - since, watch.at, timedelta(minutes=1))
        return backtest(watch.world, watch.world.alerts.rules, snapshots(connection, watch.world, past, looks, watch.at))


PRICES = ("2.00", "1.80", "1.80", "1.80", "1.99", "2.10", "1.99", "1.50", "1.50", "1.20", *["1.40"] * 7)


def test_the_replay_tells_what_the_daemon_told(db: Engine, tmp_path: Path) -> None:
    watch = watch_with(db, tmp_path, CHEAPER)
    watch.minutes = 60
    live = [alarm.key for price in PRICES for alarm in watch.look(price)]
    found = replayed(watch)
    assert [fired.alarm.key for fired in found.fired] == live
    assert [fired.alarm.text for fired in found.fired] == [body["text"] for body in watch.bodies()]
    assert found.looks == len(PRICES)


def test_what_was_right_and_what_was_missed(db: Engine, tmp_path: Path) -> None:
    """Hourly from 1:00. $1.80 is told at 3:00 and is $1.99 from 5:00 on: no longer true at 9:00 would need more than $1.90, and
    $1.50 holds then. $1.50 against $1.80 is told at 9:00, and at 15:00 there is $1.40. $1.40 against $1.50 from 11:00 on is 6.7 %:
    told at 12:00.
    """
    watch = watch_with(db, tmp_path, CHEAPER)
    watch.minutes = 60
    for price in PRICES:
        watch.look(price)
    found = replayed(watch)
    told = [(fired.at - T0, fired.still_true) for fired in found.fired]
    hours = [(span / timedelta(hours=1), true) for span, true in told]
    assert hours[:2] == [(3, True), (9, True)]
    assert summary(found, watch.world.alerts.rules)[0]["fired"] == len(hours)


def test_a_fall_that_did_not_last_was_wrong(db: Engine, tmp_path: Path) -> None:
    watch = watch_with(db, tmp_path, CHEAPER)
    watch.minutes = 60
    for price in ("2.00", "1.80", "1.80", *["2.00"] * 8):
        watch.look(price)
    found = replayed(watch)
    assert [fired.still_true for fired in found.fired] == [False]
    assert (found.precision("cheaper"), found.missed) == ((0, 1), ())


def test_a_rule_that_is_too_slow_misses(db: Engine, tmp_path: Path) -> None:
    """Twelve sweeps an hour apart are more than the six hours that count."""
    watch = watch_with(db, tmp_path, CHEAPER.replace("sweeps = 2", "sweeps = 12\nhold_hours = 100"))
    watch.minutes = 60
    for price in ("2.00", *["1.50"] * 14):
        watch.look(price)
    found = replayed(watch)
    old, new = {"usd_per_hour": Decimal("2")}, {"usd_per_hour": Decimal("1.5")}
    subject = "large-60b/turns/studiotv"
    assert found.missed == (Missed(at=T0 + timedelta(hours=2), rule="cheaper", subject=subject, old=old, new=new),)


def test_the_command_prints_the_same(shell: Watch) -> None:
    done = run(shell, "backtest", "--since", "1d", "--step", "1m")
    assert done.code == 0
    assert "cheaper setup for large-60b: $1.80/h instead of $2.00/h" in done.text
    found = run(shell, "backtest", "--since", "1d", "--step", "1m", "--json").json
    assert (found["looks"], [fired["rule"] for fired in found["fired"]], found["missed"]) == (3, ["cheaper"], [])
    assert found["rules"][0] == {
        "rule": "cheaper",
        "kind": "cheaper_setup",
        "fired": 1,
        "sent": 1,
        "still_true": 0,
        "known": 0,
        "missed": 0,
    }
    assert len(shell.told()) == 1  # a replay stores nothing


@pytest.mark.shared
def test_the_defaults_on_recorded_list_prices(shared: Path, tmp_path: Path) -> None:
    """Two days of August 2026 as sweeps of the providers that list prices: what moved within a provider is told, and stays true."""
    feeds = [feed for feed in replays.marketplaces(shared) if feed.id in ("runpod", "jarvislabs", "hyperstack", "verda-datacrunch")]
    replay = replays.Replay(tmp_path, feeds)
    replay.run()
    world = replace(replay.collector.world, alerts=load_world(config_dir()).alerts)
    assert len(feeds) == 4
    with reading(replay.collector.db) as connection:
        past = read_past(connection)
        looks = past.looks(T0 - timedelta(days=365), T0, timedelta(minutes=5))
        rules = {name: rule for name, rule in world.alerts.rules.items() if isinstance(rule, Priced)}
        found = backtest(world, rules, snapshots(connection, world, past, looks, looks[-1]))
    assert found.looks > 40
    assert [fired for fired in found.fired if fired.still_true is False] == []
    assert found.missed == ()
