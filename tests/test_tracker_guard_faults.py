"""Every fault of rental prices on record that can be reproduced, as a small input of our own with its right value.

The numbers are those of the list of 56 faults of cloud catalogues and of the 40 of marketplaces that this project was started from;
each test names the fault and the project it happened in. ``test_every_case_is_here`` holds them equal to that list.
"""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from guarded import Watched, neighbours, offer
from sqlalchemy import Engine

from engine.offers import OfferPolicy
from scrapers import aws, aws_spot, azure, coreweave, crusoe, gcp, gpuhunt, nebius, ovhcloud, runpod, scaleway, skypilot, upcloud, vast
from scrapers.contract import GpuQuote, Page, Row, Skipped
from scrapers.exchange import retry_after_s
from tracker.catalogue import Catalogue, load_catalogue
from tracker.database import migrate, open_database
from tracker.guard.bands import parts_fault
from tracker.paths import config_dir
from tracker.resolve import Refused, resolve_gpu
from tracker.rows import OfferRow

T0 = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load_catalogue(config_dir())


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Engine]:
    handle = open_database(f"sqlite:///{tmp_path / 'book.db'}")
    migrate(handle)
    yield handle
    handle.dispose()


@pytest.fixture
def watched(db: Engine) -> Watched:
    return Watched(db)


def read(module: ModuleType, *bodies: Any, url: str = "https://x/y", urls: Sequence[str] = ()) -> list[Row]:
    """Rows of a parser from bodies: text, bytes, or values written as JSON."""
    raw = [b if isinstance(b, bytes) else b.encode() if isinstance(b, str) else json.dumps(b).encode() for b in bodies]
    pages = [Page(url=u, body=body, fetched_at=T0) for u, body in zip(urls or [url] * len(raw), raw, strict=True)]
    return list(module.parse(pages))


def quotes(rows: Sequence[Row]) -> list[GpuQuote]:
    return [row for row in rows if isinstance(row, GpuQuote)]


def skipped(rows: Sequence[Row]) -> list[str]:
    return [row.reason for row in rows if isinstance(row, Skipped)]


# --- AWS --------------------------------------------------------------------------------------------------------------------

AWS_HEADER = [
    "SKU",
    "TermType",
    "Unit",
    "PricePerUnit",
    "Currency",
    "Instance Type",
    "Tenancy",
    "Operating System",
    "License Model",
    "CapacityStatus",
    "GPU",
    "Pre Installed S/W",
    "MarketOption",
    "Region Code",
]


def aws_file(*rows: dict[str, str]) -> str:
    """An offer file: a header and rows that are ordinary p5.48xlarge prices but for what is told."""
    plain = dict(
        zip(
            AWS_HEADER,
            (
                "A1",
                "OnDemand",
                "Hrs",
                "55.0400000000",
                "USD",
                "p5.48xlarge",
                "Shared",
                "Linux",
                "No License required",
                "Used",
                "8",
                "NA",
                "OnDemand",
                "us-east-1",
            ),
            strict=True,
        )
    )
    lines = [AWS_HEADER, *([(plain | row)[column] for column in AWS_HEADER] for row in rows)]
    return "\n".join(",".join(f'"{cell}"' for cell in line) for line in lines) + "\n"


def test_case_1_a_vendor_word_is_no_gpu(catalogue: Catalogue) -> None:
    """skypilot 4652: p5en.48xlarge's GPU was read as "NVIDIA"."""
    assert catalogue.gpu_for("aws", "aws", "NVIDIA", sku="p5en.48xlarge") == "nvidia-h200-sxm-141"
    assert catalogue.instances["aws", "p5en.48xlarge"].gpu_count == 8
    assert catalogue.gpu_for("aws", "aws", "NVIDIA", sku="p9.48xlarge") is None


def test_case_2_a_count_of_0_is_an_error_and_the_list_of_types_knows_better(catalogue: Catalogue) -> None:
    """skypilot PR 6722: the API counted 0 GPUs in p5.4xlarge."""
    assert catalogue.instances["aws", "p5.4xlarge"].gpu_count == 1
    quote = GpuQuote(
        provider="aws", sku="p5.4xlarge", gpu="H100", gpu_count=0, tier="on_demand", price=Decimal("6.88"), per="node_hour", currency="USD"
    )
    assert isinstance(resolve_gpu(quote, "aws", catalogue, ""), Refused)


