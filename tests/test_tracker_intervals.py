"""From inclusive, to exclusive, UTC: at the exact instant and a second before, wherever two times are compared."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from databases import BOTH, new_book, opened
from small_world import T0, offer, rate, small_world, sweep
from sqlalchemy import Engine, text

from engine.rates import Conditions
from tracker.alerting.hours import is_quiet
from tracker.alerting.rules import Delivery
from tracker.answers.decided import decisions
from tracker.book.asof import Moment
from tracker.book.book import read_book
from tracker.book.bookfile import Dated
from tracker.book.bookstore import import_dated
from tracker.book.listing import Absence, unseen_at
from tracker.book.spans import by_day, within, without
from tracker.book.timeline import changes, offers_at, steps
from tracker.database.handle import reading
from tracker.database.rows import TICK, from_s, to_s
from tracker.finance.report import month_span
from tracker.world import World

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture(params=BOTH)
def db(request: pytest.FixtureRequest) -> Iterator[Engine]:
    yield from opened(new_book(request, request.param))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return small_world(tmp_path_factory.mktemp("small"))


def price(db: Engine, at: datetime, world: World) -> str:
    """USD an hour of the one offer; empty while it is not listed."""
    with reading(db) as connection:
        return "".join(f"{e.value.usd_per_hour.normalize():f}" for e in read_book(connection, at, world.config.sources).offers)


def moved(db: Engine) -> None:
    """$3 at T0, $2 an hour later, missed at 2 h and again, and so gone, at 3 h; back at $4 at 4 h."""
    for hours, rows in enumerate([[offer("3")], [offer("2")], [], [], [offer("4")]]):
        sweep(db, "rents", T0 + hours * HOUR, *rows)


EDGES = [(0, "", "3"), (1, "3", "2"), (2, "2", "2"), (3, "2", ""), (4, "", "4")]


@pytest.mark.parametrize(("hours", "before", "at"), EDGES)
def test_a_price_holds_from_its_sighting_until_the_next(db: Engine, world: World, hours: int, before: str, at: str) -> None:
    moved(db)
    assert price(db, T0 + hours * HOUR - TICK, world) == before
    assert price(db, T0 + hours * HOUR, world) == at
    assert price(db, T0 + hours * HOUR + TICK / 2, world) == at  # half a second later is the same stored moment


@pytest.mark.parametrize(("hours", "before", "at"), EDGES)
def test_the_view_of_the_history_has_the_same_edges(db: Engine, world: World, hours: int, before: str, at: str) -> None:
    moved(db)
    with reading(db) as connection:
        spans = [
            (_moment(row.listed_from), None if row.listed_to is None else _moment(row.listed_to), f"{Decimal(str(row.price_per_hour)):.0f}")
            for row in connection.execute(text("select listed_from, listed_to, price_per_hour from v_price_history"))
        ]

    def holds(moment: datetime) -> str:
        return "".join(usd for begun, ended, usd in spans if begun <= moment and (ended is None or moment < ended))

    assert (holds(T0 + hours * HOUR - TICK), holds(T0 + hours * HOUR)) == (before, at)


def _moment(told: datetime | str) -> datetime:
    return told if isinstance(told, datetime) else datetime.fromisoformat(told)


def test_a_stretch_in_which_a_price_is_missed_begins_with_the_miss_and_ends_with_the_sighting(db: Engine, world: World) -> None:
    sweep(db, "rents", T0, offer("3"))
    sweep(db, "rents", T0 + HOUR)
    sweep(db, "rents", T0 + 2 * HOUR, offer("3"))
    with reading(db) as connection:
        missed = {hours: bool(unseen_at(connection, to_s(T0 + timedelta(hours=hours)))) for hours in (1, 2)}
        before = {hours: bool(unseen_at(connection, to_s(T0 + timedelta(hours=hours)) - 1)) for hours in (1, 2)}
    assert (before, missed) == ({1: False, 2: True}, {1: True, 2: False})
    assert [Absence(10, 20, 5, "missed").holds(at) for at in (9, 10, 19, 20)] == [False, True, True, False]


def test_an_imported_price_ends_at_the_moment_it_was_gone(db: Engine, world: World) -> None:
    gone = T0 - DAY
    import_dated(db, [Dated(offer("3"), "price-page", to_s(gone - DAY), to_s(gone - HOUR), to_s(gone))], T0)
    moments = [gone - DAY - TICK, gone - DAY, gone - TICK, gone]
    with reading(db) as connection:
        found = [len(offers) for _, offers in offers_at(connection, world.config.sources, moments, T0, sku="141x1")]
    assert found == [0, 1, 1, 0]


def test_a_feed_holds_its_beginning_and_not_its_end(db: Engine) -> None:
    moved(db)

    def told(since: datetime, until: datetime) -> list[int]:
        with reading(db) as connection:
            return [(change.at - T0) // HOUR for change in changes(connection, since, until=until)]

    assert told(T0, T0 + HOUR) == [0]
    assert told(T0, T0 + HOUR + TICK) == [0, 1]
    assert told(T0 + HOUR, T0 + 4 * HOUR) == [1, 3]
    assert told(T0 + HOUR + TICK / 2, T0 + 4 * HOUR + TICK) == [3, 4]  # half a second after it is after it


def test_a_range_of_steps_holds_its_beginning_and_not_its_end() -> None:
    assert list(steps(T0, T0 + 2 * HOUR, HOUR)) == [T0, T0 + HOUR]
    assert list(steps(T0, T0 + 2 * HOUR + TICK, HOUR)) == [T0, T0 + HOUR, T0 + 2 * HOUR]


def test_validity_of_a_rate_at_the_instant(db: Engine, world: World) -> None:
    sweep(db, "tokens", T0 - DAY, rate(input="1", output="5", valid_from=to_s(T0), valid_to=to_s(T0 + HOUR)))

    def held(at: datetime) -> int:
        with reading(db) as connection:
            return len(read_book(connection, at, world.config.sources).rates)

    assert [held(at) for at in (T0 - TICK, T0, T0 + HOUR - TICK, T0 + HOUR)] == [0, 1, 1, 0]


@pytest.mark.parametrize(
    ("hours", "moment", "holds"),
    [
        ("06:00-10:00", "05:59:59.999999", False),
        ("06:00-10:00", "06:00:00", True),
        ("06:00-10:00", "09:59:59.999999", True),
        ("06:00-10:00", "10:00:00", False),
        ("16:30-00:30", "16:29:59.999999", False),
        ("16:30-00:30", "16:30:00", True),
        ("16:30-00:30", "00:29:59.999999", True),
        ("16:30-00:30", "00:30:00", False),
        ("22:00-24:00", "23:59:59.999999", True),
        ("22:00-24:00", "00:00:00", False),
    ],
)
def test_peak_hours_at_the_instant(hours: str, moment: str, holds: bool) -> None:
    assert Conditions(hours_utc=hours).hold(0, datetime.fromisoformat(f"2026-11-02T{moment}+00:00")) is holds


def test_peak_hours_are_utc_whatever_zone_the_moment_is_told_in() -> None:
    shanghai = datetime.fromisoformat("2026-11-02T14:00:00+08:00")  # 06:00 UTC
    assert Conditions(hours_utc="06:00-10:00").hold(0, shanghai)
    assert not Conditions(hours_utc="06:00-10:00").hold(0, shanghai - timedelta(microseconds=1))


@pytest.mark.parametrize(("moment", "quiet"), [("21:59:59.999", False), ("22:00", True), ("06:59:59.999", True), ("07:00", False)])
def test_quiet_hours_at_the_instant(moment: str, quiet: bool) -> None:
    settings = Delivery(quiet_hours="22:00-07:00")
    assert is_quiet(settings, datetime.fromisoformat(f"2026-11-02T{moment}+00:00")) is quiet


def test_a_day_of_the_rollups_is_from_midnight_to_midnight() -> None:
    midnight = to_s(datetime(2026, 11, 3, tzinfo=UTC))
    number = (date(2026, 11, 3) - date(1970, 1, 1)).days
    assert list(by_day([(midnight - 1, midnight)])) == [(number - 1, 1)]
    assert list(by_day([(midnight, midnight + 1)])) == [(number, 1)]
    assert list(by_day([(midnight - 1, midnight + 1)])) == [(number - 1, 1), (number, 1)]
    assert list(within([(10, 20)], 20, 30)) == []
    assert list(without([(10, 20)], [(15, 20)])) == [(10, 15)]


def test_a_month_of_the_report_is_from_its_first_midnight_to_the_next() -> None:
    assert month_span("2026-12") == (datetime(2026, 12, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))


def test_decisions_of_a_range_hold_its_beginning_and_not_its_end(db: Engine) -> None:
    names = ("at", "model", "workload", "policy", "sweep", "fresh", "reason")
    with db.begin() as connection:
        for at in (to_s(T0), to_s(T0 + HOUR)):
            connection.execute(
                text(f"insert into decision ({', '.join(names)}) values (:at, 'm', 'w', 'p', 1, :fresh, '')"), {"at": at, "fresh": False}
            )
    with reading(db) as connection:
        found = [entry.at for entry in decisions(connection, T0, T0 + HOUR)]
    assert found == [T0]


def test_a_moment_is_kept_to_the_second_it_lies_in() -> None:
    assert from_s(to_s(T0 + TICK / 2)) == T0
    assert Moment(at=T0, known=T0).in_hindsight is False
    assert Moment(at=T0, known=T0 + TICK).in_hindsight is True
