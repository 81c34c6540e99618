"""The budgets of a running daemon, worked out with every recompute."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Engine

from engine.budgets import month_of
from tracker.answers.snapshot import Snapshot
from tracker.budgets.costs import budgets_at
from tracker.budgets.prices import History
from tracker.database.handle import reading
from tracker.world import World


class Budgets:
    """Remembers the prices of the month, so that a recompute looks at the newest alone."""

    def __init__(self, db: Engine, world: World) -> None:
        self._db, self._world = db, world
        self._history = History(world)

    def on(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with the budgets in it."""
        if not self._world.settings.budget.root:
            return snapshot
        self._history.forget_before(month_of(snapshot.at)[0])
        with reading(self._db) as connection:
            return replace(snapshot, budgets=budgets_at(connection, self._world, self._history, snapshot.at))
