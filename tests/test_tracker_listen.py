"""Notices between processes on one PostgreSQL: heard once the change can be seen, not from oneself, and again after an interruption."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

import pytest
from databases import Postgres, new_book, opened
from sqlalchemy import Engine, func, select
from waiting import until

from tracker.database.handle import reading
from tracker.database.listen import Listener
from tracker.sweeps.leases import Lease, Terms, claim, settle
from tracker.sweeps.store import SWEEP, SweepReport, record_sweep

pytestmark = pytest.mark.real


@pytest.fixture
def db(request: pytest.FixtureRequest) -> Iterator[Engine]:
    yield from opened(new_book(request, "postgres"))


@dataclass(slots=True)
class Ear:
    """A listener whose calls and lines are kept; with each call, how many sweeps could be seen then."""

    db: Engine
    owner: str
    stop: threading.Event = field(default_factory=threading.Event)
    heard: list[int] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    listener: Listener = field(init=False)
    thread: threading.Thread | None = None

    def __post_init__(self) -> None:
        self.listener = Listener(self.db, self.owner, self._changed, self.stop, self.said.append)
        self.thread = self.listener.start()

    def _changed(self) -> None:
        with reading(self.db) as connection:
            self.heard.append(connection.scalar(select(func.count()).select_from(SWEEP)) or 0)

    def close(self) -> None:
        self.stop.set()
        if self.thread is not None:
            self.thread.join(10)
            assert not self.thread.is_alive()


@pytest.fixture
def listen(db: Engine) -> Iterator[Callable[..., Ear]]:
    """A function that makes an ear and waits until it listens."""
    made: list[Ear] = []

    def make(owner: str, handle: Engine = db) -> Ear:
        made.append(Ear(handle, owner))
        until(lambda: made[-1].listener.listening or bool(made[-1].said))
        return made[-1]

    yield make
    for ear in made:
        ear.close()


def sweep(db: Engine, owner: str, *, source: str = "runpod", status: str | None = "failed") -> None:
    now = datetime.now(UTC)
    lease = claim(db, source, owner, now, Terms(interval_s=900, lease_s=60), wait_s=0, early=True)
    assert isinstance(lease, Lease)
    report = SweepReport(source=source, started_at=now, finished_at=now, status=status, error="x")  # type: ignore[arg-type]
    record_sweep(db, report, first=partial(settle, lease=lease))


def test_the_others_hear_of_a_sweep_when_it_can_be_seen_and_the_one_that_made_it_does_not(db: Engine, listen: Callable[..., Ear]) -> None:
    mine, other, third = listen("a"), listen("b"), listen("c")
    sweep(db, "a")
    until(lambda: bool(other.heard and third.heard))
    assert (other.heard, third.heard) == ([1], [1])
    sweep(db, "b")
    until(lambda: bool(mine.heard and third.heard[1:]))
    assert (mine.heard, other.heard, third.heard) == ([2], [1], [1, 2])


def test_a_sweep_that_was_not_kept_is_not_told(db: Engine, listen: Callable[..., Ear]) -> None:
    other = listen("b")
    with pytest.raises(Exception, match="not-null"):
        sweep(db, "a", status=None)
    sweep(db, "c", source="ecb")  # notices come in the order of their transactions: one of the first would be heard before this one's
    until(lambda: bool(other.heard))
    assert other.heard == [1]


def test_a_lost_connection_is_said_and_what_was_missed_is_looked_up(db: Engine, listen: Callable[..., Ear], postgres: Postgres) -> None:
    other = listen("b")
    end = f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{db.url.database}' and query like 'LISTEN%'"
    postgres.psql("postgres", end)
    until(lambda: "told of the others' sweeps again" in other.said)
    assert len(other.said) == 2
    assert other.said[0].startswith("not told of the others' sweeps until the database is back, looking once a minute: ")
    assert "\n" not in other.said[0]
    until(lambda: other.heard == [0])
    sweep(db, "a")
    until(lambda: other.heard == [0, 1])
    postgres.psql("postgres", end)
    until(lambda: len(other.said) == 4)  # the next interruption is said again


def test_behind_a_pooler_it_says_so_and_ends(db: Engine, listen: Callable[..., Ear], postgres: Postgres, pgbouncer: int) -> None:
    for pooled in opened(postgres.url(str(db.url.database), port=pgbouncer)):
        ear = listen("b", pooled)
        assert ear.said == [
            "a connection pooler stands before the database: the others' sweeps are noticed once a minute, not at once (no LISTEN)"
        ]
        assert ear.thread is not None
        ear.thread.join(10)
        assert not ear.thread.is_alive()


def test_on_sqlite_nobody_listens(request: pytest.FixtureRequest) -> None:
    for db in opened(new_book(request, "sqlite")):
        assert Listener(db, "a", lambda: None, threading.Event(), print).start() is None
