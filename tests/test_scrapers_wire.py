"""The client over real sockets: whatever the other side does, it ends at the deadline, at the cap or at a stop."""

from __future__ import annotations

import gzip
import socket
import ssl
import subprocess
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpcore
import pytest
from upstream import Upstream

from scrapers.contract import FetchError, LayoutChanged
from scrapers.http import HostGate, OutOfTime, SourceClient, SourceLimits, Stopped, open_client
from scrapers.pace import Budget
from scrapers.wire import PatientBackend, PatientStream, closed_unless_done

pytestmark = pytest.mark.loopback
SOON_S = 5.0  # far above what these take, far below what they would take undisturbed


@pytest.fixture
def server() -> Iterator[Upstream]:
    with Upstream() as upstream:
        yield upstream


def connect(base_url: str, **how: Any) -> SourceClient:
    """A client whose retries do not wait."""
    extra: dict[str, Any] = {name: how.pop(name) for name in ("stop", "stored") if name in how}
    if "stop" not in extra:
        extra["sleep"] = lambda seconds: None
    settings: dict[str, Any] = {"connect_timeout_s": 1, "read_timeout_s": 0.2, "deadline_s": 10, "attempts": 2, "min_interval_s": 0, **how}
    limits = SourceLimits(base_url=base_url, user_agent="breakeven/0.1 (+https://breakeven.test/about)", **settings)
    return open_client(limits, host_gate=HostGate(monotonic=time.monotonic), now=lambda: datetime(2026, 11, 29, tzinfo=UTC), **extra)


def failure(base_url: str, kind: type[FetchError] = FetchError, **how: Any) -> str:
    """The message of the error, which must come soon."""
    before = time.monotonic()
    with connect(base_url, **how) as source, pytest.raises(kind) as caught:
        source.get("/prices")
    assert time.monotonic() - before < SOON_S
    return str(caught.value)


# --- the good case ------------------------------------------------------------------------------------------------------


def test_a_page_over_the_wire(server: Upstream) -> None:
    server.add("/prices", {"usd": 1.5}, compress=True)
    with connect(server.url) as source:
        page = source.get("/prices")
    assert page.json() == {"usd": Decimal("1.5")}
    (seen,) = server.seen
    assert (seen.headers["accept-encoding"], seen.headers["user-agent"]) == (
        "gzip, deflate",
        "breakeven/0.1 (+https://breakeven.test/about)",
    )
    assert source.received_bytes == len(gzip.compress(b'{"usd": 1.5}', mtime=0))


def test_pages_are_followed_on_one_connection_and_not_sent_twice(server: Upstream) -> None:
    server.add_pages("/servers", [b"[1]", b"[2]", b"[3]"])

    def sweep(**how: Any) -> tuple[list[bytes], SourceClient]:
        bodies, path = [], "/servers"
        with connect(server.url, **how) as source:
            while path:
                page = source.get(path)
                bodies.append(page.body)
                link = page.headers.get("link", "")
                path = link[1 : link.index(">")] if link else ""
        return bodies, source

    bodies, first = sweep()
    again, second = sweep(stored=first.stored)
    assert bodies == again == [b"[1]", b"[2]", b"[3]"]
    assert (first.received_bytes, second.received_bytes) == (9, 0)
    assert server.connections == 2


def test_a_query_is_posted(server: Upstream) -> None:
    server.add("/graphql", {"data": 1}, method="POST", body_has="gpuTypes")
    with connect(server.url) as source:
        assert source.post("/graphql", json={"query": "{gpuTypes{id}}"}).json() == {"data": 1}


# --- faults -------------------------------------------------------------------------------------------------------------


def test_a_host_that_says_nothing(server: Upstream) -> None:
    server.add("/prices", lasting_fault="hang")
    assert "found ReadTimeout: no byte for 0.2 s (attempt 2 of 2)" in failure(server.url)
    assert len(server.seen) == 2


@pytest.mark.parametrize("fault", ["drip:0.05", "drip-head:0.05"])
def test_a_host_that_drips_is_cut_at_the_deadline(server: Upstream, fault: str) -> None:
    server.add("/prices", b"x" * 1000, lasting_fault=fault)
    said = failure(server.url, OutOfTime, deadline_s=0.5)
    assert "found no complete answer within 0.5 s; raise deadline_s" in said


@pytest.mark.parametrize("code", [500, 502, 503])
def test_server_errors_are_tried_again(server: Upstream, code: int) -> None:
    server.add("/prices", b"prices", faults=[f"status:{code}"])
    with connect(server.url) as source:
        assert source.get("/prices").body == b"prices"
    server.add("/prices", lasting_fault=f"status:{code}")
    assert f"found HTTP {code} " in failure(server.url)


