"""SkyPilot: which files are asked for, and rows of the real catalogue."""

from __future__ import annotations

import csv
from decimal import Decimal
from pathlib import Path

import pytest
from asked import Asked

from scrapers import skypilot
from scrapers.contract import GpuQuote, LayoutChanged, Page

URL = "https://raw.githubusercontent.com/skypilot-org/skypilot-catalog/master/catalogs/v8/{}/vms.csv"


def test_files_that_price_parts_or_statistics_are_not_asked_for() -> None:
    client = Asked({})
    skypilot.fetch(client, {})
    asked = [path.split("/")[-2] for _, path, _, _ in client.asked]
    assert asked == list(skypilot.CLOUDS) and not {"gcp", "vast", "runpod"} & set(asked)


@pytest.mark.shared
def test_rows_of_the_aws_catalogue(shared: Path) -> None:
    """Counted with csv alone: distinct (type, region, price) on demand and distinct (type, zone, price) spot."""
    path = shared / "recorded/gpu-clouds/skypilot/aws_v8_p5e_p5en_p6_rows.csv"
    with path.open(newline="") as file:
        raw = list(csv.DictReader(file))
    on_demand = {(row["InstanceType"], row["Region"], Decimal(row["Price"])) for row in raw if row["Price"]}
    spot = {(row["InstanceType"], row["AvailabilityZone"], Decimal(row["SpotPrice"])) for row in raw if row["SpotPrice"]}
    rows = list(skypilot.parse([Page(url=URL.format("aws"), body=path.read_bytes())]))
    quotes = [row for row in rows if isinstance(row, GpuQuote)]
    assert {(q.sku, q.region, q.price) for q in quotes if q.tier == "on_demand"} == on_demand
    assert {(q.sku, q.region, q.price) for q in quotes if q.tier == "spot"} == spot
    assert len(rows) == len(on_demand) + len(spot)
    assert not any(q.sku == "p5e.48xlarge" and q.tier == "on_demand" for q in quotes), "p5e is sold as spot and in blocks only"


@pytest.mark.shared
@pytest.mark.parametrize(("name", "cloud"), [("gcp_v8_a100_rows.csv", "gcp"), ("oci_v8_gpu_shapes.csv", "oci")])
def test_parts_and_shapes_without_a_region_are_refused(shared: Path, name: str, cloud: str) -> None:
    """The GCP rows price an A100 on demand below its spot price (a DWS price): the file is not read at all."""
    body = (shared / "recorded/gpu-clouds/skypilot" / name).read_bytes()
    with pytest.raises(LayoutChanged):
        list(skypilot.parse([Page(url=URL.format(cloud), body=body)]))
