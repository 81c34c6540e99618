"""Whatever arrives, a parser gives rows or a ScrapeError: every value of every normal recording is replaced, every page is cut."""

from __future__ import annotations

import copy
import importlib
import json
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from scrapers.contract import GpuQuote, Page, Row, ScrapeError, TokenQuote

RECORDED = Path(__file__).parent / "recorded"
SOURCES = sorted(path.parents[1].name for path in RECORDED.glob("*/normal/pages.json"))
WRONG: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    10**30,
    1.5,
    "",
    "NaN",
    "Infinity",
    "\0",
    "<b>x</b>",
    "x" * 5000,
    "\ud800",
    [],
    {},
    [None],
    {"a": None},
)
MOST_PLACES = 400  # of one page


def normal_pages(source: str) -> list[Page]:
    case = RECORDED / source / "normal"
    entries = json.loads((case / "pages.json").read_text())
    return [Page(url=entry["url"], body=(case / entry["file"]).read_bytes(), headers=entry.get("headers", {})) for entry in entries]


def parse(source: str, pages: list[Page]) -> list[Row]:
    """The rows, or none after a ScrapeError; any other exception is a bug."""
    try:
        return list(importlib.import_module(f"scrapers.{source}").parse(pages))
    except ScrapeError:
        return []


def is_json(page: Page) -> bool:
    return page.body.lstrip()[:1] in (b"{", b"[")


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value inside a JSON document, its root first."""
    yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*path, key))


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    changed = copy.deepcopy(document)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return changed


def assert_sound(rows: list[Row]) -> None:
    for row in rows:
        if isinstance(row, GpuQuote):
            assert isinstance(row.price, Decimal) and row.price.is_finite() and row.price > 0
            assert isinstance(row.gpu_count, int) and not isinstance(row.gpu_count, bool) and row.gpu_count >= 1
            assert row.max_gpu_count is None or row.max_gpu_count >= row.gpu_count
            assert all(text.isprintable() for text in (row.sku, row.gpu, row.region, row.currency)) and row.sku and row.gpu
        if isinstance(row, TokenQuote):
            prices = row.prices.values()
            assert prices and all(isinstance(price, Decimal) and price.is_finite() and price >= 0 for price in prices)
            assert all(text.isprintable() for text in (row.model, row.provider, row.currency)) and row.model and row.provider


@pytest.mark.parametrize("source", [source for source in SOURCES if any(is_json(page) for page in normal_pages(source))])
def test_every_value_of_the_normal_answer_replaced(source: str) -> None:
    pages = normal_pages(source)
    assert parse(source, pages)
    for number, page in enumerate(pages):
        if not is_json(page):
            continue
        document = json.loads(page.body)
        for path in list(places(document))[:MOST_PLACES]:
            for value in WRONG:
                body = json.dumps(replaced(document, path, value)).encode()
                assert_sound(parse(source, [*pages[:number], replace(page, body=body), *pages[number + 1 :]]))


@pytest.mark.parametrize("source", SOURCES)
def test_every_page_cut_and_damaged(source: str) -> None:
    pages = normal_pages(source)
    assert parse(source, pages)
    for number, page in enumerate(pages):
        step = max(1, len(page.body) // 25)
        for at in range(0, len(page.body), step):
            flipped = page.body[:at] + bytes([page.body[at] ^ 0x55]) + page.body[at + 1 :]
            for body in (
                page.body[:at],
                page.body[at:],
                page.body[:at] + page.body[at + step :],
                flipped,
                page.body[:at] + b"\0<>\"'&;" + page.body[at:],
            ):
                assert_sound(parse(source, [*pages[:number], replace(page, body=body), *pages[number + 1 :]]))


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0",
        b"null",
        b"[]",
        b"{}",
        b'"text"',
        b"1e99999999999999999999",
        b"[" * 100_000,
        b"<html>",
        b"<a>" * 5_000,
        b"\xff\xfe",
        b"PK\x03\x04",
    ],
)
def test_a_page_of_something_else(source: str, body: bytes) -> None:
    for number, page in enumerate(pages := normal_pages(source)):
        assert_sound(parse(source, [*pages[:number], replace(page, body=body), *pages[number + 1 :]]))
        break
    assert parse(source, []) == []


def test_the_campaign_is_not_empty() -> None:
    assert {"runpod", "scaleway", "coreweave", "ecb"} <= set(SOURCES)
    assert sum(is_json(page) for source in SOURCES for page in normal_pages(source)) >= 8


def test_an_unsound_row_is_found() -> None:
    quote = GpuQuote(provider="p", sku="s", gpu="g", gpu_count=1, tier="on_demand", price=Decimal(1), per="gpu_hour", currency="USD")
    assert_sound([quote])
    for wrong in (replace(quote, price=Decimal(0)), replace(quote, gpu_count=0), replace(quote, sku="a\nb"), replace(quote, gpu="")):
        with pytest.raises(AssertionError):
            assert_sound([wrong])
