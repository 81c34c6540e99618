"""Variants of the faults on record that are not in the lists: of each kind some more, at the same places. What is not a price is none."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from faults import catalogue as catalogue
from faults import quotes, read
from test_tracker_guard_faults_aws import SKYPILOT, SKYPILOT_URL, aws_file, spot_js
from test_tracker_guard_faults_azure import azure_item, azure_quotes
from test_tracker_guard_faults_europe import addon, ovh, scaleway_rows
from test_tracker_guard_faults_gcp import A2, A2_ULTRA, GIB_HOUR, SSD, gcp_prices, sku
from test_tracker_guard_faults_markets import runpod_quotes, vast_offer, vast_quotes

from engine.offers import OfferPolicy
from scrapers import aws, aws_spot, skypilot, upcloud
from scrapers.contract import GpuQuote
from tracker.database.rows import OfferRow
from tracker.facts.catalogue import Catalogue
from tracker.sweeps.resolve import Refused, resolve_gpu

D = Decimal
GOOD = {"p5.48xlarge": D("55.04")}


def offers(found: list[GpuQuote], source: str, catalogue: Catalogue) -> dict[str, Decimal]:
    """What can be listed of quotes: name -> native price an hour of the whole offer; slices are kept apart."""
    rows = [resolve_gpu(quote, source, catalogue, "") for quote in found]
    return {row.sku: row.native_per_hour for row in rows if isinstance(row, OfferRow) and not row.is_slice}


# --- a price of 0, a price with a part missing --------------------------------------------------------------------------------


@pytest.mark.parametrize("price", ["0", "0.00", "-0.0000000000", "", "N/A", "NaN", "-55.04", "Infinity", "55,04", "1e400"])
def test_no_price_of_aws_is_none(catalogue: Catalogue, price: str) -> None:
    rows = read(aws, aws_file({}, {"SKU": "B2", "Instance Type": "p5en.48xlarge", "PricePerUnit": price}))
    assert offers(quotes(rows), "aws", catalogue) == GOOD


@pytest.mark.parametrize("price", [0, -1, None, True, [98.32], {"USD": 98.32}])
def test_no_price_of_azure_is_none(price: Any) -> None:
    assert [q.price for q in azure_quotes(azure_item(retailPrice=price, armRegionName="westus3"), azure_item())] == [D("98.32")]


@pytest.mark.parametrize("price", ["N/A", "N/A*", "N/A **", "-", "", "0", "0.0000", "-1", "*9.667", "9.667*", "$9.667"])
def test_no_spot_price_of_aws_is_none(price: str) -> None:
    rows = quotes(read(aws_spot, spot_js(p5_48xlarge="9.667", g6_xlarge=price)))
    assert [q.sku for q in rows] == ["p5.48xlarge"]


@pytest.mark.parametrize("price", ["", "0", "0.0", "-1", "nan", "None"])
def test_no_price_of_a_catalogue_is_none(catalogue: Catalogue, price: str) -> None:
    lines = [
        f"p5.48xlarge,H100,8.0,192,2048,,{price},{price},us-east-2,use2-az3",
        "p4d.24xlarge,A100,8.0,96,1152,,21.957642,,us-east-2,use2-az3",
    ]
    rows = read(skypilot, SKYPILOT + "\n".join(lines) + "\n", url=SKYPILOT_URL)
    assert offers(quotes(rows), "skypilot", catalogue) == {"p4d.24xlarge": D("21.957642")}


def test_disks_that_have_no_price_leave_no_price() -> None:
    """An A2 Ultra has local disks of its own: without their SKU its price would lack a part."""
    assert not any(name.startswith("a2-ultragpu") for name, _, _ in gcp_prices(*A2, *(part for part in A2_ULTRA if part is not SSD)))


def test_spot_cores_and_memory_without_a_spot_gpu_are_no_spot_machine() -> None:
    spot = [
        sku("Spot Preemptible A2 Instance Core running in Americas", "0.01", usage="Preemptible"),
        sku("Spot Preemptible A2 Instance Ram running in Americas", "0.001", GIB_HOUR, usage="Preemptible"),
    ]
    assert {tier for _, _, tier in gcp_prices(*A2, *spot)} == {"on_demand"}


@pytest.mark.parametrize("region", ["us-central1", "europe-west4"])
def test_parts_of_two_regions_make_no_machine(region: str) -> None:
    gpu = sku("Nvidia Tesla A100 GPU running in Netherlands", "3.1", region="europe-west4")
    assert gcp_prices(*A2[:2], gpu, *A2_ULTRA[2:]).get(("a2-highgpu-1g", region, "on_demand")) is None


# --- counts, slices, names ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["Standard_NV24ads_V710_v5", "Standard_NG8ads_V620_v1", "Standard_NV4as_v4", "Standard_NV6ads_A10_v5", "Standard_NV18ads_A10_v5"],
)
def test_parts_of_azures_gpus_are_not_ranked(catalogue: Catalogue, name: str) -> None:
    found = azure_quotes(azure_item(armSkuName=name, retailPrice=0.5), azure_item())
    assert set(offers(found, "azure", catalogue)) == {"Standard_ND96isr_H100_v5"}


@pytest.mark.parametrize(("name", "gpu"), [("g6f.4xlarge", "0.5"), ("g6f.xlarge", "0"), ("gr6f.4xlarge", "1"), ("g6f.2xlarge", "1")])
def test_parts_of_aws_gpus_are_not_ranked_whatever_is_counted(catalogue: Catalogue, name: str, gpu: str) -> None:
    rows = read(aws, aws_file({}, {"SKU": "B2", "Instance Type": name, "GPU": gpu, "PricePerUnit": "0.4"}))
    assert offers(quotes(rows), "aws", catalogue) == GOOD


@pytest.mark.parametrize("count", [1, 4, 12, 16])
def test_a_count_that_is_not_that_of_the_type_is_an_error(catalogue: Catalogue, count: int) -> None:
    quote = GpuQuote(
        provider="aws", sku="p5.48xlarge", gpu="H100", gpu_count=count, tier="on_demand", price=D("55.04"), per="node_hour", currency="USD"
    )
    found = resolve_gpu(quote, "gpuhunt", catalogue, "")
    assert isinstance(found, Refused) and found.reason == "gpu count is not that of the type"


@pytest.mark.parametrize("profile", ["1g.10gb", "3g.40gb", "7g.80gb"])
def test_any_mig_profile_is_a_slice(profile: str) -> None:
    info = {"gpu_name": "H100-PCIe", "gpu_memory": 80 * 2**30}
    found = quotes(scaleway_rows(H100_1_80G={"mig_profile": profile, "hourly_price": 2.5, "gpu_info": info}, L4_1_24G={}))
    assert {q.sku: q.is_slice for q in found}["H100-1-80G"]


@pytest.mark.parametrize(
    "name", ["NVIDIA H100 80GB HBM3 MIG 3g.40gb", "NVIDIA A100-SXM4-80GB MIG 1g.10gb", "NVIDIA B200 MIG 1g.23gb", "unknown", "H100?"]
)
def test_no_slice_of_a_marketplace_is_a_gpu(catalogue: Catalogue, name: str) -> None:
    found = [q for q in runpod_quotes(id=name, displayName=name, securePrice=0.9, communityPrice=0.8) if q.gpu == name]
    assert all(isinstance(resolve_gpu(q, "runpod", catalogue, ""), Refused) or q.is_slice for q in found)


@pytest.mark.parametrize(
    ("name", "gpu"),
    [
        ("GB200", "nvidia-gb200-186"), ("B200", "nvidia-b200-sxm-180"), ("GB300", "nvidia-gb300-279"), ("L40", "nvidia-l40"),
        ("L40S", "nvidia-l40s"), ("L4", "nvidia-l4"), ("Quadro RTX 6000", "nvidia-quadro-rtx-6000"),
        ("RTX 6000", None), ("A6000 Ada", None), ("RTX 4000", None), ("A100", None), ("H1000", None), ("H200X", None), ("nvidia", None),
        ("H100 SXM ", None), ("H100 SXM\u200b", None),
    ],
)  # fmt: skip
def test_names_are_exact(catalogue: Catalogue, name: str, gpu: str | None) -> None:
    assert catalogue.gpu_for("x", "x", name) == gpu


# --- what is sold otherwise ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [
        {"TermType": "Reserved"}, {"Tenancy": "Host"}, {"Operating System": "SUSE"}, {"Operating System": "RHEL"}, {"Unit": "Quantity"},
        {"CapacityStatus": "AllocatedCapacityReservation"}, {"CapacityStatus": "UnusedCapacityReservation"}, {"MarketOption": ""},
        {"Pre Installed S/W": "SQL Web"}, {"Tenancy": "NA"}, {"License Model": "Bring your own license"},
    ],
)  # fmt: skip
def test_other_ways_to_buy_at_aws_are_other_prices(other: dict[str, str]) -> None:
    rows = read(aws, aws_file({}, {"SKU": "B2", "PricePerUnit": "11"} | other))
    assert [q.price for q in quotes(rows)] == [D("55.04")]


@pytest.mark.parametrize(
    "other",
    [
        {"type": "Reservation", "reservationTerm": "1 Year", "retailPrice": 500_000}, {"type": "DevTestConsumption"},
        {"productName": "Virtual Machines NDsr H100 v5 Series - Windows"}, {"productName": "NDsr H100 v5 Series WINDOWS"},
        {"productName": "NDsr H100 v5 Series Dedicated Host"}, {"productName": "Cloud Services NDsr H100"}, {"unitOfMeasure": "1 Month"},
        {"unitOfMeasure": "100 Hours"}, {"skuName": "ND96isrH100v5 Low Priority"}, {"tierMinimumUnits": 100.0},
    ],
)  # fmt: skip
def test_other_ways_to_buy_at_azure_are_other_prices(other: dict[str, Any]) -> None:
    found = azure_quotes(azure_item(), azure_item(**({"retailPrice": 11} | other)))
    assert [q.price for q in found if q.tier == "on_demand"] == [D("98.32")]


@pytest.mark.parametrize(
    "text",
    [
        "DWS Calendar Mode", "Calendar Mode", "Reserved", "Commitment v1: A2", "Sole Tenancy", "Custom", "Premium", "Capacity Optimized",
        "suspended", "dws defined duration",
    ],
)  # fmt: skip
def test_other_ways_to_buy_at_google_are_other_prices(text: str) -> None:
    for name in (f"Nvidia Tesla A100 GPU {text} running in Americas", f"{text} Nvidia Tesla A100 GPU running in Americas"):
        assert gcp_prices(*A2, sku(name, "1.1"))["a2-highgpu-1g", "us-central1", "on_demand"] == D("3.633908"), name


@pytest.mark.parametrize("tags", [(), ("coming_soon",), ("active", "coming_soon"), ("inactive",), ("legacy",)])
def test_what_ovh_does_not_sell_is_not_there(tags: tuple[str, ...]) -> None:
    rows = ovh(addon("t1-45.consumption", 70_000_000, "0,70 €"), addon("h200-1.consumption", 76_000_000, "0,76 €", tags=tags))
    assert [q.sku for q in quotes(rows)] == ["t1-45"]


@pytest.mark.parametrize("printed", ["15,58 €", "155.82 €", "0,16 €", "1.60 €"])
def test_ovhs_two_prices_must_be_one(printed: str) -> None:
    rows = ovh(addon("t1-45.consumption", 70_000_000, "0,70 €"), addon("t2-45.consumption", 155_819_000, printed))
    assert [q.sku for q in quotes(rows)] == ["t1-45"]


# --- stock ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stock", [{}, {"gpu_plans": {}}, {"gpu_plans": {"GPU-8xCPU-64GB-1xL40S": {"amount": -1}}}])
def test_a_zone_that_tells_no_stock_sells_nothing_for_sure(stock: dict[str, Any]) -> None:
    plan = "GPU-8xCPU-64GB-1xL40S"
    zones = [{"name": zone, f"server_plan_{plan}": {"amount": 1, "price": 111.1607}} for zone in ("fi-hel2", "au-syd1")]
    bodies = ({"prices": {"currency": "EUR", "zone": zones}}, {"fi-hel2": {"gpu_plans": {plan: {"amount": 1}}}, "au-syd1": stock})
    rows = read(upcloud, *bodies, urls=("https://api/1.3/price", "https://api/1.3/device/availability?type=gpu"))
    assert {q.region: q.availability for q in quotes(rows)}.get("au-syd1") not in OfferPolicy().availabilities


@pytest.mark.parametrize(
    "told", [{"rentable": False}, {"rented": True}, {"verification": "deverified"}, {"verification": "Verified"}, {"verification": None}]
)
def test_what_nobody_can_rent_or_vouches_for_is_not_ranked(told: dict[str, Any]) -> None:
    found = vast_quotes(vast_offer(machine_id=2, dph_total=0.2, **told), vast_offer())
    ranked = [q for q in found if q.trust in OfferPolicy().trusts and q.availability in OfferPolicy().availabilities]
    assert [q.price for q in ranked] == [D("1.00148")]
