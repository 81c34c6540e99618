"""Rows of one sweep against each other: regions of one machine, spot against on demand, many GPUs against one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from operator import attrgetter
from statistics import median

from engine.offers import FIRM
from tracker.book.exchange import Exchange
from tracker.database.rows import OfferRow
from tracker.guard.doubts import SOURCE, Doubt, factor
from tracker.guard.settings import GuardSettings

Group = tuple[object, ...]


@dataclass(slots=True)
class Contradictions:
    """Doubts by identity, and what looked odd and was kept."""

    doubts: dict[str, list[Doubt]] = field(default_factory=dict)
    warned: Counter[str] = field(default_factory=Counter)

    def add(self, key: str, reason: str) -> None:
        """Hold a row until it no longer contradicts another, or a second source says the same."""
        self.doubts.setdefault(key, []).append(Doubt(reason, SOURCE))


@dataclass(slots=True)
class _Priced:
    """A row that can be compared; its price is worked out when it is."""

    key: str
    row: OfferRow
    exchange: Exchange
    _usd: Decimal | None = None

    @property
    def usd(self) -> Decimal:
        """Per GPU-hour."""
        if self._usd is None:
            self._usd = (self.exchange.usd(self.row.native_per_hour, self.row.currency) or Decimal(0)) / self.row.gpu_count
        return self._usd


def contradictions(rows: Mapping[str, OfferRow], moved: frozenset[str], settings: GuardSettings, exchange: Exchange) -> Contradictions:
    """What rows of one sweep say against each other. Only ``moved`` ones, new or at another price than before, can be doubted."""
    found = Contradictions()
    near = {_near(rows[key]) for key in moved if key in rows}
    if not near:
        return found
    comparable = {currency: exchange.usd(Decimal(1), currency) for currency in {row.currency for row in rows.values()}}
    priced = [
        _Priced(key, row, exchange)
        for key, row in rows.items()
        if _near(row) in near and row.price and comparable[row.currency] and not row.is_slice
    ]
    machines = _Machines(priced, settings)
    _regions(priced, moved, settings, found)
    _spot(priced, machines, moved, settings, found)
    _counts(priced, moved, settings, found)
    return found


_near = attrgetter("provider", "gpu")  # rows that differ in these are not compared


def _grouped(priced: Sequence[_Priced], names: tuple[str, ...], moved: frozenset[str] | None = None) -> dict[Group, list[_Priced]]:
    """Rows that agree in these columns; only groups with a moved row where those are told."""
    of = attrgetter(*names)
    wanted = None if moved is None else {of(one.row) for one in priced if one.key in moved}
    groups: dict[Group, list[_Priced]] = {}
    for one in priced:
        group = of(one.row)
        if wanted is None or group in wanted:
            groups.setdefault(group, []).append(one)
    return groups


_MACHINE = ("provider", "sku", "gpu", "gpu_count", "tier", "term_months", "trust", "valid_from")
_machine = attrgetter(*_MACHINE)


@dataclass
class _Machines:
    """The middle price of a machine over its regions, where they are enough to tell. Without slots: its groups are kept in it."""

    priced: Sequence[_Priced]
    settings: GuardSettings

    @cached_property
    def _groups(self) -> dict[Group, list[_Priced]]:
        return _grouped(self.priced, _MACHINE)

    def middle(self, row: OfferRow) -> Decimal | None:
        """USD per GPU-hour."""
        return middle_of(self._groups[_machine(row)], self.settings)


def middle_of(group: Sequence[_Priced], settings: GuardSettings) -> Decimal | None:
    """The middle price of one machine; None where it is in too few regions."""
    return median(one.usd for one in group) if len({one.row.region for one in group}) >= settings.regions else None


def _regions(priced: Sequence[_Priced], moved: frozenset[str], settings: GuardSettings, found: Contradictions) -> None:
    """One machine costs about the same everywhere, except as spot."""
    for group in _grouped(priced, _MACHINE, moved).values():
        if (middle := middle_of(group, settings)) is None:
            continue
        for one in group:
            if one.key in moved and one.row.tier != "spot" and factor(one.usd, middle) >= settings.region:
                found.add(one.key, f"{factor(one.usd, middle):.1f} times {'below' if one.usd < middle else 'above'} its other regions")


_PLACE = ("provider", "sku", "region", "gpu", "gpu_count", "trust")


def _spot(priced: Sequence[_Priced], machines: _Machines, moved: frozenset[str], settings: GuardSettings, found: Contradictions) -> None:
    """Spot and reserved prices against on demand. One of the two is wrong when they contradict: both wait, but a listed one stays.

    An on-demand price that its other regions contradict is no measure; what they ask is.
    """
    apart = frozenset(found.doubts)
    for group in _grouped(priced, _PLACE, moved).values():
        base = [one for one in group if one.row.tier == "on_demand" and one.row.valid_from is None]
        for on_demand in base:
            for other in group:
                if other.row.tier != "on_demand" and not {other.key, on_demand.key}.isdisjoint(moved):
                    _against(other, on_demand, machines, on_demand.key in apart, moved, settings, found)


def _against(
    other: _Priced,
    on_demand: _Priced,
    machines: _Machines,
    is_apart: bool,
    moved: frozenset[str],
    settings: GuardSettings,
    found: Contradictions,
) -> None:
    tier, spot = other.row.tier.replace("_", " "), settings.spot
    middle = machines.middle(on_demand.row) or on_demand.usd
    usual = max(on_demand.usd, middle)
    if other.usd < usual * spot.least_share and other.key in moved:
        found.add(other.key, f"{tier} price is {other.usd / usual:.0%} of on demand: a part of it is missing")
    if other.usd <= (middle if is_apart else on_demand.usd) * spot.most_share:
        return
    reason = f"{tier} price above on demand"
    if other.row.provider not in spot.strict:
        found.warned[reason] += 1
        return
    for one in (other, on_demand):
        if one.key in moved and one.key not in found.doubts:
            found.add(one.key, reason)


_SERIES = ("provider", "gpu", "region", "tier", "term_months", "trust", "valid_from")


def _counts(priced: Sequence[_Priced], moved: frozenset[str], settings: GuardSettings, found: Contradictions) -> None:
    """A GPU-hour of a machine with several GPUs against that of machines with one."""
    firm = [one for one in priced if one.row.price_kind in FIRM]
    for group in _grouped(firm, _SERIES, moved).values():
        singles = [one for one in group if one.row.gpu_count == 1]
        several = [one for one in group if one.row.gpu_count > 1]
        if not singles or not several:
            continue
        low, high = min(one.usd for one in singles), max(one.usd for one in singles)
        off = [one for one in several if not low / (limit := _count_limit(one.row, settings)) < one.usd < high * limit]
        for one in _suspects(singles, several, off):
            if one.key in moved:
                found.add(one.key, f"price per GPU contradicts that of {'machines with one GPU' if one in off else 'larger machines'}")


def _count_limit(row: OfferRow, settings: GuardSettings) -> Decimal:
    """How many times off the single ones. Some providers' spot prices of two series move apart; one read per GPU is off by the count."""
    moves = row.tier == "spot" and row.provider in settings.spot.apart
    return max(settings.count, Decimal(row.gpu_count) / 2) if moves else settings.count


def _suspects(singles: list[_Priced], several: list[_Priced], off: list[_Priced]) -> Iterator[_Priced]:
    """Those that are off, unless all larger machines agree with each other and not with the single ones: then these."""
    counts = {one.row.gpu_count for one in several}
    alike = len(counts) > 1 and max(one.usd for one in several) < min(one.usd for one in several) * Decimal("1.5")
    yield from singles if off and len(off) == len(several) and alike else off