def test_case_3_capacity_blocks_at_0_are_no_price() -> None:
    """skypilot 4657, gpuhunt PR 36: rows of capacity blocks of p4d and p5e are printed at 0.0000000000."""
    rows = read(
        aws, aws_file({}, {"SKU": "B2", "Instance Type": "p5e.48xlarge", "MarketOption": "CapacityBlock", "PricePerUnit": "0.0000000000"})
    )
    assert [(q.sku, q.price) for q in quotes(rows)] == [("p5.48xlarge", Decimal("55.04"))]


SKYPILOT = "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,AvailabilityZone\n"
SKYPILOT_URL = "https://x/skypilot-org/skypilot-catalog/master/catalogs/v8/aws/vms.csv"


def test_case_4_a_type_without_an_on_demand_price_is_sold_as_spot() -> None:
    """skypilot 8451: dropping rows without an on-demand price made p5e invisible."""
    rows = read(skypilot, SKYPILOT + "p5e.48xlarge,H200,8.0,192,2048,,,18.7359,us-east-2,use2-az3\n", url=SKYPILOT_URL)
    assert [(q.sku, q.tier, q.price) for q in quotes(rows)] == [("p5e.48xlarge", "spot", Decimal("18.7359"))]


def test_case_8_fractions_of_an_l4_are_slices(catalogue: Catalogue) -> None:
    """ec2instances.info 852, gpuhunt PR 164: g6f has an eighth, a fourth or a half of an L4 and is counted as one, or none."""
    assert {catalogue.instances["aws", f"g6f.{size}"].gpu_count for size in ("large", "2xlarge", "4xlarge")} == {
        Decimal("0.125"),
        Decimal("0.25"),
        Decimal("0.5"),
    }
    rows = read(aws, aws_file({}, {"SKU": "B2", "Instance Type": "g6f.large", "GPU": "0.125", "PricePerUnit": "0.2020000000"}))
    assert all(q.is_slice for q in quotes(rows) if q.sku == "g6f.large")
    assert catalogue.gpu_for("aws", "aws", "L4", sku="g6f.large") is None


def test_case_29_memory_is_ours_not_the_catalogues(catalogue: Catalogue) -> None:
    """aws-cli 8970: L4 was told as 22,888 MiB; nvidia-smi says 23,034."""
    l4 = catalogue.gpus["nvidia-l4"]
    assert l4.memory_bytes == 23_034 * 2**20


def test_case_31_an_unknown_type_is_listed_as_unmapped(catalogue: Catalogue) -> None:
    """ec2instances.info 705: a table kept by hand lags behind; a new type had no model and 0 memory."""
    (quote,) = quotes(read(aws, aws_file({"Instance Type": "p9.48xlarge"})))
    refused = resolve_gpu(quote, "aws", catalogue, "")
    assert isinstance(refused, Refused)
    assert (refused.reason, refused.unmapped) == ("unmapped gpu", ("gpu", "p9.48xlarge"))


def test_case_33_another_licence_is_another_price() -> None:
    """ec2instances.info 8c7d45da: Windows with one's own licence priced like Linux, and the last row won."""
    others = [
        {"Operating System": "Windows"},
        {"License Model": "Bring your own license"},
        {"Pre Installed S/W": "SQL Std"},
        {"Tenancy": "Dedicated"},
    ]
    rows = read(aws, aws_file({}, *({"SKU": f"B{n}", "PricePerUnit": "99.0"} | other for n, other in enumerate(others))))
    assert [q.price for q in quotes(rows)] == [Decimal("55.04")]


def test_case_34_a_source_that_is_gone_for_moments_keeps_its_prices(watched: Watched) -> None:
    """ec2instances.info 03659ef9: the pricing index answered 404 for moments."""
    watched.sweep(0, offer("55.04"), source="aws")
    watched.sweep(15, status="failed", source="aws", error="HTTP 404 Not Found")
    watched.sweep(30, offer("55.04"), source="aws")
    assert (watched.prices("aws"), watched.seen()) == ({"H200": "55.04"}, 30)


def spot_js(**prices: str) -> str:
    sizes = [
        {"size": size.replace("_", "."), "valueColumns": [{"name": "linux", "prices": {"USD": price}}]} for size, price in prices.items()
    ]
    regions = [{"region": "us-east", "instanceTypes": [{"type": "gpuInstances", "sizes": sizes}]}]
    config = {"rate": "perhr", "valueColumns": ["linux", "mswin"], "currencies": ["USD"], "regions": regions}
    return f"callback({json.dumps({'vers': 0.01, 'config': config})});"


