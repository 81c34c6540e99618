"""Whole sweeps that cannot be true, rows that contradict each other, misses, and conflicts."""

from __future__ import annotations

from datetime import timedelta

import pytest
from guarded import T0, Watched, key_of, neighbours, offer, rate
from guarded import db as db
from guarded import watched as watched
from sqlalchemy import Engine

from tracker.database.handle import writing
from tracker.database.rows import OfferRow, RateRow
from tracker.guard.decisions import accept
from tracker.guard.doubts import SweepRefused
from tracker.sweeps.store import SweepReport, record_sweep

TEN = [offer("3.60", sku=f"n{n}") for n in range(10)]


def refused(watched: Watched, minutes: float, *rows: OfferRow | RateRow, source: str = "runpod") -> str:
    """Why a sweep was refused; it is kept as the collector keeps one."""
    with pytest.raises(SweepRefused) as found:
        watched.sweep(minutes, *rows, source=source)
    at = T0 + timedelta(minutes=minutes)
    record_sweep(watched.db, SweepReport(
        source=source, started_at=at, finished_at=at, status="failed", error=str(found.value), fault=found.value.fault,
    ))  # fmt: skip
    return str(found.value).partition(";")[0]


# --- misses -----------------------------------------------------------------------------------------------------------------


def test_two_misses_end_an_offer_and_one_does_not(watched: Watched) -> None:
    watched.sweep(0, *TEN)
    watched.sweep(15, *TEN[:9])
    assert (len(watched.prices()), watched.seen("n9"), watched.seen("n0")) == (10, 0, 15)
    watched.sweep(30, *TEN[:9])
    assert len(watched.prices()) == 9


def test_a_miss_that_is_made_good_counts_no_more(watched: Watched) -> None:
    for minutes, rows in ((0, TEN), (15, TEN[:9]), (30, TEN), (45, TEN[:9]), (60, TEN)):
        watched.sweep(minutes, *rows)
        assert len(watched.prices()) == 10
    assert watched.seen("n9") == 60


@pytest.mark.parametrize("misses", [1, 2, 4])
def test_how_many_misses_is_configuration(db: Engine, misses: int) -> None:
    watched = Watched(db, misses=misses)
    watched.sweep(0, *TEN)
    for number in range(1, misses + 1):
        assert len(watched.prices()) == 10
        watched.sweep(number * 15, *TEN[:9])
    assert len(watched.prices()) == 9


def test_an_unchanged_body_misses_again_and_a_failed_sweep_does_not(watched: Watched) -> None:
    watched.sweep(0, *TEN)
    watched.sweep(15, *TEN[:9])
    watched.sweep(20, status="failed", error="no answer")
    assert len(watched.prices()) == 10
    watched.sweep(30, status="unchanged")
    assert len(watched.prices()) == 9


def test_misses_survive_a_restart(watched: Watched, db: Engine) -> None:
    watched.sweep(0, *TEN)
    watched.sweep(15, *TEN[:9])
    after = Watched(db)
    after.sweep(30, *TEN[:9])
    assert len(after.prices()) == 9


def test_what_comes_back_at_its_old_price_needs_no_confirmation(watched: Watched) -> None:
    watched.sweep(0, *TEN)
    for minutes in (15, 30):
        watched.sweep(minutes, *TEN[:9])
    watched.sweep(45, *TEN)
    assert watched.prices()["n9"] == "3.6"


def test_what_comes_back_at_a_tenth_of_it_does(watched: Watched) -> None:
    watched.sweep(0, *TEN)
    for minutes in (15, 30):
        watched.sweep(minutes, *TEN[:9])
    watched.sweep(45, *TEN[:9], offer("0.36", sku="n9"))
    assert "n9" not in watched.prices()
    assert watched.states() == [("pending", "price moved 10.00 times down")]


def test_a_price_that_waits_is_no_miss(watched: Watched) -> None:
    watched.sweep(0, *TEN)
    for minutes, price in ((15, "0.36"), (30, "9.9"), (45, "0.4"), (60, "11")):
        watched.sweep(minutes, *TEN[:9], offer(price, sku="n9"))
    assert (watched.prices()["n9"], watched.seen("n9")) == ("3.6", 0)


def test_a_rejected_row_is_no_miss(watched: Watched) -> None:
    watched.sweep(0, *TEN)
    for minutes in (15, 30, 45):
        watched.sweep(minutes, *TEN[:9], rejected={key_of(TEN[9]): TEN[9]})
    assert (watched.prices()["n9"], watched.seen("n9")) == ("3.6", 0)


# --- too much is missing ----------------------------------------------------------------------------------------------------


