"""Faults of Google Cloud's price lists and catalogues of them that are on record, as small inputs of our own with their right values.

The numbers in the names are those of the list of faults; each test says where the fault happened.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from faults import catalogue as catalogue
from faults import db as db
from faults import quotes, read
from faults import watched as watched
from guarded import Watched, offer

from engine.offers import OfferPolicy
from scrapers import gcp
from scrapers.contract import GpuQuote
from tracker.facts.catalogue import Catalogue
from tracker.guard.bands import parts_fault
from tracker.sweeps.resolve import Refused, resolve_gpu

HOUR = {"usageUnit": "h", "baseUnit": "s", "baseUnitConversionFactor": 3600}
GIB_HOUR = {"usageUnit": "GiBy.h", "baseUnit": "By.s", "baseUnitConversionFactor": 3600 * 2**30}
GIB_MONTH = {"usageUnit": "GiBy.mo", "baseUnit": "By.s", "baseUnitConversionFactor": 730 * 3600 * 2**30}


def sku(text: str, price: str, unit: dict[str, Any] = HOUR, *, usage: str = "OnDemand", region: str = "us-central1") -> dict[str, Any]:
    units, _, nanos = price.partition(".")
    money = {"currencyCode": "USD", "units": units, "nanos": int(f"{nanos:0<9}")}
    expression = unit | {"displayQuantity": 1, "tieredRates": [{"startUsageAmount": 0, "unitPrice": money}]}
    category = {"resourceFamily": "Compute", "resourceGroup": "GPU", "usageType": usage}
    return {
        "name": text,
        "skuId": text,
        "description": text,
        "category": category,
        "serviceRegions": [region],
        "pricingInfo": [{"pricingExpression": expression, "effectiveTime": "2026-11-28T07:00:00Z"}],
    }


A2 = [
    sku("A2 Instance Core running in Americas", "0.03"),
    sku("A2 Instance Ram running in Americas", "0.004", GIB_HOUR),
    sku("Nvidia Tesla A100 GPU running in Americas", "2.933908"),
]
SSD = sku("SSD backed Local Storage", "0.073", GIB_MONTH)
A2_ULTRA = [*A2[:2], sku("Nvidia Tesla A100 80GB GPU running in Americas", "4.0"), SSD]


def gcp_prices(*skus: dict[str, Any]) -> dict[tuple[str, str, str], Decimal]:
    return {(q.sku, q.region, q.tier): q.price for q in quotes(read(gcp, {"skus": list(skus)}))}


def test_case_9_parts_of_an_rtx_pro_6000_are_slices(catalogue: Catalogue) -> None:
    """skypilot PR 10533: g4-standard-6, -12 and -24 have an eighth, a fourth and a half of one."""
    shares = {size: catalogue.instances["gcp", f"g4-standard-{size}"].gpu_count for size in (6, 12, 24, 48)}
    assert shares == {6: Decimal("0.125"), 12: Decimal("0.25"), 24: Decimal("0.5"), 48: 1}


def test_case_11_units_are_text_and_nanos_are_billionths() -> None:
    """opencost: 2 units and 933,908,000 nanos are 2.933908, not 0.93."""
    # 12 x 0.03 + 85 x 0.004 + 2.933908
    assert gcp_prices(*A2)["a2-highgpu-1g", "us-central1", "on_demand"] == Decimal("3.633908")


def test_case_12_dws_is_not_on_demand(watched: Watched) -> None:
    """skypilot catalogue: A100-80GB on demand at 1.8462, less than its spot price of 1.964: the SKU of DWS Defined Duration."""
    dws = sku("Nvidia Tesla A100 80GB GPU running in Americas - DWS Defined Duration", "1.2")
    assert gcp_prices(*A2_ULTRA, dws)["a2-ultragpu-1g", "us-central1", "on_demand"] == Decimal("5.0775")
    machine = dict(provider="gcp", sku="a2-ultragpu-1g", region="us-central1", gpu="nvidia-a100-sxm-80")
    watched.sweep(0, offer("1.8462", **machine), offer("1.964", tier="spot", **machine), source="gcp")
    assert (len(watched.book().offers), len(watched.quarantine())) == (0, 2)


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_case_13_without_one_part_there_is_no_price(missing: int) -> None:
    """Cyclenerd: spot of a2-highgpu-1g in asia-northeast2 at 0.3678, where the region has no spot GPU."""
    rows = read(
        gcp,
        {
            "skus": [part for n, part in enumerate(A2) if n != missing]
            + [sku("Nvidia L4 GPU running in Americas", "0.56")]
            + [sku("G2 Instance Core running in Americas", "0.025"), sku("G2 Instance Ram running in Americas", "0.003", GIB_HOUR)]
        },
    )
    assert not any(q.sku.startswith("a2-highgpu") for q in quotes(rows))
    lacking = GpuQuote(
        provider="gcp",
        sku="a",
        gpu="g",
        gpu_count=1,
        tier="spot",
        price=Decimal("0.37"),
        per="node_hour",
        currency="USD",
        parts=(("vcpu", Decimal("0.2")), ("ram", Decimal("0.17")), ("gpu", None)),
    )
    assert parts_fault(lacking) == "composed price lacks gpu"


def test_case_14_three_spellings_of_one_gpu() -> None:
    """Cyclenerd 249: a3-megagpu-8g vanished when "H100 80GB Plus" became "Mega"."""
    parts = [
        sku("A3Plus Instance Core running in Americas", "0.03"),
        sku("A3Plus Instance Ram running in Americas", "0.003", GIB_HOUR),
        SSD,
    ]
    for spelling in ("Nvidia H100 80GB Plus GPU", "Nvidia H100 80GB Mega GPU", "Nvidia H100 Mega 80GB GPU"):
        found = gcp_prices(*parts, sku(f"{spelling} running in Americas", "9.8"))
        # 208 x 0.03 + 1872 x 0.003 + 8 x 9.8 + 6000 x 0.073 / 730
        assert found["a3-megagpu-8g", "us-central1", "on_demand"] == Decimal("90.856"), spelling


def test_case_16_a_slice_sku_is_the_whole_machine_and_says_in_words_that_it_is_spot() -> None:
    """skypilot 8102: B200's spot SKU has the usage type OnDemand, and the machine has no core and memory SKUs."""
    name = "A4 Nvidia B200 (1 gpu slice) running in Americas"
    found = gcp_prices(sku(name, "8.06"), sku(f"Spot Preemptible {name}", "3.5"))
    assert found == {
        ("a4-highgpu-8g", "us-central1", "on_demand"): Decimal("64.48"),
        ("a4-highgpu-8g", "us-central1", "spot"): Decimal("28"),
    }


