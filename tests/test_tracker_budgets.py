"""Budgets over a history of prices: month to date, pace, what is unknown, what is told and when it is over. All figures by hand.

A turn of large-60b is 6,000 cached, 1,500 fresh and 500 written tokens, a million turns a month. At vendor's 2.00, 0.20 and 10.00 that
is 0.0012 + 0.003 + 0.005 = $0.0092 a turn, $9,200 a month of 730 hours; at 1.00, 0.10 and 5.00 half of it, $4,600.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import commands
import pytest
from asgi import Served, body, get
from commands import breakeven
from databases import new_book, opened
from fastapi import FastAPI
from small_world import FILES, fx, rate, small_world, sweep
from sqlalchemy import Engine
from watching import HOOK, Watch

from engine.exact import cents, to_decimal
from tracker.alerting.backtest import backtest
from tracker.alerting.desk import AlertDesk
from tracker.alerting.outbox import Outbox
from tracker.alerting.replay import read_past, snapshots
from tracker.answers.billing import bills
from tracker.answers.recompute import Sizer, recompute
from tracker.answers.snapshot import Snapshot
from tracker.book.book import read_book
from tracker.book.stated import with_overrides
from tracker.budgets.costs import budgets_at
from tracker.budgets.facts import budget_facts
from tracker.budgets.live import Budgets
from tracker.budgets.prices import History
from tracker.budgets.state import BudgetState
from tracker.cli import collecting
from tracker.cli import session as sessions
from tracker.database.handle import reading
from tracker.errors import ConfigError
from tracker.metrics.families import families
from tracker.web.app import make_app
from tracker.web.budgets import add_to
from tracker.web.past import Budget
from tracker.world import World

NOVEMBER = datetime(2026, 11, 1, tzinfo=UTC)
DEAR = {"input": "2", "cache_read": "0.2", "output": "10"}
CHEAP = {"input": "1", "cache_read": "0.1", "output": "5"}
API = 'api = [{ model = "large-60b" }]'


def at(days: float) -> datetime:
    return NOVEMBER + timedelta(days=days)


def world_of(folder: Path, covers: str = API, usd: str = "9000", rules: str = "", **changed: str) -> World:
    tracker = FILES["tracker.toml"] + f"\n[budget.team]\nusd_per_month = {usd}\n{covers}\n"
    return small_world(folder / "small", tracker_toml=tracker, alerts_toml=rules, **changed)


def listed(db: Engine, start: float, end: float, every_h: float = 24, **prices: str) -> None:
    """``tokens`` is read every so many hours from one day of the month on to another, both included; its age limit is 48 hours."""
    moment = at(start)
    while moment <= at(end):
        sweep(db, "tokens", moment, rate(**prices))
        moment += timedelta(hours=every_h)


def state(db: Engine, world: World, when: datetime) -> BudgetState:
    with reading(db) as connection:
        (found,) = budgets_at(connection, world, History(world), when)
    return found


# --- what it cost -----------------------------------------------------------------------------------------------------


def test_a_month_at_one_price(db: Engine, tmp_path: Path) -> None:
    """Known since October: 14.5 days are 348 of the month's 720 hours."""
    listed(db, -1, 14.5, **DEAR)
    found = state(db, world_of(tmp_path), at(14.5))
    assert found.spent_usd == to_decimal(348 * Fraction(9200, 730))
    assert cents(found.spent_usd) == Decimal("4385.75")  # 348 / 730 x 9,200 = 4,385.7534
    assert found.unknown_hours == 0
    assert found.projected_usd is not None
    assert cents(found.projected_usd) == Decimal("9073.97")  # 720 / 730 x 9,200


