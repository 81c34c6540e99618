"""How a person or a supervisor asks the program to stop."""

from __future__ import annotations

import signal
import threading
from types import FrameType


def stop_on_signals(stop: threading.Event) -> None:
    """SIGINT and SIGTERM ask to stop; a second one aborts at once."""

    def handle(number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)
