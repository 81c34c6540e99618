"""Turns: one process has a source at a time, for as long as it lives, and what comes too late is not kept."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from databases import BOTH, new_book, opened
from sqlalchemy import Engine, func, select, text, update

from tracker.database.handle import reading, writing
from tracker.sweeps.leases import LEASE, ClockWrong, Lease, LeaseLost, NotYet, Terms, claim, give_back, renew, settle, start_alone
from tracker.sweeps.store import SWEEP, SweepReport, record_sweep

TERMS = Terms(interval_s=900, lease_s=60, max_age_s=3 * 3600)


@pytest.fixture(params=BOTH)
def db(request: pytest.FixtureRequest) -> Iterator[Engine]:
    yield from opened(new_book(request, request.param))


class Clock:
    """The database's clock as the test moves it: PostgreSQL's own cannot be, so there the stored moments are moved instead."""

    def __init__(self, db: Engine) -> None:
        self._db = db
        self._at = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self._at if self._db.dialect.name == "sqlite" else datetime.now(UTC)

    def forward(self, seconds: float) -> None:
        self._at += timedelta(seconds=seconds)
        if self._db.dialect.name == "postgresql":
            earlier = {name: LEASE.c[name] - timedelta(seconds=seconds) for name in ("claimed_at", "lease_until", "next_due")}
            with writing(self._db) as connection:
                connection.execute(update(LEASE).values(**earlier))


@pytest.fixture
def clock(db: Engine) -> Clock:
    return Clock(db)


def take(db: Engine, clock: Clock, owner: str, source: str = "runpod", **how: Any) -> Lease | NotYet:
    return claim(db, source, owner, clock(), TERMS, **{"wait_s": 900, **how})


def taken(found: Lease | NotYet) -> Lease:
    assert isinstance(found, Lease), found
    return found


def refused(found: Lease | NotYet) -> tuple[str, int]:
    """Who has it and the whole seconds until the next look, rounded up."""
    assert isinstance(found, NotYet), found
    return found.holder, -int(-found.seconds // 1)


def store(db: Engine, clock: Clock, lease: Lease) -> None:
    report = SweepReport(source=lease.source, started_at=clock(), finished_at=clock(), status="failed", error=f"of {lease.owner}")
    record_sweep(db, report, first=partial(settle, lease=lease))


def sweeps(db: Engine) -> int:
    with reading(db) as connection:
        return connection.scalar(select(func.count()).select_from(SWEEP)) or 0


def test_one_has_the_source_and_the_other_learns_when_to_look_again(db: Engine, clock: Clock) -> None:
    lease = taken(take(db, clock, "a"))
    assert (lease.source, lease.owner, lease.fence) == ("runpod", "a", 1)
    assert refused(take(db, clock, "b")) == ("a", 60)
    assert isinstance(take(db, clock, "b", source="scaleway"), Lease)


def test_a_stored_sweep_ends_the_lease_and_the_source_is_due_an_interval_after_the_claim(db: Engine, clock: Clock) -> None:
    lease = taken(take(db, clock, "a"))
    clock.forward(20)
    moved = 20 if db.dialect.name == "postgresql" else 0  # as the stored moments were
    store(db, clock, replace(lease, claimed_at=lease.claimed_at - timedelta(seconds=moved)))
    assert refused(take(db, clock, "b")) == ("", 880)
    clock.forward(880)
    assert taken(take(db, clock, "b")).fence == 2


def test_what_a_dead_process_held_is_free_when_its_lease_ends_and_not_before(db: Engine, clock: Clock) -> None:
    take(db, clock, "a")
    clock.forward(59)
    assert refused(take(db, clock, "b")) == ("a", 1)
    clock.forward(1)
    assert taken(take(db, clock, "b")).fence == 2


def test_a_sweep_of_one_that_slept_through_its_lease_is_not_kept_and_the_others_is(db: Engine, clock: Clock) -> None:
    late = taken(take(db, clock, "a"))
    clock.forward(61)
    now = taken(take(db, clock, "b"))
    with pytest.raises(LeaseLost, match="runpod: another process took over"):
        store(db, clock, late)
    store(db, clock, now)
    with pytest.raises(LeaseLost):
        store(db, clock, late)
    assert sweeps(db) == 1


def test_a_lease_that_ran_out_and_that_nobody_took_still_keeps_its_sweep(db: Engine, clock: Clock) -> None:
    lease = taken(take(db, clock, "a"))
    clock.forward(300)
    store(db, clock, lease)
    assert sweeps(db) == 1


def test_a_sweep_is_kept_once(db: Engine, clock: Clock) -> None:
    lease = taken(take(db, clock, "a"))
    store(db, clock, lease)
    with pytest.raises(LeaseLost):
        store(db, clock, lease)
    assert sweeps(db) == 1


def test_a_lease_lives_while_it_is_renewed_but_not_beyond_reason(db: Engine, clock: Clock) -> None:
    take(db, clock, "a")
    take(db, clock, "b", source="scaleway")
    for _ in range(14):
        clock.forward(50)
        assert renew(db, "a", clock(), 60) == 1
    assert refused(take(db, clock, "c")) == ("a", 60)
    assert isinstance(take(db, clock, "c", source="scaleway"), Lease)
    clock.forward(201)  # 901 s after the claim: whatever still runs then hangs
    assert renew(db, "a", clock(), 60) == 0
    assert isinstance(take(db, clock, "c"), Lease)


def test_a_turn_that_came_to_nothing_leaves_the_source_due(db: Engine, clock: Clock) -> None:
    lease = taken(take(db, clock, "a"))
    assert give_back(db, lease)
    again = taken(take(db, clock, "b"))
    assert not give_back(db, lease)
    assert refused(take(db, clock, "a")) == ("b", 60)
    assert again.fence == 2


def test_a_person_may_collect_early_but_not_what_another_collects(db: Engine, clock: Clock) -> None:
    store(db, clock, taken(take(db, clock, "a")))
    assert refused(take(db, clock, "b")) == ("", 900)
    lease = taken(take(db, clock, "b", early=True))
    assert refused(take(db, clock, "c", early=True)) == ("b", 60)
    store(db, clock, lease)


def test_moments_that_a_wrong_clock_left_in_the_far_future_hold_nothing_up(db: Engine, clock: Clock) -> None:
    lease = taken(take(db, clock, "a"))
    clock.forward(-86_400)  # the lease and the due time are a day ahead now
    assert taken(take(db, clock, "b")).fence == lease.fence + 1
    clock.forward(61)
    store(db, clock, taken(take(db, clock, "b")))
    clock.forward(-86_400)
    assert isinstance(take(db, clock, "a"), Lease)


def test_a_shorter_interval_counts_at_once(db: Engine, clock: Clock) -> None:
    store(db, clock, taken(take(db, clock, "a", wait_s=86_400)))
    assert isinstance(take(db, clock, "a"), Lease)


def test_of_many_who_want_it_at_once_exactly_one_has_it(db: Engine, clock: Clock) -> None:
    """Twenty rounds; the first one makes the row."""
    for number in range(20):
        gate = threading.Barrier(8)

        def want(owner: str, gate: threading.Barrier = gate) -> Lease | NotYet:
            gate.wait(10)
            return take(db, clock, owner)

        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(want, (f"process{i}" for i in range(8))))
        winners = [lease for lease in found if isinstance(lease, Lease)]
        assert [lease.fence for lease in winners] == [number + 1]
        store(db, clock, winners[0])
        clock.forward(900)


def test_two_that_store_at_once_under_one_fence_store_once(db: Engine, clock: Clock) -> None:
    for _ in range(10):
        lease = taken(take(db, clock, "a", early=True))
        before = sweeps(db)

        def kept(_: int, lease: Lease = lease) -> bool:
            try:
                store(db, clock, lease)
            except LeaseLost:
                return False
            return True

        with ThreadPoolExecutor(4) as pool:
            assert sorted(pool.map(kept, range(4))) == [False, False, False, True]
        assert sweeps(db) == before + 1


def test_what_fails_in_the_same_transaction_keeps_the_lease_as_it_was(db: Engine, clock: Clock) -> None:
    lease = taken(take(db, clock, "a"))
    broken = SweepReport(source="runpod", started_at=clock(), finished_at=clock(), status=None)  # type: ignore[arg-type]
    with pytest.raises(Exception, match=r"(?i)not.null"):
        record_sweep(db, broken, first=partial(settle, lease=lease))
    assert refused(take(db, clock, "b")) == ("a", 60)
    store(db, clock, lease)


@pytest.fixture
def sqlite(request: pytest.FixtureRequest) -> Iterator[Engine]:
    yield from opened(new_book(request, "sqlite"))


def test_a_daemon_that_starts_alone_waits_for_no_dead_one(sqlite: Engine) -> None:
    clock = Clock(sqlite)
    take(sqlite, clock, "dead")
    store(sqlite, clock, taken(take(sqlite, clock, "dead", source="scaleway")))
    start_alone(sqlite, clock())
    assert taken(take(sqlite, clock, "a")).fence == 2
    assert taken(take(sqlite, clock, "a", source="scaleway")).fence == 2


@pytest.mark.real
def test_a_replica_that_starts_takes_nothing_from_the_others(request: pytest.FixtureRequest) -> None:
    for db in opened(new_book(request, "postgres")):
        clock = Clock(db)
        take(db, clock, "a")
        start_alone(db, clock())
        assert refused(take(db, clock, "b")) == ("a", 60)


@pytest.mark.real
@pytest.mark.parametrize(("ahead", "shown"), [(3600, r"\+3600 s ahead"), (-3600, r"-3600 s ahead")])
def test_a_machine_whose_clock_is_not_the_databases_collects_nothing(request: pytest.FixtureRequest, ahead: float, shown: str) -> None:
    for db in opened(new_book(request, "postgres")):
        with pytest.raises(ClockWrong, match=f"clock: this machine is {shown} of the database's"):
            claim(db, "runpod", "a", datetime.now(UTC) + timedelta(seconds=ahead), TERMS, wait_s=900)
        assert isinstance(claim(db, "runpod", "a", datetime.now(UTC) + timedelta(seconds=200), TERMS, wait_s=900), Lease)


@pytest.mark.real
def test_a_row_that_another_has_locked_is_passed_by_and_not_waited_for(request: pytest.FixtureRequest) -> None:
    for db in opened(new_book(request, "postgres")):
        clock = Clock(db)
        store(db, clock, taken(take(db, clock, "a")))
        with writing(db) as connection:
            connection.execute(text("select 1 from source_lease where source = 'runpod' for update"))
            assert refused(take(db, clock, "b", early=True)) == ("another process", 1)
