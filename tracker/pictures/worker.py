"""The process that draws: a chart in, a PNG out, one at a time, until it is idle for too long or the daemon is gone.

    python -m tracker.pictures.worker IDLE_SECONDS

Messages are those of ``tracker.pictures.messages``: a pickled Chart of the daemon's own, and the bytes of a PNG.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import sys
from typing import IO

from tracker.pictures.drawing import png
from tracker.pictures.messages import read_message, write_message


def serve(source: IO[bytes], sink: IO[bytes], idle_s: float) -> None:
    """Answer each message from ``source`` on ``sink``; a chart that cannot be drawn ends the process."""
    while select.select([source], [], [], idle_s)[0]:
        body = read_message(source)
        if body is None:
            return
        write_message(sink, png(pickle.loads(body)))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the daemon, which ends this process too
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # whatever is printed is no answer
    serve(os.fdopen(0, "rb", buffering=0, closefd=False), answers, float(sys.argv[1]))
