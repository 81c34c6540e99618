"""Where an axis has its marks: round prices, and UTC days."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

ROUND = (Decimal(1), Decimal(2), Decimal("2.5"), Decimal(5), Decimal(10))
MOST_PRICES = 6
MOST_DAYS = 8
DAYS = (1, 2, 5, 7, 10)


def price_range(values: Sequence[Decimal]) -> tuple[Decimal, Decimal]:
    """Lowest and highest price with some room around them. The axis begins at 0 where the prices reach down to a third of the highest."""
    least, most = min(values), max(values)
    if least * 3 <= most:
        least = Decimal(0)
    room = (most - least) / 12 or most / 20 or Decimal(1)
    return (least - room if least > room else Decimal(0)), most + room


def price_ticks(least: Decimal, most: Decimal) -> tuple[Decimal, ...]:
    """At most ``MOST_PRICES`` round prices within the range."""
    rough = (most - least) / MOST_PRICES
    power = Decimal(10) ** rough.adjusted()
    for factor in (*ROUND, Decimal(20)):
        step = factor * power
        first, last = (least / step).to_integral_value(ROUND_CEILING), (most / step).to_integral_value(ROUND_FLOOR)
        if last - first < MOST_PRICES:
            return tuple(step * (first + number) for number in range(int(last - first) + 1))
    raise ValueError(f"no ticks for {least} to {most}")


def price_text(value: Decimal, step: Decimal) -> str:
    """A mark's price, with as many decimals as its neighbours need."""
    places = max(0, -int(step.normalize().as_tuple().exponent))
    return f"{value:,.{places}f}"


def day_ticks(start: datetime, end: datetime) -> tuple[datetime, ...]:
    """At most ``MOST_DAYS`` midnights (UTC) within the range, evenly apart."""
    midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
    first = midnight if midnight == start else midnight + timedelta(days=1)
    days = max(0, (end - first) // timedelta(days=1)) if first <= end else -1
    gap = next((gap for gap in DAYS if days // gap < MOST_DAYS), days // MOST_DAYS + 1)
    return tuple(first + timedelta(days=number) for number in range(0, days + 1, gap))
