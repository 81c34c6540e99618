"""AWS spot prices of GPU instances from the file behind the price page, no key. Docs: https://aws.amazon.com/ec2/spot/pricing/ (read
2026-11-29, from stored copies of programs that read it: the file itself is not documented).

What a price means: USD per hour for the whole instance (all its GPUs) running Linux, without VAT, as spot, of a region and not of a zone.
"N/A*" is no price. New instance types come late or never. Six regions have names of the time before there were codes. The file names no GPU
and no count: the instance type does, by the table below.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from scrapers.contract import GpuQuote, Page, Row
from scrapers.fields import BadRow, as_object, clean_name, each, layout_changed, name, price, require_page, with_quotes

SOURCE = "aws_spot"
PATH = "/spot.js"
CALL = re.compile(r"\s*callback\(\s*(\{.*\})\s*\)\s*;?\s*", re.DOTALL)
REGIONS: Mapping[str, str] = {
    "us-east": "us-east-1",
    "us-west": "us-west-1",
    "eu-ireland": "eu-west-1",
    "apac-sin": "ap-southeast-1",
    "apac-syd": "ap-southeast-2",
    "apac-tokyo": "ap-northeast-1",
}
REGION = re.compile(r"[a-z]{2}(?:-[a-z]+)+-[0-9]{1,2}(?:-[a-z]{3}-[0-9])?")
GPU_TYPE = re.compile(r"(?:p|g|gr)[0-9][a-z0-9-]*\.[a-z0-9-]+")
# GPUs per instance type (instance type pages, read 2026-11-29): types that are one GPU, then those with more
GPUS: Mapping[str, int] = {
    **{f"{family}.{size}": 1 for family in ("g5", "g6", "g6e") for size in ("xlarge", "2xlarge", "4xlarge", "8xlarge", "16xlarge")},
    **{f"{family}.12xlarge": 4 for family in ("g4dn", "g5", "g6", "g6e")},
    **{f"{family}.24xlarge": 4 for family in ("g5", "g6", "g6e")},
    **{f"{family}.48xlarge": 8 for family in ("g5", "g6", "g6e", "p5", "p5e", "p5en", "p6-b200", "p6-b300")},
    **{f"{family}.{size}": 1 for family in ("g7", "g7e") for size in ("2xlarge", "4xlarge", "8xlarge")},
    **{f"{family}.{size}": gpus for family in ("g7", "g7e") for size, gpus in (("12xlarge", 2), ("24xlarge", 4), ("48xlarge", 8))},
    **{f"g4dn.{size}": 1 for size in ("xlarge", "2xlarge", "4xlarge", "8xlarge", "16xlarge")},
    "g4dn.metal": 8,
    "gr6.4xlarge": 1,
    "gr6.8xlarge": 1,
    "p3.2xlarge": 1,
    "p3.8xlarge": 4,
    "p3.16xlarge": 8,
    "p3dn.24xlarge": 8,
    "p4d.24xlarge": 8,
    "p4de.24xlarge": 8,
    "p5.4xlarge": 1,
}


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """One spot quote per GPU instance type and region."""
    document = _document(require_page(SOURCE, pages))
    config = document.get("config") if isinstance(document, dict) else None
    regions = config.get("regions") if isinstance(config, dict) else None
    if not isinstance(config, dict) or not isinstance(regions, list):
        raise layout_changed(SOURCE, 'expected a list "regions" in "config"')
    if config.get("rate") != "perhr" or config.get("currencies") != ["USD"]:
        raise layout_changed(
            SOURCE, f"expected perhr and USD, found {str(config.get('rate'))[:20]!r} and {str(config.get('currencies'))[:40]}"
        )
    yield from with_quotes(SOURCE, (row for region in regions for row in each([region], _region_rows)))


def _document(page: Page) -> Any:
    """The JSON inside the call."""
    call = CALL.fullmatch(page.text)
    if call is None:
        raise layout_changed(SOURCE, f"expected callback({{...}}), found {page.text[:40]!r}")
    return Page(url=page.url, body=call[1].encode()).json()


def _region_rows(raw: object) -> Iterator[Row]:
    region = as_object(raw, "region")
    printed = name(region, "region")
    code = REGIONS.get(printed, printed)
    if not REGION.fullmatch(code):
        raise BadRow("region is neither a code nor one of the old names")
    groups = region.get("instanceTypes")
    if not isinstance(groups, list):
        raise BadRow("instanceTypes is no list")
    sizes = [size for group in groups for size in _sizes(group)]
    yield from each(((code, size) for size in sizes), _size_rows)


def _sizes(group: object) -> list[object]:
    """The sizes of one group; a group that cannot be read stands for itself and is refused as a row."""
    sizes = group.get("sizes") if isinstance(group, dict) else None
    return sizes if isinstance(sizes, list) else [group]


def _size_rows(entry: tuple[str, object]) -> Iterator[Row]:
    """The quote of one size; none for an instance without GPUs."""
    region, size = entry[0], as_object(entry[1], "size")
    sku = name(size, "size")
    if not GPU_TYPE.fullmatch(sku):
        return
    if sku not in GPUS:
        raise BadRow("size is not in the table of GPU counts")
    yield GpuQuote(
        provider="aws",
        sku=clean_name(sku, "size"),
        gpu=sku,
        gpu_count=GPUS[sku],
        region=region,
        tier="spot",
        price=_linux_price(size),
        per="node_hour",
        currency="USD",
    )


def _linux_price(size: Mapping[str, Any]) -> Decimal:
    columns = size.get("valueColumns")
    named = (
        [column for column in columns if isinstance(column, dict) and column.get("name") == "linux"] if isinstance(columns, list) else []
    )
    if len(named) != 1:
        raise BadRow("not one linux price")
    prices = as_object(named[0].get("prices"), "prices")
    if str(prices.get("USD")).startswith("N/A"):
        raise BadRow("no price (N/A*)")
    return price(prices, "USD")
