"""Files too large to hold: the kept lines alone, whatever the pieces, with their cap, conditions and faults."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import pairwise
from time import monotonic

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from upstream import Upstream

from scrapers.contract import FetchError, LineFilter
from scrapers.http import HostGate, SourceClient, SourceLimits, StoredPage, open_client
from scrapers.lines import LONGEST_LINE, kept_lines
from scrapers.unpack import Damaged, TooLarge

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
FILTER = LineFilter(head=b'"SKU"', all_of=(b'"Linux"', b'"Used"'), any_of=(b'"p5.', b'"g6.'))
KEPT = b'"SKU","OS","Status","Type"\n1,"Linux","Used","p5.48xlarge"\n3,"Linux","Used","g6.xlarge"\n'
FILE = (
    b'"FormatVersion","v1.0"\n"SKU","OS","Status","Type"\n1,"Linux","Used","p5.48xlarge"\n2,"Windows","Used","p5.48xlarge"\n'
    b'3,"Linux","Used","g6.xlarge"\n4,"Linux","Used","m7.large"\n'
)


def test_the_header_and_the_lines_that_hold_every_literal_are_kept() -> None:
    assert kept_lines([FILE], "", FILTER, max_bytes=1000) == KEPT


@given(st.lists(st.integers(1, len(FILE) - 1), max_size=12))
def test_where_the_pieces_end_does_not_matter(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(FILE)]
    chunks = [FILE[start:end] for start, end in pairwise(edges)]
    assert kept_lines(chunks, "", FILTER, max_bytes=1000) == KEPT


def test_a_last_line_without_a_break_counts_and_compression_does_not_matter() -> None:
    assert kept_lines([FILE.rstrip(b"\n")], "", FILTER, max_bytes=1000) == KEPT
    assert kept_lines([gzip.compress(FILE)], "gzip", FILTER, max_bytes=1000) == KEPT
    with pytest.raises(Damaged):
        kept_lines([gzip.compress(FILE)[:-12]], "gzip", FILTER, max_bytes=1000)


def test_the_cap_is_of_what_is_kept() -> None:
    assert kept_lines([FILE * 1, b"x\n" * 100_000], "", FILTER, max_bytes=len(KEPT)) == KEPT
    with pytest.raises(TooLarge, match="of kept lines"):
        kept_lines([FILE], "", FILTER, max_bytes=len(KEPT) - 1)


def test_a_line_without_end_is_no_line() -> None:
    with pytest.raises(TooLarge, match="a line of more than"):
        kept_lines([b"x" * 2**16] * (LONGEST_LINE // 2**16 + 1), "", FILTER, max_bytes=1000)
    with pytest.raises(TooLarge, match="a line of more than"):
        kept_lines([gzip.compress(bytes(64 * 2**20))], "gzip", FILTER, max_bytes=1000)


def client(handler: Callable[[httpx.Request], httpx.Response], stored: dict[str, StoredPage] | None = None) -> SourceClient:
    limits = SourceLimits(base_url="http://prices.test", user_agent="breakeven/0.1", max_bytes=1000, attempts=2, min_interval_s=0)
    return open_client(
        limits,
        host_gate=HostGate(monotonic=monotonic),
        now=lambda: NOW,
        stored=stored,
        stop=threading.Event(),
        sleep=lambda _: None,
        transport=httpx.MockTransport(handler),
    )


class Chunks(httpx.SyncByteStream):
    def __init__(self, chunks: list[bytes]) -> None:
        self.chunks = chunks

    def __iter__(self) -> Iterator[bytes]:
        yield from self.chunks


def test_a_file_above_the_cap_of_other_bodies_is_read_by_lines() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, stream=Chunks([FILE, b"y" * 5000 + b"\n"]))

    with client(handler) as source:
        assert source.get_lines("/offers.csv", FILTER).body == KEPT
        assert source.received_bytes == len(FILE) + 5001
        with pytest.raises(FetchError, match="at most 1000 bytes"):
            source.get("/offers.csv")


def test_an_unchanged_file_is_not_sent_again_and_only_for_the_same_filter() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        if request.headers.get("if-none-match") == '"a"':
            return httpx.Response(304)
        return httpx.Response(200, headers={"etag": '"a"'}, stream=Chunks([FILE]))

    with client(handler) as first:
        first.get_lines("/offers.csv", FILTER)
    with client(handler, first.stored) as second:
        again = second.get_lines("/offers.csv", FILTER)
        other = second.get_lines("/offers.csv", LineFilter(head=b'"SKU"', all_of=(b'"Linux"',), any_of=(b'"m7.',)))
        whole = second.get("/offers.csv")
    assert (again.not_modified, again.body) == (True, KEPT)
    assert (other.not_modified, other.body) == (False, b'"SKU","OS","Status","Type"\n4,"Linux","Used","m7.large"\n')
    assert (whole.not_modified, whole.body) == (False, FILE)


def test_a_file_that_ends_early_is_asked_again_and_never_half_a_page() -> None:
    asked = []

    def handler(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, headers={"content-length": str(len(FILE) + 1)}, stream=Chunks([FILE]))

    with client(handler) as source, pytest.raises(FetchError, match=f"{len(FILE)} of {len(FILE) + 1} bytes"):
        source.get_lines("/offers.csv", FILTER)
    assert len(asked) == 2


def test_a_file_that_is_gone_for_moments_is_asked_for_again() -> None:
    """As AWS's index is while a new one is laid in its place; a page of another kind that is not there is not asked for twice."""
    answers = [httpx.Response(404), httpx.Response(200, stream=Chunks([FILE])), httpx.Response(404)]

    with client(lambda _: answers.pop(0)) as source:
        assert source.get_lines("/offers.csv", FILTER).body == KEPT
        with pytest.raises(FetchError, match="HTTP 404 Not Found; check base_url"):
            source.get("/offers.csv")
    assert answers == []


@pytest.mark.loopback
@pytest.mark.parametrize("compress", [False, True])
def test_over_a_real_connection(upstream: Upstream, compress: bool) -> None:
    """Twenty megabytes with a cap of a thousand bytes; the next sweep gets 304 and the kept lines."""
    upstream.add("/offers.csv", FILE + b'5,"Linux","Used","m7.large"\n' * 700_000, compress=compress)
    limits = SourceLimits(base_url=upstream.url, user_agent="breakeven/0.1", max_bytes=1000, min_interval_s=0)
    stored: dict[str, StoredPage] = {}
    for again in (False, True):
        with open_client(limits, host_gate=HostGate(monotonic=monotonic), now=lambda: NOW, stored=stored) as source:
            page = source.get_lines("/offers.csv", FILTER)
        assert (page.body, page.not_modified) == (KEPT, again)
        stored = source.stored


@pytest.mark.loopback
@pytest.mark.parametrize("fault", ["truncate", "truncate-chunked", "reset", "status:503"])
def test_a_broken_answer_gives_no_page(upstream: Upstream, fault: str) -> None:
    upstream.add("/offers.csv", FILE, etag=False, lasting_fault=fault)
    limits = SourceLimits(base_url=upstream.url, user_agent="breakeven/0.1", attempts=1, min_interval_s=0)
    with (
        open_client(limits, host_gate=HostGate(monotonic=monotonic), now=lambda: NOW) as source,
        pytest.raises(FetchError),
    ):
        source.get_lines("/offers.csv", FILTER)
