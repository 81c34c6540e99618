"""The book and its history as CSV, JSON lines and Parquet: every decimal exact, every time UTC, read again by other programs."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from databases import BOTH, new_book, opened
from extras import extra
from homes import run
from small_world import T0, fx, offer, rate, sweep
from sqlalchemy import Engine

from tracker.book import bookstore
from tracker.book.bookfile import Dated
from tracker.book.bookstore import export_book, import_dated
from tracker.database.rows import to_s
from tracker.exports import files
from tracker.exports.files import FORMATS, ExportError, write_tables
from tracker.exports.tables import TableOf, book_tables, history_tables

HOUR = timedelta(hours=1)
TINY = "0.000000000001"  # a token price with every digit the book keeps


@pytest.fixture(params=BOTH)
def db(request: pytest.FixtureRequest) -> Iterator[Engine]:
    handle = next(opened(new_book(request, request.param)))
    days = [*fx(date(2026, 10, 30), USD="1.25"), *fx(date(2026, 11, 3), USD="1.30")]
    sweep(handle, "ecb", T0 - HOUR, fx=days, rows=2)
    euro = {"provider": "euro", "sku": "e", "currency": "EUR"}
    sweep(handle, "rents", T0, offer("2.30"), offer("0.76", gpu_count=2, **euro))
    sweep(handle, "rents", T0 + HOUR, offer("2.31"), offer("0.76", gpu_count=2, **euro))
    sweep(handle, "rents", T0 + 30 * HOUR, offer("2.31"), offer("0.80", gpu_count=2, **euro))
    for later in (31, 32):  # missed twice: gone
        sweep(handle, "rents", T0 + later * HOUR, offer("2.31"))
    sweep(handle, "tokens", T0, rate(input=TINY, output="10", valid_to=1_800_000_000))
    yield handle
    handle.dispose()


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of any of the three kinds: decimals as Decimal, times as aware UTC."""
    if path.suffix == ".parquet":
        from pyarrow import parquet

        rows: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
        return rows
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def money(value: Any) -> Decimal | None:
    return None if value in (None, "") else Decimal(value)


def moment(value: Any) -> datetime | None:
    if value in (None, "") or isinstance(value, datetime):
        return value or None
    return datetime.fromisoformat(value).astimezone(UTC)


@pytest.fixture(params=FORMATS)
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == "parquet":
        extra("pyarrow")
    return str(request.param)


def test_the_book_is_every_price_with_the_time_it_was_seen(db: Engine, tmp_path: Path, kind: str) -> None:
    assert write_tables(db, book_tables(), tmp_path, kind) == {"offers": 4, "rates": 1}
    found = {
        (
            row["provider"],
            money(row["price_per_hour"]),
            row["currency"],
            moment(row["valid_from"]),
            moment(row["seen_at"]),
            moment(row["gone_at"]),
        )
        for row in read(tmp_path / f"offers.{kind}")
    }
    assert found == {
        ("cloud", Decimal("2.30"), "USD", T0, T0, None),
        ("cloud", Decimal("2.31"), "USD", T0 + HOUR, T0 + 32 * HOUR, None),
        ("euro", Decimal("0.76"), "EUR", T0, T0 + HOUR, None),
        ("euro", Decimal("0.80"), "EUR", T0 + 30 * HOUR, T0 + 30 * HOUR, T0 + 32 * HOUR),
    }
    (listed,) = read(tmp_path / f"rates.{kind}")
    assert (money(listed["input"]), money(listed["output"]), money(listed["cache_read"])) == (Decimal(TINY), 10, None)
    assert moment(listed["in_force_to"]) == datetime.fromtimestamp(1_800_000_000, UTC)


