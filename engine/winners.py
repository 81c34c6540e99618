"""The cheapest setup of many models at once, kept up to date as offers come, rise, fall and go.

Which GPUs hold a model does not depend on offers: it is compiled once into the few ways per GPU that can ever win. A change of one
offer touches the ladder of its GPU, and of the models only those whose best setup on that GPU moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from engine.candidates import DEFAULT_SETUPS, Setup, SetupOrder, SetupPolicy, fidelities, machine_splits, spread_out
from engine.fits import Fit
from engine.formats import WeightFormat
from engine.ladders import Ladder, Rung, ladder
from engine.models import ModelSpec
from engine.offers import GpuOffer

OfferKey = tuple[str, str, str, str, str, int, str, int | None, str]


@dataclass(frozen=True, slots=True)
class Way:
    """A fit over equal machines: what has to be looked up to price it."""

    fit: Fit
    fidelity: int
    machines: int
    gpus: int  # on each machine
    behind: bool

    def beaten_by(self, other: Way) -> bool:
        """Whether the other never costs more, at any prices, and wins every tie."""
        if other.behind > self.behind or other.machines > self.machines or other.gpus > self.gpus:
            return False
        if other.fidelity != self.fidelity:
            return other.fidelity > self.fidelity
        return other.machines == self.machines and _tie(other) < _tie(self)


def _tie(way: Way) -> tuple[str, int]:
    return (way.fit.weight_format, way.fit.gpu_count)


@dataclass(frozen=True, slots=True)
class Compiled:
    """The ways that can win for one model, by GPU."""

    model: str
    ways: Mapping[str, tuple[Way, ...]]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A priced way."""

    order: SetupOrder
    way: Way
    rung: Rung

    @property
    def setup(self) -> Setup:
        """As a setup to rent."""
        way, found = self.way, self.rung
        return Setup(
            kind="buyable",
            fit=way.fit,
            offer=found.offer,
            fidelity=way.fidelity,
            machines=way.machines,
            gpu_count_rented=way.machines * found.gpu_count,
            usd_per_hour=way.machines * found.usd_per_hour,
            behind=way.behind,
        )


def compile_ways(
    model: ModelSpec, fits: Iterable[Fit], formats: Mapping[str, WeightFormat], policy: SetupPolicy = DEFAULT_SETUPS
) -> Compiled:
    """What has to be looked up when prices move; depends on facts and policy alone."""
    if policy.licence_refusal(model.licence):
        return Compiled(model.id, {})
    faith = fidelities(model, formats)
    by_gpu: dict[str, list[Way]] = {}
    for fit in fits:
        if not policy.fit_refusal(fit, faith[fit.weight_format]):
            by_gpu.setdefault(fit.gpu, []).extend(_ways(fit, faith[fit.weight_format], policy))
    return Compiled(model.id, {gpu: _unbeaten(ways) for gpu, ways in by_gpu.items() if ways})


def _ways(fit: Fit, fidelity: int, policy: SetupPolicy) -> list[Way]:
    return [
        Way(fit, fidelity, machines, gpus, policy.several_machines == "last" and spread_out(fit, machines))
        for machines, gpus in machine_splits(fit)
        if not policy.machines_refusal(fit, machines)
    ]


def _unbeaten(ways: Sequence[Way]) -> tuple[Way, ...]:
    return tuple(way for way in ways if not any(way.beaten_by(other) for other in ways if other is not way))


def cheapest_on(ways: Sequence[Way], prices: Ladder) -> Candidate | None:
    """The best of the ways at the prices of their GPU."""
    best: Candidate | None = None
    for way in ways:
        found = prices.holding(way.gpus, way.machines)
        if found is not None:
            order = _order(way, found)
            if best is None or order < best.order:
                best = Candidate(order, way, found)
    return best


def _order(way: Way, found: Rung) -> SetupOrder:
    """The order of :class:`engine.candidates.Setup`, without building one."""
    offer, fit = found.offer, way.fit
    return (
        way.behind,
        found.order[0] if way.machines == 1 else way.machines * found.order[0],
        -way.fidelity,
        way.machines * found.gpu_count,
        offer.provider,
        offer.sku,
        offer.region,
        fit.gpu,
        fit.weight_format,
        fit.gpu_count,
    )


