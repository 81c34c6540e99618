"""Akash: the documented answer, and that its prices are never more than an indication."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path

import pytest

from scrapers import akash
from scrapers.contract import GpuQuote, Page, Skipped


@pytest.mark.shared
def test_the_documented_answer(shared: Path) -> None:
    """Read in the documentation's example: four made-up GPUs, two without bids, medians 1.2 and 0.6."""
    text = (shared / "recorded/gpu-markets/documented/akash_gpu_prices_functional_test_expectation.txt").read_text()
    found = re.search(r"toEqual\((\{.*?\n      \})\);", text, re.DOTALL)
    assert found is not None
    body = re.sub(r"(?m)^(\s*)(\w+):", r'\1"\2":', found[1])
    rows = list(akash.parse([Page(url="https://console-api.akash.network/v1/gpu-prices", body=json.dumps(json.loads(body)).encode())]))
    quotes = [row for row in rows if isinstance(row, GpuQuote)]
    assert [(row.gpu, row.price) for row in quotes] == [("amd gpu3 8192 sxm", Decimal("1.2")), ("nvidia gpu0 1024 pcie", Decimal("0.6"))]
    assert {(row.price_kind, row.trust, row.gpu_count, row.max_gpu_count) for row in quotes} == {("indicative", "unverified", 1, None)}
    assert [row.reason for row in rows if isinstance(row, Skipped)] == ["no bids", "no bids"]
