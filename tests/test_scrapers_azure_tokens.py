"""Azure's model meters: what is asked, following the pages, and the real meters of August 2026."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from scrapers import azure_tokens
from scrapers.contract import LayoutChanged, Page, Skipped, TokenQuote

REAL = Path(__file__).parents[2] / "shared/recorded/tokens/misc/azure-retail-subset.kimi_deepseek.json"
NEXT = "https://prices.azure.com:443/api/retail/prices?$skip=1000"


class FakeClient:
    """Answers with a link to the next page as often as told."""

    def __init__(self, more: int) -> None:
        self.more = more
        self.asked: list[tuple[str, Mapping[str, str | int] | None]] = []

    def get(self, path: str, *, params: Mapping[str, str | int] | None = None, headers: Mapping[str, str] | None = None) -> Page:
        self.asked.append((path, params))
        self.more -= 1
        return Page(url=path, body=json.dumps({"Items": [], "NextPageLink": NEXT if self.more >= 0 else None}).encode())

    def post(self, path: str, *, json: Any, headers: Mapping[str, str] | None = None) -> Page:
        raise AssertionError(f"unexpected POST {path}")


def test_fetch_filters_once_and_follows_the_links() -> None:
    client = FakeClient(more=2)
    assert len(azure_tokens.fetch(client, {})) == 3
    assert [path for path, _ in client.asked] == [azure_tokens.PATH, NEXT, NEXT]
    asked = client.asked[0][1]
    assert asked is not None and "productName eq 'Azure Kimi'" in str(asked["$filter"])
    assert [params for _, params in client.asked[1:]] == [None, None], "the link carries its own query"


def test_fetch_refuses_a_list_that_never_ends() -> None:
    with pytest.raises(LayoutChanged, match="within 50 pages"):
        azure_tokens.fetch(FakeClient(more=1000), {})


@pytest.mark.shared
def test_real_meters() -> None:
    """The recording gathers the regions of a meter; here each region is a row again, as the API answers. Counted by a script of its own:
    134 rows by the hour or month; 2,206 rows of tokens for 1,036 pairs of model, deployment and region. Prices read with grep."""
    if not REAL.exists():
        pytest.skip("../shared is not here")
    items = [
        item | {"armRegionName": region, "currencyCode": "USD"}
        for item in json.loads(REAL.read_text())["items"]
        for region in item["regions"]
    ]
    assert len(items) == 2206 + 134
    rows = list(azure_tokens.parse([Page(url="", body=json.dumps({"Items": items, "NextPageLink": None}).encode())]))
    assert Counter(row.reason for row in rows if isinstance(row, Skipped)) == {"unit is no number of tokens": 134}
    found = {(row.model, row.sku, row.region): row for row in rows if isinstance(row, TokenQuote)}
    assert len(rows) - 134 == len(found) == 1036
    kimi = found["Azure Kimi K2.6 Thinking", "standard", "eastus"]
    assert (kimi.prices, kimi.per) == ({"input": Decimal("0.00095"), "output": Decimal("0.004")}, "ktok")
    assert found["Azure Deepseek Models V4 Pro", "standard", "eastus"].prices["cache_read"] == Decimal("0.000145")
    assert found["Azure Fireworks Models FW Kimi K2.6", "data-zone", "eastus"].prices["output"] == Decimal("0.0044")
