"""AWS on-demand prices as aws/karpenter-provider-aws generates them (Apache-2.0): one snapshot a commit, Linux, shared tenancy.

Columns generated_at, commit, region, instance_type, usd_per_hour; the price is for the whole machine, without tax. Regions of
AWS China are sold in CNY under the same column name. A region in a snapshot is listed whole; not every snapshot has each region.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tracker.facts.values import Catalogue
from tracker.history.instances import instance_quote
from tracker.history.sightings import Sighting, read_table

COLUMNS = ("generated_at", "region", "instance_type", "usd_per_hour")
URL = "https://aws.amazon.com/ec2/pricing/on-demand/"


def read(path: Path, catalogue: Catalogue) -> Iterator[Sighting]:
    """One sighting per snapshot, region and instance type."""
    for line in read_table(path, COLUMNS):
        region = line.text("region")
        quote = instance_quote(
            catalogue,
            "aws",
            line.text("instance_type"),
            region=region,
            price=line.price("usd_per_hour"),
            currency="CNY" if region.startswith("cn-") else "USD",
        )
        yield Sighting(at=line.moment("generated_at"), quote=quote, names="aws", origin="aws-karpenter", whole=True, source_url=URL)
