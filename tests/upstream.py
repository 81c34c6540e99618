"""A price source on loopback: real HTTP/1.1 with ETags, pages and Link headers, delays and faults, and a log of what was asked.

In a test: the fixture ``upstream`` or ``with Upstream() as upstream``. By hand: ``python tests/upstream.py --dir DIR`` serves
the files below DIR at their own paths, and what DIR/routes.json adds: a list of the keyword arguments of ``Upstream.add``,
with "file" (below DIR) for the body.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import hashlib
import json
import socket
import ssl
import struct
import sys
import threading
import time
import zlib
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

import pytest

FAULTS = {
    "hang": "takes the request and says nothing",
    "drip": "drip[:SECONDS] sends the body one byte at a time",
    "drip-head": "drip-head[:SECONDS] sends the status line and headers one byte at a time",
    "status": "status:CODE answers so, without the body",
    "retry-after": "retry-after:VALUE answers 429 with that header",
    "redirect": "redirect:URL answers 302 to it",
    "html": "answers 200 with a web page",
    "empty": "answers 200 with no bytes",
    "truncate": "announces the whole body, sends half and closes",
    "truncate-chunked": "the same in chunks, without the last",
    "reset": "resets the connection before an answer",
    "bomb": "bomb[:MIB] is gzip of zeros; 10240 MiB from 10 MB unless said",
    "flood": "flood[:MIB] announces nothing and sends so many MiB of one line; 500 unless said",
}
_HTML = b"<!doctype html><html><body><h1>We will be right back</h1></body></html>"
_BREAK_S = 1.0  # between two dripped bytes, unless said


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A request as it came, at a moment of the monotonic clock. Header names are in lower case."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    at: float = 0

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(slots=True, kw_only=True)
class Route:
    """What is answered where. ``query`` must be part of the request's, ``body_has`` of its body."""

    path: str
    body: bytes = b""
    method: str = "GET"
    query: Mapping[str, str] = field(default_factory=dict)
    body_has: str = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    etag: bool | str = True
    last_modified: str = ""
    compress: bool = False
    delay_s: float = 0
    faults: list[str] = field(default_factory=list)  # one a request, in this order; then all is well
    lasting_fault: str = ""

    def __post_init__(self) -> None:
        for fault in (*self.faults, self.lasting_fault):
            if fault and fault.partition(":")[0] not in FAULTS:
                raise ValueError(f"no fault {fault!r}; there are {', '.join(FAULTS)}")

    def fits(self, asked: Seen) -> bool:
        query = {**asked.query, **self.query} == asked.query
        return (self.path, self.method) == (asked.path, asked.method) and query and self.body_has.encode() in asked.body

    def next_fault(self) -> str:
        return self.faults.pop(0) if self.faults else self.lasting_fault

    def tag(self) -> str:
        return f'"{hashlib.sha256(self.body).hexdigest()[:16]}"' if self.etag is True else self.etag or ""


