"""Crusoe Cloud GPU prices from the pricing page, no key. Docs: https://www.crusoe.ai/cloud/pricing (read 2026-11-29, from a copy of
October 2026).

What a price means: USD for one GPU for one hour ("/GPU-hr" is printed), without VAT, on demand or spot, without a term. The page names
memory and form factor as tags, not how many GPUs an instance has: HGX, SXM and AMD Instinct machines have eight, PCIe ones start at one,
and a rack (NVL72) is left out. The page lists, it states no stock. "Contact sales" is no price. CPU instances and storage stand on the
same page in other units.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from itertools import islice

from bs4 import BeautifulSoup, Tag

from scrapers.contract import GpuQuote, Page, Row, Tier
from scrapers.fields import BadRow, clean_name, clean_price, each, layout_changed, with_quotes
from scrapers.html import MOST_LEVELS, children_texts, html_page
from scrapers.text import price, tag_text

SOURCE = "crusoe"
PATH = "/cloud/pricing"
MODEL = "GPU model"
TIERS: dict[str, Tier] = {"On-demand": "on_demand", "Current spot": "spot"}
UNIT = "gpu-hr"
MEMORY = re.compile(r"([0-9]{1,4}) ?GB")
WHOLE_NODE = frozenset({"HGX", "SXM"})
NODE_GPUS = 8
MOST_ITEMS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One GPU of the list: its name, its tags and one printed price per header column."""

    gpu: str
    tags: tuple[str, ...]
    prices: tuple[tuple[Tier, str], ...]


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """One quote per GPU card and price column."""
    page = html_page(SOURCE, pages)
    cards = [card for header in _headers(page) for card in _cards(header)]
    if not cards:
        raise layout_changed(SOURCE, f'no row under a header "{MODEL}" with "{next(iter(TIERS))}"')
    yield from with_quotes(SOURCE, each(cards, _card_rows))


def _headers(page: BeautifulSoup) -> Iterator[Tag]:
    """The header rows of GPU lists: elements whose children say "GPU model" and the name of a tier."""
    for text in page.find_all(string=lambda string: string is not None and string.strip() == MODEL):
        cell = text.parent
        header = cell.parent if cell is not None else None
        if header is not None and MODEL in children_texts(header) and TIERS.keys() & set(children_texts(header)):
            yield header


def _cards(header: Tag) -> Iterator[Card]:
    """The GPUs in the block of a header: one per heading, with a cell per header column."""
    columns = children_texts(header)
    for heading in header.parent.find_all("h4", limit=MOST_ITEMS) if header.parent is not None else ():
        cells = _cells(heading, columns)
        if cells:
            printed = dict(zip(columns, map(tag_text, cells), strict=True))
            tags = [text.strip() for text in cells[columns.index(MODEL)].stripped_strings if text.strip() != heading.get_text().strip()]
            prices = tuple((tier, printed[name]) for name, tier in TIERS.items() if name in printed)
            yield Card(gpu=tag_text(heading), tags=tuple(tags), prices=prices)


def _cells(heading: Tag, columns: Sequence[str]) -> list[Tag]:
    """The children of the outermost element that has a child per column, no other heading, and this one under "GPU model"."""
    cells: list[Tag] = []
    for around in islice(heading.parents, MOST_LEVELS):
        if len(around.find_all("h4", limit=2)) > 1:
            break
        children = [child for child in around.children if isinstance(child, Tag)]
        if len(children) == len(columns) and any(found is heading for found in children[columns.index(MODEL)].find_all("h4", limit=1)):
            cells = children
    return cells


def _card_rows(card: Card) -> Iterator[Row]:
    for tier, printed in card.prices:
        yield from each([card], partial(_quote_rows, tier, printed))


def _quote_rows(tier: Tier, printed: str, card: Card) -> Iterator[Row]:
    """The quote of one column; none where it is not sold."""
    amount = price(printed)
    if amount.state == "not_offered":
        return
    if amount.state == "contact_sales":
        raise BadRow("contact sales")
    if amount.amount is None or amount.currency != "USD" or amount.unit != UNIT:
        raise BadRow("price is no dollar amount per GPU-hour")
    form = [tag for tag in card.tags if not MEMORY.fullmatch(tag)]
    memory = next((found[1] for tag in card.tags if (found := MEMORY.fullmatch(tag))), None)
    gpu = clean_name(" ".join([card.gpu, *card.tags]) if card.gpu else "", "name of the GPU")
    yield GpuQuote(
        provider="crusoe",
        sku=gpu,
        gpu=gpu,
        gpu_count=_gpu_count(gpu, form),
        memory_gb=Decimal(memory) if memory else None,
        tier=tier,
        price=clean_price(amount.amount, "price"),
        per="gpu_hour",
        currency="USD",
        availability="listed",
        price_kind="starting_at" if amount.state == "starting_at" else "list",
    )


def _gpu_count(gpu: str, form: Sequence[str]) -> int:
    if any(tag.startswith("NVL") for tag in form):
        raise BadRow("GPUs of an instance in a rack are not known")
    return NODE_GPUS if WHOLE_NODE & set(form) or gpu.startswith("AMD MI") else 1
