"""Pricing pages: the tree of an HTML page, and dollar amounts in it. Only what the page shows counts, footnotes never do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import islice

from bs4 import BeautifulSoup, Tag

from scrapers.contract import Page
from scrapers.fields import MAX_COUNT, BadRow, clean_price, layout_changed, require_page
from scrapers.text import price, tag_text, whole_number

HTML = re.compile(r"\s*(<!--.*?-->\s*)*<(!doctype html|html|head|body)\b", re.IGNORECASE | re.DOTALL)
MOST_TAGS = 100_000  # the recorded pages have a few thousand
DEEPEST = 500  # they are 15 deep
MOST_LEVELS = 10  # a label is this near to the row it belongs to


def html_page(source: str, pages: Sequence[Page]) -> BeautifulSoup:
    """The first page as a tree; LayoutChanged when it is no HTML document."""
    text = require_page(source, pages).text
    if not HTML.match(text):
        raise layout_changed(source, f"expected an HTML page, found {text[:40]!r}")
    return tree(source, text)


def tree(source: str, text: str) -> BeautifulSoup:
    """The tree of a page; LayoutChanged where it is no page for people: a tag takes a kilobyte, and looking around a deep one is slow."""
    if text.count("<") > MOST_TAGS:
        raise layout_changed(source, f"expected a page of at most {MOST_TAGS} tags, found {text.count('<')}")
    soup = BeautifulSoup(text, "html.parser")
    depths = {id(soup): 0}
    for element in soup.descendants:
        depths[id(element)] = depth = depths[id(element.parent)] + 1
        if depth > DEEPEST:
            raise layout_changed(source, f"expected tags at most {DEEPEST} deep, found more")
    return soup


def starting(element: Tag, name: str) -> Tag | None:
    """The first element below whose own text is exactly ``name``."""
    text = element.find(string=lambda string: string is not None and string.strip() == name)
    return None if text is None else text.parent


def near_any(elements: Iterable[Tag]) -> dict[int, Tag]:
    """The elements around any of ``elements``, by identity: what ``around`` looks for, found once for the whole page."""
    return {id(parent): parent for element in elements for parent in islice(element.parents, MOST_LEVELS)}


def around(element: Tag, near: Mapping[int, Tag]) -> Tag | None:
    """The nearest element around ``element`` that is also near one of those given to ``near_any``."""
    return next((parent for parent in islice(element.parents, MOST_LEVELS) if id(parent) in near), None)


def beside(row: Tag, name: str) -> str:
    """The value grouped with a label: what else the element around the label says; empty without the label."""
    element = starting(row, name)
    if element is None or element.parent is None:
        return ""
    others = [child for child in element.parent.children if isinstance(child, Tag) and child is not element]
    return " ".join(filter(None, map(tag_text, others)))


def dollars(text: str, what: str) -> Decimal:
    """A plain dollar amount above 0; BadRow for another currency, a unit, "from", "Contact sales", "N/A" and anything else."""
    printed = price(text)
    if printed.state == "contact_sales":
        raise BadRow("contact sales")
    if printed.state != "price" or printed.amount is None or printed.currency != "USD" or printed.unit:
        raise BadRow(f"{what} is no dollar amount")
    return clean_price(printed.amount, what)


def printed_count(text: str, what: str) -> int:
    """A count of GPUs from 1 to 1024, footnote marks left out."""
    number = whole_number(text)
    if number is None or not 1 <= number <= MAX_COUNT:
        raise BadRow(f"{what} is no count")
    return number


def children_texts(element: Tag) -> list[str]:
    """The visible text of every child element, in order: the cells of a row that is no table row."""
    return [tag_text(child) for child in element.children if isinstance(child, Tag)]
