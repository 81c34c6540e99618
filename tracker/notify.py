"""Sends stored alerts to a webhook, at least once, from a thread of its own; an alert nobody took stays visible in the database."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from urllib.parse import quote

import httpx
from sqlalchemy import Engine, RowMapping, select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import SQLModel

from scrapers.redact import redact
from tracker.config import AlertSettings
from tracker.database import reading, writing
from tracker.leases import database_time
from tracker.plain import plain

log = logging.getLogger("breakeven.alerts")

ALERT = SQLModel.metadata.tables["alert"]
MAX_ATTEMPTS = 8
RETRY_S = 30.0  # after the first failure; each further pause is twice as long, so the last attempt comes an hour after the alert
CLAIM_S = 30.0  # and the time a request may take: then another process sends it, with the same id
CLOSE_S = 1.0  # an alert that is not acknowledged by then is sent again by the next start


class Outbox:
    """Delivers what is stored. ``url`` comes from the environment only; without one, alerts are stored and logged."""

    def __init__(self, db: Engine, settings: AlertSettings, now: Callable[[], datetime], *, retry_s: float = RETRY_S) -> None:
        self._db = db
        self._settings = settings
        self._now = now
        self._retry_s = retry_s
        self._url = os.environ.get(settings.webhook_url_env, "")
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin sending, if there is somewhere to send to."""
        for name in ("httpx", "httpcore"):  # they log whole addresses, and the webhook's holds a secret
            logging.getLogger(name).setLevel(logging.WARNING)
        if self._url and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)
            self._thread.start()

    def wake(self) -> None:
        """There may be something new."""
        self._wake.set()

    def close(self) -> None:
        """End the thread; a request under way is not waited for long."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(CLOSE_S)

    def _run(self) -> None:
        with httpx.Client(timeout=self._settings.webhook_timeout_s, trust_env=False) as client:
            while not self._stop.is_set():
                self._wake.wait(self._retry_s)
                self._wake.clear()
                if not self._stop.is_set():
                    self._try(client)

    def _try(self, client: httpx.Client) -> None:
        try:
            self.deliver(client)
        except SQLAlchemyError as error:  # a database that is locked or away now may be back next time
            log.warning("alerts cannot be read or noted: %s", type(error).__name__)

    def deliver(self, client: httpx.Client) -> int:
        """Send every alert whose turn it is, oldest first; returns how many were taken."""
        query = select(ALERT).where(ALERT.c.delivery == "stored", ALERT.c.attempts < MAX_ATTEMPTS).order_by(ALERT.c.id)
        with reading(self._db) as connection:
            waiting = connection.execute(query).mappings().all()
        return sum(self._send(client, row) for row in waiting if self._is_due(row) and self._claim(row))

    def _claim(self, row: RowMapping) -> bool:
        """Whether this process may send it now: no other has it, or the one that had it did not end in time."""
        same = select(ALERT.c.claimed_until).where(
            ALERT.c.id == row["id"], ALERT.c.delivery == "stored", ALERT.c.attempts == row["attempts"]
        )
        with writing(self._db) as connection:
            found = connection.execute(same.with_for_update(skip_locked=True)).first()
            now = database_time(connection, self._now())
            span = timedelta(seconds=CLAIM_S + self._settings.webhook_timeout_s)
            if found is None or (found.claimed_until is not None and now < found.claimed_until <= now + span):
                return False
            connection.execute(update(ALERT).where(ALERT.c.id == row["id"]).values(claimed_until=now + span))
            return True

    def _is_due(self, row: RowMapping) -> bool:
        """Whether the pause after the last attempt is over: 30 s, 60 s, 120 s ... counted from the alert on."""
        pauses = self._retry_s * (2 ** row["attempts"] - 1)
        return bool(self._now() >= row["fired_at"] + timedelta(seconds=pauses))

    def _send(self, client: httpx.Client, row: RowMapping) -> bool:
        message = {
            "id": row["key"],
            "kind": row["kind"],
            "subject": row["subject"],
            "fired_at": plain(row["fired_at"]),
            **json.loads(row["body"]),
        }
        try:
            answer = client.post(self._url, json=message, headers={"webhook-id": quote(row["key"], safe="/@")})
            fault = "" if answer.is_success else f"answered {answer.status_code}"
        except (httpx.InvalidURL, httpx.UnsupportedProtocol):  # their messages quote parts of the address
            fault = f"{self._settings.webhook_url_env} holds no usable address"
        except httpx.HTTPError as error:
            fault = redact(f"{type(error).__name__}: {error}", (self._url,))
        self._note(row, fault)
        return not fault

    def _note(self, row: RowMapping, fault: str) -> None:
        attempts = row["attempts"] + 1
        state = "delivered" if not fault else "failed" if attempts >= MAX_ATTEMPTS else "stored"
        taken_at = None if fault else self._now()
        done = {"delivery": state, "attempts": attempts, "last_error": fault, "delivered_at": taken_at, "claimed_until": None}
        with writing(self._db) as connection:
            connection.execute(update(ALERT).where(ALERT.c.id == row["id"], ALERT.c.delivery == "stored").values(**done))
        if fault:
            log.warning("alert %s was not taken by the webhook (attempt %d of %d): %s", row["key"], attempts, MAX_ATTEMPTS, fault)
