"""Every budget at a moment: out of the history of the book, or, in a replay, out of one look after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from fractions import Fraction
from pathlib import Path

from sqlalchemy import Connection

from engine.budgets import Span, Spent, ahead, covered_hours, hours_between, joined, month_of, spent
from tracker.answers.snapshot import Snapshot
from tracker.book.asof import Moment
from tracker.book.exchange import Exchange, load_exchange
from tracker.budgets.prices import History, price_in
from tracker.budgets.settings import ApiUse, BudgetSettings, file_of
from tracker.budgets.state import BudgetState, Part
from tracker.database.rows import whole
from tracker.finance.records import RecordError, Rental, read_rentals
from tracker.finance.report import rental_days
from tracker.world import World

PACE = "at the price of now"
Spans = Callable[[ApiUse, datetime, datetime], tuple[Span, ...]]  # of a use over [start, at]; the last one is the price of now


def budgets_at(connection: Connection, world: World, history: History, at: datetime) -> tuple[BudgetState, ...]:
    """All budgets at a moment, from what was observed by then."""
    if not world.settings.budget.root:
        return ()
    at = whole(at)  # as prices are kept
    exchange = load_exchange(connection, Moment(at=at, known=at), all_days=True)
    return _states(world, at, exchange, lambda use, start, end: history.spans(connection, use, start, end))


class Meter:
    """Budgets over a replay: between two looks the price of the first of them holds, as nobody looked."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._seen: dict[ApiUse, list[tuple[datetime, Fraction | None, str]]] = {}

    def on(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with the budgets in it, after those before it."""
        start = month_of(snapshot.at)[0]
        for use in self._world.settings.budget.uses:
            looks = self._seen.setdefault(use, [])
            before = [look for look in looks if look[0] <= start][-1:]  # what held when the month began
            now = (snapshot.at, *price_in(self._world, snapshot.book, use))
            self._seen[use] = [*before, *(look for look in looks if look[0] > start), now]
        return replace(snapshot, budgets=_states(self._world, snapshot.at, snapshot.book.exchange, self._spans))

    def _spans(self, use: ApiUse, start: datetime, at: datetime) -> tuple[Span, ...]:
        looks = self._seen[use]
        ends = [*(look[0] for look in looks[1:]), at]
        return tuple(
            Span(start=max(begun, start), end=end, usd_per_hour=usd, note=note)
            for (begun, usd, note), end in zip(looks, ends, strict=True)
            if end >= start
        )


def _states(world: World, at: datetime, exchange: Exchange, spans: Spans) -> tuple[BudgetState, ...]:
    start, end = month_of(at)
    return tuple(
        BudgetState(
            name=name, month=start, at=at, end=end, budget_usd=budget.usd_per_month, parts=_parts(world, budget, at, exchange, spans)
        )
        for name, budget in world.settings.budget.root.items()
    )  # fmt: skip


def _parts(world: World, budget: BudgetSettings, at: datetime, exchange: Exchange, spans: Spans) -> tuple[Part, ...]:
    start, end = month_of(at)
    parts = [_metered(_words(world, use), spans(use, start, at), start, at, end) for use in budget.api]
    parts += [_rented(model, Fraction(world.settings.baseline.root[model]), start, at, end) for model in budget.rented]
    parts += [_booked(world, budget.rentals, exchange, at)] if budget.rentals else []
    return tuple(parts)


def _words(world: World, use: ApiUse) -> str:
    volume = f"{use.tokens_per_month:,f} tokens a month of " if use.tokens_per_month else ""
    whose = use.provider or "the cheapest API"
    return f"{use.model} at {whose}: {volume}{world.workload(use.workload).id}"


def _metered(what: str, spans: tuple[Span, ...], start: datetime, at: datetime, end: datetime) -> Part:
    now = spans[-1].usd_per_hour if spans else None
    past = tuple(span for span in spans if span.start < span.end)
    return Part(what=what, spans=past, spent=spent(past, start, at), ahead=ahead(now, at, end), how=PACE)


def _rented(model: str, usd_per_hour: Fraction, start: datetime, at: datetime, end: datetime) -> Part:
    """What is rented costs the same every hour of the month: as stated, since nobody says from when on."""
    span = Span(start=start, end=at, usd_per_hour=usd_per_hour, note="as stated in [baseline]")
    return _metered(f"rent for {model}", (span, replace(span, start=at)), start, at, end)


def _booked(world: World, name: str, exchange: Exchange, at: datetime) -> Part:
    """Rentals of the file: those of the month so far, and those booked for the rest of it. Hours without one cost nothing."""
    start, end = month_of(at)
    what = f"rentals of {Path(name).name}"
    file = file_of(name, world.config.config_dir, world.config.user_dir)
    try:
        rentals = read_rentals(file)
    except RecordError as error:  # since the start: nothing is known until it is mended
        unknown = hours_between(start, at)
        why = str(error).replace(str(file), file.name)  # the API tells it to anybody: where the file lies is nobody's business
        return Part(what=what, spans=(), spent=Spent(usd=Fraction(0), unknown_hours=unknown), ahead=None, how=why)
    past, rest = (joined(_booked_spans(rentals, *bounds, exchange)) for bounds in ((start, at), (at, end)))
    usd, left = ([span.usd for span in spans] for spans in (past, rest))
    return Part(
        what=what,
        spans=past,
        spent=Spent(usd=_sum(usd), unknown_hours=covered_hours(span for span in past if span.usd is None)),
        ahead=None if None in left else _sum(left),
        how="as booked",
    )


def _booked_spans(rentals: Iterable[Rental], start: datetime, end: datetime, exchange: Exchange) -> Iterator[Span]:
    for rental, day, until in rental_days(rentals, start, end):
        usd = exchange.usd(rental.price_per_hour, rental.currency, day.date())
        what = f"{rental.provider} {rental.gpu_count} x {rental.gpu}"
        yield Span(start=day, end=until, usd_per_hour=None if usd is None else Fraction(usd), note=what)


def _sum(amounts: Iterable[Fraction | None]) -> Fraction:
    return sum((amount for amount in amounts if amount is not None), Fraction(0))