def test_case_36_not_available_is_no_price() -> None:
    """spotinfo 2: "N/A*" was read as 0."""
    rows = read(aws_spot, spot_js(p5_48xlarge="9.667", g6_xlarge="N/A*"))
    assert [(q.sku, q.price) for q in quotes(rows)] == [("p5.48xlarge", Decimal("9.667"))]


def test_case_37_a_spot_price_equal_to_on_demand_is_kept(watched: Watched) -> None:
    """skypilot catalogue: p5en in ap-south-1 is 75.9552 both; in eu-south-2 spot is exactly a tenth."""
    node = dict(provider="aws", gpu_count=8, source_url="")
    for region, spot in (("ap-south-1", "75.9552"), ("eu-south-2", "7.59552")):
        watched.sweep(
            0 if region == "ap-south-1" else 1,
            offer("75.9552", region=region, **node),
            offer(spot, region=region, tier="spot", **node),
            source="aws" if region == "ap-south-1" else "gpuhunt",
        )
    assert sorted(f"{e.value.usd_per_hour:f}" for e in watched.book().offers) == ["7.59552", "75.9552", "75.9552", "75.9552"]


def test_case_38_spot_above_on_demand_is_real_on_aws(watched: Watched) -> None:
    """karpenter 3183, 4923."""
    node = dict(provider="aws", region="us-east-1", gpu="nvidia-a10g", sku="g5.xlarge")
    watched.sweep(0, offer("1.006", **node), offer("1.21", tier="spot", **node), source="aws")
    assert len(watched.book().offers) == 2
    with watched.db.connect() as connection:
        (warned,) = connection.exec_driver_sql("select warned from sweep").scalars()
    assert json.loads(warned) == {"spot price above on demand": 1}


# --- Azure ------------------------------------------------------------------------------------------------------------------


def azure_item(**told: Any) -> dict[str, Any]:
    return {
        "currencyCode": "USD",
        "tierMinimumUnits": 0.0,
        "retailPrice": 98.32,
        "armRegionName": "eastus",
        "unitOfMeasure": "1 Hour",
        "effectiveStartDate": "2024-01-01T00:00:00Z",
        "meterName": "ND96isrH100v5",
        "skuName": "ND96isrH100v5",
        "type": "Consumption",
        "productName": "Virtual Machines NDsr H100 v5 Series",
        "armSkuName": "Standard_ND96isr_H100_v5",
    } | told


def azure_quotes(*items: dict[str, Any]) -> list[GpuQuote]:
    return quotes(read(azure, {"Items": list(items)}))


def test_case_6_counts_come_from_the_type(catalogue: Catalogue) -> None:
    """skypilot-catalog PR 50: vCPUs / 8 made 12 GPUs of ND96isr_H100_v5."""
    (quote,) = azure_quotes(azure_item())
    assert quote.gpu_count == 8
    assert catalogue.instances["azure", "Standard_ND96isr_H100_v5"].gpu_count == 8


@pytest.mark.parametrize(("size", "share"), [("NV6ads", 6), ("NV12ads", 3), ("NV18ads", 2)])
def test_case_7_a_sixth_of_an_a10_is_a_slice(catalogue: Catalogue, size: str, share: int) -> None:
    """skypilot 3708: the size list says one GPU."""
    sku = f"Standard_{size}_A10_v5"
    quote, _ = azure_quotes(azure_item(armSkuName=sku, retailPrice=0.454), azure_item())
    assert quote.is_slice
    assert abs(catalogue.instances["azure", sku].gpu_count * share - 1) < Decimal("0.01")
    assert catalogue.gpu_for("azure", "azure", sku, sku=sku) is None


def test_case_22_a_price_of_0_is_none() -> None:
    """gpuhunt 405a152."""
    assert [q.price for q in azure_quotes(azure_item(retailPrice=0.0, armRegionName="westus3"), azure_item())] == [Decimal("98.32")]


