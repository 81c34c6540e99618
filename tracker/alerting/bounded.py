"""Waits for a job so long and no longer. What takes longer is left behind in a thread of its own, and one is left behind at most."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from tracker.attempt import attempt

Result = TypeVar("Result")


class Late(Exception):
    """It did not end in time, or the one before is still at it."""


class Bounded:
    """Runs one job at a time."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._busy: Future[Any] | None = None

    def wait(self, job: Callable[[], Result], seconds: float) -> Result | Exception:
        """What the job gives, the fault that ended it, or Late."""
        if self._busy is not None and not self._busy.done():
            return Late("the one before has not ended")
        future: Future[Result | Exception] = Future()
        self._busy = future
        threading.Thread(target=_run, args=(future, job), name=self._name, daemon=True).start()
        wait([future], seconds)
        return future.result() if future.done() else Late(f"not done within {seconds:g} s")


def _run(future: Future[Result | Exception], job: Callable[[], Result]) -> None:
    try:
        future.set_result(attempt(job))
    except (KeyboardInterrupt, SystemExit) as error:  # what ends a program, not a job: raised where it is waited for
        future.set_exception(error)
