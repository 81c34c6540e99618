"""The client of all sources over a transport in memory: addresses, answers, conditions, retries, robots.txt, what it says."""

from __future__ import annotations

import gzip
import logging
import threading
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import pytest

from scrapers.contract import FetchError
from scrapers.exchange import retry_after_s
from scrapers.http import HostGate, OutOfTime, SourceClient, SourceLimits, Stopped, StoredPage, open_client

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
AGENT = "breakeven/0.1 (+https://breakeven.test/about)"
Handler = Callable[[httpx.Request], httpx.Response]
Answer = httpx.Response | Exception


class Clock:
    """A monotonic clock that only waiting moves."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.waits: list[float] = []

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.seconds += seconds


class Host:
    """Answers in turn, the last one for ever, and remembers the requests. Its robots.txt has an answer of its own."""

    def __init__(self, *answers: Answer, robots: Answer | None = None) -> None:
        self.answers = list(answers)
        self.robots = robots
        self.asked: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        if self.robots is not None and request.url.path == "/robots.txt":
            answer = self.robots
        else:
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(answer.status_code, headers=answer.headers, stream=answer.stream)


def ok(body: bytes = b"{}", **headers: str) -> httpx.Response:
    return httpx.Response(200, headers={name.replace("_", "-"): value for name, value in headers.items()}, stream=httpx.ByteStream(body))


def status(code: int, **headers: str) -> httpx.Response:
    return httpx.Response(code, headers={name.replace("_", "-"): value for name, value in headers.items()}, stream=httpx.ByteStream(b""))


def client(
    handler: Handler,
    *,
    base_url: str = "http://prices.test/api",
    clock: Clock | None = None,
    stored: dict[str, StoredPage] | None = None,
    stop: threading.Event | None = None,
    attempts: int = 4,
    deadline_s: float = 120,
    max_bytes: int = 2**20,
    min_interval_s: float = 0,
    obey_robots: bool = False,
    headers: dict[str, str] | None = None,
    secrets: tuple[str, ...] = (),
) -> SourceClient:
    clock = clock or Clock()
    limits = SourceLimits(
        base_url=base_url,
        user_agent=AGENT,
        attempts=attempts,
        deadline_s=deadline_s,
        max_bytes=max_bytes,
        min_interval_s=min_interval_s,
        obey_robots=obey_robots,
        headers=headers or {},
        secrets=secrets,
    )
    return open_client(
        limits,
        host_gate=HostGate(monotonic=clock.monotonic),
        now=lambda: NOW,
        stored=stored,
        stop=stop,
        sleep=clock.sleep,
        monotonic=clock.monotonic,
        transport=httpx.MockTransport(handler),
    )


def failure(handler: Handler, path: str = "/prices", **how: Any) -> str:
    """The message of the FetchError."""
    with client(handler, **how) as source, pytest.raises(FetchError) as caught:
        source.get(path)
    return str(caught.value)


# --- addresses ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base_url", "path", "params", "asked"),
    [
        ("http://prices.test", "/v1/gpus", None, "http://prices.test/v1/gpus"),
        ("http://prices.test/", "/v1/gpus", None, "http://prices.test/v1/gpus"),
        ("http://prices.test/api", "/v1/gpus", None, "http://prices.test/api/v1/gpus"),
        ("http://prices.test/api/", "v1/gpus", None, "http://prices.test/api/v1/gpus"),
        ("http://prices.test/api", "", None, "http://prices.test/api"),
        ("http://prices.test/api", "/v1?zone=a", {"page": 2}, "http://prices.test/api/v1?zone=a&page=2"),
        ("http://prices.test/api", "?page=2", None, "http://prices.test/api?page=2"),
        ("http://prices.test/api", "/v1", {"q": "a b&c"}, "http://prices.test/api/v1?q=a+b%26c"),
        ("http://prices.test/api", "http://prices.test/other?page=2#top", None, "http://prices.test/other?page=2"),
        ("http://prices.test/api", "http://prices.test:80/other", None, "http://prices.test/other"),
        ("http://prices.test/api", "/back?to=http://else.test/", None, "http://prices.test/api/back?to=http://else.test/"),
        ("http://prices.test", "//else.test/x", None, "http://prices.test//else.test/x"),
        ("http://prices.test", "@else.test/x", None, "http://prices.test/@else.test/x"),
    ],
)
def test_addresses_stay_below_the_base(base_url: str, path: str, params: dict[str, str | int] | None, asked: str) -> None:
    host = Host(ok())
    with client(host, base_url=base_url) as source:
        page = source.get(path, params=params)
    assert str(host.asked[0].url) == asked
    assert page.url == asked


@pytest.mark.parametrize(
    "path",
    [
        "http://else.test/api",
        "https://prices.test/api",
        "http://prices.test:8080/api",
        "http://prices.test@else.test/",
        "ftp://prices.test/",
    ],
)
def test_no_other_host_is_asked(path: str) -> None:
    host = Host(ok())
    said = failure(host, path)
    assert host.asked == []
    assert "expected an address at http://prices.test, found another host" in said


@pytest.mark.parametrize("path", ["http://prices.test:port/", "http://[::1/", "/a\x00b"])
def test_an_address_that_cannot_be_read_is_a_fetch_error(path: str) -> None:
    assert "an address that cannot be read" in failure(Host(ok()), path)


@pytest.mark.parametrize(
    "base_url",
    ["prices.test", "ftp://prices.test", "http://", "http://u:p@prices.test", "http://prices.test?key=1", "http://prices.test#x"],
)
def test_a_base_url_is_scheme_host_and_path(base_url: str) -> None:
    with pytest.raises(ValueError, match="base_url"):
        SourceLimits(base_url=base_url, user_agent=AGENT)


# --- answers ------------------------------------------------------------------------------------------------------------


def test_a_page_has_body_lower_case_headers_and_time() -> None:
    host = Host(ok(b'{"price": 1.10}', Content_Type="application/json", Link='</p?page=2>; rel="next"', Set_Cookie="id=1"))
    with client(host) as source:
        page = source.get("/prices")
    assert page.body == b'{"price": 1.10}'
    assert page.headers == {"content-type": "application/json", "link": '</p?page=2>; rel="next"'}
    assert page.fetched_at == NOW
    assert not page.not_modified
    assert (source.pages_fetched, source.received_bytes) == (1, 15)


def test_who_asks_and_what_is_understood_is_said() -> None:
    host = Host(ok())
    with client(host, headers={"X-Api-Version": "2"}) as source:
        source.get("/prices", headers={"Accept": "text/csv"})
    sent = host.asked[0].headers
    assert (sent["user-agent"], sent["accept-encoding"], sent["x-api-version"], sent["accept"]) == (AGENT, "gzip, deflate", "2", "text/csv")


def test_a_query_is_posted_as_json() -> None:
    host = Host(ok(b'{"data": []}'))
    with client(host) as source:
        page = source.post("/graphql", json={"query": "{gpus}"})
    assert page.body == b'{"data": []}'
    assert (host.asked[0].method, host.asked[0].content) == ("POST", b'{"query": "{gpus}"}')
    assert host.asked[0].headers["content-type"] == "application/json"


def zlib_raw(body: bytes) -> bytes:
    engine = zlib.compressobj(wbits=-15)
    return engine.compress(body) + engine.flush()


@pytest.mark.parametrize(
    ("encoding", "sent"),
    [
        ("gzip", gzip.compress(b"prices")),
        ("x-gzip", gzip.compress(b"pri") + gzip.compress(b"ces")),
        ("GZIP", gzip.compress(b"prices")),
        ("deflate", zlib.compress(b"prices")),
        ("deflate", zlib_raw(b"prices")),
        ("identity", b"prices"),
    ],
)
def test_bodies_are_decompressed_and_counted_as_sent(encoding: str, sent: bytes) -> None:
    with client(Host(ok(sent, Content_Encoding=encoding))) as source:
        page = source.get("/prices")
    assert page.body == b"prices"
    assert "content-encoding" not in page.headers
    assert source.received_bytes == len(sent)


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "compress"])
def test_an_encoding_nobody_asked_for_is_refused(encoding: str) -> None:
    said = failure(Host(ok(b"?", Content_Encoding=encoding)))
    assert f"expected gzip, deflate or none, found Content-Encoding '{encoding}'" in said


def test_a_body_as_large_as_the_cap_passes_and_one_byte_more_does_not() -> None:
    for body, encoding in ((b"x" * 100, "identity"), (gzip.compress(b"x" * 100), "gzip")):
        with client(Host(ok(body, Content_Encoding=encoding)), max_bytes=100) as source:
            assert source.get("/prices").body == b"x" * 100
    for body, encoding in ((b"x" * 101, "identity"), (gzip.compress(b"x" * 101), "gzip")):
        host = Host(ok(body, Content_Encoding=encoding))
        said = failure(host, max_bytes=100)
        assert "expected a body of at most 100 bytes, found more than 100 bytes; raise max_bytes" in said
        assert len(host.asked) == 1


def test_compressed_data_that_becomes_nothing_ends_too() -> None:
    empty_block = b"\x00\x00\x00\xff\xff"  # a stored block of no bytes, not the last (RFC 1951, 3.2.4)
    sent = gzip.compress(b"", mtime=0)[:10] + empty_block * 100
    assert "found more than 300 bytes" in failure(Host(ok(sent, Content_Encoding="gzip")), max_bytes=300)


def test_an_empty_body_is_an_answer() -> None:
    with client(Host(ok(b""))) as source:
        assert source.get("/prices").body == b""


@pytest.mark.parametrize("code", [202, 204, 206, 400, 401, 403, 404, 410, 418, 301, 304, 599 - 200])
def test_other_answers_are_errors_and_not_asked_again(code: int) -> None:
    host = Host(status(code))
    said = failure(host)
    assert f"GET http://prices.test/api/prices: expected HTTP 200, found HTTP {code} " in said
    assert len(host.asked) == 1


def test_an_error_says_what_to_do() -> None:
    assert "HTTP 401 Unauthorized; set or renew the key of this source" in failure(Host(status(401)))
    assert "HTTP 404 Not Found; check base_url of this source" in failure(Host(status(404)))


# --- redirects ----------------------------------------------------------------------------------------------------------


def test_redirects_within_the_host_are_followed() -> None:
    host = Host(status(301, Location="/elsewhere?x=1"), status(307, Location="http://prices.test/end"), ok(b"there"))
    with client(host) as source:
        page = source.get("/prices")
    assert page.body == b"there"
    assert page.url == "http://prices.test/api/prices"
    assert [str(request.url) for request in host.asked[1:]] == ["http://prices.test/elsewhere?x=1", "http://prices.test/end"]


@pytest.mark.parametrize("to", ["http://else.test/", "https://prices.test/api/prices", "//else.test/x", "http://prices.test:81/"])
def test_redirects_elsewhere_are_refused(to: str) -> None:
    host = Host(status(302, Location=to), ok(b"stolen"))
    said = failure(host)
    assert "found a redirect to http" in said
    assert "outside http://prices.test; set base_url" in said
    assert len(host.asked) == 1


def test_a_key_does_not_follow_a_redirect_to_another_host() -> None:
    host = Host(status(302, Location="http://else.test/?key=hunter2222"), ok())
    assert "hunter2222" not in failure(host, headers={"Authorization": "Bearer hunter2222"})
    assert [request.url.host for request in host.asked] == ["prices.test"]


def test_five_redirects_are_followed_and_not_six() -> None:
    hops = [status(302, Location=f"/hop{number}") for number in range(6)]
    host = Host(*hops[:5], ok(b"there"))
    with client(host) as source:
        assert source.get("/prices").body == b"there"
    assert "found more than 5 redirects" in failure(Host(*hops, ok(b"there")))


# --- retries ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "trouble",
    [
        status(429),
        status(500),
        status(503),
        status(599),
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("slow"),
        httpx.RemoteProtocolError("closed"),
        ok(b"half", Content_Length="8"),
        ok(gzip.compress(b"prices")[:-9], Content_Encoding="gzip"),
        ok(b"no gzip at all", Content_Encoding="gzip"),
    ],
    ids=str,
)
def test_what_may_pass_is_tried_again(trouble: Answer) -> None:
    clock, host = Clock(), Host(trouble, trouble, ok(b"prices"))
    with client(host, clock=clock) as source:
        assert source.get("/prices").body == b"prices"
    assert len(host.asked) == 3
    assert 1 <= clock.waits[0] <= 2 <= clock.waits[1] <= 3  # 1 s, then 2 s, each with up to 1 s of jitter


def test_the_last_trouble_is_reported_after_all_attempts() -> None:
    clock, host = Clock(), Host(status(500), status(502), httpx.ConnectError("refused"))
    said = failure(host, clock=clock, attempts=3)
    assert "expected an answer, found ConnectError: refused (attempt 3 of 3); the next sweep tries again" in said
    assert len(clock.waits) == 2


def test_waits_are_jittered() -> None:
    clock = Clock()
    for _ in range(5):
        failure(Host(status(500)), clock=clock, attempts=2)
    assert len(set(clock.waits)) > 1


def test_retry_after_is_honoured() -> None:
    clock = Clock()
    later = format_datetime(NOW + timedelta(seconds=40), usegmt=True)
    with client(Host(status(429, Retry_After="17"), status(503, Retry_After=later), ok()), clock=clock) as source:
        source.get("/prices")
    assert clock.waits == [17, 40]


def test_a_retry_after_of_nothing_does_not_shorten_our_own_wait() -> None:
    clock = Clock()
    with client(Host(status(429, Retry_After="0"), ok()), clock=clock) as source:
        source.get("/prices")
    assert clock.waits[0] >= 1


def test_a_retry_after_beyond_the_deadline_ends_the_attempts_at_once() -> None:
    clock, host = Clock(), Host(status(429, Retry_After="600"), ok())
    said = failure(host, clock=clock, deadline_s=120)
    assert "found HTTP 429 Too Many Requests (Retry-After: 600) (attempt 1 of 4); lengthen the interval of this source" in said
    assert (clock.waits, len(host.asked)) == ([], 1)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("", 0),
        ("0", 0),
        ("120", 120),
        ("9" * 400, 999_999_999),
        ("-5", 0),
        ("1e9", 0),
        ("nan", 0),
        ("soon", 0),
        ("Sun, 29 Nov 2026 12:01:30 GMT", 90),
        ("Sun, 29 Nov 2026 11:00:00 GMT", 0),
        ("Sun, 29 Nov 2026 12:01:30 -0000", 0),  # a local time of nowhere
        ("Sun, 99 Nov 99999 99:99:99 GMT", 0),
        (", ,", 0),
    ],
)
def test_retry_after_in_both_shapes(value: str, seconds: float) -> None:
    assert retry_after_s(value, NOW) == seconds


# --- deadline, stop, spacing --------------------------------------------------------------------------------------------


def test_the_deadline_is_of_the_whole_sweep() -> None:
    clock = Clock()

    def slow(request: httpx.Request) -> httpx.Response:
        clock.seconds += 50
        return ok()

    with client(slow, clock=clock, deadline_s=120) as source:
        source.get("/1")
        source.get("/2")
        with pytest.raises(OutOfTime, match=r"GET http://prices.test/api/3: expected an answer, found no complete answer within 120 s"):
            source.get("/3")


def test_a_body_that_drips_is_cut_at_the_deadline() -> None:
    clock = Clock()

    class Drip(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            while True:
                clock.seconds += 1
                yield b"x"

    with client(lambda _: httpx.Response(200, stream=Drip()), clock=clock, deadline_s=30) as source:
        with pytest.raises(OutOfTime):
            source.get("/prices")
        assert source.received_bytes == 30
    assert clock.seconds == 1030


def test_a_stop_ends_a_wait_and_is_no_fault_of_the_source() -> None:
    stop, host = threading.Event(), Host(status(500))
    clock = Clock()
    clock.sleep = lambda seconds: stop.set()  # type: ignore[method-assign]  # the stop comes during the wait
    with client(host, clock=clock, stop=stop) as source, pytest.raises(Stopped, match="the program is stopping"):
        source.get("/prices")
    assert len(host.asked) == 1


def test_requests_to_a_host_are_spaced() -> None:
    clock = Clock()
    with client(Host(ok()), clock=clock, min_interval_s=6) as source:
        for _ in range(3):
            source.get("/prices")
    assert clock.waits == [6, 6]


def test_redirects_and_retries_are_spaced_too() -> None:
    clock, host, starts = Clock(), Host(status(302, Location="/x"), status(500), ok()), list[float]()

    def handler(request: httpx.Request) -> httpx.Response:
        starts.append(clock.seconds)
        return host(request)

    with client(handler, clock=clock, min_interval_s=60, deadline_s=1000) as source:
        source.get("/prices")
    assert starts == pytest.approx([1000, 1060, 1120])


# --- conditional requests -----------------------------------------------------------------------------------------------


def test_what_a_page_is_recognised_by_is_kept() -> None:
    host = Host(ok(b"prices", ETag='"v1"', Last_Modified="Sat, 28 Nov 2026 00:00:00 GMT", Link="<x>", Server="s"))
    with client(host) as source:
        source.get("/prices")
    (kept,) = source.stored.values()
    assert source.stored == {"http://prices.test/api/prices": kept}
    assert kept == StoredPage(
        url="http://prices.test/api/prices",
        etag='"v1"',
        last_modified="Sat, 28 Nov 2026 00:00:00 GMT",
        headers={"link": "<x>"},
        body=b"prices",
        fetched_at=NOW,
    )
    assert kept.sha256 == "fe81f9390ffe3dc8daa4888a7dc430ce4a41f164281d15449a24840a70b5f2c2"  # sha256sum


def test_an_unchanged_page_is_not_sent_again() -> None:
    host = Host(ok(b"prices", ETag='"v1"', Last_Modified="Sat, 28 Nov 2026 00:00:00 GMT", Link="<x>", Content_Type="a/b"))
    with client(host) as first:
        first.get("/prices")
    host.answers = [status(304, ETag='"v2"')]
    with client(host, stored=first.stored) as second:
        page = second.get("/prices")
    asked = host.asked[-1].headers
    assert (asked["if-none-match"], asked["if-modified-since"]) == ('"v1"', "Sat, 28 Nov 2026 00:00:00 GMT")
    assert (page.body, page.not_modified, page.headers["link"], page.headers["content-type"]) == (b"prices", True, "<x>", "a/b")
    assert (second.received_bytes, second.pages_fetched) == (0, 1)
    assert second.stored["http://prices.test/api/prices"].etag == '"v2"'
    assert second.stored["http://prices.test/api/prices"].last_modified == "Sat, 28 Nov 2026 00:00:00 GMT"


def test_a_changed_page_replaces_the_kept_one() -> None:
    host = Host(ok(b"old", ETag='"v1"'), ok(b"new", ETag='"v2"'))
    with client(host) as first:
        first.get("/prices")
    with client(host, stored=first.stored) as second:
        page = second.get("/prices")
    assert (page.body, page.not_modified) == (b"new", False)
    assert second.stored["http://prices.test/api/prices"].body == b"new"


def test_each_address_is_asked_for_its_own_page_only() -> None:
    host = Host(ok(b"1", ETag='"p1"'))
    with client(host) as first:
        first.get("/prices", params={"page": 1})
        first.post("/prices", json={})
    with client(host, stored=first.stored) as second:
        second.get("/prices", params={"page": 2})
        second.get("/prices", params={"page": 1})
        second.post("/prices", json={})
    assert [request.headers.get("if-none-match") for request in host.asked[2:]] == [None, '"p1"', None]


def test_a_page_without_tag_or_date_is_not_kept() -> None:
    with client(Host(ok(b"prices"))) as source:
        source.get("/prices")
    assert source.stored == {}


def test_addresses_that_differ_in_a_hidden_value_are_kept_apart() -> None:
    host = Host(ok(b"1", ETag='"1"'), ok(b"2", ETag='"2"'))
    with client(host) as source:
        source.get("/p?page_token=aaaa")
        source.get("/p?page_token=bbbb")
    assert sorted(page.body for page in source.stored.values()) == [b"1", b"2"]
    assert not any("aaaa" in url or "bbbb" in url for url in source.stored)
    with client(host, stored=source.stored) as again:
        again.get("/p?page_token=aaaa")
    assert host.asked[-1].headers["if-none-match"] == '"1"'


# --- credentials --------------------------------------------------------------------------------------------------------

KEY = "sk-live/9f8e+7d"


@pytest.mark.parametrize(
    "answer",
    [status(401), status(500), status(302, Location=f"http://else.test/?echo={KEY}"), httpx.ConnectError(f"no route for {KEY}")],
    ids=str,
)
def test_no_message_or_log_shows_a_credential(answer: Answer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.NOTSET)
    host = Host(answer)
    for how in ({"secrets": (KEY,)}, {"headers": {"Authorization": f"Bearer {KEY}"}}, {"headers": {"X-API-Key": KEY}}):
        said = failure(host, f"/prices?key={KEY}&page=2", **how)
        assert "http://prices.test/api/prices?key=***&page=2" in said
        assert KEY not in said
    assert "sk-live" not in caplog.text


def test_pages_and_kept_pages_show_no_credential() -> None:
    host = Host(ok(ETag='"1"'))
    with client(host) as source:
        page = source.get("/prices", params={"api_key": KEY, "page": 1}, headers={"X-Auth-Token": KEY})
    assert page.url == "http://prices.test/api/prices?api_key=***&page=1"
    assert KEY not in repr(source.stored) + repr(SourceLimits(base_url="http://x", user_agent="x", headers={"Cookie": KEY}, secrets=(KEY,)))
    assert host.asked[0].url.params["api_key"] == KEY


@pytest.mark.parametrize("key", ["\u201cquoted\u201d-key-1234", "schl\u00fcssel-key-1234"])
def test_a_key_that_is_no_header_value_is_named_and_not_shown(key: str) -> None:
    said = failure(Host(ok()), headers={"Authorization": f"Bearer {key}"})
    assert "found a header that is not ASCII; look for quotes or blanks in the key" in said
    assert "key-1234" not in said


# --- robots.txt ---------------------------------------------------------------------------------------------------------


def site(robots: Answer) -> Host:
    return Host(ok(b"page"), robots=robots)


def test_robots_txt_is_read_once_at_the_root_and_obeyed() -> None:
    host = site(ok(b"User-agent: *\nDisallow: /api/private\n\nUser-agent: breakeven\nDisallow: /api/internal"))
    with client(host, obey_robots=True) as source:
        source.get("/pricing")
        source.get("/private")
        with pytest.raises(FetchError, match=r"/api/internal/x: .* found that robots.txt disallows it for our user agent"):
            source.get("/internal/x")
    assert [request.url.path for request in host.asked] == ["/robots.txt", "/api/pricing", "/api/private"]
    assert (source.pages_fetched, host.asked[0].headers["user-agent"]) == (2, AGENT)


def test_robots_txt_counts_for_redirects() -> None:
    host = site(ok(b"User-agent: *\nDisallow: /secret"))
    host.answers = [status(302, Location="/secret/page")]
    with client(host, obey_robots=True) as source, pytest.raises(FetchError, match=r"robots\.txt disallows"):
        source.get("/pricing")
    assert [request.url.path for request in host.asked] == ["/robots.txt", "/api/pricing"]


@pytest.mark.parametrize("code", [404, 410, 400])
def test_without_robots_txt_everything_is_allowed(code: int) -> None:
    with client(site(status(code)), obey_robots=True) as source:
        assert source.get("/pricing").body == b"page"


@pytest.mark.parametrize(
    "answer", [status(500), status(503), status(401), status(403), status(202), httpx.ConnectError("refused")], ids=str
)
def test_an_unreadable_robots_txt_forbids_for_now(answer: Answer) -> None:
    host = site(answer)
    with client(host, obey_robots=True) as source, pytest.raises(FetchError, match=r"GET http://prices\.test/robots\.txt: expected "):
        source.get("/pricing")
    assert {request.url.path for request in host.asked} == {"/robots.txt"}


def test_the_crawl_delay_of_robots_txt_spaces_requests() -> None:
    clock = Clock()
    with client(site(ok(b"User-agent: *\nCrawl-delay: 10")), obey_robots=True, clock=clock) as source:
        source.get("/1")
        source.get("/2")
    assert clock.waits == [10, 10]


def test_an_api_is_asked_without_robots_txt() -> None:
    host = Host(ok())
    with client(host) as source:
        source.get("/prices")
    assert [request.url.path for request in host.asked] == ["/api/prices"]
