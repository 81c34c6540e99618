"""Charts drawn in a process of their own: the daemon does not grow by drawing, nor does a picture that goes wrong take it along.

The process is started for the first chart with an environment that holds no secrets and none of the daemon's files or sockets; it draws
one chart at a time, is ended when a chart takes too long, and ends by itself when nothing was drawn for a while or the daemon is gone.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from tracker.pictures.messages import read_message, write_message

if TYPE_CHECKING:
    from tracker.pictures.chart import Chart

IDLE_S = 60.0  # after the last chart
WITHIN_S = 10.0  # for a chart, the wait for those before it included
WAITING = 8  # charts asked for at once, the one that is drawn included
ROOT = Path(__file__).resolve().parents[2]
ENDING_S = 1.0  # between the end of its answers and its own
INHERITED = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "TMPDIR")
WORKER = (sys.executable, "-P", "-m", "tracker.pictures.worker")


class NotDrawn(Exception):
    """There is no picture now: says why."""


class Studio:
    """Owns the drawing process of one daemon."""

    def __init__(
        self, *, idle_s: float = IDLE_S, within_s: float = WITHIN_S, waiting: int = WAITING, worker: Sequence[str] = WORKER
    ) -> None:
        self._command = (*worker, str(idle_s))
        self._within_s = within_s
        self._places = threading.BoundedSemaphore(waiting)
        self._drawing = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    @property
    def pid(self) -> int | None:
        """Of the drawing process; None where there is none."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def png(self, chart: Chart) -> bytes:
        """The chart as a PNG. NotDrawn where too many wait, where it takes too long, and where it cannot be drawn."""
        if not self._places.acquire(blocking=False):
            raise NotDrawn("too many pictures are asked for at once")
        try:
            return self._in_turn(chart, monotonic() + self._within_s)
        finally:
            self._places.release()

    def _in_turn(self, chart: Chart, end: float) -> bytes:
        if not self._drawing.acquire(timeout=self._within_s):
            raise NotDrawn("other pictures take too long")
        try:
            body = pickle.dumps(chart)
            drawn = self._drawn(body, end)
            if drawn is None:  # it ended between two charts, or was killed: once more
                drawn = self._drawn(body, end)
            if drawn is None:
                raise NotDrawn("the drawing process was ended")
            return drawn
        finally:
            self._drawing.release()

    def _drawn(self, body: bytes, end: float) -> bytes | None:
        """The answer of the process, started where none runs; None where somebody else ended it."""
        process = self._running()
        late = threading.Event()

        def stop() -> None:
            late.set()
            process.kill()

        limit = threading.Timer(max(0.0, end - monotonic()), stop)
        limit.daemon = True
        limit.start()
        try:
            answer = _ask(process, body)
        finally:
            limit.cancel()
        if answer is not None:
            return answer
        code = self._end(process)
        if late.is_set():
            raise NotDrawn(f"not drawn within {self._within_s:g} s")
        if code > 0:
            raise NotDrawn(f"the drawing process failed with exit code {code}")
        return None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._closed:
            raise NotDrawn("the program stops")
        if self._process is not None and self._process.poll() is not None:
            self._end(self._process)
        if self._process is None:
            try:
                self._process = subprocess.Popen(
                    self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_environment(), cwd="/", bufsize=0
                )
            except OSError as error:
                raise NotDrawn(f"the drawing process cannot be started: {error.strerror}") from error
            threading.Thread(target=self._process.wait, name="studio", daemon=True).start()  # so that it is no zombie when it has ended
            if self._closed:
                self._process.kill()
                self._end(self._process)
                raise NotDrawn("the program stops")
        return self._process

    def _end(self, process: subprocess.Popen[bytes]) -> int:
        """Nothing is left of the process; its exit code."""
        try:
            code = process.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        self._process = None
        return code

    def close(self) -> None:
        """End the process and whatever is being drawn; nothing is drawn from here on."""
        self._closed = True
        process = self._process
        if process is not None:
            process.kill()
        with self._drawing:  # whoever has it finds the process gone
            if self._process is not None:
                self._end(self._process)


def _ask(process: subprocess.Popen[bytes], body: bytes) -> bytes | None:
    """What the process answers; None where it ends meanwhile."""
    assert process.stdin is not None and process.stdout is not None
    try:
        write_message(process.stdin, body)
        return read_message(process.stdout)
    except OSError:
        return None


def _environment() -> dict[str, str]:
    """No keys and no passwords: a picture needs none."""
    kept = {name: os.environ[name] for name in INHERITED if name in os.environ}
    return kept | {"PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))}
