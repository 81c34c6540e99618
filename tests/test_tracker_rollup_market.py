"""The lowest price of a day over all providers: that of the providers' days, whatever changed them, and of the book itself."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from databases import BOTH, new_book, opened
from day_books import by_the_book, kept
from histories import D0, copy_of, hour
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_world import offer, sweep
from sqlalchemy import Engine, delete, select, text, update

from scrapers.contract import FxQuote
from tracker.book.bookfile import Dated
from tracker.book.bookstore import import_dated
from tracker.book.exchange import store_rates
from tracker.config import Source, SourceSettings
from tracker.database.handle import reading, writing
from tracker.database.rows import to_s
from tracker.maintenance.retention import take_away
from tracker.rollup import market, run
from tracker.rollup.market import ALL, DAY, GROUP, LEAST, MARKET, STATE, postpone, refresh
from tracker.rollup.read import cheapest_days, gpu_days, least_days, market_days
from tracker.rollup.run import roll_up

SOURCES = {
    name: Source(id=name, settings=SourceSettings(kind="rent", base_url="https://x", interval_minutes=60, max_age_hours=3))
    for name in ("rents", "others", "cloud")
}
FIRST = (D0.date() - date(1970, 1, 1)).days
STATED = {"cloud": ("others", "rents")}
Days = dict[tuple[Any, ...], tuple[int, str, str]]


@pytest.fixture(params=BOTH)
def db(request: pytest.FixtureRequest) -> Iterator[Engine]:
    yield from opened(new_book(request, request.param))


def lowest(found: Mapping[tuple[Any, ...], tuple[int, ...]], precedence: Mapping[str, Sequence[str]]) -> Days:
    """By GPU, count, tier, day and currency, of days by source and provider: price, provider, source."""
    speaks: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for source, provider, gpu, count, tier, _, day in found:
        stated = list(precedence.get(provider, ()))
        rank = ("book:" in source, stated.index(source) if source in stated else 99, source != provider, source)
        speaks[provider, gpu, count, tier, day] = min(rank, speaks.get((provider, gpu, count, tier, day), rank))
    best: Days = {}
    for (source, provider, gpu, count, tier, currency, day), (least, *_) in found.items():
        if speaks[provider, gpu, count, tier, day][-1] == source:
            one = (least, provider, source)
            best[gpu, count, tier, day, currency] = min(one, best.get((gpu, count, tier, day, currency), one))
    return best


def over_all(db: Engine) -> Days:
    columns = (
        MARKET.c.gpu,
        MARKET.c.gpu_count,
        MARKET.c.tier,
        LEAST.c.day,
        LEAST.c.currency,
        LEAST.c.least,
        GROUP.c.provider,
        GROUP.c.source,
    )
    joined = LEAST.join(MARKET, MARKET.c.id == LEAST.c.market_id).join(GROUP, GROUP.c.id == LEAST.c.group_id)
    with reading(db) as connection:
        return {tuple(row[:5]): tuple(row[5:]) for row in connection.execute(select(*columns).select_from(joined))}


ROWS = [
    offer("3.00"),
    offer("2.00", sku="elsewhere", provider="elsewhere"),
    offer("2.00", sku="euro", currency="EUR"),
    offer("4.00", sku="any", provider="another", max_gpu_count=2),
    offer("1.00", sku="spot", tier="spot"),
]
STEP = st.fixed_dictionaries(
    {
        "gap": st.integers(0, 9),
        "source": st.sampled_from([*SOURCES, *SOURCES, "book:page"]),
        "there": st.sets(st.integers(0, len(ROWS) - 1), min_size=1),
        "price": st.lists(st.integers(1, 4).map(lambda n: n * 10**9 + 1), min_size=len(ROWS), max_size=len(ROWS)),
        "look": st.booleans(),
    }
)


def play(db: Engine, steps: Sequence[dict[str, Any]], precedence: Mapping[str, Sequence[str]]) -> int:
    """Sweeps of several sources, imports that reach back a day, rolled up now and then; returns the hour after the last."""
    now = 0
    for step in steps:
        now += step["gap"] + 1
        rows = [replace(ROWS[n], price=step["price"][n]) for n in sorted(step["there"])]
        if step["source"] in SOURCES:
            sweep(db, step["source"], hour(now), *rows)
        else:
            import_dated(db, [Dated(row, "page", to_s(hour(now - 20)), to_s(hour(now - 10)), None) for row in rows], hour(now))
        if step["look"]:
            roll_up(db, SOURCES, hour(now), precedence=precedence)
    return now + 1


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEP, min_size=3, max_size=14), wait=st.integers(0, 30), stated=st.sampled_from([{}, STATED]))
def test_days_over_all_are_the_lowest_of_the_providers_and_of_the_book(
    steps: list[dict[str, Any]], wait: int, stated: dict[str, tuple[str, ...]], empty_history: Path, tmp_path: Path
) -> None:
    with copy_of(empty_history, tmp_path) as db:
        until = play(db, steps, stated) + wait
        roll_up(db, SOURCES, hour(until), precedence=stated)
        found = over_all(db)
        assert found == lowest(kept(db), stated)
        if all(step["source"] in SOURCES for step in steps):  # imported prices are never fresh in a book
            assert found == lowest(by_the_book(db, SOURCES, until), stated)
        with reading(db) as connection:
            for gpu, count, tier in {key[:3] for key in found}:
                asked = (connection, gpu, count, tier, D0.date() - timedelta(days=3), hour(until + 24).date(), stated)
                whole = cheapest_days(gpu_days(*asked))
                assert market_days(*asked) == whole != []
                assert least_days(*asked) == [(day.day, day.least) for day in whole]
        roll_up(db, SOURCES, hour(until), precedence=stated, rebuild=True)
        assert over_all(db) == found


def test_another_precedence_decides_all_days_anew_and_meanwhile_all_providers_are_looked_at(db: Engine) -> None:
    """Others ask $3 of the cloud's machine where it asks $2 itself; who believes them says 3."""
    for number in range(0, 80, 2):
        sweep(db, "cloud", hour(number), offer("2"))
        sweep(db, "others", hour(number), offer("3"))

    def told(precedence: Mapping[str, Sequence[str]]) -> list[Decimal]:
        with reading(db) as connection:
            asked = (connection, "test-141", 1, "on_demand", D0.date(), hour(72).date(), precedence)
            assert [one.least for one in market_days(*asked)] == [least for _, least in least_days(*asked)]
            return [least for _, least in least_days(*asked)]

    roll_up(db, SOURCES, hour(80))
    own, others = [Decimal(2)] * 3, [Decimal(3)] * 3
    assert (told({}), told(STATED)) == (own, others)
    roll_up(db, SOURCES, hour(80), precedence=STATED)
    assert {row[0] for row in over_all(db).values()} == {3_000_000_000}
    assert (told({}), told(STATED)) == (own, others)
    stop = threading.Event()
    stop.set()
    refresh(db, {}, stop=stop)  # stopped before the first day was worked out
    assert (told({}), told(STATED)) == (own, others)
    with writing(db) as connection:  # a mark that nobody may read as long as it is not known by whom the days were decided
        connection.execute(update(LEAST).values(least=1))
    assert (told({}), told(STATED)) == (own, others)
    refresh(db, {})
    assert {row[0] for row in over_all(db).values()} == {2_000_000_000}


