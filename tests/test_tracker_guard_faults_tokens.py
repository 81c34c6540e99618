"""Faults of token price lists on record: units, sentinels, identity, currency, validity; small inputs of our own, right values beside.

The numbers in the names are those of the list of 56 faults; each test says where the fault happened.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from faults import catalogue as catalogue
from faults import db as db
from faults import read, recorded, skipped
from faults import watched as watched
from guarded import Watched, rate
from test_tracker_guard_sweeps import refused

from scrapers import deepseek, genai_prices, litellm, models_dev, moonshot, openrouter, openrouter_endpoints
from scrapers.contract import FxQuote, Row, TokenQuote
from scrapers.text import price as printed_price
from tracker.book.exchange import exchange_of
from tracker.database.rows import RateRow
from tracker.facts.catalogue import Catalogue
from tracker.guard.bands import rate_fault
from tracker.guard.settings import GuardSettings
from tracker.sweeps.resolve import Refused, resolve_tokens

D = Decimal
OUTSIDE = "price outside the plausible band"


def tokens(rows: Sequence[Row]) -> list[TokenQuote]:
    return [row for row in rows if isinstance(row, TokenQuote)]


def usd(quote: TokenQuote) -> dict[str, Decimal]:
    """Prices per Mtok as the quote's unit says."""
    return {kind: price * quote.scale * {"mtok": 1, "token": 10**6}[quote.per] for kind, price in quote.prices.items()}


def judged(rows: Sequence[Row], source: str, catalogue: Catalogue) -> list[RateRow | str]:
    """Each quote as a row, or why it is none."""
    found: list[RateRow | str] = []
    for quote in tokens(rows):
        row = resolve_tokens(quote, source, catalogue, "", {})
        found.append(row.reason if isinstance(row, Refused) else rate_fault(row, GuardSettings(), exchange_of([])) or row)
    return found


def litellm_map(name: str = "wandb/openai/gpt-oss-120b", provider: str = "wandb", **fields: Any) -> list[Row]:
    return read(litellm, {name: {"litellm_provider": provider, "mode": "chat", **fields}})


# --- units ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("input_", "output", "is_price"),
    [
        (0.015, 0.06, False),  # the fault: 15,000 USD per Mtok
        (0.15, 0.6, False),  # per Mtok where a token is due
        (0.0005, 0.002, False),  # per thousand and more
        (1.5e-07, 6e-07, True),
    ],
)
def test_token_1_dollars_of_another_unit(catalogue: Catalogue, input_: float, output: float, is_price: bool) -> None:
    """litellm PR 38167: gpt-oss-120b at wandb for 0.015 a token; right are 0.15 and 0.60 per Mtok."""
    (found,) = judged(litellm_map(input_cost_per_token=input_, output_cost_per_token=output), "litellm", catalogue)
    if not is_price:
        assert found == OUTSIDE
    else:
        assert isinstance(found, RateRow)
        assert (found.native.input, found.native.output) == (D("0.15"), D("0.6"))


@pytest.mark.parametrize("wrong", [("135", "400"), ("30", "30"), ("6", "25")])
def test_token_2_ten_to_two_hundred_times_too_dear_is_not_listed(watched: Watched, wrong: tuple[str, str]) -> None:
    """litellm PR 17432: Kimi K2 at 135,000 and 400,000, kimi-thinking-preview at 30 and 30; right are 0.60 and 2.50."""
    for provider in ("moonshot", "together", "novita"):
        watched.sweep(0, rate("0.60", "2.50", provider=provider), source="genai_prices")
    for minutes in (15, 30, 45):
        watched.sweep(minutes, rate(*wrong, provider="wandb"), source="litellm")
    assert "wandb" not in {entry.value.provider for entry in watched.book().rates}
    assert [entry["release"] for entry in watched.quarantine()] == ["source"]


