"""The cheapest setup by trying everything: every model, format, fit and offer in turn. Slow, obvious, and what the index must equal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from engine.candidates import SetupPolicy
from engine.fits import Fit
from engine.offers import GpuOffer

Found = tuple[tuple[Any, ...], Fit, GpuOffer, int]


def naive_winner(
    fits_by_format: Mapping[str, Sequence[Fit]], fidelity: Mapping[str, int], offers: Iterable[GpuOffer], policy: SetupPolicy
) -> Found | None:
    """The winning (order, fit, offer, machines) of one model, or None."""
    known = tuple(offers)
    best: Found | None = None
    for form, fits in fits_by_format.items():
        if fidelity[form] < policy.min_fidelity:
            continue
        on_gpu = {gpu: [fit for fit in fits if fit.fits and fit.gpu == gpu] for gpu in {fit.gpu for fit in fits}}
        for offer in known:
            if policy.offers.refusal(offer) or offer.price_kind not in ("list", "ask"):
                continue
            for fit in on_gpu.get(offer.gpu, ()):
                for machines, per_machine in _splits(fit):
                    found = _priced(fit, fidelity[form], offer, machines, per_machine, policy)
                    if found is not None and (best is None or found[0] < best[0]):
                        best = found
    return best


def _splits(fit: Fit) -> list[tuple[int, int]]:
    """One machine; the fit's nodes; where a node is smaller than eight, machines of eight."""
    ways = {(1, fit.gpu_count)}
    if fit.nodes > 1 and fit.gpu_count % fit.nodes == 0:
        ways.add((fit.nodes, fit.gpu_count // fit.nodes))
    if fit.nodes > 1 and fit.gpu_count > 8 and fit.gpu_count % 8 == 0 and fit.gpu_count // fit.nodes < 8:
        ways.add((fit.gpu_count // 8, 8))
    return sorted(ways)


def _priced(fit: Fit, fidelity: int, offer: GpuOffer, machines: int, per_machine: int, policy: SetupPolicy) -> Found | None:
    over_network = machines > 1 and fit.gpu_count > 8
    if machines > 1 and (offer.price_kind != "list" or (fit.engine == "llama.cpp" and not policy.llama_cpp_over_network)):
        return None
    if over_network and policy.several_machines == "never":
        return None
    sold = offer.sold_count(per_machine)
    if sold is None:
        return None
    usd: Decimal = machines * offer.usd_per_hour_for(sold)
    behind = over_network and policy.several_machines == "last"
    names = (offer.provider, offer.sku, offer.region, fit.gpu, fit.weight_format, fit.gpu_count)
    return (behind, usd, -fidelity, machines * sold, *names), fit, offer, machines
