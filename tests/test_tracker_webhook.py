"""Webhooks: signed, tried again under the same id, given up in the end; and their addresses and secrets get nowhere else."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import logging
import socket
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine, text
from standardwebhooks import Webhook, WebhookVerificationError
from upstream import Upstream
from waiting import until
from watching import CHEAPER, HOOK, Watch, watch_with

from tracker.alerting import outbox as outboxes
from tracker.alerting.deadline import deadline_client
from tracker.alerting.outbox import MAX_ATTEMPTS, Outbox
from tracker.alerting.routes import secret
from tracker.alerting.senders import make_sender
from tracker.alerting.webhook import signature, signing_keys
from tracker.database.handle import writing
from tracker.errors import ConfigError

URL_VARIABLE = "BREAKEVEN_WEBHOOK_URL"
SECRET = "s3cret-path-of-the-hook"


@pytest.fixture
def watch(db: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watch:
    """One route: a webhook, whose address each test chooses."""
    monkeypatch.setenv(URL_VARIABLE, "http://127.0.0.1:9/hook")
    return watch_with(db, tmp_path, CHEAPER + HOOK)


@pytest.fixture
def stored(watch: Watch) -> Watch:
    """One alert waits, fired three quarters of an hour after T0."""
    watch.look("2.00")
    watch.look("1.80")
    watch.look("1.80")
    return watch


def outbox(watch: Watch, monkeypatch: pytest.MonkeyPatch, url: str, **how: Any) -> Outbox:
    monkeypatch.setenv(URL_VARIABLE, url)
    route = watch.world.alerts.routes["webhook"].model_copy(update=how)
    return Outbox(watch.db, replace(watch.world.alerts, routes={"webhook": route}), lambda: watch.at)


def deliver(box: Outbox) -> int:
    with deadline_client(threading.Event()) as client:
        return box.deliver(client)


def state(watch: Watch) -> tuple[str, int, str]:
    (row,) = watch.deliveries()
    return row["state"], row["attempts"], row["last_error"]


@pytest.mark.loopback
def test_an_alert_is_posted_as_json_and_then_left_alone(stored: Watch, upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    upstream.add("/hook", b"", method="POST", status=204)
    box = outbox(stored, monkeypatch, f"{upstream.url}/hook")
    assert (deliver(box), deliver(box)) == (1, 0)
    (request,) = upstream.seen
    message = request.json()
    assert request.headers["content-type"] == "application/json"
    key = f"cheaper:large-60b/turns/studiotv@{1793620800 + 2700}"
    assert message["id"] == request.headers["webhook-id"] == "msg_" + hashlib.sha256(key.encode()).hexdigest()[:32]
    assert (message["key"], message["type"], message["rule"]) == (key, "alert.cheaper_setup", "cheaper")
    assert request.headers["webhook-timestamp"] == str(1793620800 + 2700)
    assert "webhook-signature" not in request.headers  # no secret is set
    assert (message["kind"], message["subject"]) == ("cheaper_setup", "large-60b/turns/studiotv")
    assert (message["fired_at"], message["new_usd_per_hour"], message["old_usd_per_hour"]) == ("2026-11-02T12:45:00Z", "1.8", "2")
    assert message["text"].startswith("cheaper setup for large-60b: $1.80/h instead of $2.00/h")
    assert state(stored) == ("delivered", 1, "")
    assert stored.deliveries()[0]["delivered_at"] == stored.at


@pytest.mark.loopback
def test_a_failure_is_noted_and_tried_again_when_its_pause_is_over(
    stored: Watch, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream.add("/hook", b"", method="POST", faults=["status:503"])
    box = outbox(stored, monkeypatch, f"{upstream.url}/hook")
    assert deliver(box) == 0
    assert state(stored) == ("stored", 1, "answered 503")
    stored.at += timedelta(seconds=29)
    assert (deliver(box), len(upstream.seen)) == (0, 1)
    stored.at += timedelta(seconds=1)
    assert (deliver(box), len(upstream.seen)) == (1, 2)
    assert state(stored) == ("delivered", 2, "")


@pytest.mark.loopback
def test_a_message_of_a_clock_that_was_ahead_is_sent_now_and_its_pauses_count_from_now(
    stored: Watch, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream.add("/hook", b"", method="POST", faults=["status:503"])
    box = outbox(stored, monkeypatch, f"{upstream.url}/hook")
    stored.at -= timedelta(days=365)
    assert deliver(box) == 0
    stored.at += timedelta(seconds=29)
    assert (deliver(box), len(upstream.seen)) == (0, 1)
    stored.at += timedelta(seconds=1)
    assert (deliver(box), len(upstream.seen)) == (1, 2)


@pytest.mark.loopback
def test_after_eight_attempts_over_an_hour_it_is_given_up_and_stays_visible(
    stored: Watch, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """30 s after the first attempt, then each pause twice as long: 30 x (2 ** n - 1) seconds after the alert."""
    upstream.add("/hook", b"", method="POST", status=500)
    box, fired, tried = outbox(stored, monkeypatch, f"{upstream.url}/hook"), stored.at, []
    with httpx.Client(trust_env=False) as client:
        for seconds in range(0, 7200, 10):
            stored.at, before = fired + timedelta(seconds=seconds), len(upstream.seen)
            box.deliver(client)
            tried += [seconds] * (len(upstream.seen) - before)
    assert tried == [0, 30, 90, 210, 450, 930, 1890, 3810]
    assert len(tried) == MAX_ATTEMPTS
    assert state(stored) == ("failed", 8, "answered 500")


FAULTS = [("redirect:http://127.0.0.1:9/elsewhere", "answered 302"), ("reset", "ReadError"), ("hang", "no complete answer within 0.3 s")]


@pytest.mark.loopback
@pytest.mark.parametrize(("fault", "noted"), FAULTS)
def test_no_fault_of_the_webhook_s_gets_further_than_the_note(
    stored: Watch, upstream: Upstream, monkeypatch: pytest.MonkeyPatch, fault: str, noted: str
) -> None:
    upstream.add("/hook", b"", method="POST", lasting_fault=fault)
    assert deliver(outbox(stored, monkeypatch, f"{upstream.url}/hook", timeout_s=0.3)) == 0
    delivery, attempts, error = state(stored)
    assert (delivery, attempts, error.partition(":")[0]) == ("stored", 1, noted)
    assert len(upstream.seen) == 1


@pytest.mark.parametrize("url", ["http://a..b/hook", f"http://{'a' * 70}.example/hook"])
def test_an_address_that_can_be_none_is_a_fault_like_any_other(stored: Watch, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """An empty label, and one of more than 63 characters."""
    assert deliver(outbox(stored, monkeypatch, url)) == 0
    assert state(stored) == ("stored", 1, "BREAKEVEN_WEBHOOK_URL holds no usable address")


class Broken:
    """A route with a mistake of ours in it."""

    def send(self, client: httpx.Client, message: object, now: datetime, pictures: object = ()) -> str:
        raise LookupError(SECRET)


@pytest.mark.loopback
def test_a_fault_nobody_expected_costs_its_route_an_attempt_and_the_others_nothing(
    db: Engine, tmp_path: Path, upstream: Upstream, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    upstream.add("/hook", b"", method="POST")
    monkeypatch.setenv(URL_VARIABLE, f"{upstream.url}/hook")
    watch = watch_with(db, tmp_path, CHEAPER + HOOK.replace("webhook]", "a-broken]") + HOOK)
    routes = watch.world.alerts.routes
    monkeypatch.setattr(outboxes, "make_sender", lambda route: Broken() if route is routes["a-broken"] else make_sender(route))
    watch.restart()
    for price in ("2.00", "1.80", "1.80"):
        watch.look(price)
    box = watch.desk.outbox
    box.start()
    until(lambda: {row["state"] for row in watch.deliveries()} == {"stored", "delivered"}, box.wake)
    box.close()
    assert [(row["route"], row["attempts"], row["last_error"]) for row in watch.deliveries()] == [
        ("a-broken", 1, "unexpected LookupError"), ("webhook", 1, ""),
    ]  # fmt: skip
    assert SECRET not in caplog.text


@pytest.mark.loopback
def test_an_answer_that_never_ends_holds_nothing_up(stored: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server says 200 and goes on sending, each part well within the time a read may take."""
    over = threading.Event()

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            while not over.wait(0.05):
                connection.sendall(b"1\r\n.\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        started = monotonic()
        end = threading.Timer(10, over.set)  # should it be read to its end
        end.start()
        assert deliver(outbox(stored, monkeypatch, f"http://127.0.0.1:{listener.getsockname()[1]}/hook", timeout_s=5)) == 1
        assert monotonic() - started < 5
        over.set()
        end.cancel()
        thread.join(10)
    assert state(stored) == ("delivered", 1, "")


@pytest.mark.loopback
@pytest.mark.parametrize(
    "url",
    [
        f"http://127.0.0.1:9/{SECRET}",
        f"http://127.0.0.1:9/hook?token={SECRET}",
        f"http://user:{SECRET}@127.0.0.1:9/hook",
        f"http://hook:{SECRET}",  # reads as a port, and httpx quotes what it cannot read
        f"{SECRET}://x/hook",
        f"/{SECRET}",
        f"http://127.0.0.1:9/{SECRET}\n",
    ],
)
def test_the_address_is_in_no_log_and_no_row(
    stored: Watch, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, url: str
) -> None:
    for name in ("httpx", "httpcore"):
        caplog.set_level(logging.DEBUG, logger=name)
    caplog.set_level(logging.DEBUG)
    box = outbox(stored, monkeypatch, url)
    box.start()
    until(lambda: stored.deliveries()[0]["attempts"] == 1, box.wake)
    box.close()
    assert "was not taken by webhook (attempt 1 of 8)" in caplog.text
    assert SECRET not in caplog.text
    assert SECRET not in json.dumps([stored.told(), stored.deliveries()], default=str)


@pytest.mark.loopback
def test_the_address_stays_out_of_the_log_when_all_goes_well(
    stored: Watch, upstream: Upstream, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    upstream.add(f"/{SECRET}", b"", method="POST")
    for name in ("httpx", "httpcore"):
        caplog.set_level(logging.DEBUG, logger=name)
    caplog.set_level(logging.DEBUG)
    box = outbox(stored, monkeypatch, f"{upstream.url}/{SECRET}")
    box.start()
    until(lambda: state(stored)[0] == "delivered", box.wake)
    box.close()
    assert SECRET not in caplog.text


@pytest.mark.loopback
def test_what_an_earlier_process_left_is_sent_by_the_next(stored: Watch, upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    upstream.add("/hook", b"", method="POST", faults=["status:500"])
    deliver(outbox(stored, monkeypatch, f"{upstream.url}/hook"))
    stored.at += timedelta(days=1)
    assert deliver(outbox(stored, monkeypatch, f"{upstream.url}/hook")) == 1


@pytest.mark.loopback
def test_the_thread_outlives_a_database_that_fails_for_a_while(
    stored: Watch, upstream: Upstream, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    upstream.add("/hook", b"", method="POST")
    with writing(stored.db) as connection:
        connection.execute(text("alter table alert rename to elsewhere"))
    box = outbox(stored, monkeypatch, f"{upstream.url}/hook")
    box.start()
    until(lambda: "alerts cannot be read or noted: OperationalError" in caplog.text, box.wake)
    with writing(stored.db) as connection:
        connection.execute(text("alter table elsewhere rename to alert"))
    until(lambda: state(stored)[0] == "delivered", box.wake)
    box.close()


@pytest.mark.loopback
def test_closing_does_not_wait_for_a_webhook_that_hangs(stored: Watch, upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    upstream.add("/hook", b"", method="POST", lasting_fault="hang")
    box = outbox(stored, monkeypatch, f"{upstream.url}/hook", timeout_s=60)
    box.start()
    until(lambda: len(upstream.seen) == 1, box.wake)
    before = monotonic()
    box.close()
    assert monotonic() - before < 5
    assert state(stored)[:2] == ("stored", 0)  # sent again by the next start


def test_without_a_route_an_alert_is_stored_and_logged(
    db: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    watch = watch_with(db, tmp_path, CHEAPER + HOOK)  # its variable is not set
    threads = threading.active_count()
    watch.desk.outbox.start()
    watch.look("2.00")
    watch.look("1.80")
    (alarm,) = watch.look("1.80")
    assert threading.active_count() == threads
    assert [record.getMessage() for record in caplog.records if record.name == "breakeven.alerts"] == [alarm.text]
    assert (len(watch.told()), watch.deliveries()) == (1, [])
    watch.desk.close()


# --- signatures -----------------------------------------------------------------------------------------------------------

SIGNING = "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()
OTHER = "whsec_" + base64.b64encode(b"fedcba9876543210fedcba9876543210").decode()


@pytest.mark.loopback
def test_the_reference_implementation_accepts_what_we_sign(stored: Watch, upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each attempt anew, under the same id; with two secrets either of them will do."""
    monkeypatch.setenv("BREAKEVEN_WEBHOOK_SECRET", f"{SIGNING} {OTHER}")
    stored.at = datetime.now(UTC)  # the reference refuses what is older than five minutes
    upstream.add("/hook", b"", method="POST", faults=["status:503"])
    box = outbox(stored, monkeypatch, f"{upstream.url}/hook")
    deliver(box)
    stored.at += timedelta(seconds=30)
    assert deliver(box) == 1
    first, second = upstream.seen
    for request in (first, second):
        for one in (SIGNING, OTHER):
            found = Webhook(one).verify(request.body, dict(request.headers))
            assert found["kind"] == "cheaper_setup"
        with pytest.raises(WebhookVerificationError):
            Webhook(SIGNING).verify(request.body.replace(b"1.8", b"1.9"), dict(request.headers))
        with pytest.raises(WebhookVerificationError):
            Webhook("whsec_" + base64.b64encode(b"another").decode()).verify(request.body, dict(request.headers))
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert int(second.headers["webhook-timestamp"]) - int(first.headers["webhook-timestamp"]) == 30


def test_the_signature_is_the_one_the_specification_prints() -> None:
    """Key, id, time and body of the reference implementations' own tests, and the signature those print."""
    keys = signing_keys("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "X")
    assert signature(keys, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}') == (
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    )


@pytest.mark.parametrize("text", ["no-prefix", "whsec_", "whsec_!!!", f"{SIGNING} whsec_?"])
def test_a_secret_that_is_none_stops_the_start_and_is_not_shown(stored: Watch, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("BREAKEVEN_WEBHOOK_SECRET", text)
    with pytest.raises(ConfigError, match=r"^BREAKEVEN_WEBHOOK_SECRET: a signing secret is whsec_ and base64; make one with") as caught:
        outbox(stored, monkeypatch, "http://127.0.0.1:9/hook")
    assert "!" not in str(caught.value)
    assert SIGNING not in str(caught.value)


def test_a_secret_may_stand_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "url").write_text("http://127.0.0.1:9/hook\n", encoding="utf-8")
    monkeypatch.setenv("A_VARIABLE_FILE", str(tmp_path / "url"))
    assert secret("A_VARIABLE") == "http://127.0.0.1:9/hook"
    monkeypatch.setenv("A_VARIABLE_FILE", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match=r"^A_VARIABLE_FILE: .*nowhere cannot be read: No such file or directory$"):
        secret("A_VARIABLE")
