"""The history of the decision: a row when the answer changes, none when it does not, and one when its prices grow old."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from databases import BOTH, new_book, opened
from small_world import T0, fx, offer, rate, small_world, sweep
from sqlalchemy import Engine, insert, select

from tracker.answers.ageing import latest
from tracker.answers.decided import DECISION, Decided, course, decisions, subjects
from tracker.answers.decisions import keep_decisions
from tracker.answers.recompute import Sizer
from tracker.database.handle import open_database, reading, writing
from tracker.database.rows import TICK, to_s
from tracker.service.clock import mend_future
from tracker.world import World

D = Decimal
LARGE = {"model": "large-60b", "workload": "turns", "policy": "studiotv"}
KIMI = {"input": "2", "cache_read": "0.2", "cache_write_5m": "2", "output": "10"}
END = T0 + timedelta(days=400)


@pytest.fixture(params=BOTH)
def db(request: pytest.FixtureRequest) -> Iterator[Engine]:
    yield from opened(new_book(request, request.param))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return small_world(tmp_path / "small")


@pytest.fixture
def sizer(world: World) -> Sizer:
    return Sizer(world)


def look(db: Engine, sizer: Sizer, now: datetime) -> int:
    """What the daemon does after a sweep and once a minute."""
    newest, snapshot = latest(db, sizer.world, sizer, now)
    return keep_decisions(db, sizer.world.config.sources, snapshot, newest)


def kept(db: Engine, model: str = "large-60b") -> list[Decided]:
    with reading(db) as connection:
        return decisions(connection, T0 - timedelta(days=400), END, model=model)


def at(hours: float) -> datetime:
    return T0 + timedelta(hours=hours)


def fill(db: Engine, hours: float = 0, price: str = "2.30") -> None:
    """One test-141 an hour, and a rate by which a turn costs 6,000 x 0.2 + 1,500 x 2 + 500 x 10 = $0.0092, $1.15 a Mtok."""
    sweep(db, "tokens", at(hours), rate(**KIMI, source_url="https://vendor.example/rates"))
    sweep(db, "rents", at(hours), offer(price, source_url="https://cloud.example/prices"), offer("9.00", sku="dear"))


def test_what_is_asked_no_more_is_over(db: Engine, world: World, sizer: Sizer, tmp_path: Path) -> None:
    """Its last answer would hold for ever, at a price that nobody looks at."""
    fill(db)
    look(db, sizer, at(0.01))
    track = world.settings.track.model_copy(update={"models": ("small-8b",)})
    settings = world.settings.model_copy(update={"track": track})
    fewer = Sizer(replace(world, config=replace(world.config, settings=settings)))
    fill(db, 1, "9.00")
    look(db, fewer, at(1.01))
    look(db, fewer, at(1.02))
    first, last = kept(db)
    assert (first.at, first.usd_per_hour) == (at(0.01), D("2.3"))
    assert (last.at, last.usd_per_hour, last.api_provider, last.fresh, last.reason) == (at(1.01), None, None, False, "asked no more")
    look(db, sizer, at(1.03))
    assert kept(db)[-1].usd_per_hour == D(9)


def test_every_subject_is_found_once_however_its_names_sort(db: Engine) -> None:
    names = ("a", "a-b", "a@b", "B", "b", "a b", "é", "z")
    keys = {(model, workload, policy) for model in names for workload in names[:3] for policy in ("studiotv", "studiotv@ours")}
    rows = [
        {"model": m, "workload": w, "policy": p, "at": to_s(T0) + step, "sweep": 1, "fresh": False, "reason": ""}
        for m, w, p in keys for step in range(3)
    ]  # fmt: skip
    with writing(db) as connection:
        connection.execute(insert(DECISION), rows)
        found = subjects(connection)
        distinct = connection.execute(select(DECISION.c.model, DECISION.c.workload, DECISION.c.policy).distinct()).all()
    assert len(found) == len(set(found)) == len(distinct) == len(keys) == 48
    assert set(found) == keys


# --- what a row says ------------------------------------------------------------------------------------------------------


def test_a_decision_keeps_the_offer_the_rate_and_what_they_say(db: Engine, sizer: Sizer) -> None:
    fill(db)
    assert look(db, sizer, at(0.01)) == 2  # the small model has a rent and no rate
    (found,) = kept(db)
    assert (found.at, found.seen_at, found.api_seen_at, found.fresh, found.sweep) == (at(0.01), T0, T0, True, 2)
    rent = (found.source, found.provider, found.sku, found.region, found.tier, found.currency, found.gpu, found.weight_format)
    assert rent == ("rents", "cloud", "141x1", "", "on_demand", "USD", "test-141", "bf16")
    assert (found.gpu_count, found.machines, found.native_per_hour, found.offer_usd_per_hour, found.usd_per_hour) == (1, 1, *[D("2.3")] * 3)
    assert (found.source_url, found.api_source_url) == ("https://cloud.example/prices", "https://vendor.example/rates")
    assert (found.api_source, found.api_provider, found.api_sku, found.api_currency) == ("tokens", "vendor", "standard", "USD")
    assert found.api_prices == {kind: D(price) for kind, price in KIMI.items()}
    # a million turns of 8,000 tokens; 2.30 x 730 = $1,679 a month; 1,679 / 1.15 = 1,460 Mtok
    assert (found.api_usd_per_mtok, found.api_usd_per_month, found.break_even_tokens) == (D("1.15"), D(9_200), D(1_460_000_000))
    # one replica serves 500,000 turns, so two are needed; 1,460 of 4,000 Mtok is 36.5 %
    assert (found.break_even_utilization, found.break_even_status, found.replicas) == (D("0.365"), "feasible", 2)
    assert (found.self_host_usd_per_month, found.verdict) == (D(3_358), "self_host")
    assert "$9,200.00 a month against $3,358.00" in found.reason


def test_a_foreign_offer_keeps_both_prices_and_moves_with_the_exchange_rate(db: Engine, sizer: Sizer) -> None:
    sweep(db, "ecb", at(-1), fx=fx(date(2026, 11, 1), USD="1.25"))
    euro = offer("2.00", provider="euro-cloud", currency="EUR")
    sweep(db, "rents", T0, euro)
    look(db, sizer, at(0.1))
    sweep(db, "ecb", at(1), fx=fx(date(2026, 11, 2), USD="1.20"))
    assert look(db, sizer, at(1.1)) == 2
    told = [(found.currency, found.native_per_hour, found.offer_usd_per_hour, found.usd_per_hour) for found in kept(db)]
    assert told == [("EUR", D(2), D("2.5"), D("2.5")), ("EUR", D(2), D("2.4"), D("2.4"))]


def test_without_a_rate_the_rent_alone_is_decided(db: Engine, sizer: Sizer) -> None:
    sweep(db, "rents", T0, offer("2.30"))
    look(db, sizer, at(0.1))
    (found,) = kept(db)
    assert (found.fresh, found.usd_per_hour, found.api_provider, found.verdict) == (False, D("2.3"), None, None)
    assert found.reason == "no API rate in the book"
    fill(db, 1)
    look(db, sizer, at(1.1))
    assert [(f.fresh, f.verdict) for f in kept(db)] == [(False, None), (True, "self_host")]


# --- when a row is written ------------------------------------------------------------------------------------------------


def test_only_a_change_is_written(db: Engine, sizer: Sizer) -> None:
    fill(db)
    look(db, sizer, at(0))
    for hours in (0.02, 0.5, 1):
        assert look(db, sizer, at(hours)) == 0
    fill(db, 1.5)  # nothing new, seen again
    assert look(db, sizer, at(1.5)) == 0
    sweep(db, "rents", at(2), offer("2.30"), offer("8.00", sku="dear"))  # cheaper, and no winner
    assert look(db, sizer, at(2)) == 0
    sweep(db, "rents", at(2.5), offer("2.20"), offer("8.00", sku="dear"))
    assert look(db, sizer, at(2.5)) == 2
    sweep(db, "tokens", at(2.6), rate(**KIMI | {"cache_write_5m": "3"}))  # a kind that the workload does not use
    assert look(db, sizer, at(2.6)) == 0
    sweep(db, "tokens", at(2.7), rate(**KIMI | {"output": "1"}))  # $4,700 a month
    assert look(db, sizer, at(2.7)) == 1
    assert [(f.usd_per_hour, f.api_usd_per_month) for f in kept(db)] == [(D("2.3"), D(9200)), (D("2.2"), D(9200)), (D("2.2"), D(4700))]


def test_imported_prices_decide_nothing(db: Engine, sizer: Sizer) -> None:
    sweep(db, "book:page", T0, offer("2.30"), rate(**KIMI))
    assert look(db, sizer, at(0.1)) == 0
    assert kept(db) == []


def test_the_decision_of_a_moment_is_the_last_one_made_by_then(db: Engine, sizer: Sizer) -> None:
    for hours, price in ((0, "2.30"), (1, "2.20"), (2, "2.40")):
        fill(db, hours, price)
        look(db, sizer, at(hours))
    sources = sizer.world.config.sources
    with reading(db) as connection:
        moments = map(at, (-0.001, 0, 0.999, 1, 1.5, 2, 3))
        prices = [[f.usd_per_hour for f in course(connection, sources, moment, moment + TICK, **LARGE)] for moment in moments]
        assert prices == [[], [D("2.3")], [D("2.3")], [D("2.2")], [D("2.2")], [D("2.4")], [D("2.4")]]
        held = [found.usd_per_hour for found in course(connection, sources, at(1.5), at(2), **LARGE)]
        assert held == [D("2.2")]
        assert [f.usd_per_hour for f in decisions(connection, at(1), at(2), **LARGE)] == [D("2.2")]
        assert [f.model for f in decisions(connection, at(1), at(2))] == ["large-60b", "small-8b"]


# --- prices that grow old -------------------------------------------------------------------------------------------------


def test_a_price_that_grows_old_ends_the_decision_when_it_does(db: Engine, sizer: Sizer) -> None:
    """Rents are fresh for three hours, rates for forty-eight."""
    fill(db)
    look(db, sizer, at(0))
    assert look(db, sizer, at(3)) == 0
    assert look(db, sizer, at(3.02)) == 2
    assert look(db, sizer, at(4)) == 0
    end = at(3) + timedelta(seconds=1)
    assert [(f.at, f.usd_per_hour, f.api_usd_per_month, f.fresh) for f in kept(db)] == [
        (at(0), D("2.3"), D(9200), True),
        (end, None, D(9200), False),
    ]
    assert kept(db)[1].reason == "the price of cloud passed its age limit"
    assert (kept(db)[1].verdict, kept(db)[1].break_even_tokens) == (None, None)
    fill(db, 5)
    look(db, sizer, at(5.1))
    assert [(f.at, f.usd_per_hour) for f in kept(db)][2:] == [(at(5.1), D("2.3"))]


def test_a_stop_of_the_program_is_a_hole_in_the_history(db: Engine, sizer: Sizer) -> None:
    """It runs until 1 h, and again from 60 h on; the first look back is after both sources answered."""
    fill(db)
    look(db, sizer, at(0))
    fill(db, 1)
    look(db, sizer, at(1))
    fill(db, 60)
    look(db, sizer, at(60.1))
    assert [(f.at, f.usd_per_hour, f.api_usd_per_month) for f in kept(db)] == [
        (at(0), D("2.3"), D(9200)),
        (at(4) + timedelta(seconds=1), None, D(9200)),
        (at(49) + timedelta(seconds=1), None, None),
        (at(60.1), D("2.3"), D(9200)),
    ]


def test_what_is_read_ends_too_while_nobody_looks(db: Engine, sizer: Sizer) -> None:
    fill(db)
    look(db, sizer, at(0))
    sources = sizer.world.config.sources
    with reading(db) as connection:
        moments = map(at, (1, 3, 3.1, 90))
        rents = [[f.usd_per_hour for f in course(connection, sources, moment, moment + TICK, **LARGE)] for moment in moments]
        assert rents == [[D("2.3")], [D("2.3")], [None], [None]]
        told = [(f.at, f.fresh) for f in course(connection, sources, at(-1), at(90), **LARGE)]
        assert told == [(at(h) + timedelta(seconds=h > 0), h == 0) for h in (0, 3, 48)]
        assert [f.at for f in course(connection, sources, at(4), at(5), **LARGE)] == [at(3) + timedelta(seconds=1)]


def test_a_failed_sweep_covers_nothing_and_ends_nothing(db: Engine, sizer: Sizer) -> None:
    fill(db)
    look(db, sizer, at(0))
    sweep(db, "rents", at(2), status="failed", error="no answer", rows=0)
    assert look(db, sizer, at(2)) == 0
    assert look(db, sizer, at(3.1)) == 2


# --- several processes, and clocks ------------------------------------------------------------------------------------------


def test_processes_that_see_the_same_change_store_it_once(db: Engine, sizer: Sizer, world: World) -> None:
    url = db.url.render_as_string(hide_password=False)
    handles = [open_database(url) for _ in range(4)]
    together = threading.Barrier(len(handles))
    done: list[int] = []

    def replica(handle: Engine, number: int) -> None:
        own, clock = Sizer(world), random.Random(number)
        for step in range(6):
            together.wait(30)
            if number == 0:
                fill(db, step, f"{2 + step % 2}")
            together.wait(30)
            # its clock is some seconds off the others'
            done.append(look(handle, own, at(step) + timedelta(seconds=10 + clock.uniform(-5, 5))))

    threads = [threading.Thread(target=replica, args=(handle, number)) for number, handle in enumerate(handles)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for handle in handles:
        handle.dispose()
    assert [(f.usd_per_hour, f.sweep) for f in kept(db)] == [(D(2 + step % 2), 2 * step + 2) for step in range(6)]
    assert sum(done) == len(kept(db)) + len(kept(db, "small-8b"))


def test_a_look_at_an_older_book_does_not_bring_the_old_answer_back(db: Engine, sizer: Sizer) -> None:
    fill(db)
    old = latest(db, sizer.world, sizer, at(1))
    fill(db, 0.9, "2.00")
    look(db, sizer, at(0.95))
    assert keep_decisions(db, sizer.world.config.sources, old[1], old[0]) == 0
    assert [f.usd_per_hour for f in kept(db)] == [D(2)]


def test_decisions_of_a_clock_that_ran_ahead_are_made_again(db: Engine, sizer: Sizer) -> None:
    fill(db)
    look(db, sizer, at(0))
    fill(db, 500, "2.00")
    look(db, sizer, at(500))
    with writing(db) as connection:
        mend_future(connection, to_s(at(1)), after_sweep=2)
    assert look(db, sizer, at(1)) == 2
    assert [(f.at, f.usd_per_hour) for f in kept(db)] == [(at(0), D("2.3")), (at(1), D(2))]
