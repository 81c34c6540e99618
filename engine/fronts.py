"""Setups none of which is beaten on two counts at once: cost against fidelity, cost against speed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal

from engine.candidates import DEFAULT_SETUPS, Setup, SetupPolicy, buyable_setups, fidelities
from engine.fits import Fit
from engine.formats import WeightFormat
from engine.ladders import Market, market
from engine.models import ModelSpec
from engine.offers import GpuOffer

Worth = float | int | Decimal


def priced_setups(
    model: ModelSpec,
    fits: Iterable[Fit],
    offers: Iterable[GpuOffer] | Market,
    formats: Mapping[str, WeightFormat],
    policy: SetupPolicy = DEFAULT_SETUPS,
) -> tuple[Setup, ...]:
    """Every buyable setup at every count, cheapest first: larger ones may be faster. Those ranked behind only where nothing else is."""
    split = offers if isinstance(offers, Market) else market(offers, policy.offers)
    if policy.licence_refusal(model.licence):
        return ()
    faith = fidelities(model, formats)
    usable = (fit for fit in fits if not policy.fit_refusal(fit, faith[fit.weight_format]))
    found = [setup for fit in usable for setup in buyable_setups(fit, split.of(fit.gpu), faith, policy)]
    near = [setup for setup in found if not setup.behind]
    return tuple(sorted(near or found, key=lambda setup: setup.order))


def pareto_front(setups: Iterable[Setup], worth: Callable[[Setup], Worth | None]) -> tuple[Setup, ...]:
    """The setups that are worth more than every cheaper one, cheapest first. Those of unknown worth (None) are left out."""
    valued = [(setup, value) for setup in setups if (value := worth(setup)) is not None]
    front: list[Setup] = []
    best: Worth | None = None
    for setup, value in sorted(valued, key=lambda pair: (pair[0].usd_per_hour, -pair[1], pair[0].order)):
        if best is None or value > best:
            front.append(setup)
            best = value
    return tuple(front)


def fidelity_front(setups: Iterable[Setup]) -> tuple[Setup, ...]:
    """Cost against fidelity: what the next more faithful format costs."""
    return pareto_front(setups, lambda setup: setup.fidelity)


def speed_front(setups: Iterable[Setup], tok_s_per_user: Callable[[Setup], float | None]) -> tuple[Setup, ...]:
    """Cost against the output tokens a second one user sees."""
    return pareto_front(setups, tok_s_per_user)
