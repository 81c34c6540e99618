"""Marketplaces: verified and reliable hosts, one price for each GPU and count, and the statistics behind it."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from guarded import Watched, offer
from guarded import db as db
from sqlalchemy import Engine

from tracker.database.handle import reading
from tracker.database.rows import identity, scaled
from tracker.database.tables import RENT_SCALE
from tracker.guard.settings import MarketSettings
from tracker.guard.statistics import Ask, Statistic, make_market, nearest_rank, statistics_of

SETTINGS = MarketSettings()


def ask(price: str, host: str, **other: Any) -> Ask:
    """An ask of a verified, reliable host."""
    reliability = Decimal(other.pop("reliability", "0.99"))
    row = offer(price, sku=f"host {host}", provider="vast", price_kind="ask", availability=0, **({"trust": "verified"} | other))
    return Ask(row=row, host=host, reliability=reliability)


FIVE = [ask(price, host) for price, host in (("2.10", "a"), ("2.30", "b"), ("2.40", "b"), ("2.60", "c"), ("3.00", "d"))]


def money(price: str) -> int:
    return scaled(Decimal(price), RENT_SCALE)


def test_the_headline_is_the_price_of_the_second_cheapest_host() -> None:
    market = make_market(reversed(FIVE), "vast", SETTINGS)
    (made,) = market.offers
    assert (made.sku, made.region, made.gpu, made.gpu_count, made.trust) == (
        "1 x nvidia-h200-sxm-141",
        "",
        "nvidia-h200-sxm-141",
        1,
        "verified",
    )
    assert (made.price, made.price_kind, made.max_gpu_count) == (money("2.30"), "ask", None)
    assert market.statistics == {
        identity("vast", made): Statistic(least=money("2.10"), p10=money("2.10"), median=money("2.40"), asks=5, hosts=4)
    }


def test_a_host_that_undercuts_with_many_asks_is_one_host() -> None:
    cheap = [ask("0.30", "spam")] * 9
    assert [row.price for row in make_market([*cheap, *FIVE], "vast", SETTINGS).offers] == [money("2.10")]


def test_p10_can_be_the_headline() -> None:
    """Of twenty prices the second by nearest rank."""
    asks = [ask(f"{2 + n / 100:.2f}", f"h{n}") for n in range(20)]
    market = make_market(asks, "vast", MarketSettings(headline="p10"))
    assert [row.price for row in market.offers] == [money("2.01")]


@pytest.mark.parametrize(
    ("count", "percent", "place"), [(1, 10, 0), (5, 10, 0), (10, 10, 0), (11, 10, 1), (20, 10, 1), (5, 50, 2), (4, 50, 1)]
)
def test_nearest_rank(count: int, percent: int, place: int) -> None:
    assert nearest_rank(count, percent) == place


@pytest.mark.parametrize(
    ("asks", "reason"),
    [
        ([replace(a, row=replace(a.row, trust="unverified")) for a in FIVE], "unverified host"),
        ([replace(a, reliability=Decimal("0.94")) for a in FIVE], "host not reliable enough"),
        ([replace(a, reliability=None) for a in FIVE], "host not reliable enough"),
        ([replace(a, host="") for a in FIVE], "host unknown"),
        ([replace(a, row=replace(a.row, availability=2)) for a in FIVE], "rented out"),
        (FIVE[:4], "too few asks for a price"),
        ([ask("2", "a")] * 5, "too few asks for a price"),  # one host is no market
    ],
)
def test_what_does_not_count(asks: list[Ask], reason: str) -> None:
    market = make_market(asks, "vast", SETTINGS)
    assert (market.offers, market.left_out) == ([], {reason: len(asks)})


def test_counts_tiers_and_kinds_of_hosts_are_apart() -> None:
    eight = [ask(str(20 + n), f"h{n}", gpu_count=8) for n in range(5)]
    data_centre = [ask(str(3 + n), f"h{n}", trust="datacenter") for n in range(5)]
    bids = [ask(f"1.{n}", f"h{n}", tier="spot") for n in range(5)]
    made = make_market([*FIVE, *eight, *data_centre, *bids], "vast", SETTINGS).offers
    assert {(row.gpu_count, row.tier, row.trust, row.price) for row in made} == {
        (1, "on_demand", "verified", money("2.30")),
        (8, "on_demand", "verified", money("21")),
        (1, "on_demand", "datacenter", money("4")),
        (1, "spot", "verified", money("1.1")),
    }


def test_the_offer_outlives_every_ask_and_its_statistics_are_kept_when_they_change(db: Engine) -> None:
    watched = Watched(db)
    others = [ask(price, host) for price, host in (("2.20", "x"), ("2.35", "y"), ("2.50", "z"), ("2.60", "c"), ("3.00", "d"))]
    for minutes, asks in ((0, FIVE), (15, FIVE), (30, others)):
        market = make_market(asks, "vast", SETTINGS)
        watched.sweep(minutes, *market.offers, source="vast", statistics=market.statistics)
    assert watched.prices("vast") == {"1 x nvidia-h200-sxm-141": "2.35"}
    with reading(db) as connection:
        assert connection.exec_driver_sql("select count(*) from statistic").scalar() == 2
        (found,) = statistics_of(connection, [identity("vast", market.offers[0])]).values()
    assert (found.least, found.median, found.hosts) == (money("2.20"), money("2.50"), 5)


def test_a_headline_that_collapses_waits_like_any_price(db: Engine) -> None:
    watched = Watched(db)
    cheap = [replace(a, row=replace(a.row, price=a.row.price // 10)) for a in FIVE]
    for minutes, asks in ((0, FIVE), (15, cheap)):
        market = make_market(asks, "vast", SETTINGS)
        watched.sweep(minutes, *market.offers, source="vast", statistics=market.statistics)
    assert watched.prices("vast") == {"1 x nvidia-h200-sxm-141": "2.3"}
    with reading(db) as connection:
        assert connection.exec_driver_sql("select count(*) from statistic").scalar() == 1  # those of what is held back are not shown
