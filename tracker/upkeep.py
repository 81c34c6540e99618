"""What the daemon does now and then for the book itself: figures a day every hour."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta

from apscheduler.schedulers.background import BackgroundScheduler
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from tracker.faults import Trouble
from tracker.rollup.run import roll_up
from tracker.world import World

EVERY_S = 3600
FIRST_S = 120  # after the first sweeps


def schedule_upkeep(
    scheduler: BackgroundScheduler, db: Engine, world: World, now: Callable[[], datetime], trouble: Trouble, stop: threading.Event
) -> None:
    """Have the rollups kept up to date every hour. Processes that share a database take turns and find each other's work done."""

    def keep() -> None:
        try:
            roll_up(db, world.config.sources, now(), stop=stop)
        except SQLAlchemyError as error:
            trouble.met(error)

    first = datetime.now(scheduler.timezone) + timedelta(seconds=FIRST_S)
    scheduler.add_job(keep, "interval", id="upkeep", seconds=EVERY_S, next_run_time=first, executor="clock")
