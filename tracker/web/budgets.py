"""The API's answer about budgets."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from fastapi import FastAPI, Response
from sqlalchemy import Engine

from tracker.answers.snapshot import Snapshot
from tracker.budgets.costs import budgets_at
from tracker.budgets.facts import budget_facts
from tracker.budgets.prices import History
from tracker.database.handle import reading
from tracker.plain import as_json
from tracker.web.past import Budget, asked_moment
from tracker.world import World

COST, USE_COST = 1, 4  # of what a past snapshot costs, and for each API use: every price of its month is looked up


def add_to(app: FastAPI, world: World, db: Engine, now: Callable[[], datetime], current: Callable[[], Snapshot], turns: Budget) -> None:
    """Register the route."""

    @app.get("/api/v1/budgets")
    def budgets(at: str = "") -> Response:
        """The month to date of every budget, what the month comes to, and every stretch with its price."""
        snapshot = current()
        when, states = snapshot.at, snapshot.budgets
        if at or (not states and world.settings.budget.root):  # in the first seconds of a start they are not worked out yet
            when = asked_moment(at, now()) if at else when
            with turns.turn(), reading(db) as connection:
                turns.spend(COST + USE_COST * len(world.settings.budget.uses))
                states = budgets_at(connection, world, History(world), when)
        told = {"at": when, "budgets": [budget_facts(state) for state in states]}
        return Response(as_json(told) + "\n", headers={"Content-Type": "application/json"})
