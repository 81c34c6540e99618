"""The local upstream does what tests and trial runs rely on, seen through the standard library's own client."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from upstream import FAULTS, Upstream, bomb_parts

pytestmark = pytest.mark.loopback


@pytest.fixture
def server() -> Iterator[Upstream]:
    with Upstream() as upstream:
        yield upstream


def ask(
    server: Upstream, path: str, *, method: str = "GET", body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers with lower-case names and body as sent."""
    connection = http.client.HTTPConnection(*server.address, timeout=5)
    with contextlib.closing(connection):
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()


def test_bodies_by_path(server: Upstream, tmp_path: Path) -> None:
    (tmp_path / "file.bin").write_bytes(b"\0\1")
    server.add("/bytes", b"raw")
    server.add("/text", "gr\u00fcn")
    server.add("/json", {"a": [1]})
    server.add("/file", tmp_path / "file.bin")
    assert [ask(server, path)[2] for path in ("/bytes", "/text", "/json", "/file")] == [
        b"raw",
        "gr\u00fcn".encode(),
        b'{"a": [1]}',
        b"\0\1",
    ]
    assert ask(server, "/json")[1]["content-type"] == "application/json"
    assert ask(server, "/other")[0] == 404


def test_the_closest_route_answers(server: Upstream) -> None:
    server.add("/p", b"any")
    server.add("/p", b"zone b", query={"zone": "b"})
    server.add("/p", b"zone b page 2", query={"zone": "b", "page": "2"})
    server.add("/p", b"posted", method="POST")
    server.add("/p", b"posted gpus", method="POST", body_has="gpuTypes")
    asked = ["/p", "/p?zone=a", "/p?x=1&zone=b", "/p?page=2&zone=b"]
    assert [ask(server, path)[2] for path in asked] == [b"any", b"any", b"zone b", b"zone b page 2"]
    assert [ask(server, "/p", method="POST", body=body)[2] for body in (b"{}", b"{gpuTypes}")] == [b"posted", b"posted gpus"]
    server.add("/p", b"new")
    assert ask(server, "/p")[2] == b"new"


def test_requests_are_logged(server: Upstream) -> None:
    ask(server, "/p?a=1&b=", method="POST", body=b'{"q": 1}', headers={"X-Key": "k"})
    (seen,) = server.asked("/p")
    assert (seen.method, seen.query, seen.headers["x-key"], seen.json()) == ("POST", {"a": "1", "b": ""}, "k", {"q": 1})
    assert server.seen == [seen]


def test_conditions(server: Upstream) -> None:
    date = "Sat, 28 Nov 2026 00:00:00 GMT"
    server.add("/p", b"prices", last_modified=date)
    tag = ask(server, "/p")[1]["etag"]
    assert ask(server, "/p", headers={"If-None-Match": tag})[::2] == (304, b"")
    assert ask(server, "/p", headers={"If-None-Match": f'"x", {tag}'})[0] == 304
    assert ask(server, "/p", headers={"If-None-Match": '"x"'})[0] == 200
    assert ask(server, "/p", headers={"If-None-Match": '"x"', "If-Modified-Since": date})[0] == 200
    assert ask(server, "/p", headers={"If-Modified-Since": date})[0] == 304
    server.add("/p", b"others")
    assert ask(server, "/p", headers={"If-None-Match": tag})[2] == b"others"
    server.add("/p", b"untagged", etag=False)
    assert "etag" not in ask(server, "/p")[1]


def test_pages_link_to_the_next(server: Upstream) -> None:
    server.add_pages("/servers", [b"1", b"2"], total=60)
    first, second = ask(server, "/servers"), ask(server, "/servers?page=2&per_page=50")
    assert (first[2], first[1]["link"], first[1]["x-total-count"]) == (b"1", '</servers?page=2>; rel="next"', "60")
    assert (second[2], "link" in second[1], ask(server, "/servers?page=1")[2]) == (b"2", False, b"1")


def test_compression_status_headers_and_delay(server: Upstream) -> None:
    server.add("/p", b"prices", compress=True, status=203, headers={"X-A": "b"}, delay_s=0.05)
    before = time.monotonic()
    status, headers, body = ask(server, "/p")
    assert time.monotonic() - before >= 0.05
    assert (status, headers["content-encoding"], headers["x-a"], gzip.decompress(body)) == (203, "gzip", "b", b"prices")


def test_robots_txt(server: Upstream) -> None:
    assert ask(server, "/robots.txt")[0] == 404
    server.robots("User-agent: *\nDisallow: /")
    assert ask(server, "/robots.txt")[2] == b"User-agent: *\nDisallow: /"


