"""Vultr: following the cursor, and recorded plans."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from scrapers import vultr
from scrapers.contract import GpuQuote, LayoutChanged, Page

RECORDED = Path(__file__).parents[2] / "shared/recorded/gpu-markets"


class FakeClient:
    def __init__(self, cursors: list[str]) -> None:
        self.cursors = cursors
        self.asked: list[tuple[str, dict[str, str | int]]] = []

    def get(self, path: str, *, params: Mapping[str, str | int] | None = None, headers: Mapping[str, str] | None = None) -> Page:
        self.asked.append((path, dict(params or {})))
        cursor = self.cursors.pop(0) if self.cursors else ""
        return Page(url=path, body=json.dumps({"plans": [], "meta": {"links": {"next": cursor}}}).encode())

    def post(self, path: str, *, json: Any, headers: Mapping[str, str] | None = None) -> Page:
        raise AssertionError(f"unexpected POST {path}")


def test_fetch_follows_the_cursor_and_reads_both_lists() -> None:
    client = FakeClient(["abc"])
    assert len(vultr.fetch(client, {})) == 3
    assert client.asked == [
        ("/v2/plans", {"type": "all", "per_page": 500}),
        ("/v2/plans", {"type": "all", "per_page": 500, "cursor": "abc"}),
        ("/v2/plans-metal", {"per_page": 500}),
    ]


def test_a_cursor_without_end_is_an_error() -> None:
    with pytest.raises(LayoutChanged, match="the cursor goes on"):
        vultr.fetch(FakeClient(["again"] * 100), {})


@pytest.mark.shared
def test_recorded_plans() -> None:
    """Counted in the raw files: three A100 plans (4, 40 and 80 GB, so two slices) and two bare metal plans with two prices each."""
    paths = [RECORDED / "vultr_plans_vcg.json", RECORDED / "vultr_plans_metal.json"]
    if not all(path.exists() for path in paths):
        pytest.skip(f"{RECORDED} is not here")
    rows = list(vultr.parse([Page(url=f"https://api.vultr.com/{path.name}", body=path.read_bytes()) for path in paths]))
    quotes = {(row.sku, row.tier): row for row in rows if isinstance(row, GpuQuote)}
    assert len(rows) == len(quotes) == 7
    assert sum(row.is_slice for row in quotes.values()) == 2
    # printed in the files, USD per hour of the whole plan
    assert quotes["vcg-a100-12c-120g-80vram", "on_demand"].price == Decimal("2.397")
    assert quotes["vbm-256c-2048gb-8-mi300x-gpu", "on_demand"].price == Decimal("17.52")
    assert quotes["vbm-112c-2048gb-8-h100-gpu", "spot"].price == Decimal("18.4")
    assert quotes["vbm-112c-2048gb-8-h100-gpu", "spot"].gpu_count == 8
