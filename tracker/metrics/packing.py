"""gzip of a text in pieces (RFC 1951, 1952): a piece that is the same as before is not compressed again.

Each piece is deflated by itself and ends at a whole byte, so that the pieces put together are one stream, for any reader.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

LEVEL = 1  # a body of a minute, for a scraper near by: level 6 takes four times as long for a third less
WINDOW_BITS, MEMORY = 14, 6  # a piece is about as large; more is set up for each of them in vain: a fifth of the time
HEAD = bytes((0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 4, 255))  # deflate, no name, no time, the fastest level, no system
LAST = b"\x03\x00"  # an empty block that says it is the last


@dataclass(slots=True)
class Packer:
    """Compresses one text after another. The same pieces always give the same bytes, whatever was before them."""

    _packed: Sequence[tuple[bytes, bytes]] = ()

    def packed(self, pieces: Sequence[bytes]) -> bytes:
        """The pieces, one after the other, in gzip."""
        before = [*self._packed, *[(b"", b"")] * len(pieces)]  # nothing is packed as nothing
        self._packed = [known if known[0] == piece else (piece, _deflated(piece)) for piece, known in zip(pieces, before, strict=False)]
        check = size = 0
        for piece in pieces:
            check, size = zlib.crc32(piece, check), size + len(piece)
        end = check.to_bytes(4, "little") + (size % 2**32).to_bytes(4, "little")
        return b"".join((HEAD, *(found for _, found in self._packed), LAST, end))


def _deflated(piece: bytes) -> bytes:
    """The piece as blocks none of which is the last one."""
    if not piece:
        return b""
    work = zlib.compressobj(LEVEL, zlib.DEFLATED, -WINDOW_BITS, MEMORY)
    return work.compress(piece) + work.flush(zlib.Z_SYNC_FLUSH)
