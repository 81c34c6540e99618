"""``budget``: what the month has cost so far, what it comes to, and every price it was reckoned at."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from fractions import Fraction
from typing import Annotated

import typer

from engine.budgets import Span
from engine.exact import cents, to_decimal
from tracker.budgets.costs import budgets_at
from tracker.budgets.facts import budget_facts
from tracker.budgets.prices import History
from tracker.budgets.sellers import doubts, sellers
from tracker.budgets.state import BudgetState, Part
from tracker.cli.receipts import Explain
from tracker.cli.session import Json, print_json, print_table, say, session
from tracker.database.handle import reading
from tracker.errors import BreakevenError, UnknownName, did_you_mean
from tracker.present import money

HEADER = ("budget", "month", "so far", "comes to", "planned", "of plan", "hours unknown", "most of it")


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(budget)


def budget(
    name: Annotated[str, typer.Argument(help="Only this one of tracker.toml.")] = "", explain: Explain = False, as_json: Json = False
) -> None:
    """The month to date of each budget of tracker.toml, and what the whole month comes to at the prices of now."""
    here = session()
    known = here.world.settings.budget.root
    if name and name not in known:
        raise UnknownName(f"no budget named {name!r}{did_you_mean(name, known)}; tracker.toml has {', '.join(known) or 'none'}")
    if not known:
        raise BreakevenError("tracker.toml has no budget; write [budget.NAME] with usd_per_month and what it is for")
    with reading(here.db) as connection:
        states = budgets_at(connection, here.world, History(here.world), here.now)
        for doubt in doubts(here.world, lambda: sellers(connection)):
            print(f"breakeven: tracker.toml: {doubt}", file=sys.stderr)  # aside: what is asked for may be JSON
    shown = [state for state in states if name in ("", state.name)]
    if as_json:
        print_json({"at": here.now, "budgets": [budget_facts(state) for state in shown]})
        return
    print_table(HEADER, [_cells(state) for state in shown], numbers=(2, 3, 4, 5, 6))
    for state in shown if explain else ():
        for part in state.parts:
            say(f"\n{state.name}: {part.what}")
            for line in _receipt(state, part):
                say(f"  {line}")


def _cells(state: BudgetState) -> tuple[str, ...]:
    projected, spent, share = state.projected_usd, state.spent_usd, state.projected_share
    return (
        state.name, state.month_name, "?" if spent is None else money(spent), "?" if projected is None else money(projected),
        money(state.budget_usd), "?" if share is None else f"{share:.0%}",
        f"{state.unknown_hours:.1f}" if state.unknown_hours else "", state.driver.what,
    )  # fmt: skip


def _receipt(state: BudgetState, part: Part) -> Iterator[str]:
    """Every stretch with its price, their sum, and what is counted on for the rest of the month."""
    yield from (_span_line(span) for span in part.spans)
    if part.spent.unknown_hours:
        yield f"no price is known for {_figure(part.spent.unknown_hours)} h: they are not in it"
    yield f"so far {state.month:%Y-%m-%d} to {state.at:%Y-%m-%d %H:%M} UTC: {_usd(state.spent_by(part))}"
    yield f"to the end of the month, {part.how}: {_usd(part.ahead)}"


def _usd(value: Fraction | None) -> str:
    return "not known" if value is None else f"${cents(to_decimal(value)):,f}"


def _span_line(span: Span) -> str:
    stretch = f"{span.start:%Y-%m-%d %H:%M} to {span.end:%Y-%m-%d %H:%M}: {_figure(span.hours)} h"
    if span.usd_per_hour is None or span.usd is None:
        return f"{stretch} unknown ({span.note})"
    return f"{stretch} x ${_figure(span.usd_per_hour)}/h = ${cents(to_decimal(span.usd)):,f} ({span.note})"


def _figure(value: Fraction) -> str:
    """At most six places."""
    text = f"{to_decimal(value):,.6f}"
    return text.rstrip("0").rstrip(".")
