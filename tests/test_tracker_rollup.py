"""Figures a day against a book that is read at every moment: the same, however they came about."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from databases import BOTH, new_book, opened
from day_books import HOUR_S, by_the_book, kept
from histories import D0, STEP, copy_of, hour, play
from homes import run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_world import offer, small_world, sweep
from sqlalchemy import Engine, select, update

from scrapers.contract import FxQuote
from tracker.answers.ageing import latest
from tracker.answers.decisions import keep_decisions
from tracker.answers.recompute import Sizer
from tracker.book.bookfile import Dated
from tracker.book.bookstore import import_dated
from tracker.book.exchange import store_rates
from tracker.book.spans import lower_median, merged, within, without
from tracker.database.handle import reading, writing
from tracker.database.rows import OfferRow, to_s
from tracker.rollup.offers import counts, per_gpu
from tracker.rollup.read import cheapest_days, gpu_days, least_days
from tracker.rollup.run import DAY, MODEL, roll_up
from tracker.world import World


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return small_world(tmp_path_factory.mktemp("small"))


@pytest.fixture(params=BOTH)
def db(request: pytest.FixtureRequest) -> Iterator[Engine]:
    yield from opened(new_book(request, request.param))


# --- whole histories -----------------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEP, min_size=3, max_size=12), wait=st.integers(0, 30))
def test_figures_are_those_of_the_book_read_at_every_moment(
    steps: list[dict[str, Any]], wait: int, empty_history: Path, world: World, tmp_path: Path
) -> None:
    sources = world.config.sources
    with copy_of(empty_history, tmp_path) as db:
        until = play(db, steps, lambda at: roll_up(db, sources, at)) + wait
        roll_up(db, sources, hour(until))
        found, first = kept(db), to_s(D0) // (24 * HOUR_S)
        assert {key: value for key, value in found.items() if key[-1] >= first} == by_the_book(db, sources, until)
        roll_up(db, sources, hour(until), rebuild=True)
        assert kept(db) == found


def dated(row: OfferRow, since: float, seen: float, gone: float | None = None) -> Dated:
    return Dated(row, "page", to_s(hour(since)), to_s(hour(seen)), None if gone is None else to_s(hour(gone)))


def test_imported_prices_count_between_their_own_sightings(db: Engine, world: World) -> None:
    """$3 from 20:00 to 04:00 the next day, $4 seen once at 06:00; a second import reaches back a day."""
    import_dated(db, [dated(offer("3"), 20, 28), dated(offer("4"), 30, 30)], hour(40))
    roll_up(db, world.config.sources, hour(40))
    first, day = to_s(D0) // (24 * HOUR_S), "book:page"
    of = (day, "cloud", "test-141", 1, "on_demand", "USD")
    one, other = 3_000_000_000, 4_000_000_000
    expected = {(*of, first): (one, one, one, 1, 4 * HOUR_S), (*of, first + 1): (one, one, other, 1, 4 * HOUR_S + 2)}
    assert kept(db) == expected
    import_dated(db, [dated(offer("2"), -20, -18)], hour(41))
    roll_up(db, world.config.sources, hour(41))
    assert kept(db) == expected | {(*of, first - 1): (2_000_000_000, 2_000_000_000, 2_000_000_000, 1, 2 * HOUR_S + 1)}


def test_a_source_that_is_described_otherwise_is_worked_out_anew(db: Engine, world: World) -> None:
    sweep(db, "rents", hour(1), offer("3"), offer("1", sku="small"))
    roll_up(db, world.config.sources, hour(30))
    assert [value[0] for value in kept(db).values()] == [1_000_000_000]
    sweep(db, "rents", hour(40), offer("3"), offer("1", sku="small", is_slice=True))
    roll_up(db, world.config.sources, hour(41))
    assert [(value[0], value[3]) for value in kept(db).values()] == [(3_000_000_000, 1)] * 2


def test_only_days_that_changed_are_written(db: Engine, world: World) -> None:
    for number in range(0, 72, 2):
        sweep(db, "rents", hour(number), offer(f"{3 + number % 3}"))
    assert roll_up(db, world.config.sources, hour(70)) == 3
    with writing(db) as connection:  # a mark that would go if the row was written again
        connection.execute(update(DAY).values(offers=99))
    roll_up(db, world.config.sources, hour(71))
    assert sorted(value[3] for value in kept(db).values()) == [1, 99, 99]
    roll_up(db, world.config.sources, hour(71), rebuild=True)
    assert sorted(value[3] for value in kept(db).values()) == [1, 1, 1]


def test_a_source_that_is_configured_no_more_keeps_its_days(db: Engine, world: World) -> None:
    sweep(db, "rents", hour(1), offer("3"))
    roll_up(db, world.config.sources, hour(30))
    before = kept(db)
    roll_up(db, {}, hour(60), rebuild=True)
    assert kept(db) == before != {}


def test_a_price_is_rounded_once_half_to_even() -> None:
    assert [per_gpu(price, gpus) for price, gpus in ((10, 4), (11, 4), (14, 4), (6, 4), (7, 3), (8, 3), (9, 1))] == [2, 3, 4, 2, 2, 3, 9]


@pytest.mark.parametrize(
    ("gpu_count", "most", "expected"),
    [(1, None, [1]), (1, 8, [1, 2, 4, 8]), (3, None, [2]), (3, 5, [2, 4]), (8, 8, [8]), (72, None, [16]), (1, 7, [1, 2, 4])],
)
def test_an_offer_counts_at_every_count_it_is_sold_at(gpu_count: int, most: int | None, expected: list[int]) -> None:
    assert counts(gpu_count, most) == expected


# --- the winner a day ---------------------------------------------------------------------------------------------------------


def test_the_winner_of_a_day_is_the_setup_that_was_the_answer_the_longest(db: Engine, world: World) -> None:
    """Looked at every hour. $2.30 until 9 h, a machine of two at $2.00 until 14 h, then $2.40; from 20 h on nobody asks."""
    sizer = Sizer(world)
    for number in range(21):
        two = [offer("2.00", sku="80x2", gpu="test-80", gpu_count=2)] if 9 <= number < 14 else []
        sweep(db, "rents", hour(number), offer("2.30" if number < 9 else "2.40"), *two)
        newest, snapshot = latest(db, world, sizer, hour(number))
        keep_decisions(db, world.config.sources, snapshot, newest)
        if number in (3, 12):
            roll_up(db, world.config.sources, hour(number))
    roll_up(db, world.config.sources, hour(50))
    with reading(db) as connection:
        (row,) = connection.execute(select(MODEL).where(MODEL.c.model == "large-60b")).mappings()
    # the machine is missed twice before it is gone: until 15 h; the last price of 20 h was fresh for three hours and a second
    held = {"2.30": 9 * HOUR_S, "2.00": 6 * HOUR_S, "2.40": 8 * HOUR_S + 1}
    assert (row["sku"], row["gpu"], row["gpu_count"], row["weight_format"]) == ("141x1", "test-141", 1, "bf16")
    assert (row["held_s"], row["decided_s"], row["setups"]) == (held["2.30"] + held["2.40"], sum(held.values()), 2)
    assert (row["least"], row["median"], row["most"]) == (2_000_000_000, 2_300_000_000, 2_400_000_000)
    before = dict(row)
    roll_up(db, world.config.sources, hour(50), rebuild=True)
    with reading(db) as connection:
        assert dict(connection.execute(select(MODEL).where(MODEL.c.model == "large-60b")).mappings().one()) == before


# --- spans ----------------------------------------------------------------------------------------------------------------------

SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=6)


def instants(spans: list[tuple[int, int]]) -> set[int]:
    return {instant for start, end in spans for instant in range(start, end)}


@given(one=SPANS, other=SPANS, start=st.integers(0, 30), end=st.integers(0, 30))
def test_spans_are_sets_of_instants(one: list[tuple[int, int]], other: list[tuple[int, int]], start: int, end: int) -> None:
    whole = merged(one)
    assert instants(whole) == instants(one)
    assert instants(within(whole, start, end)) == instants(one) & set(range(start, end))
    assert instants(without(whole, other)) == instants(one) - instants(other)
    assert all(a < b < c for (a, b), (c, _) in pairwise(whole))
    assert sum(b - a for a, b in without(whole, other)) == len(instants(one) - instants(other))


@given(st.dictionaries(st.integers(0, 20), st.integers(1, 9), min_size=1))
def test_the_median_is_the_lower_one_of_all_seconds(held: dict[int, int]) -> None:
    laid_out = sorted(price for price, length in held.items() for _ in range(length))
    assert lower_median(held) == laid_out[(len(laid_out) - 1) // 2]


# --- reading ------------------------------------------------------------------------------------------------------------------


def test_days_are_read_in_dollars_of_the_day_from_the_source_that_is_believed(db: Engine, world: World) -> None:
    """EUR 2.00 at 1.25, then 1.20 dollars; an import tells of another provider, and otherwise of the first one, which is not believed."""
    with writing(db) as connection:
        rates = [(hour(0).date(), "1.25"), (hour(24).date(), "1.20")]
        store_rates(connection, [FxQuote(base="EUR", currency="USD", rate=Decimal(rate), day=day) for day, rate in rates], "test")
    euro = offer("2.00", provider="euro-cloud", currency="EUR")
    for number in range(0, 48, 2):
        sweep(db, "rents", hour(number), euro, offer("9", sku="x", provider="rare", currency="XTS"))
    told = [dated(offer("1", provider="euro-cloud"), 0, 40), dated(offer("2.44", provider="other"), 0, 40)]
    import_dated(db, told, hour(48))
    roll_up(db, world.config.sources, hour(48))
    with reading(db) as connection:
        days = gpu_days(connection, "test-141", 1, "on_demand", hour(0).date(), hour(48).date())
        least = least_days(connection, "test-141", 1, "on_demand", hour(0).date(), hour(48).date())
    shown = [(found.day, found.provider, found.source, found.least, found.held_hours) for found in days]
    first, second = hour(0).date(), hour(24).date()
    assert shown == [
        (first, "euro-cloud", "rents", Decimal("2.5"), Decimal(24)),
        (first, "other", "book:page", Decimal("2.44"), Decimal(24)),
        (second, "euro-cloud", "rents", Decimal("2.4"), Decimal(24)),
        (second, "other", "book:page", Decimal("2.44"), Decimal(16 * HOUR_S + 1) / HOUR_S),
    ]
    assert [(found.day, found.provider) for found in cheapest_days(days)] == [(first, "other"), (second, "euro-cloud")]
    assert least == [(first, Decimal("2.44")), (second, Decimal("2.4"))]


def test_a_command_works_them_out(tmp_path: Path) -> None:
    seen = run(tmp_path, "db", "rollup", "--rebuild")
    assert (seen.code, seen.err) == (0, "")
    assert int(seen.out.split()[0].replace(",", "")) > 100  # the embedded book alone has more offers than that
    assert run(tmp_path, "--at", "2026-11-01", "db", "rollup").code == 1
