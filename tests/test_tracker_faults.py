"""When the database or the clock fails: one clear line, nothing lost, /readyz says it, and nothing old looks fresh."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from databases import BOTH, Postgres, new_book, opened, run_postgres
from homes import run
from processes import Running, breakeven
from small_world import offer, rate
from small_world import sweep as small_sweep
from sqlalchemy import Connection, Engine, event, func, select, text
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from upstream import Upstream
from worlds import serve_market, write_user_config

from scrapers.contract import Licence, Page
from tracker.answers.ageing import aged, latest
from tracker.answers.recompute import Sizer
from tracker.book.book import read_book
from tracker.book.bookfile import Dated
from tracker.book.bookstore import import_dated
from tracker.book.listing import OFFERS
from tracker.book.newest import reading_moment
from tracker.book.overrides import Overrides, StatedRent
from tracker.book.points import list_accepted
from tracker.database.column_types import Moment
from tracker.database.faults import READS, Trouble, fault_kind, fault_line
from tracker.database.handle import open_database, reading, writing
from tracker.database.rows import identity, to_s
from tracker.database.schema import TABLES
from tracker.guard.decisions import entries
from tracker.guard.doubts import REPEAT, Doubt
from tracker.guard.quarantine import Sighting, hold
from tracker.maintenance.stats import vacuum
from tracker.metrics.families import families
from tracker.service import daemon as daemon_module
from tracker.service.clock import Watch, clock_fault, mend_future
from tracker.service.daemon import Daemon
from tracker.service.readiness import not_ready
from tracker.sweeps.bodies import keep_bodies
from tracker.sweeps.patience import patiently
from tracker.sweeps.store import SWEEP, SweepReport, record_sweep, unmapped_names
from tracker.world import World

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


@pytest.fixture(params=BOTH)
def db(request: pytest.FixtureRequest) -> Iterator[Engine]:
    yield from opened(new_book(request, request.param))


@pytest.fixture
def sqlite(request: pytest.FixtureRequest) -> Iterator[Engine]:
    yield from opened(new_book(request, "sqlite"))


def failed(db: Engine, at: datetime = NOW, source: str = "runpod") -> None:
    """The smallest sweep there is."""
    record_sweep(db, SweepReport(source=source, started_at=at, finished_at=at, status="failed", error="x" * 2000))


def sweeps(db: Engine) -> int:
    with reading(db) as connection:
        return connection.scalar(select(func.count()).select_from(SWEEP)) or 0


@dataclass(slots=True)
class Said:
    """Lines of a Trouble; ``then`` is done when the first is said."""

    lines: list[str] = field(default_factory=list)
    then: Callable[[], object] | None = None

    def __call__(self, line: str) -> None:
        self.lines.append(line)
        if self.then is not None:
            then, self.then = self.then, None
            then()


# --- disk full, locked, read-only, damaged: SQLite -----------------------------------------------------------------------


def limit_pages(db: Engine, spare: int) -> None:
    """The file may grow by so many pages; a limit of SQLite's own that reports what a full disk does."""
    db.dispose()

    @event.listens_for(db, "connect")
    def _limit(connection: sqlite3.Connection, _record: object) -> None:
        (pages,) = connection.execute("pragma page_count").fetchone()
        connection.execute(f"pragma max_page_count = {spare or pages}")


def test_a_full_disk_loses_no_sweep_and_is_said_once(sqlite: Engine) -> None:
    limit_pages(sqlite, 0)
    said = Said()
    trouble = Trouble(say=said)
    with pytest.raises(SQLAlchemyError) as caught:
        for number in range(100):
            failed(sqlite, NOW + timedelta(minutes=number))
    kept = sweeps(sqlite)
    assert fault_kind(caught.value) == "full"
    said.then = lambda: limit_pages(sqlite, 10_000)  # somebody makes room
    patiently(lambda: failed(sqlite, NOW + timedelta(days=1)), trouble, threading.Event())
    assert said.lines == [
        "database: database or disk is full; make room; nothing more is kept until then",
        "database: works again",
    ]
    assert sweeps(sqlite) == kept + 1
    with reading(sqlite) as connection:
        assert connection.execute(text("pragma integrity_check")).scalars().all() == ["ok"]


