"""Faults of marketplaces and of pages for people that are on record, as small inputs of our own with their right values.

The numbers in the names are those of the list of faults; each test says where the fault happened.
"""

from __future__ import annotations

import io
import zipfile
from decimal import Decimal
from typing import Any

import pytest
from faults import catalogue as catalogue
from faults import db as db
from faults import quotes, read, recorded, skipped
from faults import watched as watched
from guarded import Watched, neighbours, offer

from engine.offers import OfferPolicy
from scrapers import coreweave, crusoe, gpuhunt, nebius, runpod, vast
from scrapers.contract import GpuQuote
from tracker.facts.catalogue import Catalogue
from tracker.sweeps.resolve import Refused, resolve_gpu


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


def test_market_32_a_column_with_a_date_holds_from_that_day() -> None:
    """Nebius, September 2026: "GPU-hour (Effective October 1, 2026)" was read as spot, and the new price as on demand, weeks early."""
    rows = recorded("nebius", "announced_price", nebius)
    assert [(q.tier, q.price, q.valid_from and f"{q.valid_from:%Y-%m-%d}") for q in quotes(rows)] == [
        ("on_demand", Decimal("7.85"), None),
        ("on_demand", Decimal("9.50"), "2026-10-01"),
    ]


def test_market_34_without_the_field_that_verifies_nobody_is_verified() -> None:
    """Sixty snapshots without the filter: H100 SXM from 0.28 to 1.80 within three days."""
    bare = {k: v for k, v in vast_offer(dph_total=0.2809).items() if k not in ("verification", "reliability2", "hosting_type")}
    assert [q.trust for q in vast_quotes(bare, vast_offer(machine_id=2, reliability2=0.57))] == ["unverified", "unverified"]
    assert "unverified" not in OfferPolicy().trusts


def test_market_36_footnotes_copies_and_contact_sales() -> None:
    """CoreWeave: a count of "4^1", a blank price with "Contact sales", every value twice, a price per CPU beside the GPU's."""
    footnotes = quotes(recorded("coreweave", "footnotes", coreweave))
    assert [(q.sku, q.gpu_count, q.tier, q.price) for q in footnotes] == [
        ("a", 4, "on_demand", Decimal(42)),  # 4<sup>1</sup>
        ("b", 4, "on_demand", Decimal(42)),  # 4¹
        ("c", 8, "on_demand", Decimal(50)),  # 8 ^ 2
        ("c", 8, "spot", Decimal(6)),
    ]
    normal = recorded("coreweave", "normal", coreweave)
    assert "contact sales" in skipped(normal)
    names = [(q.sku, q.region, q.tier) for q in quotes(normal)]
    assert len(names) == len(set(names))


def test_market_38_a_price_that_is_not_printed_is_none() -> None:
    """gpuhunt shipped an estimated 7.25 for Crusoe's B200, and 1.95 for an A100 that stood at 2.30; the page said "Contact sales"."""
    rows = recorded("crusoe", "normal", crusoe)
    assert "contact sales" in skipped(rows)
    on_demand = {q.gpu: q.price for q in quotes(rows) if q.tier == "on_demand"}
    assert not any("B200" in gpu for gpu in on_demand)
    assert on_demand["NVIDIA A100 80GB PCIe"] == Decimal("2.00")  # the catalogue had a stale 1.65


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
