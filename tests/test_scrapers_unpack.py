"""Decompression: the same bytes back however they are cut, and never more than the cap."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from upstream import bomb_parts

from scrapers.contract import LayoutChanged
from scrapers.unpack import Damaged, TooLarge, inflate, read_zip_member


def raw_deflate(body: bytes) -> bytes:
    engine = zlib.compressobj(wbits=-15)
    return engine.compress(body) + engine.flush()


PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "identity": bytes,
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
}


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


@given(body=st.binary(max_size=3000), size=st.integers(1, 700), encoding=st.sampled_from(sorted(PACK)))
def test_any_body_in_any_chunks(body: bytes, size: int, encoding: str) -> None:
    assert inflate(cut(PACK[encoding](body), size), encoding, max_bytes=3000) == body


@given(body=st.binary(max_size=300), size=st.integers(1, 40))
def test_raw_deflate_under_the_same_name(body: bytes, size: int) -> None:
    assert inflate(cut(raw_deflate(body), size), "deflate", max_bytes=300) == body


@given(parts=st.lists(st.binary(max_size=50), min_size=1, max_size=5), size=st.integers(1, 40))
def test_gzip_members_follow_one_another(parts: list[bytes], size: int) -> None:
    sent = b"".join(map(gzip.compress, parts))
    assert inflate(cut(sent, size), "gzip", max_bytes=300) == b"".join(parts)


def test_bytes_after_the_end_are_ignored() -> None:
    assert inflate([gzip.compress(b"prices"), b"\0\0\0", b"more"], "gzip", max_bytes=10) == b"prices"
    assert inflate([zlib.compress(b"prices") + b"\0"], "deflate", max_bytes=10) == b"prices"


@pytest.mark.parametrize("encoding", sorted(PACK))
def test_no_bytes_at_all_are_an_empty_body(encoding: str) -> None:
    assert inflate([], encoding, max_bytes=1) == b""


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_data_that_ends_early_or_is_none_is_damaged(encoding: str) -> None:
    whole = PACK[encoding](b"prices" * 50)
    for end in range(1, len(whole)):
        with pytest.raises(Damaged):
            inflate([whole[:end]], encoding, max_bytes=1000)
    with pytest.raises(Damaged, match="broken compressed data"):
        inflate([b"<html>not compressed at all</html>"], encoding, max_bytes=1000)


def test_a_wrong_checksum_is_damaged() -> None:
    sent = bytearray(gzip.compress(b"prices"))
    sent[-5] ^= 1  # in the CRC32 of the trailer (RFC 1952, 2.3.1)
    with pytest.raises(Damaged):
        inflate([bytes(sent)], "gzip", max_bytes=100)


@pytest.mark.parametrize("encoding", sorted(PACK))
def test_the_cap_is_exact(encoding: str) -> None:
    sent = PACK[encoding](b"x" * 1000)
    assert inflate([sent], encoding, max_bytes=1000) == b"x" * 1000
    with pytest.raises(TooLarge, match="more than 999 bytes"):
        inflate([sent], encoding, max_bytes=999)


def test_a_bomb_in_one_chunk_takes_no_more_memory_than_the_cap() -> None:
    head, mebibyte = bomb_parts()
    bomb = head + mebibyte * 2048  # 2 GiB
    tracemalloc.start()
    with pytest.raises(TooLarge):
        inflate([bomb], "gzip", max_bytes=2**20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * 2**20 + 3 * len(bomb)


# --- zip ----------------------------------------------------------------------------------------------------------------


def archive(method: int = zipfile.ZIP_DEFLATED, **members: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as file:
        for name, body in members.items():
            file.writestr(name, body)
    return out.getvalue()


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_member_by_name(method: int) -> None:
    body = archive(method, rates=b"EUR,USD\n", other=b"?")
    assert read_zip_member(body, "rates") == b"EUR,USD\n"


def test_a_member_as_large_as_the_cap() -> None:
    body = archive(rates=b"x" * 1000)
    assert len(read_zip_member(body, "rates", max_bytes=1000)) == 1000
    with pytest.raises(LayoutChanged, match="zip member 'rates': expected at most 999 bytes, found more"):
        read_zip_member(body, "rates", max_bytes=999)


def test_a_member_that_understates_its_size() -> None:
    body = archive(rates=bytes(10 * 2**20))
    lie = body.replace((10 * 2**20).to_bytes(4, "little"), (5).to_bytes(4, "little"))
    assert lie != body
    with pytest.raises(LayoutChanged):
        read_zip_member(lie, "rates", max_bytes=1000)


def test_a_zip_bomb_takes_no_more_memory_than_the_cap() -> None:
    body = archive(rates=bytes(200 * 2**20))
    tracemalloc.start()
    with pytest.raises(LayoutChanged, match="expected at most"):
        read_zip_member(body, "rates", max_bytes=2**20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 2**20


PACKED = raw_deflate(b"x" * 100)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "expected a readable zip archive"),
        (b"<html>", "expected a readable zip archive"),
        (archive(rates=b"x" * 100)[:-30], "expected a readable zip archive"),
        (archive(other=b"x"), "expected 'rates' in the zip archive, found none of that name"),
        (archive(zipfile.ZIP_BZIP2, rates=b"x"), "expected stored or deflated, found method 12"),
        (archive(rates=b"x" * 100).replace(PACKED, b"\xff" * len(PACKED)), "expected a readable zip archive"),
        (bz2.compress(b"x"), "expected a readable zip archive"),
    ],
)
def test_other_archives_are_layout_changes(body: bytes, said: str) -> None:
    with pytest.raises(LayoutChanged, match=said):
        read_zip_member(body, "rates")


@given(at=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_no_damage_gets_past(at: int, bit: int) -> None:
    body = bytearray(archive(rates=b"1 EUR = 1.0876 USD\n"))
    body[at % len(body)] ^= 1 << bit
    with contextlib.suppress(LayoutChanged):
        assert read_zip_member(bytes(body), "rates") == b"1 EUR = 1.0876 USD\n"
