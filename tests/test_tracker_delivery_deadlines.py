"""Receivers that are slow on purpose: every delivery ends within its own time as a whole, and holds the others up once at most."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import httpx
import pytest
from extras import extra
from sqlalchemy import Engine
from upstream import Upstream
from watching import CHEAPER, HOOK, Watch, watch_with

from tracker.alerting.alertmanager import alertmanager_sender
from tracker.alerting.bounded import Bounded, Late
from tracker.alerting.channels import channel_sender
from tracker.alerting.deadline import deadline_client
from tracker.alerting.mail import mail_sender
from tracker.alerting.outbox import Outbox
from tracker.alerting.routes import AlertmanagerRoute, Channels, Email
from tracker.alerting.senders import GRACE_S, Delivery, Sender
from tracker.alerting.trial import trial_message

pytestmark = pytest.mark.loopback
SLACK_S = 3.0  # of a busy machine; undisturbed, each of these servers would go on for an hour
Line = tuple[socket.socket, threading.Event]
Talk = Callable[[socket.socket, threading.Event], None]


def drip(text: bytes) -> Talk:
    """Say the text one byte at a time, well within any time-out of a read, for ever."""

    def talk(line: socket.socket, over: threading.Event) -> None:
        number = 0
        while not over.wait(0.02):
            line.sendall(text[number : number + 1] if number < len(text) else b"x")
            number += 1

    return talk


def say_nothing(line: socket.socket, over: threading.Event) -> None:
    over.wait(30)


def greet_and_drip(line: socket.socket, over: threading.Event) -> None:
    """A mail server that takes the greeting and then never ends its answer."""
    line.sendall(b"220 slow\r\n")
    line.recv(1000)
    drip(b"250-")(line, over)


TALKS = {"banner": drip(b"220-slow"), "greeting": greet_and_drip, "nothing": say_nothing}


@pytest.fixture
def server() -> Iterator[Callable[[Talk], int]]:
    """Starts servers that talk so to whoever connects; gives their ports."""
    over, opened = threading.Event(), []

    def serve(listener: socket.socket, talk: Talk) -> None:
        while not over.is_set():
            with contextlib.suppress(OSError):
                line, _ = listener.accept()
                threading.Thread(target=hold, args=(line, talk), daemon=True).start()

    def hold(line: socket.socket, talk: Talk) -> None:
        with line, contextlib.suppress(OSError):
            talk(line, over)

    def start(talk: Talk) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        opened.append(listener)
        threading.Thread(target=serve, args=(listener, talk), daemon=True).start()
        return int(listener.getsockname()[1])

    yield start
    over.set()
    for listener in opened:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()


@pytest.fixture
def watch(db: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watch:
    monkeypatch.setenv("BREAKEVEN_WEBHOOK_URL", "http://127.0.0.1:9/hook")
    return watch_with(db, tmp_path, CHEAPER.replace("sweeps = 2", "sweeps = 1") + HOOK)


def tried(sender: Sender, watch: Watch, timeout_s: float) -> tuple[str, float]:
    """What went wrong, and after how many seconds."""
    begun = monotonic()
    with deadline_client(threading.Event()) as client:
        fault = Delivery(sender, timeout_s).tried(client, trial_message(watch.world, watch.at), watch.at)
    return fault, monotonic() - begun


HEAD = b"HTTP/1.1 200 OK\r\nX-Filler: "


@pytest.mark.parametrize("talk", [drip(HEAD), drip(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000), say_nothing])
def test_a_receiver_that_drips_its_headers_is_left_after_the_time_of_a_delivery(
    server: Callable[[Talk], int], watch: Watch, monkeypatch: pytest.MonkeyPatch, talk: Talk
) -> None:
    monkeypatch.setenv("BREAKEVEN_ALERTMANAGER_URL", f"http://127.0.0.1:{server(talk)}")
    fault, seconds = tried(alertmanager_sender(AlertmanagerRoute(timeout_s=0.5)), watch, 0.5)
    assert fault == "no complete answer within 0.5 s"
    assert 0.5 <= seconds < 0.5 + SLACK_S


@pytest.mark.parametrize("security", ["none", "starttls", "tls"])
@pytest.mark.parametrize("talk", sorted(TALKS))
def test_a_mail_server_that_drips_is_left_too(server: Callable[[Talk], int], watch: Watch, talk: str, security: Any) -> None:
    """With TLS from the first byte it is the handshake that never ends, or is none."""
    route = Email(host="127.0.0.1", port=server(TALKS[talk]), security=security, to=("a@x.example",), timeout_s=0.5)
    fault, seconds = tried(mail_sender(route), watch, 0.5)
    assert fault == "no complete answer within 0.5 s" or (security == "tls" and fault.startswith("SSLError: [SSL"))
    assert seconds < 0.5 + SLACK_S


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Apprise imports modules that Python 3.13 drops
def test_a_chat_service_that_drips_is_left_behind_and_not_joined_by_a_second(
    server: Callable[[Talk], int], watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra("apprise")
    monkeypatch.setenv("BREAKEVEN_APPRISE_URLS", f"json://127.0.0.1:{server(drip(HEAD))}")
    delivery, message = Delivery(channel_sender(Channels()), 0.5), trial_message(watch.world, watch.at)
    before = threading.active_count()
    with httpx.Client() as client:
        first, *others = [delivery.tried(client, message, watch.at) for _ in range(3)]
    assert first == f"not done within {0.5 + GRACE_S:g} s"
    assert others == ["the one before has not ended"] * 2
    assert threading.active_count() - before <= 2 + 1  # the delivery, the server's own, and one of the library's


def test_one_that_drips_holds_the_others_up_once(
    db: Engine, tmp_path: Path, server: Callable[[Talk], int], upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three messages for two routes: the slow one comes first by name, takes its time once, and the other gets all three."""
    upstream.add("/quick", b"", method="POST", status=204)
    monkeypatch.setenv("SLOW_URL", f"http://127.0.0.1:{server(drip(HEAD))}")
    monkeypatch.setenv("QUICK_URL", f"{upstream.url}/quick")
    routes = "".join(
        f'[routes.{name}]\nkind = "webhook"\nurl_env = "{url}"\ntimeout_s = 1\n'
        for name, url in (("a-slow", "SLOW_URL"), ("quick", "QUICK_URL"))
    )
    watch = watch_with(db, tmp_path, CHEAPER.replace("sweeps = 2", "sweeps = 1") + routes)
    for price in ("9.00", "8.00", "7.00", "6.00"):
        watch.look(price)
    begun = monotonic()
    with deadline_client(threading.Event()) as client:
        box: Outbox = watch.desk.outbox
        assert box.deliver(client) == 3
        assert monotonic() - begun < 1 + SLACK_S  # and not 3
        told = [(row["route"], row["state"], row["attempts"], row["last_error"]) for row in watch.deliveries()]
        slow = "no complete answer within 1 s"
        assert told == [
            ("a-slow", "stored", 1, slow), ("quick", "delivered", 1, ""), ("a-slow", "stored", 0, ""), ("quick", "delivered", 1, ""),
            ("a-slow", "stored", 0, ""), ("quick", "delivered", 1, ""),
        ]  # fmt: skip
        watch.look("5.00")
        arrived = len(upstream.seen)
        quick_at: list[float] = []
        waiter = threading.Thread(target=lambda: quick_at.append(_when(lambda: len(upstream.seen) > arrived)), daemon=True)
        begun = monotonic()
        waiter.start()
        assert box.deliver(client) == 1
        waiter.join(10)
        assert monotonic() - begun >= 1  # the slow one was tried again ...
        assert quick_at[0] - begun < 1  # ... after the other