def test_case_23_linux_windows_and_spot_share_a_name() -> None:
    """azure-docs 72349: of 98.32, 102.736 and 18.17 the wrong one was taken."""
    found = azure_quotes(
        azure_item(),
        azure_item(retailPrice=102.736, productName="Virtual Machines NDsr H100 v5 Series Windows"),
        azure_item(retailPrice=18.169536, skuName="ND96isrH100v5 Spot", meterName="ND96isrH100v5 Spot"),
        azure_item(retailPrice=60, skuName="ND96isrH100v5 Low Priority", meterName="ND96isrH100v5 Low Priority"),
    )
    assert [(q.tier, q.price) for q in found] == [("on_demand", Decimal("98.32")), ("spot", Decimal("18.169536"))]


@pytest.mark.parametrize(
    "product",
    [
        "Virtual Machines NCCadsv5 Srs Win",
        "Virtual Machines NDsr H100 v5 Series Windows",
        "NDsr H100 v5 Series CloudServices",
        "NDsr Cloud Services",
    ],
)
def test_case_24_win_is_windows(product: str) -> None:
    """skypilot's fetch_azure: a product that ends in "Srs Win" passes a filter for "Windows"."""
    assert [q.price for q in azure_quotes(azure_item(productName=product, retailPrice=11), azure_item())] == [Decimal("98.32")]


def test_case_26_whole_families_that_vanish_for_days_keep_their_prices(watched: Watched) -> None:
    """azure-docs 73461."""
    from test_tracker_guard_sweeps import refused

    rows = [offer("20", sku=f"D{n}", gpu_count=8) for n in range(10)] + [offer("30", sku=f"E{n}", gpu_count=8) for n in range(5)]
    watched.sweep(0, *rows, source="azure")
    for minutes in (15, 30, 45):
        assert "5 of 15 listed prices vanished at once" in refused(watched, minutes, *rows[:10], source="azure")
    assert len(watched.prices("azure")) == 15


def test_case_27_the_filter_speaks_odata() -> None:
    """A | in $filter is answered with 400."""
    assert "|" not in azure.FILTER
    assert set(re.findall(r"'\s+(\w+)\s+\w", azure.FILTER)) <= {"and", "or"}


def test_case_28_every_row_has_its_currency() -> None:
    """azure-pricer 10: 1.7000928 EUR beside 2.016 USD."""
    found = azure_quotes(azure_item(retailPrice=2.016), azure_item(retailPrice=1.7000928, currencyCode="EUR", armRegionName="westeurope"))
    assert [(q.currency, q.price) for q in found] == [("USD", Decimal("2.016")), ("EUR", Decimal("1.7000928"))]


def test_case_52_memory_is_per_gpu(catalogue: Catalogue) -> None:
    """kaito PR 1098: ND96amsr_A100_v4 had 80 GB instead of 8 x 80."""
    instance = catalogue.instances["azure", "Standard_ND96amsr_A100_v4"]
    gpu = catalogue.gpus[instance.gpu]
    assert (instance.gpu_count, gpu.memory_bytes) == (8, 81_920 * 2**20)


# --- Google Cloud -----------------------------------------------------------------------------------------------------------

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
    assert without_conflicts([row, row], {}, "gcp") == ([row], {})
    single, several = without_conflicts([row, off], {}, "gcp")
    assert (single, [len(rows) for rows in several.values()]) == ([], [2])


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


# --- units of price and counts ---------------------------------------------------------------------------------------------


def hourly(catalogue: Catalogue, price: str, per: str, gpus: int = 8, **told: Any) -> Decimal:
    """What an offer costs an hour, from a quote in another unit."""
    quote = GpuQuote(
        provider="p", sku="s", gpu="H100 SXM", gpu_count=gpus, tier="on_demand", price=Decimal(price), per=per, currency="USD", **told
    )  # type: ignore[arg-type]
    row = resolve_gpu(quote, "any", catalogue, "")
    assert isinstance(row, OfferRow)
    return row.native_per_hour


def test_case_39_a_price_is_that_of_the_whole_offer(catalogue: Catalogue) -> None:
    """opencost 723: the node's price was taken for each of its GPUs."""
    assert hourly(catalogue, "98.32", "node_hour") == Decimal("98.32")
    assert hourly(catalogue, "12.29", "gpu_hour") == Decimal("98.32")


def test_market_2_every_price_carries_its_unit(catalogue: Catalogue) -> None:
    """dstack 1890: a bid for the instance where the interface wants one per GPU: 1.28 shown, 10.24 billed."""
    assert hourly(catalogue, "1.28", "gpu_hour") == Decimal("10.24")


