"""What the page and the API answer about a past moment: ``?at=2026-10-16T12:00Z``. A stranger may ask; the work is bounded.

A few past snapshots are kept. Another one is worked out one at a time, and only so often: beyond that the answer is 429.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from threading import BoundedSemaphore, Lock
from time import monotonic
from typing import TypeVar

from fastapi import HTTPException
from sqlalchemy import Engine

from tracker.answers.recompute import Sizer, recompute
from tracker.answers.snapshot import Snapshot
from tracker.book.timeline import SETTLED
from tracker.errors import BreakevenError
from tracker.moments import past_moment
from tracker.world import World

KEPT = 8  # past snapshots; one of 30,000 offers takes some 30 MB
AT_ONCE = 20  # that may be worked out in a row
EVERY_S = 3.0  # after which one more may be
PATIENCE_S = 5.0  # to wait for another's to be ready
WAITING = 3  # at once, so that threads are left for everything else

Found = TypeVar("Found")


@dataclass(slots=True)
class Budget:
    """How much of what costs time may be asked: ``most`` at once, one more every ``every_s``, and one at a time."""

    counted: Callable[[], float] = monotonic
    most: int = AT_ONCE
    every_s: float = EVERY_S
    patience_s: float = PATIENCE_S
    _spent: float = 0
    _looked: float | None = None
    _working: Lock = field(default_factory=Lock)
    _here: BoundedSemaphore = field(default_factory=lambda: BoundedSemaphore(WAITING))

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the turn; 429 where others have it for too long, or some wait for it already."""
        if not self._here.acquire(blocking=False):
            raise _too_many(1)
        try:
            if not self._working.acquire(timeout=self.patience_s):
                raise _too_many(1)
            try:
                yield
            finally:
                self._working.release()
        finally:
            self._here.release()

    def spend(self, units: float = 1) -> None:
        """Take some, while holding the turn; 429 with the seconds to wait where none is left."""
        now = self.counted()
        passed = 0 if self._looked is None else now - self._looked
        self._spent, self._looked = max(0.0, self._spent - passed / self.every_s), now
        if self._spent > self.most - 1:
            raise _too_many(int((self._spent - (self.most - 1)) * self.every_s) + 1)
        self._spent += units


def _too_many(seconds: int) -> HTTPException:
    return HTTPException(
        429, detail=f"too many questions about the past at once; ask again in {seconds} s", headers={"Retry-After": f"{seconds}"}
    )


@dataclass(slots=True)
class Past:
    """Past snapshots by moment, the last few asked for. One of the last minute is not kept: a sweep may still be on its way into it."""

    world: World
    db: Engine
    now: Callable[[], datetime]
    budget: Budget = field(default_factory=Budget)
    _sizer: Sizer | None = None
    _kept: OrderedDict[datetime, Snapshot] = field(default_factory=OrderedDict)

    def snapshot(self, at: datetime) -> Snapshot:
        """The answers as known at that moment."""
        with self.budget.turn():
            found = self._kept.pop(at, None)
            if found is None:
                self.budget.spend()
                self._sizer = self._sizer or Sizer(self.world)
                found = recompute(self.db, self.world, self._sizer, at)
            if at <= self.now() - SETTLED:
                self._kept[at] = found
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return found


def asked_moment(text: str, now: datetime) -> datetime:
    """The moment ``?at=`` names; 400 with how to write it where it is none or lies in the future."""
    return checked(lambda: past_moment(text, now, "at"))


def checked(work: Callable[[], Found]) -> Found:
    """What the work gives back; 400 with the reason where what was asked makes no sense."""
    try:
        return work()
    except BreakevenError as error:
        raise HTTPException(400, detail=str(error)) from error