def test_a_host_that_asks_for_patience_gets_it(server: Upstream) -> None:
    server.add("/prices", b"prices", faults=["retry-after:1"])
    with connect(server.url) as source:
        assert source.get("/prices").body == b"prices"
    server.add("/prices", lasting_fault="retry-after:3600")
    assert "HTTP 429 Too Many Requests (Retry-After: 3600) (attempt 1 of 2)" in failure(server.url)


@pytest.mark.parametrize("fault", ["html", "empty"])
def test_what_is_no_json_is_a_matter_of_the_parser(server: Upstream, fault: str) -> None:
    server.add("/prices", [], lasting_fault=fault)
    with connect(server.url) as source:
        page = source.get("/prices")
    with pytest.raises(LayoutChanged, match="expected JSON"):
        page.json()


@pytest.mark.parametrize("fault", ["truncate", "truncate-chunked", "reset"])
def test_broken_connections_are_tried_again(server: Upstream, fault: str) -> None:
    server.add("/prices", b"prices" * 100, faults=[fault])
    with connect(server.url) as source:
        assert source.get("/prices").body == b"prices" * 100
    server.add("/prices", b"prices" * 100, lasting_fault=fault)
    assert "(attempt 2 of 2)" in failure(server.url)


def test_a_bomb_stops_early(server: Upstream) -> None:
    server.add("/prices", lasting_fault="bomb")  # 10 MB that would be 10 GiB
    tracemalloc.start()
    with connect(server.url, max_bytes=4 * 2**20) as source, pytest.raises(FetchError, match="at most 4194304 bytes, found more"):
        source.get("/prices")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert source.received_bytes < 100_000  # one chunk more than the 4 KB that make 4 MiB
    assert peak < 10 * 2**20
    assert len(server.seen) == 1


def test_a_redirect_elsewhere_is_not_followed(server: Upstream) -> None:
    with Upstream() as other:
        other.add("/prices", b"stolen")
        server.add("/prices", lasting_fault=f"redirect:{other.url}/prices")
        assert f"a redirect to {other.url}/prices, outside {server.url}" in failure(server.url)
        assert other.seen == []


def test_robots_txt_over_the_wire(server: Upstream) -> None:
    server.add("/prices", b"prices")
    server.robots("User-agent: *\nDisallow: /prices")
    assert "robots.txt disallows" in failure(server.url, obey_robots=True)
    assert [seen.path for seen in server.seen] == ["/robots.txt"]


def test_nobody_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert "found ConnectError: ECONNREFUSED (attempt 2 of 2)" in failure(f"http://127.0.0.1:{port}")


# --- stop ---------------------------------------------------------------------------------------------------------------


def stopped_while(act: Callable[[threading.Event], None]) -> None:
    """``act`` must raise Stopped soon after the stop."""
    stop = threading.Event()
    timer = threading.Timer(0.2, stop.set)
    timer.start()
    before = time.monotonic()
    with pytest.raises(Stopped, match="the program is stopping"):
        act(stop)
    timer.join()
    assert time.monotonic() - before < SOON_S


PATIENT = {"read_timeout_s": 60, "connect_timeout_s": 60, "deadline_s": 600}


@pytest.mark.parametrize("fault", ["hang", "drip", "drip-head", "status:503", "retry-after:300"])
def test_a_stop_ends_a_fetch_that_hangs(server: Upstream, fault: str) -> None:
    server.add("/prices", b"x" * 1000, lasting_fault=fault)

    def act(stop: threading.Event) -> None:
        with connect(server.url, stop=stop, **PATIENT) as source:
            source.get("/prices")

    stopped_while(act)


def test_a_stop_ends_the_wait_for_a_turn(server: Upstream) -> None:
    server.add("/prices", b"x")

    def act(stop: threading.Event) -> None:
        with connect(server.url, stop=stop, **{**PATIENT, "min_interval_s": 300}) as source:
            source.get("/prices")
            source.get("/prices")

    stopped_while(act)


