"""Moments, ranges and steps as they are typed: 2026-10-16, 2026-10-16T12:00Z, 7d, 6h, 30m."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from tracker.errors import BreakevenError

UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_SPAN = re.compile(r"([1-9]\d{0,5})([mhdw])")

At = Annotated[str, typer.Option("--at", help="As known at this UTC time, such as 2026-10-16T12:00Z; default: now.")]


def moment(text: str, option: str) -> datetime:
    """A UTC time; a day is its first moment. BreakevenError says how to write it."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise BreakevenError(f"{option} {text!r} is no time; write 2026-10-16 or 2026-10-16T12:00Z") from error
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def span(text: str, option: str) -> timedelta:
    """A length of time such as 30m, 6h, 7d, 2w."""
    found = _SPAN.fullmatch(text)
    if found is None:
        raise BreakevenError(f"{option} {text!r} is no length of time; write 30m, 6h, 7d or 2w")
    return int(found[1]) * UNITS[found[2]]


def since(text: str, now: datetime, option: str) -> datetime:
    """A time, or how long before ``now``."""
    return now - span(text, option) if _SPAN.fullmatch(text) else moment(text, option)
