"""What the rule about budgets sees: whether the month comes to more than was planned for it, at the pace of now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from engine.exact import cents, to_decimal
from tracker.alerting.judge import Seen
from tracker.alerting.rules import BudgetPace
from tracker.alerting.view import OK, OVER, View
from tracker.budgets.state import BudgetState


def budget_paces(name: str, rule: BudgetPace, view: View) -> Iterator[Seen]:
    """Each budget of the month; a new month starts anew."""
    for state in view.snapshot.budgets:
        if not rule.budgets or state.name in rule.budgets:
            yield Seen(
                rule=name, kind=rule.kind, subject=f"budget/{state.name}", basis=state.month_name, seen_at=view.snapshot.at,
                label=_side(rule, state), start=OK, facts=budget_facts(state),
            )  # fmt: skip


def _side(rule: BudgetPace, state: BudgetState) -> str:
    """Over it by the margin, or within it; in between, before the month has begun to tell, and without a price, neither."""
    projected = state.projected_usd
    if projected is None or state.at - state.month < timedelta(hours=rule.after_hours):
        return ""
    if projected >= state.budget_usd * (1 + rule.margin_percent / 100):
        return OVER
    return OK if projected <= state.budget_usd else ""


def budget_facts(state: BudgetState) -> Mapping[str, Any]:
    """Where a budget stands, as plain values; money to the cent."""
    driver, projected, share = state.driver, state.projected_usd, state.projected_share
    spent, by_driver = state.spent_usd, state.spent_by(driver)
    return {
        "budget": state.name, "month": state.month_name, "budget_usd": f"{state.budget_usd:f}",
        "month_to_date_usd": None if spent is None else f"{cents(spent):f}",
        "projected_usd": None if projected is None else f"{cents(projected):f}",
        "over_percent": None if share is None else f"{(share - 1) * 100:.1f}",
        "unknown_hours": f"{cents(state.unknown_hours):f}", "driver": driver.what,
        "driver_usd": None if by_driver is None else f"{cents(to_decimal(by_driver)):f}", "driver_ahead": driver.how,
    }  # fmt: skip
