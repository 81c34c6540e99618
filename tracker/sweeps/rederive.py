"""Kept bodies read again with today's parser, resolver and facts, against what was stored when they were read. Changes nothing.

Compared is what the sweep itself listed: a price that was missing then, or that the guard held back, is no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import partial
from time import monotonic
from typing import Any

from sqlalchemy import Connection, Engine, select

from engine.offers import AVAILABILITIES
from engine.rates import TOKEN_KINDS
from scrapers.contract import FxQuote, GpuQuote, ScrapeError, Skipped, TokenQuote
from scrapers.contract import Row as Printed
from scrapers.http import HostGate
from tracker.book.exchange import FX
from tracker.book.listing import OFFERS, RATES, UNSEEN, Kind, Row, gone_column
from tracker.config import Source
from tracker.database.handle import reading
from tracker.database.latest import newest_first, with_latest
from tracker.database.limits import clean
from tracker.database.rows import TICK, OfferRow, from_s, identity, row_from, to_s, unscaled, values
from tracker.database.schema import FX_SCALE, RATE_SCALE, RENT_SCALE, TABLES
from tracker.sweeps.bodies import KeptSweep, NotKept, kept_sweeps, pages_of
from tracker.sweeps.collect import Collector, read_rows, sort_out
from tracker.sweeps.scrapers import scraper_module
from tracker.sweeps.store import SweepReport
from tracker.world import World

QUARANTINE = TABLES["quarantine"]
# what a fault in a parser looks like: it makes one sweep unreadable and hides no other
TRIPPED = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One price that would be stored otherwise today. ``old`` and ``new`` hold what differs, native; empty where there is none."""

    what: str  # offer, rate, fx, sweep
    kind: str  # added, gone, changed, unreadable
    name: str
    old: Values
    new: Values
    reason: str = ""  # why it is not a price any more


@dataclass(frozen=True, slots=True, kw_only=True)
class Rederived:
    """One sweep read again. ``not_read`` says why it could not be compared; ``held`` counts prices the guard held back then."""

    source: str
    at: datetime
    read_until: datetime
    equal: int = 0
    held: int = 0
    differences: tuple[Difference, ...] = ()
    not_read: str = ""


def rederive(db: Engine, world: World, since: datetime, source: str = "", *, until: datetime | None = None) -> Iterator[Rederived]:
    """Every kept sweep read at or after ``since``, and made by ``until`` where that is told, oldest first, one at a time."""
    with reading(db) as connection:
        found = kept_sweeps(connection, since, source, until=until)
    for sweep in found:
        yield _one(db, world, sweep)


def _one(db: Engine, world: World, sweep: KeptSweep) -> Rederived:
    told = partial(Rederived, source=sweep.source, at=sweep.at, read_until=sweep.read_until)
    if sweep.source not in world.config.sources:
        return told(not_read="no such source is configured any more")
    with reading(db) as connection:
        try:
            pages = pages_of(connection, sweep)
        except NotKept as error:
            return told(not_read=str(error))
        if (refused := _refused_whole(connection, sweep)) is not None:
            return told(not_read=f"the guard refused the whole sweep: {refused}")
        stored = _stored(connection, sweep)
        held = _held(connection, sweep) - stored.keys()  # of one confirmed in this sweep the listing counts
    collector = Collector(world=world, db=db, now=lambda: sweep.at, gate=HostGate(monotonic=monotonic))
    source, printed = world.config.sources[sweep.source], list[Printed]()
    try:
        printed += scraper_module(source).parse(pages)
        report = read_rows(collector, source, printed, sweep.at, sweep.at, pages)
    except (ScrapeError, *TRIPPED) as error:
        reason = str(error) if isinstance(error, ScrapeError) else f"unexpected {type(error).__name__}: {error}"
        unreadable = Difference(what="sweep", kind="unreadable", name=sweep.source, old={}, new={}, reason=reason)
        return told(differences=() if sweep.status == "failed" else (unreadable,))
    differences = [*_fx(db, report.fx), *_new(report, stored, held), *_gone(report, stored, _reasons(collector, source, printed))]
    new = [difference for difference in differences if difference.kind != "gone"]
    held_now = len([key for key in _derived(report) if key in held])
    return told(equal=report.rows - len(new) - held_now, held=held_now, differences=tuple(differences))


def _derived(report: SweepReport) -> dict[str, Row]:
    rows: tuple[Row, ...] = (*report.offers, *report.rates)
    return {identity(report.source, row): row for row in rows}


def _new(report: SweepReport, stored: Mapping[str, Row], held: set[str]) -> Iterator[Difference]:
    """What would be listed today and was not, or at another price."""
    for key, row in sorted(_derived(report).items()):
        before = stored.get(key)
        if key in held or (before is not None and values(before) == values(row)):
            continue
        new = _shown(row)
        if before is None:
            yield Difference(what=_what(row), kind="added", name=_name(row), old={}, new=new)
            continue
        old = _shown(before)
        moved = [name for name in new if old[name] != new[name]]
        changes: list[Values] = [{name: side[name] for name in moved} for side in (old, new)]
        yield Difference(what=_what(row), kind="changed", name=_name(row), old=changes[0], new=changes[1])


def _gone(report: SweepReport, stored: Mapping[str, Row], why: Callable[[Row], str]) -> Iterator[Difference]:
    """What was listed and would not be today."""
    for key in sorted(stored.keys() - _derived(report).keys()):
        row = stored[key]
        yield Difference(what=_what(row), kind="gone", name=_name(row), old=_shown(row), new={}, reason=why(row))


