"""Decompression that stops at a cap: response bodies by Content-Encoding, and members of zip archives."""

from __future__ import annotations

import io
import lzma
import zipfile
import zlib
from collections.abc import Iterable, Iterator

from scrapers.contract import LayoutChanged

DEFAULT_MAX_BYTES = 64 * 2**20
ENCODINGS = ("", "identity", "gzip", "x-gzip", "deflate")
_PIECE_BYTES = 64 * 1024  # decompressed at a time: a 64 KiB chunk of a bomb would be 64 MiB at once
_XZ_MEMORY = 80 * 2**20  # bytes; a file of xz -9 takes 65 MiB to read
_GZIP_BITS, _ZLIB_BITS, _RAW_BITS = 31, 15, -15  # zlib's wbits


class TooLarge(Exception):
    """More bytes than the cap, after decompression."""


class Damaged(Exception):
    """The compressed data is broken or ends early."""


def inflate(chunks: Iterable[bytes], encoding: str, *, max_bytes: int) -> bytes:
    """Body of at most ``max_bytes`` from raw chunks; never holds more than that and one piece. ``encoding`` is one of ENCODINGS."""
    with io.BytesIO() as body:  # closed, it is empty at once: an error and its traceback may be around for long
        for piece in pieces(chunks, encoding):
            if body.tell() + len(piece) > max_bytes:
                raise TooLarge(f"more than {max_bytes} bytes")
            body.write(piece)
        return body.getvalue()


def read_zip_member(body: bytes, name: str, *, max_bytes: int = DEFAULT_MAX_BYTES) -> bytes:
    """Bytes of one member of a zip archive; LayoutChanged when it is absent, damaged or larger than ``max_bytes``."""
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            member = archive.getinfo(name)
            # zipfile bounds what it holds for these two methods only
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise LayoutChanged(f"zip member {name!r}: expected stored or deflated, found method {member.compress_type}")
            with archive.open(member) as stream:
                data = stream.read(max_bytes + 1)
    except KeyError as error:
        raise LayoutChanged(f"expected {name!r} in the zip archive, found none of that name") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError) as error:
        raise LayoutChanged(f"expected a readable zip archive with {name!r}, found {type(error).__name__}: {error}") from error
    if len(data) > max_bytes:
        raise LayoutChanged(f"zip member {name!r}: expected at most {max_bytes} bytes, found more")
    return data


def pieces(chunks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """The body bit by bit, decompressed; ``encoding`` is one of ENCODINGS."""
    if encoding in ("gzip", "x-gzip"):
        return _inflated(iter(chunks), b"", _GZIP_BITS)
    if encoding == "deflate":
        return _deflated(iter(chunks))
    return iter(chunks)


def xz_pieces(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """An xz file bit by bit, decompressed; Damaged when it is broken, ends early, or wants more memory than xz -9 does."""
    stream = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
    try:
        for chunk in chunks:
            data = chunk
            while data or not (stream.needs_input or stream.eof):
                if stream.eof:
                    return
                yield stream.decompress(data, _PIECE_BYTES)
                data = b""
    except lzma.LZMAError as error:
        raise Damaged(f"broken compressed data ({error})") from error
    if not stream.eof:
        raise Damaged("compressed data that ends early")


def _deflated(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Servers send both zlib streams and raw deflate under the one name; the two-byte zlib header tells (RFC 1950, 2.2)."""
    head = b""
    while len(head) < 2 and (chunk := next(chunks, None)) is not None:
        head += chunk
    is_zlib = len(head) >= 2 and head[0] & 0x0F == 8 and int.from_bytes(head[:2], "big") % 31 == 0
    return _inflated(chunks, head, _ZLIB_BITS if is_zlib else _RAW_BITS)


def _inflated(chunks: Iterator[bytes], head: bytes, bits: int) -> Iterator[bytes]:
    """Decompressed pieces; gzip members may follow one another, other bytes after the end are ignored."""
    stream = zlib.decompressobj(bits)
    seen = 0
    try:
        for data in _chain(head, chunks):
            seen += len(data)
            while data:
                if stream.eof and not (bits == _GZIP_BITS and data.startswith(b"\x1f")):
                    break
                stream = zlib.decompressobj(bits) if stream.eof else stream
                yield stream.decompress(data, _PIECE_BYTES)
                data = stream.unused_data if stream.eof else stream.unconsumed_tail
        yield stream.flush()
    except zlib.error as error:
        raise Damaged(f"broken compressed data ({error})") from error
    if seen and not stream.eof:
        raise Damaged("compressed data that ends early")


def _chain(head: bytes, chunks: Iterator[bytes]) -> Iterator[bytes]:
    if head:
        yield head
    yield from chunks