def test_token_3_a_price_that_flips_tenfold_shows_only_what_is_right(watched: Watched) -> None:
    """Portkey PR 801: Kimi at Bedrock ten times too dear, right, wrong, right, wrong within a month; right are 0.60 and 2.50."""
    shown = []
    for day, (input_, output) in enumerate([("0.60", "2.50"), ("6", "25"), ("0.60", "2.50"), ("6", "25"), ("0.60", "2.50")]):
        watched.sweep(day * 30, rate(input_, output), source="openrouter")
        shown.append(watched.tokens())
    assert set(shown) == {("0.6", None, "2.5")}


@pytest.mark.parametrize("wrong", ["0.8", "0.008"])
def test_token_4_a_cached_price_ten_times_off_waits(watched: Watched, wrong: str) -> None:
    """litellm 9833: claude-3-5-haiku's cached input at 8e-07, which is its input price; right is 8e-08."""
    watched.sweep(0, rate("0.80", "4", "0.08"), source="openrouter")
    watched.sweep(15, rate("0.80", "4", wrong), source="openrouter")
    assert watched.tokens() == ("0.8", "0.08", "4")
    (right,) = tokens(litellm_map("a", "b", input_cost_per_token=8e-07, output_cost_per_token=4e-06, cache_read_input_token_cost=8e-08))
    assert usd(right)["cache_read"] == D("0.08")


def test_token_5_a_cached_price_has_tiers_too() -> None:
    """litellm PR 18157: gemini-2.5-pro's cached input at 3.125e-07; right is 1.25e-07, and 2.5e-07 above 200K."""
    rows = litellm_map(
        "gemini-2.5-pro", "vertex_ai", input_cost_per_token=1.25e-06, output_cost_per_token=1e-05, cache_read_input_token_cost=1.25e-07,
        input_cost_per_token_above_200k_tokens=2.5e-06, cache_read_input_token_cost_above_200k_tokens=2.5e-07,
    )  # fmt: skip
    assert {q.min_prompt_tokens: (usd(q)["input"], usd(q)["cache_read"]) for q in tokens(rows)} == {
        0: (D("1.25"), D("0.125")),
        200_000: (D("2.5"), D("0.25")),
    }


@pytest.mark.parametrize(("input_", "output"), [("0.0001", "0.0002"), ("0.0005", "0.5"), ("0.5", "0.0009")])
def test_token_6_a_placeholder_is_no_price(catalogue: Catalogue, input_: str, output: str) -> None:
    """hope-agent PR 493: 0.0001 and 0.0002 per Mtok, four orders too low."""
    quote = TokenQuote(provider="moonshotai", model="kimi-k3", prices={"input": D(input_), "output": D(output)}, per="mtok", currency="USD")
    assert judged([quote], "genai_prices", catalogue) == [OUTSIDE]


def test_token_6_yuan_told_as_dollars_wait(watched: Watched) -> None:
    """The same: 2.4 and 9.6 CNY booked as dollars, seven times too dear. The list in yuan is known and has the same figures."""
    watched.sweep(0, rate("2.4", "9.6", currency="CNY", provider="moonshot", region="cn"), source="moonshot")
    for minutes in (0, 15):
        watched.sweep(minutes, rate("2.4", "9.6", provider="moonshot", region="cn"), source="litellm")
    assert watched.states() == [("pending", "CNY of moonshot is USD at the same figure")]


def test_token_7_the_price_of_another_variant_waits(watched: Watched) -> None:
    """litellm PR 37763: swe-1.7 at five times its price, that of the Lightning variant; right are 0.50 and 2.50."""
    watched.sweep(0, rate("0.50", "2.50"), source="openrouter")
    watched.sweep(15, rate("2.50", "12.50"), source="openrouter")
    assert watched.tokens() == ("0.5", None, "2.5")


