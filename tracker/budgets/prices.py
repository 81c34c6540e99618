"""USD an hour of an API use: at one moment of a book, and over a stretch of history.

A workload's bill is that of a month of 730 hours, as everywhere here; an hour of it costs a 730th. Over a stretch the price is
looked up at each moment at which it may change: a rate that moved, that grew too old or was seen again, a day's exchange rate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import pairwise

from sqlalchemy import Connection, select

from engine.budgets import Span, joined
from engine.rate_choice import cheapest_rate
from engine.units import HOURS_PER_MONTH, MTOK
from tracker.book.asof import Moment
from tracker.book.book import Book, read_rates
from tracker.book.entry_values import offers_of
from tracker.book.exchange import FX, PUBLISHED, load_exchange
from tracker.book.held import held, window
from tracker.book.listing import RATE, RATES
from tracker.book.stated import with_overrides
from tracker.budgets.settings import ApiUse
from tracker.database.rows import from_s, to_s
from tracker.facts.workloads import rate_policy
from tracker.world import World

SETTLED = timedelta(minutes=5)  # what is older does not change any more: a sweep may still be on its way into the book
DAY = timedelta(days=1)

Price = tuple[Fraction | None, str]


def price_in(world: World, book: Book, use: ApiUse) -> Price:
    """USD an hour of the use at the fresh prices of a book and whose they are; None, with the reason, where there are none."""
    workload, model = world.workload(use.workload), world.model(use.model)
    provider = world.provider_ids.get(use.provider, use.provider)
    policy = rate_policy(model, world.providers, world.settings.track.skus, world.settings.track.rate_sources)
    fresh = (entry.value for entry in book.rates_of(model.id) if entry.fresh)
    wanted = replace(policy, providers=frozenset({provider}) if provider else None)
    choice = cheapest_rate(fresh, model.id, book.at, workload, wanted).cheapest
    if choice is None:
        return None, "no fresh price"
    whose = f"{choice.rate.provider} {choice.rate.source_model}"
    if use.tokens_per_month is not None:
        month = Fraction(choice.usd_per_mtok) * Fraction(use.tokens_per_month) / MTOK
        return month / HOURS_PER_MONTH, f"{whose}, ${choice.usd_per_mtok.normalize():f} per Mtok"
    return Fraction(choice.usd_per_month) / HOURS_PER_MONTH, f"{whose}, ${choice.usd_per_month.normalize():f} a month"


class History:
    """Prices of uses over time. What is settled is remembered: the next question about the same month costs little."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._known: dict[tuple[ApiUse, datetime], Price] = {}

    def spans(self, connection: Connection, use: ApiUse, start: datetime, at: datetime) -> tuple[Span, ...]:
        """The use over [start, at], each stretch at the prices known when it began. The last one is of no length: the price of now."""
        edges = [*_edges(connection, self._world, use.model, start, at), at]
        prices = [self._price(connection, use, edge, at) for edge in edges]
        spans = [
            Span(start=edge, end=following, usd_per_hour=usd, note=note)
            for (edge, following), (usd, note) in zip(pairwise(edges), prices, strict=False)
        ]
        return (*joined(spans), Span(start=at, end=at, usd_per_hour=prices[-1][0], note=prices[-1][1]))

    def _price(self, connection: Connection, use: ApiUse, at: datetime, now: datetime) -> Price:
        found = self._known.get((use, at))
        if found is None:
            found = price_in(self._world, _rates_at(connection, self._world, use.model, at), use)
            if now - at >= SETTLED:
                self._known[use, at] = found
        return found

    def forget_before(self, start: datetime) -> None:
        """Months that are over are not asked for again."""
        self._known = {key: price for key, price in self._known.items() if key[1] >= start}


def _rates_at(connection: Connection, world: World, model: str, at: datetime) -> Book:
    """A book of nothing but the model's rates at a moment, as known then, with what is stated in overrides.toml."""
    moment = Moment(at=at, known=at)
    exchange = load_exchange(connection, moment)
    rates = read_rates(connection, moment, world.config.sources, exchange, {"model": (model,)})
    book = Book(at=at, known=at, offers=offers_of(()), price_lists=rates, exchange=exchange, unpriced={})
    return with_overrides(book, world.overrides, world.settings.track.rate_sources)


def _edges(connection: Connection, world: World, model: str, start: datetime, at: datetime) -> list[datetime]:
    """Moments of [start, at) at which a price of the model may have changed, the first among them."""
    query = select(RATE.c.id, RATE.c.source, RATE.c.valid_from).where(RATE.c.model == model)
    rows = [row for row in connection.execute(query) if row.source in world.config.sources]
    span = window(start, at, at)
    found = held(connection, RATES, world.config.sources, {row.id: row.source for row in rows}, span)
    moments = {edge for spans in found.values() for piece, _ in spans for edge in piece}
    moments |= {row.valid_from for row in rows if row.valid_from is not None}
    moments |= {values["valid_to"] for spans in found.values() for _, values in spans if values["valid_to"] is not None}
    days = {to_s(moment) for moment in _days(start, at)}
    days |= set(connection.execute(select(FX.c.known_at).where(FX.c.known_at >= to_s(start)).distinct()).scalars())
    return [from_s(moment) for moment in sorted({to_s(start), *moments, *days}) if to_s(start) <= moment < to_s(at)]


def _days(start: datetime, at: datetime) -> Iterator[datetime]:
    """Midnights, and when the day's exchange rates are published; those that were learnt later have a moment of their own."""
    day = start
    while day < at:
        yield day
        yield datetime.combine(day.date(), PUBLISHED)
        day += DAY
