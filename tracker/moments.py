"""Moments, ranges and steps as they are typed: 2026-10-16, 2026-10-16T12:00Z, 7d, 6h, 30m."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from tracker.errors import BreakevenError

UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_SPAN = re.compile(r"([1-9][0-9]{0,5})([mhdw])")


class NoSuchTime(BreakevenError):
    """A time, range or step that cannot be: says what was expected."""


def moment(text: str, option: str) -> datetime:
    """A UTC time; a day is its first moment. NoSuchTime says how to write it."""
    try:
        found = datetime.fromisoformat(text.strip())
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise NoSuchTime(f"{option} {text[:40]!r} is no time; write 2026-10-16 or 2026-10-16T12:00Z") from error


def past_moment(text: str, now: datetime, option: str) -> datetime:
    """A UTC time that is not later than ``now``: nothing is known of the future."""
    found = moment(text, option)
    if found > now:
        raise NoSuchTime(f"{option} {text[:40]!r} lies in the future; it is {now:%Y-%m-%dT%H:%M:%SZ}")
    return found


def span(text: str, option: str) -> timedelta:
    """A length of time such as 30m, 6h, 7d, 2w."""
    found = _SPAN.fullmatch(text)
    if found is None:
        raise NoSuchTime(f"{option} {text[:40]!r} is no length of time; write 30m, 6h, 7d or 2w")
    return int(found[1]) * UNITS[found[2]]


def since(text: str, now: datetime, option: str) -> datetime:
    """A time, or how long before ``now``."""
    if not _SPAN.fullmatch(text):
        return moment(text, option)
    try:
        return now - span(text, option)
    except OverflowError as error:
        raise NoSuchTime(f"{option} {text!r} is longer ago than there are dates") from error
