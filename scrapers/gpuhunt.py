"""Prices of several clouds from the catalogue that the gpuhunt project publishes every hour, no key. Docs:
https://github.com/dstackai/gpuhunt (v3 layout, read 2026-11-29, from stored copies).

What a price means: USD per hour for the whole instance (all its GPUs) running Linux, without VAT, on demand, or spot where ``spot`` is True
(for AWS the lowest zone of the region). A row says that the instance is priced there, not that it can be had. Rows of calendar
reservations and the previews that repeat another row are left out. Their GPU memory is sometimes wrong; ours decides. RunPod's rows do not
say which of its two clouds they are of, so they vouch for nobody.

A catalogue is a zip of one CSV file per provider under its version, and a small text names the newest version.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial

from scrapers.contract import Client, GpuQuote, Page, Row
from scrapers.fields import (
    NUMBER,
    BadRow,
    count,
    each,
    layout_changed,
    name,
    optional_memory,
    price,
    require_fields,
    require_page,
    with_quotes,
)
from scrapers.unpack import read_zip_member

SOURCE = "gpuhunt"
PROVIDERS: Mapping[str, str] = {  # theirs to ours; where we have a source of the cloud's own, that one is believed first
    "aws": "aws",
    "azure": "azure",
    "cloudrift": "cloudrift",
    "gcp": "gcp",
    "lambdalabs": "lambda",
    "nebius": "nebius",
    "oci": "oci",
    "runpod": "runpod",
    "verda": "verda",
}
UNVOUCHED = frozenset({"runpod"})
VERSION = re.compile(r"[0-9]{8}-[0-9]{1,12}")
CATALOG_URL = re.compile(r"/v3/([a-z]{2,20})/[0-9-]{1,24}/catalog\.zip(?:\?|$)")
FLAGS_LEFT_OUT = frozenset({"gcp-dws-calendar-mode", "gcp-g4-preview", "runpod-cluster"})
SPOT = {"True": True, "False": False}


def fetch(client: Client, secrets: Mapping[str, str]) -> list[Page]:
    """The newest catalogue of every provider."""
    return [client.get(f"/v3/{provider}/{_version(client.get(f'/v3/{provider}/version'))}/catalog.zip") for provider in PROVIDERS]


def _version(page: Page) -> str:
    version = page.text.strip()
    if not VERSION.fullmatch(version):
        raise layout_changed(SOURCE, f"expected a version such as 20261129-1234, found {version[:40]!r}")
    return version


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """One quote per GPU instance, location and tier of every catalogue."""
    require_page(SOURCE, pages)
    yield from with_quotes(SOURCE, (row for page in pages for row in _catalog_rows(page)))


def _catalog_rows(page: Page) -> Iterator[Row]:
    found = CATALOG_URL.search(page.url)
    if found is None or found[1] not in PROVIDERS:
        raise layout_changed(SOURCE, f"expected /v3/<provider>/<version>/catalog.zip in the address, found {page.url[:100]!r}")
    table = Page(url=page.url, body=read_zip_member(page.body, f"{found[1]}.csv")).text
    try:
        records = list(csv.DictReader(io.StringIO(table, newline="")))
    except csv.Error as error:
        raise layout_changed(SOURCE, f"expected CSV in the {found[1]} catalogue, found {error}") from error
    require_fields(SOURCE, records, ("instance_name", "location", "price", "gpu_count", "gpu_name", "spot"), f"{found[1]} rows")
    yield from each(records, partial(_record_rows, PROVIDERS[found[1]]))


def _record_rows(provider: str, record: dict[str, str | None]) -> Iterator[Row]:
    """The quote of one row; none for instances without GPUs and for rows that repeat or reserve."""
    if record.get("gpu_count") in (None, "", "0") or FLAGS_LEFT_OUT & set((record.get("flags") or "").split()):
        return
    gpu = name(record, "gpu_name")
    if gpu.startswith("tpu-") or record.get("gpu_vendor") == "google":
        return
    spot = SPOT.get(record.get("spot") or "")
    if spot is None:
        raise BadRow("spot is neither True nor False")
    memory = record.get("gpu_memory") or ""
    yield GpuQuote(
        provider=provider,
        sku=name(record, "instance_name"),
        gpu=gpu,
        gpu_count=count(record, "gpu_count"),
        memory_gb=optional_memory({"gpu_memory": Decimal(memory)}, "gpu_memory") if NUMBER.fullmatch(memory) else None,
        region=name(record, "location"),
        tier="spot" if spot else "on_demand",
        price=price(record, "price"),
        per="node_hour",
        currency="USD",
        trust="unverified" if provider in UNVOUCHED else "datacenter",
        availability="listed",
    )
