"""The one HTTP client of all sources: within one host, one deadline and one size, gently, and never showing a credential."""

from __future__ import annotations

import hashlib
import json as json_text
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import httpx

from scrapers import robots
from scrapers.contract import Lines, Page, Sign
from scrapers.exchange import READ_STATUSES, SIGN, WHAT_TO_DO, Answer, Exchange, SourceLimits, status_text
from scrapers.kept import StoredPage, conditions, keep, renewed
from scrapers.pace import Budget, HostGate, OutOfTime, Stopped
from scrapers.redact import is_secret_name
from scrapers.wire import PatientTransport

__all__ = ["HostGate", "OutOfTime", "SourceClient", "SourceLimits", "Stopped", "StoredPage", "open_client"]

_UNTRUE_HEADERS = ("content-encoding", "content-length", "transfer-encoding", "set-cookie")  # of the body as we give it


def open_client(
    limits: SourceLimits,
    *,
    host_gate: HostGate,
    now: Callable[[], datetime],
    stored: Mapping[str, StoredPage] | None = None,
    stop: threading.Event | None = None,
    sleep: Callable[[float], object] | None = None,
    monotonic: Callable[[], float] = time.monotonic,
    transport: httpx.BaseTransport | None = None,
) -> SourceClient:
    """A client for one sweep of one source; its deadline starts now. ``stored`` by URL, as ``SourceClient.stored`` gave it."""
    for name in ("httpx", "httpcore"):  # they log whole addresses, and some sources take their key in the query
        logging.getLogger(name).setLevel(logging.WARNING)
    budget = Budget(limits.deadline_s, stop=stop or threading.Event(), monotonic=monotonic, sleep=sleep)
    http = httpx.Client(
        transport=transport or PatientTransport(limits.base_url, budget),
        headers={"User-Agent": limits.user_agent, "Accept-Encoding": "gzip, deflate"},
        timeout=httpx.Timeout(limits.read_timeout_s, connect=limits.connect_timeout_s),
        follow_redirects=False,
    )
    exchange = Exchange(limits, http=http, host_gate=host_gate, budget=budget, now=now)
    return SourceClient(limits, http=http, exchange=exchange, now=now, stored=stored or {})


