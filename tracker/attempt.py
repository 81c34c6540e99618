"""The one place where any fault is caught: around a job whose failure must not stop the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def attempt(job: Callable[[], Result], passing: tuple[type[Exception], ...] = ()) -> Result | Exception:
    """What the job gives, or the unexpected fault that ended it; those of ``passing`` are the caller's own."""
    try:
        return job()
    except passing:
        raise
    except Exception as error:  # noqa: BLE001  the caller tells it, as far as it may be told
        return error