def test_token_15_a_cached_price_forty_times_off_waits(watched: Watched) -> None:
    """models.dev 31150: deepseek-v4-pro's cached input served as 0.145; right is 0.003625."""
    (quote,) = tokens(
        read(models_dev, {"deepseek": {"models": {"v4": {"cost": {"input": 0.435, "output": 0.87, "cache_read": 0.003625}}}}})
    )
    assert quote.prices["cache_read"] == D("0.003625")
    watched.sweep(0, rate("0.435", "0.87", "0.003625"), source="openrouter")
    watched.sweep(15, rate("0.435", "0.87", "0.145"), source="openrouter")
    assert watched.tokens() == ("0.435", "0.003625", "0.87")


def test_token_16_a_cached_price_that_becomes_0_waits(watched: Watched) -> None:
    """Portkey PR 842: the cached price of DeepSeek V4 at Azure was 0 for missing; right are 0.028 and 0.145."""
    watched.sweep(0, rate("0.14", "0.28", "0.028"), source="openrouter")
    watched.sweep(15, rate("0.14", "0.28", "0"), source="openrouter")
    assert watched.tokens() == ("0.14", "0.028", "0.28")
    assert watched.states() == [("pending", "cache read went to 0")]


# --- sentinels, zero, missing -----------------------------------------------------------------------------------------------


def openrouter_models(*models: tuple[str, dict[str, Any]]) -> list[Row]:
    return read(openrouter, {"data": [{"id": name, "pricing": pricing} for name, pricing in models]})


GOOD = ("moonshotai/kimi-k3", {"prompt": "0.000003", "completion": "0.000015", "input_cache_read": "0.0000003"})


@pytest.mark.parametrize("sentinel", ["-1", "-1.0", "-0.5", "NaN", "Infinity", "", None, True, "free", "0x1"])
def test_token_34_35_a_sentinel_is_no_price_and_ends_no_source(catalogue: Catalogue, sentinel: Any) -> None:
    """Pane 534, pi 8875, ccusage 1514, Kilocode 13040, Pipelex 695: "-1" became -1,000,000 USD per Mtok."""
    rows = openrouter_models(("openrouter/auto", {"prompt": sentinel, "completion": sentinel}), GOOD)
    (found,) = judged(rows, "openrouter", catalogue)
    assert isinstance(found, RateRow)
    assert (found.native.input, found.native.cache_read, found.native.output) == (D(3), D("0.3"), D(15))
    assert len(skipped(rows)) == 1


def test_token_35_one_bad_row_ends_no_source() -> None:
    """genai-prices 400: one -1 ended the whole pull."""
    bad = {"id": "bad", "prices": {"input_mtok": -1, "output_mtok": 2}}
    good = {"id": "good", "prices": {"input_mtok": 3, "output_mtok": 15}}
    rows = read(genai_prices, [{"id": "p", "models": [bad, good]}])
    assert [(q.model, usd(q)["input"]) for q in tokens(rows)] == [("good", D(3))]


def test_token_36_known_and_not_priced_is_not_free(watched: Watched) -> None:
    """oh-my-pi 5756: kimi-k3 shown as free, because it was only discovered; right are 3, 0.30 and 15."""
    rows = openrouter_models(("moonshotai/kimi-k4", {}), GOOD)
    assert [q.model for q in tokens(rows)] == ["moonshotai/kimi-k3"]
    watched.sweep(0, rate("3", "15", "0.3"), source="openrouter")
    watched.sweep(15, rate("0", "0", "0"), source="openrouter")
    assert watched.tokens() == ("3", "0.3", "15")


# --- identity ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["k2d6-agent", "kimi-k3.1", "kimi-k", "kimi-k3-pro", "Kimi-K3.1-Pro-Distill", "deepseek-v4-pro-r1-distill-8b"]
)
def test_token_42_44_no_name_is_matched_by_likeness(catalogue: Catalogue, name: str) -> None:
    """tokscale 1147, 523: k2d6-agent became a Grok; vnx PR 1711: an unknown Kimi took the price of the first row."""
    quote = TokenQuote(provider="moonshot", model=name, prices={"input": D(1), "output": D(2)}, per="mtok", currency="USD")
    refused_ = resolve_tokens(quote, "moonshot", catalogue, "", {})
    assert isinstance(refused_, Refused)
    assert (refused_.reason, refused_.unmapped) == ("unmapped model", ("model", f"moonshot {name}"))


