"""A delivery ends in time as a whole: connect, request, and answer, however slowly the other side goes on.

A time-out of the library starts anew with every byte: a server that sends one a second would hold a delivery for hours.
"""

from __future__ import annotations

import smtplib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from time import monotonic

import httpx

from scrapers.pace import Budget
from scrapers.wire import PatientTransport, closed_unless_done

DEADLINE = "deadline_s"  # extension of a request: the seconds it may take
_AGAIN_S = 0.05  # between two cuts: a connection may be under way to another socket, such as one with TLS


class DeadlineTransport(httpx.BaseTransport):
    """Each request on a connection of its own. ``stop`` ends one under way at once."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """One exchange within the seconds that its extension names; FetchError where it takes longer, else httpcore's own exceptions."""
        request.url.host.encode("idna")  # UnicodeError: no name of a host
        seconds = request.extensions.pop(DEADLINE)
        request.extensions.pop("timeout", None)
        budget = Budget(seconds, stop=self._stop, monotonic=monotonic)
        line = PatientTransport(str(request.url), budget, trust_env=False)
        with closed_unless_done(line):
            answer = line.handle_request(request)
        assert isinstance(answer.stream, httpx.SyncByteStream)
        return httpx.Response(answer.status_code, headers=answer.headers, stream=_Whole(answer.stream, line), extensions=answer.extensions)


class _Whole(httpx.SyncByteStream):
    """A body that closes its connection with itself."""

    def __init__(self, body: httpx.SyncByteStream, line: PatientTransport) -> None:
        self._body, self._line = body, line

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._body)

    def close(self) -> None:
        self._body.close()
        self._line.close()


def deadline_client(stop: threading.Event) -> httpx.Client:
    """A client for deliveries, which goes through no proxy."""
    return httpx.Client(transport=DeadlineTransport(stop), trust_env=False)


@dataclass(slots=True)
class Cut:
    """A mail server whose connection is shut when the time is over; ``late`` says whether it was."""

    server: smtplib.SMTP | None = None
    late: threading.Event = field(default_factory=threading.Event)
    _done: threading.Event = field(default_factory=threading.Event)

    def watch(self, seconds: float) -> None:
        """Wait for the end of the delivery, or make one."""
        if not self._done.wait(seconds):
            self.late.set()
            self._shut()
            while not self._done.wait(_AGAIN_S):
                self._shut()

    def _shut(self) -> None:
        if self.server is not None and self.server.sock is not None:
            with suppress(OSError):  # closed, or under way to TLS
                socket.socket.shutdown(self.server.sock, socket.SHUT_RDWR)

    def end(self) -> None:
        """The delivery is over."""
        self._done.set()


@contextmanager
def cut_off(seconds: float) -> Iterator[Cut]:
    """What shuts the connection of a mail server after so long."""
    cut = Cut()
    threading.Thread(target=cut.watch, args=(seconds,), name="mail deadline", daemon=True).start()
    try:
        yield cut
    finally:
        cut.end()
