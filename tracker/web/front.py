"""What the web server runs: scrapes and the sign of life are answered at once, everything else by the framework behind.

The framework is loaded when somebody first asks for a page or the API: a start does not wait for it, and a program that is only
scraped does without its 20 MB.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from sqlalchemy import Engine

from tracker.answers.snapshot import Snapshot
from tracker.database.faults import Trouble
from tracker.web.scrape import App, Receive, Scope, ScrapeFirst, Scrapes, Send, answer_bytes
from tracker.world import World

if TYPE_CHECKING:
    from tracker.pictures.chart import Chart

CSP = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
HEADERS = {"Content-Security-Policy": CSP, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}


class Served(Protocol):
    """What the web needs of the daemon."""

    world: World
    db: Engine
    trouble: Trouble
    starting: bool  # the book is served, and nothing is collected yet
    now: Callable[[], datetime]

    @property
    def snapshot(self) -> Snapshot:
        """The current results."""

    def draw(self, chart: Chart) -> bytes:
        """The chart as a PNG."""


def make_front(served: Served) -> App:
    """The application over a running daemon."""

    def pages() -> App:
        from tracker.web.app import make_app  # when the first page is asked for

        return make_app(served)

    return ScrapeFirst(AliveFirst(Later(pages), HEADERS), scrapes=Scrapes(lambda: served.snapshot), headers=HEADERS)


class AliveFirst:
    """An ASGI application in front of another one that answers ``/healthz`` itself, on no thread that others could hold."""

    def __init__(self, app: App, headers: Mapping[str, str]) -> None:
        self._app = app
        self._headers = {**headers, "Content-Type": "text/plain; charset=utf-8"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or hand on."""
        if scope["type"] == "http" and scope["path"] == "/healthz" and scope["method"] in ("GET", "HEAD"):
            await answer_bytes(scope, send, 200, self._headers, b"ok\n")
        else:
            await self._app(scope, receive, send)


class Later:
    """An ASGI application that is made on a thread when it is first asked; whoever asks meanwhile waits for it, and nobody else."""

    def __init__(self, make: Callable[[], App]) -> None:
        self._make = make
        self._app: App | None = None
        self._making = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand on."""
        app = self._app or await self._made()
        await app(scope, receive, send)

    async def _made(self) -> App:
        async with self._making:
            if self._app is None:
                self._app = await asyncio.to_thread(self._make)
            return self._app
