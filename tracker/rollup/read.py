"""Reads the rollups: what a GPU cost a day, in USD at the reference rate of the day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, Select, and_, bindparam, select

from tracker.book.asof import IMPORTED
from tracker.book.exchange import Exchange, load_range
from tracker.database.rows import unscaled
from tracker.database.schema import RENT_SCALE
from tracker.rollup.market import ALL, DAY, GROUP, LEAST, MARKET, STATE, Precedence, digest

FIRST_DAY = date(1970, 1, 1)
EPOCH_DAY = FIRST_DAY.toordinal()


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
    connection: Connection, gpu: str, gpu_count: int, tier: str, start: date, end: date, precedence: Precedence | None = None
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


def market_days(
    connection: Connection, gpu: str, gpu_count: int, tier: str, start: date, end: date, precedence: Precedence | None = None
) -> list[GpuDay]:
    """The days of the provider with the lowest price, as ``cheapest_days`` has them, from the days over all providers."""
    asked = _asked(gpu, gpu_count, tier, start, end, precedence)
    rows = connection.execute(_WHOSE, asked).all()
    exchange = load_range(connection, {row.currency for row in rows}, start, end)
    found = [_day(exchange, source, provider, currency, day, figures) for source, provider, currency, day, *figures in rows]
    if not found or None in found:
        return cheapest_days(gpu_days(connection, gpu, gpu_count, tier, start, end, precedence))
    return cheapest_days(sorted((one for one in found if one is not None), key=lambda one: (one.day, one.provider)))


def least_days(
    connection: Connection, gpu: str, gpu_count: int, tier: str, start: date, end: date, precedence: Precedence | None = None
) -> list[tuple[date, Decimal]]:
    """The lowest USD per GPU and hour of each day of [start, end), as ``cheapest_days`` has it, without who asked it.

    Years are read in a millisecond: a day is one row. Where no row is there, or one has no exchange rate, all providers are looked at.
    """
    rows = connection.execute(_LEAST, _asked(gpu, gpu_count, tier, start, end, precedence)).all()
    currencies = {currency for _, currency, _ in rows}
    if currencies == {"USD"}:
        return [(date.fromordinal(EPOCH_DAY + number), unscaled(price, RENT_SCALE)) for number, _, price in rows]
    exchange = load_range(connection, currencies, start, end)
    best: dict[date, Decimal] = {}
    for number, currency, price in rows:
        day = date.fromordinal(EPOCH_DAY + number)
        usd = exchange.usd(unscaled(price, RENT_SCALE), currency, day)
        if usd is None:
            break
        best[day] = min(usd, best.get(day, usd))
    else:
        if best:
            return list(best.items())
    return [(found.day, found.least) for found in cheapest_days(gpu_days(connection, gpu, gpu_count, tier, start, end, precedence))]


def _asked(gpu: str, gpu_count: int, tier: str, start: date, end: date, precedence: Precedence | None) -> dict[str, object]:
    first, last = (day.toordinal() - EPOCH_DAY for day in (start, end))
    return {"gpu": gpu, "gpu_count": gpu_count, "tier": tier, "start": first, "end": last, "basis": digest(precedence or {})}


def _over_all(*columns: Any) -> Select[Any]:
    """Days over all providers, oldest first; none while they are worked out for another precedence. Made once: it takes its time."""
    believed = select(STATE.c.source).where(STATE.c.source == ALL, STATE.c.basis == bindparam("basis")).exists()
    return (
        select(*columns)
        .join_from(MARKET, LEAST, LEAST.c.market_id == MARKET.c.id)
        .where(*(MARKET.c[name] == bindparam(name) for name in ("gpu", "gpu_count", "tier")))
        .where(LEAST.c.day >= bindparam("start"), LEAST.c.day < bindparam("end"), believed)
        .order_by(LEAST.c.day)
    )


_LEAST = _over_all(LEAST.c.day, LEAST.c.currency, LEAST.c.least)
_WHOSE = (
    _over_all(GROUP.c.source, GROUP.c.provider, GROUP.c.currency, *(c for c in DAY.c if c.name != "group_id"))
    .join(GROUP, GROUP.c.id == LEAST.c.group_id)
    .join(DAY, and_(DAY.c.group_id == LEAST.c.group_id, DAY.c.day == LEAST.c.day))
)


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
        held_hours=Decimal(held) / 3_600,
    )  # fmt: skip
