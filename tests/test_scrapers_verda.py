"""Verda: the recorded instance types of 2026-08."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from scrapers import verda
from scrapers.contract import GpuQuote, Page


@pytest.mark.shared
def test_the_recorded_types(shared: Path) -> None:
    """Read in the raw file: four types, one of them a CPU node; prices are text and stand for the whole instance."""
    body = (shared / "recorded/gpu-markets/verda_instance_types_4.json").read_bytes()
    rows = list(verda.parse([Page(url="https://api.datacrunch.io/v1/instance-types", body=body)]))
    quotes = {(row.sku, row.tier): (row.gpu, row.gpu_count, row.price, row.currency) for row in rows if isinstance(row, GpuQuote)}
    assert quotes == {
        ("1H100.80S.30V", "on_demand"): ("H100 SXM5 80GB", 1, Decimal("3.95"), "USD"),
        ("1H100.80S.30V", "spot"): ("H100 SXM5 80GB", 1, Decimal("1.70"), "USD"),
        ("2A6000.20V", "on_demand"): ("RTX A6000 48GB", 2, Decimal("1.98"), "USD"),
        ("2A6000.20V", "spot"): ("RTX A6000 48GB", 2, Decimal("0.70"), "USD"),
        ("1V100.6V", "on_demand"): ("Tesla V100 16GB", 1, Decimal("0.89"), "USD"),
        ("1V100.6V", "spot"): ("Tesla V100 16GB", 1, Decimal("0.25"), "USD"),
    }
    assert len(rows) == len(quotes)