def test_the_history_is_every_change_with_its_day_s_dollars(db: Engine, tmp_path: Path, kind: str) -> None:
    """From an hour after the first price on: what was listed then stands first, with the time it is from."""
    counts = write_tables(db, history_tables(T0 + HOUR / 2, T0 + 40 * HOUR), tmp_path, kind)
    assert counts == {"offers": 5, "rates": 1}
    found = [
        (moment(row["at"]), row["provider"], money(row["price_per_hour"]), money(row["usd_per_hour"]), money(row["usd_per_gpu_hour"]))
        for row in read(tmp_path / f"offers.{kind}")
    ]
    assert found == [
        (T0, "cloud", Decimal("2.30"), Decimal("2.30"), Decimal("2.30")),
        (T0, "euro", Decimal("0.76"), Decimal("0.95"), Decimal("0.475")),  # 1.25 dollars a euro
        (T0 + HOUR, "cloud", Decimal("2.31"), Decimal("2.31"), Decimal("2.31")),
        (T0 + 30 * HOUR, "euro", Decimal("0.80"), Decimal("1.04"), Decimal("0.52")),  # 1.30 from 3 November on
        (T0 + 32 * HOUR, "euro", None, None, None),
    ]
    listed = [str(row["listed"]).lower() for row in read(tmp_path / f"offers.{kind}")]
    assert listed == ["true"] * 4 + ["false"]


def test_what_was_written_as_of_a_moment_is_written_so_again_whatever_came_later(db: Engine, tmp_path: Path) -> None:
    """Later come history of before it, an exchange rate of its days, other words for an offer, and another price."""
    at = T0 + 33 * HOUR
    tables = (*book_tables(at), *history_tables(T0 - 400 * HOUR, at + HOUR, at))

    def written(folder: str) -> list[str]:
        for number, table in enumerate(tables):
            write_tables(db, [table], tmp_path / folder / str(number), "csv")
        return [file.read_text(encoding="utf-8") for file in sorted((tmp_path / folder).rglob("*.csv"))]

    before = written("before")
    assert len(before) == 4
    old = Dated(replace(offer("9.99"), provider="old"), "page", to_s(T0 - 300 * HOUR), to_s(T0 + HOUR), to_s(T0 + 20 * HOUR))
    import_dated(db, [old], at + 5 * HOUR)
    sweep(db, "rents", at + 6 * HOUR, replace(offer("2.40"), source_url="https://elsewhere.example/prices"))
    sweep(db, "ecb", at + 7 * HOUR, fx=fx(date(2026, 11, 2), USD="1.50"), rows=1)
    assert written("after") == before
    assert "9.99" in "".join(
        line for table in (*book_tables(), *history_tables(T0 - 400 * HOUR, at)) for line in _lines(db, table, tmp_path / "now")
    )


def _lines(db: Engine, table: TableOf, folder: Path) -> list[str]:
    write_tables(db, [table], folder, "csv")
    return (folder / f"{table.name}.csv").read_text(encoding="utf-8").splitlines()


def test_the_end_of_a_range_is_not_in_it(db: Engine, tmp_path: Path) -> None:
    assert write_tables(db, history_tables(T0, T0 + HOUR), tmp_path, "csv") == {"offers": 2, "rates": 1}
    assert write_tables(db, history_tables(T0 + HOUR, T0 + 2 * HOUR), tmp_path, "csv")["offers"] == 3  # two carried, one changed
    assert write_tables(db, history_tables(T0 + 33 * HOUR, T0 + 34 * HOUR), tmp_path, "csv")["offers"] == 1  # what is gone is not carried


