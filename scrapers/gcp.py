"""Google Cloud GPU machine prices from the Cloud Billing Catalog, with an API key. Docs: https://cloud.google.com/billing/docs/reference/
rest/v1/services.skus/list (read 2026-11-29, from stored copies).

What a price means: USD per hour for the whole machine (all its GPUs), without VAT, on demand or spot. Google prices parts and no machines:
ours is vCPUs, memory, GPUs and the local SSDs that belong to the machine type, each from its own SKU of the same region. Where one part has
no SKU there is no price: the other parts alone would look cheap. Prices of parts that are stated twice and differ are no price either. A4
has one SKU per GPU that holds the rest of the machine. A SKU for a region does not say that the region has the GPU.

Left out: reservations, commitments, sole tenants, custom machines, DWS and calendar mode (they name the same GPU and cost less), fractions
of a G4, and GPUs attached to N1 machines of any size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

from scrapers.contract import Availability, Client, GpuQuote, MissingKey, Page, Row, Tier
from scrapers.fields import BadRow, as_object, clean_price, each, layout_changed, name, optional_number, require_page, with_quotes

SOURCE = "gcp"
PATH = "/v1/services/6F81-5844-456A/skus"  # Compute Engine
PAGE_SIZE = 5000
MAX_PAGES = 40  # tens of thousands of SKUs are about ten pages
CURRENCY = "USD"
OTHER_PRICE = re.compile(
    r"sole tenancy|reserved|commitment|premium|custom|suspended|\bdws\b|defined duration|calendar mode|capacity optimized", re.I
)
SPOT = "spot preemptible"
PART = re.compile(r"(?:spot preemptible )?(?P<part>.+?)(?: attached to spot preemptible vms)?(?: running)?(?: in (?P<place>.+))?")
SSD = "ssd backed local storage"
SAME_PART: Mapping[str, str] = {  # three spellings of one GPU
    "nvidia h100 80gb plus gpu": "nvidia h100 80gb mega gpu",
    "nvidia h100 mega 80gb gpu": "nvidia h100 80gb mega gpu",
}
SECONDS_PER_HOUR = 3600
BASE_UNITS: Mapping[str, tuple[str, int]] = {  # baseUnit of a kind of part, and how many of it are one hour of a core, GPU or GiB
    "vcpu": ("s", SECONDS_PER_HOUR),
    "gpu": ("s", SECONDS_PER_HOUR),
    "ram": ("By.s", SECONDS_PER_HOUR * 2**30),
    "disk": ("By.s", SECONDS_PER_HOUR * 2**30),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine type: amounts of the parts it is billed by, the GPU among them, and whether it is sold without a reservation on demand."""

    gpu: str
    gpu_count: int
    parts: Mapping[str, int]
    on_demand: bool = True


GPUS: Mapping[str, str] = {
    "a100": "Nvidia Tesla A100 GPU",
    "a100-80": "Nvidia Tesla A100 80GB GPU",
    "h100": "Nvidia H100 80GB GPU",
    "mega": "Nvidia H100 80GB Mega GPU",
    "h200": "H200 141GB GPU",
    "l4": "Nvidia L4 GPU",
    "rtx": "RTX 6000 96GB",
}
B200 = "A4 Nvidia B200 (1 gpu slice)"
# https://cloud.google.com/compute/docs/gpus and /docs/disks/local-ssd (read 2026-11-29, from stored copies): machine type, series, GPU,
# GPUs, vCPUs, GiB of memory, GiB of bundled SSD, and whether it is sold on demand without a reservation
SHAPES = """
    a2-highgpu-1g     a2       a100     1   12    85      0  yes
    a2-highgpu-2g     a2       a100     2   24   170      0  yes
    a2-highgpu-4g     a2       a100     4   48   340      0  yes
    a2-highgpu-8g     a2       a100     8   96   680      0  yes
    a2-megagpu-16g    a2       a100    16   96  1360      0  yes
    a2-ultragpu-1g    a2       a100-80  1   12   170    375  yes
    a2-ultragpu-2g    a2       a100-80  2   24   340    750  yes
    a2-ultragpu-4g    a2       a100-80  4   48   680   1500  yes
    a2-ultragpu-8g    a2       a100-80  8   96  1360   3000  yes
    a3-highgpu-1g     a3       h100     1   26   234    750  no
    a3-highgpu-2g     a3       h100     2   52   468   1500  no
    a3-highgpu-4g     a3       h100     4  104   936   3000  no
    a3-highgpu-8g     a3       h100     8  208  1872   6000  yes
    a3-megagpu-8g     a3plus   mega     8  208  1872   6000  yes
    a3-ultragpu-8g    a3ultra  h200     8  224  2952  12000  no
    g2-standard-4     g2       l4       1    4    16      0  yes
    g2-standard-8     g2       l4       1    8    32      0  yes
    g2-standard-12    g2       l4       1   12    48      0  yes
    g2-standard-16    g2       l4       1   16    64      0  yes
    g2-standard-24    g2       l4       2   24    96      0  yes
    g2-standard-32    g2       l4       1   32   128      0  yes
    g2-standard-48    g2       l4       4   48   192      0  yes
    g2-standard-96    g2       l4       8   96   384      0  yes
    g4-standard-48    g4       rtx      1   48   180      0  yes
    g4-standard-96    g4       rtx      2   96   360      0  yes
    g4-standard-192   g4       rtx      4  192   720      0  yes
    g4-standard-384   g4       rtx      8  384  1440      0  yes
"""


