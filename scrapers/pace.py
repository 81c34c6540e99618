"""How long a sweep may take and how often a host is asked. Seconds of a monotonic clock throughout."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from scrapers.contract import FetchError

_ASK_AGAIN_S = 0.1  # while every place at a host is taken


class Stopped(FetchError):
    """The program is shutting down; the source is not to blame."""


class OutOfTime(FetchError):
    """The deadline of the sweep has passed, or would before a wait ends."""


class Budget:
    """Seconds left of one sweep; everything that waits asks here first, so a stop or the deadline ends it."""

    def __init__(
        self, seconds: float, *, stop: threading.Event, monotonic: Callable[[], float], sleep: Callable[[float], object] | None = None
    ) -> None:
        self._seconds = seconds
        self._stop = stop
        self.monotonic = monotonic
        self._sleep = stop.wait if sleep is None else sleep
        self._end = monotonic() + seconds

    def left(self) -> float:
        """Seconds until the deadline; negative after it."""
        return self._end - self.monotonic()

    def check(self) -> None:
        """Return while there is time; raise Stopped or OutOfTime."""
        if self._stop.is_set():
            raise Stopped("the program is stopping")
        if self.left() <= 0:
            raise OutOfTime(f"no complete answer within {self._seconds:g} s")

    def sleep(self, seconds: float) -> None:
        """Wait ``seconds``; a wait that would outlast the deadline fails at once instead."""
        self.check()
        if seconds >= self.left():
            raise OutOfTime(f"a wait of {seconds:.1f} s, longer than what is left of {self._seconds:g} s")
        self._sleep(seconds)
        self.check()


class HostGate:
    """Turns at each host, shared by all sources of a process: few requests at once, their starts spaced."""

    def __init__(self, *, monotonic: Callable[[], float], at_once: int = 2) -> None:
        self._monotonic = monotonic
        self._at_once = at_once
        self._lock = threading.Lock()
        self._open: Counter[str] = Counter()
        self._last_start: dict[str, float] = {}

    @contextmanager
    def turn(self, host: str, *, interval_s: float, sleep: Callable[[float], None]) -> Iterator[None]:
        """Hold one place at ``host``, ``interval_s`` or more after the last start there; ``sleep`` may raise to give up."""
        while (wait := self._enter(host, interval_s)) > 0:
            sleep(wait)
        try:
            yield
        finally:
            with self._lock:
                self._open[host] -= 1

    def _enter(self, host: str, interval_s: float) -> float:
        """0 when the place is ours, else seconds until it makes sense to ask again."""
        with self._lock:
            now = self._monotonic()
            wait = self._last_start[host] + interval_s - now if host in self._last_start else 0.0
            if wait <= 0 and self._open[host] < self._at_once:
                self._open[host] += 1
                self._last_start[host] = now
                return 0.0
            return max(wait, _ASK_AGAIN_S) if wait <= 0 else wait
