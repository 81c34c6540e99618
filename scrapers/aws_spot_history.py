"""AWS spot prices of GPU instances by the EC2 API, with a key that may ec2:DescribeSpotPriceHistory. Docs: https://docs.aws.amazon.com/
AWSEC2/latest/APIReference/API_DescribeSpotPriceHistory.html (read 2026-11-29, from stored copies).

What a price means: USD per hour for the whole instance (all its GPUs) running Linux, without VAT, as spot, in the cheapest zone of the
region that has it: AWS prices zones. Asked from now on, the history is the price now of every type and zone. The answer names no GPU and
no count: the instance type does. Each region has a host of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from xml.etree import ElementTree

from scrapers.aws_spot import GPU_TYPE, GPUS
from scrapers.contract import GpuQuote, MissingKey, Page, RegionClient, Row
from scrapers.fields import BadRow, each, layout_changed, name, price, require_page, with_quotes
from scrapers.sigv4 import Credentials, credentials, sign_get
from scrapers.xml import child_text, children, document

SOURCE = "aws_spot_history"
SERVICE = "ec2"
ANSWER = "DescribeSpotPriceHistoryResponse"
ASKED: Mapping[str, str | int] = {
    "Action": "DescribeSpotPriceHistory",
    "Version": "2016-11-15",
    "ProductDescription.1": "Linux/UNIX",
    "Filter.1.Name": "instance-type",
    "Filter.1.Value.1": "p*",  # GPU families are p... and g...
    "Filter.1.Value.2": "g*",
    "MaxResults": 1000,
}
MAX_PAGES = 20  # a region has about 400 types and zones with GPUs
ZONE = re.compile(r"([a-z]{2}(?:-[a-z]+)+-[0-9]{1,2}(?:-[a-z]{3}-[0-9])?)[a-z]")
FIELDS = ("instanceType", "productDescription", "spotPrice", "timestamp", "availabilityZone")


def fetch(client: RegionClient, secrets: Mapping[str, str]) -> list[Page]:
    """Every page of every region; MissingKey without ``id:secret``."""
    key = credentials(secrets.get("key", ""))
    if key is None:
        raise MissingKey(f"{SOURCE}: no key; set the environment variable that key_env of this source names to id:secret")
    return [page for region in client.regions for page in _pages(client, region, key)]


def _pages(client: RegionClient, region: str, key: Credentials) -> Iterator[Page]:
    params = {**ASKED, "StartTime": client.now().strftime("%Y-%m-%dT%H:%M:%SZ")}
    for _ in range(MAX_PAGES):
        page = client.get_signed("/", region=region, params=params, sign=partial(sign_get, key, region, SERVICE))
        yield page
        token = child_text(document(SOURCE, page), "nextToken")
        if not token:
            return
        params = {**params, "NextToken": token}
    raise layout_changed(SOURCE, f"expected at most {MAX_PAGES} pages of {region}, nextToken goes on")


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """One spot quote per GPU instance type and region: the newest price of each zone, the lowest of the zones."""
    require_page(SOURCE, pages)
    items = [item for page in pages for item in _items(page)]
    newest: dict[tuple[str, str, str], tuple[datetime, GpuQuote]] = {}
    rows = each(items, partial(_take, newest))
    yield from with_quotes(SOURCE, _then_lowest(rows, newest))


def _items(page: Page) -> list[dict[str, str]]:
    root = document(SOURCE, page)
    found = list(children(root, "spotPriceHistorySet"))
    if root.tag.rpartition("}")[2] != ANSWER or len(found) != 1:
        raise layout_changed(SOURCE, f"expected {ANSWER} with a spotPriceHistorySet, found {root.tag[:100]!r}")
    return [_fields(item) for item in children(found[0], "item")]


def _fields(item: ElementTree.Element) -> dict[str, str]:
    return {name: child_text(item, name) for name in FIELDS}


def _take(newest: dict[tuple[str, str, str], tuple[datetime, GpuQuote]], item: dict[str, str]) -> Iterator[Row]:
    """No row; keeps the newest price of a type and zone. Instances without GPUs are nothing."""
    sku = name(item, "instanceType")
    if not GPU_TYPE.fullmatch(sku):
        return
    if sku not in GPUS:
        raise BadRow("instanceType is not in the table of GPU counts")
    if item["productDescription"] != "Linux/UNIX":
        raise BadRow("productDescription is not Linux/UNIX")
    zone = ZONE.fullmatch(item["availabilityZone"])
    if zone is None:
        raise BadRow("availabilityZone is none")
    when = _moment(item["timestamp"])
    quote = GpuQuote(
        provider="aws",
        sku=sku,
        gpu=sku,
        gpu_count=GPUS[sku],
        region=zone[1],
        tier="spot",
        price=price(item, "spotPrice"),
        per="node_hour",
        currency="USD",
    )
    key = (zone[1], sku, zone[0])
    if key not in newest or when > newest[key][0]:
        newest[key] = (when, quote)
    yield from ()


def _moment(text: str) -> datetime:
    try:
        when = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadRow("timestamp is no time") from error
    if when.tzinfo is None:
        raise BadRow("timestamp has no zone")
    return when


def _then_lowest(rows: Iterator[Row], newest: Mapping[tuple[str, str, str], tuple[datetime, GpuQuote]]) -> Iterator[Row]:
    """What could not be read, then the lowest price of each region and type."""
    yield from rows
    lowest: dict[tuple[str, str], GpuQuote] = {}
    for (region, sku, _), (_, quote) in newest.items():
        if (region, sku) not in lowest or quote.price < lowest[region, sku].price:
            lowest[region, sku] = quote
    yield from (lowest[key] for key in sorted(lowest))
