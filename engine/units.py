"""Conversion factors, once. Sizes travel as ``int`` bytes, money as ``Decimal``, times as aware UTC.

``_gb`` is 10**9 bytes, ``_gib`` is 2**30 bytes, ``_mtok`` is 10**6 tokens.
"""

from __future__ import annotations

from decimal import Decimal

HOURS_PER_MONTH = 730  # the rental month of every figure named per month; a calendar month is called one
GB = 10**9
GIB = 2**30
MIB = 2**20
MTOK = 10**6
SECONDS_PER_MINUTE = 60
SECONDS_PER_HOUR = 3600
MINUTES_PER_HOUR = 60
HOURS_PER_DAY = 24
BITS_PER_BYTE = 8


def gb(size_bytes: int) -> Decimal:
    """Size in decimal gigabytes (10**9 bytes)."""
    return Decimal(size_bytes) / GB


def gib(size_bytes: int) -> Decimal:
    """Size in binary gibibytes (2**30 bytes)."""
    return Decimal(size_bytes) / GIB


def usd_per_month(usd_per_hour: Decimal) -> Decimal:
    """USD per 730-hour month for an hourly price; never rounded."""
    return usd_per_hour * HOURS_PER_MONTH
