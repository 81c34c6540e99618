"""The setups worth planning a volume with, from the book: none of them is beaten in rent and capacity by another of its kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal

from engine.fits import Fit
from engine.fronts import pareto_front, priced_setups
from engine.offers import GpuOffer, OfferPolicy, Tier
from engine.plans import Rental
from engine.served import Served, rental_of
from engine.setups import Setup, SetupPolicy
from tracker.answers.questions import Question
from tracker.answers.recompute import Sizer
from tracker.answers.snapshot import ModelAnswer
from tracker.book.book import Book
from tracker.book.offer_market import market_of
from tracker.book.row_fields import IS_SLICE
from tracker.world import World

SPOT: Tier = "spot"
ASK = "ask"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A setup to plan with, and how well its capacity is known. ``once``: a marketplace ask is one machine, there is no second."""

    rental: Rental
    setup: Setup
    served: Served
    once: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Setups to plan with, and why others have no capacity."""

    chosen: tuple[Candidate, ...]
    unknown: tuple[str, ...]


def candidates(world: World, sizer: Sizer, book: Book, found: ModelAnswer, question: Question, interruption_loss: Decimal) -> Candidates:
    """From the prices ``found`` was ranked by: fresh ones, or the last known where nothing is fresh. Spot only with its loss."""
    whole = book.offers.fresh() if found.setup_fresh else book.offers
    offers = whole.of(row for row in whole.rows if not row[IS_SLICE])
    fits = sizer.fits(found.model, question.need, question.policy)
    chosen: list[Candidate] = []
    unknown: dict[str, None] = {}
    for policy, loss in _markets(question.offers, interruption_loss):
        split = market_of(offers, policy)
        setups = _cheapest_of_each(priced_setups(found.model, fits, split, world.catalogue.formats, SetupPolicy(offers=policy)))
        known = _served(sizer, setups, fits, question, book)
        chosen += _front(setups, known, question, loss)
        unknown |= dict.fromkeys(f"{setup.gpu}: {one.reason}" for setup, one in known.items() if one.requests_per_month is None)
    return Candidates(chosen=tuple(chosen), unknown=tuple(unknown))


def _markets(asked: OfferPolicy, interruption_loss: Decimal) -> Iterator[tuple[OfferPolicy, Decimal]]:
    """What is sold apart: steady tiers and spot, list prices and asks, each with the loss of interruptions."""
    steady = tuple(tier for tier in asked.tiers if tier != SPOT)
    for kind in asked.price_kinds:
        if steady:
            yield replace(asked, tiers=steady, price_kinds=(kind,)), Decimal(0)
        if interruption_loss:
            yield replace(asked, tiers=(SPOT,), price_kinds=(kind,)), interruption_loss


def _cheapest_of_each(setups: Iterable[Setup]) -> tuple[Setup, ...]:
    """The first, so cheapest, of each GPU, format, count and number of machines: dearer offers of the same serve no more."""
    first: dict[tuple[str, str, int, int], Setup] = {}
    for setup in setups:
        first.setdefault((setup.gpu, setup.weight_format, setup.gpu_count_rented, setup.machines), setup)
    return tuple(first.values())


def _served(sizer: Sizer, setups: Iterable[Setup], fits: Iterable[Fit], question: Question, book: Book) -> dict[Setup, Served]:
    """What each setup serves; a machine is widened among the fits of its GPU and format only."""
    same: dict[tuple[str, str], list[Fit]] = {}
    for fit in fits:
        same.setdefault((fit.gpu, fit.weight_format), []).append(fit)
    return {s: sizer.served(s, tuple(same[s.gpu, s.weight_format]), question.workload, book.at.date()) for s in setups}


def _front(setups: Iterable[Setup], known: dict[Setup, Served], question: Question, loss: Decimal) -> Iterator[Candidate]:
    requests = {setup: one.requests_per_month for setup, one in known.items()}
    for setup in pareto_front(setups, requests.__getitem__):
        rental = rental_of(setup, known[setup], question.workload, interruption_loss=loss)
        if rental is not None:
            yield Candidate(rental=rental, setup=setup, served=known[setup], once=_once(setup.offer))


def _once(offer: GpuOffer) -> bool:
    return offer.price_kind == ASK
