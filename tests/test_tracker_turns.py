"""A source in its turn: who collects it, what is handed back when nothing came of it, and the daemon's next look."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic

import pytest
from databases import BOTH, new_book, opened
from processes import breakeven
from sqlalchemy import Engine, select
from upstream import Upstream
from waiting import until
from worlds import serve_market, write_user_config

from scrapers import runpod
from scrapers.http import HostGate
from tracker.book.exchange import load_shipped
from tracker.config import Source
from tracker.database.faults import Trouble
from tracker.database.handle import reading, writing
from tracker.paths import config_dir
from tracker.service.daemon import Daemon
from tracker.sweeps.collect import Collector
from tracker.sweeps.leases import LEASE, Lease, NotYet
from tracker.sweeps.store import SWEEP
from tracker.sweeps.turns import Turns, sweep_in_turn
from tracker.world import World, load_world

pytestmark = pytest.mark.loopback


@pytest.fixture(params=BOTH)
def db(request: pytest.FixtureRequest) -> Iterator[Engine]:
    for handle in opened(new_book(request, request.param)):
        with writing(handle) as connection:
            load_shipped(connection)
        yield handle


@pytest.fixture
def world(upstream: Upstream, tmp_path: Path) -> World:
    serve_market(upstream)
    return load_world(config_dir(), write_user_config(tmp_path / "config", upstream.url, sources=["runpod", "ecb"]))


def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
def collector(db: Engine, world: World) -> Collector:
    return Collector(world=world, db=db, now=now, gate=HostGate(monotonic=monotonic), trouble=Trouble(say=print))


@pytest.fixture
def source(world: World) -> Source:
    return world.config.source("runpod")


def turns(db: Engine) -> Turns:
    """The claims of one process."""
    return Turns(db=db, now=now, lease_s=60)


def lease(db: Engine, source: str = "runpod") -> tuple[str, int] | None:
    """Owner and fence of its row."""
    with reading(db) as connection:
        found = connection.execute(select(LEASE.c.owner, LEASE.c.fence).where(LEASE.c.source == source)).first()
    return None if found is None else (found.owner, found.fence)


def sweeps(db: Engine) -> list[str]:
    with reading(db) as connection:
        return list(connection.execute(select(SWEEP.c.status).where(SWEEP.c.source == "runpod").order_by(SWEEP.c.at)).scalars())


def test_it_is_collected_once_an_interval_whoever_looks(collector: Collector, db: Engine, source: Source) -> None:
    mine, other = turns(db), turns(db)
    turn = sweep_in_turn(collector, mine, source)
    assert turn.report is not None
    assert turn.report.status == "ok"
    assert 0.9 * 900 - 60 < turn.again_s <= 1.1 * 900
    again = sweep_in_turn(collector, other, source)
    assert (again.report, again.holder) == (None, "")
    assert 0.9 * 900 - 60 < again.again_s <= 1.1 * 900
    assert sweeps(db) == ["ok"]


def test_a_source_that_is_off_is_not_claimed(collector: Collector, db: Engine, world: World) -> None:
    turn = sweep_in_turn(collector, turns(db), world.config.source("scaleway"))
    assert (turn.report, lease(db, "scaleway")) == (None, None)


def test_a_failed_sweep_is_a_sweep_and_waits_its_interval(collector: Collector, db: Engine, source: Source, upstream: Upstream) -> None:
    upstream.add(runpod.PATH, b"", method="POST", lasting_fault="status:404")
    assert sweep_in_turn(collector, turns(db), source).again_s > 700
    assert (sweeps(db), lease(db)) == (["failed"], ("", 1))


def test_a_program_that_stops_in_mid_sweep_hands_the_source_back(
    collector: Collector, db: Engine, source: Source, upstream: Upstream
) -> None:
    route = upstream.add(runpod.PATH, b"{}", method="POST", lasting_fault="hang")
    threading.Timer(0.2, collector.stop.set).start()
    turn = sweep_in_turn(collector, turns(db), source)
    assert (turn.report, sweeps(db), lease(db)) == (None, [], ("", 1))
    route.lasting_fault = ""
    assert isinstance(turns(db).take(source), Lease)  # at once: it is still due


def test_a_turn_that_was_lost_is_said_and_keeps_nothing(
    collector: Collector, db: Engine, source: Source, upstream: Upstream, capsys: pytest.CaptureFixture[str]
) -> None:
    def overtake() -> None:
        until(lambda: bool(upstream.asked(runpod.PATH)))
        with writing(db) as connection:
            connection.execute(LEASE.update().values(owner="another", fence=7))

    for route in (route for route in upstream._routes if route.path == runpod.PATH):
        route.delay_s = 1
    threading.Thread(target=overtake, daemon=True).start()
    turn = sweep_in_turn(collector, turns(db), source)
    assert (turn.report, turn.holder, sweeps(db)) == (None, "another process", [])
    assert lease(db) == ("another", 7)
    assert capsys.readouterr().out == "runpod: another process took over, this sweep is not kept\n"


def test_a_person_collects_at_once_but_not_what_another_has(db: Engine, world: World, source: Source, tmp_path: Path) -> None:
    config = tmp_path / "config/tracker.toml"
    url = db.url.render_as_string(hide_password=False)
    config.write_text(f'{config.read_text(encoding="utf-8")}\n[database]\nurl = "{url}"\n', encoding="utf-8")
    for _ in range(2):  # due or not
        done = breakeven(tmp_path, "collect", "runpod")
        assert (done.returncode, done.stdout.split(",")[0]) in ((0, "runpod: ok"), (0, "runpod: unchanged"))
    mine = turns(db)
    assert isinstance(mine.take(source, early=True), Lease)
    done = breakeven(tmp_path, "collect", "runpod")
    if db.dialect.name == "postgresql":
        assert (done.returncode, done.stdout) == (0, f"runpod: {mine.owner} collects it now\n")
    else:  # nobody else can live on one file: what is held is a dead one's
        assert (done.returncode, done.stdout.split(",")[0]) == (0, "runpod: unchanged")


def test_a_clock_that_is_set_back_delays_no_look(db: Engine, world: World) -> None:
    """The scheduler sleeps until a time of day: after a step back of a day that would be tomorrow."""
    for one in ("runpod", "ecb"):
        turns(db).take(world.config.source(one))
    daemon = Daemon(world, db)
    daemon.schedule()
    try:
        daemon.scheduler.pause()
        tomorrow = now() + timedelta(days=1)
        for job in daemon.scheduler.get_jobs():
            daemon.scheduler.modify_job(job.id, next_run_time=tomorrow)
        with writing(db) as connection:
            connection.execute(LEASE.update().values(next_due=tomorrow, lease_until=tomorrow))  # as the clock before the step had it
        before = len(sweeps(db))
        daemon.scheduler.resume()
        daemon.clock_moved(-86_400, 0)
        until(lambda: len(sweeps(db)) > before)
        until(lambda: any(source.id == "runpod" and source.last_success for source in daemon.snapshot.sources))
    finally:
        assert daemon.close()


def test_a_job_may_ask_the_scheduler_while_it_stops(db: Engine, world: World) -> None:
    """Whoever recomputes counts the jobs: were the scheduler's lock held until all of them have ended, none would."""
    daemon = Daemon(world, db)
    assert daemon.serving.starting  # for /readyz
    daemon.schedule()
    assert not daemon.serving.starting
    begun = threading.Event()

    def ask() -> None:
        begun.set()
        until(lambda: not daemon.scheduler.running)
        daemon.scheduler.get_jobs()

    daemon.scheduler.add_job(ask, "interval", seconds=3600, next_run_time=now())
    assert begun.wait(20)
    assert daemon.close()


def test_a_look_that_fails_is_followed_by_another(db: Engine, world: World, source: Source, capsys: pytest.CaptureFixture[str]) -> None:
    daemon = Daemon(world, db)
    with writing(db) as connection:
        connection.exec_driver_sql("alter table source_lease rename to away")
    daemon.run_source(source)
    assert capsys.readouterr().out.count("\n") == 1
    assert daemon.trouble.reason.startswith("database: ")
    with writing(db) as connection:
        connection.exec_driver_sql("alter table away rename to source_lease")
    daemon.run_source(source)
    assert sweeps(db) == ["ok"]
    assert daemon.trouble.reason == ""
    assert isinstance(turns(db).take(source), NotYet)
