"""Prices, numbers and tables as pages print them; what is none of these is said to be none."""

from __future__ import annotations

import time
from decimal import Decimal

import pytest
from bs4 import BeautifulSoup
from hypothesis import given
from hypothesis import strategies as st

from scrapers.contract import LayoutChanged
from scrapers.text import PriceState, PrintedPrice, Table, label, plain, price, tables, tag_text, whole_number


@pytest.mark.parametrize(
    ("text", "state", "amount", "currency", "unit"),
    [
        ("$6.16", "price", "6.16", "USD", ""),
        ("\xa0$1.40", "price", "1.40", "USD", ""),
        ("0.50 €", "price", "0.50", "EUR", ""),
        ("€0.50", "price", "0.50", "EUR", ""),
        ("US$ 3", "price", "3", "USD", ""),
        ("3.20 usd", "price", "3.20", "USD", ""),
        ("£2", "price", "2", "GBP", ""),
        ("0.000000312", "price", "0.000000312", "", ""),
        ("$.50", "price", ".50", "USD", ""),
        ("1,234.50", "price", "1234.50", "", ""),
        ("$1,234,567", "price", "1234567", "USD", ""),
        ("$42.00**", "price", "42.00", "USD", ""),
        ("$6.16^2", "price", "6.16", "USD", ""),
        ("$6.16\u00b2", "price", "6.16", "USD", ""),
        ("$ 0.15", "price", "0.15", "USD", ""),
        ("$3.90/GPU-hr", "price", "3.90", "USD", "gpu-hr"),
        ("$50.44 / Hour", "price", "50.44", "USD", "hour"),
        ("$2 per GPU hour", "price", "2", "USD", "gpu hour"),
        ("$0.30 / 1M tokens", "price", "0.30", "USD", "1m tokens"),
        ("from $2.95", "starting_at", "2.95", "USD", ""),
        ("From\xa0$0.74**", "starting_at", "0.74", "USD", ""),
        ("Starting at $1.49/hr", "starting_at", "1.49", "USD", "hr"),
        ("Free", "price", "0", "", ""),
        ("$0", "price", "0", "USD", ""),
        ("$0.00", "price", "0.00", "USD", ""),
    ],
)
def test_printed_prices(text: str, state: PriceState, amount: str, currency: str, unit: str) -> None:
    found = price(text)
    assert found == PrintedPrice(state=state, amount=Decimal(amount), currency=currency, unit=unit)
    assert str(found.amount) == str(Decimal(amount))  # the digits as printed


@pytest.mark.parametrize(
    "text", ["Contact sales", "contact us", "Contact\xa0Sales*", "Talk to sales", "Custom", "Get a quote", "On request"]
)
def test_a_price_behind_a_conversation(text: str) -> None:
    assert price(text) == PrintedPrice(state="contact_sales")


@pytest.mark.parametrize("text", ["", " \n\t", "N/A", "n/a", "-", "\u2014", "\u200b", "Not available", "None", "*"])
def test_not_on_sale(text: str) -> None:
    assert price(text) == PrintedPrice(state="not_offered")


@pytest.mark.parametrize(
    "text",
    [
        "1e999",
        "NaN",
        "Infinity",
        "$inf",
        "-1",
        "$-1.00",
        "-$1.00",
        "+$1",
        "0,50 €",  # a decimal comma, or a thousands separator that lost a digit
        "1.234,50",
        "1,23",
        "12,34,567",
        "1.2.3",
        "$1.00 - $2.00",
        "$1.00 $2.00",
        "$1.00 USD",
        "A$1.00",
        "C$ 1.00",
        "1.00 CHF",
        "1.00 credits",
        "$1 000",
        "$1_000",
        "0x10",
        "\u0661\u0662",  # digits that are not 0-9
        "\uff11",
        "$",
        "/hr",
        "about $2",
        "$2.00/hr or $1.00/hr",
        "1" * 5000,
        "$" + "1" * 16,
        "$1." + "0" * 19,
        "9" * 100_000 + ".5",
        "*" * 100_000 + "$1",
        "$1.00 " + "x" * 100_000,
    ],
)
def test_what_is_no_price_is_not_made_one(text: str) -> None:
    assert price(text) == PrintedPrice(state="unreadable")


