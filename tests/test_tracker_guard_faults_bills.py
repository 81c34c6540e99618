"""Faults of token bills on record: cached tokens, tiers, batch and the hours of the day; small inputs of our own with their right values.

The numbers in the names are those of the list of 56 faults; each test says where the fault happened.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from faults import read
from test_engine_rates import card, prices, rate
from test_tracker_guard_faults_tokens import litellm_map, tokens, usd

from engine.bills import request_cost, usage_cost
from engine.ratecards import prices_at
from engine.rates import Conditions, TokenKind, TokenPrices
from engine.workloads import TokenMix
from scrapers import deepinfra, genai_prices

D = Decimal
NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)


def test_token_12_an_unknown_cached_price_makes_an_upper_bound() -> None:
    """pier PR 9: deepseek-v4-pro's cached input counted as input without a word, five times too dear."""
    cost = request_cost(TokenMix(cache_read=90_000, input=10_000, output=1_000), TokenPrices(input=D("0.435"), output=D("0.87")))
    # 100,000 x 0.435 + 1,000 x 0.87
    assert (cost.amount, cost.upper_bound, cost.missing) == (D("0.04437"), True, ("cache_read",))


TIERED = card(
    rate(prices("2.5", "0.25", "15", cache_write_5m="3")),
    rate(prices("5", "0.5", "22.5", cache_write_5m="6"), conditions=Conditions(min_prompt_tokens=272_000)),
)


@pytest.mark.parametrize(
    ("mix", "amount"),
    [
        # 270,000 x 0.50 + 5,000 x 6 + 3,000 x 5 + 1,000 x 22.5
        (TokenMix(cache_read=270_000, cache_write_5m=5_000, input=3_000, output=1_000), "0.2025"),
        # 264,000 x 0.25 + 5,000 x 3 + 3,000 x 2.5 + 1,000 x 15: 272,000 is not above 272,000
        (TokenMix(cache_read=264_000, cache_write_5m=5_000, input=3_000, output=1_000), "0.1035"),
        # output does not count for the tier
        (TokenMix(input=272_000, output=100_000), "2.18"),
    ],
)
def test_token_17_the_whole_request_is_rated_by_its_whole_prompt(mix: TokenMix, amount: str) -> None:
    """tokscale 862: priced by the slice above 272K; reads and writes of the cache belong to the prompt."""
    found = prices_at(TIERED, mix.prompt, NOW)
    assert found is not None
    assert request_cost(mix, found).amount == D(amount)


def test_token_19_writes_of_the_cache_have_the_price_of_the_tier() -> None:
    """Helicone PR 5779: cache writes at the base price above 200K, half of what is billed."""
    entry = {
        "input_mtok": {"base": 3, "tiers": [{"start": 200_000, "price": 6}]},
        "cache_write_mtok": {"base": D("3.75"), "tiers": [{"start": 200_000, "price": D("7.5")}]},
        "output_mtok": 15,
    }
    assert [usd(q)["cache_write_5m"] for q in genai(entry)] == [D("3.75"), D("7.5")]


def genai(entry: Any, **more: Any) -> Any:
    return tokens(read(genai_prices, [{"id": "p", "models": [{"id": "m", "prices": _plain(entry), **more}]}]))


def _plain(value: Any) -> Any:
    """Decimals as JSON numbers."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else float(value) if isinstance(value, Decimal) else value


def test_token_20_the_fields_of_tiers_are_read() -> None:
    """litellm 30135: *_above_200k_tokens was left out of sight."""
    rows = litellm_map("x", "y", input_cost_per_token=1e-06, output_cost_per_token=4e-06, output_cost_per_token_above_200k_tokens=6e-06)
    assert [(q.min_prompt_tokens, usd(q)["input"], usd(q)["output"]) for q in tokens(rows)] == [(0, 1, 4), (200_000, 1, 6)]


def test_token_22_a_tier_is_a_cliff() -> None:
    """genai-prices 241: 300,000 tokens at 1 below and 2 above 200,000 cost 0.60, not 0.40."""
    quotes = genai({"input_mtok": {"base": 1, "tiers": [{"start": 200_000, "price": 2}]}, "output_mtok": 4})
    listed = card(*(rate(TokenPrices(**q.prices), conditions=Conditions(min_prompt_tokens=q.min_prompt_tokens)) for q in quotes))
    kinds: dict[TokenKind, int] = {"input": 300_000}
    found = prices_at(listed, 300_000, NOW)
    assert found is not None
    assert usage_cost(kinds, found).amount == D("0.6")


def test_token_23_the_multiplier_counts_and_not_the_text_beside_it() -> None:
    """models.dev PR 5280: the text says 0.20 for cached input, the multiplier 0.04: Seed-2.0-mini at 0.20 x 0.2."""
    pricing = {
        "type": "tokens", "cents_per_input_token": 0.00002, "cents_per_output_token": 0.00004, "rate_per_input_token_cached": 0.2,
        "full": "$0.20 / Mtok cached above 128K",
    }  # fmt: skip
    (quote,) = tokens(read(deepinfra, [{"model_name": "ByteDance/Seed-2.0-mini", "pricing": pricing}]))
    assert usd(quote) == {"input": D("0.2"), "output": D("0.4"), "cache_read": D("0.04")}


def test_token_25_a_batch_factor_takes_every_kind() -> None:
    """loreai PR 503: half price for batch left out cache reads and writes."""
    halved = TokenPrices(input=D(3), cache_read=D("0.3"), cache_write_5m=D("3.75"), cache_write_1h=D(6), output=D(15)).times(D("0.5"))
    assert halved == TokenPrices(input=D("1.5"), cache_read=D("0.15"), cache_write_5m=D("1.875"), cache_write_1h=D(3), output=D("7.5"))


def test_token_26_27_a_batch_list_keeps_what_it_does_not_name_and_states_its_own_price() -> None:
    """Helicone PR 4211: batch rows lost cached input; truefoundry PR 765: o3's batch price was the standard one: 2 and 8 for 1 and 4."""
    variant = {"when": {"processing": "batch"}, "prices": {"input_mtok": 1, "output_mtok": 4}}
    found = {q.sku: usd(q) for q in genai({"input_mtok": 2, "cache_read_mtok": 0.5, "output_mtok": 8}, price_variants=[variant])}
    assert found == {
        "standard": {"input": 2, "cache_read": D("0.5"), "output": 8},
        "batch": {"input": 1, "cache_read": D("0.5"), "output": 4},
    }


def test_token_27_batch_fields_are_no_standard_ones() -> None:
    rows = litellm_map(
        "o3", "openai", input_cost_per_token=2e-06, output_cost_per_token=8e-06, input_cost_per_token_batches=1e-06,
        output_cost_per_token_batches=4e-06,
    )  # fmt: skip
    assert {q.sku: (usd(q)["input"], usd(q)["output"]) for q in tokens(rows)} == {"standard": (2, 8), "batch": (1, 4)}


def test_token_33_a_change_holds_from_its_minute() -> None:
    """hermes-agent 88010: DeepSeek's change of 2026-08-16 16:00 UTC was missed by a snapshot, two to five times too cheap."""
    change = datetime(2026, 8, 16, 16, tzinfo=UTC)
    listed = card(rate(prices("0.28", None, "0.42"), valid_to=change), rate(prices("0.66", None, "1.98"), valid_from=change))
    assert prices_at(listed, 1, change - timedelta(minutes=1)) == prices("0.28", None, "0.42")
    assert prices_at(listed, 1, change) == prices("0.66", None, "1.98")