class Upstream(ThreadingHTTPServer):
    """The server, answering from construction to ``close``. ``seen`` is every request in order."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, port: int = 0, *, certificate: Path | None = None) -> None:
        self.seen: list[Seen] = []
        self.connections = 0
        self.most_at_once = 0  # requests that were being answered at the same time
        self.stopping = threading.Event()
        self._routes: list[Route] = []
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._answering = 0
        super().__init__(("127.0.0.1", port), _Handler)
        self._tls = None if certificate is None else ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        if self._tls and certificate:
            self._tls.load_cert_chain(certificate)
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, name="upstream", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop at once, also with handlers that hang or drip."""
        self.stopping.set()
        self.shutdown()
        self.server_close()
        with self._lock:
            still_open = list(self._open)
        for sock in still_open:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(timeout=5)

    # --- what it serves ---------------------------------------------------------------------------------------------

    def add(self, path: str, body: bytes | str | Path | Sequence[Any] | Mapping[str, Any] = b"", **how: Any) -> Route:
        """Answer ``path`` with bytes, text, a file or JSON; ``how`` are the fields of Route. Replaces a route of the same request."""
        route = Route(path=path, body=_bytes(body), **how)
        if isinstance(body, (Sequence, Mapping)) and not isinstance(body, (bytes, str)):
            route.headers = {"Content-Type": "application/json", **route.headers}
        with self._lock:
            self._routes = [old for old in self._routes if _request_of(old) != _request_of(route)] + [route]
        return route

    def add_pages(self, path: str, bodies: Sequence[bytes], *, parameter: str = "page", total: int | None = None, **how: Any) -> None:
        """Serve ``bodies`` as pages 1..n with Link headers (RFC 8288) relative to the host; without the parameter, page 1."""
        count = {} if total is None else {"X-Total-Count": str(total)}
        for number, body in enumerate(bodies, 1):
            link = {"Link": f'<{path}?{parameter}={number + 1}>; rel="next"'} if number < len(bodies) else {}
            headers = {"Content-Type": "application/json", **link, **count}
            self.add(path, body, query={parameter: str(number)}, headers=headers, **how)
            if number == 1:
                self.add(path, body, headers=headers, **how)

    def add_dir(self, folder: Path) -> None:
        """Serve every file below ``folder`` at its path, and the routes of its routes.json."""
        for file in sorted(folder.rglob("*")):
            if file.is_file() and file != folder / "routes.json":
                self.add(f"/{file.relative_to(folder).as_posix()}", file)
        if (folder / "routes.json").is_file():
            for entry in json.loads((folder / "routes.json").read_text(encoding="utf-8")):
                file_name = entry.pop("file", None)
                self.add(body=folder / file_name if file_name else b"", **entry)

    def robots(self, text: str) -> None:
        """Serve ``text`` as /robots.txt; without, it is a 404."""
        self.add("/robots.txt", text, headers={"Content-Type": "text/plain"})

    def break_all(self, fault: str) -> None:
        """Every route fails so from now on; "" mends them."""
        with self._lock:
            for route in self._routes:
                route.lasting_fault = fault
                route.__post_init__()

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.server_address[1]

    def asked(self, path: str) -> list[Seen]:
        """The requests for ``path``, in order."""
        return [seen for seen in self.seen if seen.path == path]

    def most_within(self, seconds: float) -> int:
        """The most requests that came within any such time."""
        moments = sorted(seen.at for seen in self.seen)
        return max((bisect_left(moments, start + seconds) - n for n, start in enumerate(moments)), default=0)

    # --- what the handlers use --------------------------------------------------------------------------------------

    def find(self, asked: Seen) -> tuple[Route, str] | None:
        """The closest route and its fault this time."""
        with self._lock:
            self.seen.append(asked)
            fitting = [route for route in self._routes if route.fits(asked)]
            if not fitting:
                return None
            route = max(fitting, key=lambda route: (len(route.query), len(route.body_has)))
            return route, route.next_fault()

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
        """Count a request while it is being answered."""
        with self._lock:
            self._answering += 1
            self.most_at_once = max(self.most_at_once, self._answering)
        try:
            yield
        finally:
            with self._lock:
                self._answering -= 1

    def secured(self, sock: socket.socket) -> socket.socket:
        """The connection under TLS where there is a certificate; counts it."""
        sock = self._tls.wrap_socket(sock, server_side=True) if self._tls else sock
        with self._lock:
            self.connections += 1
            self._open.add(sock)
        return sock

    def closed(self, sock: socket.socket) -> None:
        with self._lock:
            self._open.discard(sock)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error of ours."""
        if not isinstance(sys.exception(), (OSError, ValueError)):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Upstream

    def setup(self) -> None:
        self.request = self.server.secured(self.request)
        super().setup()

    def finish(self) -> None:
        with contextlib.suppress(OSError):
            super().finish()
        self.server.closed(self.request)
        self.request.close()

    def log_message(self, format: str, *args: Any) -> None:
        """The log is ``Upstream.seen``."""

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        with self.server.answering():
            self._answer_one(self._asked())

    def _answer_one(self, asked: Seen) -> None:
        found = self.server.find(asked)
        if found is None:
            self._send(404, {"Content-Type": "text/plain"}, b"no such page\n")
            return
        route, fault = found
        if route.delay_s:
            self.server.stopping.wait(route.delay_s)
        name, _, value = fault.partition(":")
        if name:
            getattr(self, f"_fault_{name.replace('-', '_')}")(route, value)
        elif self._is_known(route, asked):
            self._send(304, self._headers(route), b"")
        else:
            self._send(route.status, self._headers(route), self._body(route))

    def _asked(self) -> Seen:
        url = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        query = dict(parse_qsl(url.query, keep_blank_values=True))
        return Seen(method=self.command, path=url.path, query=query, headers=headers, body=body, at=time.monotonic())

    def _is_known(self, route: Route, asked: Seen) -> bool:
        if "if-none-match" in asked.headers:  # stands above the date (RFC 9110, 13.1.3)
            return bool(route.tag()) and route.tag() in asked.headers["if-none-match"].split(", ")
        return bool(route.last_modified) and asked.headers.get("if-modified-since") == route.last_modified

    def _headers(self, route: Route) -> dict[str, str]:
        told = {"ETag": route.tag(), "Last-Modified": route.last_modified}
        encoding = {"Content-Encoding": "gzip"} if route.compress else {}
        return {**{name: value for name, value in told.items() if value}, **encoding, **route.headers}

    def _body(self, route: Route) -> bytes:
        return gzip.compress(route.body, mtime=0) if route.compress else route.body

    def _start(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _send(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self._start(status, {**headers, **({} if status == 304 else {"Content-Length": str(len(body))})})
        self.wfile.write(body)

    def _drip(self, data: bytes, seconds: str) -> None:
        for byte in data:
            self.wfile.write(bytes([byte]))
            if self.server.stopping.wait(float(seconds or _BREAK_S)):
                break
        self.close_connection = True

    # --- faults: FAULTS says what each does -------------------------------------------------------------------------

    def _fault_hang(self, route: Route, value: str) -> None:
        self.server.stopping.wait()
        self.close_connection = True

    def _fault_drip(self, route: Route, value: str) -> None:
        self._start(200, {"Content-Length": str(len(route.body))})
        self._drip(route.body, value)

    def _fault_drip_head(self, route: Route, value: str) -> None:
        self._drip(b"HTTP/1.1 200 OK\r\nX-Filler: " + b"x" * 10_000, value)

    def _fault_status(self, route: Route, value: str) -> None:
        self._send(int(value), {"Content-Type": "text/plain"}, b"failed on purpose\n")

    def _fault_retry_after(self, route: Route, value: str) -> None:
        self._send(429, {"Retry-After": value}, b"")

    def _fault_redirect(self, route: Route, value: str) -> None:
        self._send(302, {"Location": value}, b"")

    def _fault_html(self, route: Route, value: str) -> None:
        self._send(200, {"Content-Type": "text/html; charset=utf-8"}, _HTML)

    def _fault_empty(self, route: Route, value: str) -> None:
        self._send(200, {"Content-Type": "application/json"}, b"")

    def _fault_truncate(self, route: Route, value: str) -> None:
        self._start(200, {"Content-Length": str(len(route.body))})
        self.wfile.write(route.body[: len(route.body) // 2])
        self.close_connection = True

    def _fault_truncate_chunked(self, route: Route, value: str) -> None:
        self._start(200, {"Transfer-Encoding": "chunked"})
        half = route.body[: len(route.body) // 2]
        self.wfile.write(f"{len(half):x}\r\n".encode() + half + b"\r\n")
        self.close_connection = True

    def _fault_reset(self, route: Route, value: str) -> None:
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close sends RST
        self.request.close()
        self.close_connection = True

    def _fault_bomb(self, route: Route, value: str) -> None:
        head, mebibyte = bomb_parts()
        self._start(200, {"Content-Type": "application/json", "Content-Encoding": "gzip", "Transfer-Encoding": "chunked"})
        for part in (head, *[mebibyte] * int(value or 10_240)):
            self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")

    def _fault_flood(self, route: Route, value: str) -> None:
        self._start(200, {"Content-Type": "application/json", "Transfer-Encoding": "chunked"})
        part = b"100000\r\n" + b"[" * 2**20 + b"\r\n"
        for _ in range(int(value or 500)):
            self.wfile.write(part)
        self.wfile.write(b"0\r\n\r\n")


def bomb_parts() -> tuple[bytes, bytes]:
    """A gzip header, and about 1 KB that is 1 MiB of zeros each time it follows (a full flush forgets what came before)."""
    engine = zlib.compressobj(9, zlib.DEFLATED, -15)
    part = engine.compress(bytes(2**20)) + engine.flush(zlib.Z_FULL_FLUSH)
    return gzip.compress(b"", mtime=0)[:10], part


def _bytes(body: bytes | str | Path | Sequence[Any] | Mapping[str, Any]) -> bytes:
    if isinstance(body, Path):
        return body.read_bytes()
    if isinstance(body, bytes):
        return body
    return (body if isinstance(body, str) else json.dumps(body)).encode()


def _request_of(route: Route) -> tuple[str, str, dict[str, str], str]:
    return route.path, route.method, dict(route.query), route.body_has


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    """An empty upstream on a free port."""
    with Upstream() as server:
        yield server


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve recorded responses on 127.0.0.1 until Ctrl-C.")
    parser.add_argument("--dir", type=Path, required=True, help="folder of files, with routes.json for anything but plain GETs")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--fault", default="", help="every answer fails so: " + "; ".join(FAULTS.values()))
    options = parser.parse_args()
    with Upstream(options.port) as server:
        server.add_dir(options.dir)
        if options.fault:
            server.break_all(options.fault)
        print(server.url, flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            server.stopping.wait()


if __name__ == "__main__":
    main()