@given(st.text(max_size=60))
def test_any_text_is_a_price_or_none(text: str) -> None:
    found = price(text)
    assert (found.amount is not None) == (found.state in ("price", "starting_at"))
    assert found.amount is None or (found.amount.is_finite() and found.amount >= 0)


@given(st.decimals(min_value=0, max_value=10**12, places=6), st.sampled_from(["${}", "{} €", "from £{}/hr"]))
def test_every_plain_number_is_read_exactly(amount: Decimal, pattern: str) -> None:
    assert price(pattern.format(f"{amount:f}")).amount == amount
    assert price(pattern.format(f"{amount:,f}")).amount == amount


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("8", 8),
        ("4^1", 4),
        ("4\u00b9", 4),
        ("8*", 8),
        (" 1,024 GB", 1024),
        ("141GB", 141),
        ("8x NVIDIA H100", 8),
        ("0", 0),
        ("16 GPUs", 16),
        ("", None),
        ("GPU 8", None),
        ("61.44", None),
        ("1,024.5", None),
        ("1,02", None),
        ("1/2", None),
        ("2-4", None),
        ("2 - 4", None),
        ("2\u20134", None),
        ("-8", None),
        ("\u0668", None),
        ("9" * 16, None),
        ("9" * 5000, None),
    ],
)
def test_whole_numbers(text: str, number: int | None) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("GPU  count*", "GPU count"),
        ("GPU\xa0count ^1", "GPU count"),
        ("On-demand [2]", "On-demand"),
        ("Price\u2020\u2021", "Price"),
        ("VRAM\u00b9\u00b2", "VRAM"),
        ("H100\u200b SXM", "H100 SXM"),
        ("RTX\u2011A6000", "RTX-A6000"),
        ("NVIDIA\u202fL40S\n  (48 GB)", "NVIDIA L40S (48 GB)"),
        ("A100 (1)", "A100 (1)"),
        ("2^8 values", "2^8 values"),
        ("*new* H200", "*new* H200"),
        ("H100*" * 20 + "*", "H100*" * 19 + "H100"),
        ("", ""),
    ],
)
def test_labels_lose_their_footnotes(text: str, shown: str) -> None:
    assert label(text) == shown


def test_plain_text_keeps_them() -> None:
    assert plain("\ufeff GPU\n\xa0count*") == "GPU count*"


def soup(html: str) -> BeautifulSoup:
    return BeautifulSoup(html, "html.parser")


def test_a_footnote_number_is_no_digit_of_the_value() -> None:
    cell = soup("<div>4<sup>1</sup><!-- 9 --><script>8</script> <b>GPUs</b></div>")
    assert tag_text(cell) == "4 GPUs"
    assert whole_number(tag_text(cell)) == 4


def only(html: str) -> Table:
    (table,) = tables(soup(html))
    return table


def test_a_plain_table_under_its_heading() -> None:
    table = only("""<h2>GPU prices<sup>1</sup></h2><p>text</p><table>
        <tr><td>GPU*</td><td>On-demand,<br>GPU-hour</td></tr>
        <tr><td>NVIDIA&nbsp;H100</td><td>$3.85</td></tr>
        <tr><td>NVIDIA H200</td><td><a href="#">Contact us</a></td></tr></table>""")
    assert table.heading == "GPU prices"
    assert list(table.records()) == [
        {"GPU": "NVIDIA H100", "On-demand, GPU-hour": "$3.85"},
        {"GPU": "NVIDIA H200", "On-demand, GPU-hour": "Contact us"},
    ]


