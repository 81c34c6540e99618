"""The API over time: the feed of price changes with its cursor, and prices over a range by steps."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from fastapi import FastAPI, HTTPException, Query, Response
from sqlalchemy import Engine

from tracker.database import reading
from tracker.errors import UnknownName
from tracker.moments import since as since_when
from tracker.moments import span
from tracker.plain import as_json
from tracker.price_history import PRICES, price_history
from tracker.rows import TICK
from tracker.timeline import changes, safe_cursor, steps
from tracker.web.past import Budget, asked_moment, checked
from tracker.world import World

MOST_CHANGES = 1000
MOST_STEPS = 400  # a year by days
PAGE_COST, STEP_COST = 1, 0.02  # of what a past snapshot costs


def add_to(app: FastAPI, world: World, db: Engine, now: Callable[[], datetime], budget: Budget) -> None:
    """Register the routes."""

    @app.get("/api/v1/changes")
    def change_feed(
        since: str = "1d", after: str = "", limit: int = Query(MOST_CHANGES, ge=1, le=MOST_CHANGES), imported: bool = False, at: str = ""
    ) -> Response:
        """Prices that appeared, moved or went, oldest first, from ``since`` on or after a cursor. ``next`` is the cursor to go on with;
        changes of the last minute come again with it, told apart by ``event``."""
        end = asked_moment(at, now()) if at else now()
        start = checked(lambda: since_when(since, end, "since"))
        with budget.turn(), reading(db) as connection:
            budget.spend(PAGE_COST)
            found = checked(lambda: changes(connection, start, until=end + TICK, cursor=after, limit=limit, imported=imported))
        return _json({"at": end, "changes": found, "next": safe_cursor(found, after, end)})

    @app.get("/api/v1/history/{what}/{name:path}")
    def history(what: str, name: str, since: str = "30d", until: str = "", step: str = "1d", at: str = "") -> Response:
        """Prices of an offer (its sku), a GPU or a model's rates at each step: what was observed by then, and when."""
        if what not in PRICES:
            raise HTTPException(404, detail=f"no history of {what!r}; there are {', '.join(PRICES)}")
        looked = asked_moment(at, now()) if at else now()
        moments = checked(lambda: _moments(since, until, step, looked))
        with budget.turn(), reading(db) as connection:
            budget.spend(1 + len(moments) * STEP_COST)
            try:
                found = list(price_history(connection, world, what, name, moments, looked))
            except UnknownName as error:
                raise HTTPException(404, detail=str(error)) from error
        rows: list[dict[str, Any]] = [{"at": moment, **entry} for moment, entries in found for entry in entries]
        return _json({"at": looked, "what": what, "name": name, "history": rows})


def _moments(since: str, until: str, step: str, now: datetime) -> list[datetime]:
    first = since_when(since, now, "since")
    last = min(since_when(until, now, "until") if until else now + TICK, now + TICK)
    return list(steps(first, last, span(step, "step"), MOST_STEPS))


def _json(value: Any) -> Response:
    return Response(as_json(value) + "\n", headers={"Content-Type": "application/json"})
