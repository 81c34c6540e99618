"""The inputs of a break-even as exact fractions, and the bills and volumes that follow from them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from engine.units import MTOK


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The inputs as exact fractions, money in USD a month and USD per Mtok, volumes in tokens."""

    rent: Fraction  # C, as billed
    fixed: Fraction  # f
    api: Fraction  # p
    marginal: Fraction  # v
    full: Fraction | None  # K x d: capacity of one replica at full use of the billed hours
    utilization: Fraction  # u

    @property
    def margin(self) -> Fraction:
        """USD a Mtok saved by serving it oneself: m = p - v."""
        return self.api - self.marginal

    @property
    def capacity(self) -> Fraction | None:
        """Tokens a month one replica serves at the utilization: k."""
        return None if self.full is None else self.full * self.utilization

    @property
    def volume(self) -> Fraction | None:
        """V* in tokens a month; None where the API is never dearer."""
        if self.margin > 0:
            return (self.rent + self.fixed) / self.margin * MTOK
        return Fraction(0) if self.margin == 0 and self.rent + self.fixed == 0 else None

    def replicas(self, tokens: Fraction) -> int | None:
        """Replicas that serve the volume at the utilization, at least one; None where the capacity is unknown."""
        return None if self.capacity is None else max(1, ceil(tokens / self.capacity))

    def api_usd(self, tokens: Fraction) -> Fraction:
        """API bill of the volume in USD."""
        return self.api * tokens / MTOK

    def self_host_usd(self, tokens: Fraction) -> Fraction:
        """Cost of serving the volume oneself in USD: n C + f + v V; with one replica, a lower bound, while the capacity is unknown."""
        return (self.replicas(tokens) or 1) * self.rent + self.fixed + self.marginal * tokens / MTOK

    def gain(self, capacity: Fraction) -> Fraction:
        """USD a month one full replica saves: g = m x k - C."""
        return self.margin * capacity / MTOK - self.rent