def _machine(series: str, gpu: str, gpus: str, vcpus: str, memory_gib: str, ssd_gib: str, on_demand: str) -> Machine:
    amounts = {f"{series} instance core": vcpus, f"{series} instance ram": memory_gib, GPUS[gpu].lower(): gpus, SSD: ssd_gib}
    parts = {part: int(amount) for part, amount in amounts.items() if amount != "0"}
    return Machine(gpu=GPUS[gpu], gpu_count=int(gpus), parts=parts, on_demand=on_demand == "yes")


MACHINES: Mapping[str, Machine] = {
    **{line.split()[0]: _machine(*line.split()[1:]) for line in SHAPES.strip().splitlines()},
    "a4-highgpu-8g": Machine(gpu=B200, gpu_count=8, parts={B200.lower(): 8}, on_demand=False),
}
PARTS = frozenset(part for machine in MACHINES.values() for part in machine.parts)
Prices = dict[tuple[str, str, bool], set[Decimal]]  # by part, region and whether spot; per hour of one piece or GiB


def fetch(client: Client, secrets: Mapping[str, str]) -> list[Page]:
    """Every page of the SKUs, following nextPageToken; MissingKey without a key."""
    if not secrets.get("key"):
        raise MissingKey(f"{SOURCE}: no key; set the environment variable that key_env of this source names")
    headers = {"X-Goog-Api-Key": secrets["key"]}
    params: dict[str, str | int] = {"pageSize": PAGE_SIZE, "currencyCode": CURRENCY}
    pages: list[Page] = []
    while len(pages) < MAX_PAGES:
        pages.append(client.get(PATH, params=params, headers=headers))
        answer = pages[-1].json()
        token = answer.get("nextPageToken") if isinstance(answer, dict) else None
        if not isinstance(token, str) or not token:
            return pages
        params["pageToken"] = token
    raise layout_changed(SOURCE, f"expected at most {MAX_PAGES} pages, nextPageToken goes on")


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """One quote per machine type, region and tier whose every part has one price."""
    require_page(SOURCE, pages)
    prices: Prices = {}
    yield from with_quotes(SOURCE, _rows(pages, prices))


def _rows(pages: Sequence[Page], prices: Prices) -> Iterator[Row]:
    """The parts that could not be read, then the machines."""
    for page in pages:  # one at a time: a page is 6 MB of JSON
        for item in _skus(page):
            yield from each([item], partial(_take_part, prices))
    for sku, machine in MACHINES.items():
        regions = sorted((region, spot) for part, region, spot in prices if part == machine.gpu.lower())
        yield from each(((sku, region, spot) for region, spot in regions), partial(_machine_rows, prices))


def _skus(page: Page) -> list[object]:
    answer = page.json()
    skus = answer.get("skus") if isinstance(answer, dict) else None
    if not isinstance(skus, list):
        raise layout_changed(SOURCE, f'expected a list "skus", found {str(answer)[:100]!r}')
    return skus


