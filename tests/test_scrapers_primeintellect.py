"""Prime Intellect: pages up to the stated total, and the recorded offers."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from asked import Asked

from scrapers import primeintellect
from scrapers.contract import GpuQuote, LayoutChanged, Page


@pytest.mark.parametrize(("total", "pages"), [(0, 1), (100, 1), (101, 2), (250, 3)])
def test_pages_are_read_until_the_total(total: int, pages: int) -> None:
    client = Asked({"items": [], "totalCount": total})
    assert len(primeintellect.fetch(client, {"key": "k"})) == pages
    assert [params for _, _, params, _ in client.asked] == [{"page": n + 1, "page_size": 100} for n in range(pages)]


def test_a_total_without_end_is_an_error() -> None:
    with pytest.raises(LayoutChanged, match="at most 30 pages"):
        primeintellect.fetch(Asked({"items": [], "totalCount": 10**9}), {"key": "k"})


@pytest.mark.shared
def test_the_recorded_offers(shared: Path) -> None:
    """Read in the raw file: eight offers of one GPU each, all secure; 1.6568 is printed as 1.6567999999999998."""
    body = (shared / "recorded/gpu-markets/primeintellect_availability_gpus_response.json").read_bytes()
    rows = list(primeintellect.parse([Page(url="https://api.primeintellect.ai/api/v1/availability/gpus", body=body)]))
    quotes = {(row.gpu, row.region): row.price for row in rows if isinstance(row, GpuQuote)}
    assert len(rows) == len(quotes) == 8
    assert quotes["A100_80GB PCIe", "US-KS-2"] == Decimal("1.6567999999999998")
    assert quotes["A100_80GB SXM4", "US-KS-2"] == Decimal("1.7568")
    assert quotes["H100_80GB SXM5", "CA-MTL-1"] == Decimal("2.7068")
    assert quotes["H100_80GB PCIe", "CA-MTL-3"] == Decimal("2.4068")
    assert {row.trust for row in rows if isinstance(row, GpuQuote)} == {"datacenter"}
