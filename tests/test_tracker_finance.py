"""The monthly report: each day at its own rate, every line to the cent, nothing unknown counted as nothing."""

from __future__ import annotations

import csv
import os
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_world import fx, rate, small_world, sweep
from sqlalchemy import Engine

from tracker.database.handle import migrate, open_database, reading
from tracker.database.rows import RateRow, to_s
from tracker.finance.records import RecordError, Rental, Usage, read_rentals, read_usage
from tracker.finance.render import HEADER, summary, write_csv
from tracker.finance.report import Report, make_report, month_span
from tracker.world import World

NOW = datetime(2026, 12, 5, tzinfo=UTC)
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
USAGE_HEADER = "day,provider,model,sku,region,input,cache_read,cache_write_5m,cache_write_1h,output"
RENTAL_HEADER = "start,end,provider,gpu,gpu_count,price_per_hour,currency"

# USD and CNY for one EUR: on Friday 30 October, Monday 2 and Tuesday 3 November; later days have no newer rate
RATES = {date(2026, 10, 30): ("1.25", "8.75"), date(2026, 11, 2): ("1.20", "8.40"), date(2026, 11, 3): ("1.10", "7.70")}


def lists(large_input: str, large_cached: str, large_output: str) -> list[RateRow]:
    """Every price list of the source, one of them as given."""
    return [
        rate(input=large_input, cache_read=large_cached, output=large_output),
        rate(input="1", output="5", sku="batch"),
        rate(provider="vendor-cn", currency="CNY", input="14", cache_read="7", output="70"),
        rate("small-8b", "other", input="0.1", output="0.4"),
        rate("small-8b", "halved", input="0.1"),  # what it asks for output nobody knows
        rate("small-8b", "dated", input="4", output="4", valid_to=to_s(NOON)),
        rate("small-8b", "dated", input="2", output="2", valid_from=to_s(NOON)),
        rate("small-8b", "nightly", input="2", output="2"),
        rate("small-8b", "nightly", input="1", output="1", hours_utc="00:00-06:00"),
        rate("small-8b", "tiered", input="1", output="1"),
        rate("small-8b", "tiered", input="3", output="3", min_prompt_tokens=100_000),
        rate("small-8b", "regional", input="1", output="1", region="us"),
        rate("small-8b", "regional", input="2", output="2", region="eu"),
    ]


