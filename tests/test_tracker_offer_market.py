"""The market of a book's rows against the market of all its offers, which looks at each."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal

import pytest
from books import B300, listed
from small_world import T0

from engine.ladders import Market, market
from engine.offers import AVAILABILITIES, PRICE_KINDS, TIERS, TRUSTS, GpuOffer, OfferPolicy
from tracker.book.entries import Entries, Listed, Reading
from tracker.book.entry_values import listed_offer, offers_of
from tracker.book.exchange import Exchange
from tracker.book.offer_market import market_of
from tracker.database.rows import to_s

POLICIES = (
    OfferPolicy(),
    OfferPolicy(tiers=("on_demand", "spot"), trusts=TRUSTS, price_kinds=PRICE_KINDS),
    OfferPolicy(providers=frozenset({"a", "c"}), regions=frozenset({"", "eu"})),
    OfferPolicy(tiers=TIERS, max_term_months=1, interconnects=frozenset({"nvlink"}), excluded_providers=frozenset({"b"})),
    OfferPolicy(seen_since=T0 - timedelta(minutes=30)),
)


def rows(dice: random.Random, number: int) -> Entries[GpuOffer]:
    """Rows as a database tells them, of few prices, names and forms, so that many are equal in some or all of them."""
    exchange = Exchange(days={"USD": (date(2026, 11, 2),)}, rates={"USD": (Decimal("1.17"),)})
    reading = Reading(
        at=T0, until=T0, exchange=exchange, sources={}, covered={}, unseen={}, starts={}, build=listed_offer
    )  # fmt: skip
    return Entries([row(dice, id_) for id_ in range(1, number + 1)], reading)


def row(dice: random.Random, id_: int) -> tuple[object, ...]:
    count = dice.choice((1, 1, 2, 4, 8))
    prices = (dice.randrange(1, 12) * count * 100_000_000, dice.randrange(len(AVAILABILITIES)), dice.choice((None, count, 8)))
    return (
        id_, dice.choice("st"), "o", to_s(T0) - dice.randrange(3_600), dice.choice("abc"), dice.choice("xyz"),
        dice.choice(("", "eu", "us")), dice.choice(("gpu-1", "gpu-2", "gpu-3")), count, dice.choice(TIERS), dice.choice((0, 0, 1, 12)),
        dice.choice(TRUSTS), dice.choice(("USD", "USD", "EUR")), None, False, dice.choice(PRICE_KINDS), dice.choice(("nvlink", "unknown")),
        "", *prices,
    )  # fmt: skip


def same(one: Market, other: Market) -> bool:
    refused = {gpu: dict(one.refused[gpu]) for gpu in one.refused}
    return dict(one.eligible) == dict(other.eligible) and refused == {gpu: dict(other.refused[gpu]) for gpu in other.refused}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("number", [0, 1, 40, 400])
def test_the_market_of_rows_is_that_of_their_offers(policy: OfferPolicy, number: int) -> None:
    for seed in range(12):
        entries = rows(random.Random(f"{seed} {number}"), number)
        assert same(market_of(entries, policy), market([entry.value for entry in entries], policy))


@pytest.mark.parametrize("policy", POLICIES)
def test_offers_that_are_no_rows_take_part(policy: OfferPolicy) -> None:
    """A stated rent may have a price that is no whole number of what the database keeps."""
    given: list[Listed[GpuOffer]] = [
        listed(replace(B300, gpu="gpu-1", gpu_count=1, provider=provider, usd_per_hour=usd, native_per_hour=usd))
        for provider, usd in (("a", Decimal(1) / 7), ("b", Decimal("0.1")), ("c", Decimal(1) / 3))
    ]
    for seed in range(12):
        entries = offers_of(given, rows(random.Random(seed), 60))
        assert same(market_of(entries, policy), market([entry.value for entry in entries], policy))


def test_a_market_that_differs_is_told_apart() -> None:
    entries = rows(random.Random(1), 40)
    assert not same(market_of(entries, OfferPolicy()), market([entry.value for entry in entries[1:]], POLICIES[1]))
