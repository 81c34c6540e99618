"""What is asked of a model: the tokens of one request by kind, and how many requests a month."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal

from engine.rates import TOKEN_KINDS, TokenKind

HOURS_PER_WEEK = 168
ONE = Decimal(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenMix:
    """Tokens of one request. The four prompt kinds partition the prompt: a cached token is not also an input token."""

    input: int = 0  # new prompt tokens that touch no cache
    cache_read: int = 0
    cache_write_5m: int = 0  # new prompt tokens that are written to a cache of 5 minutes
    cache_write_1h: int = 0
    output: int = 0  # thinking tokens are output

    def __post_init__(self) -> None:
        for kind, tokens in self.by_kind():
            if tokens < 0:
                raise ValueError(f"tokens of kind {kind} must be at least 0, got {tokens}")
        if self.total == 0:
            raise ValueError("a request without tokens has no price")

    def by_kind(self) -> tuple[tuple[TokenKind, int], ...]:
        """Every token kind with its tokens, in the order of TOKEN_KINDS."""
        return tuple((kind, getattr(self, kind)) for kind in TOKEN_KINDS)

    @property
    def prompt(self) -> int:
        """Tokens of the whole prompt; a context tier is chosen by it."""
        return self.input + self.cache_read + self.cache_write_5m + self.cache_write_1h

    @property
    def total(self) -> int:
        """Billed tokens of one request, cached ones included."""
        return self.prompt + self.output

    def uncached(self) -> TokenMix:
        """The same request where nothing is cached: the whole prompt is input."""
        return TokenMix(input=self.prompt, output=self.output)

    def cold(self) -> TokenMix:
        """The first request of a session: the prefix is not cached yet and is written the way the mix writes, else input."""
        if self.cache_write_1h:
            return replace(self, cache_read=0, cache_write_1h=self.cache_write_1h + self.cache_read)
        if self.cache_write_5m:
            return replace(self, cache_read=0, cache_write_5m=self.cache_write_5m + self.cache_read)
        return replace(self, cache_read=0, input=self.input + self.cache_read)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedCapacity:
    """Requests of the workload one setup serves in a 730-hour month at full use, as the operator measured it."""

    model: str
    gpu: str
    gpu_count: int
    weight_format: str = ""  # "" is any
    requests_per_month: Decimal
    source: str = ""
    checked: date | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A mix and its volume. ``context`` and ``sessions`` size the KV cache; ``hour_shares`` weigh the 168 UTC hours of the week.

    ``utilization`` is the share of what a setup could serve that is served on average, 0..1; it is no share of billed hours.
    """

    id: str
    name: str
    mix: TokenMix
    requests_per_month: Decimal
    context: int  # tokens one session may hold
    sessions: int = 1  # sessions resident at once
    utilization: Decimal = ONE
    batch_share: Decimal = Decimal(0)  # of the requests that may wait for a batch price
    cold_start_share: Decimal = Decimal(0)  # of the requests that open a session
    hour_shares: tuple[Decimal, ...] = ()  # from Monday 00:00 UTC; () is even over the week
    min_tok_s_per_user: Decimal | None = None
    max_ttft_s: Decimal | None = None
    capacities: tuple[StatedCapacity, ...] = ()
    source: str = ""
    checked: date | None = None

    def __post_init__(self) -> None:
        _need(self.requests_per_month > 0, self.id, "requests_per_month must be above 0")
        _need(0 < self.utilization <= 1, self.id, "utilization must be above 0 and at most 1")
        _need(0 <= self.batch_share <= 1, self.id, "batch_share must be 0..1")
        _need(0 <= self.cold_start_share <= 1, self.id, "cold_start_share must be 0..1")
        _need(self.sessions >= 1, self.id, "sessions must be at least 1")
        _need(self.context >= self.mix.total, self.id, f"context must hold one request of {self.mix.total} tokens")
        _need(len(self.hour_shares) in (0, HOURS_PER_WEEK), self.id, f"hour_shares must have {HOURS_PER_WEEK} values")
        _need(all(share >= 0 for share in self.hour_shares), self.id, "hour_shares must not be negative")
        _need(not self.hour_shares or any(self.hour_shares), self.id, "hour_shares must not all be 0")

    @property
    def tokens_per_month(self) -> Decimal:
        """Billed tokens a month, cached ones included."""
        return self.requests_per_month * self.mix.total

    def stated_capacity(self, *, model: str, gpu: str, gpu_count: int, weight_format: str) -> StatedCapacity | None:
        """What the operator measured for this setup; None where nothing was stated."""
        return next(
            (
                c
                for c in self.capacities
                if (c.model, c.gpu, c.gpu_count) == (model, gpu, gpu_count) and c.weight_format in ("", weight_format)
            ),
            None,
        )


def requests_per_month(*, users: int, per_user_workday: Decimal, workdays: int) -> Decimal:
    """Requests a month of a team: users x requests per user and workday x workdays."""
    return users * per_user_workday * workdays


def _need(ok: bool, workload: str, message: str) -> None:
    if not ok:
        raise ValueError(f"workload {workload}: {message}")
