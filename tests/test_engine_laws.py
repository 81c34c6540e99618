"""Laws of the money arithmetic: what moves with what, and the closed forms against counting it out."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.bills import monthly_bill, request_cost, usage_cost
from engine.breakeven import BreakEven, break_even
from engine.ratecards import RateCard, prices_at, prices_over, week_prices
from engine.rates import TOKEN_KINDS, Conditions, TokenKind, TokenPrices, TokenRate
from engine.terms import Terms
from engine.verdicts import verdict
from engine.workloads import TokenMix, Workload

D = Decimal
MONDAY = datetime(2026, 11, 23, tzinfo=UTC)
STATUS_ORDER = ["always", "feasible", "never_at_this_utilization", "never"]

usd = st.integers(0, 40).map(D)
price = st.integers(0, 8).map(D)
share = st.sampled_from([D(n) / 20 for n in range(1, 21)])
million_tokens = st.integers(1, 60).map(lambda millions: D(millions * 10**6))
tokens = st.integers(0, 1_000_000)
mixes = st.builds(TokenMix, input=tokens, cache_read=tokens, cache_write_5m=tokens, cache_write_1h=tokens, output=st.integers(1, 100_000))
known_price = st.integers(0, 50_000).map(lambda n: D(n) / 1_000)
price_lists = st.builds(TokenPrices, **dict.fromkeys(TOKEN_KINDS, known_price))


@st.composite
def points(draw: st.DrawFn) -> BreakEven:
    return break_even(
        replica_usd_per_month=draw(usd),
        api_usd_per_mtok=draw(price),
        capacity_tokens_per_month=draw(million_tokens),
        utilization=draw(share),
        fixed_usd_per_month=draw(usd),
        marginal_usd_per_mtok=draw(price),
        billed_fraction=draw(share),
    )


def again(point: BreakEven, **changes: Fraction) -> BreakEven:
    """The same break-even with some terms changed."""
    terms = replace(point.terms, **changes)
    assert terms.full is not None
    return break_even(
        replica_usd_per_month=_decimal(terms.rent),
        api_usd_per_mtok=terms.api,
        capacity_tokens_per_month=terms.full,
        utilization=_decimal(terms.utilization),
        fixed_usd_per_month=_decimal(terms.fixed),
        marginal_usd_per_mtok=_decimal(terms.marginal),
    )


def _decimal(value: Fraction) -> Decimal:
    return D(value.numerator) / D(value.denominator)


def volume(point: BreakEven) -> Fraction:
    """V*, infinite (here: very large) where there is none."""
    return Fraction(10**30) if point.terms.volume is None else point.terms.volume


# --- break-even --------------------------------------------------------------------------------------------------------


@given(point=points(), step=st.integers(1, 10))
def test_dearer_rent_never_lowers_the_break_even_and_a_dearer_api_never_raises_it(point: BreakEven, step: int) -> None:
    assert volume(again(point, rent=point.terms.rent + step)) >= volume(point)
    assert volume(again(point, fixed=point.terms.fixed + step)) >= volume(point)
    assert volume(again(point, marginal=point.terms.marginal + step)) >= volume(point)
    assert volume(again(point, api=point.terms.api + step)) <= volume(point)


@given(point=points(), step=st.integers(1, 10))
def test_no_price_rise_of_the_api_makes_self_hosting_less_feasible(point: BreakEven, step: int) -> None:
    dearer = again(point, api=point.terms.api + step)
    assert STATUS_ORDER.index(dearer.status) <= STATUS_ORDER.index(point.status)
    cheaper_rent = again(point, rent=point.terms.rent / 2)
    assert STATUS_ORDER.index(cheaper_rent.status) <= STATUS_ORDER.index(point.status)


@given(point=points(), other=share)
def test_the_volume_does_not_move_with_utilization(point: BreakEven, other: Decimal) -> None:
    moved = again(point, utilization=Fraction(other))
    assert moved.tokens == again(point).tokens
    assert moved.breakeven_utilization == again(point).breakeven_utilization
    assert moved.usd_per_mtok_at_full_use == again(point).usd_per_mtok_at_full_use


@given(point=points())
def test_one_replica_reaches_it_exactly_where_the_utilization_is_high_enough(point: BreakEven) -> None:
    needed, used = point.breakeven_utilization, point.terms.utilization
    one = point.status in ("feasible", "always") and point.replicas in (None, 1)
    assert one == (point.terms.volume is not None and needed is not None and Fraction(needed) <= used)


def wins(terms: Terms, tokens_here: Fraction) -> bool:
    return terms.self_host_usd(tokens_here) <= terms.api_usd(tokens_here)


@given(point=points())
def test_the_closed_form_equals_counting_replicas_out(point: BreakEven) -> None:
    terms = point.terms
    capacity = terms.capacity
    assert capacity is not None
    if point.status == "always":
        assert wins(terms, Fraction(1))
        return
    first, last = _counted(terms, capacity, most=400)
    if point.status == "feasible":
        assert point.first_tokens is not None and point.replicas is not None
        if point.replicas < 400:
            assert first is not None and (first[0], _decimal(first[1])) == (point.replicas, point.first_tokens)
        if point.sustained_tokens is not None and Fraction(point.sustained_tokens) < 399 * capacity:
            assert last is not None and abs(Fraction(point.sustained_tokens) - last) <= Fraction(1, 10**6)
    else:
        assert first is None


def _counted(terms: Terms, capacity: Fraction, most: int) -> tuple[tuple[int, Fraction] | None, Fraction | None]:
    """First winning (replicas, tokens) and the end of the last losing stretch, by going through the steps of the staircase."""
    first: tuple[int, Fraction] | None = None
    last: Fraction | None = None
    if terms.margin <= 0:
        return None, None
    for replicas in range(1, most + 1):
        low, high = (replicas - 1) * capacity, replicas * capacity
        level = (replicas * terms.rent + terms.fixed) / terms.margin * 10**6  # the API costs as much from here on
        if level <= high and first is None:
            first = (replicas, level)
        if level > low:  # it loses at the beginning of this step
            last = min(level, high) if level <= high else None
    return first, last if last is not None else (first[1] if first else None)


@given(point=points(), millions=st.integers(1, 5_000))
def test_past_the_sustained_point_renting_always_wins_and_before_the_first_never(point: BreakEven, millions: int) -> None:
    here = Fraction(millions * 10**6)
    if point.sustained_tokens is not None and here >= Fraction(point.sustained_tokens):
        assert wins(point.terms, here)
    if point.status == "feasible" and point.first_tokens is not None and here < Fraction(point.first_tokens):
        assert not wins(point.terms, here)
    if point.status.startswith("never"):
        assert not wins(point.terms, here)


@given(point=points(), millions=st.integers(1, 5_000))
def test_the_verdict_is_the_cheaper_bill(point: BreakEven, millions: int) -> None:
    decided = verdict(point, millions * 10**6)
    assert decided.answer == ("self_host" if decided.self_host_usd_per_month <= decided.api_usd_per_month else "api")


# --- bills -------------------------------------------------------------------------------------------------------------


@given(mix=mixes, prices=price_lists, kind=st.sampled_from(TOKEN_KINDS), more=known_price)
def test_a_dearer_kind_never_makes_a_request_cheaper(mix: TokenMix, prices: TokenPrices, kind: TokenKind, more: Decimal) -> None:
    before, after = request_cost(mix, prices).amount, request_cost(mix, replace(prices, **{kind: (prices.of(kind) or D(0)) + more})).amount
    assert before is not None and after is not None and after == before + dict(mix.by_kind())[kind] * more / 10**6


@given(mix=mixes, prices=price_lists)
def test_the_lines_of_a_bill_add_up(mix: TokenMix, prices: TokenPrices) -> None:
    cost = request_cost(mix, prices)
    assert sum(line.tokens for line in cost.lines) == mix.total
    assert sum((line.amount or D(0) for line in cost.lines), D(0)) == cost.amount


@given(mix=mixes, prices=price_lists, gap=st.sampled_from(("cache_read",)))
def test_a_bill_with_an_unknown_cache_price_is_no_lower_than_with_any_cache_price_up_to_input(
    mix: TokenMix, prices: TokenPrices, gap: TokenKind
) -> None:
    bound = request_cost(mix, replace(prices, cache_read=None))
    real = request_cost(mix, replace(prices, cache_read=min(prices.of(gap) or D(0), prices.input or D(0))))
    assert bound.amount is not None and real.amount is not None and bound.amount >= real.amount
    assert bound.upper_bound == (mix.cache_read > 0)


@given(one=mixes, two=mixes, prices=price_lists)
def test_usage_adds_up_over_records(one: TokenMix, two: TokenMix, prices: TokenPrices) -> None:
    both = {kind: dict(one.by_kind())[kind] + dict(two.by_kind())[kind] for kind in TOKEN_KINDS}
    parts = request_cost(one, prices).plus(request_cost(two, prices))
    assert usage_cost(both, prices).amount == parts.amount


@given(mix=mixes, prices=price_lists, cold=st.sampled_from((D(0), D("0.25"), D(1))), batch=st.sampled_from((D(0), D("0.5"), D(1))))
def test_a_month_is_its_requests(mix: TokenMix, prices: TokenPrices, cold: Decimal, batch: Decimal) -> None:
    work = Workload(
        id="w", name="w", mix=mix, requests_per_month=D(1_000), context=mix.total, cold_start_share=cold, batch_share=batch
    )  # fmt: skip
    bill = monthly_bill(work, prices, prices.times(D("0.5")))
    warm, first = request_cost(mix, prices).amount, request_cost(mix.cold(), prices).amount
    assert warm is not None and first is not None
    assert bill.cost.amount == 1_000 * ((1 - cold) * warm + cold * first) * (1 - batch / 2)


# --- rates over time ---------------------------------------------------------------------------------------------------

QUARTER = 15  # minutes: the edges that are drawn
clock = st.integers(0, 96).map(lambda quarter: f"{quarter // 4:02}:{quarter % 4 * QUARTER:02}")
spans = st.tuples(clock.filter(lambda text: text != "24:00"), clock).map("-".join)
weekday_sets = st.sampled_from(("", "12345", "67", "1", "135"))
conditions = st.builds(Conditions, hours_utc=spans | st.just(""), weekdays=weekday_sets)


def listed(level: int, condition: Conditions) -> TokenRate:
    prices = TokenPrices(input=D(level), output=D(2 * level))
    return TokenRate(
        provider="p",
        source="s",
        model="m",
        source_model="m",
        currency="USD",
        native=prices,
        usd=prices,
        conditions=condition,
        seen_at=MONDAY,
    )


@given(first=conditions, second=conditions)
def test_the_week_is_the_average_of_its_quarter_hours(first: Conditions, second: Conditions) -> None:
    card = RateCard(rates=(listed(1, Conditions()), listed(3, first), listed(7, second)))
    assert_average_of(card, QUARTER)


@pytest.mark.parametrize("hours", ["05:07-13:59", "22:41-06:03", "06:00-09:59, 10:01-10:02"])
def test_the_week_is_the_average_of_its_minutes(hours: str) -> None:
    assert_average_of(RateCard(rates=(listed(1, Conditions()), listed(3, Conditions(hours_utc=hours, weekdays="135")))), 1)


def assert_average_of(card: RateCard, minutes: int) -> None:
    steps = range(0, 7 * 1_440, minutes)
    week = week_prices(card, 1, MONDAY)
    assert week is not None and week.input is not None
    assert abs(week.input - sum(_input(card, minute) for minute in steps) / len(steps)) < D("1e-20")


def _input(card: RateCard, minute: int) -> Decimal:
    at = MONDAY.replace(day=23 + minute // 1_440, hour=minute % 1_440 // 60, minute=minute % 60)
    found = prices_at(card, 1, at)
    assert found is not None and found.input is not None
    return found.input


@given(condition=conditions, hours=st.integers(1, 100))
def test_an_average_over_parts_is_the_average_over_the_whole(condition: Conditions, hours: int) -> None:
    card = RateCard(rates=(listed(1, Conditions()), listed(5, condition)))
    middle, end = MONDAY + timedelta(hours=hours), MONDAY + timedelta(hours=168)
    parts = [prices_over(card, 1, MONDAY, middle), prices_over(card, 1, middle, end), prices_over(card, 1, MONDAY, end)]
    one, two, whole = (found.input for found in parts if found is not None and found.input is not None)
    assert abs(one * hours + two * (168 - hours) - whole * 168) < D("1e-20")