# --- what was stored -----------------------------------------------------------------------------------------------------


def _stored(connection: Connection, sweep: KeptSweep) -> dict[str, Row]:
    """What the sweep listed, by identity: nothing where it failed."""
    if sweep.status == "failed":
        return {}
    return {key: row for kind in (OFFERS, RATES) for key, row in _listed(connection, kind, sweep)}


def _listed(connection: Connection, kind: Kind, sweep: KeptSweep) -> Iterator[tuple[str, Row]]:
    """Rows of a source listed at the sweep's moment and printed in it."""
    dimension, at = kind.dimension, to_s(sweep.at)
    beside, point = with_latest(connection.dialect.name, dimension, kind.point, kind.link, kind.point.c.at <= at)
    query = (
        select(dimension, *(point.c[name] for name in kind.row.VALUES))
        .select_from(beside)
        .where(dimension.c.source == sweep.source, gone_column(point).is_(False))
    )
    absent = set(_absent(connection, kind, at))
    with newest_first(connection):
        listed = connection.execute(query).mappings().all()
    for found in listed:
        if found["id"] not in absent:
            yield found["key"], row_from(kind.row, found)


def _absent(connection: Connection, kind: Kind, at: int) -> Iterable[int]:
    """Ids of listed prices that were not printed, or were printed otherwise, at a moment."""
    during = (UNSEEN.c.since <= at, UNSEEN.c.until.is_(None) | (UNSEEN.c.until > at))
    return connection.scalars(select(UNSEEN.c.target).where(UNSEEN.c.kind == kind.name, *during))


def _held(connection: Connection, sweep: KeptSweep) -> set[str]:
    """Identities whose price the guard held back in that sweep."""
    return set(connection.scalars(select(QUARANTINE.c.key).where(QUARANTINE.c.kind != "sweep", *_then(sweep))))


def _refused_whole(connection: Connection, sweep: KeptSweep) -> str | None:
    if sweep.status != "failed":
        return None
    found: str | None = connection.scalar(select(QUARANTINE.c.reason).where(QUARANTINE.c.kind == "sweep", *_then(sweep)).limit(1))
    return found


def _then(sweep: KeptSweep) -> tuple[Any, ...]:
    """Entries that a sweep saw; their times are finer than its moment."""
    return QUARANTINE.c.source == sweep.source, QUARANTINE.c.first_seen < sweep.at + TICK, QUARANTINE.c.last_at >= to_s(sweep.at)


def _fx(db: Engine, quotes: Sequence[FxQuote]) -> Iterator[Difference]:
    if not quotes:
        return
    days = {quote.day for quote in quotes}
    with reading(db) as connection:
        query = select(FX.c.currency, FX.c.day, FX.c.rate).where(FX.c.day >= min(days), FX.c.day <= max(days))
        stored = {(currency, day): unscaled(rate, FX_SCALE) for currency, day, rate in connection.execute(query)}
    for quote in quotes:
        before = stored.get((quote.currency, quote.day))
        if before != quote.rate:
            kind = "added" if before is None else "changed"
            old: Values = {} if before is None else {"rate": before}
            yield Difference(what="fx", kind=kind, name=f"{quote.currency} {quote.day}", old=old, new={"rate": quote.rate})


# --- why it is not a price any more --------------------------------------------------------------------------------------


def _reasons(collector: Collector, source: Source, printed: Sequence[Printed]) -> Callable[[Row], str]:
    """A function that says why a stored row is not among today's: what became of the printed rows of its name."""

    def why(row: Row) -> str:
        name = row.sku if isinstance(row, OfferRow) else row.source_model
        found = [one for one in printed if _printed_name(one) == name and (not isinstance(row, OfferRow) or _region(one) == row.region)]
        found += [one for one in printed if isinstance(one, Skipped) and name in clean(one.raw).split()]
        reasons = sort_out(found, source, collector, ()).skipped
        return ", ".join(reasons) or ("printed, as something else" if found else "not printed any more")

    return why


def _printed_name(row: Printed) -> str:
    return clean(row.sku) if isinstance(row, GpuQuote) else clean(row.model) if isinstance(row, TokenQuote) else ""


def _region(row: Printed) -> str:
    return clean(row.region) if isinstance(row, GpuQuote) else ""


# --- words ---------------------------------------------------------------------------------------------------------------


def _what(row: Row) -> str:
    return "offer" if isinstance(row, OfferRow) else "rate"


def _name(row: Row) -> str:
    """Whose price, of what."""
    if isinstance(row, OfferRow):
        parts = (row.provider, row.sku, row.region, f"{row.gpu_count} x {row.gpu}", row.tier)
    else:
        parts = (row.provider, row.source_model, row.model, row.sku, row.region)
    return " ".join(part for part in parts if part)


def _shown(row: Row) -> dict[str, Any]:
    """What is stored of a row, for people: native prices per hour or per Mtok."""
    if isinstance(row, OfferRow):
        price: dict[str, Decimal | None] = {"price": unscaled(row.price, RENT_SCALE)}
        return price | {"currency": row.currency, "availability": AVAILABILITIES[row.availability], "max_gpu_count": row.max_gpu_count}
    prices = {kind: None if (value := getattr(row, kind)) is None else unscaled(value, RATE_SCALE) for kind in TOKEN_KINDS}
    return prices | {"currency": row.currency, "valid_to": None if row.valid_to is None else from_s(row.valid_to)}
