"""How far a price or the utilization must move before the verdict flips."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import floor

from engine.exact import Number, to_decimal
from engine.terms import Terms
from engine.units import MTOK


@dataclass(frozen=True, slots=True, kw_only=True)
class Flips:
    """Values at which renting and the API cost the same for one volume, everything else held. None: no value does it.

    ``rent_factor`` and ``api_factor`` are the values over today's: 0.5 says the price would have to halve.
    """

    replicas: int | None
    rent_usd_per_month: Decimal | None  # of one replica
    rent_factor: Decimal | None
    api_usd_per_mtok: Decimal
    api_factor: Decimal | None
    utilization: Decimal | None  # renting wins from here up


def flips(terms: Terms, tokens_per_month: Number) -> Flips:
    """The flips at a volume. With unknown capacity one replica is counted, and no utilization can be named."""
    volume = Fraction(tokens_per_month)
    replicas = terms.replicas(volume)
    count = replicas or 1
    rent = (terms.margin * volume / MTOK - terms.fixed) / count
    api = (count * terms.rent + terms.fixed) / volume * MTOK + terms.marginal
    return Flips(
        replicas=replicas,
        rent_usd_per_month=to_decimal(rent) if rent > 0 else None,
        rent_factor=to_decimal(rent / terms.rent) if rent > 0 and terms.rent else None,
        api_usd_per_mtok=to_decimal(api),
        api_factor=to_decimal(api / terms.api) if terms.api else None,
        utilization=_utilization(terms, volume),
    )


def _utilization(terms: Terms, volume: Fraction) -> Decimal | None:
    """V / (n K), n = floor((m V - f) / C): the most replicas the API bill pays for; None where none, or not even full use, does it."""
    if terms.full is None or terms.rent == 0:
        return None
    paid = floor((terms.margin * volume / MTOK - terms.fixed) / terms.rent)
    if paid < 1:
        return None
    needed = volume / (paid * terms.full)
    return to_decimal(needed) if needed <= 1 else None
