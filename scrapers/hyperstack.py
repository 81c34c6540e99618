"""Hyperstack GPU prices from the pricing page, no key. Docs: https://www.hyperstack.cloud/gpu-pricing (read 2026-11-29, from a copy of
October 2026).

What a price means: USD for one GPU for one hour, without VAT, on demand or spot, without a term. "NVIDIA H100" and "NVIDIA H100 NVLink" are
PCIe cards (the link is a bridge). How many GPUs a machine has is not on the page: SXM, B200 and B300 machines have eight, the others start
at one. Reservation prices name no term and are left out. The page lists, it states no stock.

The rows are no table and the on-demand block has no header cells, so a row is read by what its cells say: one name, one dollar amount.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from bs4 import BeautifulSoup, Tag
from bs4.element import NavigableString

from scrapers.contract import GpuQuote, Page, Row, Tier
from scrapers.fields import BadRow, clean_name, each, layout_changed, with_quotes
from scrapers.html import MOST_LEVELS, dollars, html_page
from scrapers.text import label, tag_text

SOURCE = "hyperstack"
PATH = "/gpu-pricing"
BLOCKS: dict[str, Tier] = {"On-Demand GPU Pricing": "on_demand", "Spot VM Pricing": "spot"}
HEADINGS = ("h1", "h2", "h3", "h4")
AMOUNT = re.compile(r"[^A-Za-z]*[$€£].*|.*[$€£][^A-Za-z]*")
NUMBER = re.compile(r"[0-9.,\s-]+")
WHOLE_NODE = re.compile(r"\b(SXM|B200|B300)\b")
NODE_GPUS = 8
LONGEST = 200  # characters of a printed amount with the blanks around it


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A row that prints an amount: the tier of its block, its amounts, and its other texts that are no numbers."""

    tier: Tier
    amounts: tuple[str, ...]
    names: tuple[str, ...]


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """One quote per row of the on-demand and the spot block."""
    page = html_page(SOURCE, pages)
    headings = [heading for heading in page.find_all(HEADINGS) if tag_text(heading) in BLOCKS]
    if not headings:
        raise layout_changed(SOURCE, f'no heading "{next(iter(BLOCKS))}" on the page')
    lines = list(_lines(page))
    if not lines:
        raise layout_changed(SOURCE, f'no row with an amount under "{next(iter(BLOCKS))}"')
    yield from with_quotes(SOURCE, each(lines, _line_rows))


def _lines(page: BeautifulSoup) -> Iterator[Line]:
    """Rows in page order: the nearest element around an amount that says anything else, once per element."""
    tier: Tier | None = None
    seen: set[int] = set()
    for node in page.descendants:
        if isinstance(node, Tag) and node.name in HEADINGS:
            tier = BLOCKS.get(tag_text(node))
        if tier is None or not isinstance(node, NavigableString) or len(node) > LONGEST or not AMOUNT.fullmatch(label(node)):
            continue
        row = next((parent for parent in islice(node.parents, MOST_LEVELS) if len(list(islice(parent.stripped_strings, 2))) > 1), None)
        if row is not None and id(row) not in seen:
            seen.add(id(row))
            yield _line(tier, [label(text) for text in row.stripped_strings])


def _line(tier: Tier, texts: Sequence[str]) -> Line:
    amounts = tuple(text for text in texts if AMOUNT.fullmatch(text))
    return Line(tier=tier, amounts=amounts, names=tuple(text for text in texts if text not in amounts and not NUMBER.fullmatch(text)))


def _line_rows(line: Line) -> Iterator[Row]:
    if len(line.amounts) != 1:
        raise BadRow("several amounts in one row")
    if len(line.names) != 1:
        raise BadRow("not one name in the row")
    gpu = clean_name(line.names[0], "name of the GPU")
    yield GpuQuote(
        provider="hyperstack",
        sku=gpu,
        gpu=gpu,
        gpu_count=NODE_GPUS if WHOLE_NODE.search(gpu) else 1,
        tier=line.tier,
        price=dollars(line.amounts[0], "price"),
        per="gpu_hour",
        currency="USD",
        availability="listed",
    )