def cheapest_of(compiled: Compiled, ladders: Mapping[str, Ladder]) -> dict[str, Candidate]:
    """The best candidate of the model on every GPU."""
    found = ((gpu, cheapest_on(ways, ladders[gpu])) for gpu, ways in compiled.ways.items() if gpu in ladders)
    return {gpu: candidate for gpu, candidate in found if candidate is not None}


def winners(models: Iterable[Compiled], offers: Iterable[GpuOffer], policy: SetupPolicy = DEFAULT_SETUPS) -> dict[str, Setup]:
    """The cheapest buyable setup by model, from scratch; a model nobody can serve is absent."""
    return SetupIndex(models, offers, policy).winners()


def offer_key(offer: GpuOffer) -> OfferKey:
    """What stays the same while an offer's price moves."""
    return (
        offer.provider,
        offer.source,
        offer.sku,
        offer.region,
        offer.gpu,
        offer.gpu_count,
        offer.tier,
        offer.term_months,
        offer.trust,
    )


class SetupIndex:
    """Owns the eligible offers and the winner of every model at their prices."""

    def __init__(self, models: Iterable[Compiled], offers: Iterable[GpuOffer], policy: SetupPolicy = DEFAULT_SETUPS) -> None:
        self._policy = policy.offers
        self._models = tuple(models)
        self._offers: dict[str, dict[OfferKey, GpuOffer]] = {}
        for offer in offers:
            if not self._policy.refusal(offer):
                self._offers.setdefault(offer.gpu, {})[offer_key(offer)] = offer
        self._ladders = {gpu: ladder(held.values()) for gpu, held in self._offers.items()}
        self._users: dict[str, list[Compiled]] = {}
        for compiled in self._models:
            for gpu in compiled.ways:
                self._users.setdefault(gpu, []).append(compiled)
        self._by_gpu = {compiled.model: cheapest_of(compiled, self._ladders) for compiled in self._models}
        self._best = {model: min(found.values(), key=_by_order) for model, found in self._by_gpu.items() if found}

    def winners(self) -> dict[str, Setup]:
        """The cheapest buyable setup by model."""
        return {model: candidate.setup for model, candidate in self._best.items()}

    def winner(self, model: str) -> Setup | None:
        """The cheapest buyable setup of one model."""
        found = self._best.get(model)
        return None if found is None else found.setup

    def put(self, offer: GpuOffer) -> frozenset[str]:
        """Takes a new or changed offer; gives back the models whose winner moved."""
        if self._policy.refusal(offer):
            return self.drop(offer_key(offer))
        held = self._offers.setdefault(offer.gpu, {})
        held[offer_key(offer)] = offer
        return self._reprice(offer.gpu)

    def drop(self, key: OfferKey) -> frozenset[str]:
        """Forgets an offer that is gone; gives back the models whose winner moved."""
        gpu = key[4]
        if self._offers.get(gpu, {}).pop(key, None) is None:
            return frozenset()
        return self._reprice(gpu)

    def _reprice(self, gpu: str) -> frozenset[str]:
        prices = ladder(self._offers[gpu].values())
        if prices == self._ladders.get(gpu):
            return frozenset()
        self._ladders[gpu] = prices
        return frozenset(compiled.model for compiled in self._users.get(gpu, ()) if self._moved(compiled, gpu, prices))

    def _moved(self, compiled: Compiled, gpu: str, prices: Ladder) -> bool:
        """Whether the model's winner moved; brings its best on the GPU and its winner up to date."""
        found, mine = self._by_gpu[compiled.model], cheapest_on(compiled.ways[gpu], prices)
        before, best = found.pop(gpu, None), self._best.get(compiled.model)
        if mine is not None:
            found[gpu] = mine
        if before is not None and best is before:
            best = min(found.values(), key=_by_order, default=None)
        elif mine is not None and (best is None or mine.order < best.order):
            best = mine
        return self._crown(compiled.model, best)

    def _crown(self, model: str, best: Candidate | None) -> bool:
        before = self._best.pop(model, None)
        if best is not None:
            self._best[model] = best
        return before != best


def _by_order(candidate: Candidate) -> SetupOrder:
    return candidate.order
