"""A price that nobody saw before against what is known of its own provider: other machines, other tiers, other sources, imported lists."""

from __future__ import annotations

from decimal import Decimal

from tracker.book.asof import IMPORTED
from tracker.book.listing import Row, prices_of
from tracker.database.rows import OfferRow
from tracker.guard.doubts import SOURCE, Doubt, close, factor
from tracker.guard.elsewhere import Elsewhere, same_thing, usd_of


def own_doubts(elsewhere: Elsewhere, row: Row) -> tuple[Doubt, ...]:
    """Why something new does not fit to what its provider is known to ask."""
    found = (relabelled(elsewhere, row), *(() if not isinstance(row, OfferRow) else (_steady(elsewhere, row), _rebate(elsewhere, row))))
    return tuple(doubt for doubt in found if doubt is not None)


def imported_twin(elsewhere: Elsewhere, row: Row) -> Row | None:
    """The imported row of the very same thing: what the book knew before its source was first read.

    Of several machines with the same GPUs the one of that name; None where no name tells which.
    """
    found = [told.row for told in elsewhere.about(row) if told.source.startswith(IMPORTED) and same_thing(told.row, row)]
    if isinstance(row, OfferRow):
        named = [one for one in found if isinstance(one, OfferRow) and one.sku == row.sku]
        found = [*named, *found][:1] if named or len(found) == 1 else []
    return found[0] if found else None


def relabelled(elsewhere: Elsewhere, row: Row) -> Doubt | None:
    """The very same thing at the same figure in another currency: the label moved, not the price.

    Of rents only imported ones say so: a provider may ask the same figure in the money of each of its price lists.
    """
    for told in elsewhere.about(row):
        speaks = told.source.startswith(IMPORTED) or (not isinstance(row, OfferRow) and not told.own and not told.waiting)
        same = speaks and told.row.currency != row.currency and same_thing(told.row, row)
        if same and close(prices_of(told.row), prices_of(row), elsewhere.settings.tolerance):
            return Doubt(f"{told.row.currency} of {told.source} is {row.currency} at the same figure", SOURCE)
    return None


def _steady(elsewhere: Elsewhere, row: OfferRow) -> Doubt | None:
    """A GPU-hour against all that the provider asks for that GPU in the tier. Spot prices of two places may lie far apart."""
    own, theirs = usd_of(row, "price", elsewhere.exchange), _usd(elsewhere, _akin(elsewhere, row, row.tier))
    if row.tier == "spot" or not own or not theirs:
        return None
    low, high, limit = min(theirs), max(theirs), elsewhere.settings.own
    if own * limit > low and own < high * limit:
        return None
    return Doubt(f"price per GPU is {factor(own, low if own < low else high):.1f} times off all others of {row.provider}")


def _rebate(elsewhere: Elsewhere, row: OfferRow) -> Doubt | None:
    """A spot or reserved price against what the provider asks on demand, of the same machine in the same place where that is known."""
    nearest = _nearest(row, _akin(elsewhere, row, "on_demand"))
    own, base = usd_of(row, "price", elsewhere.exchange), _usd(elsewhere, nearest)
    if row.tier == "on_demand" or not own or not base:
        return None
    spot, tier = elsewhere.settings.spot, row.tier.replace("_", " ")
    is_strict = row.provider in spot.strict and {(one.sku, one.region) for one in nearest} == {(row.sku, row.region)}
    if own > max(base) * (spot.most_share if is_strict else spot.far_share):
        return Doubt(f"{tier} price is {own / max(base):.1f} times that on demand", SOURCE)
    if own < min(base) * spot.least_share:
        return Doubt(f"{tier} price is {own / min(base):.0%} of on demand: a part of it is missing", SOURCE)
    return None


def _akin(elsewhere: Elsewhere, row: OfferRow, tier: str) -> list[OfferRow]:
    """Listed rents of the same GPU by the same provider in a tier."""
    told = (one.row for one in elsewhere.about(row) if not one.waiting and isinstance(one.row, OfferRow))
    thing = (row.provider, row.gpu, tier, row.is_slice)
    return [one for one in told if (one.provider, one.gpu, one.tier, one.is_slice) == thing]


def _nearest(row: OfferRow, others: list[OfferRow]) -> list[OfferRow]:
    """Those of the same machine and region, else of the machine, else all."""
    machine = [one for one in others if (one.sku, one.gpu_count, one.trust) == (row.sku, row.gpu_count, row.trust)]
    return [one for one in machine if one.region == row.region] or machine or others


def _usd(elsewhere: Elsewhere, rows: list[OfferRow]) -> list[Decimal]:
    """USD per GPU-hour of rents."""
    return [usd for row in rows if (usd := usd_of(row, "price", elsewhere.exchange))]
