"""A first sweep: nothing of the source is known yet, so the imported book, other sources and the other rows have to tell."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from guarded import T0, Watched, key_of, offer, rate
from guarded import db as db
from guarded import watched as watched
from sqlalchemy import Engine

from tracker.book.bookstore import Dated, import_dated
from tracker.database.rows import OfferRow, to_s
from tracker.guard.doubts import SweepRefused

NODE: dict[str, Any] = dict(provider="azure", gpu_count=8, region="eastus", gpu="nvidia-h100-sxm-80", sku="ND96isr")


def book(db: Engine, *rows: OfferRow, days: int = 30) -> None:
    """Import rows as they were seen so many days ago."""
    seen = to_s(T0 - timedelta(days=days))
    import_dated(db, [Dated(row, "list", seen, seen, None) for row in rows], T0)


def live(watched: Watched, source: str = "azure") -> list[tuple[str, str]]:
    return [(e.value.tier, f"{e.value.native_per_hour:f}") for e in watched.book().offers if e.value.source == source]


def test_the_same_figure_in_another_currency_waits_for_a_second_source(watched: Watched, db: Engine) -> None:
    book(db, offer("98.32", **NODE))
    for minutes in (0, 15, 30):
        watched.sweep(minutes, offer("98.32", currency="EUR", **NODE), source="azure")
    assert live(watched) == []
    assert watched.states() == [("pending", "USD of book:list is EUR at the same figure")]


def test_two_price_lists_of_a_provider_may_have_the_same_figure(watched: Watched) -> None:
    """OVHcloud's lists in euros and in dollars."""
    watched.sweep(0, offer("98.32", currency="EUR", **NODE), source="azure")
    watched.sweep(0, offer("98.32", **NODE), source="gpuhunt")
    assert watched.states() == []


def test_another_figure_in_another_currency_is_another_price(watched: Watched, db: Engine) -> None:
    book(db, offer("98.32", **NODE))
    watched.sweep(0, offer("84.61", currency="EUR", **NODE), source="azure")
    assert watched.states() == []


@pytest.mark.parametrize("days", [30, 400])
def test_a_list_price_of_last_year_is_still_a_price_before(watched: Watched, db: Engine, days: int) -> None:
    """It is no measure of the market any more, but of this very machine it is."""
    book(db, offer("98.32", **NODE), days=days)
    watched.sweep(0, offer("9.832", **NODE), source="azure")
    assert watched.states() == [("pending", "price moved 10.00 times down")]


def test_of_several_machines_with_one_gpu_the_one_of_that_name_is_meant(watched: Watched, db: Engine) -> None:
    """AWS: g6.xlarge 0.8048 and g6.16xlarge 3.3968 hold one L4 each."""
    l4: dict[str, Any] = dict(provider="aws", gpu="nvidia-l4", region="us-east-1")
    book(db, offer("3.3968", sku="g6.16xlarge", **l4), offer("0.8048", sku="g6.xlarge", **l4))
    watched.sweep(0, offer("0.8048", sku="g6.xlarge", **l4), offer("1.323", sku="g6.4xlarge", **l4), source="aws")
    assert (sorted(price for _, price in live(watched, "aws")), watched.states()) == (["0.8048", "1.323"], [])


@pytest.mark.parametrize(
    ("spot", "reason"),
    [
        ("18.17", ""),
        ("98.32", ""),  # no spot market
        ("120", "spot price is 1.2 times that on demand"),  # never at Azure, Google, Oracle and Scaleway
        ("181.7", "spot price is 1.8 times that on demand"),  # ten times
        ("2.27", "spot price is 2% of on demand: a part of it is missing"),  # one GPU for the node
    ],
)
def test_a_first_spot_price_is_held_against_the_on_demand_price_that_is_known(watched: Watched, db: Engine, spot: str, reason: str) -> None:
    book(db, offer("98.32", **NODE), offer("170", **{**NODE, "region": "brazilsouth"}))
    for minutes in (0, 15):
        watched.sweep(minutes, offer(spot, tier="spot", **NODE), source="azure")
    assert watched.states() == ([("pending", reason)] if reason else [])
    assert len(live(watched)) == (not reason)


@pytest.mark.parametrize(("spot", "waiting"), [("120", 0), ("145.4", 0), ("148", 1)])
def test_at_aws_a_first_spot_price_may_lie_above_on_demand(watched: Watched, db: Engine, spot: str, waiting: int) -> None:
    node = {**NODE, "provider": "aws"}
    book(db, offer("98.32", **node))
    watched.sweep(0, offer(spot, tier="spot", **node), source="aws")
    assert len(watched.states()) == waiting


def test_where_the_machine_is_not_known_its_gpu_elsewhere_at_the_provider_is(watched: Watched) -> None:
    watched.sweep(0, offer("98.32", **NODE), source="azure")
    other = {**NODE, "sku": "NEW", "region": "x"}
    watched.sweep(0, offer("150", tier="spot", **other), source="gpuhunt")
    assert watched.states() == [("pending", "spot price is 1.5 times that on demand")]


THREE = [offer("3.6", sku=f"m{n}") for n in range(3)]


def test_two_of_three_implausible_rows_fail_a_first_sweep_and_no_later_one(watched: Watched) -> None:
    wrong = {key_of(row): row for row in THREE[1:]}
    with pytest.raises(SweepRefused, match=r"2 of 3 prices are implausible"):
        watched.sweep(0, THREE[0], rejected=wrong)
    watched.sweep(15, *THREE)
    watched.sweep(30, THREE[0], rejected=wrong)
    assert len(watched.prices()) == 3


def test_one_odd_row_fails_no_first_sweep(watched: Watched) -> None:
    watched.sweep(0, *THREE[:2], rejected={key_of(THREE[2]): THREE[2]})
    assert len(watched.prices()) == 2


def test_a_whole_list_that_moved_lets_those_pass_that_hardly_did(watched: Watched) -> None:
    """Nine prices a sixth dearer and one by a cent: the one is no other price."""
    rows = [offer("3.60", sku=f"m{n}") for n in range(10)]
    watched.sweep(0, *rows)
    watched.sweep(15, *(offer("4.18", sku=row.sku) for row in rows[:9]), offer("3.61", sku="m9"))
    assert watched.prices() == {**dict.fromkeys((f"m{n}" for n in range(9)), "3.6"), "m9": "3.61"}


@pytest.mark.parametrize(
    ("input_", "output", "reason"),
    [
        ("1", "1", ""),
        ("0.10", "5", ""),
        ("0.60", "0.55", "output is 0.92 times input"),  # columns in each other's place
        ("0.069", "4.30", "output is 62.32 times input"),  # OpenRouter's glm-5.2 of 2026-10: a dip of input alone
        ("0", "5", ""),  # free input is stated, and ranked nowhere
    ],
)
def test_input_and_output_belong_together(watched: Watched, input_: str, output: str, reason: str) -> None:
    for minutes in (0, 15, 30):
        watched.sweep(minutes, rate(input_, output), source="openrouter")
    assert watched.states() == ([("pending", reason)] if reason else [])
    assert len(watched.book().rates) == (not reason)
