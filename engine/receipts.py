"""How a number came about: its formula, inputs and sources, as lines a person can check by hand."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptLine:
    """One named value. ``formula`` is empty for an input; ``source`` says who stated an input and when."""

    name: str
    value: Decimal | int | str | None
    unit: str = ""
    formula: str = ""
    source: str = ""


Receipt = tuple[ReceiptLine, ...]
