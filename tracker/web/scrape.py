"""``/metrics``, ahead of the framework: bytes that were made once for a snapshot, sent as they are.

Everything in it is of the moment of the snapshot, that of the process too, so a body may be served as often as it is asked for.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from tracker.answers.snapshot import Snapshot
from tracker.metrics.exposition import Form, Renderer, Texts, assemble, pieces
from tracker.metrics.families import families
from tracker.metrics.negotiation import Answer, negotiate
from tracker.metrics.packing import Packer

PATH = "/metrics"
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Scrapes:
    """The current snapshot's bodies, each made when it is first asked for and dropped with the snapshot."""

    def __init__(self, current: Callable[[], Snapshot]) -> None:
        self._current = current
        self._renderer = Renderer()
        self._packers: dict[Form, Packer] = {"text": Packer(), "openmetrics": Packer()}
        self._lock = threading.Lock()
        self._of: Snapshot | None = None
        self._written: list[Texts] = []
        self._bodies: dict[tuple[Form, bool], bytes] = {}

    def ready(self, answer: Answer) -> bytes | None:
        """The body where it has been made already."""
        of, bodies = self._of, self._bodies
        return bodies.get((answer.form, answer.gzip)) if of is self._current() else None

    def body(self, answer: Answer) -> bytes:
        """The body of the current snapshot; whoever asks while it is being made waits for it."""
        with self._lock:
            snapshot = self._current()
            if self._of is not snapshot:
                self._written, self._bodies = self._renderer.lines(families(snapshot)), {}
                self._of = snapshot
            body = self._bodies.get((answer.form, answer.gzip))
            if body is None:
                body = self._bodies[answer.form, answer.gzip] = self._made(answer)
            return body

    def _made(self, answer: Answer) -> bytes:
        if answer.gzip:
            return self._packers[answer.form].packed(pieces(self._written, answer.form))
        return assemble(self._written, answer.form)


class ScrapeFirst:
    """An ASGI application in front of another one that answers GET and HEAD of ``/metrics`` itself."""

    def __init__(self, app: App, scrapes: Scrapes, headers: Mapping[str, str]) -> None:
        self._app = app
        self._scrapes = scrapes
        self._headers = {**headers, "Vary": "Accept, Accept-Encoding", "Cache-Control": "no-store"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or hand on."""
        if scope["type"] != "http" or scope["path"] != PATH:
            await self._app(scope, receive, send)
        elif scope["method"] in ("GET", "HEAD"):
            await self._answer(scope, send)
        else:
            await answer_bytes(scope, send, 405, self._headers | {"Allow": "GET, HEAD"}, b"")

    async def _answer(self, scope: Scope, send: Send) -> None:
        answer = negotiate(_header(scope, b"accept"), _header(scope, b"accept-encoding"))
        body = self._scrapes.ready(answer)
        if body is None:
            body = await asyncio.to_thread(self._scrapes.body, answer)
        more = {"Content-Type": answer.content_type} | ({"Content-Encoding": "gzip"} if answer.gzip else {})
        await answer_bytes(scope, send, 200, self._headers | more, body)


async def answer_bytes(scope: Scope, send: Send, status: int, headers: Mapping[str, str], body: bytes) -> None:
    """Send a whole answer; of HEAD its head."""
    written = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    written.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": written})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


def _header(scope: Scope, wanted: bytes) -> str:
    return ",".join(value.decode("latin-1") for name, value in scope["headers"] if name == wanted)
