"""OVHcloud: a documented part of the real catalogue."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from scrapers import ovhcloud
from scrapers.contract import GpuQuote, Page

ANSWER = Path(__file__).parents[2] / "shared/recorded/gpu-clouds/api_examples/ovh__get_catalog__GET_order_catalog_public_cloud.json"


@pytest.mark.shared
def test_the_documented_part_of_the_catalogue() -> None:
    """Read in the raw file: one addon, two H100 for 560000000 x 1e-8 EUR, printed as 5.60, in the catalogue of Ireland."""
    if not ANSWER.exists():
        pytest.skip(f"{ANSWER} is not here")
    body = json.dumps(json.loads(ANSWER.read_text())["response"]).encode()
    (quote,) = ovhcloud.parse([Page(url="https://api.ovh.com/1.0/order/catalog/public/cloud?ovhSubsidiary=IE", body=body)])
    assert isinstance(quote, GpuQuote)
    assert (quote.sku, quote.gpu, quote.gpu_count, quote.memory_gb, quote.currency) == ("h100-760", "H100", 2, 80, "EUR")
    assert quote.price * quote.scale == Decimal("5.60")
    assert (quote.per, quote.tier) == ("node_hour", "on_demand")
