"""Reads the rollups: what a GPU cost a day, in USD at the reference rate of the day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal

from sqlalchemy import Connection, func, select

from tracker.book import IMPORTED
from tracker.exchange import Exchange, load_range
from tracker.rollup.run import DAY, GROUP
from tracker.rows import unscaled
from tracker.tables import RENT_SCALE

FIRST_DAY = date(1970, 1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuDay:
    """What a provider asked per GPU and hour on a UTC day, in USD. ``held_hours``: how long that was known, all offers together."""

    day: date
    provider: str
    source: str
    least: Decimal
    median: Decimal
    most: Decimal
    offers: int
    held_hours: Decimal


def gpu_days(
    connection: Connection,
    gpu: str,
    gpu_count: int,
    tier: str,
    start: date,
    end: date,
    precedence: Mapping[str, Sequence[str]] | None = None,
) -> list[GpuDay]:
    """Each provider's days in [start, end), oldest first; ``gpu_count`` is 1, 2, 4, 8 or 16.

    Of several sources of a provider one speaks for a day: one that is collected before an imported one, then by ``precedence``,
    then the provider's own. What has no exchange rate is left out.
    """
    query = (
        select(GROUP.c.source, GROUP.c.provider, GROUP.c.currency, DAY)
        .join(GROUP, GROUP.c.id == DAY.c.group_id)
        .where(GROUP.c.gpu == gpu, GROUP.c.gpu_count == gpu_count, GROUP.c.tier == tier)
        .where(DAY.c.day >= (start - FIRST_DAY).days, DAY.c.day < (end - FIRST_DAY).days)
    )
    rows = connection.execute(query).all()
    exchange, stated = load_range(connection, {row.currency for row in rows}, start, end), precedence or {}
    best: dict[tuple[int, str], tuple[tuple[object, ...], GpuDay]] = {}
    for source, provider, currency, _, day, *figures in rows:
        found = _day(exchange, source, provider, currency, day, figures)
        if found is None:
            continue
        order, key = _rank(source, provider, stated.get(provider, ()), found.least), (day, provider)
        if key not in best or order < best[key][0]:
            best[key] = (order, found)
    return [best[key][1] for key in sorted(best)]


def cheapest_days(days: Sequence[GpuDay]) -> list[GpuDay]:
    """The provider with the lowest price of each day."""
    best: dict[date, GpuDay] = {}
    for found in days:
        if found.day not in best or found.least < best[found.day].least:
            best[found.day] = found
    return [best[day] for day in sorted(best)]


def least_days(
    connection: Connection,
    gpu: str,
    gpu_count: int,
    tier: str,
    start: date,
    end: date,
    precedence: Mapping[str, Sequence[str]] | None = None,
) -> list[tuple[date, Decimal]]:
    """The lowest USD per GPU and hour of each day of [start, end), as ``cheapest_days`` has it, without who asked it.

    Where each provider has one source the database finds it: years are read in a millisecond.
    """
    of = (GROUP.c.gpu == gpu, GROUP.c.gpu_count == gpu_count, GROUP.c.tier == tier)
    several = select(GROUP.c.provider).where(*of).group_by(GROUP.c.provider).having(func.count(GROUP.c.source.distinct()) > 1)
    if connection.scalar(several.limit(1)) is not None:
        return [(found.day, found.least) for found in cheapest_days(gpu_days(connection, gpu, gpu_count, tier, start, end, precedence))]
    query = (
        select(DAY.c.day, GROUP.c.currency, func.min(DAY.c.least).label("least"))
        .join(GROUP, GROUP.c.id == DAY.c.group_id)
        .where(*of, DAY.c.day >= (start - FIRST_DAY).days, DAY.c.day < (end - FIRST_DAY).days)
        .group_by(DAY.c.day, GROUP.c.currency)
    )
    rows = connection.execute(query).all()
    exchange = load_range(connection, {row.currency for row in rows}, start, end)
    best: dict[date, Decimal] = {}
    for number, currency, price in rows:
        day = FIRST_DAY + timedelta(days=number)
        usd = exchange.usd(unscaled(price, RENT_SCALE), currency, day)
        if usd is not None:
            best[day] = min(usd, best.get(day, usd))
    return sorted(best.items())


def _rank(source: str, provider: str, stated: Sequence[str], least: Decimal) -> tuple[object, ...]:
    place = stated.index(source) if source in stated else len(stated)
    return (source.startswith(IMPORTED), place, source != provider, source, least)


def _day(exchange: Exchange, source: str, provider: str, currency: str, number: int, figures: Sequence[int]) -> GpuDay | None:
    day = FIRST_DAY + timedelta(days=number)
    *prices, offers, held = figures
    usd = [exchange.usd(unscaled(price, RENT_SCALE), currency, day) for price in prices]
    least, median, most = usd
    if least is None or median is None or most is None:
        return None
    return GpuDay(
        day=day, provider=provider, source=source, least=least, median=median, most=most, offers=offers,
        held_hours=Decimal(held) / 3_600_000,
    )  # fmt: skip
