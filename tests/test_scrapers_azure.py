"""Azure: following the pages, and a real answer of 2026-09-16."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from scrapers import azure
from scrapers.contract import GpuQuote, LayoutChanged, Page

ANSWER = Path(__file__).parents[2] / "shared/recorded/gpu-clouds/azure/retail_prices_nd96isr_h100_v5_eastus_2026-09-16.json"


class FakeClient:
    def __init__(self, *links: str | None) -> None:
        self.links = list(links)
        self.asked: list[tuple[str, Mapping[str, str | int] | None]] = []

    def get(self, path: str, *, params: Mapping[str, str | int] | None = None, headers: Mapping[str, str] | None = None) -> Page:
        self.asked.append((path, params))
        link = self.links.pop(0) if len(self.links) > 1 else self.links[0]
        return Page(url=path, body=json.dumps({"Items": [], "NextPageLink": link}).encode())

    def post(self, path: str, *, json: Any, headers: Mapping[str, str] | None = None) -> Page:
        raise AssertionError(f"unexpected POST {path}")


def test_the_next_page_is_followed_on_the_configured_host() -> None:
    """Their link names their host and port; only its path is used, so no answer can send us elsewhere."""
    client = FakeClient("https://prices.azure.com:443/api/retail/prices?$filter=x&$skip=1000", None)
    assert len(azure.fetch(client, {})) == 2
    assert client.asked[0][1] == {"api-version": azure.API_VERSION, "$filter": azure.FILTER}
    assert client.asked[1] == ("/api/retail/prices?$filter=x&$skip=1000", None)


@pytest.mark.parametrize(
    "link", ["https://evil.example/collect", "file:///etc/passwd", "/api/retail/prices?$skip=1", "https://a/api/retail/prices?a b"]
)
def test_a_link_elsewhere_is_not_followed(link: str) -> None:
    with pytest.raises(LayoutChanged, match="expected NextPageLink"):
        azure.fetch(FakeClient(link), {})


def test_links_without_end_are_an_error() -> None:
    with pytest.raises(LayoutChanged, match="NextPageLink goes on"):
        azure.fetch(FakeClient("https://prices.azure.com/api/retail/prices?$skip=1000"), {})


@pytest.mark.shared
def test_the_real_answer() -> None:
    """Read in the raw file: three rows of one size in eastus, of which the second is Windows."""
    if not ANSWER.exists():
        pytest.skip(f"{ANSWER} is not here")
    rows = list(azure.parse([Page(url="https://prices.azure.com/api/retail/prices", body=ANSWER.read_bytes())]))
    quotes = [row for row in rows if isinstance(row, GpuQuote)]
    assert len(rows) == len(quotes) == 2
    assert [(row.tier, row.price, row.gpu_count, row.region) for row in quotes] == [
        ("on_demand", Decimal("98.32"), 8, "eastus"),
        ("spot", Decimal("18.169536"), 8, "eastus"),
    ]
    assert Decimal("102.736") not in {row.price for row in quotes}
