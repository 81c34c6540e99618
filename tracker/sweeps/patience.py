"""A database that fails for a moment loses no sweep: what was collected is held and tried again for about two minutes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.exc import SQLAlchemyError

from tracker.database.faults import Trouble, may_pass

Result = TypeVar("Result")

PAUSES_S = (1, 2, 3, 4, 5, 10, 15, 20, 30, 30)


def patiently(act: Callable[[], Result], trouble: Trouble, stop: threading.Event) -> Result:
    """What ``act`` returns. Tried again where the database fails in a way that may pass, until it works, the pauses or the program end."""
    for pause in PAUSES_S:
        try:
            found = act()
        except SQLAlchemyError as error:
            trouble.met(error)
            if not may_pass(error) or stop.wait(pause):
                raise
        else:
            trouble.over()
            return found
    return act()
