"""Azure on-demand prices as Azure/karpenter-provider-azure generates them (Apache-2.0): one snapshot a commit, Linux.

Columns generated_at, commit, region, arm_sku_name, usd_per_hour; the price is for the whole machine, without tax. A region in a
snapshot is listed whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tracker.facts.values import Catalogue
from tracker.history.instances import instance_quote
from tracker.history.sightings import Sighting, read_table

COLUMNS = ("generated_at", "region", "arm_sku_name", "usd_per_hour")
URL = "https://azure.microsoft.com/pricing/details/virtual-machines/linux/"


def read(path: Path, catalogue: Catalogue) -> Iterator[Sighting]:
    """One sighting per snapshot, region and machine size."""
    for line in read_table(path, COLUMNS):
        price = line.price("usd_per_hour")
        quote = instance_quote(catalogue, "azure", line.text("arm_sku_name"), region=line.text("region"), price=price, currency="USD")
        yield Sighting(at=line.moment("generated_at"), quote=quote, names="azure", origin="azure-karpenter", whole=True, source_url=URL)
