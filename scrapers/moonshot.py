"""Moonshot's own API prices for Kimi models: the international list (USD) and the Chinese one (CNY), two lists, no conversion.

Docs: https://platform.kimi.ai/docs/pricing/chat.md and, in Chinese, https://platform.kimi.com/docs/pricing/chat.md (stored copies
of 2026-08 to 2026-10, read 2026-11-29); which of them is read is the base URL. MDX: tables are
``<DocTable columns={[{ title: ... }]} rows={[[...]]} />``, a dollar price is ``<>{"$"}3.00</>``, a CNY price "¥20.00". Per Mtok,
taxes excluded on the international list. CNY quotes carry the region "cn"; their amounts are not the USD ones at any one rate.
Columns are found by title: they went from six to eight in 2026-09, when the two cache writes came to stand before the others, and
both kinds of table are on one page. Input that hits the cache pays the cached price alone. ``-highspeed`` models are separate ids.
The batch API costs 60 % of these prices and is not on this page; where a list marks a model "(Batch)" that is its sku.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from unicodedata import normalize

from scrapers.contract import Page, Row, TokenQuote
from scrapers.fields import BadRow, clean_name, each, layout_changed, require_page, skipped
from scrapers.token_fields import MTOK, text_price, with_token_quotes

SOURCE = "moonshot"
PATH = "/docs/pricing/chat.md"
PRINTED_CURRENCIES = ("USD", "CNY")
TABLE = re.compile(r"\s+columns=\{\[(?P<columns>[^\]]*)\]\}\s+rows=\{\[(?P<rows>.*?)\n\s*\]\}\s*/>", re.DOTALL)
TITLE = re.compile(r'title:\s*"([^"]*)"')
CELL = re.compile(r'"(?P<text>[^"]*)"|<>(?P<fragment>[^<]*)</>')
LITERAL = re.compile(r'\{"([^"]*)"\}')  # {"$"} is a dollar sign
ROW = re.compile(rf"\[\s*({CELL.pattern})(\s*,\s*({CELL.pattern}))*\s*,?\s*\],?".replace("?P<text>", "?:").replace("?P<fragment>", "?:"))
AMOUNT = re.compile(r"(?P<sign>[$¥])\s?(?P<number>[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?)")
CURRENCIES = {"$": "USD", "¥": "CNY"}
REGIONS = {"USD": "", "CNY": "cn"}
BATCH = re.compile(r"\s*\(batch\)$", re.IGNORECASE)

# Titles in both languages, as ``_key`` writes them.
MODEL = {"model", "模型"}
UNIT = {"unit", "计费单位"}
KINDS = {
    "cachewriteprice(ttl5min)": "cache_write_5m",
    "缓存写入(ttl5min)": "cache_write_5m",
    "cachewriteprice(ttl1h)": "cache_write_1h",
    "缓存写入(ttl1h)": "cache_write_1h",
    "cachedinputprice": "cache_read",
    "inputprice(cachehit)": "cache_read",
    "输入价格(缓存命中)": "cache_read",
    "inputprice": "input",
    "inputprice(cachemiss)": "input",
    "输入价格": "input",
    "输入价格(缓存未命中)": "input",
    "outputprice": "output",
    "输出价格": "output",
}
OTHER = {"contextwindow", "上下文窗口"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceTable:
    """A table of the page: its column titles and its rows as they stand in the text."""

    titles: tuple[str, ...]
    lines: tuple[str, ...]


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """One quote per model."""
    found = [table for table in _tables(require_page(SOURCE, pages).text) if MODEL & set(table.titles)]
    if not found:
        raise layout_changed(SOURCE, "no DocTable with a column Model on the page")
    for table in found:
        kinds = [KINDS[title] for title in table.titles if title in KINDS]
        if not {"input", "output"} <= set(kinds) or len(set(kinds)) < len(kinds) or not UNIT & set(table.titles):
            raise layout_changed(SOURCE, f"expected columns for unit, input and output once each, found {list(table.titles)}")
    return with_token_quotes(SOURCE, (row for table in found for row in _table_rows(table)))


def _tables(text: str) -> Iterator[PriceTable]:
    for after in text.split("<DocTable")[1:]:
        if found := TABLE.match(after):
            titles = tuple(_key(title) for title in TITLE.findall(found["columns"]))
            yield PriceTable(titles=titles, lines=tuple(line.strip() for line in found["rows"].splitlines() if line.strip()))


def _table_rows(table: PriceTable) -> Iterator[Row]:
    for title in table.titles:
        if title not in MODEL | UNIT | OTHER | KINDS.keys():
            yield skipped("column of an unknown kind", title)
    yield from each(table.lines, lambda line: _row(table.titles, line))


def _row(titles: Sequence[str], line: str) -> Iterator[Row]:
    if not ROW.fullmatch(line):
        raise BadRow("row is not readable")
    cells = [normalize("NFKC", LITERAL.sub(r"\1", found["text"] or found["fragment"] or "")).strip() for found in CELL.finditer(line)]
    if len(cells) != len(titles):
        raise BadRow("row has not as many cells as the table has columns")
    named = dict(zip(titles, cells, strict=True))
    model = next(named[title] for title in titles if title in MODEL)
    if next(named[title] for title in titles if title in UNIT).casefold() != "1m tokens":
        raise BadRow("unit is not 1M tokens")
    prices = {KINDS[title]: _amount(cell, KINDS[title]) for title, cell in named.items() if title in KINDS and cell not in ("", "-", "/")}
    currencies = {currency for currency, _ in prices.values()}
    if len(currencies) != 1:
        raise BadRow("no price" if not currencies else "prices in several currencies")
    currency = currencies.pop()
    yield TokenQuote(
        provider="moonshot",
        model=clean_name(BATCH.sub("", model), "model"),
        sku="batch" if BATCH.search(model) else "standard",
        region=REGIONS[currency],
        prices={kind: amount for kind, (_, amount) in prices.items()},
        per="mtok",
        currency=currency,
    )


def _amount(cell: str, kind: str) -> tuple[str, Decimal]:
    """Currency and amount of a price cell: "$3.00", "¥20.00"."""
    found = AMOUNT.fullmatch(cell)
    if found is None:
        raise BadRow(f"{kind} is no amount")
    return CURRENCIES[found["sign"]], text_price(found["number"].replace(",", ""), kind, tokens=MTOK)


def _key(title: str) -> str:
    """A title without blanks and case, and with ASCII brackets."""
    return re.sub(r"\s", "", normalize("NFKC", title)).casefold()
