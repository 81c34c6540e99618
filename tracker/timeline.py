"""What changed when: price changes as a feed with a cursor, and prices over a range of time by steps.

Every answer about a moment uses only what was observed by then and says when that was; an interval is [from, to), UTC.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, RowMapping, Table, and_, func, or_, select

from engine.offers import is_firm
from engine.rates import TOKEN_KINDS
from tracker.book import IMPORTED, Book, read_book
from tracker.config import Source
from tracker.errors import BreakevenError
from tracker.rows import OfferRow, RateRow, from_ms, to_ms, unscaled
from tracker.store import OFFER, OFFER_POINT, RATE, RATE_POINT
from tracker.tables import RATE_SCALE, RENT_SCALE

MAX_STEPS = 10_000


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


def changes(connection: Connection, since: datetime, *, cursor: str = "", limit: int = 1000, imported: bool = False) -> list[Change]:
    """Changes from ``since`` on, or after ``cursor``, oldest first, at most ``limit``."""
    start = _after(cursor) if cursor else (to_ms(since), "", 0)
    found = [*_offer_changes(connection, start, limit, imported), *_rate_changes(connection, start, limit, imported)]
    return sorted(found, key=lambda change: _after(change.event))[:limit]


def _after(event: str) -> tuple[int, str, int]:
    """Time, kind and id of an event."""
    at, _, rest = event.partition("-")
    what, _, number = rest.partition("-")
    if not (at.isdigit() and number.isdigit() and what in ("offer", "rate")):
        raise RangeError(f"cursor {event!r} is none of ours; take the event of the last change you were given")
    return int(at), what, int(number)


def _events(connection: Connection, what: str, start: tuple[int, str, int], limit: int, imported: bool) -> Sequence[RowMapping]:
    """Points after a cursor with what they are of and the values before them."""
    dimension, point, link, kind = _tables(what)
    before = point.alias("before")
    earlier = (
        select(func.max(before.c.at)).where(before.c[link] == point.c[link], before.c.at < point.c.at).correlate(point).scalar_subquery()
    )
    old = point.alias("old")
    at, after_what, after_id = start
    same_moment = and_(point.c.at == at, point.c[link] > after_id) if after_what == what else point.c.at == at
    wanted = or_(point.c.at > at, same_moment if what >= after_what else point.c.at > at)
    query = (
        select(
            dimension,
            point.c.at.label("moment"),
            _gone(point, what).label("is_gone"),
            old.c.at.label("old_moment"),
            _gone(old, what).label("was_gone"),
            *(point.c[name].label(f"new_{name}") for name in kind.VALUES),
            *(old.c[name].label(f"old_{name}") for name in kind.VALUES),
        )
        .join(dimension, dimension.c.id == point.c[link])
        .outerjoin(old, and_(old.c[link] == point.c[link], old.c.at == earlier))
        .where(wanted, _moved(point, old, what))
        .order_by(point.c.at, point.c[link])
        .limit(limit)
    )
    if not imported:
        query = query.where(dimension.c.source.not_like(IMPORTED + "%"))
    return connection.execute(query).mappings().all()


def _moved(point: Any, old: Any, what: str) -> Any:
    """Whether a point says anything new: imported history also confirms a price at its last sighting."""
    names = (*_tables(what)[3].VALUES, *(() if what == "offer" else ("gone",)))
    return or_(old.c.at.is_(None), *(point.c[name].is_distinct_from(old.c[name]) for name in names))


def _gone(point: Any, what: str) -> Any:
    return point.c.price.is_(None) if what == "offer" else point.c.gone


def _tables(what: str) -> tuple[Table, Table, str, type[OfferRow] | type[RateRow]]:
    return (OFFER, OFFER_POINT, "offer_id", OfferRow) if what == "offer" else (RATE, RATE_POINT, "rate_id", RateRow)


def _offer_changes(connection: Connection, start: tuple[int, str, int], limit: int, imported: bool) -> Iterator[Change]:
    for row in _events(connection, "offer", start, limit, imported):
        name = " ".join(part for part in (row["sku"], row["region"], f"{row['gpu_count']} x {row['gpu']}", row["tier"]) if part)
        yield _change(row, "offer", name, _prices(row, "old", ("price",), RENT_SCALE), _prices(row, "new", ("price",), RENT_SCALE))


def _rate_changes(connection: Connection, start: tuple[int, str, int], limit: int, imported: bool) -> Iterator[Change]:
    for row in _events(connection, "rate", start, limit, imported):
        name = " ".join(part for part in (row["model"], row["sku"], row["region"]) if part)
        yield _change(row, "rate", name, _prices(row, "old", TOKEN_KINDS, RATE_SCALE), _prices(row, "new", TOKEN_KINDS, RATE_SCALE))


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
        at=from_ms(row["moment"]),
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


def steps(start: datetime, end: datetime, step: timedelta) -> Iterator[datetime]:
    """Moments from ``start`` on, before ``end``; RangeError for a range without any, or with more than 10,000."""
    if step <= timedelta(0):
        raise RangeError("the step must be longer than nothing")
    if end <= start:
        raise RangeError(f"the range ends ({end:%Y-%m-%d %H:%M}) before it begins ({start:%Y-%m-%d %H:%M})")
    if (end - start) / step > MAX_STEPS:
        raise RangeError(f"that is more than {MAX_STEPS:,} steps; lengthen the step")
    moment = start
    while moment < end:
        yield moment
        moment += step


def books(connection: Connection, sources: Mapping[str, Source], start: datetime, end: datetime, step: timedelta) -> Iterator[Book]:
    """The book as it was at each step."""
    for moment in steps(start, end, step):
        yield read_book(connection, moment, sources)


def gpu_history(found: Book, gpu: str) -> Mapping[str, Any]:
    """Lowest price per GPU-hour by tier at one moment, of whole offers somebody vouches for, with who asked it and when it was seen."""
    best: dict[str, Any] = {}
    for entry in found.offers:
        offer = entry.value
        if offer.gpu != gpu or entry.is_slice or not is_firm(offer) or offer.trust not in ("datacenter", "verified"):
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
