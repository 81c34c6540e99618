"""Whether the program can do its work now: for ``/readyz``. A stale source is no reason; that is told by metrics and alerts.

A start that still loads what collects prices is not ready, though its pages and metrics are answered: whoever waits for the new program
before the old one goes (a rolling update) would else end with one that cannot collect. systemd is told at the same moment.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from sqlalchemy import Engine, text
from sqlalchemy.exc import SQLAlchemyError

from tracker.database.faults import Trouble, fault_short
from tracker.database.handle import reading
from tracker.service.clock import clock_fault


def not_ready(db: Engine, at: datetime, trouble: Trouble) -> str:
    """What keeps the program from its work, in one line; empty when nothing does. ``at`` is when the book was last looked at."""
    file = db.url.database if db.dialect.name == "sqlite" else None
    if file and not Path(file).is_file():  # an open handle would go on reading a deleted file
        return "database: its file is gone"
    try:
        with reading(db) as connection:
            connection.execute(text("select version_num from alembic_version"))
            wrong_clock = clock_fault(connection, at)
    except SQLAlchemyError as error:
        return f"database: {fault_short(error)}"
    return trouble.short or wrong_clock