def test_a_price_that_halves_within_the_month(db: Engine, tmp_path: Path) -> None:
    """9 days and 18 hours at $9,200 a month, 5 days and 6 hours at half of it, and the rest of the month at that."""
    listed(db, -1, 9, **DEAR)
    listed(db, 9.75, 15, every_h=6, **CHEAP)
    found = state(db, world_of(tmp_path), at(15))
    assert cents(found.spent_usd) == cents(Decimal(234 * 9200 + 126 * 4600) / 730)
    assert found.projected_usd is not None
    assert cents(found.projected_usd) == cents(Decimal(234 * 9200 + 486 * 4600) / 730)
    assert [(span.start, span.end) for span in found.parts[0].spans] == [(at(0), at(9.75)), (at(9.75), at(15))]


def test_hours_nobody_observed_are_unknown_and_not_free(db: Engine, tmp_path: Path) -> None:
    """Read until the 4th, then again from the 10th on: known for the 48 hours after the last reading (and the second in which they
    end), so four days less that second are not."""
    listed(db, -1, 3, **DEAR)
    listed(db, 9, 12, **DEAR)
    found = state(db, world_of(tmp_path), at(12))
    gap = Fraction(4 * 24 * 3600 - 1, 3600)
    assert Fraction(found.unknown_hours).limit_denominator(3600) == gap
    assert cents(found.spent_usd) == cents(Decimal((12 * 24 - gap).numerator) / (12 * 24 - gap).denominator * 9200 / 730)
    assert [span.usd_per_hour is None for span in found.parts[0].spans] == [False, True, False]


def test_a_book_that_began_within_the_month_knows_nothing_of_before(db: Engine, tmp_path: Path) -> None:
    listed(db, 10, 12, **DEAR)
    found = state(db, world_of(tmp_path), at(12))
    assert found.unknown_hours == 240
    assert cents(found.spent_usd) == cents(Decimal(48 * 9200) / 730)


def test_a_price_that_is_too_old_now_gives_no_pace(db: Engine, tmp_path: Path) -> None:
    listed(db, -1, 3, **DEAR)
    found = state(db, world_of(tmp_path), at(8))
    assert found.projected_usd is None
    assert cents(found.spent_usd) == cents(Decimal(5 * 24 * 3600 + 1) / 3600 * 9200 / 730)


def test_the_cheapest_provider_of_each_moment_or_the_one_that_is_named(db: Engine, tmp_path: Path) -> None:
    """From the 6th on another sells at half the price."""
    for day in range(-1, 11):
        cheap = [rate(provider="other", **CHEAP)] if day >= 5 else []
        sweep(db, "tokens", at(day), rate(**DEAR), *cheap)
    cheapest = state(db, world_of(tmp_path / "a"), at(10))
    named = state(db, world_of(tmp_path / "b", 'api = [{ model = "large-60b", provider = "vendor" }]'), at(10))
    assert cents(cheapest.spent_usd) == cents(Decimal(120 * 9200 + 120 * 4600) / 730)
    assert cents(named.spent_usd) == cents(Decimal(240 * 9200) / 730)
    assert named.driver.what == "large-60b at vendor: turns"


def test_a_volume_that_is_stated_takes_the_price_per_token_of_the_workload(db: Engine, tmp_path: Path) -> None:
    """$9,200 for 8,000 million tokens are $1.15 a million: 1,460 million cost $1,679 in 730 hours, $2.30 an hour."""
    listed(db, -1, 10, **DEAR)
    found = state(db, world_of(tmp_path, 'api = [{ model = "large-60b", tokens_per_month = 1_460_000_000 }]'), at(10))
    assert (found.spent_usd, found.projected_usd) == (Decimal("552"), Decimal("1656"))  # 240 h and 720 h


def test_a_foreign_price_costs_what_the_day_s_rate_makes_of_it(db: Engine, tmp_path: Path) -> None:
    """EUR 9,200 a month at $1.25, and at $1.00 from when that rate was read, on the 5th at 15:30."""
    sweep(db, "ecb", at(-3), fx=fx(at(-3).date(), USD="1.25"), rows=1)
    for day in range(-1, 10):
        if day == 4:
            sweep(db, "ecb", at(day) + timedelta(hours=15.5), fx=fx(at(day).date(), USD="1.00"), rows=1)
        sweep(db, "tokens", at(day), rate(currency="EUR", **DEAR))
    found = state(db, world_of(tmp_path), at(9))
    first = 4 * 24 + Decimal("15.5")
    assert cents(found.spent_usd) == cents((first * 11500 + (9 * 24 - first) * 9200) / 730)


