"""The judge by itself, on made-up prices: what must hold for every sequence of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from small_world import T0

from tracker.alerting.judge import MOVED, Seen, State, Terms, judge, moved
from tracker.alerting.state import state_of
from tracker.plain import plain

HOUR = timedelta(hours=1)
FALLS = Terms(sweeps=2, tells=frozenset({"down"}), percent=Decimal(5), rearm=24 * HOUR)
RISES = replace(FALLS, tells=frozenset({"up"}))
BOTH = replace(FALLS, tells=frozenset({MOVED}))
SIDES = Terms(sweeps=2, cooldown=24 * HOUR)

cents = st.integers(min_value=100, max_value=400).map(lambda n: Decimal(n) / 100)


def seen(hour: float, price: Decimal | None = None, **other: object) -> Seen:
    stated = {"prices": {"usd_per_hour": price}} if price is not None else {}
    return Seen(rule="r", kind="k", subject="s", basis="b", seen_at=T0 + hour * HOUR, **{**stated, **other})  # type: ignore[arg-type]


def run(terms: Terms, prices: Sequence[Decimal], state: State | None = None) -> tuple[list[int], State]:
    """The hours at which an hourly price is told, and what is remembered."""
    told = []
    for hour, price in enumerate(prices):
        ruling = judge(terms, state, seen(hour, price), T0 + hour * HOUR)
        state = ruling.state
        told += [hour] * ruling.told
    assert state is not None
    return told, state


steps = st.tuples(st.integers(min_value=9026, max_value=10000) | st.sampled_from([9026, 10000]), st.integers(min_value=1, max_value=8))


@given(st.lists(steps, min_size=6, max_size=40))
def test_a_price_that_flutters_within_two_steps_is_told_once_at_most(stays: list[tuple[int, int]]) -> None:
    """From at most 100 % the first message comes at 95 % or less, the second at 90.25 % or less of that: lower than any of these.

    It stays at a level for some hours; a rise never lasts: once in 23 hours the price is at the bottom of its range.
    """
    parts = [part for part, hours in stays for _ in range(hours)]
    prices = [Decimal(9026 if hour % 23 == 22 else part) for hour, part in enumerate(parts)]
    assert len(run(FALLS, prices)[0]) <= 1


@given(st.lists(st.integers(min_value=9501, max_value=10000), min_size=1, max_size=150))
def test_a_price_that_flutters_within_one_step_is_never_told(parts: list[int]) -> None:
    assert run(FALLS, [Decimal(part) for part in parts])[0] == []


@given(st.integers(min_value=1, max_value=49), st.integers(min_value=1, max_value=5))
def test_a_slide_is_told_however_slow(thousandths: int, sweeps: int) -> None:
    """By less than 5 % an hour: told when it adds up to 5 %, plus the hours it must be seen."""
    factor = 1 - Decimal(thousandths) / 1000
    first = next(hour for hour in range(1, 100) if factor**hour <= Decimal("0.95"))
    prices = [Decimal(100) * factor**hour for hour in range(first + sweeps)]
    assert run(replace(FALLS, sweeps=sweeps), prices)[0] == [first + sweeps - 1]


@given(st.lists(cents, min_size=1, max_size=60), st.integers(min_value=1, max_value=4))
def test_in_the_end_no_saving_is_left_untold(prices: list[Decimal], sweeps: int) -> None:
    """Whatever went before: when a price has stood still long enough, it is no longer worth telling against what was told."""
    terms = replace(FALLS, sweeps=sweeps)
    _, state = run(terms, [*prices, *[prices[-1]] * sweeps])
    assert moved(terms, state.prices["usd_per_hour"], prices[-1]) != "down"


@given(st.lists(cents, min_size=1, max_size=60))
def test_rises_are_told_as_falls_are_of_the_price_upside_down(prices: list[Decimal]) -> None:
    """Without a rearm both only ever see one way; 1/x turns a rise by 1/0.95 into a fall by 5 %."""
    falls, rises = (replace(terms, rearm=10_000 * HOUR) for terms in (FALLS, replace(RISES, percent=Decimal(100) / 19)))
    assert run(falls, prices)[0] == run(rises, [1 / price for price in prices])[0]


@given(st.lists(st.tuples(cents, st.integers(min_value=1, max_value=5)), min_size=1, max_size=40))
def test_it_does_not_matter_how_often_a_sweep_is_looked_at(looks: list[tuple[Decimal, int]]) -> None:
    once, often = [], []
    state: State | None = None
    for hour, (price, times) in enumerate(looks):
        for look in range(times):
            ruling = judge(FALLS, state, seen(hour, price), T0 + hour * HOUR + look * timedelta(minutes=1))
            state = ruling.state
            often += [hour] * ruling.told
    once = run(FALLS, [price for price, _ in looks])[0]
    assert often == once


@given(st.lists(cents, min_size=1, max_size=60))
def test_a_cooldown_lets_less_through_and_nothing_else(prices: list[Decimal]) -> None:
    """Between two messages lies a day, and what it held back is told afterwards if it is still so."""
    terms = replace(FALLS, cooldown=24 * HOUR)
    told, state = run(terms, [*prices, *[prices[-1]] * 26])
    assert all(later - earlier >= 24 for earlier, later in pairwise(told))
    assert moved(terms, state.prices["usd_per_hour"], prices[-1]) != "down"


def test_a_very_large_step_does_not_wait() -> None:
    terms = replace(FALLS, cooldown=24 * HOUR, cooldown_percent=Decimal(20))
    prices = [Decimal(price) for price in (100, 90, 90, 75, 75, 60, 60, 60)]
    assert run(terms, prices)[0] == [2, 5]  # 75 is 16.7 % below 90 and waits, 60 is a third below and does not


@given(st.lists(cents, min_size=2, max_size=60))
def test_what_is_kept_in_the_database_is_the_whole_memory(prices: list[Decimal]) -> None:
    told, state, now = [], None, T0
    for hour, price in enumerate(prices):
        now = T0 + hour * HOUR
        kept = None if state is None else state_of(json.loads(json.dumps(plain(state))))
        assert kept == state
        ruling = judge(FALLS, kept, seen(hour, price), now)
        state = ruling.state
        told += [hour] * ruling.told
    assert told == run(FALLS, prices)[0]


def test_a_rate_is_told_either_way_and_by_any_part_of_it() -> None:
    def look(hour: int, state: State | None, **prices: str) -> tuple[bool, State]:
        found = replace(seen(hour), prices={kind: Decimal(price) for kind, price in prices.items()})
        ruling = judge(BOTH, state, found, T0 + hour * HOUR)
        return ruling.told, ruling.state

    _, state = look(0, None, input="2", output="10")
    _, state = look(1, state, input="2", output="11")
    told, state = look(2, state, input="2", output="11")
    assert told
    _, state = look(3, state, input="1.8", output="11")
    told, state = look(4, state, input="1.8", output="11")
    assert told


def test_a_message_is_over_when_half_of_it_is_gone_or_after_its_time() -> None:
    """100 to 90 is told; 5 % was asked for, so it holds to 97.5. It takes as many sweeps as telling did."""
    state: State | None = None
    over = []
    for hour, price in enumerate((100, 90, 90, 97, 98, 97, 98, 98, 90)):
        ruling = judge(FALLS, state, seen(hour, Decimal(price)), T0 + hour * HOUR)
        state = ruling.state
        over += [hour] * bool(ruling.over)
    assert over == [7]
    _, state = run(FALLS, [Decimal(price) for price in (100, 90, 90)])
    assert judge(FALLS, state, seen(25, Decimal(90)), T0 + 25 * HOUR).over == ""
    assert judge(FALLS, state, seen(26, Decimal(90)), T0 + 26 * HOUR).over == state.active  # told at hour 2, a day ago


@given(st.lists(st.sampled_from(["api", "self_host", ""]), min_size=1, max_size=60))
def test_a_label_is_told_when_it_lasts_and_once_a_day(labels: list[str]) -> None:
    """An independent count: twice in a row (unknown says nothing, and breaks nothing) another one than the last that was told."""
    state: State | None = None
    told, expected = [], []
    known, run_of, last = "", 0, None
    for hour, label in enumerate(labels):
        ruling = judge(SIDES, state, seen(hour, label=label), T0 + hour * HOUR)
        state = ruling.state
        told += [hour] * ruling.told
        if not label:
            continue
        if not known:
            known = label
            continue
        run_of = run_of + 1 if label != known else 0
        if run_of >= 2 and (last is None or hour - last >= 24):
            expected.append(hour)
            known, run_of, last = label, 0, hour
    assert told == expected


def test_another_question_starts_anew_in_silence() -> None:
    _, state = run(FALLS, [Decimal(100)])
    other = replace(seen(1, Decimal(50)), basis="another source was read")
    ruling = judge(FALLS, state, other, T0 + HOUR)
    assert (ruling.told, ruling.state.prices) == (False, {"usd_per_hour": Decimal(50)})


def test_what_may_not_be_told_now_is_told_later_if_it_is_still_so() -> None:
    state: State | None = None
    told = []
    for hour, price in enumerate((100, 90, 90, 90, 90, 90)):
        ruling = judge(FALLS, state, seen(hour, Decimal(price)), T0 + hour * HOUR, may_tell=hour >= 4)
        state = ruling.state
        told += [hour] * ruling.told
    assert told == [4]


def test_sweeps_of_a_clock_that_was_ahead_hold_nothing_up() -> None:
    _, state = run(FALLS, [Decimal(100)])
    ahead = judge(FALLS, state, seen(48, Decimal(90)), T0 + 48 * HOUR).state
    once = judge(FALLS, ahead, seen(1, Decimal(90)), T0 + HOUR).state
    assert judge(FALLS, once, seen(2, Decimal(90)), T0 + 2 * HOUR).told


def test_two_sweeps_far_apart_are_enough() -> None:
    """Of a source that is read once a day; one sweep, however old, is not."""
    terms = replace(FALLS, sweeps=3, hold=6 * HOUR)
    state: State | None = None
    told = []
    for hour, price in ((0, 100), (24, 90), (48, 90), (72, 80), (73, 80), (74, 80), (96, 75), (97, 75), (102, 75)):
        for look in (0, 5):  # and again without a sweep
            ruling = judge(terms, state, seen(hour, Decimal(price)), T0 + (hour + look / 10) * HOUR)
            state = ruling.state
            told += [hour] * ruling.told
    assert told == [48, 74, 102]
