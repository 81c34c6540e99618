"""Several processes with one book: an alert is told once, whoever sees it, and sent by one, whoever looks."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

import httpx
import pytest
from databases import BOTH, new_book, opened
from small_world import T0, offer, small_world, sweep
from sqlalchemy import Engine, select, update
from watching import CHEAPER, STALE, TRACK_ONE
from watching import HOOK as HOOK_ROUTE

from tracker.alerting.desk import AlertDesk
from tracker.alerting.ledger import ALERT, DELIVERY
from tracker.alerting.message import message_id
from tracker.alerting.outbox import Outbox
from tracker.alerting.state import STATE, load_states
from tracker.answers.recompute import Sizer, recompute
from tracker.answers.snapshot import Snapshot
from tracker.database.handle import reading, writing
from tracker.sweeps.leases import database_time
from tracker.world import World

HOOK = "http://127.0.0.1:9/hook"


@pytest.fixture(params=BOTH)
def db(request: pytest.FixtureRequest) -> Iterator[Engine]:
    yield from opened(new_book(request, request.param))


@pytest.fixture
def world(tmp_path: Path) -> World:
    """One model, which one test-141 holds."""
    track = '[track]\nmodels = ["large-60b"]\nworkload = "turns"\n\n[fetch]\nuser_agent = "breakeven-tests"\n'
    return small_world(tmp_path / "small", tracker_toml=track, alerts_toml=CHEAPER.replace("sweeps = 2", "sweeps = 1") + HOOK_ROUTE)


@pytest.fixture(autouse=True)
def hook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BREAKEVEN_WEBHOOK_URL", HOOK)


def desk(db: Engine, world: World, at: datetime = T0) -> AlertDesk:
    """The alerts of one process."""
    return AlertDesk(db=db, world=world, started_at=at, outbox=Outbox(db, world.alerts, lambda: at))


def seen(db: Engine, world: World, minutes: float, price: str) -> Snapshot:
    """What a process works out after a sweep at that price."""
    at = T0 + timedelta(minutes=minutes)
    sweep(db, "rents", at, offer(price))
    return recompute(db, world, Sizer(world), at)


def told(db: Engine) -> list[str]:
    with reading(db) as connection:
        return list(connection.execute(select(ALERT.c.key).order_by(ALERT.c.id)).scalars())


def baseline(db: Engine) -> Decimal | None:
    with reading(db) as connection:
        (state,) = load_states(connection).values()
    return state.prices["usd_per_hour"]


def test_of_many_that_see_the_same_fall_one_tells_it(db: Engine, world: World) -> None:
    desks = [desk(db, world) for _ in range(4)]
    for one in desks:
        one.judge(seen(db, world, 0, "2.00"))
    for number in range(1, 6):
        first = seen(db, world, number, f"{2 - number / 10}")
        snapshots = [recompute(db, world, Sizer(world), first.at + timedelta(seconds=later)) for later in range(4)]
        gate = threading.Barrier(4)

        def look(pair: tuple[AlertDesk, Snapshot], gate: threading.Barrier = gate) -> int:
            gate.wait(10)
            return len(pair[0].judge(pair[1]))

        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(look, zip(desks, snapshots, strict=True))) == 1
        assert len(told(db)) == number
    assert baseline(db) == Decimal("1.5")


def test_one_that_looks_at_an_older_book_does_not_take_the_message_back(db: Engine, world: World) -> None:
    """It would raise the baseline to the old price again, and the fall would be told a second time."""
    quick, slow = desk(db, world), desk(db, world)
    quick.judge(seen(db, world, 0, "2.00"))
    old = seen(db, world, 1, "2.00")
    new = seen(db, world, 2, "1.50")
    assert len(quick.judge(new)) == 1
    assert slow.judge(old) == ()
    assert baseline(db) == Decimal("1.5")
    assert slow.judge(new) == ()
    assert len(told(db)) == 1


def test_a_message_of_a_clock_that_was_far_ahead_does_not_silence_the_next(db: Engine, world: World) -> None:
    one = desk(db, world)
    one.judge(seen(db, world, 0, "2.00"))
    with writing(db) as connection:
        connection.execute(update(STATE).values(judged_at=T0 + timedelta(days=1)))
    assert len(one.judge(seen(db, world, 1, "1.50"))) == 1


def test_of_many_that_send_each_alert_is_sent_by_one(db: Engine, world: World) -> None:
    one = desk(db, world)
    for number in range(6):
        one.judge(seen(db, world, number, f"{3 - number / 2}"))
    keys = told(db)
    assert len(keys) == 5
    arrived: Counter[str] = Counter()
    gate = threading.Barrier(4)

    def answer(request: httpx.Request) -> httpx.Response:
        arrived[request.headers["webhook-id"]] += 1
        return httpx.Response(204)

    def send(_: int) -> int:
        gate.wait(10)
        with httpx.Client(transport=httpx.MockTransport(answer)) as client:
            return Outbox(db, world.alerts, lambda: T0 + timedelta(hours=1)).deliver(client)

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(send, range(4))) == 5
    assert arrived == Counter(map(message_id, keys))


def test_what_a_dead_sender_had_is_sent_by_another_under_the_same_id(db: Engine, world: World) -> None:
    one = desk(db, world)
    for number, price in enumerate(("2.00", "1.50")):
        one.judge(seen(db, world, number, price))
    (key,) = told(db)
    arrived: list[str] = []

    def dies(request: httpx.Request) -> httpx.Response:
        arrived.append(request.headers["webhook-id"])
        raise KeyboardInterrupt  # as a kill would: nothing is noted

    def answers(request: httpx.Request) -> httpx.Response:
        arrived.append(request.headers["webhook-id"])
        return httpx.Response(204)

    later = T0 + timedelta(hours=1)
    outbox = Outbox(db, world.alerts, lambda: later)
    with httpx.Client(transport=httpx.MockTransport(dies)) as client, pytest.raises(KeyboardInterrupt):
        outbox.deliver(client)
    with httpx.Client(transport=httpx.MockTransport(answers)) as client:
        assert outbox.deliver(client) == 0  # it may still be on its way
        with writing(db) as connection:
            now = database_time(connection, later)
            connection.execute(update(DELIVERY).values(claimed_until=now - timedelta(seconds=1)))
        assert outbox.deliver(client) == 1
        assert outbox.deliver(client) == 0
    assert arrived == [message_id(key)] * 2


def test_sweeps_that_different_processes_saw_add_up(db: Engine, tmp_path: Path) -> None:
    """The first sees the fall in one sweep, the second in the next: that is twice in a row. A third, started just now, knows as well."""
    world = small_world(tmp_path / "two", tracker_toml=TRACK_ONE, alerts_toml=CHEAPER + HOOK_ROUTE)
    first, second, third = (desk(db, world) for _ in range(3))
    assert first.judge(seen(db, world, 0, "2.00")) == ()
    assert first.judge(seen(db, world, 1, "1.50")) == ()
    fall = seen(db, world, 2, "1.50")
    assert len(second.judge(fall)) == 1
    assert first.judge(fall) == third.judge(fall) == ()
    assert len(told(db)) == 1


def test_a_source_that_is_stale_is_told_by_one_of_many(db: Engine, tmp_path: Path) -> None:
    world = small_world(tmp_path / "stale", tracker_toml=TRACK_ONE, alerts_toml=STALE + HOOK_ROUTE)
    desks = [desk(db, world) for _ in range(3)]
    fresh = seen(db, world, 0, "2.00")
    assert [one.judge(fresh) for one in desks] == [()] * 3
    late = recompute(db, world, Sizer(world), T0 + timedelta(hours=4))
    assert sum(len(one.judge(late)) for one in desks) == 1