def test_what_is_rented_costs_every_hour_of_the_month(db: Engine, tmp_path: Path) -> None:
    """[baseline] states $2.875 an hour: 240 hours are $690, 720 are $2,070."""
    found = state(db, world_of(tmp_path, 'rented = ["large-60b"]'), at(10))
    assert (found.spent_usd, found.projected_usd, found.unknown_hours) == (Decimal(690), Decimal(2070), 0)


RENTALS = """start,end,provider,gpu,gpu_count,price_per_hour,currency
2026-10-30T00:00:00Z,2026-11-03T12:00:00Z,cloud,test-80,8,10,USD
2026-11-20T00:00:00Z,2026-12-09T00:00:00Z,cloud,test-80,1,2.5,USD
2026-11-02T00:00:00Z,2026-11-02T10:00:00Z,euro-cloud,test-80,1,4,EUR
"""


def test_booked_rentals_cost_their_hours_and_the_rest_of_the_month_is_as_booked(db: Engine, tmp_path: Path) -> None:
    """60 hours of the first are of November: $600. 10 hours at EUR 4 and $1.25: $50. From the 20th on 11 days at 2.5: $660."""
    sweep(db, "ecb", at(-3), fx=fx(at(-3).date(), USD="1.25"), rows=1)
    world = world_of(tmp_path, 'rentals = "rentals.csv"', rentals_csv=RENTALS)
    found = state(db, world, at(10))
    assert (found.spent_usd, found.projected_usd, found.unknown_hours) == (Decimal(650), Decimal(1310), 0)
    later = state(db, world, at(20))
    assert (later.spent_usd, later.projected_usd) == (Decimal(650) + 60, Decimal(1310))


def test_a_rental_in_a_currency_nobody_converts_is_unknown(db: Engine, tmp_path: Path) -> None:
    found = state(db, world_of(tmp_path, 'rentals = "rentals.csv"', rentals_csv=RENTALS), at(10))
    assert (found.spent_usd, found.unknown_hours) == (Decimal(600), Decimal(10))


def test_a_file_that_is_gone_since_the_start_makes_it_unknown_and_says_why(db: Engine, tmp_path: Path) -> None:
    world = world_of(tmp_path, 'rentals = "rentals.csv"', rentals_csv=RENTALS)
    (world.config.config_dir / "rentals.csv").unlink()
    found = state(db, world, at(10))
    assert (found.spent_usd, found.projected_usd, found.unknown_hours) == (None, None, 240)
    assert found.parts[0].how == "rentals.csv: cannot be read: No such file or directory"  # and not in which folder of the server


def test_hours_in_which_several_rentals_are_unknown_are_counted_once(db: Engine, tmp_path: Path) -> None:
    """Ten hours of the second day, and the 30 hours from their sixth one on: 35 hours of the month."""
    lines = RENTALS + "2026-11-02T05:00:00Z,2026-11-03T11:00:00Z,euro-cloud,test-80,1,4,EUR\n"
    found = state(db, world_of(tmp_path, 'rentals = "rentals.csv"', rentals_csv=lines), at(10))
    assert (found.spent_usd, found.unknown_hours) == (Decimal(600), Decimal(35))


