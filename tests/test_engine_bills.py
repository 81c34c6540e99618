"""Bills: the agent turn of seed 002 and its variants, missing prices, caching, cold starts, batch shares, usage records."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from engine.bills import blend_per_mtok, monthly_bill, request_cost, usage_cost
from engine.exact import cents
from engine.rates import TokenPrices
from engine.workloads import StatedCapacity, TokenMix, Workload, requests_per_month

D = Decimal
TURN = TokenMix(cache_read=240_000, input=16_000, output=4_000)
KIMI = TokenPrices(input=D(2), cache_read=D("0.20"), cache_write_5m=D(2), cache_write_1h=D(4), output=D(10))
HIGHSPEED = TokenPrices(input=D(4), cache_read=D("0.20"), cache_write_5m=D(4), cache_write_1h=D(8), output=D(20))
KIMI_K3 = TokenPrices(input=D(3), cache_read=D("0.30"), output=D(15))
MUSE = TokenPrices(input=D("1.25"), cache_read=D("0.15"), output=D("4.25"))
CNY = TokenPrices(input=D(13), cache_read=D("1.3"), output=D(68))
TEAM = Workload(id="team", name="team", mix=TURN, requests_per_month=D(63_000), context=262_144)

VARIANTS = [  # token-rates.md 5.3: name, mix, prices, per turn, per month
    ("standard", TURN, KIMI, "0.12", "7560"),
    ("new tokens written for 5 minutes", TokenMix(cache_read=240_000, cache_write_5m=16_000, output=4_000), KIMI, "0.12", "7560"),
    ("new tokens written for 1 hour", TokenMix(cache_read=240_000, cache_write_1h=16_000, output=4_000), KIMI, "0.152", "9576"),
    ("batch at 60 %", TURN, KIMI.times(D("0.6")), "0.072", "4536"),
    ("highspeed", TURN, HIGHSPEED, "0.192", "12096"),
    ("kimi-k3", TURN, KIMI_K3, "0.18", "11340"),
    ("muse-spark-open", TURN, MUSE, "0.073", "4599"),
    ("nothing cached", TURN.uncached(), KIMI, "0.552", "34776"),
    ("in CNY", TURN, CNY, "0.792", "49896"),
]


@pytest.mark.parametrize(("name", "mix", "prices", "turn", "month"), VARIANTS, ids=[v[0] for v in VARIANTS])
def test_the_agent_turn_and_its_month(name: str, mix: TokenMix, prices: TokenPrices, turn: str, month: str) -> None:
    assert request_cost(mix, prices).amount == D(turn)
    assert monthly_bill(replace(TEAM, mix=mix), prices).cost.amount == D(month)


def test_cached_tokens_are_not_billed_twice() -> None:
    # Counting the 240K both as input and as cache read would be 0.600 a turn and 37,800 a month.
    cost = request_cost(TURN, KIMI)
    assert sum(line.tokens for line in cost.lines) == 260_000
    assert {line.kind: line.amount for line in cost.lines} == {"cache_read": D("0.048"), "input": D("0.032"), "output": D("0.040")}


def test_gemini_request_with_most_of_its_prompt_cached() -> None:
    # 262,960 prompt tokens of which 257,955 cached, 1,744 out, at 1.25 / 0.625 / 10: 0.184917..., not the double-billed 0.7642
    mix = TokenMix(input=262_960 - 257_955, cache_read=257_955, output=1_744)
    cost = request_cost(mix, TokenPrices(input=D("1.25"), cache_read=D("0.625"), output=D(10)))
    assert cost.amount == D("0.00625625") + D("0.161221875") + D("0.01744")
    assert cents(D("0.1849") * 100) == cents(cost.amount * 100)


# --- unknown prices ----------------------------------------------------------------------------------------------------


def test_an_unknown_cache_price_is_counted_at_input_and_flagged_as_an_upper_bound() -> None:
    cost = request_cost(TURN, replace(KIMI, cache_read=None))
    assert (cost.amount, cost.upper_bound, cost.missing) == (D("0.552"), True, ("cache_read",))


def test_a_provider_without_write_prices_bills_writes_as_input() -> None:
    mix = TokenMix(cache_read=240_000, cache_write_5m=16_000, output=4_000)
    cost = request_cost(mix, TokenPrices(input=D(2), cache_read=D("0.20"), output=D(10)))
    assert (cost.amount, cost.upper_bound, cost.missing) == (D("0.12"), False, ("cache_write_5m",))


def test_an_unknown_lifetime_beside_a_known_one_has_no_figure() -> None:
    mix = TokenMix(cache_write_1h=16_000, output=4_000)
    cost = request_cost(mix, TokenPrices(input=D(2), cache_write_5m=D("2.5"), output=D(10)))
    assert (cost.amount, cost.upper_bound, cost.missing) == (None, False, ("cache_write_1h",))


@pytest.mark.parametrize("kind", ["input", "output"])
def test_unknown_input_or_output_has_no_figure_and_is_never_zero(kind: str) -> None:
    cost = request_cost(TURN, replace(KIMI, **{kind: None}))
    assert cost.amount is None and cost.missing == (kind,)
    assert blend_per_mtok(TURN, replace(KIMI, **{kind: None})) is None
    bill = monthly_bill(TEAM, replace(KIMI, **{kind: None}))
    assert (bill.cost.amount, bill.per_request, bill.per_mtok, bill.saving) == (None, None, None, None)


def test_a_missing_price_that_is_not_needed_is_not_missed() -> None:
    cost = request_cost(TokenMix(input=1_000), TokenPrices(input=D(2)))
    assert (cost.amount, cost.missing) == (D("0.002"), ())


def test_a_stated_zero_is_zero_and_no_gap() -> None:
    cost = request_cost(TURN, replace(KIMI, cache_read=D(0)))
    assert (cost.amount, cost.upper_bound, cost.missing) == (D("0.072"), False, ())


def test_unknown_cache_with_unknown_input_has_no_figure() -> None:
    cost = request_cost(TokenMix(cache_read=5, output=5), TokenPrices(output=D(1)))
    assert (cost.amount, cost.upper_bound, cost.missing) == (None, False, ("cache_read",))


# --- blends ------------------------------------------------------------------------------------------------------------


def test_a_blend_names_its_mix() -> None:
    blend = blend_per_mtok(TURN, KIMI)
    assert blend is not None and round(blend, 4) == D("0.4615")
    assert blend_per_mtok(TokenMix(input=3, output=1), KIMI) == D(4)  # the 3:1 blend is 8.7 times as much
    assert blend_per_mtok(TokenMix(input=1_000_000), KIMI) == D(2)


# --- the month: caching, cold starts, batch ----------------------------------------------------------------------------


def test_what_caching_saves() -> None:
    bill = monthly_bill(TEAM, KIMI)
    assert bill.without_caching.amount == D(34_776)
    assert bill.saving == D(27_216)
    assert bill.per_request == D("0.12")
    assert bill.tokens == D(16_380_000_000)


def test_writes_can_cost_more_than_they_save() -> None:
    mix = TokenMix(cache_read=1_000, cache_write_1h=16_000, output=1_000)
    bill = monthly_bill(replace(TEAM, mix=mix, requests_per_month=D(1_000)), KIMI)
    # with: 0.0002 + 0.064 + 0.010 = 0.0742; without: 17,000 * 2 + 0.010 = 0.044
    assert bill.saving == D("-30.2")


def test_a_cold_start_pays_for_its_prefix() -> None:
    assert request_cost(TURN.cold(), KIMI).amount == D("0.552")  # 256K of new tokens
    bill = monthly_bill(replace(TEAM, cold_start_share=D("0.1")), KIMI)
    assert bill.cost.amount == D("10281.6")  # 63,000 * (0.9 * 0.12 + 0.1 * 0.552)
    assert bill.without_caching.amount == D(34_776)


def test_a_cold_start_writes_its_prefix_the_way_the_mix_writes() -> None:
    assert TokenMix(cache_read=10, cache_write_1h=1, output=1).cold() == TokenMix(cache_write_1h=11, output=1)
    assert TokenMix(cache_read=10, cache_write_5m=1, output=1).cold() == TokenMix(cache_write_5m=11, output=1)


def test_a_batch_share_and_cold_starts_multiply() -> None:
    mixed = replace(TEAM, batch_share=D("0.5"), cold_start_share=D("0.1"))
    bill = monthly_bill(mixed, KIMI, KIMI.times(D("0.6")))
    # 10,281.6 at the standard price; half of it at 60 %
    assert bill.cost.amount == D("8225.28")
    assert bill.without_caching.amount == D("27820.8")  # 34,776 * 0.8
    assert sum((line.tokens for line in bill.cost.lines), D(0)) == bill.tokens
    assert sum((line.amount or D(0) for line in bill.cost.lines), D(0)) == bill.cost.amount


def test_a_batch_share_without_a_batch_price_is_an_upper_bound() -> None:
    bill = monthly_bill(replace(TEAM, batch_share=D("0.5")), KIMI)
    assert (bill.cost.amount, bill.cost.upper_bound, bill.batch_priced) == (D(7_560), True, False)


# --- usage records -----------------------------------------------------------------------------------------------------


def test_a_usage_record_is_priced_kind_by_kind() -> None:
    cost = usage_cost({"input": 1_234_567, "cache_read": 9_876_543, "output": 345_678}, KIMI)
    # 2.469134 + 1.9753086 + 3.45678
    assert cost.amount == D("7.9012226")
    assert usage_cost({}, KIMI).amount == 0
    assert usage_cost({"output": 0}, TokenPrices()).amount == 0


def test_money_is_exact() -> None:
    cost = usage_cost({"input": 123_456_789_012}, TokenPrices(input=D("0.000280000001")))
    assert cost.amount == D("34.567901046816789012")  # 123,456.789012 Mtok x 0.000280000001


def test_rounding_is_for_readers_and_half_up() -> None:
    assert [cents(D(x)) for x in ("0.005", "0.0049", "2.675", "1000.995")] == [D("0.01"), D("0.00"), D("2.68"), D("1001.00")]


# --- mixes and workloads refuse nonsense -------------------------------------------------------------------------------


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 0"):
        TokenMix(input=-1, output=2)
    with pytest.raises(ValueError, match="without tokens"):
        TokenMix()
    for change, message in (
        ({"requests_per_month": D(0)}, "requests_per_month"),
        ({"utilization": D(0)}, "utilization"),
        ({"utilization": D("1.01")}, "utilization"),
        ({"batch_share": D(2)}, "batch_share"),
        ({"cold_start_share": D(-1)}, "cold_start_share"),
        ({"sessions": 0}, "sessions"),
        ({"context": 259_999}, "260000 tokens"),
        ({"hour_shares": (D(1),)}, "168"),
        ({"hour_shares": (D(0),) * 168}, "not all be 0"),
        ({"hour_shares": (D(-1),) + (D(1),) * 167}, "negative"),
    ):
        with pytest.raises(ValueError, match=message):
            replace(TEAM, **change)


def test_requests_of_a_team() -> None:
    assert requests_per_month(users=20, per_user_workday=D(150), workdays=21) == D(63_000)


def test_a_stated_capacity_is_found_by_its_setup() -> None:
    stated = StatedCapacity(model="m", gpu="g", gpu_count=8, requests_per_month=D(1_000))
    team = replace(TEAM, capacities=(stated,))
    assert team.stated_capacity(model="m", gpu="g", gpu_count=8, weight_format="fp8") == stated
    assert team.stated_capacity(model="m", gpu="g", gpu_count=4, weight_format="fp8") is None
    exact = replace(stated, weight_format="mxfp4")
    assert replace(TEAM, capacities=(exact,)).stated_capacity(model="m", gpu="g", gpu_count=8, weight_format="fp8") is None
