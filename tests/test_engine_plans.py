"""Plans: the API, replicas, and replicas with API overflow against a brute force over hours; the envelope; spot; flips."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from engine.breakeven import break_even
from engine.envelope import Segment, envelope
from engine.flips import flips
from engine.plans import Demand, Rental, best_replicas, cheapest_plan, own_tokens, plan_usd, plans, replicas_for_all
from engine.verdicts import verdict

D = Decimal
NODE = Rental(name="8 x H100", usd_per_month=D(17_520), capacity_tokens_per_month=D(10**10))
SMALL = Rental(name="2 x H100", usd_per_month=D(5_000), capacity_tokens_per_month=D(2 * 10**9))
OFFICE = tuple(D(1) if 8 <= hour < 18 and day < 5 else D(0) for day in range(7) for hour in range(24))  # 50 of 168 hours


def demand(tokens: Any, api: Any = 2, **changes: Any) -> Demand:
    return Demand(tokens_per_month=D(tokens), api_usd_per_mtok=None if api is None else D(api), **changes)


# --- worked by hand ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokens", "kind", "replicas", "usd"),
    [
        (5_000_000_000, "api", 0, "10000"),
        (8_760_000_000, "api", 0, "17520"),  # as dear as one node: fewer replicas win the tie
        (9_000_000_000, "self_host", 1, "17520"),
        (10_000_000_000, "self_host", 1, "17520"),
        (12_000_000_000, "hybrid", 1, "21520"),  # one node and 2 billion tokens at the API
        (18_760_000_000, "hybrid", 1, "35040"),
        (19_000_000_000, "self_host", 2, "35040"),
    ],
)
def test_base_load_and_overflow(tokens: int, kind: str, replicas: int, usd: str) -> None:
    best = cheapest_plan(demand(tokens), [NODE])
    assert best is not None
    assert (best.kind, best.replicas, best.usd_per_month) == (kind, replicas, D(usd))
    assert best.own_tokens + best.api_tokens == tokens


def test_all_three_ways_are_told() -> None:
    found = plans(demand(12_000_000_000), [NODE])
    assert [(p.kind, p.replicas, p.usd_per_month) for p in found] == [
        ("hybrid", 1, D(21_520)),
        ("api", 0, D(24_000)),
        ("self_host", 2, D(35_040)),
    ]
    assert found[0].reason == "1 x 8 x H100 for 83.3% of the tokens, the API for the other 16.7%: $21,520.00 a month"
    assert found[1].reason == "everything at the API: $24,000.00 a month"
    assert found[2].reason == "2 x 8 x H100 for 100.0% of the tokens: $35,040.00 a month"


def test_setups_compete() -> None:
    best = cheapest_plan(demand(4_000_000_000, api=4), [NODE, SMALL])
    assert best is not None and (best.rental, best.replicas, best.usd_per_month) == (SMALL, 2, D(10_000))
    large = cheapest_plan(demand(10_000_000_000, api=4), [NODE, SMALL])
    assert large is not None and (large.rental, large.replicas) == (NODE, 1)


def test_office_hours_need_replicas_for_their_peak() -> None:
    # All work in 50 of 168 hours: a node serves 10^10 * 50 / 168 = 2.976 billion tokens of such a month.
    busy = demand(2_900_000_000, api=10, hour_shares=OFFICE)
    assert replicas_for_all(busy, NODE) == 1
    assert replicas_for_all(demand(3_000_000_000, hour_shares=OFFICE), NODE) == 2
    assert own_tokens(demand(3_000_000_000, hour_shares=OFFICE), NODE, 1) == Fraction(10**10 * 50, 168)
    best = cheapest_plan(demand(8_900_000_000, api=2, hour_shares=OFFICE), [NODE])
    assert best is not None and best.kind == "api"  # 17,800 at the API; each node would save less than 5,953
    even = cheapest_plan(demand(8_900_000_000, api=2), [NODE])
    assert even is not None and even.kind == "self_host"  # the same volume spread evenly pays for a node


def test_utilization_keeps_headroom_in_every_hour() -> None:
    half = demand(10_000_000_000, api=None, utilization=D("0.5"))
    best = cheapest_plan(half, [NODE])
    assert best is not None and best.replicas == 2


def test_fixed_overheads_are_paid_once_and_can_forbid_self_hosting() -> None:
    with_staff = demand(19_000_000_000, fixed_usd_per_month=D(5_000))
    best = cheapest_plan(with_staff, [NODE])
    assert best is not None and best.kind == "api" and best.usd_per_month == D(38_000)  # 35,040 + 5,000
    more = cheapest_plan(demand(100_000_000_000, fixed_usd_per_month=D(5_000)), [NODE])
    assert more is not None and (more.replicas, more.usd_per_month) == (10, D(180_200))


def test_without_an_api_only_self_hosting_is_left() -> None:
    found = plans(demand(12_000_000_000, api=None), [NODE])
    assert [(p.kind, p.replicas) for p in found] == [("self_host", 2)]
    assert cheapest_plan(demand(12_000_000_000, api=None), [NODE], max_replicas=1) is None
    assert cheapest_plan(demand(1, api=None), []) is None


def test_an_api_below_the_marginal_cost_is_never_left() -> None:
    dear = Rental(name="r", usd_per_month=D(1), capacity_tokens_per_month=D(10**12), marginal_usd_per_mtok=D(3))
    best = cheapest_plan(demand(10**11), [dear])
    assert best is not None and best.kind == "api"


def test_spot_states_its_loss_and_pays_for_it() -> None:
    spot = Rental(name="8 x H100", usd_per_month=D(10_000), capacity_tokens_per_month=D(10**10), tier="spot", interruption_loss=D("0.2"))
    best = cheapest_plan(demand(9_000_000_000), [NODE, spot])
    assert best is not None and best.usd_per_month == D(12_000)
    assert best.reason == "1 x 8 x H100 on spot, 20.0% lost, for 100.0% of the tokens: $12,000.00 a month"
    with pytest.raises(ValueError, match="state interruption_loss"):
        Rental(name="s", usd_per_month=D(1), capacity_tokens_per_month=D(1), tier="spot")


def test_equal_hours_are_told_once() -> None:
    assert demand(1, hour_shares=(D("2.0"),) * 100 + (D(2),) * 68).weights() == demand(1).weights() == ((Fraction(1, 168), 168),)


@pytest.mark.parametrize(
    "bad",
    [
        {"usd_per_month": D(-1)},
        {"capacity_tokens_per_month": D(0)},
        {"marginal_usd_per_mtok": D(-1)},
        {"interruption_loss": D(1)},
    ],
)
def test_nonsense_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Rental(**{"name": "r", "usd_per_month": D(1), "capacity_tokens_per_month": D(1), **bad})
    for wrong in ({"tokens_per_month": D(0)}, {"utilization": D(0)}, {"hour_shares": (D(1),)}, {"hour_shares": (D(0),) * 168}):
        with pytest.raises(ValueError):
            Demand(**{"tokens_per_month": D(1), "api_usd_per_mtok": D(1), **wrong})


def test_the_receipt_adds_up() -> None:
    best = cheapest_plan(demand(12_000_000_000), [NODE])
    assert best is not None
    lines = {line.name: line.value for line in best.receipt}
    assert lines["rent of a replica (C)"] == D(17_520) and lines["own tokens"] == D(10**10) and lines["API tokens"] == D(2 * 10**9)


# --- against brute force -----------------------------------------------------------------------------------------------

profiles = st.just(()) | st.just(OFFICE) | st.lists(st.integers(0, 3).map(D), min_size=168, max_size=168).filter(any).map(tuple)
rentals = st.builds(
    Rental,
    name=st.sampled_from(("a", "b", "c")),
    usd_per_month=st.integers(1, 60).map(D),
    capacity_tokens_per_month=st.integers(1, 40).map(lambda millions: D(millions * 10**6)),
    marginal_usd_per_mtok=st.sampled_from((D(0), D("0.5"))),
)
demands = st.builds(
    Demand,
    tokens_per_month=st.integers(1, 120).map(lambda millions: D(millions * 10**6)),
    api_usd_per_mtok=st.integers(0, 6).map(D),
    hour_shares=profiles,
    utilization=st.sampled_from((D(1), D("0.5"))),
    fixed_usd_per_month=st.sampled_from((D(0), D(15))),
)


def hour_by_hour(asked: Demand, rental: Rental, replicas: int) -> Fraction:
    """Cost of the month, hour of the week by hour of the week."""
    shares = asked.hour_shares or (D(1),) * 168
    most = Fraction(rental.capacity_tokens_per_month) * Fraction(asked.utilization) * replicas / 168
    usd = replicas * rental.rent + (Fraction(asked.fixed_usd_per_month) if replicas else 0)
    for share in set(shares):
        tokens = Fraction(share) / Fraction(sum(shares)) * Fraction(asked.tokens_per_month)
        own = min(tokens, most)
        here = own * Fraction(rental.marginal_usd_per_mtok) + (tokens - own) * Fraction(asked.api_usd_per_mtok or 0)
        usd += here / 10**6 * shares.count(share)
    return usd


@given(asked=demands, rental=rentals)
def test_the_best_plan_is_the_best_of_every_number_of_replicas(asked: Demand, rental: Rental) -> None:
    most = replicas_for_all(asked, rental)
    assume(most < 300)
    by_hand = min(hour_by_hour(asked, rental, replicas) for replicas in range(most + 1))
    best = cheapest_plan(asked, [rental])
    assert best is not None
    assert plan_usd(asked, best.rental, best.replicas) == by_hand
    assert Fraction(best.usd_per_month) == pytest.approx(by_hand)


@given(asked=demands, rental=rentals, replicas=st.integers(0, 9))
def test_a_plans_cost_is_the_sum_of_its_hours(asked: Demand, rental: Rental, replicas: int) -> None:
    assert plan_usd(asked, rental, replicas) == hour_by_hour(asked, rental, replicas)


@given(asked=demands, rental=rentals)
def test_more_volume_never_wants_fewer_replicas(asked: Demand, rental: Rental) -> None:
    volumes = [Fraction(asked.tokens_per_month) * n / 4 for n in range(1, 9)]
    wanted = [best_replicas(asked, rental, 500, volume, fixed=False) for volume in volumes]
    assert wanted == sorted(wanted)


# --- the envelope ------------------------------------------------------------------------------------------------------


def test_the_envelope_of_one_node() -> None:
    found = envelope(demand(1), [NODE], 20 * 10**9)
    assert [(s.kind, s.replicas, s.from_tokens, s.to_tokens, s.from_usd, s.to_usd) for s in found] == [
        ("api", 0, D(0), D(8_760_000_000), D(0), D(17_520)),
        ("self_host", 1, D(8_760_000_000), D(10_000_000_000), D(17_520), D(17_520)),
        ("hybrid", 1, D(10_000_000_000), D(18_760_000_000), D(17_520), D(35_040)),
        ("self_host", 2, D(18_760_000_000), D(20_000_000_000), D(35_040), D(35_040)),
    ]


def test_without_an_api_the_envelope_is_a_staircase() -> None:
    found = envelope(demand(1, api=None), [NODE], 25 * 10**9, max_replicas=2)
    assert [(s.replicas, s.from_tokens, s.to_tokens, s.to_usd) for s in found] == [
        (1, D(0), D(10**10), D(17_520)),
        (2, D(10**10), D(2 * 10**10), D(35_040)),
    ]


def cost_on(found: tuple[Segment, ...], tokens: Fraction) -> Fraction:
    held = next(s for s in found if Fraction(s.from_tokens) < tokens <= Fraction(s.to_tokens))
    share = (tokens - Fraction(held.from_tokens)) / (Fraction(held.to_tokens) - Fraction(held.from_tokens))
    return Fraction(held.from_usd) + share * (Fraction(held.to_usd) - Fraction(held.from_usd))


@given(asked=demands, known=st.lists(rentals, min_size=1, max_size=3), parts=st.integers(1, 40))
def test_the_envelope_is_the_cheapest_plan_at_every_volume(asked: Demand, known: list[Rental], parts: int) -> None:
    last = Fraction(asked.tokens_per_month)
    found = envelope(asked, known, asked.tokens_per_month, max_replicas=6)
    assert Fraction(found[0].from_tokens) == 0 and Fraction(found[-1].to_tokens) == last
    assert all(left.to_tokens == right.from_tokens for left, right in pairwise(found))
    tokens = last * parts / 41
    here = Demand(
        tokens_per_month=tokens,
        api_usd_per_mtok=asked.api_usd_per_mtok,
        hour_shares=asked.hour_shares,
        utilization=asked.utilization,
        fixed_usd_per_month=asked.fixed_usd_per_month,
    )
    best = min(hour_by_hour(here, rental, replicas) for rental in known for replicas in range(7))
    assert float(cost_on(found, tokens)) == pytest.approx(float(best), rel=1e-12)


# --- flips -------------------------------------------------------------------------------------------------------------


def test_what_must_move_for_the_verdict_to_flip() -> None:
    point = break_even(replica_usd_per_month=D(17_520), api_usd_per_mtok=D(2), capacity_tokens_per_month=2 * 10**10, utilization=D("0.4"))
    found = flips(point.terms, 6 * 10**9)  # API 12,000 against 17,520 for one node
    assert found.replicas == 1
    assert found.rent_usd_per_month == D(12_000)
    assert found.rent_factor is not None and round(found.rent_factor, 4) == D("0.6849")
    assert found.api_usd_per_mtok == D("2.92") and found.api_factor == D("1.46")
    assert found.utilization is None  # one node serves it all already; using it more saves nothing
    two = flips(point.terms, 9 * 10**9)  # 18,000 against two nodes at 0.4; at 0.45 one node serves it
    assert two.replicas == 2 and two.utilization == D("0.45")
    most = flips(point.terms, 15 * 10**9)  # 30,000 pays for one node, not for two: it would have to serve 15 of its 20 billion
    assert most.replicas == 2 and most.utilization == D("0.75")


def test_free_rent_that_would_not_do_is_no_flip() -> None:
    point = break_even(replica_usd_per_month=D(100), api_usd_per_mtok=D(1), capacity_tokens_per_month=10**9, fixed_usd_per_month=D(500))
    found = flips(point.terms, 10**8)
    assert (found.rent_usd_per_month, found.rent_factor) == (None, None)


money = st.integers(1, 500).map(D)
shares = st.sampled_from((D(1), D("0.3")))


@given(rent=money, api=st.integers(1, 9).map(D), tokens=st.integers(1, 10**9), capacity=st.integers(10**6, 10**9), share=shares)
def test_at_the_flip_both_sides_cost_the_same(rent: Decimal, api: Decimal, tokens: int, capacity: int, share: Decimal) -> None:
    def answer(**changes: Any) -> str:
        terms = {"replica_usd_per_month": rent, "api_usd_per_mtok": api, "utilization": share, **changes}
        return verdict(break_even(capacity_tokens_per_month=capacity, **terms), tokens).answer

    found = flips(
        break_even(replica_usd_per_month=rent, api_usd_per_mtok=api, capacity_tokens_per_month=capacity, utilization=share).terms, tokens
    )
    assert found.rent_usd_per_month is not None
    assert answer(replica_usd_per_month=found.rent_usd_per_month * D("0.999999")) == "self_host"
    assert answer(replica_usd_per_month=found.rent_usd_per_month * D("1.000001")) == "api"
    assert answer(api_usd_per_mtok=found.api_usd_per_mtok * D("1.000001")) == "self_host"
    assert answer(api_usd_per_mtok=found.api_usd_per_mtok * D("0.999999")) == "api"
    if found.utilization is None:
        assert answer(utilization=D(1)) == "api"
    else:
        assert answer(utilization=min(D(1), found.utilization * D("1.000001"))) == "self_host"
        assert answer(utilization=found.utilization * D("0.999999")) == "api"
