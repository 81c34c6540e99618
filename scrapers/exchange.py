"""One request to one answer: turns at the host, redirects within it, retries, the size cap and what is said when it fails."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from email.utils import parsedate_to_datetime

import httpcore
import httpx
import tenacity

from scrapers import unpack
from scrapers.contract import FetchError, Lines, Sign
from scrapers.lines import kept_lines
from scrapers.pace import Budget, HostGate, OutOfTime, Stopped
from scrapers.redact import redact

SIGN = "sign"  # extension of a request: who signs it
READ_STATUSES = (200, 203)  # 202 and 204 carry no prices, 206 not all
_MAX_REDIRECTS = 5
_PASSING = (httpx.TransportError, httpcore.NetworkError, httpcore.TimeoutException, httpcore.RemoteProtocolError, httpcore.ProxyError)
# tenacity is the engine of stamina, which cannot be used here: it waits with time.sleep, and a stop could not end the wait
_BACKOFF = tenacity.wait_exponential_jitter(initial=1, max=30, jitter=1)
WHAT_TO_DO = {
    401: "set or renew the key of this source",
    403: "set or renew the key of this source, or the site turns programs away",
    404: "check base_url of this source, or the address has moved",
    429: "lengthen the interval of this source",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLimits:
    """Where a source is and how it may be asked. Times in seconds; ``deadline_s`` is for a whole sweep, waits and retries too."""

    base_url: str
    user_agent: str
    regions: Mapping[str, str] = field(default_factory=dict)  # base URL of each region that has a host of its own
    tracked: tuple[str, ...] = ()  # models the program compares, as the source spells them
    connect_timeout_s: float = 10
    read_timeout_s: float = 30
    deadline_s: float = 120
    max_bytes: int = unpack.DEFAULT_MAX_BYTES  # of one body, decompressed; of the kept lines where a body is read by lines
    attempts: int = 4
    min_interval_s: float = 1  # between the starts of two requests to the host
    obey_robots: bool = False
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        for address in (self.base_url, *self.regions.values()):
            base = httpx.URL(address)
            if base.scheme not in ("http", "https") or not base.host or base.userinfo or base.query or base.fragment:
                raise ValueError(f"base_url {redact(address)!r}: expected http(s)://host[:port][/path] and nothing else")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Status, headers with lower-case names, decompressed body."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


class _MayPass(Exception):
    """A failure worth another attempt, after ``wait_s`` seconds where the source asks for them."""

    def __init__(self, found: str, *, status: int = 0, wait_s: float = 0) -> None:
        super().__init__(found)
        self.status = status
        self.wait_s = wait_s


class Exchange:
    """Asks within one origin. ``received_bytes`` counts bodies as sent, those of failed attempts too."""

    def __init__(
        self, limits: SourceLimits, *, http: httpx.Client, host_gate: HostGate, budget: Budget, now: Callable[[], datetime]
    ) -> None:
        self.received_bytes = 0
        self.interval_s = limits.min_interval_s
        self._limits = limits
        self._homes = {origin(httpx.URL(address)) for address in (limits.base_url, *limits.regions.values())}
        self._http = http
        self._gate = host_gate
        self._budget = budget
        self._now = now
        self._secrets = list(limits.secrets)

    def hide(self, text: str) -> str:
        """``text`` without any credential of this source."""
        return redact(text, self._secrets)

    def keep_secret(self, values: Iterable[str]) -> None:
        """Never show these."""
        self._secrets += [value for value in values if value not in self._secrets]

    def at_home(self, url: httpx.URL) -> bool:
        """Whether ``url`` has the scheme, host and port of a base URL."""
        return origin(url) in self._homes

    def home(self) -> str:
        """Scheme, host and port of the base URL, as text."""
        base = httpx.URL(self._limits.base_url)
        return f"{base.scheme}://{base.netloc.decode('ascii')}"

    def error(
        self, method: str, url: httpx.URL | str, found: str, to_do: str, *, kind: type[FetchError] = FetchError, expected: str = "an answer"
    ) -> FetchError:
        """An error that says address, what was expected, what was found and what to do, without credentials."""
        return kind(self.hide(f"{method} {url}: expected {expected}, found {found}; {to_do}"))

    def ask(self, request: httpx.Request, check: Callable[[httpx.URL], None], lines: Lines | None = None) -> Answer:
        """The answer after redirects and retries, of any status that will not pass; FetchError. ``check`` raises for an address
        that must not be asked; it sees those of redirects too. With ``lines`` the body is the kept lines of a body of any length."""
        method, url = request.method, request.url
        attempts = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_MayPass),
            wait=_pause,
            stop=lambda state: state.attempt_number >= self._limits.attempts or state.upcoming_sleep >= self._budget.left(),
            sleep=self._budget.sleep,
            reraise=True,
        )
        try:
            return attempts(self._follow, request, check, lines)
        except _MayPass as error:
            found = f"{error} (attempt {attempts.statistics['attempt_number']} of {self._limits.attempts})"
            to_do = WHAT_TO_DO.get(error.status, "the next sweep tries again; check base_url and the network if it lasts")
            raise self.error(method, url, found, to_do) from error
        except OutOfTime as error:
            raise self.error(method, url, str(error), "raise deadline_s if it lasts", kind=OutOfTime) from None
        except Stopped as error:
            raise self.error(method, url, str(error), "the next start sweeps again", kind=Stopped) from None

    def _follow(self, request: httpx.Request, check: Callable[[httpx.URL], None], lines: Lines | None) -> Answer:
        """One answer, following redirects within the host."""
        asked = request
        for _ in range(_MAX_REDIRECTS + 1):
            check(asked.url)
            answer = self._send(asked, lines)
            if isinstance(answer, Answer):
                return answer
            if not self.at_home(answer.url):
                to_do = "set base_url of this source to the new address if you trust it"
                raise self.error(request.method, request.url, f"a redirect to {answer.url}, outside {self.home()}", to_do)
            asked = answer
        raise self.error(request.method, request.url, f"more than {_MAX_REDIRECTS} redirects", "check base_url of this source")

    def _send(self, request: httpx.Request, lines: Lines | None) -> Answer | httpx.Request:
        """One exchange: the answer, or the request it redirects to."""
        sign: Sign | None = request.extensions.get(SIGN)
        with self._gate.turn(request.url.netloc.decode("ascii"), interval_s=self.interval_s, sleep=self._budget.sleep):
            try:
                if sign is not None:  # now, not when the request was made: a signature is good for minutes
                    request.headers.update(self._signed(sign, request))
                response = self._http.send(request, stream=True)
                with contextlib.closing(response):
                    return response.next_request or self._read(response, lines)
            except _PASSING as error:
                raise _MayPass(f"{type(error).__name__}: {error}") from error
            except (httpcore.LocalProtocolError, httpcore.UnsupportedProtocol):  # their text can hold a key: not chained
                found = "a header with characters that HTTP does not allow"
                raise self.error(request.method, request.url, found, "look for line breaks in the key") from None

    def _signed(self, sign: Sign, request: httpx.Request) -> Mapping[str, str]:
        headers = sign(str(request.url), self._now())
        self.keep_secret(value.split()[-1] for value in headers.values())
        return headers

    def _read(self, response: httpx.Response, lines: Lines | None) -> Answer:
        answer = Answer(status=response.status_code, headers={name.lower(): value for name, value in response.headers.items()})
        is_replaced = answer.status == 404 and lines is not None  # a file this large is gone for the moments of its upload
        if answer.status == 429 or answer.status >= 500 or is_replaced:
            wait_s = retry_after_s(answer.headers.get("retry-after", ""), self._now())
            raise _MayPass(status_text(answer), status=answer.status, wait_s=wait_s)
        if answer.status == 304:
            for _ in self._chunks(response, {}, self._limits.max_bytes):  # has no body; read to its end, the connection can be used again
                pass
        return replace(answer, body=self._body(response, answer.headers, lines)) if answer.status in READ_STATUSES else answer

    def _body(self, response: httpx.Response, headers: Mapping[str, str], lines: Lines | None) -> bytes:
        encoding = headers.get("content-encoding", "").strip().lower()
        request, most = response.request, self._limits.max_bytes
        if encoding not in unpack.ENCODINGS:
            to_do = "the source must send one of those it was asked for"
            raise self.error(request.method, request.url, f"Content-Encoding {encoding!r}", to_do, expected="gzip, deflate or none")
        try:
            if lines is not None:
                return kept_lines(self._chunks(response, headers, math.inf), encoding, lines, max_bytes=most)
            return unpack.inflate(self._chunks(response, headers, most), encoding, max_bytes=most)
        except unpack.TooLarge as error:
            to_do = "raise max_bytes if the source really is that large"
            raise self.error(request.method, request.url, str(error), to_do, expected=f"a body of at most {most} bytes") from error
        except unpack.Damaged as error:
            raise _MayPass(str(error)) from error

    def _chunks(self, response: httpx.Response, headers: Mapping[str, str], most: float) -> Iterator[bytes]:
        """The body as sent, counted, no longer than ``most`` bytes and no shorter than announced."""
        received = 0
        assert isinstance(response.stream, httpx.SyncByteStream)
        for chunk in response.stream:  # iter_raw() would refuse a body that a test's transport holds whole
            received += len(chunk)
            self.received_bytes += len(chunk)
            if received > most:
                raise unpack.TooLarge(f"more than {most} bytes")
            self._budget.check()
            yield chunk
        announced = headers.get("content-length", "")
        if announced.isdecimal() and "transfer-encoding" not in headers and received < int(announced):
            raise _MayPass(f"{received} of {announced} bytes")


def retry_after_s(value: str, now: datetime) -> float:
    """Seconds that a Retry-After header asks for (RFC 9110, 10.2.3: seconds or a date); 0 when it asks for nothing readable."""
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0
    return max(0, (date - now).total_seconds()) if date.tzinfo else 0


def _pause(state: tenacity.RetryCallState) -> float:
    """Seconds before the next attempt: what the source asks for, but no less than our own growing, jittered wait."""
    error = state.outcome.exception() if state.outcome else None
    return max(_BACKOFF(state), error.wait_s if isinstance(error, _MayPass) else 0)


def status_text(answer: Answer) -> str:
    """The status as found: "HTTP 429 Too Many Requests (Retry-After: 60)"."""
    phrase = httpx.codes.get_reason_phrase(answer.status) or "of no known meaning"
    after = f" (Retry-After: {answer.headers['retry-after'][:40]})" if "retry-after" in answer.headers else ""
    return f"HTTP {answer.status} {phrase}{after}"


def origin(url: httpx.URL) -> tuple[str, str, int]:
    """Scheme, host and port."""
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(url.scheme, 0)
