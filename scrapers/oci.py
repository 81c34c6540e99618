"""Oracle Cloud GPU prices from the public price list, no key. Docs: https://docs.oracle.com/en-us/iaas/Content/GSG/Tasks/signingup_topic-
Estimating_Costs.htm (read 2026-11-29, from stored copies).

What a price means: USD per GPU-hour, without VAT, on demand (PAY_AS_YOU_GO), the same in every commercial region. GPUs are sold as whole
shapes: bare metal with all its GPUs, or a virtual machine. The list has one price per part, the shapes of a part are below. Software
licences, dedicated regions and appliances stand in the same list and are no rentals.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from scrapers.contract import GpuQuote, Page, Row
from scrapers.fields import BadRow, as_object, each, layout_changed, name, price, require_fields, require_page, with_quotes

SOURCE = "oci"
PATH = "/pls/apex/cetools/api/v1/products/?currencyCode=USD"
CURRENCY = "USD"
CATEGORY = "Compute - GPU"
METRIC = "GPU Per Hour"
MODEL = "PAY_AS_YOU_GO"
RENTAL = re.compile(r"((OCI ?- ?|Oracle Cloud Infrastructure - )?Compute +- +)(Bare Metal |Virtual Machine )?GPU\b.*")
# shapes and GPUs per part (shape pages and price list, read 2026-11-29)
SHAPES: Mapping[str, tuple[tuple[str, int], ...]] = {
    "B88517": (("BM.GPU2.2", 2),),
    "B88518": (("VM.GPU2.1", 1),),
    "B89734": (("BM.GPU3.8", 8), ("VM.GPU3.1", 1)),
    "B92740": (("BM.GPU4.8", 8),),
    "B95907": (("BM.GPU.A100-v2.8", 8),),
    "B95909": (("BM.GPU.A10.4", 4), ("VM.GPU.A10.1", 1), ("VM.GPU.A10.2", 2)),
    "B98415": (("BM.GPU.H100.8", 8),),
    "B109479": (("BM.GPU.L40S.4", 4),),
    "B109485": (("BM.GPU.MI300X.8", 8),),
    "B110519": (("BM.GPU.H200.8", 8),),
    "B110978": (("BM.GPU.B200.8", 8),),
    "B110979": (("BM.GPU.GB200.4", 4),),
    "B111758": (("BM.GPU.MI355X.8", 8),),
    "B112140": (("BM.GPU.GB300.4", 4),),
    "B112237": (("BM.GPU.B300.8", 8),),
    "B112613": (("BM.GPU.RTXPRO.8", 8),),
}


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """One quote per shape of every GPU part."""
    answer = require_page(SOURCE, pages).json()
    items = answer.get("items") if isinstance(answer, dict) else None
    if not isinstance(items, list):
        raise layout_changed(SOURCE, f'expected a list "items", found {type(items).__name__}')
    require_fields(SOURCE, items, ("partNumber", "displayName", "metricName", "serviceCategory", "currencyCodeLocalizations"), "items")
    yield from with_quotes(SOURCE, each(items, _item_rows))


def _item_rows(raw: object) -> Iterator[Row]:
    """The shapes of one part; none for what is no GPU rental."""
    item = as_object(raw, "item")
    if item.get("metricName") != METRIC or item.get("serviceCategory") != CATEGORY:
        return
    gpu, part = name(item, "displayName"), name(item, "partNumber")
    if not RENTAL.fullmatch(gpu):
        raise BadRow("software or another product, no GPU rental")
    if part not in SHAPES:
        raise BadRow("part is not in the table of shapes")
    per_gpu = _price(item)
    for shape, gpu_count in SHAPES[part]:
        yield GpuQuote(
            provider="oci",
            sku=shape,
            gpu=gpu,
            gpu_count=gpu_count,
            tier="on_demand",
            price=per_gpu,
            per="gpu_hour",
            currency=CURRENCY,
            availability="listed",
        )


def _price(item: Mapping[str, Any]) -> Decimal:
    """The one pay-as-you-go price in USD; BadRow when there is none, or several for different volumes."""
    localizations = item.get("currencyCodeLocalizations")
    groups = [group for group in localizations if isinstance(group, dict)] if isinstance(localizations, list) else []
    in_usd = [group.get("prices") for group in groups if group.get("currencyCode") == CURRENCY]
    prices = [entry for entries in in_usd if isinstance(entries, list) for entry in entries if isinstance(entry, dict)]
    found = [entry for entry in prices if entry.get("model") == MODEL]
    if len(found) != 1:
        raise BadRow("prices differ by volume" if found else "no pay-as-you-go price in USD")
    return price(found[0], "value")
