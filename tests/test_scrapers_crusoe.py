"""Crusoe: the real page of October 2026."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from scrapers import crusoe
from scrapers.contract import GpuQuote, Page, Skipped

PAGE = Path(__file__).parents[2] / "shared/recorded/gpu-markets/html/crusoe_pricing_2026-10.html"


@pytest.mark.shared
def test_the_real_page() -> None:
    """Counted in the raw page before "CPU instances pricing": 9 GPUs with two price cells each, 6 in $/GPU-hr and 12 "Contact sales"."""
    if not PAGE.exists():
        pytest.skip(f"{PAGE} is not here")
    rows = list(crusoe.parse([Page(url="https://www.crusoe.ai/cloud/pricing", body=PAGE.read_bytes())]))
    quotes = {(row.gpu, row.tier): row for row in rows if isinstance(row, GpuQuote)}
    assert [row.reason for row in rows if isinstance(row, Skipped)] == ["contact sales"] * 12
    assert len(rows) == 18 and len(quotes) == 6
    # printed on the page, USD per GPU-hour
    assert quotes["NVIDIA H200 141GB HGX", "on_demand"].price == Decimal("4.29")
    assert quotes["NVIDIA A100 80GB SXM", "on_demand"].price == Decimal("2.30")
    assert quotes["NVIDIA A100 80GB PCIe", "on_demand"].price == Decimal("2.00")
    assert quotes["AMD MI300X 192GB", "on_demand"].price == Decimal("3.45")
