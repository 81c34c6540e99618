"""Faults of Amazon's price files, APIs and catalogues of them that are on record, as small inputs of our own with their right values.

The numbers in the names are those of the list of faults; each test says where the fault happened.
"""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal

from faults import catalogue as catalogue
from faults import db as db
from faults import quotes, read
from faults import watched as watched
from guarded import Watched, offer

from scrapers import aws, aws_spot, skypilot
from scrapers.contract import GpuQuote
from tracker.database.rows import OfferRow
from tracker.facts.catalogue import Catalogue
from tracker.sweeps.resolve import Refused, resolve_gpu

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


def test_case_2_a_type_tells_its_count_where_the_api_counts_0(catalogue: Catalogue) -> None:
    """skypilot PR 6722: the API counted 0 GPUs in p5.4xlarge."""
    assert catalogue.instances["aws", "p5.4xlarge"].gpu_count == 1
    quote = GpuQuote(
        provider="aws", sku="p5.4xlarge", gpu="H100", gpu_count=0, tier="on_demand", price=Decimal("6.88"), per="node_hour", currency="USD"
    )
    row = resolve_gpu(quote, "aws", catalogue, "")
    assert isinstance(row, OfferRow)
    assert (row.gpu_count, row.native_per_hour) == (1, Decimal("6.88"))
    unknown = resolve_gpu(replace(quote, sku="p9.4xlarge"), "aws", catalogue, "")
    assert isinstance(unknown, Refused) and unknown.reason == "gpu count out of range"


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
