"""Mail by SMTP, with TLS unless told otherwise; one Message-ID an alert, so that a mailbox sees a repetition as one."""

from __future__ import annotations

import logging
import smtplib
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Any

import httpx

from scrapers.redact import redact
from tracker.alerting.routes import Email, secret

log = logging.getLogger("breakeven.alerts")

SKIPPED = ("title", "text", "type", "id", "key", "rule", "kind", "subject", "fired_at", "page_url", "alerts")


@dataclass(frozen=True, slots=True)
class MailSender:
    """Sends through one server."""

    route: Email
    user: str
    password: str
    trust: ssl.SSLContext

    def send(self, client: httpx.Client, message: Mapping[str, Any], now: datetime) -> str:
        """What went wrong; empty when the server took it for anybody: they must not get it again, whoever else does not."""
        try:
            text = mail(message, self.route, now)
            with self._connect() as server:
                if self.user:
                    server.login(self.user, self.password)
                refused = server.send_message(text)
        except (smtplib.SMTPException, OSError, ValueError) as error:  # ValueError: what cannot be an address or a header
            return redact(f"{type(error).__name__}: {error}", (self.password, self.user))
        if refused:
            log.warning("%s went out by mail, but not to %s: the server refuses them", message["id"], ", ".join(refused))
        return ""

    def _connect(self) -> smtplib.SMTP:
        route = self.route
        if route.security == "tls":
            return smtplib.SMTP_SSL(route.host, route.port, timeout=route.timeout_s, context=self.trust)
        server = smtplib.SMTP(route.host, route.port, timeout=route.timeout_s)
        if route.security == "starttls":
            try:
                server.starttls(context=self.trust)
            except (smtplib.SMTPException, OSError):
                server.close()
                raise
        return server


def mail_sender(route: Email) -> MailSender:
    """A sender with user and password of the environment; the server's certificate must be one the system trusts."""
    return MailSender(route, secret(route.user_env), secret(route.password_env), ssl.create_default_context())


def mail(message: Mapping[str, Any], route: Email, now: datetime) -> EmailMessage:
    """The message as a mail of plain text."""
    found = EmailMessage()
    sender = Address(addr_spec=route.sender)
    found["Subject"] = " ".join(str(message["title"]).split())
    found["From"] = sender
    found["To"] = [Address(addr_spec=to) for to in route.to]
    found["Date"] = format_datetime(now)
    found["Message-ID"] = f"<{message['id']}@{sender.domain}>"
    found["Auto-Submitted"] = "auto-generated"
    lines = [str(message["text"]), ""]
    lines += [f"{name.replace('_', ' ')}: {value}" for name, value in message.items() if name not in SKIPPED and isinstance(value, str)]
    lines += ["", *(str(message[name]) for name in ("page_url",) if name in message), f"told at {message['fired_at']}"]
    found.set_content("\n".join(lines))
    return found
