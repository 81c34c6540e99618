"""Hyperstack: the real page of October 2026."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from scrapers import hyperstack
from scrapers.contract import GpuQuote, Page

PAGE = Path(__file__).parents[2] / "shared/recorded/gpu-markets/html/hyperstack_gpu_pricing_2026-10.html"


@pytest.mark.shared
def test_the_real_page() -> None:
    """Counted in the raw page: 13 dollar signs before the reservation block, one per GPU; the spot block was not recorded."""
    if not PAGE.exists():
        pytest.skip(f"{PAGE} is not here")
    rows = list(hyperstack.parse([Page(url="https://www.hyperstack.cloud/gpu-pricing", body=PAGE.read_bytes())]))
    quotes = {row.gpu: row for row in rows if isinstance(row, GpuQuote)}
    assert len(rows) == len(quotes) == 13
    assert {row.tier for row in quotes.values()} == {"on_demand"}
    # printed on the page, USD per GPU-hour
    assert quotes["NVIDIA H200 SXM"].price == Decimal("3.99")
    assert quotes["NVIDIA H100"].price == Decimal("2.50")
    assert quotes["NVIDIA B300"].price == Decimal("7.40")
