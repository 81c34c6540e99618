"""AWS offer files: which are read, and what the filter of raw lines lets through."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from scrapers import aws
from scrapers.contract import GpuQuote, LineFilter, Page
from scrapers.lines import kept_lines

HEADER = '"SKU","TermType","Unit","PricePerUnit","Currency","Instance Type","Tenancy","Operating System","License Model","CapacityStatus"'
HEADER += ',"GPU","Pre Installed S/W","MarketOption","Region Code"'
ROW = '"A","{term}","Hrs","{price}","USD","{type}","{tenancy}","{system}","No License required","{capacity}","{gpu}","NA","OnDemand"'
ROW += ',"us-east-1"'
PLAIN = {
    "term": "OnDemand",
    "price": "55.04",
    "type": "p5.48xlarge",
    "tenancy": "Shared",
    "system": "Linux",
    "capacity": "Used",
    "gpu": "8",
}


class FakeClient:
    def __init__(self) -> None:
        self.asked: list[tuple[str, LineFilter]] = []

    def get(self, path: str, *, params: Mapping[str, str | int] | None = None, headers: Mapping[str, str] | None = None) -> Page:
        raise AssertionError(f"{path} would be held whole")

    def post(self, path: str, *, json: Any, headers: Mapping[str, str] | None = None) -> Page:
        raise AssertionError(f"unexpected POST {path}")

    def get_lines(self, path: str, lines: LineFilter) -> Page:
        self.asked.append((path, lines))
        return Page(url=path, body=b"")


def row(**changes: str) -> bytes:
    return ROW.format(**{**PLAIN, **changes}).encode()


def test_every_region_is_read_by_lines() -> None:
    client = FakeClient()
    assert len(aws.fetch(client, {})) == len(aws.REGIONS)
    assert client.asked[0] == ("/offers/v1.0/aws/AmazonEC2/current/us-east-1/index.csv", aws.LINES)


@pytest.mark.parametrize("gpu_type", ["p3.2xlarge", "p5.48xlarge", "p6-b300.48xlarge", "g4dn.xlarge", "g7e.2xlarge", "gr6.4xlarge"])
def test_plain_rows_of_gpu_instances_pass_the_filter(gpu_type: str) -> None:
    assert aws.LINES.keeps(row(type=gpu_type))


@pytest.mark.parametrize(
    "other",
    [
        {"type": "m7i.large"},
        {"type": "trn2.48xlarge"},
        {"system": "Windows"},
        {"tenancy": "Dedicated"},
        {"capacity": "UnusedCapacityReservation"},
    ],
)
def test_other_rows_do_not(other: dict[str, str]) -> None:
    assert not aws.LINES.keeps(row(**other))


def test_the_filter_changes_no_price() -> None:
    """Reserved rows of GPU instances pass the raw test (their market option is OnDemand) and fail the second."""
    rows = [row(), row(term="Reserved", price="23.77"), row(type="g6.xlarge", gpu="1", price="0.8048"), row(type="m7i.large", gpu="NA")]
    file = b'"FormatVersion","v1.0"\n' + HEADER.encode() + b"\n" + b"\n".join(rows * 50)
    kept = kept_lines([file], "", aws.LINES, max_bytes=10**6)
    found = [list(aws.parse([Page(url="https://pricing.test/", body=body)])) for body in (file, kept)]
    assert found[0] == found[1] and len(found[0]) == 100
    assert {quote.price for quote in found[0] if isinstance(quote, GpuQuote)} == {Decimal("55.04"), Decimal("0.8048")}


def test_the_lines_about_the_file_do_not_count_as_a_change() -> None:
    """The file is published again several times a day with the same prices; what is kept stays the same bytes."""
    first, second = (b'"Version","%d"\n' % version + HEADER.encode() + b"\n" + row() + b"\n" for version in (1, 2))
    assert kept_lines([first], "", aws.LINES, max_bytes=10**6) == kept_lines([second], "", aws.LINES, max_bytes=10**6)
