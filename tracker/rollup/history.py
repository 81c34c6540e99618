"""The lowest price of a GPU on each day as plain rows, for the command line and the API alike."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection

from engine.offers import TIERS
from tracker.book.timeline import RangeError
from tracker.database.rows import scaled, unscaled
from tracker.database.schema import RENT_SCALE
from tracker.errors import UnknownName, did_you_mean
from tracker.rollup.offers import COUNTS
from tracker.rollup.read import market_days
from tracker.world import World

DAYS = "days"


def days_between(first: datetime, last: datetime, now: datetime, *, past: bool) -> tuple[date, date]:
    """The days of [first, last), the second exclusive; looked at from the ``past`` only those that were over by ``now``.

    The figures of a day are those that are known today: of a day that was not over, nobody can tell what they were by then.
    """
    if last <= first:
        raise RangeError(f"the range ends ({last:%Y-%m-%d %H:%M}) before it begins ({first:%Y-%m-%d %H:%M})")
    today = now.date()
    end = min(last, now + timedelta(days=1)) - timedelta(microseconds=1)  # there are no dates beyond year 9999, and no figures tomorrow
    over = today if past else today + timedelta(days=1)
    return first.date(), over if end.date() >= today else end.date() + timedelta(days=1)


def day_history(connection: Connection, world: World, name: str, gpu_count: int, tier: str, start: date, end: date) -> list[dict[str, Any]]:
    """For each day of [start, end) that has figures: the lowest price per GPU and hour over all providers in USD, and who asked it.

    ``median_`` and ``most_`` are of that provider's day, as ``offers`` and ``held_hours``, all offers together, are.
    """
    if gpu_count not in COUNTS:
        raise RangeError(f"no figures a day of machines of {gpu_count} GPUs; there are {', '.join(map(str, COUNTS))}")
    if tier not in TIERS:
        raise UnknownName(f"no tier named {tier!r}{did_you_mean(tier, TIERS)}; there are {', '.join(TIERS)}")
    found = market_days(connection, world.gpu(name), gpu_count, tier, start, end, world.settings.precedence.root)
    return [
        {
            "day": one.day, "gpu_count": gpu_count, "tier": tier, "usd_per_gpu_hour": _usd(one.least), "provider": one.provider,
            "median_usd_per_gpu_hour": _usd(one.median), "most_usd_per_gpu_hour": _usd(one.most),
            "offers": one.offers, "held_hours": round(one.held_hours, 1), "source": one.source,
        }
        for one in found
    ]  # fmt: skip


def _usd(price: Decimal) -> Decimal:
    """As exact as prices are kept."""
    return unscaled(scaled(price, RENT_SCALE), RENT_SCALE)
