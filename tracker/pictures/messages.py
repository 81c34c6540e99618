"""Messages between the daemon and the process that draws: their length in four bytes, and then they themselves."""

from __future__ import annotations

import struct
from typing import IO

LENGTH = struct.Struct(">I")


def read_message(source: IO[bytes]) -> bytes | None:
    """The next whole message; None where the other side has ended."""
    head = _exactly(source, LENGTH.size)
    return None if head is None else _exactly(source, LENGTH.unpack(head)[0])


def _exactly(source: IO[bytes], size: int) -> bytes | None:
    parts = []
    while size:
        part = source.read(size)
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def write_message(sink: IO[bytes], body: bytes) -> None:
    """Send a message whole."""
    rest = memoryview(LENGTH.pack(len(body)) + body)
    while rest:
        rest = rest[sink.write(rest) or 0 :]
    sink.flush()
