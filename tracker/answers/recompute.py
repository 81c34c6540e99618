"""From the book to answers: reads it, calls the engine, and gives back one immutable snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from functools import partial

from sqlalchemy import Connection, Engine

from engine.breakeven import BreakEven, workload_break_even
from engine.fits import Fit, Need
from engine.ladders import Market
from engine.leading import Leading
from engine.models import ModelSpec
from engine.offers import GpuOffer, OfferPolicy
from engine.policies import FitPolicy
from engine.rate_choice import RateChoice, RateRanking, cheapest_rate
from engine.rates import TokenRate
from engine.served import Served, served, widest_fit
from engine.setups import Ranking, Setup, SetupPolicy
from engine.sizing import feasible_fits
from engine.verdicts import Verdict, verdict
from engine.winners import Compiled, compile_ways
from engine.workloads import Workload
from tracker.answers.health import source_health
from tracker.answers.questions import Question, tracked
from tracker.answers.snapshot import ModelAnswer, Snapshot, SourceHealth
from tracker.answers.tallies import Tallies
from tracker.book.book import Book, read_book
from tracker.book.entries import Entries
from tracker.book.offer_market import alike, market_of
from tracker.book.precedence import offer_disagreements, preferred_offers, rate_disagreements
from tracker.book.row_fields import IS_SLICE, LIST, RENTAL
from tracker.book.stated import with_overrides
from tracker.book.trail import Trail
from tracker.database.handle import reading
from tracker.facts.workloads import rate_policy
from tracker.world import World


@dataclass(slots=True)
class Sizer:
    """Remembers which GPUs hold which model: that depends on facts alone, so it is worked out once a start.

    What can win of it (``compiled``) is all that most answers need; a start may bring that along from an earlier one.
    """

    world: World
    compiled: dict[tuple[str, Need, FitPolicy, SetupPolicy], Compiled] = field(default_factory=dict)
    _known: dict[tuple[str, Need, FitPolicy], tuple[Fit, ...]] = field(default_factory=dict)
    _beside: dict[tuple[str, str, str, Need, FitPolicy], tuple[Fit, ...]] = field(default_factory=dict)
    _served: dict[tuple[Fit, str, date], Served] = field(default_factory=dict)
    rentals: Trail = field(default_factory=Trail)  # what a book has in common with the one before it
    lists: Trail = field(default_factory=Trail)
    tallies: Tallies = field(default_factory=Tallies)  # of sweeps, of one database

    def fits(self, model: ModelSpec, need: Need, policy: FitPolicy) -> tuple[Fit, ...]:
        """Fits and near misses of a model over all GPUs and formats."""
        key = (model.id, need, policy)
        if key not in self._known:
            catalogue = self.world.catalogue
            self._known[key] = feasible_fits(model, catalogue.gpus.values(), tuple(catalogue.formats.values()), need, policy)
        return self._known[key]

    def beside(self, fit: Fit) -> tuple[Fit, ...]:
        """Those of them on the same GPU in the same format: a hundredth of the work."""
        key = (fit.model, fit.gpu, fit.weight_format, fit.need, fit.policy)
        if key not in self._beside:
            catalogue = self.world.catalogue
            model, gpu, form = catalogue.models[fit.model], catalogue.gpus[fit.gpu], catalogue.formats[fit.weight_format]
            self._beside[key] = feasible_fits(model, (gpu,), (form,), fit.need, fit.policy)
        return self._beside[key]

    def ranked(self, model: ModelSpec, split: Market, question: Question) -> Ranking:
        """The setups of a model in a market."""
        formats, policy = self.world.catalogue.formats, SetupPolicy(offers=question.offers)
        fits = partial(self.fits, model, question.need, question.policy)
        key = (model.id, question.need, question.policy, policy)
        if key not in self.compiled:
            self.compiled[key] = compile_ways(model, fits(), formats, policy)
        return Leading(self.compiled[key], model, fits, split, formats, policy)

    def served(self, setup: Setup, fits: tuple[Fit, ...], workload: Workload, on: date) -> Served:
        """What the setup serves of a workload a month: stated, else measured, else estimated. All GPUs that are paid for work."""
        fit = widest_fit(setup, fits)
        key = (fit, workload.id, on)
        if key not in self._served:
            catalogue = self.world.catalogue
            values = (catalogue.models[fit.model], catalogue.gpus[fit.gpu], catalogue.formats[fit.weight_format])
            self._served[key] = served(fit, *values, workload, self.world.points, on=on)
        return self._served[key]


def recompute(db: Engine, world: World, sizer: Sizer, at: datetime) -> Snapshot:
    """All answers for the tracked models, from what the book holds at ``at``."""
    with reading(db) as connection:
        return snapshot_of(connection, world, sizer, at)


def snapshot_of(connection: Connection, world: World, sizer: Sizer, at: datetime, book: Book | None = None) -> Snapshot:
    """The same within an open transaction; of a book that was read in it, where there is one."""
    health = source_health(connection, world.config.sources, at, sizer.tallies)
    return of_book(book or read_book(connection, at, world.config.sources), health, world, sizer)


def of_book(book: Book, sources: tuple[SourceHealth, ...], world: World, sizer: Sizer) -> Snapshot:
    """All answers from a book that was read before, and from what ``overrides.toml`` states."""
    book = with_overrides(book, world.overrides, world.settings.track.rate_sources)
    whole = comparable(world, book)
    default, *others = tracked(world)
    markets = {offers: split(whole, offers) for offers in {question.offers for question in (default, *others)}}
    whole.fresh().follow(sizer.rentals, RENTAL, map(alike, markets))
    book.rates.fresh().follow(sizer.lists, LIST)

    def answers(question: Question) -> Iterator[ModelAnswer]:
        return (answer(world, sizer, book, world.model(name), question, markets[question.offers]) for name in question.models)

    return Snapshot(
        at=book.at,
        book=book,
        answers=tuple(answers(default)),
        also=tuple(found for question in others for found in answers(question)),
        sources=sources,
        market=whole,
        disagreements=(*offer_disagreements(book.offers), *rate_disagreements(book.rates)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Markets:
    """The offers a question admits, read once for all models: the fresh, and all that are known."""

    fresh: Market
    known: Market


def comparable(world: World, book: Book) -> Entries[GpuOffer]:
    """The offers of a book that may be compared: of one source a provider. Slices of a GPU are never ranked."""
    spoken = preferred_offers(book.offers, world.settings.precedence.root)
    return spoken.of(row for row in spoken.rows if not row[IS_SLICE]) if any(spoken.every(IS_SLICE)) else spoken


def split(whole: Entries[GpuOffer], offers: OfferPolicy) -> Markets:
    """Those of them that ``offers`` admits."""
    fresh = whole.fresh()
    found = market_of(fresh, offers)
    return Markets(fresh=found, known=found if len(fresh) == len(whole) else market_of(whole, offers))


def answer(world: World, sizer: Sizer, book: Book, model: ModelSpec, question: Question, markets: Markets | None = None) -> ModelAnswer:
    """The cheapest setup, the cheapest rate and what they say about the workload."""
    fresh, shown = _rankings(sizer, model, markets or split(comparable(world, book), question.offers), question)
    rates, rate_fresh = _rates(world, model, book, question)
    setup, rate = shown.best, rates.cheapest
    fits = sizer.fits(model, question.need, question.policy) if setup is None else sizer.beside(setup.fit)
    capacity = None if setup is None else sizer.served(setup, fits, question.workload, book.at.date())
    point = _break_even(question.workload, setup, rate, capacity)
    return ModelAnswer(
        model=model,
        workload=question.workload,
        policy=question.policy_id,
        fresh=fresh,
        setup=setup,
        setup_fresh=setup is not None and fresh.best is not None,
        shown=shown,
        rates=rates,
        rate=rate,
        rate_fresh=rate is not None and rate_fresh,
        capacity=capacity,
        break_even=point,
        verdict=_verdict(point, question.workload),
        why_not=_why_not(setup, rate, fits),
        running_usd_per_hour=_running(world, model, question),
    )


def _running(world: World, model: ModelSpec, question: Question) -> Decimal | None:
    """What is rented for the model today: it serves the workload of ``[track]``, and is no measure of what another one needs."""
    return world.settings.baseline.root.get(model.id) if question.workload == world.workload() else None


def _rankings(sizer: Sizer, model: ModelSpec, markets: Markets, question: Question) -> tuple[Ranking, Ranking]:
    """The ranking of fresh offers, and the one to show: of everything known where nothing fresh holds the model."""
    fresh = sizer.ranked(model, markets.fresh, question)
    return (fresh, fresh) if fresh.best is not None else (fresh, sizer.ranked(model, markets.known, question))


def _rates(world: World, model: ModelSpec, book: Book, question: Question) -> tuple[RateRanking, bool]:
    """Rates from fresh prices, else from all known ones; and whether they are fresh."""
    policy = rate_policy(model, world.providers, question.skus, world.settings.track.rate_sources)

    def ranked(rates: Iterable[TokenRate]) -> RateRanking:
        return cheapest_rate(rates, model.id, book.at, question.workload, policy)

    known = book.rates_of(model.id)
    fresh = ranked(entry.value for entry in known if entry.fresh)
    return (fresh, True) if fresh.cheapest is not None else (ranked(entry.value for entry in known), False)


def _break_even(workload: Workload, setup: Setup | None, rate: RateChoice | None, capacity: Served | None) -> BreakEven | None:
    if setup is None or rate is None or capacity is None:
        return None
    return workload_break_even(
        workload,
        rate.bill,
        replica_usd_per_month=setup.usd_per_month,
        capacity_requests_per_month=capacity.requests_per_month,
    )


def _verdict(point: BreakEven | None, workload: Workload) -> Verdict | None:
    return None if point is None else verdict(point, workload.tokens_per_month)


def _why_not(setup: Setup | None, rate: RateChoice | None, fits: tuple[Fit, ...]) -> str:
    parts = []
    if setup is None:
        parts.append("no offer in the book holds it" if any(fit.fits for fit in fits) else "no GPU we know holds it")
    if rate is None:
        parts.append("no API rate in the book")
    return "; ".join(parts)
