"""Book files in and out: what is written is what is read, twice is once, and a wrong cell is named and imports nothing."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from databases import BOTH, new_book, opened
from sqlalchemy import Engine, func, select

from tracker.book.book import read_book
from tracker.book.bookfile import OFFER_COLUMNS, RATE_COLUMNS, BookFileError, Dated
from tracker.book.bookmark import book_digest, starter_is_loaded
from tracker.book.bookstore import export_book, import_book, import_dated
from tracker.database.handle import reading
from tracker.database.rows import OfferRow, scaled, to_s
from tracker.database.tables import RENT_SCALE
from tracker.facts.catalogue import Catalogue, load_catalogue
from tracker.paths import config_dir
from tracker.sweeps.store import OFFER_POINT, RATE_POINT, SWEEP, SweepReport, record_sweep

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
OFFER = dict(
    provider="nebius", sku="NVIDIA HGX B300", region="", gpu="nvidia-b300-sxm-288", gpu_count="8", max_gpu_count="", tier="on_demand",
    term_months="0", trust="datacenter", availability="listed", price_kind="list", interconnect="unknown", is_slice="false",
    currency="USD", price_per_hour="76", announced_from="", valid_from="2026-10-10", seen_at="2026-10-16T12:30:00Z", gone_at="",
    source="nebius-page", source_url="https://nebius.com/prices",
)  # fmt: skip
RATE = dict(
    provider="moonshot", source_model="kimi-k3.1-pro", model="kimi-k3.1-pro", sku="standard", region="", currency="USD", input="2",
    cache_read="0.2", cache_write_5m="0", cache_write_1h="", output="10", min_prompt_tokens="0", tier_inclusive="false",
    hours_utc="16:30-00:30", weekdays="12345", in_force_from="2026-10-23", in_force_to="", valid_from="2026-11-07", seen_at="2026-11-07",
    gone_at="2026-11-10", source="article", source_url="",
)  # fmt: skip


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load_catalogue(config_dir())


@pytest.fixture(params=BOTH)
def db(request: pytest.FixtureRequest) -> Iterator[Engine]:
    yield from opened(new_book(request, request.param))


@pytest.fixture(params=BOTH)
def other_db(request: pytest.FixtureRequest) -> Iterator[Engine]:
    yield from opened(new_book(request, request.param, "other"))


def write(folder: Path, *, offers: list[dict[str, str]] | None = None, rates: list[dict[str, str]] | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    for name, columns, rows in (("offers.csv", OFFER_COLUMNS, offers), ("rates.csv", RATE_COLUMNS, rates)):
        if rows is not None:
            with (folder / name).open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, columns, lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)
    return folder


def rows_in(db: Engine) -> int:
    with reading(db) as connection:
        return sum(connection.scalar(select(func.count()).select_from(table)) or 0 for table in (OFFER_POINT, RATE_POINT, SWEEP))


def test_what_is_imported_is_exported_cell_for_cell(tmp_path: Path, db: Engine, catalogue: Catalogue) -> None:
    later = OFFER | {"price_per_hour": "75.000000001", "valid_from": "2026-10-17", "seen_at": "2026-11-01", "gone_at": "2026-11-02"}
    source = write(tmp_path / "in", offers=[later, OFFER], rates=[RATE])
    imported = import_book(db, source, catalogue, NOW)
    assert (imported.rows, imported.new_points) == (3, 7)  # two sightings, two and an end; one sighting and an end
    assert export_book(db, tmp_path / "out") == (2, 1)
    with (tmp_path / "out/offers.csv").open(encoding="utf-8", newline="") as file:
        assert sorted(csv.DictReader(file), key=lambda row: row["valid_from"]) == [OFFER, later]
    with (tmp_path / "out/rates.csv").open(encoding="utf-8", newline="") as file:
        assert list(csv.DictReader(file)) == [RATE]


def test_twice_is_once(tmp_path: Path, db: Engine, catalogue: Catalogue) -> None:
    source = write(tmp_path / "in", offers=[OFFER], rates=[RATE])
    import_book(db, source, catalogue, NOW)
    before = rows_in(db)
    assert import_book(db, source, catalogue, NOW + timedelta(days=1)).new_points == 0
    assert rows_in(db) == before


def test_a_row_that_is_dated_after_now_is_refused_with_all_others(tmp_path: Path, db: Engine, catalogue: Catalogue) -> None:
    source = write(tmp_path / "in", offers=[OFFER], rates=[RATE | {"seen_at": "2027-02-01", "gone_at": ""}])
    with pytest.raises(BookFileError, match=r"is dated 2027-02-01 00:00, after now; correct it, or this machine's clock$"):
        import_book(db, source, catalogue, NOW, latest=NOW)
    assert rows_in(db) == 0
    assert import_book(db, source, catalogue, NOW).rows == 2  # as the shipped book is, where the clock is behind


def test_one_file_is_enough_and_none_is_an_error(tmp_path: Path, db: Engine, catalogue: Catalogue) -> None:
    assert import_book(db, write(tmp_path / "rates", rates=[RATE]), catalogue, NOW).rows == 1
    with pytest.raises(BookFileError, match=r"holds neither offers\.csv nor rates\.csv"):
        import_book(db, write(tmp_path / "none"), catalogue, NOW)


def test_from_one_database_to_another_and_back(tmp_path: Path, db: Engine, other_db: Engine, catalogue: Catalogue) -> None:
    import_book(db, write(tmp_path / "in", offers=[OFFER], rates=[RATE]), catalogue, NOW)
    export_book(db, tmp_path / "one")
    import_book(other_db, tmp_path / "one", catalogue, NOW)
    export_book(other_db, tmp_path / "two")
    for name in ("offers.csv", "rates.csv"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_a_stated_zero_stays_zero_and_an_empty_cell_stays_unknown(tmp_path: Path, db: Engine, catalogue: Catalogue) -> None:
    import_book(db, write(tmp_path / "in", rates=[RATE | {"gone_at": ""}]), catalogue, NOW)
    with reading(db) as connection:
        (entry,) = read_book(connection, NOW, {}).rates
    assert (entry.value.native.cache_write_5m, entry.value.native.cache_write_1h) == (Decimal(0), None)
    assert (entry.imported, entry.fresh, entry.origin, entry.seen_at) == (True, False, "article", datetime(2026, 11, 7, tzinfo=UTC))


def test_the_book_knows_whether_it_was_loaded(tmp_path: Path, db: Engine, catalogue: Catalogue) -> None:
    source = write(tmp_path / "in", offers=[OFFER])
    with reading(db) as connection:
        assert not starter_is_loaded(connection, source)
    import_book(db, source, catalogue, NOW)
    digest = book_digest(source)
    with reading(db) as connection:
        assert starter_is_loaded(connection, source)
    write(tmp_path / "in", offers=[OFFER | {"price_per_hour": "77"}])
    assert book_digest(source) != digest
    with reading(db) as connection:
        assert not starter_is_loaded(connection, source)


WRONG_OFFERS = [
    ("gpu", "nvidia-b300-sxm", r"gpu: expected a GPU of config/gpus\.toml \(did you mean nvidia-b300-sxm-288\?\), found 'nvidia-b300-sxm'"),
    ("provider", "", r"provider: expected a value, found ''"),
    ("gpu_count", "0", r"gpu_count: expected a whole number of at least 1, found '0'"),
    ("gpu_count", "1.5", r"gpu_count: expected a whole number"),
    ("tier", "ondemand", r"tier: expected one of on_demand, spot, reserved \(did you mean on_demand\?\)"),
    ("trust", "", r"trust: expected one of datacenter, verified, community, unverified, found ''"),
    ("availability", "yes", r"availability: expected one of available, listed, unavailable, unknown"),
    ("price_kind", "fixed", r"price_kind: expected one of list, ask, starting_at, indicative"),
    ("is_slice", "no", r"is_slice: expected one of true, false"),
    ("currency", "usd", r"currency: expected a currency code such as USD, found 'usd'"),
    ("price_per_hour", "0", r"price_per_hour: expected a price above 0, found '0'"),
    ("price_per_hour", "-1", r"price_per_hour: expected a price above 0, found '-1'"),
    ("price_per_hour", "NaN", r"price_per_hour: expected a price above 0, found 'NaN'"),
    ("price_per_hour", "1e30", r"price_per_hour: expected a price above 0, found '1e30'"),
    ("price_per_hour", "76 USD", r"price_per_hour: expected a price above 0, found '76 USD'"),
    ("valid_from", "10.10.2026", r"valid_from: expected a UTC time such as 2026-10-16 or 2026-10-16T12:00:00Z"),
    ("seen_at", "2026-10-09", r"seen_at: expected a time at or after valid_from, found '2026-10-09'"),
    ("gone_at", "2026-10-16T12:30:00Z", r"gone_at: expected a time after seen_at"),
    ("source", "", r"source: expected a value"),
]
WRONG_RATES = [
    ("model", "muse-spark-opne", r"model: expected a model of config/models \(did you mean muse-spark-open\?\), found 'muse-spark-opne'"),
    ("input", "-1", r"input: expected a price of at least 0, found '-1'"),
    ("output", "ten", r"output: expected a price of at least 0, found 'ten'"),
    ("min_prompt_tokens", "128k", r"min_prompt_tokens: expected a whole number of at least 0"),
    ("tier_inclusive", "", r"tier_inclusive: expected one of true, false"),
    ("in_force_from", "soon", r"in_force_from: expected a UTC time"),
]


@pytest.mark.parametrize(("column", "value", "message"), WRONG_OFFERS)
def test_a_wrong_offer_is_named_and_nothing_is_imported(
    column: str, value: str, message: str, tmp_path: Path, db: Engine, catalogue: Catalogue
) -> None:
    source = write(tmp_path / "in", offers=[OFFER, OFFER | {column: value}], rates=[RATE])
    with pytest.raises(BookFileError, match=rf"in/offers\.csv: line 3: {message}"):
        import_book(db, source, catalogue, NOW)
    assert rows_in(db) == 0


@pytest.mark.parametrize(("column", "value", "message"), WRONG_RATES)
def test_a_wrong_rate_is_named_and_nothing_is_imported(
    column: str, value: str, message: str, tmp_path: Path, db: Engine, catalogue: Catalogue
) -> None:
    source = write(tmp_path / "in", offers=[OFFER], rates=[RATE | {column: value}])
    with pytest.raises(BookFileError, match=rf"in/rates\.csv: line 2: {message}"):
        import_book(db, source, catalogue, NOW)
    assert rows_in(db) == 0


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"provider,sku\nnebius,x\n", r"line 1: column region is missing; expected provider,sku,region"),
        (b"", r"line 1: column provider is missing"),
        (b"\xff\xfe\x00", r"not UTF-8 text \(.* at byte 0\)"),
        ((",".join(OFFER_COLUMNS) + "\nnebius,x\n").encode(), r"line 2: .*expected as many cells as the header has"),
        ((",".join(OFFER_COLUMNS) + '\n"nebius,x\n').encode(), r"line \d: unexpected end of data"),
    ],
)
def test_a_file_that_is_no_book_is_refused(body: bytes, message: str, tmp_path: Path, db: Engine, catalogue: Catalogue) -> None:
    write(tmp_path / "in")
    (tmp_path / "in/offers.csv").write_bytes(body)
    with pytest.raises(BookFileError, match=message):
        import_book(db, tmp_path / "in", catalogue, NOW)
    assert rows_in(db) == 0


def test_columns_may_stand_in_any_order_and_a_byte_order_mark_is_no_letter(tmp_path: Path, db: Engine, catalogue: Catalogue) -> None:
    write(tmp_path / "in")
    turned = dict(reversed(OFFER.items()))
    text = ",".join(turned) + "\n" + ",".join(turned.values()) + "\n"
    (tmp_path / "in/offers.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert import_book(db, tmp_path / "in", catalogue, NOW).rows == 1


def offer_row(price: str) -> OfferRow:
    return OfferRow(
        provider="runpod", sku="NVIDIA H200", region="", gpu="nvidia-h200-sxm-141", gpu_count=1, tier="on_demand", trust="datacenter",
        currency="USD", price=scaled(Decimal(price), RENT_SCALE), max_gpu_count=8,
    )  # fmt: skip


def test_dated_rows_come_in_without_a_file(db: Engine, tmp_path: Path) -> None:
    seen = to_s(NOW)
    dated = [Dated(offer_row("3.99"), "price-page", seen, seen + 1, None)]
    assert import_dated(db, dated, NOW).new_points == 2
    assert import_dated(db, dated, NOW).new_points == 0
    assert export_book(db, tmp_path) == (1, 0)


def test_a_live_price_is_exported_as_seen_for_as_long_as_its_source_was_covered(db: Engine, tmp_path: Path) -> None:
    """First sweep at noon, a second that brings nothing new an hour later, two more without the offer: gone."""
    for hours, status, rows in ((0, "ok", [offer_row("3.99")]), (1, "unchanged", []), (1.5, "ok", []), (2, "ok", [])):
        at = NOW + timedelta(hours=hours)
        record_sweep(db, SweepReport(source="runpod", started_at=at, finished_at=at, status=status, rows=len(rows), offers=rows))
    export_book(db, tmp_path)
    with (tmp_path / "offers.csv").open(encoding="utf-8", newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["price_per_hour"], row["source"]) == ("3.99", "runpod")
    assert (row["valid_from"], row["seen_at"], row["gone_at"]) == ("2026-11-29T12:00:00Z", "2026-11-29T13:00:00Z", "2026-11-29T14:00:00Z")
