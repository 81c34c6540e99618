"""The API over time: the feed of price changes with its cursor, and prices, answers and figures a day over a range."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

from fastapi import FastAPI, HTTPException, Query, Response
from sqlalchemy import Engine

from tracker.answers.answer_history import ANSWERS, answer_history
from tracker.answers.price_history import PRICES, price_history
from tracker.answers.questions import nearest_question
from tracker.book.timeline import changes, safe_cursor, steps
from tracker.database.handle import reading
from tracker.database.rows import TICK
from tracker.errors import UnknownName
from tracker.moments import since as since_when
from tracker.moments import span
from tracker.plain import as_json
from tracker.rollup.history import DAYS, day_history, days_between
from tracker.web.past import Budget, Found, asked_moment, checked
from tracker.world import World

MOST_CHANGES = 1000
MOST_STEPS = 400  # a year by days
MOST_BOOKS = 20  # that one question may have worked out
PAGE_COST, STEP_COST, BOOK_COST = 1, 0.02, 0.5  # of what a past snapshot costs


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

    @app.get("/api/v1/history/days/{name:path}")
    def days(name: str, since: str = "30d", until: str = "", gpu_count: int = 1, tier: str = "on_demand", at: str = "") -> Response:
        """The lowest price per GPU and hour of each UTC day over all providers, of machines sold with ``gpu_count`` GPUs (1, 2, 4, 8, 16),
        and who asked it: the figures a day, as they are known today. ``at`` leaves out the days that were not over by then."""
        looked = asked_moment(at, now()) if at else now()
        first, last = checked(lambda: _range(since, until, looked))
        with budget.turn(), reading(db) as connection:
            budget.spend(PAGE_COST)
            between = checked(lambda: days_between(first, last, looked, past=bool(at)))
            rows = named(lambda: day_history(connection, world, name, gpu_count, tier, *between))
        return _json({"at": looked, "what": DAYS, "name": name, "history": rows})

    @app.get("/api/v1/history/{what}/{name:path}")
    def history(
        what: str, name: str, since: str = "30d", until: str = "", step: str = "1d", at: str = "", workload: str = "", policy: str = "",
        limit: int = Query(MOST_STEPS, ge=1, le=MOST_STEPS),
    ) -> Response:  # fmt: skip
        """What there was at each step, and when it was seen: prices of an ``offer`` (its sku), the cheapest of a ``gpu`` by tier, the
        ``rate``s of a model; or the cheapest ``setup`` of a model, or its ``breakeven``, as it was decided (``decided_at``), before the
        first decision as the book of that time has it. ``workload`` and ``policy`` name another question than the default one. A page has
        ``limit`` steps; ``next`` is the ``since`` to go on with, null at the end."""
        if what not in (*PRICES, *ANSWERS):
            raise HTTPException(404, detail=f"no history of {what!r}; there are {', '.join((*PRICES, *ANSWERS, DAYS))}")
        if what in PRICES and (workload or policy):
            raise HTTPException(400, detail=f"prices of {what} are of no workload or policy; leave them out, or ask for setup or breakeven")
        looked = asked_moment(at, now()) if at else now()
        moments, following = checked(lambda: _page(*_range(since, until, looked), step, limit))
        with budget.turn(), reading(db) as connection:
            budget.spend(1 + len(moments) * STEP_COST)
            if what in PRICES:
                found = named(lambda: list(price_history(connection, world, what, name, moments, looked)))
            else:
                question = named(lambda: nearest_question(world, workload, policy))
                found = named(lambda: list(answer_history(connection, world, what, name, moments, question, looked, undecided(budget))))
        rows: list[dict[str, Any]] = [{"at": moment, **entry} for moment, entries in found for entry in entries]
        return _json({"at": looked, "what": what, "name": name, "history": rows, "next": following})


def undecided(budget: Budget) -> Callable[[Sequence[datetime]], None]:
    """Takes what answers of before the first decision cost: a whole book each. 400 where they are too many."""

    def spend(moments: Sequence[datetime]) -> None:
        if len(moments) > MOST_BOOKS:
            last = moments[-1].isoformat(timespec="minutes").replace("+00:00", "Z")
            raise HTTPException(
                400, detail=f"nothing was decided at {len(moments)} of those steps, and at most {MOST_BOOKS} are worked out anew; "
                f"begin after {last}, lengthen the step, or ask for a smaller limit",
            )  # fmt: skip
        budget.spend(len(moments) * BOOK_COST)

    return spend


def named(work: Callable[[], Found]) -> Found:
    """What the work gives back; 404 for a name that nobody knows, 400 for a range that makes no sense."""
    try:
        return checked(work)
    except HTTPException as error:
        if isinstance(error.__cause__, UnknownName):
            raise HTTPException(404, detail=error.detail) from error
        raise


def _range(since: str, until: str, now: datetime) -> tuple[datetime, datetime]:
    last = min(since_when(until, now, "until") if until else now + TICK, now + TICK)
    return since_when(since, now, "since"), last


def _page(first: datetime, last: datetime, step: str, limit: int) -> tuple[list[datetime], datetime | None]:
    """The first ``limit`` steps of [first, last), and the one after them."""
    found = list(islice(steps(first, last, span(step, "step"), most=None), limit + 1))
    return found[:limit], found[limit] if len(found) > limit else None


def _json(value: Any) -> Response:
    return Response(as_json(value) + "\n", headers={"Content-Type": "application/json"})
