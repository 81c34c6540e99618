"""Vast.ai: what is asked of the search, and the real offers of October 2026."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from scrapers import vast
from scrapers.contract import GpuQuote, Page

OFFERS = Path(__file__).parents[2] / "shared/recorded/gpu-markets/vast_offers_trimmed_2026-10.json"


class FakeClient:
    def __init__(self) -> None:
        self.posts: list[tuple[str, Any]] = []

    def get(self, path: str, *, params: Mapping[str, str | int] | None = None, headers: Mapping[str, str] | None = None) -> Page:
        raise AssertionError(f"unexpected GET {path}")

    def post(self, path: str, *, json: Any, headers: Mapping[str, str] | None = None) -> Page:
        self.posts.append((path, json))
        return Page(url=path, body=b'{"offers": []}')


@pytest.fixture
def searches() -> list[Any]:
    client = FakeClient()
    vast.fetch(client, {})
    assert {path for path, _ in client.posts} == {"/api/v0/bundles/"}
    return [search for _, search in client.posts]


def test_every_search_asks_for_verified_free_on_demand_offers(searches: list[Any]) -> None:
    """The query is the body itself: wrapped in {"q": ...} the answer is 400."""
    for search in searches:
        assert search["verified"] == {"eq": True} and search["rentable"] == {"eq": True} and search["rented"] == {"eq": False}
        assert search["type"] == "on-demand"
        assert search["order"] == [["dph_total", "asc"]]
        assert search["limit"] == 64


def test_every_gpu_is_asked_alone_and_among_the_large_machines(searches: list[Any]) -> None:
    """At most 64 offers come back, cheapest first, so large machines would never be seen; twenty calls are two minutes."""
    gpus = Counter(gpu for search in searches for gpu in search["gpu_name"].get("in", [search["gpu_name"].get("eq")]))
    assert set(gpus.values()) == {2} and "H100 SXM" in gpus
    assert len(searches) <= 20


@pytest.mark.shared
def test_the_real_offers() -> None:
    """Counted in the raw list: 138 offers of 37 different (gpu_name, gpu_ram, num_gpus); four fields were kept of each.

    Without verification, host and machine none is verified and each of the 37 is quoted at its cheapest.
    """
    if not OFFERS.exists():
        pytest.skip(f"{OFFERS} is not here")
    body = b'{"offers": ' + OFFERS.read_bytes() + b"}"
    rows = list(vast.parse([Page(url="https://console.vast.ai/api/v0/bundles/", body=body)]))
    quotes = {row.sku: row for row in rows if isinstance(row, GpuQuote)}
    assert len(rows) == len(quotes) == 37
    assert {row.trust for row in quotes.values()} == {"unverified"}
    # the smallest dph_total of each in the file, USD per hour of the whole offer
    assert quotes["B200 183359 MiB x8"].price == Decimal("65.01041666666667")
    assert quotes["H100 SXM 81559 MiB x2"].price == Decimal("4.194844444444444")
    assert quotes["A100 SXM4 81920 MiB x8"].price == Decimal("13.015555555555556")