def test_case_53_memory_of_a_catalogue_does_not_count(catalogue: Catalogue) -> None:
    """gpuhunt: MI325X with 288 GB and MI308X with 128; they have 256 and 192."""
    gib = 2**30
    assert round(catalogue.gpus["amd-mi325x"].memory_bytes / gib) == 256
    assert round(catalogue.gpus["amd-mi308x"].memory_bytes / gib) == 192
    assert catalogue.gpu_for("gpuhunt", "hotaisle", "MI325X", memory_gb=Decimal(288)) == "amd-mi325x"


def test_case_51_four_cards_called_6000(catalogue: Catalogue) -> None:
    """cloud-gpus PR 37: RTX A6000, Quadro RTX 6000 and RTX 6000 Ada have 48, 24 and 48 GB."""
    names = {
        "RTX A6000": "nvidia-rtx-a6000",
        "RTX 6000 Ada": "nvidia-rtx-6000-ada",
        "NVIDIA RTX 6000 Ada Generation": "nvidia-rtx-6000-ada",
    }
    assert {name: catalogue.gpu_for("x", "x", name) for name in names} == names
    assert catalogue.gpu_for("x", "x", "RTX 6000") is None


# --- Scaleway, OVHcloud, UpCloud --------------------------------------------------------------------------------------------


def scaleway_rows(**servers: dict[str, Any]) -> list[Row]:
    plain = {
        "gpu": 1,
        "gpu_info": {"gpu_name": "L4", "gpu_memory": 24 * 2**30},
        "hourly_price": 0.75,
        "mig_profile": None,
        "end_of_service": False,
    }
    listed = {name.replace("_", "-"): plain | told for name, told in servers.items()}
    return read(scaleway, {"servers": listed}, url="https://api/instance/v1/zones/fr-par-2/products/servers?page=1")


def test_case_42_a_placeholder_is_no_price() -> None:
    """Scaleway 2023-09-14: L4-1-24G at 0.01, and types TEST1-S, -M and -L with a GPU."""
    rows = scaleway_rows(L4_1_24G={"hourly_price": 0.01}, TEST1_S={"hourly_price": 0.5}, L4_2_24G={"gpu": 2, "hourly_price": 1.5})
    assert [q.sku for q in quotes(rows)] == ["L4-2-24G"]


def test_case_43_a_mig_slice_is_no_gpu(catalogue: Catalogue) -> None:
    """Scaleway 2023-09-14: H100-MIG-20G with gpu 1 at 0.98."""
    info = {"gpu_name": "H100-PCIe", "gpu_memory": 20 * 2**30}
    quote, _ = quotes(scaleway_rows(H100_MIG_20G={"mig_profile": "2g.20gb", "hourly_price": 0.98, "gpu_info": info}, L4_1_24G={}))
    assert quote.is_slice


def test_case_44_without_gpu_info_the_type_says_which_gpu(catalogue: Catalogue) -> None:
    """Scaleway until 2025: a count and no name."""
    found = {q.sku: q for q in quotes(scaleway_rows(H100_1_80G={"gpu_info": None, "hourly_price": 2.52}, NEW_1_80G={"gpu_info": None}))}
    row = resolve_gpu(found["H100-1-80G"], "scaleway", catalogue, "")
    assert isinstance(row, OfferRow)
    assert (row.gpu, row.native_per_hour) == ("nvidia-h100-pcie-80", Decimal("2.52"))
    assert isinstance(resolve_gpu(found["NEW-1-80G"], "scaleway", catalogue, ""), Refused)


def addon(
    plan: str, price: int, printed: str, *, unit: str = "hour", os: str = "linux", tags: Sequence[str] = ("active",)
) -> dict[str, Any]:
    technical = {"gpu": {"model": "A10", "number": 1, "memory": {"size": 24}}, "os": {"family": os}}
    return {
        "planCode": plan,
        "product": "publiccloud-instance",
        "pricings": [{"intervalUnit": unit, "price": price, "formattedPrice": printed}],
        "blobs": {"commercial": {"brick": "gpu"}, "tags": list(tags), "technical": technical},
    }


def ovh(*addons: dict[str, Any], currency: str = "EUR") -> list[Row]:
    return read(ovhcloud, {"locale": {"currencyCode": currency}, "plans": [], "addons": list(addons)})


