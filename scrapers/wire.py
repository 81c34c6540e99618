"""Connections that give up in time: name look-up, connect, TLS handshake, read and write all end at the sweep's deadline
or at a stop, whatever the other side does. A transport for httpx, made of a network backend for httpcore below it.

A read timeout alone is no deadline: a server that sends one header byte a second restarts it every second, for a day.
"""

from __future__ import annotations

import errno
import math
import queue
import selectors
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache, partial
from typing import Any, TypeVar
from urllib.request import getproxies, proxy_bypass

import httpcore
import httpx

from scrapers.contract import FetchError
from scrapers.pace import Budget

_TICK_S = 0.1  # how soon a stop is noticed
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
_UNDER_WAY = (0, errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EAGAIN)

Result = TypeVar("Result")


@lru_cache(maxsize=1)
def trusting(_paths: ssl.DefaultVerifyPaths, _hour: int) -> ssl.SSLContext:
    """The certificates that are trusted, read once an hour for all sweeps: a context takes 1 MB and a sixtieth of a second."""
    context = httpx.create_ssl_context()
    context.set_alpn_protocols(["http/1.1"])
    # httpcore says the same before each connection; it must not be said to a context that others connect with at that moment
    context.set_alpn_protocols = lambda alpn_protocols: None  # type: ignore[method-assign]  # of this object alone
    return context


@contextmanager
def closed_unless_done(connection: httpcore.NetworkStream | httpx.BaseTransport) -> Iterator[None]:
    """Close the connection where the block raises, whatever it raises."""
    with ExitStack() as undone:
        undone.callback(connection.close)
        yield
        undone.pop_all()


