"""The book as tables for other programs: columns with their types, and rows read one after another from one consistent view."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

from sqlalchemy import Connection, Select, and_, func, or_, select

from engine.offers import AVAILABILITIES
from engine.rates import TOKEN_KINDS
from tracker.book.asof import Moment, as_known, known_by, old_wording
from tracker.book.bookstore import runs_of
from tracker.book.exchange import Exchange, load_exchange
from tracker.book.listing import OFFERS, RATES, Kind, gone_column
from tracker.database.rows import OfferRow, RateRow, from_s, to_s, unscaled
from tracker.database.schema import RATE_SCALE, RENT_SCALE

Row = dict[str, Any]
Type = Literal["text", "whole", "flag", "time", "rent", "rate", "usd"]  # rent: 9 decimals, rate and usd: 12
ROWS_AT_ONCE = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOf:
    """A table: its file's name without the ending, the type of each column in order, and its rows from an open transaction."""

    name: str
    columns: Mapping[str, Type]
    rows: Callable[[Connection], Generator[Row, None, None]]  # closed by who takes them


_OFFER: dict[str, Type] = {
    "provider": "text", "sku": "text", "region": "text", "gpu": "text", "gpu_count": "whole", "max_gpu_count": "whole", "tier": "text",
    "term_months": "whole", "trust": "text", "availability": "text", "price_kind": "text", "interconnect": "text", "is_slice": "flag",
    "currency": "text", "price_per_hour": "rent", "announced_from": "time",
}  # fmt: skip
_RATE: dict[str, Type] = {
    "provider": "text", "source_model": "text", "model": "text", "sku": "text", "region": "text", "currency": "text",
    **dict.fromkeys(TOKEN_KINDS, "rate"), "min_prompt_tokens": "whole", "tier_inclusive": "flag", "hours_utc": "text", "weekdays": "text",
    "in_force_from": "time", "in_force_to": "time",
}  # fmt: skip
_SPAN: dict[str, Type] = {"valid_from": "time", "seen_at": "time", "gone_at": "time", "source": "text", "source_url": "text"}
_POINT: dict[str, Type] = {"at": "time", "listed": "flag"}
_ORIGIN: dict[str, Type] = {"source": "text", "source_url": "text"}
_OFFER_USD: dict[str, Type] = {"usd_per_hour": "usd", "usd_per_gpu_hour": "usd"}
_RATE_USD: dict[str, Type] = {f"usd_{kind}": "usd" for kind in TOKEN_KINDS}


def book_tables(at: datetime | None = None) -> tuple[TableOf, TableOf]:
    """Every price known at ``at`` over the time it was seen: the columns of the book files, with their types."""
    return (
        TableOf(name="offers", columns=_OFFER | _SPAN, rows=lambda connection: _runs(connection, OFFERS, at)),
        TableOf(name="rates", columns=_RATE | _SPAN, rows=lambda connection: _runs(connection, RATES, at)),
    )


def history_tables(start: datetime, end: datetime, at: datetime | None = None) -> tuple[TableOf, TableOf]:
    """Every change from ``start`` on, before ``end``, after what was listed at ``start``, as known ``at``; USD is that day's. By time."""
    return (
        TableOf(name="offers", columns=_POINT | _OFFER | _OFFER_USD | _ORIGIN, rows=lambda c: _points(c, OFFERS, start, end, at)),
        TableOf(name="rates", columns=_POINT | _RATE | _RATE_USD | _ORIGIN, rows=lambda c: _points(c, RATES, start, end, at)),
    )


def _runs(connection: Connection, kind: Kind, at: datetime | None) -> Generator[Row, None, None]:
    with closing(runs_of(connection, kind, at)) as runs:
        for run in runs:
            gone = None if run.gone_at is None else from_s(run.gone_at)
            span = {"valid_from": from_s(run.since), "seen_at": from_s(run.seen_at), "gone_at": gone, "source": run.origin}
            yield _cells(run.row) | span | {"source_url": run.row.source_url}


