"""Faults of Azure's retail prices that are on record, as small inputs of our own with their right values.

The numbers in the names are those of the list of faults; each test says where the fault happened.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest
from faults import catalogue as catalogue
from faults import db as db
from faults import quotes, read
from faults import watched as watched
from guarded import Watched, offer

from scrapers import azure
from scrapers.contract import GpuQuote
from tracker.facts.catalogue import Catalogue


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
