"""Routes beside the webhook: Alertmanager, mail, Apprise; what is sent, what comes back, and what is shown nowhere."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult
from extras import extra
from servers import Alertmanager, free_port
from sqlalchemy import Engine
from upstream import Upstream
from watching import CHEAPER, HOOK, STALE, Watch, watch_with

from tracker.alerting import decisions
from tracker.alerting.alertmanager import due, pushed
from tracker.alerting.channels import channel_sender
from tracker.alerting.ledger import message_of
from tracker.alerting.mail import MailSender, mail_sender
from tracker.alerting.outbox import Outbox
from tracker.alerting.routes import Channels, Email
from tracker.alerting.trial import trial_message
from tracker.database.handle import reading, writing
from tracker.errors import BreakevenError, ConfigError

PASSWORD = "pa55word-of-the-mail"
MANAGED = '[routes.alertmanager]\nkind = "alertmanager"\n'


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.fixture
def managed(db: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watch:
    monkeypatch.setenv("BREAKEVEN_ALERTMANAGER_URL", "http://127.0.0.1:9")
    return watch_with(db, tmp_path, CHEAPER + STALE + MANAGED)


def fired(watch: Watch) -> Watch:
    """One cheaper setup is told."""
    for price in ("2.00", "1.80", "1.80"):
        watch.look(price)
    return watch


# --- Alertmanager ---------------------------------------------------------------------------------------------------------


def pushes(watch: Watch) -> list[dict[str, Any]]:
    with reading(watch.db) as connection:
        return due(connection, "alertmanager", watch.at)


def test_an_active_alert_is_kept_open_and_closed_when_it_is_over(managed: Watch) -> None:
    fired(managed)
    (first,) = pushes(managed)
    assert first["labels"] == {
        "alertname": "BreakevenCheaperSetup", "severity": "info", "rule": "cheaper", "kind": "cheaper_setup",
        "subject": "large-60b/turns/studiotv", "model": "large-60b", "workload": "turns", "policy": "studiotv",
    }  # fmt: skip
    assert first["annotations"]["summary"] == "large-60b: $1.80/h instead of $2.00/h"
    assert (moment(first["startsAt"]), moment(first["endsAt"])) == (managed.at, managed.at + timedelta(minutes=5))
    managed.wait(minutes=3)
    (renewed,) = pushes(managed)
    assert (renewed["startsAt"], moment(renewed["endsAt"])) == (first["startsAt"], managed.at + timedelta(minutes=5))
    managed.look("2.00")
    managed.look("2.00")  # seen twice
    over = managed.at
    managed.wait(minutes=14)
    (closed,) = pushes(managed)
    assert (closed["labels"], moment(closed["endsAt"])) == (first["labels"], over)
    managed.wait(minutes=1)
    assert pushes(managed) == []


def test_what_somebody_acknowledged_is_closed(managed: Watch) -> None:
    fired(managed)
    with writing(managed.db) as connection:
        decisions.acknowledge(connection, 1, "ann", managed.at)
    (closed,) = pushes(managed)
    assert moment(closed["endsAt"]) == managed.at


def test_a_second_step_of_one_thing_is_the_same_alert(managed: Watch) -> None:
    fired(managed)
    for price in ("1.50", "1.50"):
        managed.look(price)
    (one,) = pushes(managed)
    assert "$1.50/h instead of $1.80/h" in one["annotations"]["summary"]


@pytest.mark.loopback
def test_it_is_posted_as_the_interface_says(managed: Watch, upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BREAKEVEN_ALERTMANAGER_URL", f"{upstream.url}/am/")
    upstream.add("/am/api/v2/alerts", b"", method="POST")
    fired(managed)
    box = Outbox(managed.db, managed.world.alerts, lambda: managed.at)
    with httpx.Client(trust_env=False) as client:
        assert box.deliver(client) == 1
        box.renew(client)
    assert [len(seen.json()) for seen in upstream.seen] == [1, 1]
    assert [row["state"] for row in managed.deliveries()] == ["delivered"]


@pytest.mark.loopback
def test_active_alerts_are_kept_open_while_a_slow_route_is_waited_for(
    db: Engine, tmp_path: Path, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each message to the webhook takes a minute here; an alert ends by itself after five."""
    upstream.add("/am/api/v2/alerts", b"", method="POST")
    monkeypatch.setenv("BREAKEVEN_ALERTMANAGER_URL", f"{upstream.url}/am")
    monkeypatch.setenv("BREAKEVEN_WEBHOOK_URL", "http://127.0.0.1:9")
    watch = watch_with(db, tmp_path, CHEAPER.replace("sweeps = 2", "sweeps = 1") + MANAGED + HOOK)
    for price in ("9.00", "8.00", "7.00", "6.00"):
        watch.look(price)
    box = watch.desk.outbox
    pushed_at: list[datetime] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.port != 9:
            pushed_at.append(watch.at)
            return httpx.Response(200)
        watch.wait(minutes=1)
        return httpx.Response(503)

    with httpx.Client(transport=httpx.MockTransport(answer)) as client:
        box.renew(client)
        started = watch.at
        box.deliver(client)
    assert watch.at == started + timedelta(minutes=3)
    assert {started + timedelta(minutes=number) for number in range(4)} <= set(pushed_at)