def test_parquet_knows_decimals_and_times(db: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extra("pyarrow")
    import pyarrow
    from pyarrow import parquet

    monkeypatch.setattr(files, "ROWS_A_GROUP", 3)
    write_tables(db, history_tables(T0, T0 + 40 * HOUR), tmp_path, "parquet")
    found = parquet.ParquetFile(tmp_path / "offers.parquet")
    types = {field.name: field.type for field in found.schema_arrow}
    assert types["price_per_hour"] == pyarrow.decimal128(38, 9)
    assert types["usd_per_hour"] == pyarrow.decimal128(38, 12)
    assert types["at"] == pyarrow.timestamp("ms", tz="UTC")
    assert (types["gpu_count"], types["is_slice"], types["provider"]) == (pyarrow.int64(), pyarrow.bool_(), pyarrow.string())
    assert [found.metadata.row_group(n).num_rows for n in range(found.num_row_groups)] == [3, 2]
    rates = parquet.read_schema(tmp_path / "rates.parquet")
    assert rates.field("input").type == pyarrow.decimal128(38, 12)


def test_a_book_larger_than_what_is_held_in_memory_is_the_same_file(db: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export_book(db, tmp_path / "whole")
    monkeypatch.setattr(bookstore, "LINES_AT_ONCE", 2)
    assert export_book(db, tmp_path / "parts") == (4, 1)
    for name in ("offers.csv", "rates.csv"):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_what_fails_leaves_the_old_file_and_no_part(db: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "offers.jsonl").write_text("old\n")

    def trip(*_: Any) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "as_line", trip)
    with pytest.raises(OSError, match="No space left"):
        write_tables(db, book_tables(), tmp_path, "jsonl")
    assert [path.name for path in tmp_path.glob("*.jsonl*")] == ["offers.jsonl"]
    assert (tmp_path / "offers.jsonl").read_text() == "old\n"


def test_a_file_is_no_folder(db: Engine, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ExportError, match="is a file; name a folder"):
        write_tables(db, book_tables(), tmp_path / "file", "csv")


# --- the command ---------------------------------------------------------------------------------------------------------


def test_the_commands_write_what_is_asked_for(tmp_path: Path) -> None:
    """The embedded book, as lines: as many rows as the CSV files that come with the program have."""
    out = tmp_path / "out"
    told = run(tmp_path, "export", "book", str(out), "--format", "jsonl", "--json").json()
    config = Path(__file__).parents[1] / "config" / "starter"
    for name in ("offers", "rates"):
        with (config / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            shipped = sum(1 for _ in csv.DictReader(file))
        assert told[name] == shipped == len(read(out / f"{name}.jsonl"))
    assert run(tmp_path, "export", "history", str(out), "--since", "2024-01-01", "--until", "2024-02-01", "--json").json()["offers"] > 0
    metrics = run(tmp_path, "export", "history", "-", "--format", "openmetrics", "--since", "2h")
    assert (metrics.code, metrics.out.splitlines()[-1]) == (0, "# EOF")
    folder = run(tmp_path, "export", "history", str(out), "--format", "openmetrics", "--since", "2h")
    assert (folder.code, f"{out}: is a folder; name a file in it" in folder.err) == (1, True)
    book = tmp_path / "data" / "breakeven.db"
    itself = run(tmp_path, "export", "history", str(book), "--format", "openmetrics", "--since", "2h")
    assert (itself.code, itself.err) == (1, f"breakeven: {book}: is the book itself; name another file\n")
    assert book.read_bytes()[:15] == b"SQLite format 3"
    wrong = run(tmp_path, "export", "history", str(out), "--format", "parket")
    assert (wrong.code, "no format named 'parket' (did you mean parquet?)" in wrong.err) == (1, True)


def test_metrics_of_the_past_without_room_beside_say_where_to_make_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = sqlite3.connect

    def full(*args: Any, **how: Any) -> sqlite3.Connection:
        found = connect(*args, **how)
        found.execute("pragma max_page_count = 1")  # no room for a table
        return found

    assert run(tmp_path, "sources").code == 0  # makes the book
    monkeypatch.setattr("tracker.exports.past.sqlite3.connect", full)
    told = run(tmp_path, "export", "history", str(tmp_path / "past"), "--format", "openmetrics", "--since", "2h")
    assert (told.code, told.err.count("\n"), "TMPDIR" in told.err) == (1, 1, True)
    assert not (tmp_path / "past").exists()


def test_parquet_without_its_package_says_what_to_install(db: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(ExportError, match=r"pip install 'breakeven\[parquet\]'"):
        write_tables(db, book_tables(), tmp_path, "parquet")
