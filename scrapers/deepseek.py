"""DeepSeek's own API prices: the USD page and the CNY page, which is a price list of its own (region "cn"), not a conversion.

Docs: https://api-docs.deepseek.com/quick_start/pricing/ and .../zh-cn/quick_start/pricing/ (stored copies of 2026-08 to 2026-11,
read 2026-11-29). Per Mtok, tax not stated. Static HTML, one table: a row MODEL with the model ids, below it PRICING by token kind
and, since 2026-08-16, by OFF-PEAK and PEAK. The hours of the peak stand in a footnote: in UTC on one page, in Beijing time on the
other, Monday to Friday; every other hour is off-peak. Chinese public holidays are off-peak too (said since 2026-10), which no
hours can state: on those days the peak quotes are too high. Cache hits are reads; there is no price for writing the cache.
Other spellings of the address have served another page with status 200: the MODEL row must be there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from unicodedata import normalize

from bs4 import BeautifulSoup

from scrapers.contract import Client, LayoutChanged, Page, Row, TokenQuote
from scrapers.fields import BadRow, each, layout_changed, require_page, skipped
from scrapers.html import tree
from scrapers.text import Table, plain, tables
from scrapers.token_fields import text_price, with_token_quotes

SOURCE = "deepseek"
PRINTED_CURRENCIES = ("USD", "CNY")
MODEL_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}", re.IGNORECASE)
FOOTNOTE = re.compile(r"(\s*\([0-9]\))+$")
WINDOW = re.compile(r"([0-9]{1,2}):([0-9]{2})\s*[-\u2013\u2014~]\s*([0-9]{1,2}):([0-9]{2})")
MTOK = Decimal(1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edition:
    """One language of the page: what its labels say and how it prints an amount and the hours of the peak."""

    path: str
    region: str
    currency: str
    model: str
    pricing: str
    kinds: Mapping[str, str]
    off_peak: str
    peak: str
    amount: re.Pattern[str]
    clock: str  # names the time zone of the hours
    utc_offset_hours: int
    working_days: str


EDITIONS = (
    Edition(
        path="/quick_start/pricing/",
        region="",
        currency="USD",
        model="model",
        pricing="pricing",
        kinds={"1minputtokens(cachehit)": "cache_read", "1minputtokens(cachemiss)": "input", "1moutputtokens": "output"},
        off_peak="off-peak",
        peak="peak",
        amount=re.compile(r"\$\s?([0-9.]+)"),
        clock="UTC",
        utc_offset_hours=0,
        working_days="Monday through Friday",
    ),
    Edition(
        path="/zh-cn/quick_start/pricing/",
        region="cn",
        currency="CNY",
        model="模型",
        pricing="价格",
        kinds={"百万tokens输入(缓存命中)": "cache_read", "百万tokens输入(缓存未命中)": "input", "百万tokens输出": "output"},
        off_peak="空闲时段",
        peak="高峰时段",
        amount=re.compile(r"([0-9.]+)\s?元"),
        clock="北京时间",
        utc_offset_hours=8,
        working_days="周一至周五",
    ),
)


def fetch(client: Client, secrets: Mapping[str, str]) -> list[Page]:
    """The USD page, then the CNY page."""
    return [client.get(edition.path) for edition in EDITIONS]


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """Per page and model: the off-peak quote, then one for each window of the peak."""
    require_page(SOURCE, pages)
    return with_token_quotes(SOURCE, (row for page in pages for row in _page_rows(page)))


def _page_rows(page: Page) -> Iterator[Row]:
    soup = tree(SOURCE, page.text)
    found = list(tables(soup))
    edition, table = _price_table(found)
    for other in found:
        if other is not table and edition.kinds.keys() & {_key(title) for title in other.header}:
            yield skipped("announced prices in a footnote are not read", other.header)
    prices = _prices(edition, table)
    periods = {period for period, _ in prices}
    hours = _peak_hours(edition, soup) if edition.peak in periods else ((), "")
    models = [(column, title) for column, title in enumerate(table.header) if _key(title) != edition.model]
    yield from each(models, lambda model: _model_rows(edition, *model, prices, hours))


def _price_table(found: Sequence[Table]) -> tuple[Edition, Table]:
    for edition in EDITIONS:
        for table in found:
            if table.header and _key(table.header[0]) == edition.model and any(_key(row[0]) == edition.pricing for row in table.rows):
                return edition, table
    raise layout_changed(SOURCE, "no table with a MODEL row and PRICING rows on the page")


def _prices(edition: Edition, table: Table) -> dict[tuple[str, str], tuple[str, ...]]:
    """The row of cells by period ("" without one) and token kind."""
    labels = sum(_key(title) == edition.model for title in table.header)
    rows: dict[tuple[str, str], tuple[str, ...]] = {}
    for row in table.rows:
        if _key(row[0]) == edition.pricing and labels > 1:
            kind = edition.kinds.get(_key(row[1]))
            period = next((_key(cell) for cell in row[1:labels] if _key(cell) in (edition.off_peak, edition.peak)), "")
            if kind is None or (period, kind) in rows:
                raise layout_changed(SOURCE, f"expected every token kind once under {table.header[0]}, found {row[1]!r}")
            rows[period, kind] = row
    by_period: dict[str, set[str]] = {}
    for period, kind in rows:
        by_period.setdefault(period, set()).add(kind)
    if by_period.keys() not in ({""}, {edition.off_peak, edition.peak}) or not all(
        {"input", "output"} <= kinds for kinds in by_period.values()
    ):
        raise layout_changed(SOURCE, f"expected input and output prices, flat or by peak and off-peak, found {sorted(rows)}")
    return rows


def _model_rows(
    edition: Edition, column: int, title: str, prices: Mapping[tuple[str, str], tuple[str, ...]], peak: tuple[tuple[str, ...], str]
) -> Iterator[Row]:
    model = FOOTNOTE.sub("", normalize("NFKC", title))
    if not MODEL_NAME.fullmatch(model):
        raise BadRow("model is no name")
    by_period: dict[str, dict[str, Decimal]] = {}
    for (period, kind), row in prices.items():
        by_period.setdefault(period, {})[kind] = _amount(edition, row[column], kind)
    for period, amounts in by_period.items():
        hours, weekdays = peak if period == edition.peak else (("",), "")
        for window in hours:
            yield TokenQuote(
                provider="deepseek",
                model=model,
                region=edition.region,
                prices=amounts,
                per="mtok",
                currency=edition.currency,
                hours_utc=window,
                weekdays=weekdays,
            )


def _amount(edition: Edition, cell: str, kind: str) -> Decimal:
    """The one amount of a cell; a promotion printed beside the list price is two."""
    found = edition.amount.fullmatch(cell)
    if found is None:
        raise BadRow(f"{kind} is not one amount in {edition.currency}")
    return text_price(found[1], kind, tokens=MTOK)


def _peak_hours(edition: Edition, soup: BeautifulSoup) -> tuple[tuple[str, ...], str]:
    """The UTC windows of the peak and their weekdays, from the footnote that names them."""
    notes = (
        text for note in soup.find_all("p") if edition.peak in (text := plain(note.get_text(" "))).casefold() and edition.clock in text
    )
    for note in notes:
        windows = [tuple(map(int, found)) for found in WINDOW.findall(note)]
        if windows:
            weekdays = "12345" if edition.working_days in note else ""
            return tuple(_utc(edition, window, weekdays) for window in windows), weekdays
    raise layout_changed(SOURCE, f"peak prices, but no footnote with hours in {edition.clock}")


def _utc(edition: Edition, window: tuple[int, ...], weekdays: str) -> str:
    """ "01:00-04:00" in UTC of a window printed in the page's time zone."""
    start, end = window[0] * 60 + window[1], window[2] * 60 + window[3]
    shift = edition.utc_offset_hours * 60
    if not 0 <= start < end <= 1440 or (weekdays and start < shift):
        raise LayoutChanged(f"{SOURCE}: expected a peak window within one UTC day, found {window} in {edition.clock}")
    return "-".join(f"{(minute - shift) // 60 % 24:02}:{minute % 60:02}" for minute in (start, end))


def _key(text: str) -> str:
    """A label without blanks, footnote marks and case, and with ASCII brackets."""
    return re.sub(r"\s", "", FOOTNOTE.sub("", normalize("NFKC", text))).casefold()
