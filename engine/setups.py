"""The cheapest setup for a model: which GPUs in which format to rent where, as one can buy it and as an indication.

``buyable`` is one real offer that holds the model at a count it is sold at, or several equal machines of it where the fit spans
machines. ``indicative`` is the number of GPUs times the lowest price per GPU anywhere, as price pages print it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from engine.candidates import DEFAULT_SETUPS, Setup, SetupKind, SetupPolicy, buyable_setups, fidelities, indicative_setups
from engine.fits import Fit
from engine.formats import WeightFormat
from engine.ladders import Market, market
from engine.models import ModelSpec
from engine.offers import GpuOffer
from engine.rejections import Rejected, rejections

__all__ = ["Ranking", "Rejected", "Setup", "SetupPolicy", "market", "rank_setups"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Setups of one model, cheapest first: ``buyable`` and ``indicative`` hold the best of every GPU and format."""

    buyable: tuple[Setup, ...]
    indicative: tuple[Setup, ...]
    rejected: tuple[Rejected, ...]

    @property
    def best(self) -> Setup | None:
        """The cheapest setup one can rent as it stands."""
        return self.buyable[0] if self.buyable else None

    @property
    def best_indicative(self) -> Setup | None:
        """The cheapest indication."""
        return self.indicative[0] if self.indicative else None

    def per_gpu(self, kind: SetupKind = "buyable") -> tuple[Setup, ...]:
        """The best setup of every GPU, cheapest first."""
        best: dict[str, Setup] = {}
        for setup in self.buyable if kind == "buyable" else self.indicative:
            best.setdefault(setup.gpu, setup)
        return tuple(best.values())


def rank_setups(
    model: ModelSpec,
    fits: Iterable[Fit],
    offers: Iterable[GpuOffer] | Market,
    formats: Mapping[str, WeightFormat],
    policy: SetupPolicy = DEFAULT_SETUPS,
    service_refusal: Callable[[Fit], str] | None = None,
) -> Ranking:
    """Setups of the model from cheapest to dearest, and why the other candidates lost.

    ``fits`` are those of :func:`engine.sizing.feasible_fits`, misses with their reasons included. ``service_refusal`` says why a
    fit that holds the model may not serve the workload (too slow), "" where it may. For many models, build the market once and
    hand it in instead of the offers.
    """
    split = offers if isinstance(offers, Market) else market(offers, policy.offers)
    known, faith = tuple(fits), fidelities(model, formats)
    licence = policy.licence_refusal(model.licence)
    usable = () if licence else tuple(fit for fit in known if not policy.fit_refusal(fit, faith[fit.weight_format]))
    slow = service_refusal or _nothing
    buyable, late = _best_of_each((s for fit in usable for s in buyable_setups(fit, split.of(fit.gpu), faith, policy)), slow)
    indicative, _ = _best_of_each((s for fit in usable for s in indicative_setups(fit, split.of(fit.gpu), faith, policy)), slow)
    why = rejections(known, usable, buyable, late, split, faith, policy, licence)
    return Ranking(buyable=buyable, indicative=indicative, rejected=why)


def _nothing(_: Fit) -> str:
    return ""


def _best_of_each(setups: Iterable[Setup], slow: Callable[[Fit], str]) -> tuple[tuple[Setup, ...], tuple[tuple[Setup, str], ...]]:
    """The best setup of each GPU and format, in order; and the cheaper ones of it that were refused, with the reason."""
    best: dict[tuple[str, str], Setup] = {}
    late: list[tuple[Setup, str]] = []
    for setup in sorted(setups, key=lambda s: s.order):
        key = (setup.gpu, setup.weight_format)
        if key not in best:
            refusal = slow(setup.fit)
            if refusal:
                late.append((setup, refusal))
            else:
                best[key] = setup
    return tuple(best.values()), tuple(late)