def test_spans_are_filled_in() -> None:
    table = only("""<table>
        <tr><td colspan="3">MODEL</td><td>flash</td><td>pro</td></tr>
        <tr><td rowspan="4">PRICING<sup>(1)(2)</sup></td>
            <td rowspan="2">1M INPUT<br>(CACHE HIT)</td><td>OFF-PEAK</td><td>$0.007</td><td>$0.022</td></tr>
        <tr><td>PEAK</td><td>$0.014</td><td>$0.044</td></tr>
        <tr><td rowspan="2">1M OUTPUT</td><td>OFF-PEAK</td><td colspan="2">$0.66</td></tr>
        <tr><td>PEAK</td><td>$1.32</td><td>$3.96</td></tr></table>""")
    assert table.header == ("MODEL", "MODEL", "MODEL", "flash", "pro")
    assert table.rows == (
        ("PRICING", "1M INPUT (CACHE HIT)", "OFF-PEAK", "$0.007", "$0.022"),
        ("PRICING", "1M INPUT (CACHE HIT)", "PEAK", "$0.014", "$0.044"),
        ("PRICING", "1M OUTPUT", "OFF-PEAK", "$0.66", "$0.66"),
        ("PRICING", "1M OUTPUT", "PEAK", "$1.32", "$3.96"),
    )
    with pytest.raises(LayoutChanged, match="expected every header once, found"):
        list(table.records())


def test_header_rows_are_joined() -> None:
    body = "<tr><td>H100</td><td>$2</td><td>$1</td><td>x</td></tr>"
    head = '<tr><th rowspan="2">GPU</th><th colspan="2">Price</th><th></th></tr><tr><th>On demand</th><th>Spot</th><th></th></tr>'
    for html in (f"<table><thead>{head}</thead><tbody>{body}</tbody></table>", f"<table>{head}{body}</table>"):
        table = only(html)
        assert table.header == ("GPU", "Price On demand", "Price Spot", "")
        assert list(table.records()) == [{"GPU": "H100", "Price On demand": "$2", "Price Spot": "$1"}]


def test_rows_with_a_header_cell_are_rows() -> None:
    table = only("<table><tr><th>GPU</th><th>Price</th></tr><tr><th>H100</th><td>$2</td></tr></table>")
    assert table.rows == (("H100", "$2"),)


def test_short_rows_are_filled_with_nothing() -> None:
    assert only("<table><tr><th>a</th><th>b</th></tr><tr><td>1</td></tr></table>").rows == (("1", ""),)


@pytest.mark.parametrize(("span", "rows"), [("0", 3), ("99999", 3), ("2", 2), ("1", 1), ("-2", 1), ("x", 1), ("\u0663", 1), ("9" * 50, 1)])
def test_row_spans(span: str, rows: int) -> None:
    table = only(f'<table><tr><th>a</th></tr><tr><td rowspan="{span}">x</td></tr><tr></tr><tr></tr></table>')
    assert [row[0] for row in table.rows] == ["x"] * rows + [""] * (3 - rows)


def test_a_table_in_a_cell_is_a_table_of_its_own() -> None:
    html = "<table><tr><td>outer</td></tr><tr><td><table><tr><td>inner</td></tr><tr><td>1</td></tr></table></td></tr></table>"
    assert [(table.header, table.rows) for table in tables(soup(html))] == [(("outer",), (("inner 1",),)), (("inner",), (("1",),))]


@pytest.mark.parametrize("html", ["", "<p>no table</p>", "<table></table>", "<table><tr></tr></table>"])
def test_no_table(html: str) -> None:
    assert [row for table in tables(soup(html)) for row in table.records()] == []


@pytest.mark.parametrize("cells", ['<td colspan="201">x</td>', '<td colspan="99999">x</td>', "<td>x</td>" * 201])
def test_a_table_wider_than_any_is_refused(cells: str) -> None:
    with pytest.raises(LayoutChanged, match="at most 200 columns"):
        list(tables(soup(f"<table><tr>{cells}</tr></table>")))


def test_hostile_pages_take_no_time() -> None:
    page = "<table>" + '<tr><td rowspan="99999">' + "*" * 50_000 + "x</td></tr>" * 150 + "</table>"
    before = time.process_time()
    list(tables(soup(page)))
    assert time.process_time() - before < 5
