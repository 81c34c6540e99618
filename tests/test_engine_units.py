"""Units are converted once, exactly, and decimal and binary sizes never mix."""

from __future__ import annotations

from decimal import Decimal

from engine.units import GB, GIB, HOURS_PER_MONTH, MIB, MTOK, gb, gib, usd_per_month

D = Decimal


def test_decimal_and_binary_sizes_differ() -> None:
    assert (GB, GIB, MIB, MTOK) == (1_000_000_000, 1_073_741_824, 1_048_576, 1_000_000)
    assert GIB == 1024 * MIB


def test_one_checkpoint_in_both_units() -> None:
    """Seed 003 prints 496 GiB, seed 001 prints 533 GB."""
    assert gb(533 * GB) == 533
    assert round(gib(533 * GB), 3) == D("496.395")


def test_a_month_has_730_hours_and_is_never_rounded() -> None:
    """Seed 003: 7 x 1.001 = 7.007 an hour is 5,115.11 a month; the rounded 7.01 would give 5,117.30."""
    assert HOURS_PER_MONTH == 730
    assert usd_per_month(7 * D("1.001")) == D("5115.110")
    assert usd_per_month(D("7.01")) == D("5117.30")
