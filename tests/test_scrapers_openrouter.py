"""OpenRouter: following the pages, overrides at every hour of the week, and the two recorded answers of August 2026."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ratecards import RateCard, prices_at
from engine.rates import Conditions, TokenPrices, TokenRate
from scrapers import openrouter
from scrapers.contract import LayoutChanged, Page, Row, Skipped, TokenQuote

RECORDED = Path(__file__).parents[2] / "shared/recorded/tokens/openrouter"
FIRST = RECORDED / "models.genai-prices-fixture.2026-08.json"
SECOND = RECORDED / "models.ai-pricelog-fixture.2026-08-30.json"
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
CLOCKS = (0, 130, 400, 1030, 2230)
NOW = datetime(2026, 11, 22, tzinfo=UTC)
PROMPTS = (0, 1000, 1001, 5000, 5001)


class FakeClient:
    """Answers each path with the link to the next one."""

    def __init__(self, links: Mapping[str, object]) -> None:
        self.links = links
        self.asked: list[str] = []

    def get(self, path: str, *, params: Mapping[str, str | int] | None = None, headers: Mapping[str, str] | None = None) -> Page:
        self.asked.append(path)
        return Page(url=path, body=json.dumps({"data": [], "links": {"next": self.links[path]}}).encode())

    def post(self, path: str, *, json: Any, headers: Mapping[str, str] | None = None) -> Page:
        raise AssertionError(f"unexpected POST {path}")


def test_fetch_follows_next_links_to_the_end() -> None:
    client = FakeClient({openrouter.PATH: "/api/v1/models?offset=500", "/api/v1/models?offset=500": None})
    pages = openrouter.fetch(client, {})
    assert [page.url for page in pages] == client.asked == ["/api/v1/models", "/api/v1/models?offset=500"]


def test_fetch_refuses_a_list_that_never_ends() -> None:
    client = FakeClient({openrouter.PATH: openrouter.PATH})
    with pytest.raises(LayoutChanged, match="within 50 pages"):
        openrouter.fetch(client, {})
    assert len(client.asked) == 50


@pytest.mark.parametrize("body", [b"[]", b'{"data": []}', b'{"data": [], "links": null}', b'{"data": [], "links": {"next": 7}}'])
def test_fetch_stops_where_there_is_no_link(body: bytes) -> None:
    class OnePage(FakeClient):
        def get(self, path: str, *, params: Mapping[str, str | int] | None = None, headers: Mapping[str, str] | None = None) -> Page:
            return Page(url=path, body=body)

    assert len(openrouter.fetch(OnePage({}), {})) == 1


def in_window(now: int, start: int, end: int) -> bool:
    return start <= now < end if start < end else now >= start or now < end


def by_the_rule(base: dict[str, str], overrides: list[dict[str, Any]], day: str, clock: int, prompt: int) -> dict[str, Decimal]:
    """The documented rule, entry by entry."""
    prices = dict(base)
    for entry in overrides:
        fits_day = day in entry.get("utc_days", DAYS)
        fits_time = "utc_start" not in entry or in_window(clock, entry["utc_start"], entry["utc_end"])
        fits_size = "min_prompt_tokens" not in entry or prompt > entry["min_prompt_tokens"]
        if fits_day and fits_time and fits_size:
            prices.update({key: entry[key] for key in base if key in entry})
    return {"input": Decimal(prices["prompt"]), "output": Decimal(prices["completion"])}


def by_the_quotes(card: RateCard, day: str, clock: int, prompt: int) -> dict[str, Decimal]:
    """What the engine makes of the quotes, in the week of Monday 2026-11-23."""
    at = datetime(2026, 11, 23 + DAYS.index(day), clock // 100, clock % 100, tzinfo=UTC)
    prices = prices_at(card, prompt, at)
    assert prices is not None and prices.input is not None and prices.output is not None
    return {"input": prices.input, "output": prices.output}


def rate(quote: TokenQuote) -> TokenRate:
    prices = TokenPrices(**quote.prices)
    conditions = Conditions(min_prompt_tokens=quote.min_prompt_tokens, hours_utc=quote.hours_utc, weekdays=quote.weekdays)
    return TokenRate(
        provider="p", source="s", model="m", source_model="m", currency="USD", native=prices, usd=prices, conditions=conditions, seen_at=NOW
    )


amounts = st.integers(1, 9).map(lambda n: f"0.00000{n}")
conditions = st.fixed_dictionaries(
    {},
    optional={
        "min_prompt_tokens": st.sampled_from((1000, 5000)),
        "utc_days": st.lists(st.sampled_from(DAYS), min_size=1, max_size=7, unique=True),
        "window": st.lists(st.sampled_from(CLOCKS), min_size=2, max_size=2, unique=True),
    },
).filter(bool)
changes = st.fixed_dictionaries({}, optional={"prompt": amounts, "completion": amounts}).filter(bool)


def entry_of(condition: dict[str, Any], change: dict[str, str]) -> dict[str, Any]:
    window = condition.pop("window", None)
    return condition | ({"utc_start": window[0], "utc_end": window[1]} if window else {}) | change


@given(st.lists(st.builds(entry_of, conditions, changes), max_size=4))
def test_every_request_pays_what_the_documented_rule_says(overrides: list[dict[str, Any]]) -> None:
    base = {"prompt": "0.00001", "completion": "0.00002"}
    body = json.dumps({"data": [{"id": "a/b", "pricing": base | {"overrides": overrides}}]}).encode()
    rows = openrouter.parse([Page(url="https://example.test", body=body)])
    card = RateCard(rates=tuple(rate(row) for row in rows if isinstance(row, TokenQuote)))
    for day in DAYS:
        for clock in (0, 59, 129, 130, 359, 400, 1029, 1030, 2229, 2230, 2359):
            for prompt in PROMPTS:
                assert by_the_quotes(card, day, clock, prompt) == by_the_rule(base, overrides, day, clock, prompt)


def real(path: Path) -> list[Row]:
    if not path.exists():
        pytest.skip("../shared is not here")
    return list(openrouter.parse([Page(url="https://openrouter.ai/api/v1/models", body=path.read_bytes())]))


@pytest.mark.shared
@pytest.mark.parametrize(
    ("path", "quotes", "skipped"),
    [
        (FIRST, 4, ["alias of another model", "no fixed price (-1)"]),
        (SECOND, 17, ["alias of another model"]),
    ],
    ids=["first", "second"],
)
def test_recorded_answers_row_counts(path: Path, quotes: int, skipped: list[str]) -> None:
    """Counted by a script of its own: 6 models, 1 alias, 1 router; 16 models, 1 alias, 15 prices and 2 overrides."""
    rows = real(path)
    assert Counter(type(row) for row in rows) == {TokenQuote: quotes, Skipped: len(skipped)}
    assert sorted(row.reason for row in rows if isinstance(row, Skipped)) == skipped


NAMED = [  # read in the raw files with grep
    (SECOND, "moonshotai/kimi-k3", "standard", 0, {"input": "0.000003", "cache_read": "0.0000003", "output": "0.000015"}),
    (SECOND, "x-ai/grok-4.5", "standard", 200000, {"input": "0.000004", "cache_read": "0.0000006", "output": "0.000012"}),
    (SECOND, "dots-studio/dots-3-note-preview:free", "free", 0, {"input": "0", "output": "0"}),
    (
        FIRST,
        "anthropic/claude-opus-5",
        "standard",
        0,
        {
            "input": "0.000005",
            "output": "0.000025",
            "cache_read": "0.0000005",
            "cache_write_5m": "0.00000625",
            "cache_write_1h": "0.00001",
        },
    ),
]


@pytest.mark.shared
@pytest.mark.parametrize(("path", "model", "sku", "tier", "prices"), NAMED, ids=[row[1] for row in NAMED])
def test_recorded_answers_named_prices(path: Path, model: str, sku: str, tier: int, prices: dict[str, str]) -> None:
    rows = [row for row in real(path) if isinstance(row, TokenQuote) and (row.model, row.min_prompt_tokens) == (model, tier)]
    assert [dict(row.prices) for row in rows] == [{kind: Decimal(price) for kind, price in prices.items()}]
    assert {(row.provider, row.sku, row.per, row.currency) for row in rows} == {("openrouter", sku, "token", "USD")}
