"""What is old goes, and no answer about the time that is kept changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from databases import BOTH, new_book, opened
from histories import D0, OFFERS, STEP, copy_of, hour, play
from homes import run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_world import offer, rate, small_world, sweep
from sqlalchemy import Engine, func, select

from tracker.answers.ageing import latest
from tracker.answers.decided import course
from tracker.answers.decisions import keep_decisions
from tracker.answers.recompute import Sizer
from tracker.book.book import read_book
from tracker.book.bookfile import Dated
from tracker.book.bookstore import import_dated
from tracker.book.listing import OFFER_POINT, RATE_POINT, SWEEP, UNSEEN
from tracker.book.timeline import changes
from tracker.config import RetentionSettings
from tracker.database.handle import reading
from tracker.database.rows import to_s
from tracker.maintenance.retention import horizons, prune, take_away
from tracker.maintenance.stats import book_size, vacuum
from tracker.rollup.run import DAY, roll_up
from tracker.world import World


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return small_world(tmp_path_factory.mktemp("small"))


@pytest.fixture(params=BOTH)
def db(request: pytest.FixtureRequest) -> Iterator[Engine]:
    yield from opened(new_book(request, request.param))


def count(db: Engine, table: Any) -> int:
    with reading(db) as connection:
        return connection.scalar(select(func.count()).select_from(table)) or 0


def answers(db: Engine, world: World, first: int, until: int) -> list[Any]:
    """All one can ask about [first, until): the book of every hour and just after it, the changes, the decisions, the days."""
    sources, found = world.config.sources, []
    with reading(db) as connection:
        for number in range(first, until):
            found += [read_book(connection, hour(number) + timedelta(seconds=second), sources) for second in (0, 1)]
        found.append(changes(connection, hour(first), imported=True))
        found += [
            course(connection, sources, hour(first), hour(until), model=m, workload="turns", policy="studiotv")
            for m in ("large-60b", "small-8b")
        ]
        found.append(sorted(map(tuple, connection.execute(select(DAY)))))
    return found


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEP, min_size=4, max_size=12), points=st.integers(-9, 60), sweeps=st.integers(-9, 60), both=st.booleans())
def test_no_answer_about_the_time_that_is_kept_changes(
    steps: list[dict[str, Any]], points: int, sweeps: int, both: bool, empty_history: Path, world: World, tmp_path: Path
) -> None:
    sizer = Sizer(world)
    with copy_of(empty_history, tmp_path) as db:

        def look(at: datetime) -> None:
            newest, snapshot = latest(db, world, sizer, at)
            keep_decisions(db, world.config.sources, snapshot, newest)

        import_dated(db, [Dated(replace(OFFERS[0], sku="told"), "page", to_s(hour(-30)), to_s(hour(3)), None)], hour(-9))
        until = play(db, steps, look) + 5
        roll_up(db, world.config.sources, hour(until))
        first = max(points, sweeps if both else points)
        before = answers(db, world, first, until)
        told = take_away(db, to_s(hour(points)), to_s(hour(sweeps)) if both else None, dry_run=True)
        assert take_away(db, to_s(hour(points)), to_s(hour(sweeps)) if both else None) == told
        assert answers(db, world, first, until) == before
        assert set(take_away(db, to_s(hour(points)), to_s(hour(sweeps)) if both else None).values()) == {0}
        for rebuild in (False, True):
            roll_up(db, world.config.sources, hour(until), rebuild=rebuild)
            assert answers(db, world, first, until) == before


def test_of_what_is_old_the_price_in_force_stays_and_the_sweeps_that_vouch_for_it(db: Engine, world: World) -> None:
    for number in range(10):
        sweep(db, "rents", hour(number), offer(f"{3 + number // 4}"), *[offer("9", sku="flickers")] * (number % 5 == 0))
        sweep(db, "tokens", hour(number), rate(input=f"{1 + number}", output="5"))
    sweep(db, "rents", hour(9.5), status="failed", error="no answer", rows=0)
    # prices of 0, 4 and 8 h; "flickers" at 0 h, gone at 2 h, at 5 h, gone at 7 h; and a stretch unseen from 1 to 2 and from 6 to 7 h
    assert (count(db, OFFER_POINT), count(db, UNSEEN), count(db, RATE_POINT)) == (7, 2, 10)
    gone = take_away(db, to_s(hour(8)), to_s(hour(8)))
    # 4 h stays, which the change of 8 h was from; of "flickers" the end of 7 h stays. Of the sweeps up to 8 h the last two, of each
    # source, and the very first
    assert gone == {"offer_point": 4, "rate_point": 7, "statistic": 0, "unseen": 2, "reworded": 0, "sweep": 6 + 7}
    with reading(db) as connection:
        assert connection.execute(select(OFFER_POINT.c.at).order_by(OFFER_POINT.c.at)).scalars().all() == [to_s(hour(h)) for h in (4, 7, 8)]
        rents = connection.execute(select(SWEEP.c.at).where(SWEEP.c.source == "rents").order_by(SWEEP.c.at)).scalars().all()
    assert rents == [to_s(hour(h)) for h in (0, 7, 8, 9, 9.5)]


def test_the_last_sweep_that_vouched_for_everything_stays_behind_others(db: Engine, world: World) -> None:
    """A price of -2 h, confirmed at 0 h, then a failed and an incomplete sweep: at 2 h it was seen two hours ago."""
    for number in (-4, -2, 0):
        sweep(db, "rents", hour(number), offer("3"))
    sweep(db, "rents", hour(0.5), offer("9", sku="other"), complete=False)
    sweep(db, "rents", hour(1), status="failed", error="no answer", rows=0)
    before = answers(db, world, 2, 6)
    assert take_away(db, None, to_s(hour(1.5)))["sweep"] == 0  # the very first, the last two whole ones, the last good and the last
    sweep(db, "rents", hour(1.2), status="failed", error="no answer", rows=0)
    assert take_away(db, None, to_s(hour(1.5)))["sweep"] == 1
    assert answers(db, world, 2, 6) == before
    with reading(db) as connection:
        listed = {entry.value.sku: entry.seen_at for entry in read_book(connection, hour(2), world.config.sources).offers}
    assert listed["141x1"] == hour(0)


def test_nothing_goes_that_the_guard_still_looks_at(world: World) -> None:
    """Prices of other providers count for 180 days; a day more is kept at least, however short the retention."""
    short = replace(world, config=replace(world.config, settings=world.settings.model_copy(update={"retention": retention(30, 1000)})))
    assert horizons(short.settings, D0) == (to_s(D0 - timedelta(days=181)), to_s(D0 - timedelta(days=1000)))
    ever = world.settings.model_copy(update={"retention": retention(0, 0)})
    assert horizons(ever, D0) == (None, None)
    assert world.settings.retention == retention(0, 400)


def retention(points: int, sweeps: int) -> RetentionSettings:
    return RetentionSettings(points_days=points, sweeps_days=sweeps)


def test_days_are_rolled_up_before_their_points_go_and_stay(db: Engine, world: World) -> None:
    old = replace(world, config=replace(world.config, settings=world.settings.model_copy(update={"retention": retention(1, 1)})))
    for number in range(0, 96, 2):
        sweep(db, "rents", hour(number), offer(f"{3 + number // 24}"))
    now = hour(72) + timedelta(days=181)
    gone = prune(db, old, now)
    assert (gone["offer_point"], gone["sweep"]) == (
        2,
        34,
    )  # of three earlier prices the last stays; of 36 sweeps before 72 h two, and 72 h itself
    with reading(db) as connection:
        days = connection.execute(select(DAY.c.day, DAY.c.least).order_by(DAY.c.day)).all()
    first = to_s(D0) // 86_400
    assert [tuple(day) for day in days][:4] == [(first + n, (3 + n) * 10**9) for n in range(4)]
    roll_up(db, world.config.sources, now, rebuild=True)
    with reading(db) as connection:
        assert connection.execute(select(DAY.c.day, DAY.c.least).order_by(DAY.c.day)).all() == days


# --- size -----------------------------------------------------------------------------------------------------------------------


def test_the_size_of_every_table_is_told(db: Engine) -> None:
    for number in range(3):
        sweep(db, "rents", hour(number), offer(f"{3 + number}"))
    size = book_size(db)
    tables = {one.table: one for one in size.tables}
    assert (tables["offer_point"].rows, tables["offer_point"].oldest, tables["offer_point"].newest) == (3, hour(0), hour(2))
    assert (tables["sweep"].rows, tables["sweep"].newest, tables["offer"].oldest) == (3, hour(2), None)
    assert all(one.bytes for one in size.tables)
    assert size.bytes is not None and size.bytes >= sum(one.bytes or 0 for one in size.tables) > 0
    held = [tables[name].bytes or 0 for name in ("offer_point", "rate_point")]
    assert size.bytes_per_change == round(Decimal(sum(held)) / 3, 1)
    vacuum(db)
    assert book_size(db).tables[0].rows == size.tables[0].rows


def test_a_vacuum_gives_the_room_back(tmp_path: Path, empty_history: Path) -> None:
    with copy_of(empty_history, tmp_path) as db:
        for number in range(6):
            sweep(db, "rents", hour(number), *[offer(f"{3 + number}", sku=f"m{n}") for n in range(1500)])
        vacuum(db)
        full = (tmp_path / "history.db").stat().st_size
        assert take_away(db, to_s(hour(9)), None)["offer_point"] == 5 * 1500
        vacuum(db)
        assert (tmp_path / "history.db").stat().st_size < full - 5 * 1500 * 10  # a change takes 15 bytes or so


def test_commands_tell_and_do_it(tmp_path: Path) -> None:
    size = run(tmp_path, "db", "stats", "--json").json()
    assert {table["table"] for table in size["tables"]} >= {"offer", "sweep", "decision", "rollup_day"}
    assert "a change of a price:" in run(tmp_path, "db", "stats").out
    # a new book holds imported rows only
    assert run(tmp_path, "db", "prune", "--dry-run").out == "nothing is older than it is kept\n"
    assert run(tmp_path, "db", "vacuum").out.startswith("the book takes ")
