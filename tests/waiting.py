"""Waiting for what another thread or process does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic


def until(holds: Callable[[], object], nudge: Callable[[], object] = lambda: None, *, seconds: float = 30) -> None:
    """Look, and nudge, until it holds; fails after so many seconds."""
    end, pause = monotonic() + seconds, threading.Event()
    while not holds():
        nudge()
        assert monotonic() < end, "it never came true"
        pause.wait(0.01)
