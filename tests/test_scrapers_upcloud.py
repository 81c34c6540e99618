"""UpCloud: the documented book of prices, the book from before its GPUs, and every GPU plan name known."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from textwrap import dedent

import pytest
from asked import Asked

from scrapers import upcloud
from scrapers.contract import GpuQuote, LayoutChanged, Page

PRICE, STOCK = "https://api.upcloud.com/1.3/price", "https://api.upcloud.com/1.3/device/availability?type=gpu"


def test_prices_and_stock_are_asked() -> None:
    client = Asked({})
    upcloud.fetch(client, {"key": "user:password"})
    assert [(path, params) for _, path, params, _ in client.asked] == [("/1.3/price", {}), ("/1.3/device/availability", {"type": "gpu"})]


@pytest.mark.shared
def test_the_documented_book(shared: Path) -> None:
    """Read in the raw files: au-syd1 prices an L40S plan at 111.1607 cents and a spot L4 plan at 57; the stock is in fi-hel2 alone."""
    examples = shared / "recorded/gpu-clouds/api_examples"
    bodies = [
        json.dumps(json.loads((examples / name).read_text())["response"]).encode()
        for name in ("upcloud__get_prices__List_prices.json",
                     "upcloud__get_device_region_availability__Get_available_passthrough_devices.json")
    ]  # fmt: skip
    rows = list(upcloud.parse([Page(url=PRICE, body=bodies[0]), Page(url=STOCK, body=bodies[1])]))
    assert [(r.sku, r.gpu, r.tier, r.price * r.scale, r.currency, r.availability) for r in rows if isinstance(r, GpuQuote)] == [
        ("GPU-8xCPU-64GB-1xL40S", "L40S", "on_demand", Decimal("1.111607"), "EUR", "unavailable"),
        ("GPU-SPOT-8xCPU-64GB-1xL4", "L4", "spot", Decimal("0.57"), "EUR", "unavailable"),
    ]
    assert len(rows) == 2


@pytest.mark.shared
def test_the_book_of_2020_has_no_gpus(shared: Path) -> None:
    lines = (
        (shared / "recorded/gpu-clouds/upcloud/getpricezones_2020-08.yaml")
        .read_text()
        .split("body: |\n", 1)[1]
        .split("\n    headers:", 1)[0]
    )
    body = dedent(lines).encode()
    assert json.loads(body)["prices"]["zone"]
    with pytest.raises(LayoutChanged, match="no usable price in the answer: no rows"):
        list(upcloud.parse([Page(url=PRICE, body=body)]))


@pytest.mark.shared
def test_every_known_plan_name_is_read(shared: Path) -> None:
    """Thirty names; the last part says how many GPUs of which kind."""
    names = (shared / "recorded/gpu-clouds/upcloud/gpu_plan_names_sc_inspector_2026-08-22.txt").read_text().split()
    zone = {"name": "fi-hel2", **{f"server_plan_{name}": {"amount": 1, "price": 100} for name in names}}
    book = {"prices": {"currency": "EUR", "zone": [zone]}}
    rows = list(upcloud.parse([Page(url=PRICE, body=json.dumps(book).encode())]))
    assert [f"{r.gpu_count}x{r.gpu}" for r in rows if isinstance(r, GpuQuote)] == [name.rpartition("-")[2] for name in names]
    assert len(rows) == len(names) == 30
