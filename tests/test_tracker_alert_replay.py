"""A replay says what would have gone out when: quiet hours, the limit a day, digests and bundles as the daemon keeps them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from unittest.mock import patch

import commands
import pytest
from commands import breakeven
from questions import asking_world, offers
from small_world import T0
from sqlalchemy import Engine
from watching import CHEAPER, HOOK, Watch, watch_with

from tracker.alerting.backtest import Backtest, backtest
from tracker.alerting.replay import read_past, snapshots
from tracker.cli import session as sessions
from tracker.database.handle import reading

Make = Callable[..., Watch]
LARGE = 'models = ["large-60b"]\n'
NIGHT = '[delivery]\nquiet_hours = "22:00-07:00"\n'


@pytest.fixture
def make(db: Engine, tmp_path: Path) -> Make:
    """A watch that looks on the hour from 13:00 on; T0 is noon of a Monday."""

    def made(rules: str, *, asking: bool = False) -> Watch:
        watch = Watch(db, asking_world(tmp_path / "small", alerts_toml=rules)) if asking else watch_with(db, tmp_path, rules)
        watch.minutes = 60
        return watch

    return made


def replayed(watch: Watch) -> Backtest:
    with reading(watch.db) as connection:
        past = read_past(connection)
        looks = past.looks(T0, watch.at, timedelta(minutes=1))
        return backtest(watch.world, watch.world.alerts.rules, snapshots(connection, watch.world, past, looks, watch.at))


def hour(number: float) -> datetime:
    """So many hours after the midnight before T0."""
    return T0 - timedelta(hours=12) + timedelta(hours=number)


def listed(watch: Watch, *prices: str) -> Backtest:
    for price in prices:
        watch.look(price)
    return replayed(watch)


def fates(found: Backtest) -> Sequence[tuple[datetime, datetime | None, bool, datetime | None]]:
    return [(fired.at, fired.sent.at, fired.sent.bundled, fired.sent.waits_until) for fired in found.fired]


def test_what_is_told_by_day_is_sent_at_once(make: Make) -> None:
    found = listed(make(CHEAPER + NIGHT), "2.00", "1.80", "1.80", "1.80")
    assert fates(found) == [(hour(15), hour(15), False, None)]
    assert found.messages == 1


def test_what_is_told_at_night_is_sent_when_the_quiet_hours_end(make: Make) -> None:
    found = listed(make(CHEAPER + NIGHT), *["2.00"] * 9, *["1.80"] * 13)  # down at 22:00, told at 23:00
    assert fates(found) == [(hour(23), hour(31), False, None)]  # 7:00
    assert found.messages == 1


def test_it_is_sent_when_they_end_though_nobody_looked_just_then(make: Make) -> None:
    watch = make(CHEAPER + NIGHT)
    listed(watch, *["2.00"] * 9, "1.80", "1.80")
    watch.wait(hours=8.5)  # until 7:30, and an hour more to the next look
    assert fates(listed(watch, "1.80")) == [(hour(23), hour(31), False, None)]


def test_what_is_over_by_then_is_never_sent(make: Make) -> None:
    found = listed(make(CHEAPER + NIGHT), *["2.00"] * 9, "1.80", "1.80", *["2.00"] * 12)
    assert fates(found) == [(hour(23), None, False, None)]
    assert found.messages == 0


def test_what_still_waits_at_the_end_says_until_when(make: Make) -> None:
    assert fates(listed(make(CHEAPER + NIGHT), *["2.00"] * 9, "1.80", "1.80")) == [(hour(23), None, False, hour(31))]


def test_a_digest_rule_waits_for_the_digest(make: Make) -> None:
    found = listed(make(CHEAPER + "digest = true\n" + '[delivery]\ndigest_at = "18:00"\n'), "2.00", *["1.80"] * 8)
    assert fates(found) == [(hour(15), hour(18), False, None)]  # alone: no digest is made of one


def test_many_at_once_are_one_message(make: Make) -> None:
    """Four questions fall at 14:00 and are told at 15:00; more than three are bundled."""
    watch = make(CHEAPER + LARGE, asking=True)
    watch.look(*offers())
    for _ in range(3):
        watch.look(*offers("1.84", "2.00", "2.40", "2.64"))
    found = replayed(watch)
    assert fates(found) == [(hour(15), hour(15), True, None)] * 4
    assert found.messages == 1


def test_beyond_so_many_a_day_the_rest_waits_for_the_digest(make: Make) -> None:
    watch = make(CHEAPER + LARGE + '[delivery]\nmax_per_day = 1\nbundle_above = 10\ndigest_at = "18:00"\n', asking=True)
    watch.look(*offers())
    for _ in range(6):
        watch.look(*offers("1.84", "2.00", "2.40", "2.64"))
    found = replayed(watch)
    assert sorted(fates(found)) == [(hour(15), hour(15), False, None)] + [(hour(15), hour(18), True, None)] * 3
    assert found.messages == 2


def test_the_replay_sends_what_the_daemon_sent(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon looked on the hour, so it sent on the hour; which messages, alone or together, is the same."""
    monkeypatch.setenv("BREAKEVEN_WEBHOOK_URL", "http://127.0.0.1:9/hook")
    watch = make(CHEAPER + LARGE + NIGHT + "max_per_day = 1\nbundle_above = 10\n" + HOOK, asking=True)
    prices = (
        [offers()] * 2
        + [offers(own_pair="2.90")] * 4
        + [offers("1.84", own_pair="2.90")] * 4
        + [offers("1.84", "2.00")] * 4
        + [offers("2.30", "2.00", "2.40")] * 12
    )
    for rows in prices:
        watch.look(*rows)
    alerts, queued = {row["id"]: row for row in watch.told()}, {row["alert_id"]: row["created_at"] for row in watch.deliveries()}
    by_key = {row["key"]: queued.get(id_) for id_, row in alerts.items()}
    live = {
        row["key"]: (by_key[row["digest"] or row["key"]], bool(row["digest"]), row["held_until"])
        for row in alerts.values() if row["kind"] != "digest"
    }  # fmt: skip
    found = {fired.alarm.key: (fired.sent.at, fired.sent.bundled, fired.sent.waits_until) for fired in replayed(watch).fired}
    assert found == live
    assert len({at for at, _, _ in live.values()}) > 2


def test_the_command_says_it_in_words(make: Make) -> None:
    watch = make(CHEAPER + NIGHT)
    listed(watch, "2.00", "1.80", "1.80", *["1.80"] * 6, "1.60", "1.60")
    with patch.object(sessions, "world", lambda: watch.world), patch.object(commands, "sessions_open_book", lambda *_: watch.db):
        done = breakeven("alerts", "backtest", "--since", "2d", "--step", "1m", at=watch.at)
    assert done.code == 0, done.err
    lines = [line.split() for line in done.out.splitlines() if "cheaper setup" in line]
    assert [" ".join(line[3:6]) for line in lines] == ["at once yes", "waits until 2026-11-03"]  # at 21:00 the first was still true
    assert "11 looks over 0.4 days, 1 message" in done.out