class PatientTransport(httpx.BaseTransport):
    """Carries the requests of one sweep, or of one delivery, through the proxy that the environment names if it names one."""

    def __init__(self, base_url: str, budget: Budget, *, trust_env: bool = True) -> None:
        base = httpx.URL(base_url)
        self._pool = httpcore.ConnectionPool(
            ssl_context=trusting(ssl.get_default_verify_paths(), int(budget.monotonic() // 3600)) if base.scheme == "https" else None,
            proxy=_proxy(base) if trust_env else None,
            keepalive_expiry=30,
            network_backend=PatientBackend(budget),
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """One exchange; httpcore's own exceptions."""
        assert isinstance(request.stream, httpx.SyncByteStream)
        url = httpcore.URL(scheme=request.url.raw_scheme, host=request.url.raw_host, port=request.url.port, target=request.url.raw_path)
        asked = httpcore.Request(
            method=request.method, url=url, headers=request.headers.raw, content=request.stream, extensions=request.extensions
        )
        answer = self._pool.handle_request(asked)
        return httpx.Response(answer.status, headers=answer.headers, stream=_Body(answer), extensions=answer.extensions)

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()


class _Body(httpx.SyncByteStream):
    def __init__(self, answer: httpcore.Response) -> None:
        self._answer = answer

    def __iter__(self) -> Iterator[bytes]:
        return self._answer.iter_stream()

    def close(self) -> None:
        self._answer.close()


def _proxy(base: httpx.URL) -> httpcore.Proxy | None:
    """The proxy set for addresses like ``base``; FetchError when it is of a kind we do not speak."""
    address = getproxies().get(base.scheme, "")
    if not address or base.host in _THIS_MACHINE or proxy_bypass(base.host):
        return None
    try:
        proxy = httpx.Proxy(address if "://" in address else f"http://{address}")
    except (ValueError, httpx.InvalidURL) as error:
        raise FetchError(f"{base.scheme}_proxy: expected http://host:port, found an address that cannot be read") from error
    if proxy.url.scheme != "http":
        raise FetchError(f"{base.scheme}_proxy: expected http://host:port, found {proxy.url.scheme}://; set no_proxy for {base.host}")
    return httpcore.Proxy(url=str(proxy.url), auth=proxy.raw_auth)


class PatientBackend(httpcore.NetworkBackend):
    """Opens the connections of one sweep."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """A connection to the first address of ``host`` that answers; each address gets its share of ``timeout`` seconds."""
        end = _end(self._budget, timeout)
        addresses = _resolve(self._budget, host, port, end)
        error: httpcore.ConnectError | httpcore.ConnectTimeout = httpcore.ConnectError(f"{host} has no address")
        for place, (family, kind, protocol, _, address) in enumerate(addresses):
            share = (end - self._budget.monotonic()) / (len(addresses) - place)
            try:
                return self._dial(socket.socket(family, kind, protocol), address, share, socket_options or ())
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as failed:
                error = failed
        raise error

    def _dial(self, sock: socket.socket, address: Any, seconds: float, options: Iterable[Any]) -> httpcore.NetworkStream:
        stream = PatientStream(sock, self._budget)
        with closed_unless_done(stream):
            for option in options:
                sock.setsockopt(*option)
            stream.connect(address, seconds)
        return stream


class PatientStream(httpcore.NetworkStream):
    """A socket, plain or TLS, on which nothing blocks longer than a tick without asking the budget."""

    def __init__(self, sock: socket.socket, budget: Budget) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._budget = budget

    def connect(self, address: Any, timeout: float) -> None:
        """Return when connected; ConnectError or ConnectTimeout."""
        code = self._sock.connect_ex(address)
        if code in _UNDER_WAY:
            self._wait(_WRITE, _end(self._budget, timeout), httpcore.ConnectTimeout(f"no connection within {timeout:.1f} s"))
            code = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise httpcore.ConnectError(f"{errno.errorcode.get(code, code)}")

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """At most ``max_bytes``, as soon as there are any; empty at the end."""
        late = httpcore.ReadTimeout(f"no byte for {timeout} s")
        return self._patiently(partial(self._sock.recv, max_bytes), _READ, timeout, late, httpcore.ReadError)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send all of ``buffer``."""
        late = httpcore.WriteTimeout(f"no byte taken for {timeout} s")
        rest = memoryview(buffer)
        while rest:
            sent = self._patiently(partial(self._sock.send, rest), _WRITE, timeout, late, httpcore.WriteError)
            rest = rest[sent:]

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """The same connection under TLS, after the handshake."""
        try:
            sock = ssl_context.wrap_socket(self._sock, server_hostname=server_hostname, do_handshake_on_connect=False)
        except (OSError, ValueError) as error:
            self.close()
            raise httpcore.ConnectError(str(error)) from error
        stream = PatientStream(sock, self._budget)
        with closed_unless_done(stream):
            late = httpcore.ConnectTimeout(f"no TLS handshake within {timeout} s")
            stream._patiently(sock.do_handshake, _READ, timeout, late, httpcore.ConnectError)
        return stream

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()

    def get_extra_info(self, info: str) -> Any:
        """What httpcore asks for: ``ssl_object``, ``socket``, ``is_readable`` (an idle connection the server has closed)."""
        if info == "ssl_object":
            return self._sock if isinstance(self._sock, ssl.SSLSocket) else None
        if info == "is_readable":
            return self._sock.fileno() < 0 or self._ready(_READ, 0)
        return self._sock if info == "socket" else None

    def _patiently(self, step: Callable[[], Result], event: int, timeout: float | None, late: Exception, broken: type[Exception]) -> Result:
        """Result of ``step``, tried again whenever the socket is ready for more."""
        end = _end(self._budget, timeout)
        while True:
            self._budget.check()
            try:
                return step()
            except (BlockingIOError, InterruptedError):
                wanted = event
            except ssl.SSLWantReadError:
                wanted = _READ
            except ssl.SSLWantWriteError:
                wanted = _WRITE
            except OSError as error:
                raise broken(str(error)) from error
            self._wait(wanted, end, late)

    def _wait(self, event: int, end: float, late: Exception) -> None:
        """Return when the socket is ready; raise ``late`` at ``end`` and whatever the budget raises."""
        while not self._ready(event, _TICK_S):
            self._budget.check()
            if self._budget.monotonic() >= end:
                raise late

    def _ready(self, event: int, seconds: float) -> bool:
        with selectors.DefaultSelector() as selector:
            selector.register(self._sock, event)
            return bool(selector.select(seconds))


def _end(budget: Budget, timeout: float | None) -> float:
    return math.inf if timeout is None else budget.monotonic() + timeout


def _resolve(budget: Budget, host: str, port: int, end: float) -> list[Any]:
    """Addresses of ``host``. The system's resolver cannot be interrupted, so a thread waits for it and may be left behind."""
    answers: queue.SimpleQueue[list[Any] | str] = queue.SimpleQueue()
    threading.Thread(target=_look_up, args=(host, port, answers), name=f"resolve {host}", daemon=True).start()
    while budget.monotonic() < end:
        budget.check()
        try:
            answer = answers.get(timeout=_TICK_S)
        except queue.Empty:
            continue
        if isinstance(answer, str):
            raise httpcore.ConnectError(f"{host} cannot be resolved ({answer})")
        return answer
    raise httpcore.ConnectTimeout(f"{host} was not resolved in time")


def _look_up(host: str, port: int, answers: queue.SimpleQueue[list[Any] | str]) -> None:
    try:
        answers.put(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except (OSError, UnicodeError) as error:
        answers.put(str(error))