def test_case_46_the_us_catalogue_has_no_interval(catalogue: Catalogue) -> None:
    """OVHcloud US 2026-08: intervalUnit "none", interval 0; the suffix of the plan decides."""
    (quote,) = quotes(ovh(addon("t2-45.consumption", 180_000_000, "$1.80 USD", unit="none"), currency="USD"))
    assert (quote.price * quote.scale, quote.per, quote.currency) == (Decimal("1.8"), "node_hour", "USD")


def test_case_47_windows_and_what_is_coming_soon_are_not_sold() -> None:
    """OVHcloud 2026-08: a10-45 at 0.76 coming soon, win-t1-45 at 0.9776 beside t1-45 at 0.70."""
    rows = ovh(
        addon("t1-45.consumption", 70_000_000, "0,70 €"),
        addon("win-t1-45.consumption", 97_760_000, "0,98 €", os="windows"),
        addon("a10-45.consumption", 76_000_000, "0,76 €", tags=("active", "coming_soon")),
        addon("t1-le-45.consumption", 50_000_000, "0,50 €", tags=()),
    )
    assert [q.sku for q in quotes(rows)] == ["t1-45"]


def test_case_48_the_printed_price_is_rounded() -> None:
    """OVHcloud US: 155,819,000 is shown as "$1.56 USD"; another scale would show."""
    rows = ovh(addon("t2-45.consumption", 155_819_000, "$1.56 USD"), addon("t3-45.consumption", 155_819_000, "$15.58 USD"), currency="USD")
    assert [(q.sku, q.price * q.scale) for q in quotes(rows)] == [("t2-45", Decimal("1.55819"))]
    assert skipped(rows) == ["price and formattedPrice differ"]


def test_case_49_a_zone_without_stock_sells_nothing() -> None:
    """SpareCores PR 101: UpCloud prices GPU plans in zones that have none."""
    plan = "GPU-8xCPU-64GB-1xL40S"
    prices = {
        "prices": {
            "currency": "EUR",
            "zone": [{"name": zone, f"server_plan_{plan}": {"amount": 1, "price": 111.1607}} for zone in ("fi-hel2", "au-syd1")],
        }
    }
    stock = {"fi-hel2": {"gpu_plans": {plan: {"amount": 1}}}, "au-syd1": {"gpu_plans": {plan: {"amount": 0}}}}
    rows = read(upcloud, prices, stock, urls=("https://api/1.3/price", "https://api/1.3/device/availability?type=gpu"))
    assert {q.region: q.availability for q in quotes(rows)} == {"fi-hel2": "available", "au-syd1": "unavailable"}
    assert {q.price * q.scale for q in quotes(rows)} == {Decimal("1.111607")}


def test_case_54_too_many_requests_says_when_to_ask_again() -> None:
    """skypilot 5438: GitHub limits catalogue downloads."""
    assert retry_after_s("120", T0) == 120
    assert retry_after_s("Sun, 29 Nov 2026 12:05:00 GMT", T0) == 300


# --- marketplaces and pages -------------------------------------------------------------------------------------------------


def runpod_type(**told: Any) -> dict[str, Any]:
    return {
        "id": "NVIDIA H200",
        "displayName": "H200",
        "manufacturer": "Nvidia",
        "memoryInGb": 141,
        "secureCloud": True,
        "communityCloud": True,
        "securePrice": 3.99,
        "communityPrice": 3.59,
        "secureSpotPrice": None,
        "communitySpotPrice": None,
        "oneMonthPrice": None,
        "threeMonthPrice": None,
        "sixMonthPrice": None,
        "maxGpuCount": 8,
        "maxGpuCountSecureCloud": 8,
        "maxGpuCountCommunityCloud": 8,
        "secureStock": {"stockStatus": "High"},
        "communityStock": {"stockStatus": "High"},
        "secureStock8": {"stockStatus": "High"},
        "communityStock8": {"stockStatus": "High"},
    } | told


def runpod_quotes(**told: Any) -> list[GpuQuote]:
    return quotes(
        read(runpod, {"data": {"gpuTypes": [runpod_type(**told), runpod_type(id="NVIDIA L4", securePrice=0.49, communityPrice=0.44)]}})
    )


def test_market_1_two_clouds_are_two_offers(watched: Watched) -> None:
    """dstack 1886: the community price of 0.98 shown, the secure one of 1.52 billed."""
    found = {(q.trust, q.price) for q in runpod_quotes(securePrice=1.52, communityPrice=0.98) if q.gpu == "NVIDIA H200"}
    assert {("datacenter", Decimal("1.52")), ("community", Decimal("0.98"))} <= found
    assert "community" not in OfferPolicy().trusts