def test_a_mass_of_missing_prices_fails_the_sweep_and_keeps_them(watched: Watched) -> None:
    watched.sweep(0, *TEN)
    assert refused(watched, 15, *TEN[:6]) == "runpod: 4 of 10 listed prices vanished at once (limit 30%)"
    assert (len(watched.prices()), watched.seen("n9"), watched.seen("n0")) == (10, 0, 0)
    (entry,) = watched.quarantine()
    assert (entry["kind"], entry["subject"], entry["release"]) == ("sweep", "runpod: a whole sweep", "hand")


def test_three_of_ten_are_no_mass(watched: Watched) -> None:
    watched.sweep(0, *TEN)
    watched.sweep(15, *TEN[:7])
    assert len(watched.prices()) == 10


def test_tokens_have_a_limit_of_their_own(watched: Watched) -> None:
    rows = [rate("3", "15", source_model=f"m{n}") for n in range(20)]
    watched.sweep(0, *rows, source="openrouter")
    assert refused(watched, 15, *rows[:15], source="openrouter").endswith("5 of 20 listed prices vanished at once (limit 20%)")


def test_a_provider_that_vanishes_whole_fails_a_catalogue(watched: Watched) -> None:
    rows = [rate("3", "15", source_model=f"m{n}", provider=("together" if n < 10 else "novita")) for n in range(100)]
    watched.sweep(0, *rows, source="litellm")
    assert refused(watched, 15, *rows[10:], source="litellm").endswith("all 10 prices of together vanished at once")


def test_an_anchor_that_vanishes_fails_the_sweep(db: Engine) -> None:
    watched = Watched(db, anchors={"runpod": ("nvidia-b300-sxm-288",)})
    anchor = offer("7", sku="B300", gpu="nvidia-b300-sxm-288")
    watched.sweep(0, *TEN)
    watched.sweep(15, *TEN, anchor)
    assert refused(watched, 30, *TEN) == "runpod: nvidia-b300-sxm-288, which it listed, is missing"
    watched.sweep(45, *TEN, anchor)
    assert [entry["state"] for entry in watched.quarantine(every=True)] == ["withdrawn"]


def test_a_drop_that_outlives_the_prices_is_believed(watched: Watched) -> None:
    """Their limit is three hours: after that the old prices are stale anyway, and those that are printed are still good."""
    watched.sweep(0, *TEN)
    for hours in (1, 2, 3):
        refused(watched, hours * 60, *TEN[:6])
    watched.sweep(4 * 60, *TEN[:6])
    watched.sweep(5 * 60, *TEN[:6])
    assert len(watched.prices()) == 6


def test_a_person_can_let_one_sweep_pass(watched: Watched, db: Engine) -> None:
    watched.sweep(0, *TEN)
    refused(watched, 15, *TEN[:6])
    with writing(db) as connection:
        accept(connection, watched.quarantine()[0]["id"], "ada", T0 + timedelta(minutes=20))
    watched.sweep(30, *TEN[:6])
    assert (watched.seen("n0"), watched.seen("n9")) == (30, 0)
    watched.sweep(45, *TEN[:6])
    assert len(watched.prices()) == 6
    assert refused(watched, 60, *TEN[:2]).startswith("runpod: 4 of 6 listed prices vanished")  # accepted once is accepted once


# --- too much is wrong ------------------------------------------------------------------------------------------------------


def test_a_mass_of_moved_prices_fails_the_sweep_however_often_it_is_printed(watched: Watched) -> None:
    watched.sweep(0, *TEN)
    tenfold = [offer("36", sku=row.sku) for row in TEN]
    for minutes in (15, 30, 45, 24 * 60):
        assert refused(watched, minutes, *tenfold) == "runpod: 10 of 10 prices moved beyond the limit at once (limit 50%)"
    assert set(watched.prices().values()) == {"3.6"}


def test_an_accepted_mass_is_listed_whole(watched: Watched, db: Engine) -> None:
    watched.sweep(0, *TEN)
    cheap = [offer("1.2", sku=row.sku) for row in TEN]
    refused(watched, 15, *cheap)
    with writing(db) as connection:
        accept(connection, watched.quarantine()[0]["id"], "ada", T0 + timedelta(minutes=20))
    watched.sweep(30, *cheap)
    assert set(watched.prices().values()) == {"1.2"}


def test_a_mass_of_implausible_prices_fails_a_first_sweep(watched: Watched) -> None:
    neighbours(watched, ("3.59", "3.90", "4.20"))
    assert refused(watched, 15, *(offer("0.36", sku=row.sku) for row in TEN)) == "runpod: 10 of 10 prices are implausible (limit 50%)"
    assert watched.prices() == {}


def test_rejected_rows_count_as_implausible(watched: Watched) -> None:
    assert refused_with(watched, TEN[:4], TEN[4:]).startswith("runpod: 6 of 10 prices are implausible")


