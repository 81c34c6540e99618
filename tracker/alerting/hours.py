"""When a message may go out: quiet hours in people's own time zone, so many a day, and the daily digest. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

from tracker.alerting.rules import Delivery


def is_quiet(delivery: Delivery, now: datetime) -> bool:
    """Whether it is a quiet hour, by the clock on the wall there."""
    if delivery.quiet is None:
        return False
    start, end = delivery.quiet
    wall = now.astimezone(delivery.zone).time().replace(tzinfo=None)
    return start <= wall < end if start < end else wall >= start or wall < end


def quiet_until(delivery: Delivery, now: datetime) -> datetime:
    """When the quiet hours that it is in end."""
    assert delivery.quiet is not None
    return next_time(delivery, delivery.quiet[1], now)


def next_digest(delivery: Delivery, now: datetime) -> datetime:
    """When the next digest is due."""
    return next_time(delivery, time.fromisoformat(delivery.digest_at), now)


def next_time(delivery: Delivery, wanted: time, now: datetime) -> datetime:
    """The next moment after ``now`` at which the wall shows that time, in UTC.

    A time that summer time leaves out comes as late as the clocks were set; one that comes twice counts both times.
    """
    day = now.astimezone(delivery.zone).date()
    for ahead in range(3):
        first = datetime.combine(day + timedelta(days=ahead), wanted, tzinfo=delivery.zone)
        again = first.replace(fold=1).astimezone(UTC)
        found = first.astimezone(UTC)
        if found > now:
            return found
        if again > now and again > found:
            return again
    raise AssertionError("within two days every time of day comes")


def day_start(delivery: Delivery, now: datetime) -> datetime:
    """When the day there began, in UTC."""
    return datetime.combine(now.astimezone(delivery.zone).date(), time(0), tzinfo=delivery.zone).astimezone(UTC)


def hold_until(delivery: Delivery, now: datetime, *, digest: bool, urgent: bool, told_today: int) -> datetime | None:
    """How long a new message waits; None goes out at once."""
    if urgent:
        return None
    if digest or told_today >= delivery.max_per_day:
        due = next_digest(delivery, now)
        return quiet_until(delivery, due) if is_quiet(delivery, due) else due
    return quiet_until(delivery, now) if is_quiet(delivery, now) else None
