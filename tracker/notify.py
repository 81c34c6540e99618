"""Sends stored alerts to a webhook, at least once, from a thread of its own; an alert nobody took stays visible in the database."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable
from datetime import datetime

import httpx
from sqlalchemy import Engine, RowMapping, select, update
from sqlmodel import SQLModel

from scrapers.redact import redact
from tracker.config import AlertSettings
from tracker.database import reading, writing
from tracker.plain import plain

log = logging.getLogger("breakeven.alerts")

ALERT = SQLModel.metadata.tables["alert"]
MAX_ATTEMPTS = 8
RETRY_S = 30.0


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
        if self._url and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)
            self._thread.start()

    def wake(self) -> None:
        """There may be something new."""
        self._wake.set()

    def close(self) -> None:
        """End the thread; a request under way has its timeout."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(self._settings.webhook_timeout_s)

    def _run(self) -> None:
        with httpx.Client(timeout=self._settings.webhook_timeout_s, trust_env=False) as client:
            while not self._stop.is_set():
                self._wake.wait(self._retry_s)
                self._wake.clear()
                if not self._stop.is_set():
                    self.deliver(client)

    def deliver(self, client: httpx.Client) -> int:
        """Send every alert that is due, oldest first; returns how many were taken."""
        query = select(ALERT).where(ALERT.c.delivery == "stored", ALERT.c.attempts < MAX_ATTEMPTS).order_by(ALERT.c.id)
        with reading(self._db) as connection:
            due = connection.execute(query).mappings().all()
        return sum(self._send(client, row) for row in due)

    def _send(self, client: httpx.Client, row: RowMapping) -> bool:
        message = {
            "id": row["key"],
            "kind": row["kind"],
            "subject": row["subject"],
            "fired_at": plain(row["fired_at"]),
            **json.loads(row["body"]),
        }
        try:
            answer = client.post(self._url, json=message, headers={"webhook-id": row["key"]})
            fault = "" if answer.is_success else f"answered {answer.status_code}"
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            fault = redact(f"{type(error).__name__}: {error}", (self._url,))
        self._note(row, fault)
        return not fault

    def _note(self, row: RowMapping, fault: str) -> None:
        attempts = row["attempts"] + 1
        state = "delivered" if not fault else "failed" if attempts >= MAX_ATTEMPTS else "stored"
        done = {"delivery": state, "attempts": attempts, "last_error": fault, "delivered_at": None if fault else self._now()}
        with writing(self._db) as connection:
            connection.execute(update(ALERT).where(ALERT.c.id == row["id"]).values(**done))
        if fault:
            log.warning("alert %s was not taken by the webhook (attempt %d of %d): %s", row["key"], attempts, MAX_ATTEMPTS, fault)
