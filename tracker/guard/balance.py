"""One price list entry against itself: input and output of a model lie within known proportions."""

from __future__ import annotations

from decimal import Decimal

from tracker.book.listing import Row
from tracker.database.rows import RateRow
from tracker.guard.doubts import SOURCE, Doubt
from tracker.guard.settings import GuardSettings


def balance_doubt(row: Row, settings: GuardSettings) -> Doubt | None:
    """Why input and output do not belong together, or None: swapped columns, or a dip of one of the two that nobody knows the past of."""
    if not isinstance(row, RateRow) or not row.input or not row.output:
        return None
    times = Decimal(row.output) / row.input
    if settings.token_balance.holds(times):
        return None
    return Doubt(f"output is {times:.2f} times input", SOURCE)