def test_case_17_what_cannot_be_bought_on_demand_is_not_ranked(catalogue: Catalogue) -> None:
    """gpuhunt PR 176: A4 and the small A3 machines are priced on demand and not sold so."""
    rows = quotes(read(gcp, {"skus": [sku("A4 Nvidia B200 (1 gpu slice) running in Americas", "8.06")]}))
    assert [(q.sku, q.availability) for q in rows] == [("a4-highgpu-8g", "unavailable")]
    assert "unavailable" not in OfferPolicy().availabilities


def test_case_18_the_disks_of_the_machine_are_in_its_price() -> None:
    """gpuhunt PR 75: A2 Ultra was 1 to 2 % too cheap."""
    # 12 x 0.03 + 170 x 0.004 + 4 + 375 x 0.073 / 730
    assert gcp_prices(*A2_ULTRA)["a2-ultragpu-1g", "us-central1", "on_demand"] == Decimal("5.0775")


def test_case_19_duplicates_collapse_and_conflicts_are_held(watched: Watched) -> None:
    """skypilot 1367: gcp.csv held rows twice, and one of A100:8 was slightly off."""
    from tracker.guard.conflicts import without_conflicts

    row, off = offer("29.38", gpu_count=8), offer("29.40", gpu_count=8)
    assert without_conflicts([row, row], {}, "gcp") == ((row,), {})
    single, several = without_conflicts([row, off], {}, "gcp")
    assert (single, [len(rows) for rows in several.values()]) == ((), [2])