@contextmanager
def deaf_port() -> Iterator[int]:
    """A port whose queue is full, so that the next connection gets no answer."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting = []
        for _ in range(8):
            sock = socket.socket()
            sock.setblocking(False)
            sock.connect_ex(listener.getsockname())
            waiting.append(sock)
        try:
            yield listener.getsockname()[1]
        finally:
            for sock in waiting:
                sock.close()


def test_a_connection_that_is_not_answered() -> None:
    with deaf_port() as port:
        assert "found ConnectTimeout: no connection within 0.2 s" in failure(f"http://127.0.0.1:{port}", connect_timeout_s=0.2)

        def act(stop: threading.Event) -> None:
            with connect(f"http://127.0.0.1:{port}", stop=stop, **PATIENT) as source:
                source.get("/prices")

        stopped_while(act)


@pytest.mark.parametrize("raised", [OutOfTime("late"), KeyboardInterrupt()])
def test_a_connection_is_closed_where_it_is_given_up_and_only_there(raised: BaseException) -> None:
    kept, given_up = (socket.socket() for _ in range(2))
    budget = Budget(1, stop=threading.Event(), monotonic=time.monotonic)
    with kept:
        with closed_unless_done(PatientStream(kept, budget)):
            pass
        with pytest.raises(type(raised)), closed_unless_done(PatientStream(given_up, budget)):
            raise raised
        assert (kept.fileno() < 0, given_up.fileno() < 0) == (False, True)


def test_a_resolver_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    free = threading.Event()

    def hang(*args: Any, **kwargs: Any) -> list[Any]:
        free.wait(10)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    assert "prices.test was not resolved in time" in failure("http://prices.test", connect_timeout_s=0.2, attempts=1)

    def act(stop: threading.Event) -> None:
        with connect("http://prices.test", stop=stop, **PATIENT) as source:
            source.get("/prices")

    stopped_while(act)
    free.set()


def test_a_name_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*args: Any, **kwargs: Any) -> list[Any]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    said = failure("http://prices.test")
    assert "found ConnectError: prices.test cannot be resolved ([Errno -2] Name or service not known) (attempt 2 of 2)" in said


def test_the_next_address_is_tried(server: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        dead = free.getsockname()
    places = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address) for address in (dead, ("127.0.0.1", server.server_address[1]))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: places)
    server.add("/prices", b"prices")
    with connect("http://prices.test") as source:
        assert source.get("/prices").body == b"prices"


# --- TLS and proxies ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory, require: Callable[[str], Path]) -> Path:
    """Key and self-signed certificate of 127.0.0.1 in one file."""
    place = tmp_path_factory.mktemp("tls") / "127.0.0.1.pem"
    asked = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=127.0.0.1"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(place), "-out", str(place.with_suffix(".crt"))]
    subprocess.run([require("openssl"), *asked, *names], check=True, capture_output=True)
    place.write_text(place.read_text() + place.with_suffix(".crt").read_text())
    return place


def test_a_page_over_tls(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    body = bytes(range(256)) * 4096
    with Upstream(certificate=certificate) as server:
        server.add("/prices", body)
        server.add("/hang", lasting_fault="hang")
        with connect(server.url) as source:
            assert source.get("/prices").body == body
            assert source.get("/prices").body == body
        assert server.connections == 1

        def act(stop: threading.Event) -> None:
            with connect(server.url, stop=stop, **PATIENT) as source:
                source.get("/hang")

        stopped_while(act)


def test_a_certificate_nobody_vouches_for(certificate: Path) -> None:
    with Upstream(certificate=certificate) as server:
        assert "CERTIFICATE_VERIFY_FAILED" in failure(server.url)
        assert server.seen == []


def test_a_tls_handshake_that_is_not_answered() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stream = PatientBackend(Budget(5, stop=threading.Event(), monotonic=time.monotonic)).connect_tcp(
            "127.0.0.1", listener.getsockname()[1], timeout=1
        )
        with pytest.raises(httpcore.ConnectTimeout, match=r"no TLS handshake within 0\.2 s"):
            stream.start_tls(ssl.create_default_context(), "127.0.0.1", timeout=0.2)


def test_large_requests_are_written_whole(server: Upstream) -> None:
    server.add("/query", b"ok", method="POST")
    query = "x" * 5_000_000
    with connect(server.url, read_timeout_s=5) as source:
        source.post("/query", json=query)
    assert server.seen[0].json() == query


def test_a_proxy_of_the_environment_is_used(server: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    server.add("/prices", b"through the proxy")
    monkeypatch.setenv("http_proxy", server.url.replace("http://", "http://user:pass@"))
    monkeypatch.delenv("no_proxy", raising=False)
    with connect("http://prices.test") as source:
        assert source.get("/prices").body == b"through the proxy"
    assert (server.seen[0].headers["host"], server.seen[0].headers["proxy-authorization"]) == ("prices.test", "Basic dXNlcjpwYXNz")


def test_no_proxy_stands_between_this_machine_and_itself(server: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    server.add("/prices", b"direct")
    with connect(server.url) as source:
        assert source.get("/prices").body == b"direct"


@pytest.mark.parametrize("address", ["socks5://127.0.0.1:9", "https://127.0.0.1:9", "nonsense://x"])
def test_a_proxy_of_another_kind_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", address)
    monkeypatch.delenv("no_proxy", raising=False)
    with pytest.raises(FetchError, match="http_proxy: expected http://host:port, found"):
        connect("http://prices.test")