def test_token_45_a_dated_name_is_its_model(catalogue: Catalogue) -> None:
    """genai-prices PR 467: moonshotai/kimi-k3-20260715 had no price. Exactly this name; another date is another name."""
    meant = catalogue.model_for("openrouter", "openrouter", "moonshotai/kimi-k3-20260715")
    assert meant is not None and meant.model == "kimi-k3"
    assert catalogue.model_for("openrouter", "openrouter", "moonshotai/kimi-k3-20260716") is None


def test_token_46_highspeed_is_a_sku_of_its_own(catalogue: Catalogue) -> None:
    """litellm PR 32419: k2.7-code-highspeed at the standard price; and Bedrock's moonshotai.kimi-k3.1 is the highspeed model."""
    for source, provider, name in (
        ("litellm", "moonshot", "moonshot/kimi-k3.1-pro-highspeed"),
        ("litellm", "bedrock", "moonshotai.kimi-k3.1"),
        ("moonshot", "moonshot", "kimi-k3.1-pro-highspeed"),
    ):
        meant = catalogue.model_for(source, provider, name)
        assert meant is not None and (meant.model, meant.sku) == ("kimi-k3.1-pro", "highspeed")


def test_token_47_a_resellers_price_is_the_resellers(catalogue: Catalogue) -> None:
    """workglow 910: a model bought from OpenRouter was billed at its vendor's list price."""
    (row,) = judged(openrouter_models(GOOD), "openrouter", catalogue)
    assert isinstance(row, RateRow)
    assert (row.provider, row.model) == ("openrouter", "kimi-k3")


def test_token_28_a_flex_endpoint_is_no_standard_one() -> None:
    """tokscale 1335: the first endpoint was the flex tier, 26 models at half their price."""
    pricing = [{"prompt": "0.000000625", "completion": "0.000005"}, {"prompt": "0.00000125", "completion": "0.00001"}]
    ends = [{"tag": tag, "pricing": p, "status": 0} for tag, p in zip(("openai/flex", "openai"), pricing, strict=True)]
    rows = read(openrouter_endpoints, {"data": {"id": "openai/gpt-5", "endpoints": ends}})
    assert {q.sku: usd(q)["input"] for q in tokens(rows)} == {"flex": D("0.625"), "standard": D("1.25")}


# --- currency ---------------------------------------------------------------------------------------------------------------


def test_token_48_yuan_stay_yuan_and_are_converted_at_a_dated_rate(watched: Watched) -> None:
    """models.dev PR 4049: 12, 36 and 1.5 CNY at 6.7513 a dollar are 1.77744, 5.33231 and 0.22218."""
    day = date(2026, 11, 2)
    fx = exchange_of([FxQuote(base="EUR", currency=c, rate=D(r), day=day) for c, r in (("USD", "1"), ("CNY", "6.7513"))])
    found = [fx.usd(D(amount), "CNY") for amount in ("12", "36", "1.5")]
    assert [round(amount, 5) for amount in found if amount] == [D("1.77744"), D("5.33231"), D("0.22218")]


def test_token_50_51_the_chinese_list_is_a_list_of_its_own() -> None:
    """lobehub PR 9834: CNY as USD; catwalk PR 325: the endpoint in .cn registered as the global one."""
    found = tokens([*recorded("deepseek", "normal", deepseek), *recorded("moonshot", "normal", moonshot)])
    assert {(q.currency, q.region) for q in found} >= {("USD", ""), ("CNY", "cn")}
    assert all((q.region == "cn") == (q.currency == "CNY") for q in found)


