"""Tells the supervisor at $NOTIFY_SOCKET (systemd, Type=notify) how the program is doing; says nothing where there is none.

The protocol is a datagram of NAME=value lines, sd_notify(3); how often a sign of life is due, sd_watchdog_enabled(3).
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

STUCK_S = 300  # without a recompute, good or failed, that is tried once a minute at least
STATUS_EVERY_S = 60.0  # where no sign of life is asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """Whether the program does its work, and one line about it."""

    alive: bool
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervisor:
    """Who is told, and the longest time between two signs of life in seconds; 0 where none is asked for."""

    address: str
    watchdog_s: float

    def say(self, *lines: str) -> bool:
        """Send the lines as one datagram; False where nobody took it, which is no reason to stop working."""
        if not self.address:
            return False
        target = "\0" + self.address[1:] if self.address.startswith("@") else self.address  # @: Linux's abstract names
        message = "\n".join(line.replace("\n", " ") for line in lines).encode()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | getattr(socket, "SOCK_CLOEXEC", 0)) as out:
            try:
                out.sendto(message, target)
            except OSError:
                return False
        return True

    def watch(self, stop: threading.Event, pulse: Callable[[], Pulse]) -> None:
        """Report readiness, then the pulse, until ``stop``. A program that is stuck gives no sign of life: it is restarted."""
        self.say("READY=1", f"STATUS={pulse().status}")
        pause = self.watchdog_s / 2 or STATUS_EVERY_S  # half the time, as the manual asks
        while not stop.wait(pause if self.address else None):
            found = pulse()
            self.say(*(["WATCHDOG=1"] if found.alive else []), f"STATUS={found.status}")
        self.say("STOPPING=1", "STATUS=stopping")


def supervisor(environ: Mapping[str, str] = os.environ) -> Supervisor:
    """The supervisor the environment names. The watchdog of another process is not ours."""
    ours = environ.get("WATCHDOG_PID", "") in ("", str(os.getpid()))
    usec = environ.get("WATCHDOG_USEC", "") if ours else ""
    return Supervisor(address=environ.get("NOTIFY_SOCKET", ""), watchdog_s=int(usec) / 1e6 if usec.isdecimal() else 0)
