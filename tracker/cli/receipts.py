"""``--explain``: the receipt of every figure as a table."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Annotated

import typer

from engine.receipts import Receipt
from tracker.answers.explain import Section
from tracker.cli.session import print_table

Explain = Annotated[bool, typer.Option("--explain", help="Print formula, inputs and sources of every figure.")]
SHOWN_PLACES = 10  # decimals of a quotient that does not end; --json keeps them all


def print_sections(sections: Iterable[Section]) -> None:
    """One table a section."""
    for section in sections:
        print_receipt(section.lines, title=section.title)


def print_receipt(receipt: Receipt, title: str = "") -> None:
    """Name, value, unit, formula and source of each line."""
    lines = [(line.name, value_text(line.value), line.unit, line.formula, line.source) for line in receipt]
    print_table(("", "value", "unit", "formula", "source"), lines, numbers=(1,), title=title)


def value_text(value: Decimal | int | str | None) -> str:
    """A value for a reader; "?" where it is unknown."""
    if value is None:
        return "?"
    if isinstance(value, Decimal) and -int(value.as_tuple().exponent) > SHOWN_PLACES:
        value = value.quantize(Decimal(1).scaleb(-SHOWN_PLACES), rounding=ROUND_HALF_EVEN)
    return value if isinstance(value, str) else f"{value:,}"
