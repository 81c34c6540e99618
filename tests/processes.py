"""Runs the command as a user does: its own process, its own directories, its output read line by line."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import Self

import httpx

COMMAND = (sys.executable, "-c", "from tracker.cli import main; main()")


def environment(home: Path, **more: str) -> dict[str, str]:
    """A bare environment with directories of its own."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "SYSTEMROOT", "PYTHONPATH") if name in os.environ}
    return (
        kept
        | {"HOME": str(home), "BREAKEVEN_DATA": str(home / "data"), "BREAKEVEN_CONFIG": str(home / "config"), "PYTHONUNBUFFERED": "1"}
        | more
    )


def breakeven(home: Path, *words: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [*COMMAND, *words], env=environment(home) | dict(env or {}), capture_output=True, text=True, timeout=120, cwd=home, check=False
    )


class Running:
    """A daemon in a process of its own; ``lines`` is what it printed so far."""

    def __init__(self, home: Path, *words: str, env: Mapping[str, str] | None = None) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.lines: list[str] = []
        self._new: queue.Queue[str | None] = queue.Queue()
        self.process = subprocess.Popen(
            [*COMMAND, "run", "--port", "0", *words], env=environment(home) | dict(env or {}), cwd=home,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            self._new.put(line)
        self._new.put(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def wait_for(self, pattern: str, seconds: float = 60) -> re.Match[str]:
        """The first printed line that matches; fails with all that was printed when the process ends or time is up."""
        end = monotonic() + seconds
        while True:
            for line in self.lines:
                if found := re.search(pattern, line):
                    return found
            try:
                if self._new.get(timeout=max(0.0, end - monotonic())) is None and not any(re.search(pattern, line) for line in self.lines):
                    raise AssertionError(f"ended without {pattern!r}:\n" + "\n".join(self.lines))
            except queue.Empty:
                raise AssertionError(f"nothing matched {pattern!r} within {seconds} s:\n" + "\n".join(self.lines)) from None

    @property
    def url(self) -> str:
        """Where it serves."""
        return self.wait_for(r"page (http://127\.0\.0\.1:\d+)/")[1]

    def get(self, path: str) -> httpx.Response:
        """An answer of its web server."""
        return httpx.get(self.url + path, timeout=20, trust_env=False)

    def until(self, holds: Callable[[], bool], seconds: float = 60) -> None:
        """Poll until ``holds``."""
        end = monotonic() + seconds
        pause = threading.Event()
        while not holds():
            if monotonic() > end:
                raise AssertionError("it never came true:\n" + "\n".join(self.lines))
            pause.wait(0.02)

    def stop(self, number: int = signal.SIGTERM, seconds: float = 10) -> int:
        """Signal it and wait; the exit code."""
        self.process.send_signal(number)
        return self.process.wait(seconds)
