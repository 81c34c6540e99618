"""Break-even: the handed cases, the headline, edges of the staircase, and the verdict."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from engine.bills import monthly_bill
from engine.breakeven import BreakEven, break_even, workload_break_even
from engine.rates import TokenPrices
from engine.units import usd_per_month
from engine.verdicts import billions, verdict
from engine.workloads import TokenMix, Workload

D = Decimal
TURN = TokenMix(cache_read=240_000, input=16_000, output=4_000)
TEAM = Workload(id="team", name="team", mix=TURN, requests_per_month=D(63_000), context=262_144)
KIMI = TokenPrices(input=D(2), cache_read=D("0.20"), output=D(10))

# facts/breakeven_cases.json by hand: rent, blend, capacity, utilization, marginal -> status, V*, replicas, u*, V_s, $/Mtok at u.
CASES: list[tuple[Any, ...]] = [
    ("swfte_1node", 17_520, "2", None, "1", "0", "capacity_unknown", 8_760_000_000, 1, None, None, None),
    ("swfte_2node", 35_040, "2", None, "1", "0", "capacity_unknown", 17_520_000_000, 1, None, None, None),
    ("swfte_1node_feasible", 17_520, "2", 2 * 10**10, "0.5", "0", "feasible", 8_760_000_000, 1, "0.438", 70_080_000_000, "1.752"),
    (
        "swfte_1node_infeasible",
        17_520,
        "2",
        2 * 10**10,
        "0.4",
        "0",
        "never_at_this_utilization",
        8_760_000_000,
        None,
        "0.438",
        None,
        "2.19",
    ),
    ("api_free", 17_520, "0", 2 * 10**10, "1", "0", "never", None, None, None, None, "0.876"),
    ("api_cheaper_than_marginal", 17_520, "0.05", 2 * 10**10, "1", "0.06", "never", None, None, None, None, "0.936"),
    ("exact_boundary", 20_000, "2", 10**10, "1", "0", "feasible", 10_000_000_000, 1, "1", None, "2"),
]


def point(rent: Any, api: Any, capacity: Any = None, **terms: Any) -> BreakEven:
    known = {name: D(value) for name, value in terms.items()}
    return break_even(replica_usd_per_month=D(rent), api_usd_per_mtok=D(api), capacity_tokens_per_month=capacity, **known)


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_the_handed_cases(case: tuple[Any, ...]) -> None:
    _, rent, api, capacity, utilization, marginal, status, tokens, replicas, share, sustained, per_mtok = case
    found = point(rent, api, capacity, utilization=utilization, marginal_usd_per_mtok=marginal)
    assert (found.status, found.tokens, found.replicas) == (status, None if tokens is None else D(tokens), replicas)
    assert found.breakeven_utilization == (None if share is None else D(share))
    assert found.sustained_tokens == (None if sustained is None else D(sustained))
    assert found.usd_per_mtok_at_utilization == (None if per_mtok is None else D(per_mtok))


@pytest.mark.shared
def test_no_handed_case_is_left_out(shared: Path) -> None:
    rows = json.loads((shared / "facts" / "breakeven_cases.json").read_text(), parse_float=Decimal)
    by_name = {case[0]: case for case in CASES}
    for row in rows:
        if row["name"] == "kimi_8xb300_runpod":
            continue  # the headline below
        _, rent, api, capacity, utilization, marginal, status, tokens, *_ = by_name.pop(row["name"])
        assert D(row["replica_usd_per_month"]) == rent and D(row["api_blended_usd_per_mtok"]) == D(api)
        stated = row["capacity_tokens_per_month_at_full_utilization"]
        assert (None if stated is None else D(stated)) == capacity
        assert D(row["utilization"]) == D(utilization) and D(row["marginal_usd_per_mtok"]) == D(marginal)
        assert row["status"] == status and (None if row["breakeven_tokens"] is None else D(row["breakeven_tokens"])) == tokens
    assert by_name == {}


def test_the_headline() -> None:
    rent = usd_per_month(D("55.52"))
    assert rent == D("40529.60")
    bill = monthly_bill(TEAM, KIMI)
    assert bill.per_request == D("0.12") and bill.cost.amount == D(7_560)
    assert bill.per_mtok is not None and round(bill.per_mtok, 4) == D("0.4615")
    found = workload_break_even(TEAM, bill, replica_usd_per_month=rent)
    assert found is not None and found.tokens is not None and found.requests is not None
    assert found.status == "capacity_unknown"
    assert round(found.tokens, 2) == D("87814133333.33") and billions(found.tokens) == "87.8 billion"
    assert round(found.requests, 2) == D("337746.67") and round(found.requests) == 337_747
    decided = verdict(found, TEAM.tokens_per_month)
    assert (decided.answer, decided.api_usd_per_month, decided.self_host_usd_per_month) == ("api", D(7_560), D("40529.6"))
    assert decided.reason == (
        "the API bill is $7,560.00 a month against $40,529.60 for at least one replica; break-even is at 87.8 billion tokens a month"
    )


def test_nine_resident_sessions_never_reach_it_and_seventy_do() -> None:
    # sizing.md 2, our roofline: 301K turns a month -> u* 1.12, 828K -> 0.41
    bill, rent = monthly_bill(TEAM, KIMI), D("40529.60")
    few = workload_break_even(TEAM, bill, replica_usd_per_month=rent, capacity_requests_per_month=D(301_000))
    many = workload_break_even(TEAM, bill, replica_usd_per_month=rent, capacity_requests_per_month=D(828_000))
    assert few is not None and many is not None
    assert few.status == "never" and few.breakeven_utilization is not None and round(few.breakeven_utilization, 2) == D("1.12")
    assert many.status == "feasible" and many.breakeven_utilization is not None and round(many.breakeven_utilization, 2) == D("0.41")


# --- edges -------------------------------------------------------------------------------------------------------------


def test_the_volume_does_not_move_with_utilization_and_feasibility_does() -> None:
    points = [point(17_520, 2, 2 * 10**10, utilization=u) for u in ("1", "0.5", "0.438", "0.437999", "0.01")]
    assert {p.tokens for p in points} == {D(8_760_000_000)}
    assert [p.status for p in points] == ["feasible"] * 3 + ["never_at_this_utilization"] * 2
    assert {p.breakeven_utilization for p in points} == {D("0.438")}
    assert {p.usd_per_mtok_at_full_use for p in points} == {D("0.876")}


def test_full_use_that_is_not_enough_is_never() -> None:
    found = point(17_520, 2, 8 * 10**9, utilization="0.5")
    assert (found.status, found.tokens, found.breakeven_utilization) == ("never", D(8_760_000_000), D("1.095"))


def test_nothing_to_pay_is_always() -> None:
    found = point(0, 2, 10**9)
    assert (found.status, found.tokens, found.first_tokens) == ("always", D(0), D(0))
    assert point(0, 2).status == "always"


def test_equal_prices_without_rent_are_no_loss() -> None:
    assert point(0, 2, marginal_usd_per_mtok="2").status == "always"
    assert point(1, 2, marginal_usd_per_mtok="2").status == "never"


def test_overheads_may_need_several_replicas() -> None:
    # m k = 20,000 a replica, g = 20,000 - 15,000 = 5,000; f = 12,000 -> n = ceil(2.4) = 3, V1 = (3 * 15,000 + 12,000) / 2 per M
    found = point(15_000, 2, 10**10, fixed_usd_per_month="12000")
    assert (found.status, found.replicas, found.first_tokens) == ("feasible", 3, D(28_500_000_000))
    assert found.tokens == D(13_500_000_000)  # one replica would have to serve this, and holds 10 billion
    # n_s = ceil((12,000 + 20,000) / 5,000) = 7, V_s = (6 * 15,000 + 12,000) / 2 per M
    assert found.sustained_tokens == D(51_000_000_000)


def test_the_gain_of_a_replica_is_counted_at_the_utilization() -> None:
    # At full use g = 5,000 as above; at 0.7 a replica saves 14,000 and costs 15,000: no number of replicas ever pays.
    found = point(15_000, 2, 10**10, fixed_usd_per_month="12000", utilization="0.7")
    assert (found.status, found.replicas, found.first_tokens) == ("never_at_this_utilization", None, None)
    # At 0.8 it saves 16,000: g = 1,000, n = 12, V1 = (12 * 15,000 + 12,000) / 2 per M = 96 billion = 12 x 8 billion
    edge = point(15_000, 2, 10**10, fixed_usd_per_month="12000", utilization="0.8")
    assert (edge.status, edge.replicas, edge.first_tokens) == ("feasible", 12, D(96_000_000_000))


def test_billed_hours_are_not_utilization() -> None:
    # Half the hours rented: half the rent and half the capacity; V* halves, the break-even utilization stays.
    half = point(17_520, 2, 2 * 10**10, billed_fraction="0.5")
    assert (half.tokens, half.breakeven_utilization) == (D(4_380_000_000), D("0.438"))
    assert half.terms.rent == 8_760 and half.terms.capacity == 10**10
    busy_half = point(17_520, 2, 2 * 10**10, utilization="0.5")
    assert (busy_half.tokens, busy_half.breakeven_utilization) == (D(8_760_000_000), D("0.438"))


def test_a_fifth_of_the_use_costs_five_times_as_much() -> None:
    found = point(17_520, 2, 2 * 10**10, utilization="0.2")  # seed 000: 1 / 0.2
    assert found.usd_per_mtok_at_full_use is not None
    assert found.usd_per_mtok_at_utilization == 5 * found.usd_per_mtok_at_full_use


@pytest.mark.parametrize(
    "terms",
    [
        {"utilization": "0"},
        {"utilization": "1.1"},
        {"billed_fraction": "0"},
        {"billed_fraction": "2"},
        {"fixed_usd_per_month": "-1"},
        {"marginal_usd_per_mtok": "-1"},
    ],
)
def test_nonsense_is_refused(terms: dict[str, str]) -> None:
    with pytest.raises(ValueError):
        point(1, 1, 1, **terms)
    with pytest.raises(ValueError, match="capacity"):
        point(1, 1, 0)


def test_a_bill_without_a_figure_has_no_break_even() -> None:
    bill = monthly_bill(TEAM, TokenPrices(input=D(2), cache_read=D("0.2")))
    assert workload_break_even(TEAM, bill, replica_usd_per_month=D(1)) is None


def test_the_receipt_can_be_worked_by_hand() -> None:
    found = workload_break_even(TEAM, monthly_bill(TEAM, KIMI), replica_usd_per_month=D("40529.60"), capacity_requests_per_month=D(828_000))
    assert found is not None
    lines = {line.name: line for line in found.receipt}
    assert lines["rent of a replica (C)"].value == D("40529.6")
    assert lines["break-even volume (V*)"].formula == "(C + f) / (p - v) * 10**6"
    assert lines["capacity at full use (K)"].value == D(215_280_000_000)
    assert lines["break-even requests"].formula == "V* / 260000 tokens"


# --- the verdict -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokens", "answer", "replicas", "own"),
    [
        (5_000_000_000, "api", 1, 17_520),
        (8_760_000_000, "self_host", 1, 17_520),  # equal bills
        (10_000_000_000, "self_host", 1, 17_520),
        (10_000_000_001, "api", 2, 35_040),  # just past the step the API is cheaper again
        (17_520_000_000, "self_host", 2, 35_040),
        (70_080_000_000, "self_host", 8, 140_160),
        (70_000_000_001, "api", 8, 140_160),  # below the sustained point, past the step to 8
        (80_000_000_001, "self_host", 9, 157_680),
    ],
)
def test_the_verdict_follows_the_staircase(tokens: int, answer: str, replicas: int, own: int) -> None:
    decided = verdict(point(17_520, 2, 2 * 10**10, utilization="0.5"), tokens)
    assert (decided.answer, decided.replicas, decided.self_host_usd_per_month) == (answer, replicas, D(own))


def test_unknown_capacity_can_only_speak_for_the_api() -> None:
    assert verdict(point(17_520, 2), 8_000_000_000).answer == "api"
    above = verdict(point(17_520, 2), 9_000_000_000)
    assert above.answer == "unknown" and above.replicas is None
    assert above.reason.endswith("but what the setup can serve is unknown")


def test_a_free_api_wins_at_any_volume_and_says_why() -> None:
    decided = verdict(point(17_520, 0, 10**9), 10**12)
    assert decided.answer == "api" and "costs no more per token" in decided.reason


@pytest.mark.parametrize(
    ("tokens", "text"),
    [(87_814_133_333, "87.8 billion"), (460_800_000, "460.8 million"), (999, "999"), (1_200_000_000_000, "1,200.0 billion")],
)
def test_tokens_for_a_reader(tokens: int, text: str) -> None:
    assert billions(D(tokens)) == text
