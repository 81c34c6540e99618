"""ECB: the published history of a day, put into the documented daily document."""

from __future__ import annotations

import csv
import io
import zipfile
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from scrapers import ecb
from scrapers.contract import FxQuote, Page

HISTORY = Path(__file__).parents[2] / "shared/recorded/finance/fx/eurofxref-hist.zip"
DAILY = (
    "<?xml version='1.0' encoding='UTF-8'?><Envelope xmlns='http://www.ecb.int/vocabulary/2002-08-01/eurofxref'><Cube>{}</Cube></Envelope>"
)


def daily_document(day: dict[str, str]) -> bytes:
    """A day of the history as the daily document prints it: currencies without a rate are left out."""
    rates = "".join(f"<Cube currency='{code}' rate='{rate}'/>" for code, rate in day.items() if code not in ("Date", "") and rate != "N/A")
    return DAILY.format(f"<Cube time='{day['Date']}'>{rates}</Cube>").encode()


@pytest.mark.shared
def test_the_day_of_the_published_history() -> None:
    """Counted in the CSV with grep: 29 currencies have a rate on 2026-10-30."""
    if not HISTORY.exists():
        pytest.skip(f"{HISTORY} is not here")
    text = zipfile.ZipFile(HISTORY).read("eurofxref-hist.csv").decode()
    newest = next(csv.DictReader(io.StringIO(text)))
    rows = list(ecb.parse([Page(url="https://www.ecb.europa.eu/stats/eurofxref/eurofxref-daily.xml", body=daily_document(newest))]))
    rates = {row.currency: row for row in rows if isinstance(row, FxQuote)}
    assert len(rows) == len(rates) == 29
    assert {row.day for row in rates.values()} == {date(2026, 10, 30)}
    assert rates["USD"].rate == Decimal("1.1172")
    assert rates["GBP"].rate == Decimal("0.8338")
    assert rates["IDR"].rate == Decimal("20275.17")


def test_the_address_is_the_daily_document() -> None:
    assert ecb.PATH == "/stats/eurofxref/eurofxref-daily.xml"


def test_namespaces_and_prefixes_do_not_matter() -> None:
    body = b"<x:E xmlns:x='urn:a'><x:Cube time='2026-11-27'><x:Cube currency='USD' rate='1.16'/></x:Cube></x:E>"
    assert list(ecb.parse([Page(url="", body=body)])) == [FxQuote(base="EUR", currency="USD", rate=Decimal("1.16"), day=date(2026, 11, 27))]
