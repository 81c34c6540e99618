"""A budget as plain values, for the command line and the API alike."""

from __future__ import annotations

from typing import Any

from engine.budgets import Span
from tracker.budgets.state import BudgetState, Part


def budget_facts(state: BudgetState) -> dict[str, Any]:
    """Where a budget stands, with every stretch it was reckoned by."""
    projected = state.projected_usd
    return {
        "budget": state.name, "month": state.month_name, "at": state.at, "budget_usd": state.budget_usd,
        "month_to_date_usd": state.spent_usd, "unknown_hours": state.unknown_hours, "projected_usd": projected,
        "driver": state.driver.what, "parts": [_part_facts(state, part) for part in state.parts],
    }  # fmt: skip


def _part_facts(state: BudgetState, part: Part) -> dict[str, Any]:
    return {
        "what": part.what, "month_to_date_usd": state.spent_by(part), "unknown_hours": part.spent.unknown_hours,
        "rest_usd": part.ahead, "rest": part.how,
        "spans": [_span_facts(span) for span in part.spans],
    }  # fmt: skip


def _span_facts(span: Span) -> dict[str, Any]:
    told = {"hours": span.hours, "usd_per_hour": span.usd_per_hour, "usd": span.usd, "note": span.note}
    return {"from": span.start, "to": span.end, **told}
