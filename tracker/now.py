"""The clock."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now() -> datetime:
    """The time, read by the daemon and the command line only; everything else receives it."""
    return datetime.now(UTC)