def test_a_month_without_a_known_price_has_cost_nobody_knows_what_and_not_nothing(db: Engine, tmp_path: Path) -> None:
    world = world_of(tmp_path)
    found = state(db, world, at(10))
    assert (found.spent_usd, found.projected_usd, found.unknown_hours) == (None, None, 240)
    facts = budget_facts(found)
    assert (facts["month_to_date_usd"], facts["parts"][0]["month_to_date_usd"]) == (None, None)
    assert "month_to_date_usd" not in figures(Budgets(db, world).on(recompute(db, world, Sizer(world), at(10))))
    with patch.object(sessions, "world", lambda: world), patch.object(commands, "sessions_open_book", lambda *_: db):
        shown = breakeven("budget", "--explain", at=at(10)).text
    assert "so far 2026-11-01 to 2026-11-11 00:00 UTC: not known" in shown
    assert "0.00" not in shown.replace("9,000.00", "")
    assert state(db, world, at(0)).spent_usd == 0  # nothing has passed


def test_a_budget_may_be_for_several_things(db: Engine, tmp_path: Path) -> None:
    listed(db, -1, 10, **DEAR)
    both = state(db, world_of(tmp_path, API + '\nrented = ["large-60b"]'), at(10))
    assert cents(both.spent_usd) == cents(Decimal(240 * 9200) / 730 + 690)
    assert both.driver.what == "large-60b at the cheapest API: turns"


@pytest.mark.parametrize("days", [0, 0.5, 29.99])
def test_at_every_moment_what_was_and_what_is_to_come_are_the_month(db: Engine, tmp_path: Path, days: float) -> None:
    listed(db, -1, days, every_h=12, **DEAR)
    found = state(db, world_of(tmp_path), at(days))
    assert found.projected_usd is not None
    assert cents(found.projected_usd) == Decimal("9073.97")


def test_the_stretches_are_what_a_look_at_every_quarter_of_an_hour_sees(db: Engine, tmp_path: Path) -> None:
    """Random prices of three sellers in two currencies, read at random with holes beyond the age limit of two hours, a contract
    for a day: against the cheapest fresh rate that the whole book has, 384 times. An age limit ends a second late."""
    dice = random.Random(20261101)
    sources = FILES["sources.toml"].replace("max_age_hours = 48", "max_age_hours = 2")
    contract = (
        '[contract]\nprovider = "fourth"\nmodel = "large-60b"\nprices = { input = 1.9, cache_read = 0.2, output = 10 }\n'
        'currency = "USD"\nfrom = 2026-11-03\nto = 2026-11-04\nsource = "made up"\nchecked = 2026-11-29\n'
    )
    world = world_of(tmp_path, sources_toml=sources, overrides_toml=contract)
    sweep(db, "ecb", at(-2), fx=fx(at(-2).date(), USD="1.25"), rows=1)
    for quarter in range(-8, 4 * 96):
        when = at(quarter / 96)
        if dice.random() < 0.01:
            sweep(db, "ecb", when, fx=fx(when.date(), USD=f"{dice.randint(100, 130) / 100}"), rows=1)
        if dice.random() < 0.12:
            sold = [("vendor", "USD"), ("other", "EUR"), ("third", "USD")]
            rows = [
                rate(provider=name, currency=currency, input=f"{dice.randint(10, 30) / 10}", cache_read="0.2", output="10")
                for name, currency in sold
                if dice.random() < 0.8
            ]  # fmt: skip
            sweep(db, "tokens", when, *(rows or [rate(**DEAR)]))
    found = state(db, world, at(4))
    usd, unknown = Fraction(0), 0
    for quarter in range(4 * 96):
        with reading(db) as connection:
            book = read_book(connection, at(quarter / 96) + timedelta(seconds=2), world.config.sources)
        shown = bills(world, with_overrides(book, world.overrides, ()), world.model("large-60b"), world.workload(), ("standard",))
        if shown.fresh:
            usd += Fraction(shown.rows[0].choice.usd_per_month) / 730 / 4
        else:
            unknown += 1
    assert 20 < unknown < 300
    assert abs(found.unknown_hours - Decimal(unknown) / 4) < Decimal("0.01")
    assert abs(found.spent_usd - to_decimal(usd)) < Decimal("0.1")
    assert len({span.usd_per_hour for span in found.parts[0].spans}) > 15


