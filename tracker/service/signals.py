"""How a person or a supervisor asks the program to stop."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

ASKING = (signal.SIGINT, signal.SIGTERM)


def end_on_signals() -> None:
    """SIGINT and SIGTERM end a start where it stands: what is written until then is written whole, as where the power fails."""

    def handle(_number: int, _frame: FrameType | None) -> None:
        os._exit(0)  # no exception, which might come up in the middle of an import, where nobody passes it on

    _install(handle)


def stop_on_signals(stop: threading.Event) -> None:
    """SIGINT and SIGTERM ask to stop; a second one aborts at once."""

    def handle(number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        stop.set()

    _install(handle)


def _install(handle: Callable[[int, FrameType | None], None]) -> None:
    for number in ASKING:
        signal.signal(number, handle)
