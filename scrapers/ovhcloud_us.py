"""OVHcloud's catalogue of the United States: the layout of scrapers.ovhcloud, USD, a smaller line-up and other data centres.

What a price means: as in scrapers.ovhcloud. Its quotes say "us" where the plan names no zone, since a plan of the same name in the French
catalogue is another offer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from scrapers.contract import GpuQuote, Page, Row
from scrapers.ovhcloud import catalogue_rows

SOURCE = "ovhcloud_us"
PATH = "/1.0/order/catalog/public/cloud?ovhSubsidiary=US"
REGION = "us"


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """One quote per GPU flavor, billing period and zone."""
    for row in catalogue_rows(SOURCE, pages):
        yield replace(row, region=row.region or REGION) if isinstance(row, GpuQuote) else row
