"""What one could rent for a model: a fit with the machines and the offer it runs on, as one can buy it or as an indication."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Literal

from engine.counts import USUAL_NODE
from engine.fits import Fit
from engine.formats import WeightFormat, fidelity_of
from engine.ladders import Ladder
from engine.models import Licence, ModelSpec
from engine.offers import GpuOffer, OfferPolicy
from engine.receipts import Receipt, ReceiptLine
from engine.units import HOURS_PER_MONTH, usd_per_month

SetupKind = Literal["buyable", "indicative"]
SeveralMachines = Literal["last", "never", "equal"]
SetupOrder = tuple[bool, Decimal, int, int, str, str, str, str, str, int]

FOUR_BIT = 40  # rank of the 4-bit formats; coarser ones are another model in practice and are ranked only when asked
FULL_FIDELITY = 100  # rank of 16 bit, and of the format a model ships in


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupPolicy:
    """What may be ranked for a model, beside its memory."""

    offers: OfferPolicy = field(default_factory=OfferPolicy)
    min_fidelity: int = FOUR_BIT
    several_machines: SeveralMachines = "last"  # rank them after every setup on one machine, never, or by cost alone
    llama_cpp_over_network: bool = False  # several machines with llama.cpp work, and crawl
    refused_licences: frozenset[str] = frozenset()

    def fit_refusal(self, fit: Fit, fidelity: int) -> str:
        """Why a fit may not be ranked whatever it costs; "" where it may."""
        if not fit.fits:
            return fit.reason
        if fidelity < self.min_fidelity:
            return f"{fit.weight_format} is coarser than asked for"
        return ""

    def machines_refusal(self, fit: Fit, machines: int) -> str:
        """Why so many machines may not be rented for it; "" where they may."""
        if machines > 1 and fit.engine == "llama.cpp" and not self.llama_cpp_over_network:
            return f"llama.cpp over {machines} machines is not asked for"
        if self.several_machines == "never" and spread_out(fit, machines):
            return f"{machines} machines are not asked for"
        return ""

    def licence_refusal(self, licence: Licence | None) -> str:
        """Why the model may not be used at all; "" where it may."""
        refused = licence is not None and licence.name in self.refused_licences
        return f"licence {licence.name} is refused" if licence is not None and refused else ""


DEFAULT_SETUPS = SetupPolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What one would rent. ``gpu_count_needed`` hold the model; ``gpu_count_rented`` are paid for, over ``machines`` equal machines.

    ``behind``: it spans machines and the policy ranks it after every setup on one machine.
    """

    kind: SetupKind
    fit: Fit
    offer: GpuOffer
    fidelity: int
    machines: int
    gpu_count_rented: int
    usd_per_hour: Decimal
    behind: bool = False

    @property
    def model(self) -> str:
        """Id of the model."""
        return self.fit.model

    @property
    def gpu(self) -> str:
        """Id of the GPU."""
        return self.fit.gpu

    @property
    def weight_format(self) -> str:
        """Id of the weight format."""
        return self.fit.weight_format

    @property
    def gpu_count_needed(self) -> int:
        """GPUs that hold the model."""
        return self.fit.gpu_count

    @property
    def buyable(self) -> bool:
        """Whether it can be rented as it stands."""
        return self.kind == "buyable"

    @property
    def usd_per_month(self) -> Decimal:
        """USD per 730-hour month, from the unrounded hourly price."""
        return usd_per_month(self.usd_per_hour)

    @property
    def seen_at(self) -> datetime:
        """When the price was last seen."""
        return self.offer.seen_at

    @property
    def order(self) -> SetupOrder:
        """Sorts setups: one machine, cost, fidelity, fewer GPUs, then names, so that equal ones never trade places."""
        offer = self.offer
        return (
            self.behind,
            self.usd_per_hour,
            -self.fidelity,
            self.gpu_count_rented,
            offer.provider,
            offer.sku,
            offer.region,
            self.gpu,
            self.weight_format,
            self.gpu_count_needed,
        )

    @property
    def receipt(self) -> Receipt:
        """How the price came about."""
        offer = self.offer
        where = " ".join(part for part in (offer.provider, offer.sku, offer.region) if part)
        seen = f"{offer.source_url or offer.source}, seen {offer.seen_at:%Y-%m-%d %H:%M} UTC"
        per_hour = "machines * price of a machine" if self.buyable else "GPUs * lowest price per GPU"
        return (
            ReceiptLine(name=f"{where}: {offer.gpu_count} x {offer.gpu}", value=offer.usd_per_hour, unit="USD/hour", source=seen),
            ReceiptLine(name="GPUs needed", value=self.gpu_count_needed),
            ReceiptLine(name="machines", value=self.machines),
            ReceiptLine(name="GPUs rented", value=self.gpu_count_rented),
            ReceiptLine(name="price", value=self.usd_per_hour, unit="USD/hour", formula=per_hour),
            ReceiptLine(name="price", value=self.usd_per_month, unit="USD/month", formula=f"USD/hour * {HOURS_PER_MONTH}"),
        )