@pytest.mark.real
@pytest.mark.loopback
def test_a_real_alertmanager_opens_renews_and_closes(
    managed: Watch, require: Callable[[str], Path], tmp_path: Path, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its receiver hears of the alert, and of its end."""
    upstream.add("/told", b"", method="POST")
    config = tmp_path / "alertmanager.json"
    receiver = {"name": "hook", "webhook_configs": [{"url": f"{upstream.url}/told", "send_resolved": True}]}
    route = {"receiver": "hook", "group_wait": "100ms", "group_interval": "100ms", "group_by": ["alertname"]}
    config.write_text(json.dumps({"route": route, "receivers": [receiver]}), encoding="utf-8")
    managed.at = datetime.now(UTC) - timedelta(minutes=45)
    fired(managed)
    with Alertmanager(require("prometheus-alertmanager"), tmp_path / "am", config) as server, httpx.Client(trust_env=False) as client:
        monkeypatch.setenv("BREAKEVEN_ALERTMANAGER_URL", server.url)
        box = Outbox(managed.db, managed.world.alerts, lambda: managed.at)
        server.until(lambda: httpx.get(f"{server.url}/-/ready", trust_env=False).is_success if listens(server) else False, "it is ready")
        assert box.deliver(client) == 1
        (held,) = server.until(server.alerts, "the alert is there")
        assert held["labels"]["alertname"] == "BreakevenCheaperSetup"
        assert abs(moment(held["endsAt"]) - (managed.at + timedelta(minutes=5))) < timedelta(seconds=1)
        managed.wait(seconds=30)
        box.renew(client)
        later = managed.at + timedelta(minutes=5)
        server.until(lambda: [a for a in server.alerts() if abs(moment(a["endsAt"]) - later) < timedelta(seconds=1)], "it is renewed")
        server.until(lambda: [seen for seen in upstream.asked("/told") if seen.json()["status"] == "firing"], "people hear of it")
        with writing(managed.db) as connection:
            decisions.acknowledge(connection, 1, "ann", datetime.now(UTC))
        managed.at = datetime.now(UTC) + timedelta(seconds=1)
        box.renew(client)
        server.until(lambda: not server.alerts(), "it is closed")
        server.until(lambda: [seen for seen in upstream.asked("/told") if seen.json()["status"] == "resolved"], "and of its end")


def listens(server: Alertmanager) -> bool:
    try:
        httpx.get(server.url, trust_env=False)
    except httpx.TransportError:
        return False
    return True


def test_no_label_is_empty_and_none_holds_a_price(managed: Watch) -> None:
    fired(managed)
    message = message_of(managed.told()[0] | {"region": ""})  # type: ignore[arg-type]
    labels = pushed(message, managed.at)["labels"]
    assert all(labels.values())
    assert not any("1.8" in value for value in labels.values())


# --- mail -----------------------------------------------------------------------------------------------------------------


@dataclass
class Mailbox:
    """A mail server's handler that keeps what it is sent; ``refuses`` is what it answers instead."""

    mails: list[tuple[list[str], EmailMessage]] = field(default_factory=list)
    users: list[str] = field(default_factory=list)
    refuses: str = ""
    unknown: str = ""

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: list[str]) -> str:
        if address == self.unknown:
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 known"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        if self.refuses:
            return self.refuses
        self.mails.append((envelope.rcpt_tos, message_from_bytes(envelope.content, policy=policy.default)))  # type: ignore[arg-type]
        return "250 kept"

    def check(self, server: Any, session: Any, envelope: Any, mechanism: str, auth: Any) -> AuthResult:
        self.users.append(auth.login.decode())
        return AuthResult(success=auth.password == PASSWORD.encode(), handled=False)


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox()


