"""Sightings into runs: resolved by ``tracker.sweeps.resolve``, judged as by the guard, equal prices in a row one row of the book."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from scrapers.contract import GpuQuote, Skipped
from tracker.book.book import IMPORTED
from tracker.book.bookfile import Dated
from tracker.book.exchange import Exchange
from tracker.database.limits import clean
from tracker.database.rows import OfferRow, RateRow, identity, to_s, values
from tracker.guard import offer_fault, rate_fault
from tracker.history.plausible import Before, Held, Series, held_back
from tracker.history.sightings import Sighting
from tracker.sweeps.resolve import Refused, resolve_gpu, resolve_tokens
from tracker.world import World

Row = OfferRow | RateRow
Scope = tuple[str, ...]
Recall = Callable[[Collection[str], int], Before]  # of those identities, before that moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """What decides whether a sighting counts, and what its names mean."""

    world: World
    exchange: Exchange
    recall: Recall | None = None  # what the book knows; None: nothing is held back that is a price at all


@dataclass(slots=True)
class Runs:
    """The rows of the book that a series makes, and what was refused, by reason and with the first example of each."""

    dated: list[Dated] = field(default_factory=list)
    sightings: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    unmapped: Counter[tuple[str, str]] = field(default_factory=Counter)
    held: list[Held] = field(default_factory=list)
    listed: dict[str, Collection[int]] = field(default_factory=dict)  # identity -> moments at which its price is believed

    def refuse(self, refused: Refused) -> None:
        """Count one refusal."""
        self.refused[refused.reason] += 1
        self.examples.setdefault(refused.reason, refused.detail)
        if refused.unmapped is not None:
            self.unmapped[refused.unmapped] += 1


@dataclass(slots=True)
class _Offer:
    """All sightings of one offer or rate, by moment."""

    origin: str
    scope: Scope
    rows: dict[int, Row] = field(default_factory=dict)
    doubtful: set[int] = field(default_factory=set)  # moments with no price one could believe


def to_runs(sightings: Iterable[Sighting], judge: Judge) -> Runs:
    """Every stretch of equal prices of every offer and rate, with its first and last sighting and the moment it was seen to be gone."""
    runs = Runs()
    found: dict[str, _Offer] = {}
    whole: dict[Scope, set[int]] = {}
    resolved: dict[tuple[GpuQuote, str, str], Row | Refused] = {}  # a series repeats itself month after month
    for sighting in sightings:
        runs.sightings += 1
        at, scope = to_s(sighting.at), _scope(sighting)
        if sighting.whole:
            whole.setdefault(scope, set()).add(at)
        row = _resolved(sighting, judge.world, resolved)
        if isinstance(row, Refused):
            runs.refuse(row)
        else:
            _note(found.setdefault(identity(IMPORTED + sighting.origin, row), _Offer(sighting.origin, scope)), at, row, judge, runs)
    _hold_back(found, judge, runs)
    listed = {scope: sorted(moments) for scope, moments in whole.items()}
    runs.dated = [run for offer in found.values() for run in _runs_of(offer, listed.get(offer.scope, ()))]
    return runs


def _hold_back(found: Mapping[str, _Offer], judge: Judge, runs: Runs) -> None:
    """What is not believed is neither listed nor gone: it waits for a person, or for a later import that confirms it."""
    moments = [at for offer in found.values() for at in offer.rows]
    if judge.recall is not None and moments:
        before = judge.recall(found.keys(), min(moments))
        series = [Series(key, offer.origin, offer.rows) for key, offer in found.items()]
        runs.held = held_back(series, judge.world.settings.guard, judge.exchange, before)
        for key, waiting in before.waiting.items():  # listed from its first sighting on, where it is confirmed now
            found[key].rows.update(dict.fromkeys(waiting.moments, waiting.row))
    for held in runs.held:
        offer = found[held.key]
        offer.doubtful.update(held.moments)
        for at in held.moments:
            del offer.rows[at]
    runs.listed = {key: offer.rows.keys() for key, offer in found.items()}


def _scope(sighting: Sighting) -> Scope:
    """What is listed together: rentals of a provider's region, or a provider's token prices."""
    quote = sighting.quote
    if isinstance(quote, Skipped):
        return (sighting.origin,)
    return (sighting.origin, quote.provider, quote.region if isinstance(quote, GpuQuote) else "")


def _resolved(sighting: Sighting, world: World, resolved: dict[tuple[GpuQuote, str, str], Row | Refused]) -> Row | Refused:
    quote = sighting.quote
    if isinstance(quote, Skipped):
        return Refused(reason=quote.reason, detail=clean(quote.raw))
    if not isinstance(quote, GpuQuote):
        return resolve_tokens(quote, sighting.names, world.catalogue, sighting.source_url, world.provider_ids)
    key = (quote, sighting.names, sighting.source_url)
    if key not in resolved:
        resolved[key] = resolve_gpu(quote, sighting.names, world.catalogue, sighting.source_url)
    return resolved[key]


def _note(offer: _Offer, at: int, row: Row, judge: Judge, runs: Runs) -> None:
    """Keep a sighting; an implausible price is refused, and of two prices at one moment both are. Refused is not gone."""
    fault = _fault(row, judge)
    known = offer.rows.get(at)
    if fault is None and at not in offer.doubtful and (known is None or values(known) == values(row)):
        offer.rows[at] = row
        return
    offer.doubtful.add(at)
    for _ in range(1 + (offer.rows.pop(at, None) is not None)):
        runs.refuse(Refused(reason=fault or "same offer at two prices", detail=_name(row)))


def _fault(row: Row, judge: Judge) -> str | None:
    """Why the guard holds a row back, or None."""
    if isinstance(row, OfferRow):
        return offer_fault(row, judge.world.settings.guard, judge.exchange)
    return rate_fault(row, judge.world.settings.guard, judge.exchange)


def _name(row: Row) -> str:
    return f"{row.provider} {row.sku if isinstance(row, OfferRow) else row.source_model}"


def _runs_of(offer: _Offer, listed: Sequence[int]) -> Iterator[Dated]:
    since = seen = 0
    current: Row | None = None
    listed = [at for at in listed if at not in offer.doubtful]
    for at, row in sorted(offer.rows.items()):
        missed = _missed(listed, seen, at)
        if current is None or missed is not None or values(current) != values(row):
            if current is not None:
                yield Dated(current, offer.origin, since, seen, missed)
            current, since = row, at
        seen = at
    if current is not None:
        yield Dated(current, offer.origin, since, seen, _missed(listed, seen, None))


def _missed(listed: Sequence[int], after: int, before: int | None) -> int | None:
    """The first whole listing between two moments, in which the offer was not."""
    place = bisect_right(listed, after)
    missed = listed[place] if place < len(listed) else None
    return missed if missed is not None and (before is None or missed < before) else None


def span_of(dated: Iterable[Dated]) -> tuple[int, int] | None:
    """First and last sighting of all runs in seconds since 1970; None without one."""
    moments = [moment for run in dated for moment in (run.since, run.seen_at)]
    return (min(moments), max(moments)) if moments else None
