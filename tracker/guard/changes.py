"""A price against its own past: how far it moved, whether one component moved alone, whether it came back, and where it has been."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from tracker.book.listing import Prices, Row, prices_of
from tracker.book.spans import DAY_S
from tracker.database.rows import OfferRow
from tracker.guard.doubts import Doubt, close, distance, factor
from tracker.guard.settings import GuardSettings

STILL = Decimal("1.25")  # a component that moved less than this stayed where it was
SAME = Decimal("0.005")  # of a factor: printed prices are rounded


def change_doubt(old: Prices, row: Row, settings: GuardSettings) -> Doubt | None:
    """Why a move from ``old`` to what ``row`` asks has to be confirmed, or None."""
    new = prices_of(row)
    if isinstance(row, OfferRow):
        return _far(old, new, _limit(row, settings)) or _slip(old, new, row.gpu_count)
    zeroed = [name for name, price in new.items() if price == 0 and old.get(name)]
    if zeroed:
        return Doubt(f"{_words(zeroed[0])} went to 0")
    return _far(old, new, _limit(row, settings)) or _alone(old, new, settings.token_alone) or _apart(old, new, settings.token_apart)


def _far(old: Prices, new: Prices, limit: Decimal) -> Doubt | None:
    for name, after in new.items():
        before = old.get(name)
        if before and after and factor(before, after) >= limit:
            return Doubt(f"{_words(name)} moved {factor(before, after):.2f} times {'down' if after < before else 'up'}")
    return None


def _slip(old: Prices, new: Prices, gpus: int) -> Doubt | None:
    """A move by just the number of GPUs: the price of one where that of the machine is due, or the other way round."""
    before, after = old["price"], new["price"]
    if gpus > 1 and before and after and abs(factor(before, after) / gpus - 1) <= SAME:
        return Doubt(f"price moved by the number of GPUs, {gpus} times {'down' if after < before else 'up'}")
    return None


def _alone(old: Prices, new: Prices, limit: Decimal) -> Doubt | None:
    """One component falls far while another stays: how a dip of one price looks, and a column read in another's place."""
    moves = {name: factor(before, after) for name, after in new.items() if (before := old.get(name)) and after}
    fell = [name for name, move in moves.items() if move >= limit and (new[name] or 0) < (old[name] or 0)]
    if fell and any(move < STILL for move in moves.values()):
        return Doubt(f"{_words(fell[0])} alone fell {moves[fell[0]]:.2f} times")
    return None


def _apart(old: Prices, new: Prices, limit: Decimal) -> Doubt | None:
    """One component rises and another falls: how two columns look that were read in each other's place."""
    moves = {name: Decimal(after) / before for name, after in new.items() if (before := old.get(name)) and after}
    rose, fell = ([name for name, move in moves.items() if found(move)] for found in (limit.__le__, lambda move: move * limit <= 1))
    return Doubt(f"{_words(rose[0])} rose while {_words(fell[0])} fell") if rose and fell else None


def flip_doubt(past: Sequence[tuple[int, Prices]], new: Prices, at: int, settings: GuardSettings) -> Doubt | None:
    """Why a return to the price before the last change has to be confirmed, or None."""
    if len(past) < 2 or at - past[-1][0] > settings.flip_days * DAY_S:
        return None
    (_, before), (_, last) = past[-2], past[-1]
    if close(before, new, settings.tolerance) and distance(last, new) >= settings.flip:
        return Doubt("back to the price before the last change")
    return None


def history_doubt(past: Sequence[tuple[int, Prices]], row: Row, at: int, settings: GuardSettings) -> Doubt | None:
    """Why a price far from the middle of its last days has to be confirmed, or None: small steps add up too."""
    start, limit = at - settings.history_days * DAY_S, max(settings.history, _limit(row, settings))
    for name, after in prices_of(row).items():
        middle = _middle(past, name, start, at)
        if after and middle and name in ("price", "input", "output") and factor(middle, after) >= limit:
            return Doubt(f"{_words(name)} is {factor(middle, after):.2f} times off the middle of {settings.history_days} days")
    return None


def _limit(row: Row, settings: GuardSettings) -> Decimal:
    """How far a price may move at once."""
    return settings.rent_limit(row.tier) if isinstance(row, OfferRow) else settings.token_change


def _middle(past: Sequence[tuple[int, Prices]], name: str, start: int, at: int) -> int | None:
    """The price that held at half the time between ``start`` and ``at``, from below; None when nothing was known."""
    if not past:
        return None
    ends = [*(moment for moment, _ in past[1:]), at]
    spans = [(price, end - max(moment, start)) for (moment, found), end in zip(past, ends, strict=True) if (price := found.get(name))]
    held = sorted((price, span) for price, span in spans if span > 0)
    whole, so_far = sum(span for _, span in held), 0
    for price, span in held:
        so_far += span
        if 2 * so_far >= whole:
            return price
    return None


def _words(name: str) -> str:
    return name.replace("_", " ")
