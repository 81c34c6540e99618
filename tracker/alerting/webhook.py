"""Signed webhooks by the Standard Webhooks specification (github.com/standard-webhooks/standard-webhooks, version 1.0.0).

The same id on every attempt, so that a receiver can tell a repetition; the moment of the attempt; and for each secret, so that one
can be changed for another, ``v1,`` and the base64 HMAC-SHA256 of ``id.timestamp.body``.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

import httpcore
import httpx

from scrapers.contract import FetchError
from scrapers.redact import redact
from tracker.alerting.deadline import DEADLINE
from tracker.alerting.picture import Picture
from tracker.alerting.routes import Webhook, secret
from tracker.errors import ConfigError

PREFIX = "whsec_"
UNUSABLE = (httpx.InvalidURL, httpx.UnsupportedProtocol, httpcore.UnsupportedProtocol, UnicodeError)  # they quote the address
FAULTS = (httpx.HTTPError, httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError)


def signing_keys(text: str, variable: str) -> tuple[bytes, ...]:
    """The keys in ``whsec_`` secrets with spaces between them; ConfigError, without the secret, where one is none."""
    keys = []
    for word in text.split():
        try:
            key = base64.b64decode(word.removeprefix(PREFIX), validate=True) if word.startswith(PREFIX) else b""
        except binascii.Error:
            key = b""
        if not key:
            raise ConfigError(f"{variable}: a signing secret is whsec_ and base64; make one with: openssl rand -base64 32")
        keys.append(key)
    return tuple(keys)


def signature(keys: Sequence[bytes], id_: str, timestamp: int, body: bytes) -> str:
    """The value of ``webhook-signature``: one signature a key."""
    signed = f"{id_}.{timestamp}.".encode() + body
    return " ".join("v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode() for key in keys)


@dataclass(frozen=True, slots=True)
class WebhookSender:
    """Posts messages to one address."""

    variable: str
    url: str
    keys: tuple[bytes, ...]
    timeout_s: float
    takes_pictures: ClassVar[bool] = False

    def send(self, client: httpx.Client, message: Mapping[str, Any], now: datetime, pictures: Sequence[Picture] = ()) -> str:
        """What went wrong; empty when it was taken."""
        body = json.dumps(message, ensure_ascii=False).encode()
        return post(client, self.url, self.variable, body, self.headers(str(message["id"]), now, body), self.timeout_s)

    def headers(self, id_: str, now: datetime, body: bytes) -> dict[str, str]:
        """Those of the specification; without a secret there is no signature."""
        stamp = int(now.timestamp())
        signed = {"webhook-signature": signature(self.keys, id_, stamp, body)} if self.keys else {}
        return {"content-type": "application/json", "webhook-id": id_, "webhook-timestamp": str(stamp)} | signed


def webhook_sender(route: Webhook) -> WebhookSender:
    """A sender with address and secrets of the environment."""
    return WebhookSender(
        variable=route.url_env, url=secret(route.url_env), keys=signing_keys(secret(route.secret_env), route.secret_env),
        timeout_s=route.timeout_s,
    )  # fmt: skip


def post(client: httpx.Client, url: str, variable: str, body: bytes, headers: Mapping[str, str], timeout_s: float) -> str:
    """What went wrong with a POST that may take so long as a whole, without the address; empty when the answer is a success."""
    how: dict[str, Any] = {"headers": headers, "timeout": timeout_s, "extensions": {DEADLINE: timeout_s}}
    try:
        with client.stream("POST", url, content=body, **how) as answer:  # its body may never end, and is not read
            return "" if answer.is_success else f"answered {answer.status_code}"
    except UNUSABLE:
        return f"{variable} holds no usable address"
    except FetchError as error:  # our deadline, or a stop
        return str(error)
    except FAULTS as error:
        return redact(f"{type(error).__name__}: {error}", (url, httpx.URL(url).host))
