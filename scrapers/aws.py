"""AWS on-demand GPU instance prices from the EC2 offer files, no key. Docs: https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/
price-changes.html (read 2026-11-29, from stored copies).

What a price means: for the whole instance (all its GPUs) per hour, running Linux with shared tenancy, without VAT, disks and traffic extra,
on demand. One row of a file is one of many prices of an instance type: reserved, Windows, dedicated, with paid software, unused capacity
reservations and capacity blocks (printed at 0) are left out. The file names no GPU, the instance type does; counts below one are slices.

A file has half a gigabyte and more a region, so it is read line by line and only lines of GPU instances on demand are kept. Lines about the
file itself stand before the header, which is found by its first column.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial

from scrapers.contract import GpuQuote, LineClient, LineFilter, Page, Row
from scrapers.fields import NUMBER, BadRow, count, currency, each, layout_changed, name, price, require_page, with_quotes

SOURCE = "aws"
PATH = "/offers/v1.0/aws/AmazonEC2/current/{region}/index.csv"
REGIONS = ("us-east-1", "us-east-2", "us-west-2", "eu-north-1")  # the regions with most GPU types; others cost as much traffic again
LINES = LineFilter(
    head=b'"SKU",',
    all_of=(b'"Linux"', b'"Shared"', b'"OnDemand"', b'"Used"'),
    any_of=(b'"p', b'"g'),  # GPU families are p... and g...
)
PLAIN: Mapping[str, frozenset[str]] = {  # what makes a row the ordinary price
    "TermType": frozenset({"OnDemand"}),
    "Operating System": frozenset({"Linux"}),
    "Tenancy": frozenset({"Shared"}),
    "CapacityStatus": frozenset({"Used"}),
    "MarketOption": frozenset({"OnDemand"}),
    "Pre Installed S/W": frozenset({"", "NA"}),
    "License Model": frozenset({"", "NA", "No License required"}),
}
COLUMNS = ("Instance Type", "PricePerUnit", "Unit", "Currency", "GPU", "Region Code", *PLAIN)
GPU_TYPE = re.compile(r"(?:p|g|gr)[0-9][a-z0-9-]*\.[a-z0-9-]+")


def fetch(client: LineClient, secrets: Mapping[str, str]) -> list[Page]:
    """The header and the GPU lines of the file of every region."""
    return [client.get_lines(PATH.format(region=region), LINES) for region in REGIONS]


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """One on-demand quote per GPU instance type and region."""
    require_page(SOURCE, pages)
    yield from with_quotes(SOURCE, (row for page in pages for row in _file_rows(page)))


def _file_rows(page: Page) -> Iterator[Row]:
    lines = iter(page.text.split("\n"))
    columns = _columns(next((line for line in lines if line.startswith('"SKU",')), ""))
    missing = [column for column in COLUMNS if column not in columns]
    if missing:
        raise layout_changed(SOURCE, f'no column "{missing[0]}" in a header that starts with "SKU" at {page.url[:200]}')
    yield from each((line for line in lines if line), partial(_line_rows, columns))


def _columns(header: str) -> list[str]:
    try:
        return _values(header)
    except BadRow:
        return []


def _values(line: str) -> list[str]:
    """The values of one line; no value of these files holds a line break, so that a bad line stays one bad line."""
    try:
        return next(csv.reader([line.rstrip("\r")]), [])
    except csv.Error as error:
        raise BadRow("line is no CSV") from error


def _line_rows(columns: Sequence[str], line: str) -> Iterator[Row]:
    """The quote of one line; none for other instances and for any but the ordinary on-demand price."""
    values = _values(line)
    if len(values) != len(columns):
        raise BadRow("another number of columns than the header")
    record = dict(zip(columns, values, strict=True))
    if not GPU_TYPE.fullmatch(record["Instance Type"]) or any(record[column] not in allowed for column, allowed in PLAIN.items()):
        return
    if record["Unit"] != "Hrs":
        raise BadRow("Unit is not Hrs")
    share = Decimal(record["GPU"]) if NUMBER.fullmatch(record["GPU"]) else Decimal(0)
    is_slice = 0 < share < 1
    sku = name(record, "Instance Type")
    yield GpuQuote(
        provider="aws",
        sku=sku,
        gpu=sku,
        gpu_count=1 if is_slice else count(record, "GPU"),
        region=name(record, "Region Code"),
        tier="on_demand",
        price=price(record, "PricePerUnit"),
        per="node_hour",
        currency=currency(record, "Currency"),
        availability="listed",
        is_slice=is_slice,
    )
