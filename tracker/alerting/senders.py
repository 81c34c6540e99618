"""What sends a message by a route, and what went wrong with it, whatever it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

import httpx

from tracker.alerting.alertmanager import alertmanager_sender
from tracker.alerting.bounded import Bounded, Late
from tracker.alerting.channels import channel_sender
from tracker.alerting.mail import mail_sender
from tracker.alerting.picture import Picture
from tracker.alerting.routes import AlertmanagerRoute, Channels, Email, Route, Webhook
from tracker.alerting.webhook import webhook_sender

GRACE_S = 1.0  # a sender that keeps its time itself can say what it waited for


class Sender(Protocol):
    """One route, with its secrets."""

    @property
    def takes_pictures(self) -> bool:
        """Whether it shows them."""

    def send(self, client: httpx.Client, message: Mapping[str, Any], now: datetime, pictures: Sequence[Picture] = ()) -> str:
        """What went wrong; empty when the message was taken."""


def make_sender(route: Route) -> Sender:
    """The sender of a route that is on; BreakevenError where its secrets cannot be used."""
    if isinstance(route, AlertmanagerRoute):
        return alertmanager_sender(route)
    if isinstance(route, Email):
        return mail_sender(route)
    if isinstance(route, Channels):
        return channel_sender(route)
    assert isinstance(route, Webhook)
    return webhook_sender(route)


class Delivery:
    """Sends by one way, in bounded time. What hangs nevertheless is left behind, and until it ends nothing more is sent that way."""

    def __init__(self, sender: Sender, timeout_s: float) -> None:
        self.sender = sender
        self.timeout_s = timeout_s
        self._bounded = Bounded("delivery")

    def tried(self, client: httpx.Client, message: Mapping[str, Any], now: datetime, pictures: Sequence[Picture] = ()) -> str:
        """What went wrong with a message, whatever it was; empty when it was taken."""
        return told(self._bounded.wait(lambda: self.sender.send(client, message, now, pictures), self.timeout_s + GRACE_S))


def told(answer: str | Exception) -> str:
    """What went wrong; of what nobody expected the kind only, since its words may hold an address."""
    if isinstance(answer, Late):
        return str(answer)
    return f"unexpected {type(answer).__name__}" if isinstance(answer, Exception) else answer
