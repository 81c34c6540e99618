"""Prices of several clouds from the catalogue of the SkyPilot project, no key: a fallback. Docs: https://github.com/skypilot-org/
skypilot-catalog (v8, Apache-2.0; read 2026-11-29, from stored copies).

What a price means: USD per hour for the whole instance (all its GPUs), without VAT, on demand (``Price``) and spot (``SpotPrice``, of a
zone); an empty field is no price. Some clouds are collected every few hours and some by hand, with nothing to tell which. Google's rows
price GPUs without their machines, RunPod's and Vast's are statistics: these files are not read. The address tells the cloud of a file.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial

from scrapers.contract import Availability, Client, GpuQuote, Page, Row, Tier
from scrapers.fields import NUMBER, BadRow, count, each, layout_changed, name, price, require_fields, require_page, with_quotes

SOURCE = "skypilot"
PATH = "/skypilot-org/skypilot-catalog/master/catalogs/v8/{cloud}/vms.csv"
CLOUDS: Mapping[str, str] = {"aws": "aws", "lambda": "lambda", "nebius": "nebius", "oci": "oci"}  # theirs to ours
CLOUD_IN_URL = re.compile(r"/catalogs/v[0-9]{1,2}/([a-z]{2,20})/vms\.csv(?:\?|$)")
COLUMNS = ("InstanceType", "AcceleratorName", "AcceleratorCount", "Price", "SpotPrice", "Region")


def fetch(client: Client, secrets: Mapping[str, str]) -> list[Page]:
    """The file of every cloud."""
    return [client.get(PATH.format(cloud=cloud)) for cloud in CLOUDS]


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """An on-demand quote per GPU instance and region, and a spot quote per zone."""
    require_page(SOURCE, pages)
    yield from with_quotes(SOURCE, _once(row for page in pages for row in _file_rows(page)))


def _once(rows: Iterator[Row]) -> Iterator[Row]:
    """Rows without repetitions of the same quote: on demand, every zone repeats its region."""
    seen: set[GpuQuote] = set()
    for row in rows:
        if isinstance(row, GpuQuote):
            if row in seen:
                continue
            seen.add(row)
        yield row


def _file_rows(page: Page) -> Iterator[Row]:
    found = CLOUD_IN_URL.search(page.url)
    if found is None or found[1] not in CLOUDS:
        raise layout_changed(SOURCE, f"expected /catalogs/v8/<cloud>/vms.csv in the address, found {page.url[:100]!r}")
    try:
        records = list(csv.DictReader(io.StringIO(page.text, newline="")))
    except csv.Error as error:
        raise layout_changed(SOURCE, f"expected CSV for {found[1]}, found {error}") from error
    require_fields(SOURCE, records, COLUMNS, f"{found[1]} rows")
    yield from each(records, partial(_record_rows, CLOUDS[found[1]]))


def _record_rows(provider: str, record: dict[str, str | None]) -> Iterator[Row]:
    """The quotes of one row; none for instances without GPUs."""
    if not record.get("AcceleratorName"):
        return
    share = record.get("AcceleratorCount") or ""
    fraction = Decimal(share) if NUMBER.fullmatch(share) else Decimal(0)
    is_slice = 0 < fraction < 1
    if not record.get("InstanceType"):
        raise BadRow("price of the GPUs without their machine")
    quote = partial(_quote, provider, record, 1 if is_slice else count(record, "AcceleratorCount"), is_slice)
    if record.get("Price"):
        yield quote("on_demand", "Price", name(record, "Region"), "listed")
    if record.get("SpotPrice"):
        yield quote("spot", "SpotPrice", record.get("AvailabilityZone") or name(record, "Region"), "unknown")


def _quote(
    provider: str,
    record: Mapping[str, str | None],
    gpu_count: int,
    is_slice: bool,
    tier: Tier,
    column: str,
    region: str,
    availability: Availability,
) -> GpuQuote:
    return GpuQuote(
        provider=provider,
        sku=name(record, "InstanceType"),
        gpu=name(record, "AcceleratorName"),
        gpu_count=gpu_count,
        region=name({"AvailabilityZone": region}, "AvailabilityZone"),
        tier=tier,
        price=price(record, column),
        per="node_hour",
        currency="USD",
        availability=availability,
        is_slice=is_slice,
    )