def test_only_days_that_changed_are_worked_out(db: Engine) -> None:
    for number in range(0, 72, 2):
        sweep(db, "cloud", hour(number), offer("3"))
    roll_up(db, SOURCES, hour(70))
    with writing(db) as connection:
        connection.execute(update(LEAST).values(least=1))
    roll_up(db, SOURCES, hour(71))  # the last day is looked at again and is what it was
    assert {row[0] for row in over_all(db).values()} == {1}
    sweep(db, "others", hour(71), offer("2", provider="elsewhere"))
    roll_up(db, SOURCES, hour(72))
    assert [over_all(db)["test-141", 1, "on_demand", FIRST + n, "USD"][0] for n in range(3)] == [1, 1, 2_000_000_000]
    roll_up(db, SOURCES, hour(72), rebuild=True)
    assert [over_all(db)["test-141", 1, "on_demand", FIRST + n, "USD"][0] for n in range(3)] == [3 * 10**9, 3 * 10**9, 2 * 10**9]


def test_days_of_many_sources_that_are_far_behind_are_worked_out_together_once(db: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """40 days of three sources are 18 spans to write, and lie in two stretches of 31 days."""
    for number in range(0, 40 * 24, 6):
        for place, name in enumerate(SOURCES):
            sweep(db, name, hour(number), offer(f"{3 - place}", provider=name))
    worked_out = []

    def derive(*asked: Any) -> None:
        worked_out.append(asked)
        market_derive(*asked)

    market_derive = market.derive
    for module in (market, run):
        monkeypatch.setattr(module, "derive", derive)
    roll_up(db, SOURCES, hour(40 * 24))
    assert len(worked_out) == 2
    assert over_all(db) == lowest(kept(db), {}) != {}
    worked_out.clear()
    sweep(db, "rents", hour(40 * 24 + 1), offer("0.5", provider="rents"))
    roll_up(db, SOURCES, hour(40 * 24 + 2))
    assert len(worked_out) == 1  # and a day at a time from then on
    assert over_all(db) == lowest(kept(db), {})


def test_days_that_another_changes_meanwhile_are_worked_out_again(db: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep(db, "cloud", hour(0), offer("3"))
    roll_up(db, SOURCES, hour(1))
    every_day = market._every_day
    times = []

    def interrupted(*asked: Any) -> bool:
        done = every_day(*asked)
        times.append(done)
        if len(times) == 1:
            with writing(db) as connection:
                connection.execute(update(DAY).values(least=DAY.c.least - 10**9))
                postpone(connection)
        return done

    monkeypatch.setattr(market, "_every_day", interrupted)
    refresh(db, {}, anew=True)
    assert len(times) == 2
    assert {row[0] for row in over_all(db).values()} == {2 * 10**9}


def test_a_day_that_is_gone_from_a_source_leaves_the_next_lowest(db: Engine) -> None:
    """What is said of an offer today decides for its past: a slice is no GPU."""
    sweep(db, "cloud", hour(1), offer("3"))
    sweep(db, "others", hour(1), offer("1", sku="small", provider="elsewhere"))
    roll_up(db, SOURCES, hour(30))
    assert [row[0] for row in over_all(db).values()] == [10**9]
    sweep(db, "others", hour(40), offer("1", sku="small", provider="elsewhere", is_slice=True))
    roll_up(db, SOURCES, hour(41))
    assert [row[:2] for row in over_all(db).values()] == [(3 * 10**9, "cloud")]


def test_days_before_the_horizon_stay_when_their_points_go(db: Engine) -> None:
    for number in range(0, 96, 2):
        sweep(db, "cloud", hour(number), offer(f"{3 + number // 24}"))
    roll_up(db, SOURCES, hour(96))
    before = over_all(db)
    assert sorted(row[0] for row in before.values()) == [3 * 10**9, 4 * 10**9, 5 * 10**9, 6 * 10**9]
    take_away(db, to_s(hour(72)), to_s(hour(72)))
    roll_up(db, SOURCES, hour(96), rebuild=True)
    assert over_all(db) == before


def test_a_price_without_an_exchange_rate_hides_none(db: Engine) -> None:
    """The cloud asks in a currency nobody converts; another source has the same machine in dollars."""
    sweep(db, "cloud", hour(1), offer("9", sku="x", currency="XTS"))
    sweep(db, "others", hour(1), offer("3"))
    roll_up(db, SOURCES, hour(30))
    with reading(db) as connection:
        asked = (connection, "test-141", 1, "on_demand", D0.date(), hour(30).date())
        assert [(one.least, one.source) for one in market_days(*asked)] == [(Decimal(3), "others")]
        assert least_days(*asked) == [(D0.date(), Decimal(3))]


def test_days_that_were_kept_before_there_were_any_over_all_are_read_and_worked_out(db: Engine) -> None:
    sweep(db, "cloud", hour(1), offer("3"))
    roll_up(db, SOURCES, hour(30))
    before = over_all(db)
    with writing(db) as connection:  # as the schema before had it
        for table in (LEAST, MARKET):
            connection.execute(delete(table))
        connection.execute(delete(STATE).where(STATE.c.source == ALL))
    with reading(db) as connection:
        assert least_days(connection, "test-141", 1, "on_demand", D0.date(), hour(30).date()) == [(D0.date(), Decimal(3))]
    roll_up(db, SOURCES, hour(31))
    assert over_all(db) == before != {}


def test_processes_that_write_different_sources_at_once_agree(db: Engine) -> None:
    """Each rolls up its own source; on SQLite they take turns anyway."""
    for number in range(0, 48, 2):
        for place, name in enumerate(SOURCES):
            sweep(db, name, hour(number), offer(f"{3 - place}", provider=name), offer(f"{3 - place}", provider=name, tier="spot"))
    roll_up(db, {}, hour(48))
    threads = [threading.Thread(target=roll_up, args=(db, {name: source}, hour(48))) for name, source in SOURCES.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert over_all(db) == lowest(kept(db), {}) != {}
    assert set(over_all(db).values()) == {(10**9, "cloud", "cloud")}


def test_a_day_is_one_row_for_each_currency(db: Engine) -> None:
    for number in range(0, 24, 2):
        sweep(db, "cloud", hour(number), *[offer(f"{3 + n}", sku=f"{n}", provider=f"p{n}") for n in range(9)])
    roll_up(db, SOURCES, hour(24))
    with reading(db) as connection:
        assert (len(connection.execute(select(DAY)).all()), len(connection.execute(select(LEAST)).all())) == (9, 1)


def test_the_view_says_what_the_program_reads(db: Engine) -> None:
    """EUR 2 is $2.50 on Monday and $2.20 from Tuesday on; the rouble was last quoted nine days before Monday: no worth on Wednesday."""
    rates = [("USD", "1.25", 0), ("USD", "1.10", 1), ("USD", "1.20", -9), ("USD", "1.20", 2), ("RUB", "120", -9)]
    quotes = [FxQuote(base="EUR", currency=c, rate=Decimal(rate), day=D0.date() + timedelta(days=day)) for c, rate, day in rates]
    with writing(db) as connection:
        store_rates(connection, quotes, "test")
    for number in range(0, 72, 2):
        rouble, euro = offer("230", provider="rouble", currency="RUB"), offer("2", provider="euro", currency="EUR")
        sweep(db, "cloud", hour(number), rouble, euro, offer("2.40", sku="dollar", max_gpu_count=9), offer("9", sku="spot", tier="spot"))
    roll_up(db, SOURCES, hour(72))
    query = "select gpu_count, tier, day, provider, source, currency, price_nano, usd_per_gpu_hour from v_gpu_days"
    with reading(db) as connection:
        shown = [tuple(row) for row in connection.execute(text(query + " where gpu = 'test-141' order by gpu_count, tier, day"))]
        read = [
            (count, tier, one.day, one.provider, one.source, one.least)
            for count in (1, 2, 4, 8)
            for tier in ("on_demand", "spot")
            for one in market_days(connection, "test-141", count, tier, D0.date(), hour(72).date())
        ]
    seen = [(n, t, date.fromisoformat(str(day)), p, s, round(Decimal(usd), 9)) for n, t, day, p, s, _, _, usd in shown]
    assert seen == read
    assert [(one.isoformat()[8:], p, usd) for n, t, one, p, _, usd in seen if (n, t) == (1, "on_demand")] == [
        ("02", "rouble", Decimal("2.3")),  # 230 / 120 x 1.20
        ("03", "euro", Decimal("2.2")),
        ("04", "cloud", Decimal("2.4")),
    ]
    assert {(currency, nano) for *_, currency, nano, _ in shown} == {
        ("RUB", 230 * 10**9), ("EUR", 2 * 10**9), ("USD", 2_400_000_000), ("USD", 9 * 10**9),
    }  # fmt: skip
