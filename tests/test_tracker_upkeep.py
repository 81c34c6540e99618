"""What the daemon does for the book itself now and then."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from apscheduler.schedulers.background import BackgroundScheduler
from databases import BOTH, Postgres, new_book, opened
from histories import hour
from small_world import offer, small_world, sweep
from sqlalchemy import Engine, func, select

from tracker.book.listing import SWEEP
from tracker.config import RetentionSettings
from tracker.database.faults import Trouble
from tracker.database.handle import reading
from tracker.maintenance.upkeep import schedule_upkeep
from tracker.rollup.run import DAY
from tracker.world import World


@pytest.fixture(params=BOTH)
def db(request: pytest.FixtureRequest) -> Iterator[Engine]:
    yield from opened(new_book(request, request.param))


@pytest.fixture
def world(tmp_path: Path) -> World:
    found = small_world(tmp_path / "small")
    settings = found.settings.model_copy(update={"retention": RetentionSettings(sweeps_days=1)})  # 181 days: the guard looks back
    return replace(found, config=replace(found.config, settings=settings))


def count(db: Engine, table: object) -> int:
    with reading(db) as connection:
        return connection.scalar(select(func.count()).select_from(table)) or 0  # type: ignore[call-overload, no-any-return]


def test_days_are_rolled_up_every_hour_and_what_is_old_goes_once_a_day(db: Engine, world: World) -> None:
    for number in range(0, 48, 4):
        sweep(db, "rents", hour(number), offer("3"))
    clock = [hour(46)]
    said: list[str] = []
    scheduler, stop = BackgroundScheduler(timezone=UTC), threading.Event()
    schedule_upkeep(scheduler, db, world, lambda: clock[0], Trouble(say=said.append), stop)
    (job,) = scheduler.get_jobs()
    assert job.trigger.interval == timedelta(hours=1)
    job.func()
    assert (count(db, DAY), count(db, SWEEP)) == (2, 12)
    clock[0] = hour(46) + timedelta(days=182)  # 47 h lies 181 days back then: ten of twelve sweeps are older and not needed
    job.func()
    assert count(db, SWEEP) == 3
    sweep(db, "rents", clock[0], offer("3"))
    clock[0] += timedelta(hours=1)
    job.func()
    assert (count(db, DAY), count(db, SWEEP)) == (3, 4)
    assert said == []


def test_a_database_that_fails_is_told_and_tried_again(db: Engine, world: World) -> None:
    said: list[str] = []
    scheduler = BackgroundScheduler(timezone=UTC)
    schedule_upkeep(scheduler, db, world, lambda: datetime(2026, 11, 5, tzinfo=UTC), Trouble(say=said.append), threading.Event())
    with db.begin() as connection:
        DAY.drop(connection)
    sweep(db, "rents", hour(0), offer("3"))
    (job,) = scheduler.get_jobs()
    job.func()
    assert len(said) == 1


@pytest.mark.real
def test_an_account_that_may_make_no_month_still_works_out_days(request: pytest.FixtureRequest, postgres: Postgres, world: World) -> None:
    url = new_book(request, "postgres")
    name = url.rpartition("/")[2]
    for owner in opened(url):
        sweep(owner, "rents", hour(0), offer("3"))
    postgres.psql(
        name, "do $$ begin create role keeper login; exception when duplicate_object then null; end $$",
        "grant select, insert, update, delete on all tables in schema public to keeper",
        "grant usage on all sequences in schema public to keeper",
    )  # fmt: skip
    said: list[str] = []
    for keeper in opened(postgres.url(name, user="keeper")):
        scheduler = BackgroundScheduler(timezone=UTC)
        schedule_upkeep(scheduler, keeper, world, lambda: hour(100 * 24), Trouble(say=said.append), threading.Event())
        (job,) = scheduler.get_jobs()
        job.func()
        assert count(keeper, DAY) == 1
    assert (len(said), "each month of points is one" in said[0]) == (1, True)
