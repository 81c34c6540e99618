"""Faults of units, counts and names of GPUs that are on record, as small inputs of our own with their right values.

The numbers in the names are those of the list of faults; each test says where the fault happened.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from faults import catalogue as catalogue
from faults import db as db
from faults import watched as watched

from scrapers.contract import GpuQuote
from tracker.database.rows import OfferRow
from tracker.facts.catalogue import Catalogue
from tracker.sweeps.resolve import resolve_gpu


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
