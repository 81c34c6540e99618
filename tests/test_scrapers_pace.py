"""Deadlines and turns: no wait outlasts the sweep, no host is asked faster or by more at once than agreed."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest

from scrapers.pace import Budget, HostGate, OutOfTime, Stopped


class Clock:
    def __init__(self) -> None:
        self.seconds = 50.0
        self.waits: list[float] = []

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.seconds += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_budget_runs_out(clock: Clock) -> None:
    budget = Budget(10, stop=threading.Event(), monotonic=clock.monotonic, sleep=clock.sleep)
    budget.check()
    clock.seconds += 9.5
    budget.check()
    assert budget.left() == 0.5
    clock.seconds += 0.5
    with pytest.raises(OutOfTime, match="no complete answer within 10 s"):
        budget.check()


def test_a_wait_within_the_budget_is_waited(clock: Clock) -> None:
    budget = Budget(10, stop=threading.Event(), monotonic=clock.monotonic, sleep=clock.sleep)
    budget.sleep(9)
    assert clock.waits == [9]


def test_a_wait_beyond_the_budget_is_not_begun(clock: Clock) -> None:
    budget = Budget(10, stop=threading.Event(), monotonic=clock.monotonic, sleep=clock.sleep)
    with pytest.raises(OutOfTime, match=r"a wait of 10\.0 s, longer than what is left of 10 s"):
        budget.sleep(10)
    assert clock.waits == []


def test_a_stop_comes_before_the_deadline(clock: Clock) -> None:
    stop = threading.Event()
    budget = Budget(10, stop=stop, monotonic=clock.monotonic, sleep=clock.sleep)
    stop.set()
    clock.seconds += 20
    with pytest.raises(Stopped):
        budget.check()
    with pytest.raises(Stopped):
        budget.sleep(1)


def test_a_wait_ends_with_the_stop(clock: Clock) -> None:
    stop = threading.Event()
    budget = Budget(1000, stop=stop, monotonic=clock.monotonic)  # waits on the stop itself
    threading.Timer(0.05, stop.set).start()
    with pytest.raises(Stopped):
        budget.sleep(900)


def test_turns_at_a_host_are_spaced_and_hosts_do_not_wait_for_each_other(clock: Clock) -> None:
    gate = HostGate(monotonic=clock.monotonic)
    starts = []
    for host in ("a", "b", "a", "a"):
        with gate.turn(host, interval_s=5, sleep=clock.sleep):
            starts.append((host, clock.seconds))
    assert starts == [("a", 50), ("b", 50), ("a", 55), ("a", 60)]


def test_time_spent_elsewhere_counts_as_spacing(clock: Clock) -> None:
    gate = HostGate(monotonic=clock.monotonic)
    with gate.turn("a", interval_s=5, sleep=clock.sleep):
        clock.seconds += 4
    with gate.turn("a", interval_s=5, sleep=clock.sleep):
        assert clock.waits == [1]


def test_at_most_two_at_once(clock: Clock) -> None:
    gate = HostGate(monotonic=clock.monotonic)
    with ExitStack() as open_turns:
        for _ in range(2):
            open_turns.enter_context(gate.turn("a", interval_s=0, sleep=clock.sleep))
        assert clock.waits == []
        first = open_turns.pop_all()

        def give_way(seconds: float) -> None:
            clock.sleep(seconds)
            if len(clock.waits) == 3:
                first.close()

        with gate.turn("a", interval_s=0, sleep=give_way):
            assert clock.waits == [0.1, 0.1, 0.1]


def test_a_turn_is_given_back_after_an_error(clock: Clock) -> None:
    gate = HostGate(monotonic=clock.monotonic, at_once=1)
    with pytest.raises(ZeroDivisionError), gate.turn("a", interval_s=0, sleep=clock.sleep):
        _ = 1 // 0
    with gate.turn("a", interval_s=0, sleep=clock.sleep):
        assert clock.waits == []


def test_who_gives_up_waiting_takes_no_turn(clock: Clock) -> None:
    gate = HostGate(monotonic=clock.monotonic, at_once=1)

    def give_up(seconds: float) -> None:
        raise OutOfTime("enough")

    with gate.turn("a", interval_s=0, sleep=clock.sleep), pytest.raises(OutOfTime), gate.turn("a", interval_s=0, sleep=give_up):
        pass
    with gate.turn("a", interval_s=0, sleep=clock.sleep):
        assert clock.waits == []


def test_the_gate_holds_between_threads() -> None:
    """Eight threads, two places: never more than two inside, and all get their turn."""
    gate, lock, most, inside, done = HostGate(monotonic=lambda: 0.0), threading.Lock(), [0], [0], threading.Semaphore(0)
    meet = threading.Barrier(2)  # both places are taken at the same time at least once
    never = threading.Event()

    def wait(seconds: float) -> None:
        never.wait(0.01)

    def work(number: int) -> None:
        with gate.turn("a", interval_s=0, sleep=wait):
            with lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
            meet.wait(5)
            with lock:
                inside[0] -= 1
        done.release()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert most == [2]
    assert all(done.acquire(blocking=False) for _ in threads)
