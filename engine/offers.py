"""A rentable unit and its price. Built by ``tracker.sweeps.resolve`` from what a source printed; refuses nonsense."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Literal

Tier = Literal["on_demand", "spot", "reserved"]
Trust = Literal["datacenter", "verified", "community", "unverified"]
Availability = Literal["available", "listed", "unavailable", "unknown"]
PriceKind = Literal["list", "ask", "starting_at", "indicative"]

TIERS: tuple[Tier, ...] = ("on_demand", "spot", "reserved")
TRUSTS: tuple[Trust, ...] = ("datacenter", "verified", "community", "unverified")
VOUCHED_FOR: tuple[Trust, ...] = ("datacenter", "verified")  # machines somebody vouches for
AVAILABILITIES: tuple[Availability, ...] = ("available", "listed", "unavailable", "unknown")
FIRM: tuple[PriceKind, ...] = ("list", "ask")  # what can be bought at its price
PRICE_KINDS: tuple[PriceKind, ...] = ("list", "ask", "starting_at", "indicative")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuOffer:
    """One rentable unit as seen at one time.

    ``usd_per_hour`` and ``native_per_hour`` are for the whole offer (all ``gpu_count`` GPUs), without VAT.
    ``max_gpu_count`` is set where any count from ``gpu_count`` up to it is sold on one machine at the same price per GPU.
    """

    provider: str
    source: str
    sku: str
    region: str
    gpu: str
    gpu_count: int
    max_gpu_count: int | None = None
    tier: Tier
    term_months: int | None = None
    trust: Trust = "datacenter"
    availability: Availability = "unknown"
    price_kind: PriceKind = "list"
    interconnect: str = "unknown"
    currency: str
    native_per_hour: Decimal
    usd_per_hour: Decimal
    fx_rate: Decimal = Decimal(1)  # native currency per USD
    fx_day: date | None = None  # None for a price printed in USD
    valid_from: datetime
    seen_at: datetime
    source_url: str = ""

    def __post_init__(self) -> None:
        for name in ("native_per_hour", "usd_per_hour"):
            value = getattr(self, name)
            if not value.is_finite() or value <= 0:
                raise ValueError(f"{self.provider} {self.sku}: {name} must be a finite number above 0, got {value}")
        if self.gpu_count < 1:
            raise ValueError(f"{self.provider} {self.sku}: gpu_count must be at least 1, got {self.gpu_count}")
        if self.max_gpu_count is not None and self.max_gpu_count < self.gpu_count:
            raise ValueError(f"{self.provider} {self.sku}: max_gpu_count {self.max_gpu_count} is below gpu_count {self.gpu_count}")
        if self.tier not in TIERS:
            raise ValueError(f"{self.provider} {self.sku}: unknown tier {self.tier!r}, expected one of {', '.join(TIERS)}")
        if self.seen_at.tzinfo is None or self.valid_from.tzinfo is None:
            raise ValueError(f"{self.provider} {self.sku}: times must be aware UTC")

    @property
    def usd_per_gpu_hour(self) -> Decimal:
        """USD per hour for one of the offer's GPUs."""
        return self.usd_per_hour / self.gpu_count

    def sold_count(self, gpus: int) -> int | None:
        """The smallest count of GPUs this one offer is sold at that holds ``gpus``; None when it cannot."""
        if gpus <= self.gpu_count:
            return self.gpu_count
        if self.max_gpu_count is not None and gpus <= self.max_gpu_count:
            return gpus
        return None

    def usd_per_hour_for(self, gpus: int) -> Decimal:
        """USD per hour for ``gpus`` GPUs, a count returned by :meth:`sold_count`."""
        return self.usd_per_hour * gpus / self.gpu_count


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferPolicy:
    """Which offers may be ranked. The default takes on-demand list prices and asks of machines somebody vouches for.

    ``starting_at`` and ``indicative`` prices buy nothing at that price: asked for, they enter indicative figures only.
    """

    tiers: tuple[Tier, ...] = ("on_demand",)
    trusts: tuple[Trust, ...] = VOUCHED_FOR
    availabilities: tuple[Availability, ...] = ("available", "listed", "unknown")
    price_kinds: tuple[PriceKind, ...] = FIRM
    providers: frozenset[str] | None = None
    excluded_providers: frozenset[str] = frozenset()
    regions: frozenset[str] | None = None
    interconnects: frozenset[str] | None = None  # between the GPUs of one machine
    max_term_months: int | None = None
    seen_since: datetime | None = None  # older prices are stale
    at: datetime | None = None  # a price announced for later does not hold yet

    def refusal(self, offer: GpuOffer) -> str:
        """Why the offer may not be ranked; "" where it may."""
        if offer.tier not in self.tiers:
            return f"tier {offer.tier} is not asked for"
        if offer.trust not in self.trusts:
            return f"trust {offer.trust} is not asked for"
        if offer.availability not in self.availabilities:
            return f"availability is {offer.availability}"
        if offer.price_kind not in self.price_kinds:
            return f"price is {offer.price_kind.replace('_', ' ')}"
        return self._place_refusal(offer) or self._time_refusal(offer)

    def _place_refusal(self, offer: GpuOffer) -> str:
        if offer.provider in self.excluded_providers or (self.providers is not None and offer.provider not in self.providers):
            return f"provider {offer.provider} is not asked for"
        if self.regions is not None and offer.region not in self.regions:
            return f"region {offer.region or 'unknown'} is not asked for"
        if self.interconnects is not None and offer.interconnect not in self.interconnects:
            return f"interconnect {offer.interconnect} is not asked for"
        return ""

    def _time_refusal(self, offer: GpuOffer) -> str:
        if self.max_term_months is not None and (offer.term_months or 0) > self.max_term_months:
            return f"term of {offer.term_months} months is too long"
        if self.seen_since is not None and offer.seen_at < self.seen_since:
            return "price is stale"
        if self.at is not None and offer.valid_from > self.at:
            return "price is announced for later"
        return ""


def is_firm(offer: GpuOffer) -> bool:
    """Whether the offer can be bought at its price."""
    return offer.price_kind in FIRM
