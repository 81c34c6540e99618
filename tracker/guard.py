"""Keeps implausible prices out of the book: bands per row, conflicts within a sweep, and sweeps that cannot be true."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from typing import TypeVar

from tracker.config import GuardSettings
from tracker.exchange import Exchange
from tracker.rows import OfferRow, RateRow, identity, values

R = TypeVar("R", OfferRow, RateRow)


def offer_fault(row: OfferRow, settings: GuardSettings, exchange: Exchange) -> str | None:
    """Why a rental price is implausible, or None. The band is USD per GPU-hour at the newest exchange rate."""
    usd = exchange.usd(row.native_per_hour, row.currency)
    if usd is None:
        return f"no exchange rate for {row.currency}"
    if not row.is_slice and not settings.min_usd_per_gpu_hour <= usd / row.gpu_count <= settings.max_usd_per_gpu_hour:
        return "price outside the plausible band"
    return None


def rate_fault(row: RateRow, settings: GuardSettings, exchange: Exchange) -> str | None:
    """Why a token price is implausible, or None. A missing kind is unknown, which is no fault."""
    prices = row.native
    if exchange.usd(Decimal(1), row.currency) is None:
        return f"no exchange rate for {row.currency}"
    for kind in ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output"):
        native = getattr(prices, kind)
        usd = None if native is None else exchange.usd(native, row.currency)
        if usd is not None and usd > settings.max_usd_per_mtok:
            return "price outside the plausible band"
    if prices.input is not None and prices.cache_read is not None and prices.cache_read > prices.input > 0:
        return "cached input dearer than input"
    return None


def without_conflicts(rows: Iterable[R], source: str, skipped: Counter[str]) -> list[R]:
    """Rows with one value per identity. Equal repeats collapse; a key printed with two different prices is held back whole."""
    kept: dict[str, R] = {}
    conflicting: set[str] = set()
    for row in rows:
        key = identity(source, row)
        if key in kept and values(kept[key]) != values(row):
            conflicting.add(key)
        kept.setdefault(key, row)
    if conflicting:
        skipped["same offer at two prices"] += len(conflicting)
    return [row for key, row in kept.items() if key not in conflicting]
