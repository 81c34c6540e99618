"""CoreWeave GPU instance prices from the pricing page, no key. Docs: https://www.coreweave.com/pricing (read 2026-11-29, from a
copy of October 2026).

What a price means: USD per hour for the whole instance (all its GPUs; 4 of an NVL72 rack), without VAT, on demand or spot,
without a term. The page lists, it states no stock. Every value stands twice, in a column and behind a label for small
screens; the labels are read and the column must agree. "Inference Single CPU Price" is the on-demand price divided by the
GPUs and is no offer. A blank with "Contact sales" is no price, "N/A" is not sold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial

from bs4 import BeautifulSoup, Tag
from bs4.element import NavigableString

from scrapers.contract import GpuQuote, Page, Row, Tier
from scrapers.fields import BadRow, clean_name, each, layout_changed, with_quotes
from scrapers.html import around, beside, dollars, html_page, near_any, printed_count, starting
from scrapers.text import label, tag_text

SOURCE = "coreweave"
PATH = "/pricing"
COUNT_LABEL = "GPU Count"
MEMORY_LABEL = "VRAM"
PRICE_LABELS: tuple[tuple[str, Tier], ...] = (("On-Demand Price:", "on_demand"), ("Spot Price:", "spot"))
PER_HOUR = "/ Hour"
MOST_HEADINGS = 10  # a row has two, one per screen size
MEMORY = re.compile(r"[0-9]{1,4}(\.[0-9]{1,3})?")
REGION = re.compile(r"REGION:\s*(.+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """One listed instance: where it stands on the page and what its row prints."""

    region: str
    sku: str
    gpu: str
    gpu_count: str
    memory: str
    price_lines: tuple[tuple[Tier, str | None], ...]  # "$50.44 / Hour" behind the label of each tier; None without the label
    printed: tuple[str, ...]  # every string of the row


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """An on-demand and a spot quote per region and product, where a price is printed."""
    page = html_page(SOURCE, pages)
    if page.find(None, {"data-product": True}) is None:
        raise layout_changed(SOURCE, 'no element with "data-product" on the page')
    products = list(_products(page))
    if not products:
        raise layout_changed(SOURCE, f'no product with a "{COUNT_LABEL}" on the page')
    if all(line is None for product in products for _, line in product.price_lines):
        raise layout_changed(SOURCE, f'no "{PRICE_LABELS[0][0]}" in any of {len(products)} products')
    yield from with_quotes(SOURCE, each(products, _product_rows))


def _products(page: BeautifulSoup) -> Iterator[Product]:
    """GPU products in page order, the first one per region and product id; CPU products have no GPU count."""
    near = near_any(page.find_all(None, {"data-product": True}))
    region, seen = "", set()
    for node in page.descendants:
        if isinstance(node, Tag) and node.name == "h5":
            heading = REGION.fullmatch(tag_text(node))
            region = heading[1] if heading else region
        if not isinstance(node, NavigableString) or node.strip() != COUNT_LABEL or node.parent is None:
            continue
        row = around(node.parent, near)
        sku = None if row is None else _only_product(row)
        if row is not None and sku is not None and (region, sku) not in seen:
            seen.add((region, sku))
            yield _product(region, sku, row)


def _only_product(row: Tag) -> str | None:
    """The product id of a row; None when it holds several, so that nothing says whose count it is."""
    ids = {str(heading["data-product"]) for heading in row.find_all(None, {"data-product": True}, limit=MOST_HEADINGS)}
    return ids.pop() if len(ids) == 1 else None


def _product(region: str, sku: str, row: Tag) -> Product:
    heading = row.find(None, {"data-product": True})
    return Product(
        region=region,
        sku=sku,
        gpu="" if heading is None else tag_text(heading),
        gpu_count=beside(row, COUNT_LABEL),
        memory=beside(row, MEMORY_LABEL),
        price_lines=tuple((tier, _behind(row, name)) for name, tier in PRICE_LABELS),
        printed=tuple(label(text) for text in row.stripped_strings),
    )


def _behind(row: Tag, name: str) -> str | None:
    """The rest of the line a label starts; None without the label."""
    element = starting(row, name)
    return None if element is None else tag_text(element).removeprefix(name).strip()


def _product_rows(product: Product) -> Iterator[Row]:
    gpu_count = printed_count(product.gpu_count, "GPU count")
    for tier, line in product.price_lines:
        yield from each([product], partial(_price_rows, tier, line, gpu_count))


def _price_rows(tier: Tier, line: str | None, gpu_count: int, product: Product) -> Iterator[Row]:
    """The quote of one tier; none where it is not sold."""
    if line is None:
        raise BadRow(f"no {tier} price in the row")
    if not line.endswith(PER_HOUR):
        raise BadRow(f"{tier} price is not per hour")
    printed = label(line.removesuffix(PER_HOUR))
    if printed == "N/A":
        return
    yield GpuQuote(
        provider="coreweave",
        sku=clean_name(product.sku, "data-product"),
        gpu=clean_name(product.gpu, "name of the product"),
        gpu_count=gpu_count,
        memory_gb=Decimal(product.memory) if MEMORY.fullmatch(product.memory) else None,
        region=clean_name(product.region, "region") if product.region else "",
        tier=tier,
        price=_price(product, printed),
        per="node_hour",
        currency="USD",
        availability="listed",
    )


def _price(product: Product, printed: str) -> Decimal:
    """A printed dollar amount that stands in the row twice, as this page prints every value."""
    if not printed:
        raise BadRow("contact sales")
    amount = dollars(printed, "price")
    if product.printed.count(printed) < 2:
        raise BadRow("the two printed copies of the price differ")
    return amount
