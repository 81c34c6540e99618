"""Tries to break the import: whatever a book file says, it is refused in one line or it can be read, shown and written again."""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from small_world import small_world
from sqlalchemy import Engine, func, select

from tracker.answers.recompute import Sizer, recompute
from tracker.book.book import read_book
from tracker.book.bookfile import OFFER_COLUMNS, RATE_COLUMNS, BookFileError
from tracker.book.bookstore import export_book, import_book
from tracker.database.handle import migrate, open_database, reading
from tracker.metrics.families import families
from tracker.plain import as_json
from tracker.present import rows
from tracker.sweeps.store import OFFER, OFFER_POINT, RATE, RATE_POINT, SWEEP
from tracker.web.app import listed_facts
from tracker.world import World

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
FAR = datetime(2100, 12, 31, tzinfo=UTC)
OFFER_CELLS = dict(
    provider="cloud", sku="141x1", region="", gpu="test-141", gpu_count="1", max_gpu_count="8", tier="on_demand", term_months="0",
    trust="datacenter", availability="listed", price_kind="list", interconnect="unknown", is_slice="false", currency="USD",
    price_per_hour="2.30", announced_from="", valid_from="2026-10-10", seen_at="2026-10-16T12:30:00Z", gone_at="", source="page",
    source_url="",
)  # fmt: skip
RATE_CELLS = dict(
    provider="vendor", source_model="large", model="large-60b", sku="standard", region="", currency="USD", input="2", cache_read="0.2",
    cache_write_5m="0", cache_write_1h="", output="10", min_prompt_tokens="0", tier_inclusive="false", hours_utc="", weekdays="",
    in_force_from="", in_force_to="", valid_from="2026-11-07", seen_at="2026-11-07", gone_at="", source="article", source_url="",
)  # fmt: skip


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return small_world(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a migrated database to be copied."""
    folder = tmp_path_factory.mktemp("book")
    handle = open_database(f"sqlite:///{folder / 'empty.db'}")
    migrate(handle)
    handle.dispose()
    return folder


@contextmanager
def book(place: Path, name: str = "book.db") -> Iterator[Engine]:
    """An empty book."""
    for old in place.glob(name + "*"):
        old.unlink()
    handle = open_database(f"sqlite:///{shutil.copy(place / 'empty.db', place / name)}")
    yield handle
    handle.dispose()


def write(folder: Path, name: str, columns: tuple[str, ...], *lines: dict[str, str]) -> Path:
    """A folder with that one file."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns)
    writer.writeheader()
    writer.writerows(lines)
    (folder / name).write_text(text.getvalue(), encoding="utf-8", newline="")
    return folder


def count(db: Engine) -> int:
    with reading(db) as connection:
        return sum(connection.scalar(select(func.count()).select_from(t)) or 0 for t in (OFFER, OFFER_POINT, RATE, RATE_POINT, SWEEP))


def import_or_refuse(place: Path, folder: Path, world: World) -> bool:
    """Whether the files were taken. Either way the book is sound: all or nothing, and what is in it can be used."""
    with book(place) as db:
        try:
            import_book(db, folder, world.catalogue, NOW)
        except BookFileError as error:
            assert str(error).startswith(str(folder))
            assert "\n" not in str(error)
            assert count(db) == 0
            return False
        use(db, world)
        check_export(db, place, world)
        return True


def use(db: Engine, world: World) -> None:
    """Everything that is made of the book can be made of this one, now and at the end of time."""
    for at in (NOW, FAR):
        snapshot = recompute(db, world, Sizer(world), at)
        rows(snapshot.every, at)
        assert sum(len(family.samples) for family in families(snapshot)) > 0
        as_json([listed_facts(entry) for entry in (*snapshot.book.offers, *snapshot.book.price_lists)])


def check_export(db: Engine, place: Path, world: World) -> None:
    """What is written is taken again and written the same."""
    export_book(db, place / "first")
    with book(place, "again.db") as again:
        import_book(again, place / "first", world.catalogue, NOW)
        export_book(again, place / "second")
    for name in ("offers.csv", "rates.csv"):
        assert (place / "first" / name).read_bytes() == (place / "second" / name).read_bytes()


NASTY = st.sampled_from(
    ["", "0", "-0", "1", "00", "+1", "1_0", " 1", "1e999999", "1e-999999", "1e18", "1e9", "0.0000000001", "1e-13", "NaN", "sNaN",
     "-Infinity", "9" * 40, "0." + "3" * 60, "10001", "121", "2147483648", "true", "True", "USD", "EUR", "ÄÖÜ", "0001-01-01", "9999-12-31",
     "9999-12-31T23:59:59-12:00", "2026-11-07T00:00:00+23:59", "2026-W45-1", "20261107", "2100-12-31T23:59:59.999999Z", "24:00-25:00",
     "00:00-24:00", "06:00-10:00,", "22:00-06:00", "0", "8", "77", "a\nb", "a\rb", '"', "a\x00b", "\u202e", "\ufeff", " ", "=1+1",
     "x" * 301, "[/]", "spot", "reserved", "unavailable", "starting_at", "community", "test-80", "small-8b", "\N{SNOWMAN}"]
)  # fmt: skip
ANYTHING = st.one_of(NASTY, st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
QUICK = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@QUICK
@given(changed=st.dictionaries(st.sampled_from(OFFER_COLUMNS), ANYTHING, min_size=1, max_size=3))
@example(changed={"max_gpu_count": "0"})
@example(changed={"gpu_count": "8", "max_gpu_count": "1"})
@example(changed={"gpu_count": "2147483648", "max_gpu_count": ""})
@example(changed={"price_per_hour": "1e-10"})
@example(changed={"price_per_hour": "1e999999"})
@example(changed={"valid_from": "9999-12-31T23:59:59-12:00", "seen_at": "9999-12-31T23:59:59-12:00"})
@example(changed={"announced_from": "9999-12-31T23:59:59-12:00"})
@example(changed={"sku": "a\x00b"})
@example(changed={"interconnect": "\u202e"})
@example(changed={"currency": "ÄÖÜ"})
def test_no_offer_breaks_the_book(place: Path, world: World, changed: dict[str, str]) -> None:
    import_or_refuse(place, write(place / "in", "offers.csv", OFFER_COLUMNS, OFFER_CELLS, OFFER_CELLS | changed), world)


@QUICK
@given(changed=st.dictionaries(st.sampled_from(RATE_COLUMNS), ANYTHING, min_size=1, max_size=3))
@example(changed={"hours_utc": "noon"})
@example(changed={"hours_utc": "25:00-26:00"})
@example(changed={"weekdays": "08"})
@example(changed={"input": "1e-13"})
@example(changed={"min_prompt_tokens": "9" * 30})
@example(changed={"in_force_from": "9999-12-31T23:59:59-12:00"})
@example(changed={"in_force_from": "2026-11-08", "in_force_to": "2026-11-01"})
def test_no_rate_breaks_the_book(place: Path, world: World, changed: dict[str, str]) -> None:
    import_or_refuse(place, write(place / "in", "rates.csv", RATE_COLUMNS, RATE_CELLS, RATE_CELLS | changed), world)


@QUICK
@given(
    body=st.one_of(st.binary(max_size=300), st.lists(st.lists(ANYTHING, max_size=25).map(",".join)).map(lambda x: "\n".join(x).encode())),
    name=st.sampled_from(["offers.csv", "rates.csv"]),
    header=st.booleans(),
)
def test_no_file_breaks_the_import(place: Path, world: World, body: bytes, name: str, header: bool) -> None:
    columns = OFFER_COLUMNS if name == "offers.csv" else RATE_COLUMNS
    folder = write(place / "in", name, columns)
    (folder / name).write_bytes((",".join(columns) + "\n").encode() * header + body)
    import_or_refuse(place, folder, world)


SOUND: list[dict[str, Any]] = [
    {"gpu_count": "8", "max_gpu_count": ""},
    {"gpu_count": "10000", "max_gpu_count": "10000"},
    {"price_per_hour": "0.000000001"},
    {"term_months": "120", "tier": "reserved"},
    {"sku": "x" * 300, "region": "=1+1", "provider": "\N{SNOWMAN} & <b>"},
    {"announced_from": "2027-01-01T00:00:00Z"},
    {"valid_from": "2000-01-01", "seen_at": "2100-12-31"},
    {"source_url": "https://example.test/?" + "q" * 1_900},
]


@pytest.mark.parametrize("changed", SOUND)
def test_what_is_sound_is_taken(place: Path, world: World, changed: dict[str, str]) -> None:
    assert import_or_refuse(place, write(place / "in", "offers.csv", OFFER_COLUMNS, OFFER_CELLS | changed), world)


@pytest.mark.parametrize("changed", [{"hours_utc": "16:30-00:30,06:00-24:00"}, {"weekdays": "67"}, {"input": "", "output": "0"}])
def test_a_sound_rate_is_taken(place: Path, world: World, changed: dict[str, str]) -> None:
    assert import_or_refuse(place, write(place / "in", "rates.csv", RATE_COLUMNS, RATE_CELLS | changed), world)


REFUSED_OFFERS = [
    ("gpu_count", "10001", "expected a whole number of at most 10000"),
    ("max_gpu_count", "0", "expected a whole number of at least 1"),
    ("term_months", "121", "expected a whole number of at most 120"),
    ("price_per_hour", "0.0000000001", "expected a price above 0"),
    ("valid_from", "1999-12-31", "expected a year from 2000 to 2100"),
    ("seen_at", "2101-01-01", "expected a year from 2000 to 2100"),
    ("provider", " cloud", "expected at most 300 characters, none of them invisible and no space at the ends"),
    ("sku", "x" * 301, "expected at most 300 characters"),
    ("region", "a\u202eb", "expected at most 300 characters, none of them invisible"),
    ("source_url", "x" * 2001, "expected at most 2000 characters"),
]
REFUSED_RATES = [
    ("hours_utc", "6-10", "expected UTC hours such as 06:00-10:00"),
    ("weekdays", "18", "expected ISO weekdays such as 12345"),
    ("min_prompt_tokens", "1000000001", "expected a whole number of at most 1000000000"),
    ("output", "0.0000000000001", "expected a price of at least 0"),
]


@pytest.mark.parametrize(("column", "value", "message"), REFUSED_OFFERS)
def test_an_offer_no_reader_could_use_is_refused(place: Path, world: World, column: str, value: str, message: str) -> None:
    folder = write(place / "in", "offers.csv", OFFER_COLUMNS, OFFER_CELLS | {column: value})
    with book(place) as db, pytest.raises(BookFileError, match=f"offers.csv: line 2: {column}: {message}"):
        import_book(db, folder, world.catalogue, NOW)


@pytest.mark.parametrize(("column", "value", "message"), REFUSED_RATES)
def test_a_rate_no_reader_could_use_is_refused(place: Path, world: World, column: str, value: str, message: str) -> None:
    folder = write(place / "in", "rates.csv", RATE_COLUMNS, RATE_CELLS | {column: value})
    with book(place) as db, pytest.raises(BookFileError, match=f"rates.csv: line 2: {column}: {message}"):
        import_book(db, folder, world.catalogue, NOW)


def test_columns_and_cells_must_match_the_header(place: Path, world: World) -> None:
    header = ",".join(OFFER_COLUMNS)
    cells = ",".join(OFFER_CELLS.values())
    for text, message in (
        (f"{header},sku\n{cells},b\n", "line 1: column sku is there twice"),
        (f"{header}\n{cells}\n{cells},more\n", "line 3: has more cells than the header"),
    ):
        folder = write(place / "in", "offers.csv", OFFER_COLUMNS)
        (folder / "offers.csv").write_text(text, encoding="utf-8")
        with book(place) as db, pytest.raises(BookFileError, match=message):
            import_book(db, folder, world.catalogue, NOW)


def test_a_file_that_is_a_folder_says_so(place: Path, world: World) -> None:
    folder = write(place / "in", "offers.csv", OFFER_COLUMNS)
    (folder / "rates.csv").mkdir()
    with book(place) as db, pytest.raises(BookFileError, match=r"rates\.csv: cannot be read: Is a directory"):
        import_book(db, folder, world.catalogue, NOW)


def test_two_books_may_come_in_one_moment(place: Path, world: World) -> None:
    """A first ``import book`` brings the embedded book with it."""
    with book(place) as db:
        for price in ("2.30", "2.40"):
            folder = write(place / "in", "offers.csv", OFFER_COLUMNS, OFFER_CELLS | {"sku": price, "price_per_hour": price})
            assert import_book(db, folder, world.catalogue, NOW).new_points == 2


def test_a_price_in_a_currency_without_a_rate_is_kept_and_counted(place: Path, world: World) -> None:
    folder = write(place / "in", "offers.csv", OFFER_COLUMNS, OFFER_CELLS | {"currency": "XTS"})
    with book(place) as db:
        assert import_book(db, folder, world.catalogue, NOW).rows == 1
        with reading(db) as connection:
            found = read_book(connection, NOW, {})
    assert (found.offers, dict(found.unpriced)) == ((), {"XTS": 1})
