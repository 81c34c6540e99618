"""Why a price is held back, what would release it, and how two prices are compared."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from scrapers.contract import ScrapeError
from tracker.book.listing import Prices

REPEAT = "repeat"  # the same price in the next sweeps, or a second source
SOURCE = "source"  # a second source: what contradicts it is not mended by being printed again
HAND = "hand"  # a person
RELEASES = (REPEAT, SOURCE, HAND)  # from easy to hard


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why a price waits, and for what."""

    reason: str
    release: str = REPEAT


class SweepRefused(ScrapeError):
    """A sweep that cannot be true: nothing of it is kept. ``fault`` says in which way, so that a person can accept it."""

    def __init__(self, fault: str, message: str) -> None:
        super().__init__(message)
        self.fault = fault


def hardest(doubts: list[Doubt]) -> Doubt:
    """All reasons, and the hardest of what they wait for."""
    reason = "; ".join(dict.fromkeys(doubt.reason for doubt in doubts))
    return Doubt(reason, max((doubt.release for doubt in doubts), key=RELEASES.index))


def factor(one: int | Decimal, other: int | Decimal) -> Decimal:
    """How many times the larger of two positive prices is the smaller."""
    low, high = sorted((Decimal(one), Decimal(other)))
    return high / low


def close(one: Prices, other: Prices, tolerance: Decimal) -> bool:
    """Whether two prices are the same within ``tolerance`` of the larger, in every component."""
    return all(_near(one.get(name), other.get(name), tolerance) for name in one.keys() | other.keys())


def _near(one: int | None, other: int | None, tolerance: Decimal) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) <= tolerance * max(abs(one), abs(other))


def distance(one: Prices, other: Prices) -> Decimal:
    """The largest factor between two prices over the components that are known and above 0 in both; 1 without one."""
    pairs = ((one[name], other.get(name)) for name in one)
    return max((factor(a, b) for a, b in pairs if a and b), default=Decimal(1))