def _when(seen: Callable[[], bool]) -> float:
    end, pause = monotonic() + 10, threading.Event()
    while not seen() and monotonic() < end:
        pause.wait(0.005)
    return monotonic()


def test_an_end_of_the_program_is_no_attempt_and_the_message_waits_for_the_next_start(
    server: Callable[[Talk], int], watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected = threading.Event()

    def talk(line: socket.socket, over: threading.Event) -> None:
        connected.set()
        drip(HEAD)(line, over)

    monkeypatch.setenv("BREAKEVEN_WEBHOOK_URL", f"http://127.0.0.1:{server(talk)}")
    watch.restart()
    for price in ("2.00", "1.80"):
        watch.look(price)
    box = watch.desk.outbox
    box.start()
    box.wake()
    assert connected.wait(10)
    begun = monotonic()
    box.close()
    assert monotonic() - begun < 1 + SLACK_S
    (row,) = watch.deliveries()
    assert (row["state"], row["attempts"], row["claimed_until"]) == ("stored", 0, None)


def test_what_ends_a_program_is_raised_where_it_is_waited_for() -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Bounded("t").wait(stop, 5)


def test_a_job_gives_what_it_gives_its_fault_or_that_it_is_late() -> None:
    over = threading.Event()
    bounded = Bounded("t")
    assert bounded.wait(lambda: 7, 5) == 7
    assert isinstance(bounded.wait(lambda: {}["x"], 5), KeyError)
    assert isinstance(bounded.wait(lambda: over.wait(30), 0.01), Late)
    assert isinstance(bounded.wait(lambda: 7, 5), Late)  # the one before is still at it
    over.set()
    _when(lambda: bounded.wait(lambda: 7, 5) == 7)
    assert bounded.wait(lambda: 7, 5) == 7