def _points(connection: Connection, kind: Kind, start: datetime, end: datetime, known_at: datetime | None) -> Generator[Row, None, None]:
    moment = None if known_at is None else as_known(connection, known_at)
    exchange = load_exchange(connection, moment, all_days=True)
    wording = {} if moment is None else old_wording(connection, kind, to_s(moment.at))
    with connection.execute(_changes(connection, kind, start, end, moment).execution_options(yield_per=ROWS_AT_ONCE)) as changes:
        for told in changes.mappings():
            found = {**told, **wording[told["id"]]} if told["id"] in wording else told
            at, gone = from_s(found["moment"]), bool(found["is_gone"])
            row = _row(kind, found)
            cells = _cells(row)
            if gone:
                cells |= dict.fromkeys(("price_per_hour", *TOKEN_KINDS) & cells.keys(), None)
            usd = _usd(row, cells, exchange, at)
            yield {"at": at, "listed": not gone} | cells | usd | {"source": found["source"], "source_url": found["source_url"]}


def _changes(connection: Connection, kind: Kind, start: datetime, end: datetime, moment: Moment | None) -> Select[Any]:
    """Points of a range, and the last one before it of what was listed then; those known at the moment."""
    dimension, point, first = kind.dimension, kind.point, to_s(start)
    earlier = point.alias("earlier")
    known, known_earlier = ([] if moment is None else known_by(connection, kind, moment, of) for of in (point, earlier))
    last = (
        select(func.max(earlier.c.at))
        .where(earlier.c[kind.link] == point.c[kind.link], earlier.c.at < first, *known_earlier)
        .correlate(point)
        .scalar_subquery()
    )
    carried = and_(point.c.at == last, gone_column(point).is_(False))
    values = (point.c[name] for name in kind.row.VALUES)
    return (
        select(dimension, *values, point.c.at.label("moment"), gone_column(point).label("is_gone"))
        .join(dimension, dimension.c.id == point.c[kind.link])
        .where(point.c.at < to_s(end), or_(point.c.at >= first, carried), *known)
        .order_by(point.c.at, dimension.c.id)
    )


def _row(kind: Kind, found: Mapping[Any, Any]) -> OfferRow | RateRow:
    values = {name: found[name] for name in (*kind.row.IDENTITY, *kind.row.DESCRIPTION, *kind.row.VALUES)}
    if kind.row is OfferRow:
        return OfferRow(**values | {"price": values["price"] or 0})  # what is gone has none: its cell is emptied
    return RateRow(**values)


def _cells(row: OfferRow | RateRow) -> Row:
    """What a price is of and what it is, under the names of the book files."""
    valid_from = None if row.valid_from is None else from_s(row.valid_from)
    if isinstance(row, OfferRow):
        named = {name: getattr(row, name) for name in _OFFER if hasattr(row, name)}
        price = unscaled(row.price, RENT_SCALE)
        return named | {"availability": AVAILABILITIES[row.availability], "price_per_hour": price, "announced_from": valid_from}
    named = {name: getattr(row, name) for name in _RATE if hasattr(row, name)}
    prices = {kind: None if (value := getattr(row, kind)) is None else unscaled(value, RATE_SCALE) for kind in TOKEN_KINDS}
    valid_to = None if row.valid_to is None else from_s(row.valid_to)
    return named | prices | {"in_force_from": valid_from, "in_force_to": valid_to}


def _usd(row: OfferRow | RateRow, cells: Row, exchange: Exchange, at: datetime) -> Row:
    """The prices in USD at the reference rate of the day; None where there is no price or no rate."""

    def usd(price: Decimal | None) -> Decimal | None:
        return None if price is None else exchange.usd(price, row.currency, at.date())

    if isinstance(row, OfferRow):
        whole = usd(cells["price_per_hour"])
        return {"usd_per_hour": whole, "usd_per_gpu_hour": None if whole is None else whole / row.gpu_count}
    return {f"usd_{kind}": usd(cells[kind]) for kind in TOKEN_KINDS}
