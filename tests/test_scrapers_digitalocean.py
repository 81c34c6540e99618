"""DigitalOcean: following the pages, and the recorded sizes."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from asked import Asked

from scrapers import digitalocean
from scrapers.contract import GpuQuote, LayoutChanged, Page

MORE = {"sizes": [], "links": {"pages": {"next": "https://elsewhere.test/v2/sizes?page=2"}}}


def test_pages_are_counted_here_and_never_taken_from_the_link() -> None:
    client = Asked(MORE, {"sizes": [], "links": {}})
    assert len(digitalocean.fetch(client, {"key": "k"})) == 2
    assert [(path, params) for _, path, params, _ in client.asked] == [
        ("/v2/sizes", {"per_page": 200, "page": 1}),
        ("/v2/sizes", {"per_page": 200, "page": 2}),
    ]


def test_pages_without_end_are_an_error() -> None:
    with pytest.raises(LayoutChanged, match="at most 10 pages"):
        digitalocean.fetch(Asked(MORE), {"key": "k"})


@pytest.mark.shared
def test_the_recorded_sizes(shared: Path) -> None:
    """Read in the raw file: one size without and two with GPUs, both in nyc1; memory is printed for all eight."""
    body = (shared / "recorded/gpu-markets/digitalocean_v2_sizes.json").read_bytes()
    rows = list(digitalocean.parse([Page(url="https://api.digitalocean.com/v2/sizes", body=body)]))
    assert [(r.sku, r.gpu, r.gpu_count, r.memory_gb, r.region, r.price) for r in rows if isinstance(r, GpuQuote)] == [
        ("gpu-h100x8-640gb", "nvidia_h100", 8, Decimal(80), "nyc1", Decimal("23.92")),
        ("gpu-mi300x8-1536gb", "amd_mi300x", 8, Decimal(192), "nyc1", Decimal("15.92")),
    ]
    assert len(rows) == 2