def refused_with(watched: Watched, rows: list[OfferRow], rejected: list[OfferRow]) -> str:
    with pytest.raises(SweepRefused) as found:
        watched.sweep(15, *rows, rejected={key_of(row): row for row in rejected})
    return str(found.value)


def test_rejected_rents_are_no_measure_of_token_prices(watched: Watched) -> None:
    """Six placeholders among twenty-six rents fail nothing: they are no token prices, of which there are none."""
    rows = [offer("3.6", sku=f"m{n}") for n in range(20)]
    watched.sweep(0, *rows, rejected={key_of(row): row for row in (offer("0.01", sku=f"p{n}") for n in range(6))})
    assert len(watched.prices()) == 20


def test_a_token_kind_that_most_rows_lose_fails_the_sweep(watched: Watched) -> None:
    """The cached price of every Moonshot model was missing for three days in August 2026: a parser no longer found its column."""
    rows = [rate("3", "15", "0.3", source_model=f"m{n}") for n in range(6)]
    watched.sweep(0, *rows, source="moonshot")
    lost = [rate("3", "15", source_model=f"m{n}") for n in range(6)]
    assert refused(watched, 15, *lost, source="moonshot") == "moonshot: 6 of 6 prices lost their cache read price at once"
    watched.sweep(30, *rows[:2], *lost[2:], source="moonshot")  # four of six may be true


# --- rows against each other ------------------------------------------------------------------------------------------------


def regions(price: str, *, odd: str, **other: object) -> list[OfferRow]:
    """One machine in six regions, one of them at another price."""
    prices = {"a": price, "b": price, "c": price, "d": price, "e": price, "f": odd}
    stated = dict(provider="gcp", sku="a2-highgpu-1g", gpu="nvidia-a100-sxm-40") | other
    return [offer(asked, region=region, **stated) for region, asked in prices.items()]


def test_a_region_without_the_gpu_in_its_price_waits(watched: Watched) -> None:
    """a2-highgpu-1g in northamerica-northeast2: 0.814 an hour where it is 3.67 to 5.88 elsewhere, for two and a half years."""
    for minutes in (0, 15, 30):
        watched.sweep(minutes, *regions("4.325", odd="0.814"), source="gcp")
    assert len(watched.book().offers) == 5
    assert watched.states() == [("pending", "5.3 times below its other regions; price per GPU is 5.3 times off all others of gcp")]


def test_spot_prices_of_regions_differ(watched: Watched) -> None:
    watched.sweep(0, *regions("9.08", odd="2.30", tier="spot", gpu="nvidia-h100-sxm-80"), source="gcp")
    assert watched.states() == []


def pair(on_demand: str, spot: str, provider: str, **other: object) -> list[OfferRow]:
    stated = dict(provider=provider, sku="machine", region="r", gpu="nvidia-a100-sxm-80") | other
    return [offer(on_demand, **stated), offer(spot, tier="spot", **stated)]


@pytest.mark.parametrize(
    ("provider", "on_demand", "spot", "waiting"),
    [
        ("gcp", "1.8462", "1.964", 2),  # us-central1: the on-demand price was that of DWS; which one is wrong the pair does not say
        ("azure", "4.10", "4.10", 0),  # the same price is no contradiction
        ("scaleway", "3.00", "3.16", 2),
        ("aws", "9.49", "10.20", 0),  # on AWS a spot price above on demand is real
    ],
)
def test_spot_above_on_demand(watched: Watched, provider: str, on_demand: str, spot: str, waiting: int) -> None:
    watched.sweep(0, *pair(on_demand, spot, provider), source="azure")
    assert [reason for _, reason in watched.states()] == ["spot price above on demand"] * waiting


def test_spot_above_on_demand_leaves_a_listed_price_alone(watched: Watched) -> None:
    watched.sweep(0, *pair("4.00", "1.60", "gcp"), source="gcp")
    watched.sweep(15, *pair("4.00", "4.30", "gcp"), source="gcp")
    assert [(e.value.tier, str(e.value.usd_per_hour)) for e in watched.book().offers] == [("on_demand", "4"), ("spot", "1.6")]


def test_a_spot_price_without_the_gpu_waits(watched: Watched) -> None:
    """a2-highgpu-1g in asia-northeast2: 0.3678, the neighbour 2.43. AWS's lowest spot price is a tenth of on demand, and real."""
    watched.sweep(0, *pair("4.35", "0.3678", "gcp"), *pair("68.36", "6.836", "aws", gpu="nvidia-h200-sxm-141", gpu_count=8), source="gcp")
    assert watched.states() == [("pending", "spot price is 8% of on demand: a part of it is missing")]


def machines(prices: dict[int, str]) -> list[OfferRow]:
    return [offer(price, sku=f"x{count}", gpu_count=count) for count, price in prices.items()]


