"""Scaleway prices as answers recorded by scaleway-cli (Apache-2.0) and its Terraform provider (MPL-2.0) show them.

Columns recorded_at, zone, instance_type, gpu_count, gpu_name, eur_hour; the price is EUR for the whole instance, without VAT. Some
answers hold one page of several, so an absent type says nothing. 0.01 is a placeholder (2023), TEST1-* are not sold, and a
MIG instance counts its slice as one GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from scrapers.contract import GpuQuote, Skipped
from scrapers.scaleway import CURRENCY, PLACEHOLDER
from tracker.facts.values import Catalogue
from tracker.history.sightings import Line, Sighting, read_table

COLUMNS = ("recorded_at", "zone", "instance_type", "gpu_count", "gpu_name", "eur_hour")
ORIGIN = "scaleway-api"
URL = "https://www.scaleway.com/en/pricing/gpu/"


def read(path: Path, catalogue: Catalogue) -> Iterator[Sighting]:
    """One sighting per recording, zone and instance type."""
    for line in read_table(path, COLUMNS):
        yield Sighting(at=line.moment("recorded_at"), quote=_quote(line), names="scaleway", origin=ORIGIN, source_url=URL)


def _quote(line: Line) -> GpuQuote | Skipped:
    sku, price = line.text("instance_type"), line.price("eur_hour")
    if price is None:
        return Skipped(reason="no price", raw=f"scaleway {sku}")
    if sku.startswith("TEST") or price == PLACEHOLDER:
        return Skipped(reason="placeholder price of a type that is not sold", raw=f"scaleway {sku}")
    return GpuQuote(
        provider="scaleway",
        sku=sku,
        gpu=line.text("gpu_name") or sku,
        gpu_count=line.count("gpu_count"),
        region=line.text("zone"),
        tier="on_demand",
        price=price,
        per="node_hour",
        currency=CURRENCY,
        availability="listed",
        is_slice="-MIG-" in sku,
    )
