"""Google Cloud: pages by token, the machine types against a list kept by others, and SKUs as they were in 2023."""

from __future__ import annotations

import csv
import gzip
from decimal import Decimal
from pathlib import Path

import pytest
from asked import Asked

from scrapers import gcp
from scrapers.contract import GpuQuote, LayoutChanged, Page


def test_pages_are_followed_by_their_token() -> None:
    client = Asked({"skus": [], "nextPageToken": "NTAwMA=="}, {"skus": [], "nextPageToken": ""})
    assert len(gcp.fetch(client, {"key": "k"})) == 2
    assert client.asked[0][2]["currencyCode"] == "USD"
    assert client.asked[1][2]["pageToken"] == "NTAwMA=="


def test_a_token_without_end_is_an_error() -> None:
    with pytest.raises(LayoutChanged, match="nextPageToken goes on"):
        gcp.fetch(Asked({"skus": [], "nextPageToken": "again"}), {"key": "k"})


@pytest.mark.shared
def test_skus_of_2023(shared: Path) -> None:
    """Read in the raw file: core, memory and GPU of A2 in USD for three regions, and four SKUs of other machines in IDR.

    12 x 0.031611 + 85 x 0.004237 + 2.933908 = 3.673385, and sixteen GPUs with 96 vCPUs and 1360 GiB 55.739504.
    """
    body = (shared / "recorded/gpu-clouds/gcp/cloudbilling_skus_2023.json").read_bytes()
    rows = list(gcp.parse([Page(url="https://cloudbilling.googleapis.com/v1/services/6F81-5844-456A/skus", body=body)]))
    quotes = {(row.sku, row.region): row.price for row in rows if isinstance(row, GpuQuote)}
    assert len(rows) == len(quotes) == 5 * 3
    assert {quotes["a2-highgpu-1g", region] for region in ("us-central1", "us-east1", "us-west1")} == {Decimal("3.673385")}
    assert quotes["a2-megagpu-16g", "us-central1"] == Decimal("55.739504")


def shapes(shared: Path) -> dict[str, tuple[int, int, int, int]]:
    """vCPUs, GiB, GPUs and GiB of bundled SSD by machine type, from the list kept by others ("a100-80gb=1;local=375")."""
    found = {}
    with gzip.open(shared / "series/gpu-clouds/gcp_monthly_2022_2025.csv.gz", "rt", newline="") as file:
        for row in csv.DictReader(file):
            amounts = dict(part.split("=") for part in row["accelerators"].split(";"))
            local = int(amounts.pop("local", 0))  # noted in some months; never for A3
            (gpus,) = amounts.values()
            ssd = max(local, found.get(row["machine_type"], (0, 0, 0, 0))[3])
            found[row["machine_type"]] = (int(row["vcpu"]), int(row["ram_gb"]), int(gpus), ssd)
    return found


@pytest.mark.shared
def test_machine_types_are_those_of_the_list_kept_by_others(shared: Path) -> None:
    compared = 0
    for sku, shape in shapes(shared).items():
        if sku in gcp.MACHINES:
            machine = gcp.MACHINES[sku]
            amounts = {part.rpartition(" ")[2]: amount for part, amount in machine.parts.items()}
            assert (amounts["core"], amounts["ram"], machine.gpu_count) == shape[:3], sku
            assert sku.startswith("a3-") or machine.parts.get(gcp.SSD, 0) == shape[3], sku
            compared += 1
    assert compared >= 15


@pytest.mark.shared
def test_local_ssds_explain_the_published_price(shared: Path) -> None:
    """a2-ultragpu-1g in us-central1 is 5.06879789041096 in that list (2025-12-25): core 0.031611 x 12, memory 0.004237 x 170 and the GPU
    leave what 375 GiB at 0.08 USD a month (730 hours) cost: the GPU's price is 3.92806808... only with them."""
    parts = gcp.MACHINES["a2-ultragpu-1g"].parts
    rest = Decimal("5.06879789041096") - 12 * Decimal("0.031611") - 170 * Decimal("0.004237") - parts[gcp.SSD] * Decimal("0.08") / 730
    eight = Decimal("40.5503831232877") - 96 * Decimal("0.031611") - 1360 * Decimal("0.004237")
    assert parts[gcp.SSD] == 375 and gcp.MACHINES["a2-ultragpu-8g"].parts[gcp.SSD] == 8 * 375
    assert round(rest, 8) == round((eight - 3000 * Decimal("0.08") / 730) / 8, 8)