class SourceClient:
    """GET and POST within the host of one source, for one thread. After the sweep ``pages_fetched``, ``received_bytes``
    and ``stored`` say what it cost and what to hand to the client of the next sweep."""

    def __init__(
        self, limits: SourceLimits, *, http: httpx.Client, exchange: Exchange, now: Callable[[], datetime], stored: Mapping[str, StoredPage]
    ) -> None:
        self.pages_fetched = 0
        self.stored: dict[str, StoredPage] = {}
        self._limits = limits
        self._http = http
        self._exchange = exchange
        self._now = now
        self._last = stored
        self._robots: robots.Robots | None = None if limits.obey_robots else robots.ALLOW_ALL
        exchange.keep_secret(_credentials(limits.headers))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    @property
    def received_bytes(self) -> int:
        """Bytes of all bodies as sent, compressed."""
        return self._exchange.received_bytes

    def get(self, path: str, *, params: Mapping[str, str | int] | None = None, headers: Mapping[str, str] | None = None) -> Page:
        """The page at ``path`` below the base URL, or at an absolute URL of the same host; FetchError."""
        url = self._url("GET", path, params)
        return self._get(url, self._key(url), headers or {}, None)

    def get_lines(self, path: str, lines: Lines) -> Page:
        """The page of the kept lines of a file that is too large to hold; FetchError. ``max_bytes`` is of the kept lines, the
        file itself is limited by the deadline alone. What is kept for the next sweep are the kept lines, under the filter's name."""
        url = self._url("GET", path, None)
        return self._get(url, f"{self._key(url)}#lines-{hashlib.sha256(repr(lines).encode()).hexdigest()[:16]}", {}, lines)

    @property
    def tracked(self) -> Sequence[str]:
        """The models the program compares, as the source spells them."""
        return self._limits.tracked

    @property
    def regions(self) -> Sequence[str]:
        """The regions that have a host of their own."""
        return tuple(self._limits.regions)

    def now(self) -> datetime:
        """The moment, aware UTC."""
        return self._now()

    def get_signed(self, path: str, *, region: str, params: Mapping[str, str | int], sign: Sign) -> Page:
        """The page at ``path`` below the base URL of a region, signed anew for each attempt; FetchError. Nothing of it is kept."""
        url = self._url("GET", path, params, self._limits.regions[region])
        request = self._request("GET", url, {}, sign=sign)
        self._read_robots()
        return self._page(request, self._exchange.ask(request, self._check_robots), None)

    def _get(self, url: httpx.URL, key: str, headers: Mapping[str, str], lines: Lines | None) -> Page:
        self._exchange.keep_secret(_credentials(headers))
        last = self._last.get(key)
        request = self._request("GET", url, {**conditions(last), **headers})
        self._read_robots()
        page = self._page(request, self._exchange.ask(request, self._check_robots, lines), last)
        if kept := keep(key, page):
            self.stored[kept.url] = kept
        return page

    def post(self, path: str, *, json: Any, headers: Mapping[str, str] | None = None) -> Page:
        """The answer to a query sent as JSON; FetchError. Retried like a GET: sources are only asked, nothing is changed there."""
        url = self._url("POST", path, None)
        self._exchange.keep_secret(_credentials(headers or {}))
        content = json_text.dumps(json).encode()
        request = self._request("POST", url, {"Content-Type": "application/json", **(headers or {})}, content)
        self._read_robots()
        return self._page(request, self._exchange.ask(request, self._check_robots), None)

    def _url(self, method: str, path: str, params: Mapping[str, str | int] | None, base_url: str = "") -> httpx.URL:
        """``path`` below the base URL, or as it is when absolute and of our host."""
        try:
            url = httpx.URL(_address(base_url or self._limits.base_url, path))
            url = url.copy_merge_params(dict(params)) if params else url
        except (httpx.InvalidURL, ValueError) as error:
            to_do = "the source has changed, or its scraper is wrong"
            raise self._exchange.error(method, path[:200], "an address that cannot be read", to_do, expected="an address") from error
        if not self._exchange.at_home(url):
            raise self._exchange.error(
                method, url, "another host", "check base_url of this source", expected=f"an address at {self._exchange.home()}"
            )
        return url.copy_with(fragment=None)

    def _request(
        self, method: str, url: httpx.URL, headers: Mapping[str, str], content: bytes | None = None, sign: Sign | None = None
    ) -> httpx.Request:
        told, how = {**self._limits.headers, **headers}, {} if sign is None else {SIGN: sign}
        try:
            return self._http.build_request(method, url, headers=told, content=content, extensions=how)
        except UnicodeEncodeError:  # its text holds the header, maybe a key: not chained
            to_do = "look for quotes or blanks in the key"
            raise self._exchange.error(method, url, "a header that is not ASCII", to_do, expected="a request to send") from None

    def _key(self, url: httpx.URL) -> str:
        """The address as it may be shown and stored; a hash keeps apart those that differ in a hidden value only."""
        shown = self._exchange.hide(str(url))
        return shown if shown == str(url) else f"{shown}#{hashlib.sha256(str(url).encode()).hexdigest()[:16]}"

    def _page(self, request: httpx.Request, answer: Answer, last: StoredPage | None) -> Page:
        """The page of an answer; a 304 gives the kept body."""
        headers = {name: value for name, value in answer.headers.items() if name not in _UNTRUE_HEADERS}
        url = self._exchange.hide(str(request.url))
        if answer.status == 304 and last is not None:
            page = Page(url=url, body=last.body, headers=renewed(last, headers), fetched_at=self._now(), not_modified=True)
        elif answer.status in READ_STATUSES:
            page = Page(url=url, body=answer.body, headers=headers, fetched_at=self._now())
        else:
            to_do = WHAT_TO_DO.get(answer.status, "check base_url of this source, or its scraper")
            raise self._exchange.error(request.method, request.url, status_text(answer), to_do, expected="HTTP 200")
        self.pages_fetched += 1
        return page

    def _read_robots(self) -> None:
        """Read robots.txt of the host, once; a server error forbids everything for now (RFC 9309, 2.3.1.4)."""
        if self._robots is not None:
            return
        request = self._request("GET", httpx.URL(self._limits.base_url).copy_with(raw_path=b"/robots.txt"), {})
        answer = self._exchange.ask(request, self._check_robots)
        if answer.status in READ_STATUSES:
            text = answer.body[: robots.MAX_BYTES].decode("utf-8", errors="replace")
            self._robots = robots.rules_for(text, self._limits.user_agent.split("/")[0].strip())
        elif 400 <= answer.status < 500 and answer.status not in (401, 403):  # no such file: no wish
            self._robots = robots.ALLOW_ALL
        else:
            to_do = "without a readable robots.txt nothing is fetched here"
            raise self._exchange.error("GET", request.url, status_text(answer), to_do, expected="HTTP 200 or 404")
        self._exchange.interval_s = max(self._limits.min_interval_s, self._robots.crawl_delay_s)

    def _check_robots(self, url: httpx.URL) -> None:
        if self._robots is not None and not self._robots.allows(url.raw_path.decode("ascii")):
            found = "that robots.txt disallows it for our user agent"
            raise self._exchange.error("GET", url, found, "switch this source off, or ask the site", expected="a page we may read")


def _address(base_url: str, path: str) -> str:
    """``path`` where it is absolute, else below ``base_url``, whose own path stays."""
    if "://" in path.partition("?")[0]:
        return path
    slash = "/" if path and path[0] not in "/?" else ""
    return base_url.rstrip("/") + slash + path


def _credentials(headers: Mapping[str, str]) -> list[str]:
    """Header values that must not be shown, whole and without their scheme ("Bearer ...")."""
    values = [value for name, value in headers.items() if is_secret_name(name) and value.strip()]
    return [part for value in values for part in (value.strip(), value.split()[-1])]