@pytest.fixture
def postgres(request: pytest.FixtureRequest) -> Iterator[Engine]:
    yield from opened(new_book(request, "postgres"))


@pytest.mark.real
def test_postgresql_tells_the_same(postgres: Engine, tmp_path: Path) -> None:
    world = world_of(tmp_path)
    listed(postgres, -1, 3, **DEAR)
    listed(postgres, 9, 12, **DEAR)
    found = state(postgres, world, at(12))
    assert [span.usd_per_hour is None for span in found.parts[0].spans] == [False, True, False]
    assert cents(found.spent_usd) == Decimal("2419.73")  # (12 x 24 - 4 x 24 + 1 / 3,600) x 9,200 / 730


def test_one_that_remembers_answers_as_one_that_looks_anew(db: Engine, tmp_path: Path) -> None:
    world = world_of(tmp_path)
    budgets, sizer = Budgets(db, world), Sizer(world)
    for day in range(-1, 40):
        sweep(db, "tokens", at(day), rate(**(DEAR if day % 7 < 4 else CHEAP)))
        (seen,) = budgets.on(recompute(db, world, sizer, at(day) + timedelta(hours=3))).budgets
        assert seen == state(db, world, at(day) + timedelta(hours=3))
    assert f"{seen.month:%Y-%m}" == "2026-12"


def test_a_configuration_without_budgets_asks_nothing(db: Engine, world: World) -> None:
    snapshot = recompute(db, world, Sizer(world), at(1))
    assert Budgets(db, world).on(snapshot) is snapshot


WRONG = {
    'api = [{ model = "large-6b" }]': r"\[budget.team\] no model named 'large-6b' \(did you mean large-60b\?\)",
    'api = [{ model = "large-60b", workload = "turn" }]': r"\[budget.team\] no workload named 'turn' \(did you mean turns\?\)",
    'rented = ["small-8b"]': r"\[budget.team\] rented: \[baseline\] states no rent for 'small-8b'",
    'rentals = "none.csv"': r"\[budget.team\] .*none.csv: cannot be read",
    "": r"\[budget\] team: Value error, must name what it is for: api, rented or rentals",
    "apis = []": r"\[budget\] team.apis: unknown key",
}


@pytest.mark.parametrize("covers", WRONG)
def test_a_budget_for_nothing_known_stops_the_start(tmp_path: Path, covers: str) -> None:
    with pytest.raises(ConfigError, match=WRONG[covers]):
        world_of(tmp_path, covers)


def test_a_rule_about_no_budget_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\[rules.pace\] budgets: tracker.toml has no \[budget.teams\] \(did you mean team\?\)"):
        world_of(tmp_path, rules=PACE + 'budgets = ["teams"]\n')


# --- what is told -----------------------------------------------------------------------------------------------------

PACE = '[rules.pace]\nkind = "budget_pace"\nmargin_percent = 5\nsweeps = 2\n'


class Paced(Watch):
    """A desk that sees the budgets."""

    budgets: Budgets

    def restart(self) -> None:
        self.budgets = Budgets(self.db, self.world)
        self.desk = AlertDesk(
            db=self.db, world=self.world, started_at=self.at, outbox=Outbox(self.db, self.world.alerts, lambda: self.at)
        )  # fmt: skip

    def see(self, days: float, **prices: str) -> tuple[Any, ...]:
        """What is told at that day of the month, after a sweep at those prices."""
        self.at = at(days)
        sweep(self.db, "tokens", self.at, rate(**prices))
        return self.desk.judge(self.budgets.on(recompute(self.db, self.world, self.sizer, self.at)))