@pytest.fixture
def certificate(tmp_path: Path, require: Callable[[str], Path]) -> tuple[Path, Path]:
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    words = [
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=DNS:localhost",
    ]
    subprocess.run([require("openssl"), *words, "-keyout", key, "-out", cert], check=True, capture_output=True, timeout=60)
    return key, cert


def serve(mailbox: Mailbox, **how: Any) -> Iterator[int]:
    server = Controller(mailbox, hostname="127.0.0.1", port=free_port(), **how)
    server.start()
    yield server.port
    server.stop()


@pytest.fixture
def plain_server(mailbox: Mailbox) -> Iterator[int]:
    yield from serve(mailbox)


@pytest.fixture
def tls_server(mailbox: Mailbox, certificate: tuple[Path, Path]) -> Iterator[int]:
    """STARTTLS first, then a password, then mail."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate[1], certificate[0])
    yield from serve(mailbox, tls_context=context, require_starttls=True, auth_required=True, authenticator=mailbox.check)


def send(sender: MailSender, watch: Watch) -> str:
    with httpx.Client() as client:
        return sender.send(client, message_of(watch.told()[0]), watch.at)  # type: ignore[arg-type]


@pytest.mark.loopback
def test_an_alert_by_mail(managed: Watch, mailbox: Mailbox, plain_server: int) -> None:
    route = Email(host="127.0.0.1", port=plain_server, security="none", sender="tracker@prices.example", to=("a@x.example", "b@x.example"))
    fired(managed)
    assert send(mail_sender(route), managed) == ""
    assert send(mail_sender(route), managed) == ""  # again, as after an answer that was lost
    (people, mail), (_, again) = mailbox.mails
    assert people == ["a@x.example", "b@x.example"]
    assert (mail["Subject"], mail["From"]) == ("large-60b: $1.80/h instead of $2.00/h", "tracker@prices.example")
    assert mail["Message-ID"] == again["Message-ID"] == f"<{message_of(managed.told()[0])['id']}@prices.example>"  # type: ignore[arg-type]
    assert mail["Auto-Submitted"] == "auto-generated"
    text = mail.get_content()
    assert text.startswith("cheaper setup for large-60b: $1.80/h instead of $2.00/h (10.0 % or $146.00 a month less)")
    assert "saving usd per month: 146" in text
    assert "provider: cloud" in text


@pytest.mark.loopback
@pytest.mark.real
def test_mail_with_tls_and_a_password(
    managed: Watch, mailbox: Mailbox, tls_server: int, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BREAKEVEN_SMTP_USER", "tracker")
    monkeypatch.setenv("BREAKEVEN_SMTP_PASSWORD", PASSWORD)
    route = Email(host="localhost", port=tls_server, to=("a@x.example",))
    fired(managed)
    sender = replace(mail_sender(route), trust=ssl.create_default_context(cafile=str(certificate[1])))
    assert send(sender, managed) == ""
    assert (len(mailbox.mails), mailbox.users) == (1, ["tracker"])
    fault = send(replace(sender, password="wrong-" + PASSWORD), managed)
    assert fault.startswith("SMTPAuthenticationError")
    assert PASSWORD not in fault
    assert "CERTIFICATE_VERIFY_FAILED" in send(mail_sender(route), managed)  # nobody vouches for it
    assert len(mailbox.mails) == 1


@pytest.mark.loopback
def test_a_mail_server_that_refuses_or_is_not_there_is_a_fault(managed: Watch, mailbox: Mailbox, plain_server: int) -> None:
    fired(managed)
    mailbox.refuses = "451 try later"
    route = Email(host="127.0.0.1", port=plain_server, security="none", to=("a@x.example",))
    assert send(mail_sender(route), managed).startswith("SMTPDataError: (451, b'try later')")
    assert send(mail_sender(route.model_copy(update={"security": "starttls"})), managed).startswith("SMTPNotSupportedError")
    assert send(mail_sender(route.model_copy(update={"port": 9})), managed).startswith("ConnectionRefusedError")


@pytest.mark.loopback
def test_one_person_the_server_refuses_makes_no_second_mail_for_the_others(
    managed: Watch, mailbox: Mailbox, plain_server: int, caplog: pytest.LogCaptureFixture
) -> None:
    fired(managed)
    mailbox.unknown = "b@x.example"
    route = Email(host="127.0.0.1", port=plain_server, security="none", to=("a@x.example", "b@x.example"))
    assert send(mail_sender(route), managed) == ""
    assert [people for people, _ in mailbox.mails] == [["a@x.example"]]
    assert "went out by mail, but not to b@x.example: the server refuses them" in caplog.text
    assert send(mail_sender(route.model_copy(update={"to": ("b@x.example",)})), managed).startswith("SMTPRecipientsRefused")


def test_mail_is_off_until_somebody_is_to_get_it() -> None:
    assert Email().off_reason == "host and to are not stated"
    assert Email(host="h", to=("a@x.example",)).off_reason == ""
    assert Email(host="h", to=("a@x.example",), enabled=False).off_reason == "switched off in alerts.toml"


@pytest.mark.parametrize("address", ["", "@", "a@", "ops", "Ops <ops@x.example>", "a@x.example, b@x.example"])
def test_each_person_is_one_address(db: Engine, tmp_path: Path, address: str) -> None:
    route = f'[routes.mail]\nkind = "email"\nhost = "h"\nto = ["{address}"]\n'
    with pytest.raises(ConfigError, match=r"\[routes\.mail\] to\.0"):
        watch_with(db, tmp_path, CHEAPER + route)


# --- Apprise --------------------------------------------------------------------------------------------------------------

library_s_own = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # it imports modules that Python 3.13 drops


@library_s_own
@pytest.mark.loopback
def test_apprise_channels(managed: Watch, upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    extra("apprise")
    upstream.add("/one", b"", method="POST")
    upstream.add("/two", b"", method="POST", faults=["status:500"])
    host = upstream.url.removeprefix("http://")
    monkeypatch.setenv("BREAKEVEN_APPRISE_URLS", f"json://{host}/one json://{host}/two")
    fired(managed)
    with httpx.Client() as client:
        sender = channel_sender(Channels())
        told = message_of(managed.told()[0])  # type: ignore[arg-type]
        assert sender.send(client, told, managed.at) == "a service in BREAKEVEN_APPRISE_URLS did not take it"
        assert sender.send(client, told, managed.at) == ""
    body = upstream.asked("/one")[0].json()
    assert (body["title"], body["type"]) == ("large-60b: $1.80/h instead of $2.00/h", "success")
    assert body["message"].startswith("cheaper setup for large-60b")


@library_s_own
@pytest.mark.loopback
def test_a_channel_that_is_away_is_tried_again_without_the_others(
    db: Engine, tmp_path: Path, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra("apprise")
    upstream.add("/one", b"", method="POST")
    upstream.add("/two", b"", method="POST", faults=["status:500"])
    host = upstream.url.removeprefix("http://")
    monkeypatch.setenv("BREAKEVEN_APPRISE_URLS", f"json://{host}/one json://{host}/two")
    watch = fired(watch_with(db, tmp_path, CHEAPER + '[routes.chat]\nkind = "apprise"\n'))
    with httpx.Client() as client:
        assert watch.desk.outbox.deliver(client) == 1
        watch.wait(seconds=30)
        assert watch.desk.outbox.deliver(client) == 1
    assert [(row["route"], row["state"], row["attempts"]) for row in watch.deliveries()] == [
        ("chat#1", "delivered", 1), ("chat#2", "delivered", 2),
    ]  # fmt: skip
    assert (len(upstream.asked("/one")), len(upstream.asked("/two"))) == (1, 2)


@library_s_own
def test_an_address_apprise_does_not_know_is_not_shown(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    extra("apprise")
    monkeypatch.setenv("BREAKEVEN_APPRISE_URLS", f"json://127.0.0.1/ nonsense-{PASSWORD}")
    with pytest.raises(BreakevenError, match=r"^BREAKEVEN_APPRISE_URLS: address 2 is none that Apprise knows$"):
        channel_sender(Channels())
    assert PASSWORD not in caplog.text


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    monkeypatch.setenv("BREAKEVEN_APPRISE_URLS", "json://127.0.0.1/")
    with pytest.raises(BreakevenError, match=r"pip install 'breakeven\[channels\]'$"):
        channel_sender(Channels())


def test_a_trial_says_that_it_is_one(managed: Watch) -> None:
    message = trial_message(managed.world, managed.at)
    assert message["title"].startswith("[test]")
    assert message["text"].startswith("[test]")
    assert pushed(message, managed.at)["labels"] == {
        "alertname": "BreakevenTest", "severity": "info", "kind": "test", "subject": "test",
    }  # fmt: skip
