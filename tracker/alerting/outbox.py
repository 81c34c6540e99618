"""Sends stored alerts to their routes, at least once, from a thread of its own; what nobody took stays visible as a dead letter."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from time import monotonic
from typing import Any

import httpx
from sqlalchemy import Engine, RowMapping, select, update

from tracker.alerting.alertmanager import AlertmanagerSender, due
from tracker.alerting.channels import ChannelSender
from tracker.alerting.deadline import deadline_client
from tracker.alerting.gallery import Gallery, why_none
from tracker.alerting.ledger import ALERT, DELIVERED, DELIVERY, FAILED, STORED, message_of
from tracker.alerting.rules import AlertConfig
from tracker.alerting.senders import Delivery, Sender, make_sender, told
from tracker.attempt import attempt
from tracker.database.handle import reading, writing
from tracker.pictures.chart import Chart
from tracker.pictures.drawing import png
from tracker.sweeps.leases import SKEW, database_time
from tracker.world import World

log = logging.getLogger("breakeven.alerts")

MAX_ATTEMPTS = 8
RETRY_S = 30.0  # after the first failure; each further pause is twice as long, so the last attempt comes an hour after the first
CLAIM_S = 30.0  # and the time a request may take: then another process sends it, with the same id
CLOSE_S = 1.0  # an alert that is not acknowledged by then is sent again by the next start


def outbox_of(db: Engine, world: World, now: Callable[[], datetime], draw: Callable[[Chart], bytes] = png) -> Outbox:
    """The outbox of a daemon: with pictures, or a line that says what is missing for them."""
    found = Outbox(db, world.alerts, now, gallery=Gallery(db, world, draw))
    if found.shows_pictures and (missing := why_none()):
        log.warning("%s", missing)
    return found


class Outbox:
    """Delivers what is stored, to the routes that are on when it is made."""

    def __init__(
        self, db: Engine, config: AlertConfig, now: Callable[[], datetime], *, retry_s: float = RETRY_S, gallery: Gallery | None = None
    ) -> None:
        self._db = db
        self._now = now
        self._retry_s = retry_s
        self._gallery = gallery
        self._routes = {name: route for name, route in config.routes.items() if not route.off_reason}
        self._ways: dict[str, Delivery] = {}
        self._slow: set[str] = set()  # ways that took all their time when they were last tried
        self.ways: dict[str, tuple[str, ...]] = {}
        for name, route in self._routes.items():
            self._add(name, make_sender(route))
        self._faults: dict[str, str] = {}  # of what is renewed
        self._renewed_at: datetime | None = None
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def _add(self, name: str, sender: Sender) -> None:
        """A route; several channels are delivered to one by one, as ``route#number``."""
        each = sender.each if isinstance(sender, ChannelSender) and len(sender.each) > 1 else ()
        parts = {f"{name}#{number}": one for number, one in enumerate(each, 1)}
        timeout_s = self._routes[name].timeout_s
        self._ways |= {way: Delivery(one, timeout_s) for way, one in {name: sender, **parts}.items()}
        self.ways[name] = tuple(parts) or (name,)

    @property
    def shows_pictures(self) -> bool:
        """Whether a route that is on shows pictures."""
        return any(way.sender.takes_pictures for way in self._ways.values())

    @property
    def names(self) -> tuple[str, ...]:
        """What deliveries of the routes that are on are kept under, those of before there were several included."""
        return tuple(self._ways)

    def start(self) -> None:
        """Begin sending, if there is somewhere to send to."""
        for name in ("httpx", "httpcore", "requests", "urllib3"):  # they log whole addresses, and some hold a secret
            logging.getLogger(name).setLevel(logging.WARNING)
        if self._routes and self._thread is None:
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
        self._renewed_at = self._now()
        with deadline_client(self._stop) as client:
            while not self._stop.is_set():
                self._wake.wait(self._retry_s)
                self._wake.clear()
                if not self._stop.is_set():
                    self._try(client)

    def _try(self, client: httpx.Client) -> None:
        fault = attempt(lambda: self._round(client))
        if isinstance(fault, Exception):  # a database that is locked or away now may be back next time
            log.warning("alerts cannot be read or noted: %s", type(fault).__name__)

    def _round(self, client: httpx.Client) -> None:
        self.deliver(client)
        if not self._stop.is_set():
            self.renew(client)

    def deliver(self, client: httpx.Client) -> int:
        """Send every alert whose turn it is, oldest first; returns how many were taken.

        A way that takes all its time is left alone until the next round, and comes last in it: it holds the others up once.
        """
        query = select(ALERT, DELIVERY).join(DELIVERY, DELIVERY.c.alert_id == ALERT.c.id)
        waiting = query.where(DELIVERY.c.state == STORED, DELIVERY.c.route.in_(self._ways)).order_by(ALERT.c.id, DELIVERY.c.route)
        with reading(self._db) as connection:
            rows = connection.execute(waiting).mappings().all()
        taken, slow_now = 0, set[str]()
        for row in sorted(rows, key=lambda row: row["route"] in self._slow):
            if not self._stop.is_set() and row["route"] not in slow_now and self._is_due(row) and self._claim(row):
                taken += self._send(client, row)
                slow_now |= self._slow & {row["route"]}
                self._renew_meanwhile(client)
        return taken

    def renew(self, client: httpx.Client) -> None:
        """Keep active alerts open at every Alertmanager and close those that are over. Any process may: it is the same each time."""
        self._renewed_at = self._now()
        for name, way in self._ways.items():
            if isinstance(sender := way.sender, AlertmanagerSender):
                with reading(self._db) as connection:
                    alerts = due(connection, name, self._now())
                fault = told(attempt(partial(sender.push, client, alerts))) if alerts else ""
                if fault and fault != self._faults.get(name):  # once, not every half minute
                    log.warning("active alerts were not taken by %s: %s", name, fault)
                self._faults[name] = fault

    def _renew_meanwhile(self, client: httpx.Client) -> None:
        """What is active must stay so however many slow routes are waited for."""
        if self._renewed_at is not None and self._now() >= self._renewed_at + timedelta(seconds=self._retry_s):
            self.renew(client)

    def _claim(self, row: RowMapping) -> bool:
        """Whether this process may send it now: no other has it, or the one that had it did not end in time."""
        same = select(DELIVERY.c.claimed_until).where(_is(row), DELIVERY.c.state == STORED, DELIVERY.c.attempts == row["attempts"])
        with writing(self._db) as connection:
            found = connection.execute(same.with_for_update(skip_locked=True)).first()
            now = database_time(connection, self._now())
            span = timedelta(seconds=CLAIM_S + self._routes[row["route"].partition("#")[0]].timeout_s)
            if found is None or (found.claimed_until is not None and now < found.claimed_until <= now + span):
                return False
            begun = {"created_at": self._now()} if self._is_ahead(row) else {}
            connection.execute(update(DELIVERY).where(_is(row)).values(claimed_until=now + span, **begun))
            return True

    def _is_due(self, row: RowMapping) -> bool:
        """Whether the pause after the last attempt is over: 30 s, 60 s, 120 s ... counted from the first on."""
        pauses = self._retry_s * (2 ** row["attempts"] - 1)
        return self._is_ahead(row) or bool(self._now() >= row["created_at"] + timedelta(seconds=pauses))

    def _is_ahead(self, row: RowMapping) -> bool:
        """Whether a clock that was far ahead put it there: its pauses count from now on."""
        return bool(row["created_at"] > self._now() + SKEW)

    def _send(self, client: httpx.Client, row: RowMapping) -> bool:
        way = self._ways[row["route"]]
        pictures = self._gallery.pictures(row) if self._gallery is not None and way.sender.takes_pictures else ()
        begun = monotonic()
        fault = way.tried(client, message_of(row), self._now(), pictures)
        self._slow = self._slow - {row["route"]} | ({row["route"]} if monotonic() - begun >= way.timeout_s else set())
        if fault and self._stop.is_set():
            self._give_back(row)  # cut short by us: no attempt
        else:
            self._note(row, fault)
        return not fault

    def _give_back(self, row: RowMapping) -> None:
        with writing(self._db) as connection:
            connection.execute(update(DELIVERY).where(_is(row), DELIVERY.c.state == STORED).values(claimed_until=None))

    def _note(self, row: RowMapping, fault: str) -> None:
        attempts = row["attempts"] + 1
        state = DELIVERED if not fault else FAILED if attempts >= MAX_ATTEMPTS else STORED
        taken_at = None if fault else self._now()
        done = {"state": state, "attempts": attempts, "last_error": fault, "delivered_at": taken_at, "claimed_until": None}
        with writing(self._db) as connection:
            connection.execute(update(DELIVERY).where(_is(row), DELIVERY.c.state == STORED).values(**done))
        if fault:
            words = (row["key"], row["route"], attempts, MAX_ATTEMPTS, fault)
            log.warning("alert %s was not taken by %s (attempt %d of %d): %s", *words)


def _is(row: RowMapping) -> Any:
    return (DELIVERY.c.alert_id == row["alert_id"]) & (DELIVERY.c.route == row["route"])
