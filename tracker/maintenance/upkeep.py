"""What the daemon does now and then for the book itself: every hour figures a day and the months of points that begin soon, and once a
day what is too old is taken away.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import date, datetime, timedelta

from apscheduler.schedulers.background import BackgroundScheduler
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from tracker.database.faults import Trouble
from tracker.database.months import make_ahead
from tracker.maintenance.retention import prune
from tracker.rollup.run import roll_up
from tracker.world import World

EVERY_S = 3600
FIRST_S = 120  # after the first sweeps


def schedule_upkeep(
    scheduler: BackgroundScheduler, db: Engine, world: World, now: Callable[[], datetime], trouble: Trouble, stop: threading.Event
) -> None:
    """Have it done every hour. Processes that share a database take turns and find each other's work done."""
    pruned: set[date] = set()

    def keep() -> None:
        at = now()
        try:
            roll_up(db, world.config.sources, at, precedence=world.settings.precedence.root, stop=stop)
            if at.date() not in pruned and not stop.is_set():
                prune(db, world, at)
                pruned.add(at.date())
            make_ahead(db, at)  # last: an account that may make none still does the rest
        except SQLAlchemyError as error:
            trouble.met(error)

    first = datetime.now(scheduler.timezone) + timedelta(seconds=FIRST_S)
    scheduler.add_job(keep, "interval", id="upkeep", seconds=EVERY_S, next_run_time=first)
