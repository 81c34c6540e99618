"""Exact arithmetic where a quotient does not end: fractions inside, one Decimal at the end."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction

Number = Decimal | Fraction | int

CENT = Decimal("0.01")
_WIDE = Context(prec=50)  # holds any product of a price and a token count without rounding
_NARROW = Context(prec=28)  # digits kept of a quotient that does not end


def to_decimal(value: Fraction) -> Decimal:
    """The fraction as a Decimal: exact where it ends within 50 digits, else to 28 significant digits."""
    if _ends(value.denominator):
        return _plain(_WIDE.divide(Decimal(value.numerator), Decimal(value.denominator)))
    return _NARROW.divide(Decimal(value.numerator), Decimal(value.denominator))


def cents(amount: Decimal) -> Decimal:
    """The amount rounded half up to cents, for a reader; nothing computes with it."""
    return amount.quantize(CENT, rounding=ROUND_HALF_UP)


def _ends(denominator: int) -> bool:
    for prime in (2, 5):
        while denominator % prime == 0:
            denominator //= prime
    return denominator == 1


def _plain(value: Decimal) -> Decimal:
    """Without exponent: 12E+3 reads 12000."""
    return value if value.as_tuple().exponent in range(-50, 1) else value.quantize(Decimal(1), context=_WIDE)
