"""Why the other candidates lost: what looks cheaper and was refused, what is dearer, what nobody sells, what does not fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from engine.candidates import Setup, SetupPolicy, machine_splits
from engine.exact import cents
from engine.fits import Fit
from engine.ladders import Ladder, Market
from engine.offers import GpuOffer


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A candidate that lost, and why. ``usd_per_hour`` is None where it has no price."""

    gpu: str
    weight_format: str
    gpu_count: int
    reason: str
    usd_per_hour: Decimal | None = None
    offer: GpuOffer | None = None


def rejections(
    known: Sequence[Fit],
    usable: Sequence[Fit],
    ranked: Sequence[Setup],
    late: Sequence[tuple[Setup, str]],
    split: Market,
    faith: Mapping[str, int],
    policy: SetupPolicy,
    licence: str,
) -> tuple[Rejected, ...]:
    """First what looks cheaper than the winner, cheapest first, then what is dearer, then what has no price, by GPU."""
    if licence:
        return (Rejected(gpu="", weight_format="", gpu_count=0, reason=licence),)
    priced = {(setup.gpu, setup.weight_format) for setup in (*ranked, *(setup for setup, _ in late))}
    refused = [r for fit in known for r in _refused(fit, split, faith, policy)]
    refused += [_lost(setup.fit, reason, setup.usd_per_hour, setup.offer) for setup, reason in late]
    cheaper = [candidate for candidate in refused if _beats(candidate, ranked)]
    unsold = [r for fit in _smallest(usable) if (fit.gpu, fit.weight_format) not in priced for r in _unsold(fit, split.of(fit.gpu))]
    misfits = [_lost(fit, fit.reason) for fit in known if not fit.fits]
    return (*sorted(_once(cheaper), key=_by_price), *_dearer(ranked), *unsold, *misfits)


def _refused(fit: Fit, split: Market, faith: Mapping[str, int], policy: SetupPolicy) -> Iterator[Rejected]:
    """The fit as it would be bought if the policy allowed everything, wherever the policy has a word against it."""
    if not fit.fits:
        return
    coarse = policy.fit_refusal(fit, faith[fit.weight_format])
    ladders = {"": split.of(fit.gpu), **split.refused.get(fit.gpu, {})}
    for refusal, prices in ladders.items():
        for machines, gpus in machine_splits(fit):
            found = prices.holding(gpus, machines)
            reason = refusal or coarse or policy.machines_refusal(fit, machines)
            if found is not None and reason:
                yield _lost(fit, reason, machines * found.usd_per_hour, found.offer)


def _beats(candidate: Rejected, ranked: Sequence[Setup]) -> bool:
    return not ranked or (candidate.usd_per_hour is not None and candidate.usd_per_hour < ranked[0].usd_per_hour)


def _once(candidates: Sequence[Rejected]) -> list[Rejected]:
    """The cheapest for each GPU and reason: the same offer refuses every larger fit too."""
    best: dict[tuple[str, str], Rejected] = {}
    for candidate in candidates:
        key = (candidate.gpu, candidate.reason)
        if key not in best or _by_price(candidate) < _by_price(best[key]):
            best[key] = candidate
    return list(best.values())


def _by_price(candidate: Rejected) -> tuple[Decimal, int, str, str]:
    return (candidate.usd_per_hour or Decimal(0), candidate.gpu_count, candidate.gpu, candidate.weight_format)


def _dearer(ranked: Sequence[Setup]) -> Iterator[Rejected]:
    for setup in ranked[1:]:
        yield _lost(setup.fit, _why_behind(setup, ranked[0]), setup.usd_per_hour, setup.offer)


def _why_behind(setup: Setup, winner: Setup) -> str:
    if setup.behind and not winner.behind:
        return f"takes {setup.machines} machines, one is preferred"
    more = setup.usd_per_hour - winner.usd_per_hour
    return f"${cents(more):,} an hour more than the cheapest" if more else "as cheap; the tie goes by fidelity, fewer GPUs, then names"


def _smallest(usable: Sequence[Fit]) -> list[Fit]:
    least: dict[tuple[str, str], Fit] = {}
    for fit in usable:
        key = (fit.gpu, fit.weight_format)
        if key not in least or fit.gpu_count < least[key].gpu_count:
            least[key] = fit
    return list(least.values())


def _unsold(fit: Fit, prices: Ladder) -> Iterator[Rejected]:
    if prices.unit is None:
        yield _lost(fit, "no eligible offer of this GPU")
    elif not any(prices.holding(gpus, machines) for machines, gpus in machine_splits(fit)):
        most = f"the largest machine on offer has {prices.largest}" if prices.largest else "no offer can be bought at its price"
        yield _lost(fit, f"nobody sells {fit.gpu_count} together: {most}")


def _lost(fit: Fit, reason: str, usd_per_hour: Decimal | None = None, offer: GpuOffer | None = None) -> Rejected:
    return Rejected(
        gpu=fit.gpu,
        weight_format=fit.weight_format,
        gpu_count=fit.gpu_count,
        reason=reason,
        usd_per_hour=usd_per_hour,
        offer=offer,
    )
