"""Offers: counts they are sold at, what the default policy takes, and the cheapest machine for every count."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from engine.ladders import ladder, market
from engine.offers import GpuOffer, OfferPolicy

D = Decimal
NOW = datetime(2026, 11, 25, tzinfo=UTC)


def offer(usd: str, count: int = 8, **changes: Any) -> GpuOffer:
    base: dict[str, Any] = {
        "provider": "runpod",
        "source": "runpod",
        "sku": f"h100-x{count}",
        "region": "us",
        "gpu": "nvidia-h100-sxm-80",
        "tier": "on_demand",
        "currency": "USD",
        "valid_from": NOW - timedelta(days=30),
        "seen_at": NOW,
    }
    return GpuOffer(gpu_count=count, native_per_hour=D(usd), usd_per_hour=D(usd), **{**base, **changes})


@pytest.mark.parametrize(
    ("count", "most", "asked", "sold", "usd"),
    [
        (8, None, 5, 8, "16"),  # a whole node: 5 GPUs mean renting 8
        (8, None, 8, 8, "16"),
        (8, None, 9, None, None),
        (1, 8, 5, 5, "80"),  # sold in any count up to 8 at 16 a GPU
        (1, 8, 8, 8, "128"),
        (1, 8, 9, None, None),
        (2, 6, 1, 2, "16"),
        (2, 6, 3, 3, "24"),
    ],
)
def test_sellable_counts(count: int, most: int | None, asked: int, sold: int | None, usd: str | None) -> None:
    sold_as = offer("16", count, max_gpu_count=most)
    assert sold_as.sold_count(asked) == sold
    if sold is not None and usd is not None:
        assert sold_as.usd_per_hour_for(sold) == D(usd)


def test_a_rent_of_nothing_is_refused() -> None:
    for bad in ("0", "-1", "NaN", "Infinity"):
        with pytest.raises(ValueError):
            offer(bad)


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({}, ""),
        ({"trust": "verified", "availability": "available", "price_kind": "ask"}, ""),
        ({"availability": "listed"}, ""),
        ({"tier": "spot"}, "tier spot is not asked for"),
        ({"tier": "reserved", "term_months": 12}, "tier reserved is not asked for"),
        ({"trust": "community"}, "trust community is not asked for"),
        ({"trust": "unverified"}, "trust unverified is not asked for"),
        ({"availability": "unavailable"}, "availability is unavailable"),
        ({"price_kind": "starting_at"}, "price is starting at"),
        ({"price_kind": "indicative"}, "price is indicative"),
    ],
)
def test_the_default_policy(change: dict[str, Any], refusal: str) -> None:
    assert OfferPolicy().refusal(offer("16", **change)) == refusal


@pytest.mark.parametrize(
    ("policy", "refusal"),
    [
        (OfferPolicy(providers=frozenset({"vast"})), "provider runpod is not asked for"),
        (OfferPolicy(excluded_providers=frozenset({"runpod"})), "provider runpod is not asked for"),
        (OfferPolicy(regions=frozenset({"eu"})), "region us is not asked for"),
        (OfferPolicy(interconnects=frozenset({"nvlink"})), "interconnect unknown is not asked for"),
        (OfferPolicy(seen_since=NOW + timedelta(seconds=1)), "price is stale"),
        (OfferPolicy(seen_since=NOW), ""),
        (OfferPolicy(at=NOW - timedelta(days=31)), "price is announced for later"),
        (OfferPolicy(at=NOW - timedelta(days=30)), ""),
    ],
)
def test_asking_for_less(policy: OfferPolicy, refusal: str) -> None:
    assert policy.refusal(offer("16")) == refusal


def test_terms_longer_than_asked_for() -> None:
    year = offer("8", tier="reserved", term_months=12)
    assert OfferPolicy(tiers=("reserved",), max_term_months=6).refusal(year) == "term of 12 months is too long"
    assert OfferPolicy(tiers=("reserved",), max_term_months=12).refusal(year) == ""


def test_the_ladder_holds_the_cheapest_machine_for_every_count() -> None:
    found = ladder(
        [
            offer("3", 1, sku="one"),
            offer("10", 4, sku="four"),
            offer("24", 8, sku="eight"),
            offer("2.60", 1, sku="any", max_gpu_count=6),
        ]
    )
    assert {gpus: (r.offer.sku, r.gpu_count, r.usd_per_hour) for gpus, r in found.machines.items()} == {
        1: ("any", 1, D("2.60")),
        2: ("any", 2, D("5.20")),
        3: ("any", 3, D("7.80")),
        4: ("four", 4, D("10")),
        5: ("any", 5, D("13.00")),
        6: ("any", 6, D("15.60")),
        7: ("eight", 8, D("24")),
        8: ("eight", 8, D("24")),
    }
    assert found.unit is not None and (found.unit.offer.sku, found.unit.usd_per_hour) == ("four", D("2.5"))
    assert found.largest == 8


def test_ties_go_to_fewer_gpus_then_names_whatever_the_order() -> None:
    tied = [
        offer("16", 8, provider="b"),
        offer("16", 4, provider="z"),
        offer("16", 8, provider="a", sku="y"),
        offer("16", 8, provider="a", sku="x"),
    ]
    for order in (tied, tied[::-1]):
        machines = ladder(order).machines
        assert (machines[4].offer.provider, machines[4].gpu_count) == ("z", 4)
        assert (machines[8].offer.provider, machines[8].offer.sku) == ("a", "x")


def test_prices_that_buy_nothing_count_for_the_unit_price_alone() -> None:
    found = ladder([offer("1", 1, price_kind="indicative", provider="akash"), offer("24", 8)])
    assert found.unit is not None and found.unit.offer.provider == "akash"
    assert {r.offer.provider for r in found.machines.values()} == {"runpod"}


def test_a_market_keeps_what_was_refused_with_its_reason() -> None:
    split = market([offer("16"), offer("9", trust="community"), offer("8", tier="spot", gpu="amd-mi300x-192")], OfferPolicy())
    assert list(split.eligible) == ["nvidia-h100-sxm-80"]
    assert split.refused["nvidia-h100-sxm-80"]["trust community is not asked for"].machines[8].usd_per_hour == 9
    assert list(split.refused["amd-mi300x-192"]) == ["tier spot is not asked for"]
    assert split.of("nothing").unit is None


def test_a_machine_of_any_size_has_an_end() -> None:
    assert ladder([offer("1", 1, max_gpu_count=10**9)]).largest == 576


def test_the_whole_offer_divides_by_its_gpus() -> None:
    assert offer("55.52").usd_per_gpu_hour == D("6.94")
    assert replace(offer("55.52"), max_gpu_count=16).usd_per_hour_for(16) == D("111.04")