@pytest.fixture
def paced(db: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paced:
    """At $9,200 a month a November comes to $9,073.97: 5 % over $8,641.88, so over the $8,500 of the plan by 6.8 %."""
    monkeypatch.setenv("BREAKEVEN_WEBHOOK_URL", "http://127.0.0.1:9/hook")
    return Paced(db, world_of(tmp_path, usd="8500", rules=PACE + HOOK))


def test_a_month_whose_first_price_is_that_of_now_is_told_without_a_sum_so_far(
    db: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """29 days at $9,200 a month of 730 hours come to $8,771.51."""
    monkeypatch.setenv("BREAKEVEN_WEBHOOK_URL", "http://127.0.0.1:9/hook")
    paced = Paced(db, world_of(tmp_path, usd="8000", rules=PACE.replace("sweeps = 2", "sweeps = 1") + HOOK))
    (alarm,) = paced.see(1, **DEAR)
    assert alarm.text == (
        "budget team: 2026-11 comes to $8,771.51 instead of $8,000.00 (+9.6 %): ? so far, most of it large-60b at the cheapest API: "
        "turns (?, the rest of the month at the price of now); of 24 hours no price is known, they are not in it"
    )
    assert (alarm.facts["month_to_date_usd"], alarm.facts["driver_usd"]) == (None, None)


def test_a_month_that_comes_to_more_than_planned_is_told_once_and_is_over_when_it_does_not(paced: Paced) -> None:
    assert [paced.see(day, **DEAR) for day in (-1, 0.1, 0.5, 0.99)] == [()] * 4  # the first day says little
    assert paced.see(1, **DEAR) == ()
    (alarm,) = paced.see(1.5, **DEAR)
    assert (alarm.kind, alarm.subject) == ("budget_pace", "budget/team")
    assert alarm.title == "budget team: 2026-11 comes to $9,073.97 instead of $8,500.00"
    assert alarm.text == (
        "budget team: 2026-11 comes to $9,073.97 instead of $8,500.00 (+6.8 %): $453.70 so far, most of it large-60b at the cheapest API: "
        "turns ($453.70, the rest of the month at the price of now)"
    )  # 36 / 730 x 9,200 = 453.699
    facts = alarm.facts
    assert (facts["month"], facts["budget_usd"], facts["projected_usd"], facts["month_to_date_usd"]) == (
        "2026-11", "8500", "9073.97", "453.70",
    )  # fmt: skip
    assert [paced.see(day, **DEAR) for day in (2, 3)] == [()] * 2
    assert paced.told()[0]["over_at"] is None
    paced.see(4, **CHEAP)
    paced.see(4.5, **CHEAP)
    assert paced.told()[0]["over_at"] == at(4.5)


def test_within_the_margin_nothing_is_told_and_what_was_told_is_not_over(paced: Paced) -> None:
    """$9,073.97 is more than $8,700 and less than 5 % more than it."""
    for day in (-1, 0, 1, 2):
        paced.see(day, **DEAR)
    assert len(paced.told()) == 1
    between = {"input": "1.95", "cache_read": "0.19", "output": "9.6"}  # $8,865 a month of 730 hours: a pace of $8,761
    paced.see(3, **between)
    paced.see(4, **between)
    assert paced.told()[0]["over_at"] is None


def test_a_new_month_starts_anew(paced: Paced) -> None:
    for day in (-1, 0, 1, 2, *range(4, 30, 2), 30, 30.5):
        paced.see(day, **DEAR)
    (first,) = paced.told()
    assert first["over_at"] == at(30)
    paced.see(31, **DEAR)
    (alarm,) = paced.see(31.5, **DEAR)
    assert "2026-12 comes to $9,376.44 instead of $8,500.00" in alarm.title  # 744 hours


def test_what_is_unknown_is_said_and_a_pace_that_is_unknown_is_no_news(paced: Paced) -> None:
    assert paced.see(10, **DEAR) == ()
    paced.at = at(20)
    assert paced.desk.judge(paced.budgets.on(recompute(paced.db, paced.world, paced.sizer, paced.at))) == ()
    paced.world = world_of(paced.world.config.config_dir.parent / "tight", usd="1000", rules=PACE)
    paced.restart()
    paced.see(21, **DEAR)
    (alarm,) = paced.see(22, **DEAR)
    assert alarm.text.endswith("; of 456 hours no price is known, they are not in it")  # but for a second


def test_the_backtest_tells_what_would_have_been_told(db: Engine, tmp_path: Path) -> None:
    world = world_of(tmp_path, usd="8500", rules=PACE)
    for day in range(8):
        sweep(db, "tokens", at(day), rate(**(DEAR if day < 5 else CHEAP)))
    with reading(db) as connection:
        past = read_past(connection)
        looks = past.looks(at(0), at(8), timedelta(minutes=15))
        found = backtest(world, world.alerts.rules, snapshots(connection, world, past, looks, at(8)))
    (fired,) = found.fired
    assert (fired.at, fired.still_true) == (at(2), True)
    assert fired.alarm.title == "budget team: 2026-11 comes to $9,073.97 instead of $8,500.00"
    assert found.precision("pace") == (1, 1)


# --- what is shown ----------------------------------------------------------------------------------------------------


def figures(snapshot: Snapshot) -> dict[str, float]:
    return {f.name.removeprefix("breakeven_"): n for f in families(snapshot) for labels, n in f.samples if labels == ("team",)}


def test_metrics(db: Engine, tmp_path: Path) -> None:
    world = world_of(tmp_path)
    listed(db, 1, 10, **DEAR)
    snapshot = Budgets(db, world).on(recompute(db, world, Sizer(world), at(10)))
    assert figures(snapshot) == pytest.approx(
        {
            "budget_usd": 9000, "month_to_date_usd": 216 * 9200 / 730, "month_to_date_unknown_seconds": 86400,
            "month_projected_usd": 696 * 9200 / 730,
        }
    )  # fmt: skip
    assert "month_projected_usd" not in figures(Budgets(db, world).on(recompute(db, world, Sizer(world), at(20))))


MISSPELT = 'api = [{ model = "large-60b", provider = "vendr" }, { model = "large-60b", provider = "%s" }]'


def test_a_provider_nobody_knows_is_told_with_the_nearest_one(db: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """vendor-ai is another spelling of vendor, and seller has a rate in the book alone, which only a book that is there tells."""
    said = "tracker.toml: [budget.team] api: no rate is known of a provider {!r}{}; what it costs is unknown until there is one"
    vendr = said.format("vendr", " (did you mean vendor?)")
    listed(db, 1, 2, **DEAR)
    sweep(db, "tokens", at(3), rate(provider="seller", **DEAR))
    monkeypatch.setenv("BREAKEVEN_DATA", str(tmp_path / "none"))
    for other, in_check in (("vendor-ai", [vendr]), ("seller", [vendr, said.format("seller", "")])):
        world = world_of(tmp_path / other, MISSPELT % other)
        with patch.object(sessions, "world", lambda world=world: world), patch.object(commands, "sessions_open_book", lambda *_: db):
            told = breakeven("budget", "--json", at=at(10))
        with patch.object(collecting, "world", lambda world=world: world):
            checked = [breakeven("check"), breakeven("check", "--json")]
            with patch.object(collecting, "open_database", lambda url: db):
                with_book = breakeven("check", "--json")
        assert (told.err.splitlines(), len(told.json["budgets"])) == ([f"breakeven: {vendr}"], 1)
        assert checked[0].out.splitlines()[1:] == in_check
        assert [f"tracker.toml: {doubt}" for doubt in checked[1].json["doubts"]] == in_check
        assert [f"tracker.toml: {doubt}" for doubt in with_book.json["doubts"]] == [vendr]
    assert not (tmp_path / "none").exists()  # a check makes no book


def test_the_command_shows_every_figure_and_its_receipt(db: Engine, tmp_path: Path) -> None:
    listed(db, 1, 10, **DEAR)
    world = world_of(tmp_path, API + '\nrented = ["large-60b"]')
    with patch.object(sessions, "world", lambda: world), patch.object(commands, "sessions_open_book", lambda *_: db):
        shown = breakeven("budget", "--explain", at=at(10)).text
        told = json.loads(breakeven("budget", "team", "--json", at=at(10)).text)
        wrong = breakeven("budget", "teem", at=at(10))
    assert "3,412.19" in shown  # 216 / 730 x 9,200 + 240 x 2.875
    assert "2026-11-01 00:00 to 2026-11-02 00:00: 24 h unknown (no fresh price)" in shown
    assert "2026-11-02 00:00 to 2026-11-11 00:00: 216 h x $12.60274/h = $2,722.19 (vendor large-60b, $9200 a month)" in shown
    assert "240 h x $2.875/h = $690.00 (as stated in [baseline])" in shown
    assert "to the end of the month, at the price of now: $6,049.32" in shown  # 480 / 730 x 9,200
    (found,) = told["budgets"]
    assert (found["budget"], found["unknown_hours"], found["parts"][1]["month_to_date_usd"]) == ("team", "24", "690")
    assert cents(Decimal(found["month_to_date_usd"])) == Decimal("3412.19")
    assert "no budget named 'teem' (did you mean team?)" in wrong.err


def test_the_api_tells_the_same_now_and_of_a_past_moment(db: Engine, tmp_path: Path) -> None:
    listed(db, 1, 10, **DEAR)
    world = world_of(tmp_path)
    snapshot = Budgets(db, world).on(recompute(db, world, Sizer(world), at(10)))
    served = Served(world, db, snapshot, lambda: at(10))
    app = make_app(served)
    now = body(app, "/api/v1/budgets")
    assert now == body(app, "/api/v1/budgets?at=2026-11-11T00:00Z")
    (found,) = now["budgets"]
    assert (now["at"], found["budget"], found["unknown_hours"]) == ("2026-11-11T00:00:00Z", "team", "24")
    assert cents(Decimal(found["month_to_date_usd"])) == Decimal("2722.19")  # 216 / 730 x 9,200
    (before,) = body(app, "/api/v1/budgets?at=2026-11-03T00:00Z")["budgets"]
    assert cents(Decimal(before["month_to_date_usd"])) == Decimal("302.47")  # 24 / 730 x 9,200
    assert [answer.status_code for answer in get(app, "/api/v1/budgets?at=2027-01-01", "/api/v1/budgets?at=x")] == [400, 400]
    (first,) = body(app, "/api/v1/budgets?at=0001-01-01")["budgets"]
    assert (first["month"], first["month_to_date_usd"], first["unknown_hours"]) == ("0001-01", "0", "0")


@pytest.mark.parametrize(("covers", "answered"), [('rented = ["large-60b"]', 20), (API, 4), (API[:-1] + ', { model = "small-8b" }]', 3)])
def test_what_a_past_month_costs_to_ask_grows_with_its_api_uses(db: Engine, tmp_path: Path, covers: str, answered: int) -> None:
    """20 units at once: 1 for a month without a use, 5 with one, and 9 with two. What is asked within them may go beyond them."""
    listed(db, 1, 2, **DEAR)
    world = world_of(tmp_path, covers)
    app, snapshot = FastAPI(), recompute(db, world, Sizer(world), at(2))
    add_to(app, world, db, lambda: at(2), lambda: snapshot, Budget(counted=lambda: 0.0))
    told = [found.status_code for found in get(app, *["/api/v1/budgets?at=2026-11-02T12:00Z"] * 21)]
    assert told[: answered + 1] == [200] * answered + [429]


def test_the_api_tells_of_budgets_before_the_first_recompute_has_worked_them_out(db: Engine, tmp_path: Path) -> None:
    world = world_of(tmp_path)
    listed(db, 1, 10, **DEAR)
    app = make_app(Served(world, db, recompute(db, world, Sizer(world), at(10)), lambda: at(10) + timedelta(seconds=9)))
    told = body(app, "/api/v1/budgets")
    assert (told["at"], cents(Decimal(told["budgets"][0]["month_to_date_usd"]))) == ("2026-11-11T00:00:00Z", Decimal("2722.19"))
