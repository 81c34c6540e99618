"""The feed of changes with its cursor, and prices as they were at any moment."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from sqlalchemy import Engine

from tracker.book.book import read_book
from tracker.book.bookfile import Dated
from tracker.book.bookstore import import_dated
from tracker.book.timeline import Change, RangeError, changes, gpu_prices, steps
from tracker.config import Source, SourceSettings
from tracker.database.handle import migrate, open_database, reading
from tracker.database.rows import OfferRow, RateRow, scaled
from tracker.database.tables import RATE_SCALE, RENT_SCALE
from tracker.sweeps.store import SweepReport, record_sweep

T0 = datetime(2026, 11, 1, tzinfo=UTC)
SOURCES = {"runpod": Source(id="runpod", settings=SourceSettings(kind="rent", base_url="https://x", interval_minutes=15, max_age_hours=6))}
H200 = "nvidia-h200-sxm-141"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Engine]:
    """A book in which an H200 goes 3.59, 3.19, gone (after two misses), 3.00 and a rate falls from 3/15 to 2/10."""
    handle = open_database(f"sqlite:///{tmp_path / 'book.db'}")
    migrate(handle)
    for hour, prices in (
        (0, {"a": "3.59", "b": "4"}),
        (6, {"a": "3.19", "b": "4"}),
        (12, {"b": "4"}),
        (18, {"b": "4"}),
        (24, {"a": "3", "b": "4"}),
    ):
        record_sweep(handle, sweep(hour, offers=[offer(sku, price) for sku, price in prices.items()]))
    for hour, (inn, out) in ((1, ("3", "15")), (13, ("2", "10"))):
        record_sweep(handle, sweep(hour, source="genai_prices", rates=[rate(inn, out)]))
    yield handle
    handle.dispose()


def sweep(hour: int, *, source: str = "runpod", offers: list[OfferRow] | None = None, rates: list[RateRow] | None = None) -> SweepReport:
    seen = T0 + timedelta(hours=hour)
    return SweepReport(source=source, started_at=seen, finished_at=seen, status="ok", offers=offers or [], rates=rates or [])


def offer(sku: str, price: str) -> OfferRow:
    return OfferRow(
        provider="runpod", sku=sku, region="", gpu=H200, gpu_count=1, tier="on_demand", trust="datacenter", currency="USD",
        price=scaled(Decimal(price), RENT_SCALE), source_url="https://runpod.example/prices",
    )  # fmt: skip


def rate(price_in: str, price_out: str) -> RateRow:
    return RateRow(
        provider="moonshot", source_model="kimi-k3.1-pro", model="kimi-k3.1-pro", currency="USD",
        input=scaled(Decimal(price_in), RATE_SCALE), output=scaled(Decimal(price_out), RATE_SCALE),
    )  # fmt: skip


def feed(db: Engine, since: datetime = T0, **how: object) -> list[Change]:
    with reading(db) as connection:
        return changes(connection, since, **how)  # type: ignore[arg-type]


def test_the_feed_tells_what_appeared_moved_and_went_with_old_and_new(db: Engine) -> None:
    found = [
        (c.at.hour + 24 * (c.at.day - 1), c.what, c.kind, c.old.get("price", c.old.get("input")), c.new.get("price", c.new.get("input")))
        for c in feed(db)
    ]
    went = next(hour for hour, what, kind, *_ in found if kind == "gone")
    assert went in (12, 18)  # at the first miss, or at the second where misses are waited for
    assert [entry for entry in found if entry[2] != "gone"] == [
        (0, "offer", "appeared", None, Decimal("3.59")),
        (0, "offer", "appeared", None, Decimal("4")),
        (1, "rate", "appeared", None, Decimal("3")),
        (6, "offer", "changed", Decimal("3.59"), Decimal("3.19")),
        (13, "rate", "changed", Decimal("3"), Decimal("2")),
        (24, "offer", "appeared", None, Decimal("3")),
    ]


def test_percentages_are_of_what_moved_alone(db: Engine) -> None:
    moved = {c.what: dict(c.percent) for c in feed(db) if c.kind == "changed"}
    # (3.19 - 3.59) / 3.59 = -11.142 %; (2 - 3) / 3 = -33.333 %
    assert moved == {"offer": {"price": Decimal("-11.14")}, "rate": {"input": Decimal("-33.33"), "output": Decimal("-33.33")}}


@pytest.mark.parametrize("page", [1, 2, 3, 100])
def test_the_cursor_misses_nothing_and_repeats_nothing(db: Engine, page: int) -> None:
    everything = [c.event for c in feed(db)]
    read: list[str] = []
    cursor = ""
    while found := feed(db, cursor=cursor, limit=page):
        read += [c.event for c in found]
        cursor = read[-1]
    assert read == everything
    assert len(set(read)) == len(read)


def test_since_is_inclusive(db: Engine) -> None:
    assert feed(db, T0 + timedelta(hours=6))[0].new == {"price": Decimal("3.19")}
    assert feed(db, T0 + timedelta(hours=6, milliseconds=1))[0].new != {"price": Decimal("3.19")}


def test_a_cursor_of_somebody_else_is_one_clear_error(db: Engine) -> None:
    with pytest.raises(RangeError, match=r"cursor '17; drop table' is none of ours"):
        feed(db, cursor="17; drop table")


def test_the_past_knows_only_what_was_seen_by_then(db: Engine) -> None:
    moments = [T0 + timedelta(hours=hour) for hour in range(-6, 30, 6)]
    with reading(db) as connection:
        books = [read_book(connection, at, SOURCES) for at in moments]
    found = {book.at: gpu_prices(book.offers, H200).get("on_demand") for book in books}
    shown = {(at - T0) // timedelta(hours=1): None if best is None else str(best["usd_per_gpu_hour"]) for at, best in found.items()}
    assert {hour: shown[hour] for hour in (-6, 0, 6, 24)} == {-6: None, 0: "3.59", 6: "3.19", 24: "3"}
    assert shown[18] in ("4", "3.19")
    assert all(best is None or best["seen_at"] <= at for at, best in found.items())


@pytest.mark.parametrize(
    ("hours", "step", "message"),
    [(0, 1, "ends .* before it begins"), (-1, 1, "ends .* before it begins"), (1, 0, "longer than nothing")],
)
def test_ranges_that_make_no_sense_are_refused(hours: int, step: int, message: str) -> None:
    with pytest.raises(RangeError, match=message):
        list(steps(T0, T0 + timedelta(hours=hours), timedelta(hours=step)))


def test_a_range_of_too_many_steps_is_refused_before_it_begins() -> None:
    with pytest.raises(RangeError, match="more than 10,000 steps"):
        next(steps(T0, T0 + timedelta(days=365), timedelta(minutes=1)))


def test_a_range_holds_its_start_and_not_its_end() -> None:
    assert [at.hour for at in steps(T0, T0 + timedelta(hours=3), timedelta(hours=1))] == [0, 1, 2]


def test_a_confirmation_of_an_imported_price_is_no_change(tmp_path: Path) -> None:
    handle = open_database(f"sqlite:///{tmp_path / 'imported.db'}")
    migrate(handle)
    first = int(T0.timestamp())
    dated = [
        Dated(offer("a", "3.59"), "price-page", first, first + 86_400, None),
        Dated(offer("a", "3.19"), "price-page", first + 2 * 86_400, first + 3 * 86_400, None),
    ]
    assert import_dated(handle, dated, T0).new_points == 4
    found = feed(handle, imported=True)
    assert [(c.kind, c.new["price"]) for c in found] == [("appeared", Decimal("3.59")), ("changed", Decimal("3.19"))]
    assert feed(handle) == []
    handle.dispose()