def test_market_4_a_total_grows_with_the_count(watched: Watched) -> None:
    """skypilot-catalog PR 44: 1, 2, 4 and 8 RTX A6000 all at 0.79."""
    machines = [offer("0.79", sku=f"{n}x", gpu_count=n, gpu="nvidia-rtx-a6000") for n in (1, 2, 4, 8)]
    watched.sweep(0, *machines)
    assert watched.prices() == {"1x": "0.79"}


@pytest.mark.parametrize(
    ("printed", "name", "gpu"),
    [
        ("39936", "A100 SXM4", "nvidia-a100-sxm-40"),
        ("81920", "A100 SXM4", "nvidia-a100-sxm-80"),
        ("81559", "A100 SXM4", "nvidia-a100-sxm-80"),
    ],
)
def test_market_6_odd_memory_sizes_snap_to_known_ones(catalogue: Catalogue, printed: str, name: str, gpu: str) -> None:
    """gpuhunt 32, 91, PR 93: A100 with 39,936 MiB."""
    assert catalogue.gpu_for("vast", "vast", name, memory_gb=Decimal(printed) / 1024) == gpu


def vast_offer(**told: Any) -> dict[str, Any]:
    return {
        "id": 1,
        "host_id": 1,
        "machine_id": 1,
        "num_gpus": 1,
        "gpu_name": "A100 SXM4",
        "gpu_ram": 81920,
        "dph_total": 1.00148,
        "rentable": True,
        "rented": False,
        "is_bid": False,
        "verification": "verified",
        "reliability2": 0.99,
        "hosting_type": 0,
        "duration": 10**6,
        "resource_type": "gpu",
        "cpu_cores_effective": 8,
    } | told


def vast_quotes(*offers: dict[str, Any]) -> list[GpuQuote]:
    return quotes(read(vast, {"offers": list(offers)}))


def test_market_7_replies_say_mib(catalogue: Catalogue) -> None:
    """vast-cli PR 21: the command line counts GB x 1000, the answer MiB."""
    (quote,) = vast_quotes(vast_offer())
    assert quote.memory_gb == 80
    assert catalogue.gpu_for("vast", "vast", quote.gpu, memory_gb=quote.memory_gb) == "nvidia-a100-sxm-80"


def test_market_8_one_odd_row_does_not_end_the_source() -> None:
    """gpuhunt PR 84: cpu_cores null divided by zero."""
    found = vast_quotes(vast_offer(cpu_cores_effective=None), vast_offer(machine_id=2, num_gpus=0), vast_offer(machine_id=3, gpu_ram=None))
    assert [q.sku for q in found] == ["host 1 machine 1 x1", "host 1 machine 3 x1"]


def test_market_30_a_placeholder_of_a_slice_is_no_gpu(catalogue: Catalogue, watched: Watched) -> None:
    """An index of October 2026: RunPod's "B300 ... MIG 1g.34gb" at 0.50 counted as a B300 halved its price for a day."""
    name = "NVIDIA B300 SXM6 AC MIG 1g.34gb"
    quote = next(q for q in runpod_quotes(id=name, securePrice=0.5, communityPrice=0.5) if q.gpu == name)
    assert isinstance(resolve_gpu(quote, "runpod", catalogue, ""), Refused) or quote.is_slice
    assert catalogue.gpu_for("runpod", "runpod", name) is None
    placeholders = [
        q
        for q in runpod_quotes(id="AMD Instinct MI300X OAM", securePrice=2.39, communityPrice=0.5, communityCloud=False)
        if "MI300X" in q.gpu
    ]
    assert {q.price for q in placeholders} == {Decimal("2.39")}


def test_market_31_more_providers_are_no_cheaper_setup(watched: Watched) -> None:
    """The same index: four more providers moved H100 from 3.82 to 4.02 with no price changed. What is ranked is the cheapest offer."""
    watched.sweep(0, offer("3.59"))
    neighbours(watched, ("4.99", "5.40", "6.10"))
    cheapest = min(entry.value.usd_per_hour for entry in watched.book().offers)
    assert cheapest == Decimal("3.59")


