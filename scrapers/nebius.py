"""Nebius GPU prices from the pricing page, no key. Docs: https://nebius.com/prices (read 2026-11-29, from a copy of September 2026).

What a price means: USD for one GPU for one hour, without VAT, on demand, or preemptible ("Spot price", ``tier`` spot), without a term. How
many GPUs a machine has is not on the page: an HGX machine has eight, the others start at one, racks (NVL72) are left out where priced.
"from" is the smallest configuration. A column "(Effective <date>)" is an announced price from that day on, and the price from then on.
The page lists, it states no stock; "Contact us" is no price.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import islice

from bs4 import BeautifulSoup, Tag

from scrapers.contract import GpuQuote, Page, Row, Tier
from scrapers.fields import BadRow, clean_name, clean_price, each, layout_changed, with_quotes
from scrapers.html import MOST_LEVELS, children_texts, html_page
from scrapers.text import price

SOURCE = "nebius"
PATH = "/prices"
ITEM = "Item"
COLUMN = re.compile(
    r"(?:(?P<kind>on-demand|spot price),? )?GPU-hour(?: \(Effective (?P<day>[A-Z][a-z]+ [0-9]{1,2}, [0-9]{4})\))?", re.IGNORECASE
)
NODE_GPUS = 8
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A price column: its header, its tier and the day it takes effect (None: now)."""

    header: str
    tier: Tier
    starts: datetime | None


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """One quote per GPU row and price column in force or announced."""
    page = html_page(SOURCE, pages)
    rows = [(columns, cells) for columns, records in _blocks(page, pages[0].fetched_at) for cells in records]
    if not rows:
        raise layout_changed(SOURCE, f'no row under a header "{ITEM}" with a price per "GPU-hour"')
    yield from with_quotes(SOURCE, each(rows, _item_rows))


def _blocks(page: BeautifulSoup, fetched_at: datetime | None) -> Iterator[tuple[tuple[Column, ...], list[dict[str, str]]]]:
    """The price columns and rows of every grid whose header says "Item" and "GPU-hour"."""
    for text in page.find_all(string=lambda string: string is not None and string.strip() == ITEM):
        header = next((parent for parent in islice(text.parents, MOST_LEVELS) if len(children_texts(parent)) > 1), None)
        names = children_texts(header) if header is not None else []
        columns = _in_force([column for name in names if (column := _column(name)) is not None], fetched_at)
        if header is None or ITEM not in names or not columns or len(names) != len(set(names)):
            continue
        yield columns, [dict(zip(names, cells, strict=True)) for cells in _rows(header, len(names))]


def _column(name: str) -> Column | None:
    """What a header says about its prices; None for a column without prices per GPU-hour."""
    found = COLUMN.fullmatch(name)
    if found is None:
        return None
    spot = (found["kind"] or "").casefold() == "spot price"
    return Column(header=name, tier="spot" if spot else "on_demand", starts=_day(found["day"]) if found["day"] else None)


def _day(text: str) -> datetime:
    try:
        return datetime.strptime(text, "%B %d, %Y").replace(tzinfo=UTC)
    except ValueError as error:
        raise layout_changed(SOURCE, f'expected a date such as "October 1, 2026" in a header, found {text!r}') from error


def _in_force(columns: Sequence[Column], at: datetime | None) -> tuple[Column, ...]:
    """Per tier the column in force at ``at`` (the last dated one that has begun, else the undated one) and those announced."""
    kept: list[Column] = []
    for tier in dict.fromkeys(column.tier for column in columns):
        mine = [column for column in columns if column.tier == tier]
        announced = [column for column in mine if column.starts is not None and (at is None or column.starts > at)]
        begun = sorted((column for column in mine if column not in announced), key=lambda column: column.starts or LONG_AGO)
        kept += [*begun[-1:], *announced]
    return tuple(kept)


def _rows(header: Tag, width: int) -> Iterator[list[str]]:
    """The cells of the other elements of the header's kind and width, in the nearest block that holds any."""

    def alike(tag: Tag) -> bool:
        return tag.name == header.name and tag.get("class") == header.get("class")

    block = next((parent for parent in islice(header.parents, MOST_LEVELS) if len(parent.find_all(alike, limit=2)) > 1), None)
    for row in block.find_all(alike) if block is not None else ():
        cells = children_texts(row)
        if row is not header and len(cells) == width:
            yield cells


def _item_rows(entry: tuple[tuple[Column, ...], Mapping[str, str]]) -> Iterator[Row]:
    columns, cells = entry
    for column in columns:
        yield from each([cells], partial(_quote_rows, column))


def _quote_rows(column: Column, cells: Mapping[str, str]) -> Iterator[Row]:
    """The quote of one column; none where it is not sold."""
    printed = price(cells[column.header])
    if printed.state == "not_offered":
        return
    if printed.state == "contact_sales":
        raise BadRow("contact sales")
    if printed.amount is None or printed.currency != "USD" or printed.unit:
        raise BadRow("price is no dollar amount")
    gpu = clean_name(cells[ITEM], "name of the GPU")
    if "NVL" in gpu:
        raise BadRow("GPUs of an instance in a rack are not known")
    yield GpuQuote(
        provider="nebius",
        sku=gpu,
        gpu=gpu,
        gpu_count=NODE_GPUS if "HGX" in gpu.split() else 1,
        tier=column.tier,
        price=clean_price(printed.amount, "price"),
        per="gpu_hour",
        currency="USD",
        availability="listed",
        price_kind="starting_at" if printed.state == "starting_at" else "list",
        valid_from=column.starts,
    )