def test_token_51_yuan_on_the_global_page_are_not_its_prices() -> None:
    """A page of the Chinese list at the global address: region cn, not the global offer."""
    page = (
        '<DocTable columns={[{ title: "Model" }, { title: "Unit" }, { title: "Input Price" }, { title: "Output Price" }]} '
        'rows={[\n["kimi-k3.1-pro", "1M tokens", "¥13.00", "¥68.00"],\n]} />'
    )
    (quote,) = tokens(read(moonshot, page))
    assert (quote.currency, quote.region, quote.prices["output"]) == ("CNY", "cn", D(68))


# --- validity ---------------------------------------------------------------------------------------------------------------


def test_token_52_an_announced_price_waits_for_its_day_and_the_frozen_file_is_not_read() -> None:
    """genai-prices 703: the frozen file still holds a rise of 2026-09-01 that was called off."""
    assert genai_prices.PATH.endswith("/prices/new_data/v2/data.json")
    prices = [
        {"prices": {"input_mtok": 2, "output_mtok": 10}},
        {"constraint": {"start_date": "2026-09-01"}, "prices": {"input_mtok": 3, "output_mtok": 15}},
    ]
    rows = tokens(read(genai_prices, [{"id": "p", "models": [{"id": "m", "prices": prices}]}]))
    assert [(usd(q)["input"], q.valid_from and f"{q.valid_from:%m-%d}", q.valid_to and f"{q.valid_to:%m-%d}") for q in rows] == [
        (D(2), None, "09-01"),
        (D(3), "09-01", None),
    ]
    called_off = tokens(read(genai_prices, [{"id": "p", "models": [{"id": "m", "prices": prices[:1]}]}]))
    assert [(usd(q)["input"], q.valid_to) for q in called_off] == [(D(2), None)]


def test_token_54_a_kind_that_vanishes_from_every_model_fails_the_sweep(watched: Watched) -> None:
    """ai-pricelog: cached input of every Moonshot model was missing for three days, its own parser's fault."""
    models = {"kimi-k3": "0.3", "kimi-k2": "0.15", "kimi-k1": "0.1"}
    watched.sweep(0, *(rate("3", "15", cached, source_model=name) for name, cached in models.items()), source="moonshot")
    lost = [rate("3", "15", source_model=name) for name in models]
    assert "lost their cache read price" in refused(watched, 15, *lost, source="moonshot")


@pytest.mark.parametrize("text", ["%0.95", "0.95%", "$0.95%", "$$0.95", "$0,95", "$0.95.1", "€$0.95", "$-0.95", "$1e3"])
def test_token_55_a_slip_of_the_pen_is_no_price(text: str) -> None:
    """runpod/docs PR 735: "%0.95" for "$0.95"."""
    found = printed_price(text)
    assert (found.state, found.amount) == ("unreadable", None)


# --- the list ---------------------------------------------------------------------------------------------------------------

TESTED_ELSEWHERE = {  # by the arithmetic they are about
    8: "test_gemini_request_with_most_of_its_prompt_cached",
    10: "test_cached_tokens_are_not_billed_twice",
    11: "test_an_unknown_cache_price_is_counted_at_input_and_flagged_as_an_upper_bound",
    14: "test_a_provider_without_write_prices_bills_writes_as_input",
    21: "test_a_tier_begins_where_its_provider_says",
    30: "test_weekday_peak_hours",
    31: "test_the_week_weighs_peak_hours_by_their_share",
    38: "test_a_stated_zero_is_zero_and_no_gap",
    39: "test_unknown_input_or_output_has_no_figure_and_is_never_zero",
}


def test_what_is_tested_elsewhere_is_there() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_engine_*.py"))
    assert set(TESTED_ELSEWHERE.values()) <= set(re.findall(r"^def (test_\w+)", text, re.MULTILINE))
