"""Fields of hostile JSON: read exactly or refused with a reason that never quotes the row."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapers import fields
from scrapers.contract import FxQuote, LayoutChanged, Page, Row, Skipped
from scrapers.fields import BadRow

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.decimals() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


@pytest.mark.parametrize(
    ("printed", "price"),
    [("1.50", "1.50"), (2, "2"), (Decimal("0.1"), "0.1"), ("1e2", "100"), ("0.000001", "0.000001"), (1_000_000, "1000000")],
)
def test_a_price_is_read_exactly(printed: object, price: str) -> None:
    assert fields.price({"p": printed}, "p") == Decimal(price)


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        (None, "p is not stated"),
        (0, "p is 0"),
        ("0.00", "p is 0"),
        (-1, "p is negative"),
        ("NaN", "p is not a number"),
        ("sNaN", "p is not a number"),
        ("Infinity", "p is not a number"),
        ("1_000", "p is not a number"),
        (" 1", "p is not a number"),
        ("\uff11", "p is not a number"),
        ("$1", "p is not a number"),
        ("", "p is not a number"),
        (True, "p is not a number"),
        ([1], "p is not a number"),
        ({}, "p is not a number"),
        (1_000_001, "p is out of range"),
        ("1e999", "p is out of range"),
        ("1e-9", "p is out of range"),
    ],
)
def test_what_is_no_price_says_why(printed: object, reason: str) -> None:
    with pytest.raises(BadRow) as raised:
        fields.price({"p": printed}, "p")
    assert str(raised.value) == reason


@pytest.mark.parametrize("printed", [0, -1, 1.5, Decimal("1.5"), 1025, "8x", None, True, "", "1e400"])
def test_what_is_no_count(printed: object) -> None:
    with pytest.raises(BadRow):
        fields.count({"n": printed}, "n")
    assert fields.optional_count({"n": printed}, "n") is None


@pytest.mark.parametrize("printed", [8, "8", Decimal("8.0"), Decimal("8")])
def test_a_count(printed: object) -> None:
    assert fields.count({"n": printed}, "n") == 8


@pytest.mark.parametrize("value", ["", "  ", "a\nb", "a\0b", "a\u202eb", "a\u200bb", "\ud800", "x" * 201, None, 5])
def test_what_is_no_name(value: object) -> None:
    with pytest.raises(BadRow):
        fields.name({"id": value}, "id")


def test_a_name_loses_outer_blanks_only() -> None:
    assert fields.name({"id": " =cmd <b>H100</b> "}, "id") == "=cmd <b>H100</b>"


@given(ANY_JSON)
def test_no_value_gets_past_the_readers(value: Any) -> None:
    """Whatever stands in a field, the readers give a usable value, None or BadRow: nothing else is raised."""
    for read in (fields.price, fields.count, fields.name, fields.optional_price):
        try:
            result = read({"x": value}, "x")
        except BadRow as refused:
            assert str(refused).startswith("x ")
        else:
            assert result is None or isinstance(result, str) or 0 < result <= 1_000_000
    fields.optional_memory({"x": value}, "x")
    assert len(fields.skipped("reason", value).raw) <= 200


def test_a_skipped_row_is_shown_as_short_ascii() -> None:
    raw = fields.skipped("why", {"id": "H100 \u202e\0\n", "price": Decimal("1.5")}).raw
    assert raw == '{"id": "H100 \\u202e\\u0000\\n", "price": "1.5"}'
    assert len(fields.skipped("why", "x" * 1000).raw) == 200


def test_memory_is_scaled_or_none() -> None:
    assert fields.optional_memory({"m": 80 * 2**30}, "m", unit=Decimal(1) / 2**30) == 80
    for printed in (0, -1, "80", None, True, 10**9):
        assert fields.optional_memory({"m": printed}, "m") is None


def rows_of(item: int) -> Any:
    if item < 0:
        raise BadRow("negative")
    yield Skipped(reason="fine")


def test_one_bad_item_does_not_stop_the_others() -> None:
    assert [row.reason for row in fields.each([1, -1, 2], rows_of) if isinstance(row, Skipped)] == ["fine", "negative", "fine"]


def test_a_field_missing_from_every_item_is_a_changed_layout_and_from_some_it_is_not() -> None:
    fields.require_fields("vast", [{"price": 1}, {}, None], ["price"], "offers")
    with pytest.raises(LayoutChanged, match='vast: no "price" in any of 2 offers; run breakeven collect vast --save'):
        fields.require_fields("vast", [{}, []], ["price"], "offers")
    with pytest.raises(LayoutChanged, match="vast: no offers in the answer"):
        fields.require_fields("vast", [], ["price"], "offers")
    with pytest.raises(LayoutChanged, match="vast: no page to read"):
        fields.require_page("vast", [])


def test_rows_without_a_price_are_a_changed_layout_that_says_why() -> None:
    skipped: list[Row] = [Skipped(reason="sold out"), Skipped(reason="price is 0"), Skipped(reason="sold out")]
    with pytest.raises(LayoutChanged, match=r"no usable price in the answer: sold out \(2\), price is 0 \(1\); run"):
        list(fields.with_quotes("vast", skipped))
    rate = FxQuote(base="EUR", currency="USD", rate=Decimal(1), day=date(2026, 1, 1))
    assert list(fields.with_quotes("ecb", [rate])) == [rate]


@pytest.mark.parametrize("number", ["1e99999999999999999999", "-1e-99999999999999999999", "9" * 5000])
def test_a_number_no_decimal_can_hold_is_a_changed_layout(number: str) -> None:
    with pytest.raises(LayoutChanged, match="expected JSON"):
        Page(url="", body=f'[{{"price": {number}}}]'.encode()).json()