def test_what_cannot_be_written_is_told_by_readyz_until_it_can_be(sqlite: Engine) -> None:
    trouble = Trouble(say=Said())
    limit_pages(sqlite, 0)
    with pytest.raises(SQLAlchemyError) as caught:
        for number in range(100):
            failed(sqlite, NOW + timedelta(minutes=number))
    trouble.met(caught.value)
    assert not_ready(sqlite, NOW + timedelta(days=1), trouble) == "database: its disk is full"
    trouble.over(*READS)  # that it can be read is no sign that it can be written
    assert not_ready(sqlite, NOW + timedelta(days=1), trouble) == "database: its disk is full"
    trouble.over()
    assert not_ready(sqlite, NOW + timedelta(days=1), trouble) == ""


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("SQLITE_IOERR_SHMSIZE", "full"),  # a disk so full that the first reader's index of the log has no room
        ("SQLITE_IOERR_WRITE", "failing"),  # a quota, a limit of a file's size, or the disk itself
        ("SQLITE_IOERR_READ", "closed"),
    ],
)
def test_what_the_disk_refuses_is_told_from_what_this_account_may_not(name: str, kind: str) -> None:
    found = sqlite3.OperationalError("disk I/O error")
    found.sqlite_errorname = name
    assert fault_kind(OperationalError("select 1", None, found)) == kind


def test_a_vacuum_that_fails_is_told_like_everything_else(sqlite: Engine) -> None:
    event.listen(sqlite, "connect", lambda connection, _: connection.execute("pragma query_only = on"))
    sqlite.dispose()
    with pytest.raises(OperationalError) as caught:
        vacuum(sqlite)
    assert fault_kind(caught.value) == "read-only"


def test_a_lock_is_waited_for_and_said(tmp_path: Path, sqlite: Engine) -> None:
    other = sqlite3.connect(str(sqlite.url.database), isolation_level=None)
    other.execute("begin immediate")
    with sqlite.connect() as connection:
        connection.exec_driver_sql("pragma busy_timeout = 20")
    said = Said(then=lambda: other.execute("rollback"))
    patiently(lambda: failed(sqlite), Trouble(say=said), threading.Event())
    other.close()
    assert said.lines == [
        "database: database is locked; another program has it locked; end that one, or wait for it",
        "database: works again",
    ]
    assert sweeps(sqlite) == 1


def test_patience_ends_with_the_program_and_with_what_does_not_pass() -> None:
    stopping = threading.Event()
    stopping.set()
    missing = open_database("sqlite:////nowhere/at/all/book.db")
    with pytest.raises(SQLAlchemyError):
        patiently(lambda: failed(missing), Trouble(say=Said()), stopping)
    missing.dispose()