def fill(db: Engine) -> None:
    """Prices seen on 1 November; large-60b became cheaper on the 10th at noon, ``late`` came on the 20th."""
    for day, (dollars, yuan) in RATES.items():
        sweep(db, "ecb", datetime(day.year, day.month, day.day, 16, tzinfo=UTC), fx=fx(day, USD=dollars, CNY=yuan), rows=2)
    first, second, third = (datetime(2026, 11, *when, tzinfo=UTC) for when in ((1, 6), (10, 12), (20, 6)))
    sweep(db, "tokens", first, *lists("2", "0.2", "10"), rate("small-8b", "gone", input="1", output="1"))
    sweep(db, "tokens", second, *lists("1.5", "0.15", "8"))
    sweep(db, "tokens", third, *lists("1.5", "0.15", "8"), rate("small-8b", "late", input="7", output="7"))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return small_world(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    handle = open_database(f"sqlite:///{tmp_path_factory.mktemp('book') / 'book.db'}")
    migrate(handle)
    fill(handle)
    yield handle
    handle.dispose()


def usage_file(folder: Path, *lines: str, header: str = USAGE_HEADER) -> Path:
    path = folder / "usage.csv"
    path.write_text("\n".join((header, *lines)) + "\n", encoding="utf-8")
    return path


def rentals_file(folder: Path, *lines: str, header: str = RENTAL_HEADER) -> Path:
    path = folder / "rentals.csv"
    path.write_text("\n".join((header, *lines)) + "\n", encoding="utf-8")
    return path


def report(db: Engine, world: World, usage: Sequence[Usage] = (), rentals: Sequence[Rental] = (), month: str = "2026-11") -> Report:
    with reading(db) as connection:
        return make_report(connection, world, month, usage, rentals, NOW)


def used(db: Engine, world: World, folder: Path, *lines: str) -> list[tuple[str, str | None, tuple[str, ...]]]:
    """Day, cents and flags of each line of usage."""
    made = report(db, world, read_usage(usage_file(folder, *lines)))
    return [(x.day.isoformat(), None if x.usd_cents is None else str(x.usd_cents), x.flags) for x in made.lines]


def rented(db: Engine, world: World, folder: Path, *lines: str) -> list[tuple[str, str, str]]:
    """Day, hours and cents of each line of rent."""
    made = report(db, world, rentals=read_rentals(rentals_file(folder, *lines)))
    return [(x.day.isoformat(), x.quantity, "?" if x.usd_cents is None else str(x.usd_cents)) for x in made.lines]


# --- API usage ------------------------------------------------------------------------------------------------------------


def test_usage_is_billed_at_the_rate_of_its_day(db: Engine, world: World, tmp_path: Path) -> None:
    """1 Mtok of input, 10 cached, 1 of output: 2 + 2 + 10 = $14 until the 9th, 1.5 + 1.5 + 8 = $11 from the 10th on."""
    mtok = "vendor,large-60b,,,1000000,10000000,,,1000000"
    days = ("2026-11-30", "2026-11-01", "2026-11-09", "2026-11-10", "2026-11-11")
    assert used(db, world, tmp_path, *(f"{day},{mtok}" for day in days)) == [
        ("2026-11-01", "14.00", ()), ("2026-11-09", "14.00", ()), ("2026-11-10", "11.00", ()), ("2026-11-11", "11.00", ()),
        ("2026-11-30", "11.00", ()),
    ]  # fmt: skip


def test_a_month_ends_with_its_last_day_and_what_lies_outside_is_counted(db: Engine, world: World, tmp_path: Path) -> None:
    rest = "vendor,large-60b,,,1000000,,,,"
    lines = [f"{day},{rest}" for day in ("2026-10-31", "2026-11-01", "2026-11-30", "2026-12-01")]
    rents = ["2026-10-30,2026-11-01,cloud,g,1,1,", "2026-12-01,2026-12-02,cloud,g,1,1,", "2026-10-31,2026-11-02,cloud,g,1,1,"]
    made = report(db, world, read_usage(usage_file(tmp_path, *lines)), read_rentals(rentals_file(tmp_path, *rents)))
    assert [(line.kind, line.day) for line in made.lines] == [
        ("api", date(2026, 11, 1)), ("api", date(2026, 11, 30)), ("rental", date(2026, 11, 1)),
    ]  # fmt: skip
    assert (made.outside, summary(made)["records_of_other_months"]) == (4, 4)


def test_a_price_in_yuan_is_converted_at_the_day_s_reference_rate(db: Engine, world: World, tmp_path: Path) -> None:
    """14 CNY: at 8.75 / 1.25 = 7 to the dollar $2.00; 8.40 / 1.20 and 7.70 / 1.10 are 7 as well, so only the euro moved."""
    rest = "vendor-cn,large-60b,,,1000000,1000000,,,"
    assert [x[1] for x in used(db, world, tmp_path, f"2026-11-01,{rest}", f"2026-11-03,{rest}")] == ["3.00", "3.00"]


def test_names_may_be_the_provider_s_own(db: Engine, world: World, tmp_path: Path) -> None:
    lines = (
        "2026-11-02,vendor-ai,large-60b,,,1000000,,,,",
        "2026-11-03,vendor,large,,,1000000,,,,",
        "2026-11-04,vendor,large,batch,,1000000,,,,",
    )
    assert [x[1] for x in used(db, world, tmp_path, *lines)] == ["2.00", "2.00", "1.00"]


def test_a_list_of_the_region_asked_for_is_used(db: Engine, world: World, tmp_path: Path) -> None:
    lines = [f"2026-11-0{n},regional,small-8b,,{region},1000000,,,," for n, region in enumerate(("us", "eu", "mars"), start=2)]
    assert [x[1] for x in used(db, world, tmp_path, *lines)] == ["1.00", "2.00", None]


def test_a_price_that_changes_within_the_day_counts_by_its_hours(db: Engine, world: World, tmp_path: Path) -> None:
    lines = [f"2026-11-{day},dated,small-8b,,,1000000,,,," for day in (14, 15, 16)] + ["2026-11-17,nightly,small-8b,,,1000000,,,,"]
    assert [x[1] for x in used(db, world, tmp_path, *lines)] == ["4.00", "3.00", "2.00", "1.75"]  # (6 * 1 + 18 * 2) / 24


def test_cached_tokens_without_a_price_of_their_own_make_an_upper_bound(db: Engine, world: World, tmp_path: Path) -> None:
    (bound, exact) = used(
        db, world, tmp_path, "2026-11-02,other,small-8b,,,0,3000000,,,1000000", "2026-11-03,other,small-8b,,,3000000,,,,1000000"
    )
    assert bound == ("2026-11-02", "0.70", ("upper bound: no price for cached tokens",))  # 3 * 0.1 + 0.4
    assert exact == ("2026-11-03", "0.70", ())


def test_what_no_price_is_known_for_is_a_question_mark_and_counted_never_nothing(db: Engine, world: World, tmp_path: Path) -> None:
    unknown = "no rate known for this provider, model and sku"
    lines = (
        "2026-11-02,nobody,large-60b,,,1000000,,,,",
        "2026-11-03,vendor,gigantic,,,1000000,,,,",
        "2026-11-04,vendor,large-60b,priority,,1000000,,,,",
        "2026-11-05,halved,small-8b,,,1000000,,,,1000000",
        "2026-11-06,vendor,large-60b,,,1000000,,,,",
        "2026-11-07,halved,small-8b,,,1000000,,,,",
    )
    assert used(db, world, tmp_path, *lines) == [
        ("2026-11-02", None, (unknown,)), ("2026-11-03", None, (unknown,)), ("2026-11-04", None, (unknown,)),
        ("2026-11-05", None, ("no price for output",)), ("2026-11-06", "2.00", ()), ("2026-11-07", "0.10", ()),
    ]  # fmt: skip
    made = report(db, world, read_usage(usage_file(tmp_path, *lines)))
    assert (summary(made)["lines_without_a_figure"], made.total("api")) == (4, Decimal("2.10"))
    write_csv(made, tmp_path / "out.csv")
    rows = list(csv.reader((tmp_path / "out.csv").read_text(encoding="utf-8").splitlines()))
    assert [row[6] for row in rows[1:7]] == ["?", "?", "?", "?", "2.00", "0.10"]
    assert rows[7][:1] + rows[7][6:7] + rows[7][9:10] == ["total api", "2.10", "4 lines without a figure are not in this total"]
    assert rows[1][10] == ""


def test_usage_of_nothing_costs_nothing(db: Engine, world: World, tmp_path: Path) -> None:
    assert used(db, world, tmp_path, "2026-11-02,vendor,large-60b,,,0,,,,") == [("2026-11-02", "0.00", ())]


def test_a_rate_that_was_first_seen_later_says_so(db: Engine, world: World, tmp_path: Path) -> None:
    assert used(db, world, tmp_path, "2026-11-19,late,small-8b,,,1000000,,,,", "2026-11-20,late,small-8b,,,1000000,,,,") == [
        ("2026-11-19", "7.00", ("rate first seen after this day",)), ("2026-11-20", "7.00", ()),
    ]  # fmt: skip


def test_a_rate_that_was_taken_off_the_list_counts_until_then(db: Engine, world: World, tmp_path: Path) -> None:
    lines = [f"2026-11-{day},gone,small-8b,,,1000000,,,," for day in ("09", "21")]
    assert [x[1] for x in used(db, world, tmp_path, *lines)] == ["1.00", None]


def test_usage_without_prompt_sizes_knows_no_context_tier(db: Engine, world: World, tmp_path: Path) -> None:
    assert used(db, world, tmp_path, "2026-11-02,tiered,small-8b,,,1000000,,,,") == [
        ("2026-11-02", "1.00", ("context tiers not applied: usage has no prompt sizes",)),
    ]  # fmt: skip


def test_a_line_names_the_price_it_stands_on(db: Engine, world: World, tmp_path: Path) -> None:
    """The last sweep that vouched for the price by the end of the day."""
    made = report(db, world, read_usage(usage_file(tmp_path, "2026-11-12,vendor,large-60b,,,1,,,,")))
    (line,) = made.lines
    assert (line.price_source, line.price_seen_at) == ("tokens", datetime(2026, 11, 10, 12, tzinfo=UTC))
    assert (line.provider, line.what, line.sku, line.quantity) == ("vendor", "large-60b", "standard", "input=1")
    assert line.usd == Decimal("0.0000015")


# --- rentals --------------------------------------------------------------------------------------------------------------


def test_a_rental_in_euro_is_converted_at_each_day_s_rate(db: Engine, world: World, tmp_path: Path) -> None:
    """10 EUR an hour: Sunday 1 November at Friday's 1.25, Monday at 1.20, an hour and a half of Tuesday at 1.10."""
    line = "2026-10-31T22:00:00Z,2026-11-03T01:30:00Z,euro-cloud,test-80,8,10,EUR"
    assert rented(db, world, tmp_path, line) == [
        ("2026-11-01", "24 h", "300.00"), ("2026-11-02", "24 h", "288.00"), ("2026-11-03", "1.5 h", "16.50"),
    ]  # fmt: skip


def test_parts_of_hours_count_to_the_microsecond_and_a_cent_is_rounded_half_up(db: Engine, world: World, tmp_path: Path) -> None:
    assert rented(db, world, tmp_path, "2026-11-30T23:40:00Z,2026-12-01T02:00:00Z,cloud,test-80,8,55.52,") == [
        ("2026-11-30", "0.3333333333333333333333333333 h", "18.51"),  # 55.52 / 3 = 18.50666...
    ]
    lines = ("2026-11-04T00:00:00Z,2026-11-04T00:00:18Z,cloud,g,1,1,", "2026-11-05T00:00:00Z,2026-11-05T00:00:17.999999Z,cloud,g,1,1,")
    assert [x[2] for x in rented(db, world, tmp_path, *lines)] == ["0.01", "0.00"]  # 18 s of $1 are half a cent


def test_local_times_are_what_they_are_in_utc(db: Engine, world: World, tmp_path: Path) -> None:
    lines = ("2026-11-05T01:00:00+02:00,2026-11-05T02:00:00+02:00,cloud,g,1,3,", "2026-11-07,2026-11-08,cloud,g,1,3,")
    assert rented(db, world, tmp_path, *lines) == [("2026-11-04", "1 h", "3.00"), ("2026-11-07", "24 h", "72.00")]


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="needs time zones of the system")
def test_a_day_has_24_hours_wherever_the_machine_stands(db: Engine, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """New York puts its clocks back on 1 November 2026."""
    try:
        monkeypatch.setenv("TZ", "America/New_York")
        time.tzset()
        assert rented(db, world, tmp_path, "2026-11-01,2026-11-02,cloud,g,1,1,USD") == [("2026-11-01", "24 h", "24.00")]
    finally:
        monkeypatch.undo()
        time.tzset()
    assert os.environ.get("TZ") != "America/New_York"


def test_a_whole_month_is_720_hours_of_november(db: Engine, world: World, tmp_path: Path) -> None:
    """8 B300 at $55.52 an hour for all of them: 720 x 55.52 = $39,974.40, where 730 hours would be $40,529.60."""
    made = report(db, world, rentals=read_rentals(rentals_file(tmp_path, "2025-01-01,2027-01-01,cloud,b300,8,55.52,")))
    assert (len(made.lines), made.total("rental")) == (30, Decimal("39974.40"))


def test_a_currency_without_a_rate_is_a_question_mark(db: Engine, world: World, tmp_path: Path) -> None:
    made = report(db, world, rentals=read_rentals(rentals_file(tmp_path, "2026-11-01,2026-11-03,cloud,g,1,5,RUB")))
    assert [(line.usd, line.flags) for line in made.lines] == [(None, ("no exchange rate for RUB",))] * 2
    assert (made.total("rental"), len(made.without_figure)) == (Decimal("0.00"), 2)


# --- totals ---------------------------------------------------------------------------------------------------------------

PRICES = {  # USD per Mtok by provider: input, cached, output; until the 9th and from the 10th of November on
    "vendor": ("large-60b", (Fraction(2), Fraction(1, 5), Fraction(10)), (Fraction(3, 2), Fraction(3, 20), Fraction(8))),
    "other": ("small-8b", (Fraction(1, 10), Fraction(1, 10), Fraction(2, 5)), (Fraction(1, 10), Fraction(1, 10), Fraction(2, 5))),
}
TOKENS = st.integers(0, 10**12)
USAGES = st.lists(st.tuples(st.integers(1, 30), st.sampled_from(sorted(PRICES)), TOKENS, TOKENS, TOKENS), max_size=6)
SECONDS = st.integers(0, 40 * 86_400)
PRICE = st.decimals("0.01", "999", places=4)
RENTALS = st.lists(st.tuples(SECONDS, SECONDS, PRICE, st.sampled_from(["USD", "EUR"])).filter(lambda r: r[0] < r[1]), max_size=3)
START = datetime(2026, 10, 27, tzinfo=UTC)


def half_up(amount: Fraction) -> Decimal:
    """To the cent, with whole numbers alone."""
    return Decimal((amount * 1000 // 1 + 5) // 10).scaleb(-2)


def dollars_per_euro(day: date) -> Fraction:
    return Fraction(max((known, rates[0]) for known, rates in RATES.items() if known <= day)[1])


def billed(usages: list[tuple[int, str, int, int, int]]) -> Decimal:
    """The API bill, worked out apart: each line to the cent, then added."""
    total = Decimal(0)
    for day, provider, *tokens in usages:
        prices = PRICES[provider][1 if day < 10 else 2]
        total += half_up(sum((price * count for price, count in zip(prices, tokens, strict=True)), Fraction(0)) / 10**6)
    return total


def rent(rentals: list[tuple[int, int, Decimal, str]]) -> Decimal:
    """The rent, worked out apart: for each day of November the seconds that fall into it."""
    total = Decimal(0)
    for start, end, price, currency in rentals:
        for day in range(30):
            midnight = int((datetime(2026, 11, 1, tzinfo=UTC) + timedelta(days=day) - START).total_seconds())
            seconds = min(end, midnight + 86_400) - max(start, midnight)
            if seconds > 0:
                factor = dollars_per_euro(date(2026, 11, 1 + day)) if currency == "EUR" else Fraction(1)
                total += half_up(Fraction(price) * seconds / 3600 * factor)
    return total


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(usages=USAGES, rentals=RENTALS)
def test_totals_are_the_sum_of_the_printed_lines_and_of_a_calculation_of_our_own(
    db: Engine, world: World, tmp_path: Path, usages: list[tuple[int, str, int, int, int]], rentals: list[tuple[int, int, Decimal, str]]
) -> None:
    spend = [f"2026-11-{d:02d},{p},{PRICES[p][0]},,,{new},{cached},,,{out}" for d, p, new, cached, out in usages]
    rents = [
        f"{(START + timedelta(seconds=a)).isoformat()},{(START + timedelta(seconds=b)).isoformat()},cloud,g,1,{price},{currency}"
        for a, b, price, currency in rentals
    ]
    made = report(db, world, read_usage(usage_file(tmp_path, *spend)), read_rentals(rentals_file(tmp_path, *rents)))
    assert (made.total("api"), made.total("rental")) == (billed(usages), rent(rentals))
    write_csv(made, tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == [*HEADER, "usd exact"]
    for kind in ("api", "rental"):
        printed = [Decimal(row[6]) for row in rows if row[0] == kind]
        exact = [Decimal(row[10]) for row in rows if row[0] == kind]
        (total,) = (Decimal(row[6]) for row in rows if row[0] == f"total {kind}")
        assert sum(printed, Decimal(0)) == total
        assert printed == [amount.quantize(Decimal("0.01"), rounding=ROUND_HALF_UP) for amount in exact]


# --- files ----------------------------------------------------------------------------------------------------------------


def test_the_csv_is_this(db: Engine, world: World, tmp_path: Path) -> None:
    usage = read_usage(usage_file(tmp_path, "2026-11-02,vendor,large-60b,,,1000000,2000000,,,1000"))
    rental = read_rentals(rentals_file(tmp_path, "2026-11-02,2026-11-02T01:00:00Z,cloud,test-80,8,1.005,USD"))
    write_csv(report(db, world, usage, rental), tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text(encoding="utf-8").splitlines() == [
        "kind,day,provider,what,sku,quantity,usd,price from,price seen,notes,usd exact",
        "api,2026-11-02,vendor,large-60b,standard,input=1000000 cache_read=2000000 output=1000,2.41,tokens,2026-11-01 06:00,,2.41",
        "rental,2026-11-02,cloud,8 x test-80,,1 h,1.01,rentals file,,,1.005",
        "total api,2026-11,,,,,2.41,,,,",
        "total rental,2026-11,,,,,1.01,,,,",
    ]
    assert [path.name for path in tmp_path.glob("out*")] == ["out.csv"]


@pytest.mark.parametrize("cell", ["=cmd|' /C calc'!A0", "+1+1", "-2", "@SUM(A1)", "=1"])
def test_no_cell_of_the_report_is_run_as_a_formula(db: Engine, world: World, tmp_path: Path, cell: str) -> None:
    usage = read_usage(usage_file(tmp_path, f'2026-11-02,"{cell}","\t{cell}",{cell.split("|")[0]},,1,,,,'))
    rental = read_rentals(rentals_file(tmp_path, f'2026-11-02,2026-11-03,"{cell}","{cell}",8,1,USD'))
    write_csv(report(db, world, usage, rental), tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert [rows[1][2], rows[1][3], rows[2][2]] == [f"'{cell}"] * 3
    assert not [c for row in rows for c in row if c.startswith(("=", "+", "-", "@", "\t", "\r"))]


def test_columns_may_stand_in_any_order_with_those_one_has(tmp_path: Path) -> None:
    path = tmp_path / "usage.csv"
    path.write_bytes(b"\xef\xbb\xbfmodel, output ,day,provider\r\n large-60b , 7 ,2026-11-02, vendor \r\n\r\n")
    (record,) = read_usage(path)
    assert (record.day, record.provider, record.model, record.sku, record.region) == (
        date(2026, 11, 2),
        "vendor",
        "large-60b",
        "standard",
        "",
    )
    assert record.tokens == {"input": 0, "cache_read": 0, "cache_write_5m": 0, "cache_write_1h": 0, "output": 7}


BAD_USAGE = [
    ("02.11.2026,vendor,m,,,1,,,,", "day: expected a day such as 2026-11-01, found '02.11.2026'"),
    ("2026-11-31,vendor,m,,,1,,,,", "day: expected a day such as 2026-11-01, found '2026-11-31'"),
    (",vendor,m,,,1,,,,", "day: expected a value, found ''"),
    ("2026-11-02,,m,,,1,,,,", "provider: expected a value, found ''"),
    ("2026-11-02,vendor, ,,,1,,,,", "model: expected a value, found ' '"),
    ("2026-11-02,vendor,m,,,-1,,,,", "input: expected a whole number from 0 to 1000000000000000, without separators, found '-1'"),
    ("2026-11-02,vendor,m,,,1.5,,,,", "input: expected a whole number from 0 to 1000000000000000, without separators, found '1.5'"),
    ('2026-11-02,vendor,m,,,"1,000",,,,', "input: expected a whole number from 0 to 1000000000000000, without separators, found '1,000'"),
    ("2026-11-02,vendor,m,,,,1e6,,,", "cache_read: expected a whole number from 0 to 1000000000000000, without separators, found '1e6'"),
    ("2026-11-02,vendor,m,,,,,,,1000000000000001", "output: expected a whole number from 0 to 1000000000000000, without separators"),
    ("2026-11-02,vendor,m,,,\N{FULLWIDTH DIGIT ONE},,,,", "input: expected a whole number"),
    ("2026-11-02,vendor,m,,,1,,,,,", "has more cells than the header"),
    ("2026-11-02,vendor,m,,,1", "has fewer cells than the header"),
    ('2026-11-02,vendor,m,,,"1,,,,', "unexpected end of data"),
    ('2026-11-02,ven"dor,"m"x,,,1,,,,', "',' expected after '\"'"),
]
BAD_RENTALS = [
    ("2026-11-02,2026-11-02,cloud,g,1,1,", "end: expected a time after start, found '2026-11-02'"),
    ("yesterday,2026-11-02,cloud,g,1,1,", "start: expected a UTC time such as 2026-11-01T00:00:00Z, found 'yesterday'"),
    ("2026-11-02,2026-11-03T24:30,cloud,g,1,1,", "end: expected a UTC time such as 2026-11-01T00:00:00Z, found '2026-11-03T24:30'"),
    ("2026-11-02,2026-11-03,cloud,,1,1,", "gpu: expected a value, found ''"),
    ("2026-11-02,2026-11-03,cloud,g,0,1,", "gpu_count: expected a whole number from 1 to 100000, without separators, found '0'"),
    ("2026-11-02,2026-11-03,cloud,g,,1,", "gpu_count: expected a whole number from 1 to 100000, without separators, found ''"),
    ("2026-11-02,2026-11-03,cloud,g,1,,", "price_per_hour: expected a value, found ''"),
    ("2026-11-02,2026-11-03,cloud,g,1,$55.52,", "price_per_hour: expected an amount such as 55.52, found '$55.52'"),
    ('2026-11-02,2026-11-03,cloud,g,1,"55,52",', "price_per_hour: expected an amount such as 55.52, found '55,52'"),
    ("2026-11-02,2026-11-03,cloud,g,1,-1,", "price_per_hour: expected an amount of at least 0, found '-1'"),
    ("2026-11-02,2026-11-03,cloud,g,1,NaN,", "price_per_hour: expected an amount of at least 0, found 'NaN'"),
    ("2026-11-02,2026-11-03,cloud,g,1,1e999999,", "price_per_hour: expected an amount of at least 0, found '1e999999'"),
    ("0001-01-01T00:00:00+14:00,2026-11-03,cloud,g,1,1,", "start: expected a UTC time such as 2026-11-01T00:00:00Z"),
]


@pytest.mark.parametrize(("line", "message"), BAD_USAGE)
def test_a_bad_cell_of_usage_is_named_with_file_line_and_column(tmp_path: Path, line: str, message: str) -> None:
    path = usage_file(tmp_path, "2026-11-01,vendor,m,,,1,,,,", line)
    with pytest.raises(RecordError) as caught:
        read_usage(path)
    assert str(caught.value).startswith(f"{path}: line 3: {message}")


@pytest.mark.parametrize(("line", "message"), BAD_RENTALS)
def test_a_bad_cell_of_rentals_is_named_with_file_line_and_column(tmp_path: Path, line: str, message: str) -> None:
    path = rentals_file(tmp_path, "2026-11-01,2026-11-02,cloud,g,1,1,", line)
    with pytest.raises(RecordError) as caught:
        read_rentals(path)
    assert str(caught.value).startswith(f"{path}: line 3: {message}")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "line 1: column day is missing; expected day,provider,model and any of sku,region,input"),
        (b"day,provider\n", "line 1: column model is missing"),
        (b"day,provider,model,ouput\n", "line 1: unknown column 'ouput' (did you mean output?)"),
        (b"day,provider,model,input,input\n", "line 1: column 'input' is there twice"),
        (b"day,provider,model\n\xff\n", "not UTF-8 text (invalid start byte at byte 19)"),
    ],
)
def test_a_file_that_is_no_usage_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "usage.csv"
    path.write_bytes(content)
    with pytest.raises(RecordError) as caught:
        read_usage(path)
    assert str(caught.value).startswith(f"{path}: {message}")


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    for path, why in ((tmp_path / "missing.csv", "No such file or directory"), (tmp_path, "Is a directory")):
        with pytest.raises(RecordError, match=f"{path}: cannot be read: {why}"):
            read_usage(path)


@pytest.mark.parametrize(
    ("month", "start", "end"),
    [("2026-11", (2026, 11, 1), (2026, 12, 1)), ("2026-12", (2026, 12, 1), (2027, 1, 1)), ("2028-02", (2028, 2, 1), (2028, 3, 1))],
)
def test_a_month_is_a_calendar_month_in_utc(month: str, start: tuple[int, int, int], end: tuple[int, int, int]) -> None:
    assert month_span(month) == (datetime(*start, tzinfo=UTC), datetime(*end, tzinfo=UTC))


@pytest.mark.parametrize("month", ["2026-13", "2026-1", "November", "", "2026", "2026-11-01", "2026-W05", "9999-12"])
def test_what_is_no_month_is_refused(month: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        month_span(month)
