"""What a start does first: the answers of the book as it is, and a web server over them. The daemon works behind it.

It imports no more than the answers need, so that the first scrape waits for nothing else.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from datetime import datetime
from time import monotonic
from typing import TYPE_CHECKING

import uvicorn
from sqlalchemy import Engine

from tracker.answers.ageing import latest
from tracker.answers.recompute import Sizer
from tracker.database.faults import Trouble
from tracker.errors import BreakevenError
from tracker.now import utc_now
from tracker.pictures.studio import Studio
from tracker.web.front import make_front
from tracker.world import World

if TYPE_CHECKING:
    from tracker.pictures.chart import Chart

STARTED_WITHIN_S = 2.0  # the web server
AHEAD_S = 0.02  # of what is loaded next, for the answers to those who have been waiting


class PortTaken(BreakevenError):
    """Somebody else listens there."""


def say(line: str) -> None:
    """One line for whoever watches."""
    print(line, flush=True)


def listen(host: str, port: int) -> socket.socket:
    """A bound socket; PortTaken, in one line, where that cannot be."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # said aloud, or asyncio leaves Nagle's algorithm on: 40 ms
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise PortTaken(
            f"cannot listen on {host} port {port}: {error.strerror}; choose another with --port or [web] port in tracker.toml"
        ) from error
    bound.listen(128)
    return bound


class Serving:
    """Owns the current snapshot and the web server of one process."""

    def __init__(self, world: World, db: Engine, *, now: Callable[[], datetime] = utc_now, sizer: Sizer | None = None) -> None:
        self.world = world
        self.db = db
        self.now = now
        self.started_at = now()
        self.stop = threading.Event()
        self.starting = True  # until prices are collected behind what is served
        self.trouble = Trouble(say=say)
        self.sizer = sizer or Sizer(world)
        self.newest_sweep, self.snapshot = latest(db, world, self.sizer, now())
        self._studio = Studio()
        self._server: uvicorn.Server | None = None
        self._web: threading.Thread | None = None

    def draw(self, chart: Chart) -> bytes:
        """The chart as a PNG, drawn in a process of its own; NotDrawn says why there is none."""
        return self._studio.png(chart)

    def serve(self, bound: socket.socket) -> threading.Thread:
        """Serve page, API and metrics on a bound socket, in a thread of its own."""
        how = uvicorn.Config(make_front(self), log_config=None, access_log=False, timeout_graceful_shutdown=2, lifespan="off", ws="none")
        self._server = uvicorn.Server(how)
        self._web = threading.Thread(target=self._server.run, kwargs={"sockets": [bound]}, name="web", daemon=True)
        self._web.start()
        end = monotonic() + STARTED_WITHIN_S
        while not self._server.started and self._web.is_alive() and monotonic() < end:
            self.stop.wait(0.001)  # what is loaded next would only make it slower
        self.stop.wait(AHEAD_S)
        return self._web

    @property
    def alive(self) -> bool:
        """Whether the web server runs."""
        return self._web is not None and self._web.is_alive()

    def close(self) -> None:
        """Let the web server end what it answers, and no more; end the process that draws."""
        self._studio.close()
        if self._server is not None:
            self._server.should_exit = True