@pytest.mark.parametrize("price", ["0", "-1"])
def test_case_21_unknown_is_never_0(catalogue: Catalogue, price: str) -> None:
    """infracost 2797, 2437: an accelerator nobody knew cost "$0.00"."""
    quote = GpuQuote(
        provider="gcp", sku="g2", gpu="L4", gpu_count=1, tier="on_demand", price=Decimal(price), per="node_hour", currency="USD"
    )
    assert isinstance(resolve_gpu(quote, "gcp", catalogue, ""), Refused)
    assert gcp_prices(*A2[:2], sku("Nvidia Tesla A100 GPU running in Americas", "0.0"), *A2_ULTRA[2:]).keys() == {
        (f"a2-ultragpu-{n}g", "us-central1", "on_demand") for n in (1, 2, 4, 8)
    }


def test_case_56_eight_spot_gpus_may_cost_less_than_four(watched: Watched) -> None:
    """dstack 1044: suspicious, and so printed by Google; kept."""
    machine = dict(provider="gcp", region="r", gpu="nvidia-a100-sxm-40", tier="spot")
    watched.sweep(
        0,
        offer("6.4", sku="a2-highgpu-4g", gpu_count=4, **machine),
        offer("6.0", sku="a2-highgpu-8g", gpu_count=8, **machine),
        source="gcp",
    )
    assert len(watched.book().offers) == 2


def machine(price: str, name: str, region: str, count: int = 1, **other: Any) -> Any:
    return offer(price, sku=name, region=region, gpu="nvidia-a100-sxm-80", gpu_count=count, provider="gcp", **other)


ELSEWHERE = ("us-central1", "us-east4", "europe-west4", "asia-southeast1")


def test_a_commitment_does_not_wait_for_a_price_on_demand_that_lacks_the_gpu(watched: Watched) -> None:
    """Google, 2022-09: in Toronto an A2 machine was 1.21 on demand, its CPU and memory, and 2.80 for a year, as much as elsewhere."""
    rows = [machine("4.67", "a2-ultragpu-1g", region) for region in ELSEWHERE]
    year = {"tier": "reserved", "term_months": 12}
    rows += [machine("2.95", "a2-ultragpu-1g", region, **year) for region in ELSEWHERE]
    toronto = machine("1.21", "a2-ultragpu-1g", "northamerica-northeast2")
    watched.sweep(0, *rows, toronto, machine("2.80", "a2-ultragpu-1g", "northamerica-northeast2", **year), source="gcp")
    assert watched.states() == [("pending", "3.9 times below its other regions")]
    watched.sweep(60, *rows, toronto, machine("5.50", "a2-ultragpu-1g", "northamerica-northeast2", **year), source="gcp")
    assert ("pending", "reserved price above on demand") in watched.states()  # of its other regions, too


@pytest.mark.parametrize(
    ("price", "held"),
    [
        ("28.04", False),  # 3.2 times below, per GPU: Google's a3-megagpu-8g against a3-highgpu-1g in Tokyo, 2025-03
        ("11.13", True),  # the price of one GPU read as that of eight
        ("712.1", True),  # and that of eight as the price of one
    ],
)
def test_spot_prices_of_two_series_of_machines_move_apart_by_less_than_their_count(watched: Watched, price: str, held: bool) -> None:
    single = machine("11.13", "a3-highgpu-1g", "asia-northeast1", tier="spot")
    watched.sweep(0, single, machine(price, "a3-megagpu-8g", "asia-northeast1", 8, tier="spot"), source="gcp")
    assert [reason for _, reason in watched.states()] == (["price per GPU contradicts that of machines with one GPU"] if held else [])


def test_elsewhere_spot_prices_of_several_gpus_are_those_of_one(watched: Watched) -> None:
    """A price per GPU of half an eight-fold machine's would lie within half the count; nobody else's real ones do."""
    single, eight = (replace(machine(price, f"nd-{n}", "eastus", n, tier="spot"), provider="azure") for price, n in (("4", 1), ("8.2", 8)))
    watched.sweep(0, single, eight, source="azure")
    assert watched.states() == [("pending", "price per GPU contradicts that of machines with one GPU")]