def test_a_read_only_database_is_one_line(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    path = new_book(request, "sqlite").removeprefix("sqlite:///")
    for read_only in opened(f"sqlite:///file:{path}?mode=ro&uri=true"):
        with pytest.raises(SQLAlchemyError) as caught:
            failed(read_only)
    assert fault_line(caught.value) == (
        "attempt to write a readonly database; it cannot be written to; check the rights of this account, or name the primary server"
    )


def damage(path: Path) -> None:
    """Overwrite every page but the first."""
    raw = path.read_bytes()
    size = int.from_bytes(raw[16:18], "big")
    path.write_bytes(raw[:size] + b"\xa5" * (len(raw) - size))


def test_a_damaged_file_stops_the_start_with_one_line(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    path = Path(new_book(request, "sqlite").removeprefix("sqlite:///"))
    damage(path)
    (tmp_path / "data").mkdir()
    path.rename(tmp_path / "data/breakeven.db")
    done = breakeven(tmp_path, "run", "--port", "0")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "database disk image is malformed; restore a backup, or move it away" in done.stderr


def test_a_page_that_breaks_while_it_runs_is_said_and_told_by_readyz(sqlite: Engine) -> None:
    failed(sqlite)
    sqlite.dispose()
    damage(Path(str(sqlite.url.database)))
    said = Said()
    trouble = Trouble(say=said)
    with pytest.raises(SQLAlchemyError):
        patiently(lambda: failed(sqlite), trouble, threading.Event())
    assert len(said.lines) == 1
    assert "malformed" in said.lines[0]
    assert not_ready(sqlite, NOW, trouble) == "database: it is damaged"


# --- PostgreSQL: read-only, gone and back ---------------------------------------------------------------------------------


@pytest.mark.real
def test_a_standby_is_one_line(request: pytest.FixtureRequest, postgres: Postgres) -> None:
    url = new_book(request, "postgres")
    postgres.psql("postgres", f"alter database {url.rpartition('/')[2]} set default_transaction_read_only = on")
    for db in opened(url):
        with pytest.raises(SQLAlchemyError) as caught:
            failed(db)
    assert fault_kind(caught.value) == "read-only"
    assert "\n" not in fault_line(caught.value)


@pytest.mark.real
@pytest.mark.parametrize(
    ("code", "kind"),
    [("53100", "full"), ("55P03", "locked"), ("XX001", "damaged"), ("57P01", "gone"), ("53300", "refused"), ("42501", "denied")],
)
def test_what_the_server_reports_is_told_by_its_code_in_any_language(request: pytest.FixtureRequest, code: str, kind: str) -> None:
    for db in opened(new_book(request, "postgres")):
        with pytest.raises(SQLAlchemyError) as caught, writing(db) as connection:
            connection.execute(text(f"do $$ begin raise exception 'etwas ging schief' using errcode = '{code}'; end $$"))
    assert fault_kind(caught.value) == kind


@pytest.mark.real
@pytest.mark.loopback
def test_a_server_that_goes_and_comes_back(tmp_path: Path, upstream: Upstream, require: Callable[[str], Path]) -> None:
    """Its sweeps go on, prices grow old meanwhile, and no traceback is printed."""
    serve_market(upstream)
    with run_postgres(require) as server:
        url = server.url(server.make())
        tracker = f'[fetch]\nuser_agent = "t"\nhost_spacing_s = 0\n[database]\nurl = "{url}"\nlease_s = 2\n[recompute]\nevery_s = 1\n'
        # fresh for three seconds
        write_user_config(
            tmp_path / "config", upstream.url, tracker=tracker, sources=["runpod"], interval_minutes=0.02, max_age_hours=4 / 3600
        )
        with Running(tmp_path) as daemon:
            daemon.until(lambda: "breakeven_best_setup_usd_per_hour{" in daemon.get("/metrics").text)
            server.stop()
            line = daemon.wait_for("^database: .*").group()
            assert line.endswith("; check that its server runs and can be reached")
            daemon.until(lambda: daemon.get("/readyz").status_code == 503)
            assert daemon.get("/readyz").json() == {"ready": False, "reason": "database: its server does not answer"}
            assert daemon.get("/healthz").status_code == 200
            daemon.until(lambda: "breakeven_best_setup_usd_per_hour{" not in daemon.get("/metrics").text)  # no longer fresh
            assert '"fresh": false' in daemon.get("/api/v1/offers").text
            server.start()
            daemon.wait_for("database: works again")
            daemon.until(lambda: daemon.get("/readyz").status_code == 200)
            daemon.until(lambda: "breakeven_best_setup_usd_per_hour{" in daemon.get("/metrics").text)
            assert daemon.stop() == 0
        assert "Traceback" not in "\n".join(daemon.lines)
        assert sum(line.startswith("database: ") for line in daemon.lines) <= 6  # what is wrong may change, but is not repeated


# --- old prices without a database ----------------------------------------------------------------------------------------


def test_a_book_that_cannot_be_read_again_grows_old_like_one_that_can(db: Engine, world: World) -> None:
    small_sweep(db, "rents", NOW, offer("2.00"))
    small_sweep(db, "tokens", NOW, rate(input="2", output="10"))
    sizer = Sizer(world)
    for hours in (0, 2.9, 3.1, 47, 49):
        at = NOW + timedelta(hours=hours)
        _, snapshot = latest(db, world, sizer, NOW)
        _, read_again = latest(db, world, sizer, at)
        assert aged(snapshot, world, sizer, at) == read_again
    assert aged(snapshot, world, sizer, NOW + timedelta(hours=3.1)).answers[0].setup_fresh is False
    assert snapshot.answers[0].setup_fresh is True


def test_a_look_that_goes_wrong_in_any_way_lets_prices_grow_old(db: Engine, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not fresh beyond their limit, however often it goes wrong, and the metrics say when the answers were last worked out."""
    small_sweep(db, "rents", NOW, offer("2.00"))
    clock = [NOW]
    daemon = Daemon(world, db, now=lambda: clock[0])

    def told() -> tuple[bool, list[float]]:
        found = {family.name: family.samples for family in families(daemon.snapshot)}
        return daemon.snapshot.answers[0].setup_fresh, [value for _, value in found["breakeven_snapshot_timestamp_seconds"]]

    def fails(*_: object) -> None:
        raise MemoryError

    daemon.refresh()
    assert told() == (True, [NOW.timestamp()])
    with monkeypatch.context() as patch:
        patch.setattr(daemon_module, "latest", fails)
        for hours, fresh in ((2.9, True), (3.1, False), (4, False)):
            clock[0] = NOW + timedelta(hours=hours)
            with pytest.raises(MemoryError):
                daemon.refresh()
            assert told() == (fresh, [NOW.timestamp()])
    daemon.refresh()
    assert told() == (False, [clock[0].timestamp()])


def test_a_book_that_grows_old_holds_what_is_stated_once(db: Engine, world: World) -> None:
    small_sweep(db, "rents", NOW, offer("2.00"))
    contract = StatedRent(
        id="contract", provider="cloud", region="", currency="USD", start=NOW, end=None, source="contract", sku="", gpu="test-141",
        gpu_count=8, native_per_hour=Decimal(8), tier="on_demand", term_months=None,
    )  # fmt: skip
    world = replace(world, overrides=Overrides(rents=(contract,)))
    _, snapshot = latest(db, world, Sizer(world), NOW)
    held = []
    for minutes in range(1, 6):
        snapshot = aged(snapshot, world, Sizer(world), NOW + timedelta(minutes=minutes))
        held.append(len(snapshot.book.offers.reading.given))
    assert held == [held[0]] * 5 != [0] * 5


# --- clocks ---------------------------------------------------------------------------------------------------------------


def test_a_step_of_the_clock_is_seen_and_a_running_one_is_none() -> None:
    wall, counted = [NOW], [1000.0]
    watch = Watch(lambda: wall[0], lambda: counted[0])
    steps = []
    for by_wall, by_count in ((5, 5), (5.3, 5), (3605, 5), (5, 5), (-86_395, 5), (4.7, 5)):
        wall[0] += timedelta(seconds=by_wall)
        counted[0] += by_count
        steps.append(watch.step())
    assert steps == [0, 0, 3600, 0, -86_400, 0]


def test_a_sweep_from_a_machine_a_little_ahead_is_read_and_one_far_ahead_is_a_wrong_clock(db: Engine) -> None:
    failed(db, NOW + timedelta(seconds=90))
    with reading(db) as connection:
        assert reading_moment(connection, NOW) == NOW + timedelta(seconds=90)
        assert reading_moment(connection, NOW + timedelta(hours=1)) == NOW + timedelta(hours=1)
        assert clock_fault(connection, NOW) == ""
    failed(db, NOW + timedelta(hours=24), source="scaleway")
    with reading(db) as connection:
        assert reading_moment(connection, NOW) == NOW
        assert clock_fault(connection, NOW).startswith("clock: the newest sweep lies 24.0 h in the future")
    assert not_ready(db, NOW, Trouble(say=Said())).startswith("clock: the newest sweep lies 24.0 h")


def test_sweeps_of_a_clock_that_was_ahead_come_back_with_it_and_hide_nothing(db: Engine, world: World) -> None:
    """An honest price, two from a clock a day ahead, and one after it was set right: the last one counts, and nothing is lost."""
    sizer, day = Sizer(world), timedelta(days=1)
    small_sweep(db, "rents", NOW, offer("2.00"))
    first, _ = latest(db, world, sizer, NOW)
    small_sweep(db, "rents", NOW + day, offer("1.90"))
    small_sweep(db, "rents", NOW + day + timedelta(minutes=15), offer("1.80"))
    now = NOW + timedelta(minutes=30)
    with writing(db) as connection:
        assert mend_future(connection, to_s(now), first) == 2
    small_sweep(db, "rents", now, offer("1.70"))
    _, snapshot = latest(db, world, sizer, now)
    assert [(e.value.usd_per_hour, e.fresh, e.seen_at) for e in snapshot.book.offers] == [(Decimal("1.70"), True, now)]
    with reading(db) as connection:
        prices = connection.execute(text("select price from offer_point order by at")).scalars().all()
        assert prices == [2_000_000_000, 1_900_000_000, 1_800_000_000, 1_700_000_000]
        assert clock_fault(connection, now) == ""


SECONDS = {"at", "since", "until", "last_seen", "last_at", "last_read", "known_at"}  # columns of moments in whole seconds
AS_READ = {"kept_page.fetched_at"}  # a parser gets the page again as it did then


def later_than(connection: Connection, now: datetime) -> set[str]:
    """Columns of moments, of every table, in which one is later."""
    found = set()
    for table in TABLES.values():
        for column in table.c:
            latest = now if isinstance(column.type, Moment) else to_s(now) if column.name in SECONDS else None
            if latest is not None and connection.scalar(select(func.count()).where(column > latest)):
                found.add(f"{table.name}.{column.name}")
    return found


def test_what_was_learnt_and_held_by_a_clock_that_was_ahead_is_not_hidden_until_then(db: Engine, world: World) -> None:
    """By a clock a month ahead a price of last week is imported, another is held, a name is met, an answer is kept and a licence is read:
    all of that is known now."""
    ahead, now = NOW + timedelta(days=30), NOW + timedelta(hours=1)
    small_sweep(db, "rents", NOW, offer("2.00"), licence=Licence(name="CC0", url="https://x.example"))
    seen = to_s(NOW - timedelta(days=7))
    import_dated(db, [Dated(offer("1.50", provider="elsewhere"), "table", seen, seen, None)], ahead)
    for at, name in ((ahead - timedelta(hours=1), "CC BY 4.0"), (ahead, "CC BY-SA 4.0")):
        small_sweep(db, "rents", at, offer("2.00"), unmapped=[("gpu", "X900")], licence=Licence(name=name, url="https://x.example"))
    report = SweepReport(source="rents", started_at=ahead, finished_at=ahead, status="ok")
    keep_bodies(db, world.settings.bodies, report, [Page(url="https://x.example", body=b"{}", fetched_at=ahead)])
    with writing(db) as connection:
        sighting = Sighting(source="rents", at=to_s(ahead), when=ahead)
        hold(connection, OFFERS, sighting, "key", offer("9.00"), None, Doubt("far off", REPEAT))
        assert {"sweep.at", "source_licence.since", "unmapped.first_seen", "kept_sweep.last_read", *AS_READ} < later_than(connection, now)
        assert mend_future(connection, to_s(now), 0) == 3  # one of them the import
        assert later_than(connection, now) == AS_READ
    later = now + timedelta(minutes=1)
    assert [row["name"] for row in unmapped_names(db, later)] == ["X900"]
    with reading(db) as connection:
        assert {entry.value.provider for entry in read_book(connection, later, world.config.sources).offers} == {"cloud", "elsewhere"}
        assert len(entries(connection, at=later)) == 1
        stated = [(row.name, row.since) for row in connection.execute(select(TABLES["source_licence"]).order_by("since"))]
        assert stated == [("CC0", to_s(NOW)), ("CC BY 4.0", to_s(now) - 2), ("CC BY-SA 4.0", to_s(now) - 1)]


def test_sweeps_that_nobody_saw_go_ahead_are_dated_back_by_hand(tmp_path: Path) -> None:
    """A clock 40 days ahead until the machine was started anew: two sweeps of then, and one of now that had to follow them."""
    told = run(tmp_path, "db", "redate")
    assert (told.code, told.out) == (0, "no sweep lies in the future\n")
    before, ahead = datetime.now(UTC), timedelta(days=40)
    for handle in opened(f"sqlite:///{tmp_path}/data/breakeven.db"):
        small_sweep(handle, "rents", before - timedelta(hours=1), offer("2.00"))
        for at, price in ((before + ahead, "1.90"), (before + ahead + timedelta(hours=1), "1.80"), (before, "1.70")):
            small_sweep(handle, "rents", at, offer(price))
        with reading(handle) as connection:
            assert "run breakeven db redate" in clock_fault(connection, before)
    told = run(tmp_path, "db", "redate")
    assert (told.code, told.out) == (0, "3 sweeps dated anew\n")
    for handle in opened(f"sqlite:///{tmp_path}/data/breakeven.db"):
        with reading(handle) as connection:
            assert clock_fault(connection, datetime.now(UTC)) == ""
            query = "select price, p.at from offer_point p join offer o on o.id = p.offer_id where o.source = 'rents' order by p.at"
            points = connection.execute(text(query)).all()
        assert [price for price, _ in points] == [2_000_000_000, 1_900_000_000, 1_800_000_000, 1_700_000_000]
        assert to_s(before) - 4 <= points[1][1] < points[2][1] < points[3][1] <= to_s(datetime.now(UTC))


def test_sweeps_that_come_back_with_the_clock_go_where_no_accepted_price_is(db: Engine, world: World) -> None:
    """The second before the clock is right again is that of a price a person accepted: the sweep that comes back goes after it."""
    sizer, now = Sizer(world), NOW + timedelta(minutes=30)
    small_sweep(db, "rents", NOW, offer("2.00"))
    first, _ = latest(db, world, sizer, NOW)
    with writing(db) as connection:
        key = identity("rents", offer("2.00"))
        list_accepted(connection, OFFERS, "rents", key, offer("1.95"), to_s(NOW), now - timedelta(seconds=1))
    small_sweep(db, "rents", NOW + timedelta(days=1), offer("1.90"))
    with writing(db) as connection:
        assert mend_future(connection, to_s(now), first) == 1
    with reading(db) as connection:
        points = connection.execute(text("select at, price from offer_point order by at")).all()
    assert [tuple(point) for point in points] == [(to_s(NOW), 2_000_000_000), (to_s(now) - 1, 1_950_000_000), (to_s(now), 1_900_000_000)]


def test_a_clock_that_is_behind_touches_no_sweep_of_before(db: Engine, world: World) -> None:
    small_sweep(db, "rents", NOW, offer("2.00"))
    small_sweep(db, "rents", NOW + timedelta(hours=1), offer("1.90"))
    before, _ = latest(db, world, Sizer(world), NOW)
    with writing(db) as connection:
        assert mend_future(connection, to_s(NOW - timedelta(days=400)), before) == 0
