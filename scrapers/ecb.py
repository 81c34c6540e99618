"""Euro reference exchange rates of the European Central Bank, no key. Docs: https://www.ecb.europa.eu/stats/policy_and_exchange_rates/
euro_reference_exchange_rates/html/index.en.html (read 2026-11-29, from stored copies).

What a rate means: units of the currency for one euro, on the day named in the document, published about 16:00 CET on working
days of the euro area. For information only, by the ECB's own words; free to use with the source named.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from decimal import Decimal
from functools import partial
from xml.etree import ElementTree

from scrapers.contract import FxQuote, Page, Row
from scrapers.fields import BadRow, each, layout_changed, require_page, with_quotes
from scrapers.xml import document

SOURCE = "ecb"
PATH = "/stats/eurofxref/eurofxref-daily.xml"
BASE = "EUR"
CURRENCY = re.compile(r"[A-Z]{3}")
DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")  # date.fromisoformat alone also takes 20261030 and 2026-W44-5
RATE = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """One rate per currency of every day in the document."""
    root = document(SOURCE, require_page(SOURCE, pages))
    days = [(cube.attrib["time"], _entries(cube)) for cube in _cubes(root) if "time" in cube.attrib]
    if not days:
        raise layout_changed(SOURCE, 'no Cube with a "time" in the document')
    yield from with_quotes(SOURCE, each(days, _day_rows))


def _cubes(element: ElementTree.Element) -> Iterator[ElementTree.Element]:
    """Every Cube below, whatever namespace it is in."""
    return (child for child in element.iter() if isinstance(child.tag, str) and child.tag.rpartition("}")[2] == "Cube")


def _entries(cube: ElementTree.Element) -> list[dict[str, str]]:
    return [dict(entry.attrib) for entry in _cubes(cube) if "time" not in entry.attrib]


def _day_rows(cube: tuple[str, list[dict[str, str]]]) -> Iterator[Row]:
    """The rates of one day; none of them can be used when the day is no ISO date."""
    text, entries = cube
    yield from each(entries, partial(_rate, _day(text)))


def _day(text: str) -> date:
    if not DAY.fullmatch(text):
        raise BadRow("time is no ISO date")
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise BadRow("time is no date of the calendar") from error


def _rate(day: date, entry: dict[str, str]) -> Iterator[Row]:
    currency, rate = entry.get("currency", ""), entry.get("rate", "")
    if not CURRENCY.fullmatch(currency):
        raise BadRow("currency is no three-letter code")
    if not RATE.fullmatch(rate):
        raise BadRow("rate is not a number")
    if Decimal(rate) == 0:
        raise BadRow("rate is 0")
    yield FxQuote(base=BASE, currency=currency, rate=Decimal(rate), day=day)
