"""Mail by SMTP, with TLS unless told otherwise; one Message-ID an alert, so that a mailbox sees a repetition as one."""

from __future__ import annotations

import logging
import smtplib
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime
from html import escape
from typing import Any, ClassVar

import httpx

from scrapers.redact import redact
from tracker.alerting.deadline import Cut, cut_off
from tracker.alerting.picture import Picture
from tracker.alerting.routes import Email, secret

log = logging.getLogger("breakeven.alerts")

SKIPPED = ("title", "text", "type", "id", "key", "rule", "kind", "subject", "fired_at", "page_url", "history_png_url", "alerts")
LATER_S = 0.5  # than the whole: what cannot be cut, connecting and the TLS handshake, ends then
SHOWN = '<p><img src="cid:{}" alt="{}" width="600" style="max-width:100%;height:auto;border:1px solid #d8dee4"></p>'
PAGE = (
    '<!doctype html><html><head><meta charset="utf-8"></head><body style="font-family:sans-serif;font-size:15px;color:#1b1f24">'
    '{said}{shown}<p style="color:#57606a">{facts}</p><p style="color:#57606a">{end}</p></body></html>'
)


@dataclass(frozen=True, slots=True)
class MailSender:
    """Sends through one server."""

    route: Email
    user: str
    password: str
    trust: ssl.SSLContext
    takes_pictures: ClassVar[bool] = True

    def send(self, client: httpx.Client, message: Mapping[str, Any], now: datetime, pictures: Sequence[Picture] = ()) -> str:
        """What went wrong; empty when the server took it for anybody: they must not get it again, whoever else does not."""
        with cut_off(self.route.timeout_s) as cut:
            try:
                refused = self._hand_over(mail(message, self.route, now, pictures), cut)
            except (smtplib.SMTPException, OSError, ValueError) as error:  # ValueError: what cannot be an address or a header
                if cut.late.is_set():
                    return f"no complete answer within {self.route.timeout_s:g} s"
                return redact(f"{type(error).__name__}: {error}", (self.password, self.user))
        if refused:
            log.warning("%s went out by mail, but not to %s: the server refuses them", message["id"], ", ".join(refused))
        return ""

    def _hand_over(self, text: EmailMessage, cut: Cut) -> dict[str, tuple[int, bytes]]:
        """Whom the server refuses."""
        with _Tls(self.route, cut, self.trust) if self.route.security == "tls" else _Plain(self.route, cut) as server:
            if self.route.security == "starttls":
                server.starttls(context=self.trust)
            if self.user:
                server.login(self.user, self.password)
            return server.send_message(text)


class _Plain(smtplib.SMTP):
    """A connection that can be cut from before its first byte on."""

    def __init__(self, route: Email, cut: Cut) -> None:
        cut.server = self
        super().__init__(route.host, route.port, timeout=route.timeout_s + LATER_S)


class _Tls(smtplib.SMTP_SSL):
    """The same with TLS from the first byte."""

    def __init__(self, route: Email, cut: Cut, trust: ssl.SSLContext) -> None:
        cut.server = self
        super().__init__(route.host, route.port, timeout=route.timeout_s + LATER_S, context=trust)


def mail_sender(route: Email) -> MailSender:
    """A sender with user and password of the environment; the server's certificate must be one the system trusts."""
    return MailSender(route, secret(route.user_env), secret(route.password_env), ssl.create_default_context())


def mail(message: Mapping[str, Any], route: Email, now: datetime, pictures: Sequence[Picture] = ()) -> EmailMessage:
    """The message as a mail of plain text; with pictures as one of HTML too, which shows them."""
    found = EmailMessage()
    sender = Address(addr_spec=route.sender)
    found["Subject"] = " ".join(str(message["title"]).split())
    found["From"] = sender
    found["To"] = [Address(addr_spec=to) for to in route.to]
    found["Date"] = format_datetime(now)
    found["Message-ID"] = f"<{message['id']}@{sender.domain}>"
    found["Auto-Submitted"] = "auto-generated"
    found.set_content("\n".join([str(message["text"]), "", *_facts(message), "", *_end(message)]))
    if pictures:
        _add_html(found, message, pictures)
    return found


def _facts(message: Mapping[str, Any]) -> list[str]:
    return [
        f"{name.replace('_', ' ')}: {value}" for name, value in message.items() if name not in SKIPPED and isinstance(value, str) and value
    ]


def _end(message: Mapping[str, Any]) -> list[str]:
    return [*(str(message[name]) for name in ("page_url",) if name in message), f"told at {message['fired_at']}"]


def _add_html(mail: EmailMessage, message: Mapping[str, Any], pictures: Sequence[Picture]) -> None:
    """The same words with the pictures in them: text, or HTML together with what it shows (RFC 2387)."""
    names = [f"{number}.{str(message['id']).lower()}@history" for number, _ in enumerate(pictures, 1)]
    said = "".join(f"<p>{escape(line)}</p>" for line in str(message["text"]).splitlines())
    shown = "".join(SHOWN.format(name, escape(picture.words)) for name, picture in zip(names, pictures, strict=True))
    facts = "<br>".join(map(escape, _facts(message)))
    end = "<br>".join(f'<a href="{escape(line)}">{escape(line)}</a>' if line.startswith("http") else escape(line) for line in _end(message))
    mail.add_alternative(PAGE.format(said=said, shown=shown, facts=facts, end=end), subtype="html")
    html = mail.get_body(("html",))
    assert html is not None
    for name, picture in zip(names, pictures, strict=True):
        html.add_related(picture.png, "image", "png", cid=f"<{name}>", filename=picture.name, disposition="inline")