def _take_part(prices: Prices, item: object) -> Iterator[Row]:
    """No row; puts the price of a part under every region of its SKU. A SKU that is no part of our machines is nothing."""
    sku = as_object(item, "sku")
    category = as_object(sku.get("category"), "category")
    description = str(sku.get("description")).lower()
    usage = category.get("usageType")
    found = PART.fullmatch(description)
    part = "" if found is None else SAME_PART.get(found["part"], found["part"])
    if part not in PARTS or usage not in ("OnDemand", "Preemptible") or OTHER_PRICE.search(description):
        return
    regions = sku.get("serviceRegions")
    if not isinstance(regions, list) or not regions:
        raise BadRow("serviceRegions is no list")
    spot = usage == "Preemptible" or SPOT in description  # B200's spot SKUs say OnDemand (2026-08)
    amount = _hourly(sku, part)
    for region in regions:
        prices.setdefault((part, name({"region": region}, "region"), spot), set()).add(amount)
    yield from ()


def _hourly(sku: Mapping[str, Any], part: str) -> Decimal:
    """USD for one hour of one core, GPU or GiB."""
    infos = sku.get("pricingInfo")
    if not isinstance(infos, list) or len(infos) != 1:
        raise BadRow("not one pricingInfo")
    expression = as_object(as_object(infos[0], "pricingInfo").get("pricingExpression"), "pricingExpression")
    base_unit, base_units = BASE_UNITS[_kind(part)]
    if expression.get("baseUnit") != base_unit:
        raise BadRow("baseUnit is another one for this part")
    factor = optional_number(expression, "baseUnitConversionFactor")  # base units that the price is for: an hour, a GiB or GB, a month
    if factor is None or factor <= 0:
        raise BadRow("baseUnitConversionFactor is no number above 0")
    rates = expression.get("tieredRates")
    tiers = {_money(rate) for rate in rates} if isinstance(rates, list) else set()
    charged = [tier for tier in tiers if tier]
    if len(charged) != 1:  # a free tier and one price is one price
        raise BadRow("price differs by volume" if charged else "price is 0")
    return clean_price(charged[0] * base_units / factor, "price")


def _money(rate: object) -> Decimal:
    """``units`` (whole dollars, as text) and ``nanos`` (billionths) of one tier."""
    unit_price = as_object(as_object(rate, "tier").get("unitPrice"), "unitPrice")
    if unit_price.get("currencyCode") != CURRENCY:
        raise BadRow("currency is not USD")
    units, nanos = unit_price.get("units", "0"), optional_number(unit_price, "nanos")
    if not isinstance(units, str) or not re.fullmatch(r"[0-9]{1,9}", units) or nanos is None or not 0 <= nanos < 10**9:
        raise BadRow("unitPrice is no amount")
    return Decimal(units) + nanos / 10**9


def _machine_rows(prices: Prices, offer: tuple[str, str, bool]) -> Iterator[Row]:
    """The quote of a machine type in a region, on demand or spot."""
    sku, region, spot = offer
    machine = MACHINES[sku]
    parts = tuple((_kind(part), amount * _only(prices.get((part, region, spot), set()), part)) for part, amount in machine.parts.items())
    tier: Tier = "spot" if spot else "on_demand"
    availability: Availability = "listed" if spot or machine.on_demand else "unavailable"
    yield GpuQuote(
        provider="gcp",
        sku=sku,
        gpu=machine.gpu,
        gpu_count=machine.gpu_count,
        region=region,
        tier=tier,
        price=clean_price(sum((cost for _, cost in parts), Decimal(0)), "sum of the parts"),
        per="node_hour",
        currency=CURRENCY,
        availability=availability,
        parts=parts,
    )


def _only(stated: set[Decimal], part: str) -> Decimal:
    """The one price of a part."""
    if len(stated) != 1:
        raise BadRow(f"{'several prices' if stated else 'no price'} of the part {part}")
    return next(iter(stated))


def _kind(part: str) -> str:
    """What a part is: vcpu, ram, disk or gpu."""
    return {"core": "vcpu", "ram": "ram", SSD.rpartition(" ")[2]: "disk"}.get(part.rpartition(" ")[2], "gpu")
