"""Nebius: the real page of September 2026, read before and after the day its announced prices begin."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from scrapers import nebius
from scrapers.contract import GpuQuote, Page, Skipped

PAGE = Path(__file__).parents[2] / "shared/recorded/gpu-markets/html/nebius_prices_2026-09.html"


def real_page(fetched_at: datetime) -> Page:
    if not PAGE.exists():
        pytest.skip(f"{PAGE} is not here")
    return Page(url="https://nebius.com/prices", body=PAGE.read_bytes(), fetched_at=fetched_at)


@pytest.mark.shared
def test_the_real_page_in_september() -> None:
    """Counted in the raw page: 14 amounts and 4 "Contact us" for 9 GPUs in two columns, 7 amounts in the preemptible list."""
    rows = list(nebius.parse([real_page(datetime(2026, 9, 20, tzinfo=UTC))]))
    quotes = {(row.gpu, row.tier, row.valid_from): row for row in rows if isinstance(row, GpuQuote)}
    assert [row.reason for row in rows if isinstance(row, Skipped)] == ["contact sales"] * 4
    assert len(rows) == 25 and len(quotes) == 21
    october = datetime(2026, 10, 1, tzinfo=UTC)
    # printed on the page, USD per GPU-hour
    assert quotes["NVIDIA HGX B300", "on_demand", None].price == Decimal("7.85")
    assert quotes["NVIDIA HGX B300", "on_demand", october].price == Decimal("9.50")
    assert quotes["NVIDIA HGX H100", "on_demand", None].price == Decimal("3.85")
    assert quotes["NVIDIA HGX H100", "spot", None].price == Decimal("0.79")


@pytest.mark.shared
def test_the_real_page_in_october_has_one_price_a_gpu() -> None:
    rows = list(nebius.parse([real_page(datetime(2026, 10, 1, tzinfo=UTC))]))
    quotes = {(row.gpu, row.tier): row for row in rows if isinstance(row, GpuQuote)}
    assert len(quotes) == 14 and sum(isinstance(row, GpuQuote) for row in rows) == 14
    assert quotes["NVIDIA HGX B300", "on_demand"].price == Decimal("9.50")
    assert quotes["NVIDIA HGX H200", "on_demand"].price == Decimal("5.40")
