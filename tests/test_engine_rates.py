"""Which entry of a price list holds: tiers, hours, weekdays, validity; averages over time; the cheapest provider."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from engine.rate_choice import RatePolicy, cheapest_rate, eligible_rates
from engine.ratecards import RateCard, prices_at, prices_over, rate_cards, week_prices
from engine.rates import Conditions, TokenPrices, TokenRate
from engine.workloads import TokenMix, Workload

D = Decimal
SEEN = datetime(2026, 11, 20, tzinfo=UTC)
NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)  # a Wednesday
MIX = TokenMix(cache_read=240_000, input=16_000, output=4_000)
TEAM = Workload(id="team", name="team", mix=MIX, requests_per_month=D(63_000), context=262_144)


def prices(input: str | None = None, cache_read: str | None = None, output: str | None = None, **writes: str) -> TokenPrices:
    given = {"input": input, "cache_read": cache_read, "output": output, **writes}
    return TokenPrices(**{kind: None if v is None else D(v) for kind, v in given.items()})


def rate(usd: TokenPrices, **changes: Any) -> TokenRate:
    base: dict[str, Any] = {
        "provider": "moonshot",
        "source": "genai_prices",
        "model": "kimi-k3.1-pro",
        "source_model": "kimi-k3.1-pro",
        "currency": "USD",
        "seen_at": SEEN,
    }
    return TokenRate(native=changes.pop("native", usd), usd=usd, **{**base, **changes})


def card(*rates: TokenRate) -> RateCard:
    return RateCard(rates=rates)


# --- context tiers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "inclusive", "expected"),
    [
        (200_000, False, "2"),  # most providers: above the threshold
        (200_001, False, "4"),
        (199_999, True, "2"),  # xAI: from the threshold on
        (200_000, True, "4"),
    ],
)
def test_a_tier_begins_where_its_provider_says(prompt: int, inclusive: bool, expected: str) -> None:
    tier = Conditions(min_prompt_tokens=200_000, tier_inclusive=inclusive)
    listed = card(rate(prices("2", "0.2", "10")), rate(prices("4", "0.4", "15"), conditions=tier))
    found = prices_at(listed, prompt, NOW)
    assert found is not None and found.input == D(expected)


def test_the_highest_tier_reached_rates_the_whole_request_and_inherits_what_it_leaves_out() -> None:
    listed = card(
        rate(prices("4", None, "15"), conditions=Conditions(min_prompt_tokens=128_000)),
        rate(prices("6", None, "20"), conditions=Conditions(min_prompt_tokens=256_000)),
        rate(prices("2", "0.2", "10")),
    )
    assert prices_at(listed, 300_000, NOW) == prices("6", "0.2", "20")
    assert prices_at(listed, 200_000, NOW) == prices("4", "0.2", "15")
    assert prices_at(listed, 100_000, NOW) == prices("2", "0.2", "10")


# --- hours and weekdays ------------------------------------------------------------------------------------------------

# DeepSeek's list of 2026-09: peak Monday to Friday 01:00-04:00 and 06:00-10:00 UTC, 35 of 168 hours, at twice the price.
PEAK = Conditions(hours_utc="01:00-04:00,06:00-10:00", weekdays="12345")


@pytest.mark.parametrize(
    ("at", "peak"),
    [
        (datetime(2026, 11, 25, 0, 59, tzinfo=UTC), False),
        (datetime(2026, 11, 25, 1, 0, tzinfo=UTC), True),
        (datetime(2026, 11, 25, 3, 59, 59, tzinfo=UTC), True),
        (datetime(2026, 11, 25, 4, 0, tzinfo=UTC), False),
        (datetime(2026, 11, 25, 9, 30, tzinfo=UTC), True),
        (datetime(2026, 11, 28, 2, 0, tzinfo=UTC), False),  # Saturday: weekends are billed off-peak
        (datetime(2026, 11, 30, 2, 0, tzinfo=UTC), True),  # Monday
    ],
)
def test_weekday_peak_hours(at: datetime, peak: bool) -> None:
    listed = card(rate(prices("0.66", None, "1.98")), rate(prices("1.32", None, "3.96"), conditions=PEAK))
    assert prices_at(listed, 1_000, at) == (prices("1.32", None, "3.96") if peak else prices("0.66", None, "1.98"))


def test_hours_are_utc_wherever_the_clock_stands() -> None:
    plus8 = timedelta(hours=8)
    beijing = datetime(2026, 11, 25, 10, 0, tzinfo=datetime.strptime("+0800", "%z").tzinfo)  # 02:00 UTC
    assert beijing.utcoffset() == plus8
    assert PEAK.hold(1, beijing)


@pytest.mark.parametrize(
    ("at", "holds"),
    [
        (datetime(2026, 11, 27, 22, tzinfo=UTC), True),  # Friday evening
        (datetime(2026, 11, 28, 1, tzinfo=UTC), True),  # the rest of Friday's window on Saturday
        (datetime(2026, 11, 28, 2, tzinfo=UTC), False),
        (datetime(2026, 11, 27, 1, tzinfo=UTC), False),  # would belong to Thursday's window
    ],
)
def test_a_window_that_wraps_midnight_belongs_to_the_day_it_starts_on(at: datetime, holds: bool) -> None:
    assert Conditions(hours_utc="22:00-02:00", weekdays="5").hold(1, at) is holds


@pytest.mark.parametrize("text", ["6-10", "06:00", "06:60-07:00", "24:00-25:00", "06:00-10:00,", "aa:00-10:00", "24:00-01:00"])
def test_hours_nobody_can_read_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Conditions(hours_utc=text)


def test_weekdays_are_iso_digits() -> None:
    with pytest.raises(ValueError, match="ISO digits"):
        Conditions(weekdays="0")


def test_the_week_weighs_peak_hours_by_their_share() -> None:
    listed = card(rate(prices("0.66", None, "1.98")), rate(prices("1.32", None, "3.96"), conditions=PEAK))
    week = week_prices(listed, 1_000, NOW)
    assert week is not None and week.input is not None
    # (133 * 0.66 + 35 * 1.32) / 168 = 0.7975
    assert week.input == D("0.7975") and week.output == D("2.3925")


def test_hour_shares_weigh_the_hours_that_are_used() -> None:
    listed = card(rate(prices("0.66", None, "1.98")), rate(prices("1.32", None, "3.96"), conditions=PEAK))
    shares = [D(0)] * 168
    shares[1], shares[5] = D(3), D(1)  # Monday 01:00 (peak) three times as busy as 05:00 (off-peak)
    week = week_prices(listed, 1_000, NOW, hour_shares=shares)
    assert week is not None and week.input == D("1.155")  # (3 * 1.32 + 0.66) / 4


def test_a_half_hour_edge_splits_the_hour() -> None:
    listed = card(rate(prices("1", None, "1")), rate(prices("3", None, "1"), conditions=Conditions(hours_utc="00:30-01:00")))
    shares = [D(0)] * 168
    shares[0] = D(1)
    week = week_prices(listed, 1, NOW, hour_shares=shares)
    assert week is not None and week.input == D(2)


def test_a_list_that_covers_part_of_the_week_has_no_average() -> None:
    assert week_prices(card(rate(prices("1", None, "2"), conditions=PEAK)), 1, NOW) is None


# --- validity ----------------------------------------------------------------------------------------------------------


def test_a_later_entry_replaces_the_whole_earlier_one() -> None:
    change = datetime(2026, 11, 1, tzinfo=UTC)
    listed = card(
        rate(prices("3", "0.3", "15"), valid_to=change),
        rate(prices("2", None, "10"), valid_from=change),
    )
    before = prices_at(listed, 1, change - timedelta(seconds=1))
    assert before == prices("3", "0.3", "15")
    assert prices_at(listed, 1, change) == prices("2", None, "10")  # the old cache price is not inherited


def test_of_two_open_entries_the_one_that_started_last_holds() -> None:
    listed = card(rate(prices("9", None, "9")), rate(prices("2", None, "10"), valid_from=datetime(2026, 10, 23, tzinfo=UTC)))
    assert prices_at(listed, 1, NOW) == prices("2", None, "10")
    assert prices_at(listed, 1, datetime(2026, 10, 1, tzinfo=UTC)) == prices("9", None, "9")


def test_an_announced_price_does_not_hold_yet() -> None:
    listed = card(rate(prices("2", None, "10")), rate(prices("4", None, "20"), valid_from=NOW + timedelta(days=3)))
    assert prices_at(listed, 1, NOW) == prices("2", None, "10")
    assert week_prices(listed, 1, NOW) == prices("2", None, "10")


def test_a_day_with_a_change_costs_the_average_of_its_hours() -> None:
    start = datetime(2026, 8, 16, tzinfo=UTC)
    change = datetime(2026, 8, 16, 16, tzinfo=UTC)
    listed = card(rate(prices("1", None, "2"), valid_to=change), rate(prices("4", None, "8"), valid_from=change))
    assert prices_over(listed, 1, start, start + timedelta(days=1)) == prices("2", None, "4")  # 16 h at 1, 8 h at 4


def test_native_prices_stay_native() -> None:
    listed = card(rate(prices("2", "0.2", "10"), native=prices("13", "1.3", "68"), currency="CNY", fx_rate=D("6.5")))
    assert prices_at(listed, 1, NOW, money="native") == prices("13", "1.3", "68")


def test_a_price_list_is_one_list() -> None:
    with pytest.raises(ValueError, match="one price list"):
        card(rate(prices("1", None, "1")), rate(prices("1", None, "1"), provider="together"))
    assert len(rate_cards([rate(prices("1", None, "1")), rate(prices("1", None, "1"), provider="together")])) == 2


# --- the cheapest rate -------------------------------------------------------------------------------------------------

KIMI = [
    rate(prices("2", "0.2", "10", cache_write_5m="2", cache_write_1h="4")),
    rate(prices("2", "0.2", "10"), provider="together"),
    rate(prices("2.70", "0.27", "13.50"), provider="kyma"),
    rate(prices("2", "1.80", "10"), provider="empiriolabs"),
    rate(prices("1.2", "0.12", "6"), provider="together", sku="batch"),
    rate(prices("0", "0", "0"), provider="openrouter", sku="free"),
    rate(prices("1.5", "0.15", "7"), provider="fireworks", sku="spot"),
    rate(prices("0.44", "0.04", "1"), provider="aihubmix", sku="plan"),
    rate(prices("1", "0.1", "5"), provider="openai", sku="flex"),
]


def test_the_cheapest_is_the_cheapest_for_the_workload_and_ties_go_to_the_vendor() -> None:
    ranking = cheapest_rate(KIMI, "kimi-k3.1-pro", NOW, TEAM, RatePolicy(official_provider="moonshot"))
    assert [(c.rate.provider, c.usd_per_month) for c in ranking.ranked] == [
        ("moonshot", D(7_560)),
        ("together", D(7_560)),
        ("kyma", D("10206.00")),  # 1.35 times the standard rate
        ("empiriolabs", D(31_752)),  # a cached token at 1.80: 0.432 + 0.032 + 0.040 = 0.504 a request
    ]
    assert ranking.official is not None and ranking.official.rate.provider == "moonshot"
    # (0.504 - 0.12) / 260,000 * 10**6
    assert ranking.spread_usd_per_mtok is not None
    assert round(ranking.spread_usd_per_mtok, 6) == D("1.476923")


def test_without_a_vendor_ties_go_by_name() -> None:
    cheapest = cheapest_rate(KIMI[:2], "kimi-k3.1-pro", NOW, TEAM).cheapest
    assert cheapest is not None and cheapest.rate.provider == "moonshot"
    flipped = cheapest_rate(KIMI[:2][::-1], "kimi-k3.1-pro", NOW, TEAM).cheapest
    assert flipped is not None and flipped.rate.provider == "moonshot"


@pytest.mark.parametrize("sku", ["free", "plan", "flex", "spot", "batch", "contributor"])
def test_special_skus_are_ranked_only_when_asked(sku: str) -> None:
    offered = [*KIMI, rate(prices("0.1", "0.002", "0.2"), provider="meta", sku="contributor")]
    assert all(c.rate.sku == "standard" for c in cheapest_rate(offered, "kimi-k3.1-pro", NOW, TEAM).ranked)
    asked = cheapest_rate(offered, "kimi-k3.1-pro", NOW, TEAM, RatePolicy(skus=(sku,), rank_free=True))
    assert [c.rate.sku for c in asked.ranked] == [sku]


def test_a_price_of_zero_is_ranked_only_when_asked_and_missing_prices_never() -> None:
    offered = [
        rate(prices("0", "0", "0"), provider="nvidia"),
        rate(prices("2", "0.2", None), provider="nooutput"),
        rate(prices("3", "0.3", "15"), provider="novita"),
    ]
    ranking = cheapest_rate(offered, "kimi-k3.1-pro", NOW, TEAM)
    assert [c.rate.provider for c in ranking.ranked] == ["novita"]
    assert {u.rate.provider: u.reason for u in ranking.unranked} == {
        "nvidia": "stated free (input, cache_read, output): a price of 0 is ranked only when asked",
        "nooutput": "no price for output",
    }
    free = cheapest_rate(offered, "kimi-k3.1-pro", NOW, TEAM, RatePolicy(rank_free=True)).cheapest
    assert free is not None and free.rate.provider == "nvidia" and free.usd_per_month == 0


def test_a_cache_that_is_stated_free_is_ranked_only_when_asked() -> None:
    """A list printed 0 where the cache cost 0.028 (Portkey #842); 240,000 tokens a turn at 0 would win every ranking."""
    offered = [rate(prices("2", "0", "10"))]
    ranking = cheapest_rate(offered, "kimi-k3.1-pro", NOW, TEAM)
    assert ranking.ranked == ()
    assert [u.reason for u in ranking.unranked] == ["stated free (cache_read): a price of 0 is ranked only when asked"]
    asked = cheapest_rate(offered, "kimi-k3.1-pro", NOW, TEAM, RatePolicy(rank_free=True)).cheapest
    assert asked is not None and asked.usd_per_month == D(4_536)  # (0.032 + 0.040) * 63,000


def test_a_write_of_zero_that_nobody_bills_apart_hurts_only_who_writes() -> None:
    """litellm prints 0 for writing the cache of providers that bill it as input: 40 rows of its map of 2026-11."""
    listed = replace(rate(prices("2", "0.2", "10")), usd=replace(prices("2", "0.2", "10"), cache_write_5m=D(0)))
    assert cheapest_rate([listed], "kimi-k3.1-pro", NOW, TEAM).cheapest is not None
    writes = replace(TEAM, mix=TokenMix(cache_read=240_000, cache_write_5m=16_000, output=4_000))
    assert [u.reason for u in cheapest_rate([listed], "kimi-k3.1-pro", NOW, writes).unranked] == [
        "stated free (cache_write_5m): a price of 0 is ranked only when asked"
    ]


def test_an_upper_bound_loses_a_tie_against_an_exact_figure() -> None:
    plain = Workload(id="plain", name="plain", mix=TokenMix(cache_read=1_000, output=1_000), requests_per_month=D(1), context=2_000)
    offered = [rate(prices("2", None, "10"), provider="aaa"), rate(prices("2", "2", "10"), provider="zzz")]
    ranking = cheapest_rate(offered, "kimi-k3.1-pro", NOW, plain)
    assert [(c.rate.provider, c.bill.cost.upper_bound) for c in ranking.ranked] == [("zzz", False), ("aaa", True)]


def test_a_tier_decides_by_the_workloads_prompt() -> None:
    tier = Conditions(min_prompt_tokens=200_000)
    offered = [
        rate(prices("1", "0.1", "5")),
        rate(prices("4", "0.4", "20"), conditions=tier),
        rate(prices("2", "0.2", "10"), provider="flat"),
    ]
    ranking = cheapest_rate(offered, "kimi-k3.1-pro", NOW, TEAM)
    assert [(c.rate.provider, c.usd_per_month) for c in ranking.ranked] == [("flat", D(7_560)), ("moonshot", D(15_120))]


def test_one_source_speaks_for_a_provider() -> None:
    offered = [
        rate(prices("2", "0.2", "10"), source="genai_prices"),
        rate(prices("0.239", "0.02", "11.936"), source="openrouter"),
        rate(prices("3", "0.3", "15"), source="starter", provider="novita"),
    ]
    policy = RatePolicy(source_order=("override", "genai_prices", "openrouter"))
    cards = eligible_rates(offered, "kimi-k3.1-pro", NOW, policy)
    assert [(c.head.provider, c.head.source) for c in cards] == [("moonshot", "genai_prices"), ("novita", "starter")]


def test_providers_and_regions_can_be_asked_for_and_excluded() -> None:
    offered = [*KIMI[:2], rate(prices("2.2", "0.22", "11"), provider="fireworks", region="us")]

    def names(policy: RatePolicy) -> list[str]:
        return [c.head.provider for c in eligible_rates(offered, "kimi-k3.1-pro", NOW, policy)]

    assert names(RatePolicy()) == ["fireworks", "moonshot", "together"]
    assert names(RatePolicy(providers=frozenset({"together"}))) == ["together"]
    assert names(RatePolicy(excluded_providers=frozenset({"moonshot"}))) == ["fireworks", "together"]
    assert names(RatePolicy(regions=frozenset({"us"}))) == ["fireworks"]


def test_other_models_and_expired_entries_are_not_eligible() -> None:
    offered = [rate(prices("3", "0.3", "15"), model="kimi-k3"), rate(prices("1", "0.1", "5"), valid_to=NOW)]
    assert eligible_rates(offered, "kimi-k3.1-pro", NOW) == ()
    ranking = cheapest_rate(offered, "kimi-k3.1-pro", NOW, TEAM)
    assert ranking.cheapest is None and ranking.spread_usd_per_mtok is None


# --- batch -------------------------------------------------------------------------------------------------------------

ALL_BATCH = Workload(id="night", name="night", mix=MIX, requests_per_month=D(63_000), context=262_144, batch_share=D(1))


def test_a_batch_share_is_priced_by_the_providers_batch_list() -> None:
    cheapest = cheapest_rate(KIMI, "kimi-k3.1-pro", NOW, ALL_BATCH).cheapest
    assert cheapest is not None
    assert (cheapest.rate.provider, cheapest.usd_per_month) == ("together", D(4_536))
    assert cheapest.bill.batch_priced


def test_without_a_batch_price_the_share_is_counted_at_the_standard_price_and_flagged() -> None:
    cheapest = cheapest_rate(KIMI, "kimi-k3.1-pro", NOW, ALL_BATCH, RatePolicy(providers=frozenset({"moonshot"}))).cheapest
    assert cheapest is not None and cheapest.usd_per_month == D(7_560)
    assert cheapest.bill.cost.upper_bound and not cheapest.bill.batch_priced
