"""CoreWeave: the real page of October 2026, and pages built to break a parser."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest

from scrapers import coreweave
from scrapers.contract import GpuQuote, LayoutChanged, Page, Skipped

PAGE = Path(__file__).parents[2] / "shared/recorded/gpu-markets/html/coreweave_pricing_2026-10.html"


@pytest.mark.shared
def test_the_real_page() -> None:
    """Counted in the raw page with grep on the labelled prices: 7 products, 5 on-demand and 5 spot amounts, 2 blanks, 2 N/A.

    The recording holds three products before the first heading that was kept, and four of "REGION: EUROPE".
    """
    if not PAGE.exists():
        pytest.skip(f"{PAGE} is not here")
    rows = list(coreweave.parse([Page(url="https://www.coreweave.com/pricing", body=PAGE.read_bytes())]))
    quotes = {(row.region, row.sku, row.tier): row for row in rows if isinstance(row, GpuQuote)}
    assert [row.reason for row in rows if isinstance(row, Skipped)] == ["contact sales", "contact sales"]
    assert len(rows) == 12 and len(quotes) == 10
    assert Counter(tier for _, _, tier in quotes) == {"on_demand": 5, "spot": 5}
    assert Counter(region for region, _, _ in quotes) == {"": 6, "EUROPE": 4}
    # printed on the page, USD per hour of the whole instance
    assert quotes["", "hgx-h200", "on_demand"].price == Decimal("50.44")
    assert quotes["EUROPE", "nvidia-b200", "on_demand"].price == Decimal("68.80")
    assert quotes["EUROPE", "nvidia-b300", "spot"].price == Decimal("36.70")
    assert quotes["EUROPE", "nvidia-gb200-nvl72", "on_demand"].gpu_count == 4


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"https://www.coreweave.com/pricing",
        b"pricing.html",
        b"<?xml version='1.0'?><pricing/>",
        b"<html>" + b"<div>" * 20_000,
        b"<html>" + b"<div data-product='a'><b>GPU Count</b>" * 500,
        b"<html>" + b"<div><b>GPU Count</b>" * 5_000 + b"<h3 data-product='a'>",
        b"<!DOCTYPE html><!ENTITY x 'y'>&x;",
    ],
    ids=["empty", "address", "file-name", "xml", "deep", "deep-products", "deep-labels", "entities"],
)
def test_what_is_no_pricing_page_is_a_changed_layout(body: bytes) -> None:
    with pytest.raises(LayoutChanged, match="coreweave: "):
        list(coreweave.parse([Page(url="", body=body)]))
