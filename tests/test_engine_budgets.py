"""A month's cost so far and its pace, against sums worked out by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction

import pytest

from engine.budgets import Span, ahead, hours_between, joined, month_of, spent, within


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def span(start: str, end: str, price: str | None, note: str = "") -> Span:
    return Span(start=at(start), end=at(end), usd_per_hour=None if price is None else Fraction(price), note=note)


@pytest.mark.parametrize(
    ("moment", "first", "following", "hours"),
    [
        ("2026-02-28T23:59:59", "2026-02-01", "2026-03-01", 672),  # 28 days
        ("2028-02-29", "2028-02-01", "2028-03-01", 696),  # 29
        ("2026-11-01", "2026-11-01", "2026-12-01", 720),  # 30: the first moment is of the month
        ("2026-12-31T23:59:59", "2026-12-01", "2027-01-01", 744),  # 31, and the year turns
    ],
)
def test_a_calendar_month_is_as_long_as_it_is(moment: str, first: str, following: str, hours: int) -> None:
    start, end = month_of(at(moment))
    assert (start, end, hours_between(start, end)) == (at(first), at(following), hours)


def test_a_month_is_one_of_utc() -> None:
    """Half past midnight in Paris on the first of December is November in UTC."""
    paris = timezone(timedelta(hours=1))
    assert month_of(datetime(2026, 12, 1, 0, 30, tzinfo=paris)) == (at("2026-11-01"), at("2026-12-01"))


@pytest.mark.parametrize(("month", "days"), [("2026-02", 28), ("2028-02", 29), ("2026-11", 30), ("2026-12", 31)])
def test_a_price_that_holds_all_month_costs_its_hours(month: str, days: int) -> None:
    start, end = month_of(at(f"{month}-15"))
    found = spent([Span(start=start - timedelta(days=9), end=end + timedelta(days=9), usd_per_hour=Fraction("1.25"))], start, end)
    assert (found.usd, found.unknown_hours) == (Fraction(days * 24) * Fraction("1.25"), 0)


def test_a_change_within_the_month_counts_from_its_moment_on() -> None:
    """10 days and 6.5 hours at 2, the rest of 15 days at 3: 246.5 x 2 + 113.5 x 3 = 493 + 340.5."""
    spans = [span("2026-10-20", "2026-11-11T06:30", "2"), span("2026-11-11T06:30", "2026-11-30", "3")]
    assert spent(spans, at("2026-11-01"), at("2026-11-16")).usd == Fraction("833.5")


def test_hours_without_a_price_are_unknown_and_cost_nothing() -> None:
    """Of five days one is of no price and one is not there at all."""
    spans = [span("2026-11-01", "2026-11-02", "2"), span("2026-11-02", "2026-11-03", None), span("2026-11-04", "2026-11-06", "1")]
    found = spent(spans, at("2026-11-01"), at("2026-11-06"))
    assert (found.usd, found.unknown_hours) == (24 * 2 + 48 * 1, 48)


def test_a_third_of_a_dollar_is_no_rounded_one() -> None:
    assert spent([span("2026-11-01", "2026-12-01", "1/3")], at("2026-11-01"), at("2026-12-01")).usd == 240


def test_the_rest_of_the_month_goes_on_at_the_price_of_now() -> None:
    assert ahead(Fraction(2), at("2026-11-29T12:00"), at("2026-12-01")) == 72
    assert ahead(Fraction(2), at("2026-11-29T12:00"), at("2026-11-29T12:00")) == 0
    assert ahead(None, at("2026-11-29"), at("2026-12-01")) is None


def test_parts_of_spans_and_neighbours() -> None:
    day = [
        span("2026-11-01", "2026-11-02", "2", "a"),
        span("2026-11-02", "2026-11-03", "2", "a"),
        span("2026-11-04", "2026-11-05", "2", "a"),
    ]
    assert joined(day) == (span("2026-11-01", "2026-11-03", "2", "a"), day[2])
    assert joined([day[0], span("2026-11-02", "2026-11-03", "2", "b")]) == (day[0], span("2026-11-02", "2026-11-03", "2", "b"))
    assert within(day, at("2026-11-02T12:00"), at("2026-11-04")) == (span("2026-11-02T12:00", "2026-11-03", "2", "a"),)
