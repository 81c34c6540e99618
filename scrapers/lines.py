"""Lines of a text that is too large to hold: the kept ones, read piece by piece."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable

from scrapers.contract import Lines
from scrapers.unpack import TooLarge, pieces, xz_pieces

LONGEST_LINE = 2**20  # bytes; a line of an offer file has about 1,500


def kept_lines(chunks: Iterable[bytes], encoding: str, lines: Lines, *, max_bytes: int) -> bytes:
    """The kept lines of a body, each with its line break; ``max_bytes`` is of what is kept. Holds that, one piece and one line.

    ``encoding`` is one of unpack.ENCODINGS.
    """
    kept, keeps = io.BytesIO(), lines.reader()
    rest = b""
    body = pieces(chunks, encoding)
    for piece in xz_pieces(body) if lines.packed == "xz" else body:
        whole, found, last = piece.rpartition(b"\n")
        if found:
            _keep(kept, (rest + whole).split(b"\n"), keeps, max_bytes)
            rest = last
        else:
            rest += last
        if len(rest) > LONGEST_LINE:
            raise TooLarge(f"a line of more than {LONGEST_LINE} bytes")
    _keep(kept, [rest], keeps, max_bytes)
    return kept.getvalue()


def _keep(kept: io.BytesIO, candidates: list[bytes], keeps: Callable[[bytes], bool], max_bytes: int) -> None:
    for line in candidates:
        if keeps(line):
            if kept.tell() + len(line) >= max_bytes:
                raise TooLarge(f"more than {max_bytes} bytes of kept lines")
            kept.write(line + b"\n")
