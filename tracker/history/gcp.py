"""Google Cloud prices of Cyclenerd/google-cloud-pricing-cost-calculator (Apache-2.0): pricing.yml, one snapshot a month.

Columns commit_date, machine_type, accelerators ("h100-80gb=8;local=6000"), region, usd_hour, usd_hour_spot, usd_month_1y_cud,
usd_month_3y_cud; each price is for the whole machine, without tax, a month of committed use is 730 hours of it. A snapshot lists
every region whole. Where a region has no spot GPU the spot price is that of CPU and memory alone: 453 of 984 on 2026-07-30.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from scrapers.contract import GpuQuote, Skipped
from tracker.facts.values import Catalogue
from tracker.history.sightings import Line, Sighting, read_table

COLUMNS = ("commit_date", "machine_type", "accelerators", "region", "usd_hour", "usd_hour_spot", "usd_month_1y_cud", "usd_month_3y_cud")
URL = "https://cloud.google.com/compute/gpus-pricing"
LEAST_SPOT_SHARE = Decimal("0.2")  # of the on-demand price: below, the GPU is not in it
# Priced by the catalogue, sold as spot or by reservation only (Google's machine family pages, 2026).
NOT_ON_DEMAND = frozenset({"a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g", "a3-ultragpu-8g", "a4-highgpu-8g", "a4x-highgpu-4g"})
TERMS = {"usd_month_1y_cud": 12, "usd_month_3y_cud": 36}


def read(path: Path, catalogue: Catalogue) -> Iterator[Sighting]:
    """Up to four sightings per snapshot, region and machine type: on demand, spot, and one or three years of committed use."""
    for line in read_table(path, COLUMNS):
        at = line.moment("commit_date")
        for quote in _quotes(line):
            yield Sighting(at=at, quote=quote, names="cyclenerd", origin="gcp-cyclenerd", whole=True, source_url=URL)


def _quotes(line: Line) -> Iterator[GpuQuote | Skipped]:
    machine, region, on_demand = line.text("machine_type"), line.text("region"), line.price("usd_hour")
    shown = f"gcp {machine} {region}"
    gpu, count = _accelerator(line)
    if on_demand is None or not gpu:
        yield Skipped(reason="no price" if gpu else "no accelerator", raw=shown)
        return
    quote = GpuQuote(
        provider="gcp", sku=machine, gpu=gpu, gpu_count=count, region=region, tier="on_demand",
        price=on_demand, per="node_hour", currency="USD", availability="listed",
    )  # fmt: skip
    yield from _spot(quote, line.price("usd_hour_spot"), shown)
    if machine in NOT_ON_DEMAND:
        yield Skipped(reason="priced on demand, sold as spot or by reservation only", raw=shown)
        return
    yield quote
    for column, months in TERMS.items():
        if (monthly := line.price(column)) is not None:
            yield replace(quote, tier="reserved", term_months=months, price=monthly, per="node_month")


def _spot(quote: GpuQuote, price: Decimal | None, shown: str) -> Iterator[GpuQuote | Skipped]:
    if price is None:
        return
    if price < quote.price * LEAST_SPOT_SHARE:
        yield Skipped(reason="spot price without the GPU (below 20 % of on demand)", raw=shown)
        return
    yield replace(quote, tier="spot", price=price)


def _accelerator(line: Line) -> tuple[str, int]:
    """Name and count of the GPUs; local disks stand in the same cell. A name without a whole count is refused."""
    for part in line.text("accelerators").split(";"):
        name, _, count = part.partition("=")
        if name and name != "local":
            if not count.isascii() or not count.isdigit() or not 1 <= int(count) <= 1024:
                raise line.wrong("accelerators", "a GPU and its whole count, such as a100=8")
            return name, int(count)
    return "", 0
