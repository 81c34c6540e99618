"""Prices, numbers and tables out of text and HTML, as printed. Nothing is guessed: what does not read as a price is none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from bs4 import BeautifulSoup, Tag

from scrapers.contract import LayoutChanged

PriceState = Literal["price", "starting_at", "contact_sales", "not_offered", "unreadable"]

_LONGEST = 200  # characters of one printed value
_TAIL = 40  # characters in which footnote marks stand
_MOST_COLUMNS = 200
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_CURRENCIES = {"$": "USD", "US$": "USD", "USD": "USD", "€": "EUR", "EUR": "EUR", "£": "GBP", "GBP": "GBP"}
_CURRENCY = r"US\$|\$|€|£|USD|EUR|GBP"
# 1234.50 or 1,234.50; a comma before two digits is another country's decimal point and no price here
_NUMBER = r"(?:[0-9]{1,3}(?:,[0-9]{3}){1,4}|[0-9]{1,15})(?:\.[0-9]{1,18})?|\.[0-9]{1,18}"
_PRICE = re.compile(
    rf"(?P<start>(?:starting (?:at|from)|from|as low as) )?(?:(?P<before>{_CURRENCY}) ?)?(?P<number>{_NUMBER})"
    rf"(?: ?(?P<after>{_CURRENCY}))?(?P<unit> ?(?:/|per )[^$€£]{{1,60}})?",
    re.I,
)
_CONTACT = re.compile(
    r"(?:contact|talk to|call|ask)(?: us| sales| our sales team)?|(?:get|request) (?:a )?quote|(?:price )?(?:on|upon) request|custom", re.I
)
_NOT_OFFERED = re.compile(r"n/?a|none|not (?:available|offered|applicable|supported)|unavailable|sold out|[-\u2013\u2014]*", re.I)
_WHOLE = re.compile(r"(?P<number>[0-9]{1,3}(?:,[0-9]{3}){1,4}|[0-9]{1,15})(?![0-9.,/]| ?[-\u2013] ?[0-9])")
_FOOTNOTES = re.compile(r"(?:\s*(?:[*\u2020\u2021\u00b9\u00b2\u00b3\u2070\u2074-\u2079]|\^[0-9]{1,2}|\[[0-9]{1,2}\]))+$")
_INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u2060\ufeff"))  # soft hyphen, zero-width blanks and joiners


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedPrice:
    """A price cell. ``amount`` is set for the states price and starting_at; ``currency`` and ``unit`` are empty where not printed."""

    state: PriceState
    amount: Decimal | None = None
    currency: str = ""
    unit: str = ""  # what follows "/" or "per", in lower case: "gpu-hr"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """An HTML table with spans filled in. ``heading`` is the nearest heading before it; every row is as long as the header."""

    heading: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def records(self) -> Iterator[dict[str, str]]:
        """Rows by header text; columns without one are left out, and LayoutChanged when two have the same."""
        names = [name for name in self.header if name]
        if len(names) != len(set(names)):
            raise LayoutChanged(f"table {self.heading!r}: expected every header once, found {list(self.header)}")
        for row in self.rows:
            yield {name: cell for name, cell in zip(self.header, row, strict=True) if name}


def plain(text: str) -> str:
    """``text`` on one line with single blanks, without invisible characters."""
    return " ".join(text.translate(_INVISIBLE).replace("\u2011", "-").split())


def label(text: str) -> str:
    """Header or name without its footnote marks: "GPU count*" and "GPU count ^1" are "GPU count"."""
    shown = plain(text)
    return shown[:-_TAIL] + _FOOTNOTES.sub("", shown[-_TAIL:])  # a search over a hostile page of asterisks would be quadratic


def tag_text(tag: Tag) -> str:
    """Visible text of an element without footnotes in ``<sup>``, which would read as digits: 4<sup>1</sup> is 4."""
    return label(" ".join(word for word in tag.strings if word.find_parent("sup") is None))


def price(text: str) -> PrintedPrice:
    """A price cell: "$6.16", "from $2.95", "0.50 €", "$3.90/GPU-hr", "Contact sales", "N/A", ""."""
    shown = label(text)
    if len(shown) > _LONGEST:
        return PrintedPrice(state="unreadable")
    if _NOT_OFFERED.fullmatch(shown):
        return PrintedPrice(state="not_offered")
    if _CONTACT.fullmatch(shown):
        return PrintedPrice(state="contact_sales")
    if shown.casefold() == "free":
        return PrintedPrice(state="price", amount=Decimal(0))
    found = _PRICE.fullmatch(shown)
    if found is None or (found["before"] and found["after"]):
        return PrintedPrice(state="unreadable")
    return PrintedPrice(
        state="starting_at" if found["start"] else "price",
        amount=Decimal(found["number"].replace(",", "")),
        currency=_CURRENCIES[(found["before"] or found["after"]).upper()] if found["before"] or found["after"] else "",
        unit=re.sub(r"^ ?(?:/|per ) ?", "", found["unit"] or "", flags=re.I).lower(),
    )


def whole_number(text: str) -> int | None:
    """The integer that ``text`` starts with: "8", "4^1" (a footnote), "1,024 GB"; None for "61.44", "1/2", "2-4" and no number."""
    found = _WHOLE.match(label(text)[:_LONGEST])
    return int(found["number"].replace(",", "")) if found else None


def tables(soup: BeautifulSoup | Tag) -> Iterator[Table]:
    """Every table with its header: the rows of ``<thead>``, else the leading rows of ``<th>`` only, else the first row."""
    for table in soup.find_all("table"):
        rows = [row for row in table.find_all("tr") if row.find_parent("table") is table]
        grid = _grid([_cells(row) for row in rows])
        if not grid:
            continue
        depth = _header_depth(rows)
        header = (" ".join(dict.fromkeys(filter(None, column))) for column in zip(*grid[:depth], strict=True))
        heading = table.find_previous(_HEADINGS)
        yield Table(heading=tag_text(heading) if heading else "", header=tuple(header), rows=tuple(map(tuple, grid[depth:])))


def _cells(row: Tag) -> list[Tag]:
    return [cell for cell in row.find_all(["td", "th"]) if cell.find_parent("tr") is row]


def _header_depth(rows: list[Tag]) -> int:
    in_head = sum(row.find_parent("thead") is not None for row in rows)
    depth = in_head
    while not in_head and depth < len(rows) and all(cell.name == "th" for cell in _cells(rows[depth])):
        depth += 1
    return depth or 1


def _grid(rows: list[list[Tag]]) -> list[list[str]]:
    """Cell texts by row and column, a spanning cell repeated in every place it covers."""
    grid: list[dict[int, str]] = [{} for _ in rows]
    for at, cells in enumerate(rows):
        column = 0
        for cell in cells:
            while column in grid[at]:
                column += 1
            width, height = _span(cell, "colspan"), _span(cell, "rowspan")
            if column + width > _MOST_COLUMNS:
                raise LayoutChanged(f"expected a table of at most {_MOST_COLUMNS} columns, found more")
            text = tag_text(cell)
            for line in grid[at : at + height] if height else grid[at:]:
                line.update(dict.fromkeys(range(column, column + width), text))
            column += width
    columns = max((max(line, default=-1) for line in grid), default=-1) + 1
    return [[line.get(column, "") for column in range(columns)] for line in grid]


def _span(cell: Tag, name: str) -> int:
    """Rows or columns a cell covers; 0 rows are all that follow (HTML, 4.9.11), anything unreadable is 1."""
    value = str(cell.get(name, "1")).strip()
    span = int(value) if value.isascii() and value.isdigit() and len(value) <= 5 else 1
    return span if name == "rowspan" else max(span, 1)
