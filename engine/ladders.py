"""The cheapest way to rent n GPUs of one kind on one machine, for every n: what setups look prices up in.

Feasibility does not depend on offers and a price is linear in its offer, so the offers of one GPU compete only here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from engine.offers import GpuOffer, OfferPolicy, is_firm

LARGEST_MACHINE = 576  # GPUs of the largest rack-scale machine announced (NVL576); no setup asks for more

OfferOrder = tuple[Decimal, int, str, str, str, str]


@dataclass(frozen=True, slots=True)
class Rung:
    """One machine of ``offer`` rented with ``gpu_count`` GPUs. Compares by price, then fewer GPUs, then names: never by chance."""

    order: OfferOrder
    offer: GpuOffer
    gpu_count: int

    @property
    def usd_per_hour(self) -> Decimal:
        """USD an hour of the machine."""
        return self.order[0]


@dataclass(frozen=True, slots=True)
class Ladder:
    """All rungs of one GPU. ``machines[n]`` is the cheapest machine that holds n; ``unit`` the lowest price per GPU.

    ``repeatable[n]`` is the cheapest of those sold at a list price: an ask is one machine and cannot be rented twice.
    """

    machines: Mapping[int, Rung]
    repeatable: Mapping[int, Rung]
    unit: Rung | None

    def holding(self, gpus: int, machines: int) -> Rung | None:
        """The cheapest machine that holds ``gpus`` and of which so many can be rented."""
        return (self.machines if machines == 1 else self.repeatable).get(gpus)

    @property
    def largest(self) -> int:
        """Most GPUs any machine has."""
        return max(self.machines, default=0)


EMPTY = Ladder({}, {}, None)


def rung(offer: GpuOffer, gpus: int) -> Rung | None:
    """The offer rented so that it holds ``gpus``; None where it cannot."""
    count = offer.sold_count(gpus)
    return None if count is None else Rung(_order(offer, offer.usd_per_hour_for(count), count), offer, count)


def unit_rung(offer: GpuOffer) -> Rung:
    """The offer's price for one of its GPUs, whether or not one is sold alone."""
    return Rung(_order(offer, offer.usd_per_gpu_hour, 1), offer, 1)


def _order(offer: GpuOffer, usd_per_hour: Decimal, count: int) -> OfferOrder:
    return (usd_per_hour, count, offer.provider, offer.sku, offer.region, offer.source)


def ladder(offers: Iterable[GpuOffer]) -> Ladder:
    """The ladder of eligible offers of one GPU."""
    cheapest: dict[tuple[int, int | None, str], GpuOffer] = {}
    for offer in offers:
        shape = (offer.gpu_count, offer.max_gpu_count, offer.price_kind)
        held = cheapest.get(shape)
        if held is None or _cheaper(offer, held):
            cheapest[shape] = offer  # of offers of one shape, the cheapest is the cheapest at every count
    firm = [offer for offer in cheapest.values() if is_firm(offer)]
    listed = [offer for offer in firm if offer.price_kind == "list"]
    unit = min((unit_rung(offer) for offer in cheapest.values()), key=lambda r: r.order, default=None)
    machines = _machines(firm)
    return Ladder(machines, machines if len(listed) == len(firm) else _machines(listed), unit)


def _cheaper(offer: GpuOffer, held: GpuOffer) -> bool:
    if offer.usd_per_hour != held.usd_per_hour:
        return offer.usd_per_hour < held.usd_per_hour
    return _order(offer, offer.usd_per_hour, offer.gpu_count) < _order(held, held.usd_per_hour, held.gpu_count)


def _machines(offers: Iterable[GpuOffer]) -> dict[int, Rung]:
    machines: dict[int, Rung] = {}
    for offer in offers:
        whole = rung(offer, offer.gpu_count)  # what a smaller need rents too
        for gpus in range(1, _most(offer) + 1):
            found = whole if gpus <= offer.gpu_count else rung(offer, gpus)
            if found is not None and (gpus not in machines or found.order < machines[gpus].order):
                machines[gpus] = found
    return machines


def _most(offer: GpuOffer) -> int:
    return min(offer.max_gpu_count or offer.gpu_count, LARGEST_MACHINE)


@dataclass(frozen=True, slots=True)
class Market:
    """All offers, split by one policy: ladders by GPU of eligible ones, and by GPU and reason of those refused."""

    eligible: Mapping[str, Ladder]
    refused: Mapping[str, Mapping[str, Ladder]]

    def of(self, gpu: str) -> Ladder:
        """The ladder of a GPU; empty where nothing eligible is offered."""
        return self.eligible.get(gpu, EMPTY)


def market(offers: Iterable[GpuOffer], policy: OfferPolicy) -> Market:
    """The offers as the policy sees them."""
    split: dict[str, dict[str, list[GpuOffer]]] = {}
    for offer in offers:
        split.setdefault(offer.gpu, {}).setdefault(policy.refusal(offer), []).append(offer)
    refused = {gpu: {why: ladder(found) for why, found in by_reason.items() if why} for gpu, by_reason in split.items()}
    return Market({gpu: ladder(by_reason[""]) for gpu, by_reason in split.items() if "" in by_reason}, refused)
