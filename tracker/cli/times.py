"""``--at``, as every command takes it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Annotated

import typer

from tracker.moments import moment

At = Annotated[str, typer.Option("--at", help="As known at this UTC time, such as 2026-10-16T12:00Z; default: now.")]
_AT: ContextVar[str] = ContextVar("at", default="")  # of this run


def stand_at(text: str) -> None:
    """Answer as known at that time, from here on; BreakevenError where it is none."""
    if text:
        moment(text, "--at")
    _AT.set(text)


def asked_at() -> str:
    """What --at says in this run; empty is now."""
    return _AT.get()
