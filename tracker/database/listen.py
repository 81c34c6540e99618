"""Tells the other processes on a PostgreSQL that the book changed, and hears it from them (LISTEN and NOTIFY).

A notice is sent in the transaction that changes the book, so that it arrives when the change can be seen. Hearing needs a
session of one's own: behind a pooler in transaction mode there is none, which is found at start and said; then, and while
the connection is lost, the once-a-minute recompute finds what changed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, Engine, func, select
from sqlalchemy.exc import SQLAlchemyError

from tracker.database.faults import fault_cause
from tracker.database.postgres import is_pooled

log = logging.getLogger("breakeven")

CHANNEL = "breakeven_book"
LOOK_S = 1.0  # how often a waiting thread looks whether the program stops
PAUSES_S = (1, 2, 5, 10, 30)  # between two tries to connect again; the last one lasts


def announce(connection: Connection, sender: str) -> None:
    """Tell the others, once this transaction is kept, that the book changed."""
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_notify(CHANNEL, sender)))


class Listener:
    """Calls ``changed`` when another process changed the book, from a thread of its own. On SQLite there is no other."""

    def __init__(self, db: Engine, owner: str, changed: Callable[[], None], stop: threading.Event, say: Callable[[str], None]) -> None:
        self._db = db
        self._owner = owner
        self._changed = changed
        self._stop = stop
        self._say = say
        self.listening = False
        self._failures = 0

    def start(self) -> threading.Thread | None:
        """Begin to listen."""
        if self._db.dialect.name != "postgresql":
            return None
        thread = threading.Thread(target=self._run, name="listener", daemon=True)
        thread.start()
        return thread

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                if not self._listen():
                    return
            except (SQLAlchemyError, self._db.dialect.loaded_dbapi.Error) as error:
                self.listening = False
                if self._failures == 0:
                    cause = fault_cause(error) if isinstance(error, SQLAlchemyError) else " ".join(str(error).split())
                    self._say(f"not told of the others' sweeps until the database is back, looking once a minute: {cause}")
                self._stop.wait(PAUSES_S[min(self._failures, len(PAUSES_S) - 1)])
                self._failures += 1

    def _listen(self) -> bool:
        """Listen until the program stops or the connection fails; False where listening is impossible."""
        with self._db.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            if is_pooled(connection):
                self._say(
                    "a connection pooler stands before the database: the others' sweeps are noticed once a minute, not at once (no LISTEN)"
                )
                return False
            session = connection.connection.driver_connection
            connection.detach()  # not one of the pool's any more: it is busy for good
            connection.exec_driver_sql(f"LISTEN {CHANNEL}")
            self.listening = True
            if self._failures:
                self._failures = 0
                self._say("told of the others' sweeps again")
                self._changed()
            self._follow(session)
        return True

    def _follow(self, session: Any) -> None:
        """Wait for notices; those that came together are one change, and our own are none."""
        while not self._stop.is_set():
            first = list(session.notifies(timeout=LOOK_S, stop_after=1))
            senders = {notice.payload for notice in (*first, *session.notifies(timeout=0))}
            if senders - {self._owner} and not self._stop.is_set():
                self._changed()