def fidelities(model: ModelSpec, formats: Mapping[str, WeightFormat]) -> dict[str, int]:
    """Fidelity of every format for the model; the one it ships in ranks like 16 bit."""
    return {form.id: fidelity_of(form, model.native_format, FULL_FIDELITY) for form in formats.values()}


def buyable_setups(fit: Fit, prices: Ladder, faith: Mapping[str, int], policy: SetupPolicy) -> Iterator[Setup]:
    """The fit on one machine, and on equal machines where it spans several, as far as they are sold and asked for."""
    for machines, gpus in machine_splits(fit):
        found = prices.holding(gpus, machines)
        if found is not None and not policy.machines_refusal(fit, machines):
            yield Setup(
                kind="buyable",
                fit=fit,
                offer=found.offer,
                fidelity=faith[fit.weight_format],
                machines=machines,
                gpu_count_rented=machines * found.gpu_count,
                usd_per_hour=machines * found.usd_per_hour,
                behind=policy.several_machines == "last" and spread_out(fit, machines),
            )


def indicative_setups(fit: Fit, prices: Ladder, faith: Mapping[str, int], policy: SetupPolicy) -> Iterator[Setup]:
    """The fit at the lowest price per GPU, whether or not anybody sells that many together."""
    machines = -(-fit.gpu_count // max(USUAL_NODE, fit.gpu_count // fit.nodes))
    if prices.unit is not None and not policy.machines_refusal(fit, machines):
        yield Setup(
            kind="indicative",
            fit=fit,
            offer=prices.unit.offer,
            fidelity=faith[fit.weight_format],
            machines=machines,
            gpu_count_rented=fit.gpu_count,
            usd_per_hour=prices.unit.offer.usd_per_hour_for(fit.gpu_count),
            behind=policy.several_machines == "last" and spread_out(fit, machines),
        )


def spread_out(fit: Fit, machines: int) -> bool:
    """Whether it takes a network between machines: two trays of four in one rack count as the usual machine of eight."""
    return machines > 1 and fit.gpu_count > USUAL_NODE


def machine_splits(fit: Fit) -> Iterator[tuple[int, int]]:
    """Ways to spread the fit over equal machines, as (machines, GPUs on each): one, its nodes, or the usual machines of eight."""
    yield 1, fit.gpu_count
    if fit.nodes > 1 and fit.gpu_count % fit.nodes == 0:
        yield fit.nodes, fit.gpu_count // fit.nodes
    if fit.nodes > 1 and fit.gpu_count > USUAL_NODE and fit.gpu_count // fit.nodes < USUAL_NODE and fit.gpu_count % USUAL_NODE == 0:
        yield fit.gpu_count // USUAL_NODE, USUAL_NODE
