"""Rows of one sweep against each other: regions of one machine, spot against on demand, many GPUs against one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from statistics import median

from tracker.exchange import Exchange
from tracker.guard.doubts import SOURCE, Doubt, factor
from tracker.guard.settings import GuardSettings
from tracker.rows import OfferRow

Group = tuple[object, ...]
FIRM = ("list", "ask")


@dataclass(slots=True)
class Contradictions:
    """Doubts by identity, and what looked odd and was kept."""

    doubts: dict[str, list[Doubt]] = field(default_factory=dict)
    warned: Counter[str] = field(default_factory=Counter)

    def add(self, key: str, reason: str) -> None:
        """Hold a row until it no longer contradicts another, or a second source says the same."""
        self.doubts.setdefault(key, []).append(Doubt(reason, SOURCE))


@dataclass(frozen=True, slots=True)
class _Priced:
    key: str
    row: OfferRow
    usd: Decimal  # per GPU-hour


def contradictions(rows: Mapping[str, OfferRow], moved: frozenset[str], settings: GuardSettings, exchange: Exchange) -> Contradictions:
    """What rows of one sweep say against each other. Only ``moved`` ones, new or at another price than before, can be doubted."""
    found = Contradictions()
    if not moved:
        return found
    priced = [_Priced(key, row, usd / row.gpu_count) for key, row in rows.items() if (usd := _usd(row, exchange)) and not row.is_slice]
    middles = _regions(priced, moved, settings, found)
    _spot(priced, middles, moved, settings, found)
    _counts(priced, moved, settings, found)
    return found


def _usd(row: OfferRow, exchange: Exchange) -> Decimal | None:
    return exchange.usd(row.native_per_hour, row.currency)


def _grouped(priced: Iterable[_Priced], names: tuple[str, ...]) -> dict[Group, list[_Priced]]:
    groups: dict[Group, list[_Priced]] = {}
    for one in priced:
        groups.setdefault(tuple(getattr(one.row, name) for name in names), []).append(one)
    return groups


_MACHINE = ("provider", "sku", "gpu", "gpu_count", "tier", "term_months", "trust", "valid_from")


def _regions(priced: list[_Priced], moved: frozenset[str], settings: GuardSettings, found: Contradictions) -> dict[Group, Decimal]:
    """One machine costs about the same everywhere, except as spot. Gives the middle price of each machine."""
    middles: dict[Group, Decimal] = {}
    for machine, group in _grouped(priced, _MACHINE).items():
        if len({one.row.region for one in group}) < settings.regions:
            continue
        middle = middles[machine] = median(one.usd for one in group)
        for one in group:
            if one.key in moved and one.row.tier != "spot" and factor(one.usd, middle) >= settings.region:
                found.add(one.key, f"{factor(one.usd, middle):.1f} times {'below' if one.usd < middle else 'above'} its other regions")
    return middles


_PLACE = ("provider", "sku", "region", "gpu", "gpu_count", "trust")


def _spot(
    priced: list[_Priced], middles: Mapping[Group, Decimal], moved: frozenset[str], settings: GuardSettings, found: Contradictions
) -> None:
    """Spot and reserved prices against on demand. One of the two is wrong when they contradict: both wait, but a listed one stays."""
    for group in _grouped(priced, _PLACE).values():
        base = [one for one in group if one.row.tier == "on_demand" and one.row.valid_from is None]
        for on_demand in base:
            for other in group:
                if other.row.tier != "on_demand" and not {other.key, on_demand.key}.isdisjoint(moved):
                    _against(other, on_demand, middles, moved, settings, found)


def _against(
    other: _Priced,
    on_demand: _Priced,
    middles: Mapping[Group, Decimal],
    moved: frozenset[str],
    settings: GuardSettings,
    found: Contradictions,
) -> None:
    tier, spot = other.row.tier.replace("_", " "), settings.spot
    middle = middles.get(tuple(getattr(on_demand.row, name) for name in _MACHINE), on_demand.usd)
    usual = max(on_demand.usd, middle)
    if other.usd < usual * spot.least_share and other.key in moved:
        found.add(other.key, f"{tier} price is {other.usd / usual:.0%} of on demand: a part of it is missing")
    if other.usd <= on_demand.usd * spot.most_share:
        return
    reason = f"{tier} price above on demand"
    if other.row.provider not in spot.strict:
        found.warned[reason] += 1
        return
    for one in (other, on_demand):
        if one.key in moved and one.key not in found.doubts:
            found.add(one.key, reason)


_SERIES = ("provider", "gpu", "region", "tier", "term_months", "trust", "valid_from")


def _counts(priced: list[_Priced], moved: frozenset[str], settings: GuardSettings, found: Contradictions) -> None:
    """A GPU-hour of a machine with several GPUs against that of machines with one."""
    firm = [one for one in priced if one.row.price_kind in FIRM]
    for group in _grouped(firm, _SERIES).values():
        singles = [one for one in group if one.row.gpu_count == 1]
        several = [one for one in group if one.row.gpu_count > 1]
        if not singles or not several:
            continue
        low, high = min(one.usd for one in singles), max(one.usd for one in singles)
        off = [one for one in several if one.usd <= low / settings.count or one.usd >= high * settings.count]
        for one in _suspects(singles, several, off):
            if one.key in moved:
                found.add(one.key, f"price per GPU contradicts that of {'machines with one GPU' if one in off else 'larger machines'}")


def _suspects(singles: list[_Priced], several: list[_Priced], off: list[_Priced]) -> Iterator[_Priced]:
    """Those that are off, unless all larger machines agree with each other and not with the single ones: then these."""
    counts = {one.row.gpu_count for one in several}
    alike = len(counts) > 1 and max(one.usd for one in several) < min(one.usd for one in several) * Decimal("1.5")
    yield from singles if off and len(off) == len(several) and alike else off
