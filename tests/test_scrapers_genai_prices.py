"""genai-prices: the project's rule, computed the naive way at many instants, and the real file of 2026-08-21."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ratecards import RateCard, prices_at
from engine.rates import Conditions, TokenPrices, TokenRate
from scrapers import genai_prices
from scrapers.contract import Page, Row, Skipped, TokenQuote

REAL = Path(__file__).parents[2] / "shared/recorded/tokens/genai-prices/v2-data.2026-08-21.47df840a.json.gz"
DATES = ("2026-03-01", "2026-06-15", "2026-09-01")
TIMES = ("00:00", "04:30", "10:00", "16:30")
INSTANTS = [
    datetime.fromisoformat(f"{day}T{clock}+00:00") + step
    for day in ("2026-01-01", *DATES)
    for clock in TIMES
    for step in (timedelta(minutes=-1), timedelta(), timedelta(minutes=1))
]
PROMPTS = (0, 1000, 1001, 5000, 5001)


def parse(body: bytes) -> list[Row]:
    return list(genai_prices.parse([Page(url="https://example.test/data.json", body=body)]))


def quotes_of(prices: object) -> list[TokenQuote]:
    providers = [{"id": "p", "models": [{"id": "m", "match": {}, "prices": prices}]}]
    return [row for row in parse(json.dumps(providers).encode()) if isinstance(row, TokenQuote)]


def in_window(clock: str, start: str, end: str) -> bool:
    return start <= clock < end if start < end else clock >= start or clock < end


def by_the_rule(entries: list[Any], at: datetime, prompt: int) -> dict[str, Decimal]:
    """The published rule, step by step: the last active entry, else the first; the highest tier below the prompt."""

    def active(entry: Any) -> bool:
        rule = entry.get("constraint") or {}
        if "start_date" in rule:
            return at.date().isoformat() >= rule["start_date"]
        return "start_time" not in rule or in_window(f"{at:%H:%M}", rule["start_time"], rule["end_time"])

    chosen = next((entry for entry in reversed(entries) if active(entry)), entries[0])["prices"]
    found = {}
    for key, kind in (("input_mtok", "input"), ("output_mtok", "output")):
        value = chosen[key]
        if isinstance(value, dict):
            value = next((tier["price"] for tier in reversed(value["tiers"]) if prompt > tier["start"]), value["base"])
        found[kind] = Decimal(value)
    return found


def by_the_quotes(card: RateCard, at: datetime, prompt: int) -> dict[str, Decimal]:
    """What the engine makes of the quotes."""
    prices = prices_at(card, prompt, at)
    assert prices is not None and prices.input is not None and prices.output is not None
    return {"input": prices.input, "output": prices.output}


def rate(quote: TokenQuote) -> TokenRate:
    prices = TokenPrices(**quote.prices)
    return TokenRate(
        provider="p",
        source="s",
        model="m",
        source_model="m",
        currency="USD",
        native=prices,
        usd=prices,
        conditions=Conditions(min_prompt_tokens=quote.min_prompt_tokens, hours_utc=quote.hours_utc),
        valid_from=quote.valid_from,
        valid_to=quote.valid_to,
        seen_at=INSTANTS[0],
    )


amounts = st.integers(0, 9)
tiered = st.builds(
    lambda base, one, two: {"base": base, "tiers": [{"start": 1000, "price": one}, {"start": 5000, "price": two}]},
    amounts,
    amounts,
    amounts,
)
price_sets = st.fixed_dictionaries({"input_mtok": amounts | tiered, "output_mtok": amounts})
windows = st.lists(st.sampled_from(TIMES), min_size=2, max_size=2, unique=True).map(
    lambda pair: {"start_time": pair[0], "end_time": pair[1]}
)
constraints = st.none() | st.sampled_from(DATES).map(lambda day: {"start_date": day}) | windows
entry_lists = st.lists(
    st.builds(lambda rule, prices: {"prices": prices} | ({"constraint": rule} if rule else {}), constraints, price_sets),
    min_size=1,
    max_size=5,
)


@given(entry_lists)
def test_every_request_pays_what_the_published_rule_says(entries: list[Any]) -> None:
    card = RateCard(rates=tuple(rate(quote) for quote in quotes_of(entries)))
    for at in INSTANTS:
        for prompt in PROMPTS:
            assert by_the_quotes(card, at, prompt) == by_the_rule(entries, at, prompt)


@given(entry_lists)
def test_intervals_of_one_condition_neither_overlap_nor_repeat_a_price(entries: list[Any]) -> None:
    by_condition: dict[tuple[str, int], list[TokenQuote]] = {}
    for quote in quotes_of(entries):
        by_condition.setdefault((quote.hours_utc, quote.min_prompt_tokens), []).append(quote)
    for quotes in by_condition.values():
        for before, after in pairwise(quotes):
            assert before.valid_to is not None and after.valid_from is not None and before.valid_to <= after.valid_from
            assert before.valid_to < after.valid_from or before.prices != after.prices


@pytest.fixture(scope="module")
def real() -> list[Row]:
    if not REAL.exists():
        pytest.skip("../shared is not here")
    return parse(gzip.decompress(REAL.read_bytes()))


@pytest.mark.shared
def test_real_file_row_counts(real: list[Row]) -> None:
    """Counted by a script of its own (json.load, no import of ours): of 1,466 models, 1,451 have one price set: 1,277 flat, 17 with one
    tier (34 rows), 157 without a token price. The 15 price lists were counted by hand: 11 give 2 rows, 2 give 3, 2 give 4."""
    assert Counter(type(row) for row in real) == {TokenQuote: 1277 + 34 + 11 * 2 + 2 * 3 + 2 * 4, Skipped: 157}
    assert {row.reason for row in real if isinstance(row, Skipped)} == {"no token price"}


NAMED = [  # read in the raw file with grep
    ("moonshotai", "kimi-k3", None, 0, {"input": "3", "cache_read": "0.3", "output": "15"}),
    ("openai", "o3", datetime(2025, 6, 10, tzinfo=UTC), 0, {"input": "2", "cache_read": "0.5", "output": "8"}),
    (
        "openai",
        "gpt-5.6-terra",
        datetime(2026, 7, 30, tzinfo=UTC),
        272000,
        {"input": "4", "cache_write_5m": "5", "cache_read": "0.4", "output": "18"},
    ),
]


@pytest.mark.shared
@pytest.mark.parametrize(("provider", "model", "since", "tier", "prices"), NAMED, ids=[row[1] for row in NAMED])
def test_real_file_named_prices(
    real: list[Row], provider: str, model: str, since: datetime | None, tier: int, prices: dict[str, str]
) -> None:
    found = [
        row
        for row in real
        if isinstance(row, TokenQuote)
        and (row.provider, row.model, row.valid_from, row.min_prompt_tokens) == (provider, model, since, tier)
        and row.valid_to is None
    ]
    assert [dict(row.prices) for row in found] == [{kind: Decimal(price) for kind, price in prices.items()}]
    assert {(row.per, row.currency, row.tier_inclusive) for row in found} == {("mtok", "USD", False)}


@pytest.mark.shared
def test_real_file_day_and_night_of_deepseek(real: list[Row]) -> None:
    """In the raw file: 0.135 / 0.55 at night, 0.27 / 1.1 from 00:30 to 16:30 UTC."""
    rows = [row for row in real if isinstance(row, TokenQuote) and (row.provider, row.model) == ("deepseek", "deepseek-chat")]
    assert [(row.hours_utc, row.prices["input"], row.prices["output"]) for row in rows] == [
        ("", Decimal("0.135"), Decimal("0.55")),
        ("00:30-16:30", Decimal("0.27"), Decimal("1.1")),
    ]