@pytest.mark.parametrize(
    ("prices", "waiting"),
    [
        ({1: "3.99", 2: "7.98", 4: "15.96", 8: "31.92"}, []),
        ({1: "4.29", 2: "8.38", 4: "16.36", 8: "31.92"}, []),  # Lambda's H100 on 2026-10-10: less per GPU the more of them
        ({1: "3.59", 2: "3.59", 4: "3.59", 8: "3.59"}, ["x2", "x4", "x8"]),  # the price of one GPU on every node
        ({1: "3.59", 8: "3.59"}, ["x8"]),
        ({1: "3.59", 8: "229.76"}, ["x8"]),  # the node's price times eight
        ({1: "28.72", 2: "7.18", 4: "14.36", 8: "28.72"}, ["x1"]),  # the node's price on one GPU: all others agree with each other
        ({2: "18.96", 4: "34.08", 8: "60"}, []),  # Scaleway's B300, with no single GPU to compare
    ],
)
def test_many_gpus_against_one(watched: Watched, prices: dict[int, str], waiting: list[str]) -> None:
    watched.sweep(0, *machines(prices))
    assert sorted({f"x{count}" for count in prices} - set(watched.prices())) == waiting
    watched.sweep(15, status="unchanged")
    assert sorted({f"x{count}" for count in prices} - set(watched.prices())) == waiting


def test_a_large_machine_with_one_gpu_is_no_contradiction(watched: Watched) -> None:
    """AWS T4: g4dn.xlarge 0.526, g4dn.16xlarge 4.352, g4dn.metal with eight 7.824: 0.978 a GPU lies between the single ones."""
    watched.sweep(0, offer("0.526", sku="xl"), offer("4.352", sku="16xl"), offer("7.824", sku="metal", gpu_count=8))
    assert watched.states() == []


def test_slices_are_not_compared(watched: Watched) -> None:
    watched.sweep(0, offer("0.10", sku="slice", is_slice=True), offer("3.60"), offer("28.8", sku="x8", gpu_count=8))
    assert watched.states() == []


# --- conflicts ---------------------------------------------------------------------------------------------------------------


def test_one_offer_at_two_prices_is_held_and_the_old_price_stays(watched: Watched) -> None:
    watched.sweep(0, offer("3.60"), offer("5", sku="B"))
    for minutes in (15, 30, 45):
        watched.sweep(minutes, offer("5", sku="B"), conflicts={key_of(offer("1")): [offer("3.60"), offer("0.50")]})
    assert (watched.prices()["H200"], watched.seen()) == ("3.6", 0)
    (entry,) = watched.quarantine()
    assert (entry["reason"], entry["sweeps"]) == ("same offer at two prices", 3)
    assert entry["new"] == '[{"currency": "USD", "price": "3.6"}, {"currency": "USD", "price": "0.5"}]'
    watched.sweep(60, offer("5", sku="B"), offer("3.60"))
    assert (watched.seen(), watched.quarantine()) == (60, [])


def test_all_list_prices_at_once_wait_for_the_next_sweep(watched: Watched) -> None:
    """Euros told as dollars: everything is a sixth dearer."""
    watched.sweep(0, *TEN)
    dearer = [offer("4.18", sku=row.sku) for row in TEN]
    watched.sweep(15, *dearer)
    assert set(watched.prices().values()) == {"3.6"}
    assert {reason for _, reason in watched.states()} == {"10 of 10 prices are not as they were"}
    watched.sweep(30, *dearer)
    assert set(watched.prices().values()) == {"4.18"}


def test_a_new_machine_far_off_everything_of_its_provider_waits(watched: Watched) -> None:
    """A node of eight H100 at 16.80, counted as one GPU, in a market where others ask 1.50 to 12."""
    eight = offer("16.8", sku="8 x", gpu_count=8)
    watched.sweep(0, eight)
    watched.sweep(15, offer("16.8", sku="1 x"), eight)
    assert watched.prices() == {"8 x": "16.8"}
    assert [state for state, _ in watched.states()] == ["pending"]
    assert watched.states()[0][1].endswith("price per GPU is 8.0 times off all others of runpod")


def test_five_of_ten_are_not_all(watched: Watched) -> None:
    watched.sweep(0, *TEN)
    watched.sweep(15, *(offer("4.18", sku=row.sku) for row in TEN[:5]), *TEN[5:])
    assert sorted(watched.prices().values()) == ["3.6"] * 5 + ["4.18"] * 5


def test_spot_prices_may_all_move_at_once(watched: Watched) -> None:
    """Google changes 615 to 865 of its 984 spot prices together every two weeks."""
    spot = [offer("2", sku=f"n{n}", tier="spot") for n in range(10)]
    watched.sweep(0, *spot)
    watched.sweep(15, *(offer("2.3", sku=row.sku, tier="spot") for row in spot))
    assert set(watched.prices().values()) == {"2.3"}