def test_market_32_a_column_with_a_date_holds_from_that_day(shared_recordings: Path) -> None:
    """Nebius, September 2026: "GPU-hour (Effective October 1, 2026)" was read as spot, and the new price as on demand, weeks early."""
    case = shared_recordings / "nebius" / "announced_price"
    pages = json.loads((case / "pages.json").read_text(encoding="utf-8"))
    rows = nebius.parse(
        [Page(url=p["url"], body=(case / p["file"]).read_bytes(), fetched_at=datetime.fromisoformat(p["fetched_at"])) for p in pages]
    )
    by_start = {q.valid_from is None: q.price for q in quotes(list(rows)) if q.tier == "on_demand" and "B300" in q.gpu}
    assert len(by_start) == 2 and by_start[True] != by_start[False]


@pytest.fixture
def shared_recordings() -> Path:
    return Path(__file__).parent / "recorded"


def test_market_34_without_the_field_that_verifies_nobody_is_verified() -> None:
    """Sixty snapshots without the filter: H100 SXM from 0.28 to 1.80 within three days."""
    bare = {k: v for k, v in vast_offer(dph_total=0.2809).items() if k not in ("verification", "reliability2", "hosting_type")}
    assert [q.trust for q in vast_quotes(bare, vast_offer(machine_id=2, reliability2=0.57))] == ["unverified", "unverified"]
    assert "unverified" not in OfferPolicy().trusts


def recorded(name: str, case: str, module: ModuleType) -> list[Row]:
    folder = Path(__file__).parent / "recorded" / name / case
    pages = json.loads((folder / "pages.json").read_text(encoding="utf-8"))
    return list(module.parse([Page(url=p["url"], body=(folder / p["file"]).read_bytes(), fetched_at=T0) for p in pages]))


def test_market_36_footnotes_copies_and_contact_sales() -> None:
    """CoreWeave: a count of "4^1", a blank price with "Contact sales", every value twice, a price per CPU beside the GPU's."""
    rows = recorded("coreweave", "footnotes", coreweave)
    assert quotes(rows) and all(q.gpu_count == 4 for q in quotes(rows) if "gb200" in q.sku)
    normal = recorded("coreweave", "normal", coreweave)
    assert "contact sales" in skipped(normal)
    names = [(q.sku, q.region, q.tier) for q in quotes(normal)]
    assert len(names) == len(set(names))


def test_market_38_a_price_that_is_not_printed_is_none() -> None:
    """gpuhunt shipped an estimated 7.25 for Crusoe's B200, and 1.95 for an A100 that stood at 2.30; the page said "Contact sales"."""
    rows = recorded("crusoe", "normal", crusoe)
    assert "contact sales" in skipped(rows)
    assert not any("B200" in q.gpu and q.tier == "on_demand" for q in quotes(rows)) or Decimal("7.25") not in {
        q.price for q in quotes(rows)
    }


def test_gpuhunt_rows_that_repeat_or_reserve_are_left_out() -> None:
    """Beside the list: its catalogue carries previews and calendar reservations that look like prices on demand."""
    header = "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size,gpu_vendor,flags,cpu_arch,provider_data"
    lines = [
        "a4-highgpu-8g,us-central1,99.9,1,1,8,B200,180,False,,nvidia,gcp-dws-calendar-mode,,",
        "g2,us-central1,0.7,1,1,1,L4,24,False,,nvidia,,,",
    ]
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as archive:
        archive.writestr("gcp.csv", "\n".join([header, *lines]) + "\n")
    rows = read(gpuhunt, body.getvalue(), url="https://x/v3/gcp/20261129-1/catalog.zip")
    assert [q.sku for q in quotes(rows)] == ["g2"]


# --- the list ---------------------------------------------------------------------------------------------------------------

MARKET = {1, 2, 4, 6, 7, 8, 30, 31, 32, 34, 36, 38}  # those marked as reproducible


def numbers(prefix: str) -> set[int]:
    return {int(found[1]) for name in globals() if (found := re.match(rf"test_{prefix}_(\d+)_", name))}


@pytest.mark.shared
def test_every_case_is_here(shared: Path) -> None:
    with (shared / "facts/gpu_price_faults.csv").open(encoding="utf-8", newline="") as file:
        wanted = {int(line["n"]) for line in csv.DictReader(file) if line["reproducible_small_input"].lower() != "no"}
    assert numbers("case") == wanted
    assert numbers("market") == MARKET