def test_faults_come_in_order_and_end(server: Upstream) -> None:
    server.add("/p", b"prices", faults=["status:503", "retry-after:7"])
    answers = [ask(server, "/p") for _ in range(3)]
    assert [answer[0] for answer in answers] == [503, 429, 200]
    assert answers[1][1]["retry-after"] == "7"


def test_faults_with_an_answer(server: Upstream) -> None:
    server.add("/p", b"prices", faults=["html", "empty", "redirect:http://else.test/", "drip:0.001"])
    html, empty, redirect, drip = (ask(server, "/p") for _ in range(4))
    assert (html[0], html[1]["content-type"], html[2][:15]) == (200, "text/html; charset=utf-8", b"<!doctype html>")
    assert (empty[0], empty[2]) == (200, b"")
    assert (redirect[0], redirect[1]["location"]) == (302, "http://else.test/")
    assert (drip[0], drip[2]) == (200, b"prices")


@pytest.mark.parametrize("fault", ["truncate", "truncate-chunked"])
def test_truncated(server: Upstream, fault: str) -> None:
    server.add("/p", b"prices", lasting_fault=fault)
    with pytest.raises(http.client.IncompleteRead) as caught:
        ask(server, "/p")
    assert caught.value.partial == b"pri"


def test_reset(server: Upstream) -> None:
    server.add("/p", b"prices", lasting_fault="reset")
    with pytest.raises(ConnectionResetError):
        ask(server, "/p")


def test_drip_head_gives_no_answer(server: Upstream) -> None:
    server.add("/p", lasting_fault="drip-head:0.01")
    with socket.create_connection(server.address) as sock:
        sock.sendall(b"GET /p HTTP/1.1\r\nHost: x\r\n\r\n")
        assert sock.recv(100).startswith(b"H")
        assert len(sock.recv(100)) < 20


def test_the_bomb_is_gzip_of_its_size(server: Upstream) -> None:
    server.add("/p", lasting_fault="bomb:3")
    _, headers, body = ask(server, "/p")
    assert headers["content-encoding"] == "gzip"
    assert zlib.decompressobj(31).decompress(body) == bytes(3 * 2**20)
    head, mebibyte = bomb_parts()
    assert len(head) + 10_240 * len(mebibyte) < 12_000_000  # 10 GiB in about 10 MB


def test_everything_breaks_and_is_mended(server: Upstream) -> None:
    server.add("/a", b"a")
    server.add("/b", b"b")
    server.break_all("status:500")
    assert [ask(server, path)[0] for path in ("/a", "/b")] == [500, 500]
    server.break_all("")
    assert [ask(server, path)[2] for path in ("/a", "/b")] == [b"a", b"b"]


def test_unknown_faults_are_refused(server: Upstream) -> None:
    with pytest.raises(ValueError, match="no fault 'explode'; there are hang, drip"):
        server.add("/p", faults=["explode"])
    server.add("/p")
    with pytest.raises(ValueError, match="no fault"):
        server.break_all("explode:1")


def test_every_fault_is_served() -> None:
    from upstream import _Handler

    assert {name.removeprefix("_fault_").replace("_", "-") for name in vars(_Handler) if name.startswith("_fault_")} == set(FAULTS)


@pytest.mark.parametrize("fault", ["hang", "drip", "drip-head"])
def test_it_closes_at_once_while_a_handler_hangs(fault: str) -> None:
    server = Upstream()
    server.add("/p", b"x" * 1000, lasting_fault=fault)
    with socket.create_connection(server.address) as sock, socket.create_connection(server.address):
        sock.sendall(b"GET /p HTTP/1.1\r\nHost: x\r\n\r\n")
        while not server.seen:
            server.stopping.wait(0.005)
        before = time.monotonic()
        server.close()
        assert time.monotonic() - before < 1
        sock.settimeout(1)
        with contextlib.suppress(ConnectionResetError):
            while sock.recv(1000):
                pass


def test_by_hand(tmp_path: Path) -> None:
    (tmp_path / "v1").mkdir()
    (tmp_path / "v1" / "models").write_text('{"data": []}')
    (tmp_path / "gpus.json").write_text("[1]")
    routes = [{"path": "/graphql", "method": "POST", "file": "gpus.json"}, {"path": "/old", "lasting_fault": "status:410"}]
    (tmp_path / "routes.json").write_text(json.dumps(routes))
    command = [sys.executable, str(Path(__file__).with_name("upstream.py")), "--dir", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            with urllib.request.urlopen(f"{url}/v1/models", timeout=5) as answer:
                assert answer.read() == b'{"data": []}'
            with urllib.request.urlopen(f"{url}/graphql", data=b"{}", timeout=5) as answer:
                assert answer.read() == b"[1]"
            with pytest.raises(urllib.error.HTTPError, match="410") as caught:
                urllib.request.urlopen(f"{url}/old", timeout=5)
            caught.value.close()
        finally:
            process.terminate()
