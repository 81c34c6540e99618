"""What changed when: price changes as a feed with a cursor, and prices over a range of time by steps.

Every answer about a moment uses only what was observed by then and says when that was; an interval is [from, to), UTC.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, and_, func, or_, select

from engine.offers import TIERS, GpuOffer, OfferPolicy
from engine.rates import TokenRate
from tracker.book.asof import IMPORTED, Moment, known_by
from tracker.book.book import Listed, read_offers, read_rates
from tracker.book.entries import Entries
from tracker.book.exchange import load_exchange
from tracker.book.listing import OFFERS, RATES, Kind, gone_column
from tracker.config import Source
from tracker.database.rows import MAX_DIGITS, TICK, from_s, to_s, unscaled
from tracker.database.schema import RATE_SCALE, RENT_SCALE
from tracker.errors import BreakevenError

RANKED = OfferPolicy(tiers=TIERS)
MAX_ID = 2**31 - 1  # of a row, on PostgreSQL
SETTLED = timedelta(minutes=1)  # a sweep is in the book so long after it ended, at the latest
MAX_STEPS = 10_000
OLD_CURSOR = 10**11  # a cursor of when moments were kept in ms is still good


class RangeError(BreakevenError):
    """A range or cursor makes no sense: says what was expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One price that appeared, moved or went. Prices are native, per hour of the whole offer or per Mtok; None is not listed.

    ``event`` sorts by time and is the cursor: ask again with the last one seen.
    """

    event: str
    at: datetime
    what: str  # offer, rate
    provider: str
    name: str
    kind: str  # appeared, changed, gone
    currency: str
    old: Mapping[str, Decimal | None]
    new: Mapping[str, Decimal | None]
    percent: Mapping[str, Decimal]
    source: str
    source_url: str


def changes(
    connection: Connection, since: datetime, *, until: datetime | None = None, cursor: str = "", limit: int = 1000, imported: bool = False
) -> list[Change]:
    """Changes from ``since`` on, or after ``cursor``, oldest first, at most ``limit``; before ``until``, as was known then."""
    start = _after(cursor) if cursor else (to_s(since + TICK - timedelta(microseconds=1)), "", 0)  # not before it
    found = [change for kind in (OFFERS, RATES) for change in _changes(connection, kind, start, until, limit, imported)]
    return sorted(found, key=lambda change: _after(change.event))[:limit]


def safe_cursor(found: Sequence[Change], cursor: str, now: datetime) -> str:
    """Where to go on after those changes. Of the last minute they are told again: a sweep that ended a moment before one of them
    may still be on its way into the book."""
    settled = [change.event for change in found if change.at <= now - SETTLED]
    return settled[-1] if settled else cursor


def _after(event: str) -> tuple[int, str, int]:
    """Time, kind and id of an event."""
    at, _, rest = event.partition("-")
    what, _, number = rest.partition("-")
    numbers = all(part.isascii() and part.isdigit() and len(part) < MAX_DIGITS for part in (at, number))
    if not numbers or what not in (OFFERS.name, RATES.name) or int(number) > MAX_ID:
        raise RangeError(f"cursor {event[:60]!r} is none of ours; take the event of the last change you were given")
    return int(at) if int(at) < OLD_CURSOR else int(at) // 1000, what, int(number)


def _events(
    connection: Connection, kind: Kind, start: tuple[int, str, int], until: datetime | None, limit: int, imported: bool
) -> Sequence[RowMapping]:
    """Points after a cursor with what they are of and the values before them."""
    dimension, point, link = kind.dimension, kind.point, kind.link
    before, old = point.alias("before"), point.alias("old")
    moment = None if until is None else Moment(at=until, known=until - TICK)
    earlier = (
        select(func.max(before.c.at))
        .where(before.c[link] == point.c[link], before.c.at < point.c.at, *_known(connection, kind, moment, before))
        .correlate(point)
        .scalar_subquery()
    )
    at, after_what, after_id = start
    same_moment = and_(point.c.at == at, point.c[link] > after_id) if after_what == kind.name else point.c.at == at
    wanted = or_(point.c.at > at, same_moment) if kind.name >= after_what else point.c.at > at
    query = (
        select(
            dimension,
            point.c.at.label("moment"),
            gone_column(point).label("is_gone"),
            old.c.at.label("old_moment"),
            _gone(old, kind).label("was_gone"),
            *(point.c[name].label(f"new_{name}") for name in kind.row.VALUES),
            *(old.c[name].label(f"old_{name}") for name in kind.row.VALUES),
        )
        .select_from(dimension)
        .join(point, dimension.c.id == point.c[link])
        .outerjoin(old, and_(old.c[link] == point.c[link], old.c.at == earlier))
        .where(point.c.at >= at, wanted, _moved(point, old, kind), *_known(connection, kind, moment, point))  # >=: a range to seek
        .order_by(point.c.at, point.c[link])
        .limit(limit)
    )
    if until is not None:
        query = query.where(point.c.at < to_s(until))
    if not imported:
        query = query.where(dimension.c.source.not_like(IMPORTED + "%"))
    return connection.execute(query).mappings().all()


def _known(connection: Connection, kind: Kind, moment: Moment | None, point: Any) -> list[ColumnElement[bool]]:
    return [] if moment is None else known_by(connection, kind, moment, point)


def _moved(point: Any, old: Any, kind: Kind) -> Any:
    """Whether a point says anything new: imported history also confirms a price at its last sighting."""
    names = (*kind.row.VALUES, *(() if kind is OFFERS else ("gone",)))
    return or_(old.c.at.is_(None), *(point.c[name].is_distinct_from(old.c[name]) for name in names))


def _gone(point: Any, kind: Kind) -> Any:
    return point.c.price.is_(None) if kind is OFFERS else point.c.gone


def _changes(
    connection: Connection, kind: Kind, start: tuple[int, str, int], until: datetime | None, limit: int, imported: bool
) -> Iterator[Change]:
    prices, scale = kind.prices, RENT_SCALE if kind is OFFERS else RATE_SCALE
    for row in _events(connection, kind, start, until, limit, imported):
        name = _offer_name(row) if kind is OFFERS else " ".join(part for part in (row["model"], row["sku"], row["region"]) if part)
        yield _change(row, kind.name, name, _prices(row, "old", prices, scale), _prices(row, "new", prices, scale))


def _offer_name(row: RowMapping) -> str:
    return " ".join(part for part in (row["sku"], row["region"], f"{row['gpu_count']} x {row['gpu']}", row["tier"]) if part)


def _prices(row: RowMapping, side: str, names: Sequence[str], scale: int) -> dict[str, Decimal | None]:
    return {name: None if (value := row[f"{side}_{name}"]) is None else unscaled(value, scale) for name in names}


def _change(row: RowMapping, what: str, name: str, old: dict[str, Decimal | None], new: dict[str, Decimal | None]) -> Change:
    absent = row["old_moment"] is None or row["was_gone"]
    percent = {
        key: ((value - before) / before * 100).quantize(Decimal("0.01"))
        for key, value in new.items()
        if value is not None and (before := old[key]) is not None and before > 0 and value != before
    }
    return Change(
        event=f"{row['moment']}-{what}-{row['id']}",
        at=from_s(row["moment"]),
        what=what,
        provider=row["provider"],
        name=name,
        kind="gone" if row["is_gone"] else "appeared" if absent else "changed",
        currency=row["currency"],
        old=old,
        new=new,
        percent=percent,
        source=row["source"],
        source_url=row["source_url"],
    )


def steps(start: datetime, end: datetime, step: timedelta, most: int | None = MAX_STEPS) -> Iterator[datetime]:
    """Moments from ``start`` on, before ``end``; RangeError for a range without any, or with more than ``most`` where there is a limit."""
    if step <= timedelta(0):
        raise RangeError("the step must be longer than nothing")
    if end <= start:
        raise RangeError(f"the range ends ({end:%Y-%m-%d %H:%M}) before it begins ({start:%Y-%m-%d %H:%M})")
    if most is not None and (end - start) / step > most:
        raise RangeError(f"that is more than {most:,} steps; lengthen the step")
    yield from (start + step * number for number in range(-(-(end - start) // step)))


def offers_at(
    connection: Connection, sources: Mapping[str, Source], moments: Iterable[datetime], known: datetime, **only: str
) -> Iterator[tuple[datetime, Entries[GpuOffer]]]:
    """Offers at each moment whose columns hold what is named, such as ``gpu`` or ``sku``; as the whole book has them."""
    for at in moments:
        moment = Moment(at=at, known=known)
        wanted = {name: (value,) for name, value in only.items()}
        yield at, read_offers(connection, moment, sources, load_exchange(connection, moment), wanted)


def rates_at(
    connection: Connection, sources: Mapping[str, Source], moments: Iterable[datetime], known: datetime, model: str
) -> Iterator[tuple[datetime, list[Listed[TokenRate]]]]:
    """Token rates of a model in force at each moment."""
    for at in moments:
        moment = Moment(at=at, known=known)
        found = read_rates(connection, moment, sources, load_exchange(connection, moment), {"model": (model,)})
        yield at, [entry for entry in found if entry.value.in_force(at)]


def gpu_prices(offers: Iterable[Listed[GpuOffer]], gpu: str) -> Mapping[str, Any]:
    """Lowest price per GPU-hour by tier at one moment, of offers that the ranking takes, with who asked and when it was seen."""
    best: dict[str, Any] = {}
    for entry in offers:
        offer = entry.value
        if offer.gpu != gpu or entry.is_slice or RANKED.refusal(offer):
            continue
        if offer.tier not in best or offer.usd_per_gpu_hour < best[offer.tier]["usd_per_gpu_hour"]:
            best[offer.tier] = {
                "usd_per_gpu_hour": offer.usd_per_gpu_hour,
                "provider": offer.provider,
                "sku": offer.sku,
                "seen_at": offer.seen_at,
                "fresh": entry.fresh,
            }
    return best
