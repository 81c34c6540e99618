"""When a price was valid and when we knew it: announced prices, corrections, and answers about the past that stay as they were."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from databases import BOTH, new_book, opened
from small_world import T0, fx, offer, rate, small_world, sweep
from sqlalchemy import Engine, func, select

from scrapers.contract import FxQuote
from tracker.answers.health import source_health
from tracker.answers.price_history import price_history
from tracker.answers.recompute import Sizer, recompute
from tracker.book.asof import BACKDATED, Moment
from tracker.book.book import Book, read_book, read_offers
from tracker.book.bookfile import Dated
from tracker.book.bookstore import export_book, import_dated
from tracker.book.exchange import load_exchange, store_rates
from tracker.book.timeline import changes
from tracker.database.handle import reading, writing
from tracker.database.rows import TICK, to_s
from tracker.guard.context import Guard
from tracker.guard.decisions import accept, entries
from tracker.guard.settings import GuardSettings
from tracker.service.clock import mend_future
from tracker.sweeps.store import SweepReport, record_sweep
from tracker.world import World

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
START = T0 + 10 * DAY  # of announced prices


@pytest.fixture(params=BOTH)
def db(request: pytest.FixtureRequest) -> Iterator[Engine]:
    yield from opened(new_book(request, request.param))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return small_world(tmp_path_factory.mktemp("small"))


def book(db: Engine, at: datetime, world: World, known: datetime | None = None) -> Book:
    with reading(db) as connection:
        return read_book(connection, at, world.config.sources, known)


def usd(db: Engine, at: datetime, world: World, known: datetime | None = None) -> dict[str, str]:
    """SKU -> USD an hour of what is listed."""
    return {f"{e.value.provider} {e.value.sku}": f"{e.value.usd_per_hour.normalize():f}" for e in book(db, at, world, known).offers}


def outputs(db: Engine, at: datetime, world: World) -> tuple[str, list[str]]:
    """The output price the answer for large-60b is worked out with, and those that are announced."""
    (found,) = (a for a in recompute(db, world, Sizer(world), at).answers if a.model.id == "large-60b")
    announced = [f"{entry.value.usd.output:f}" for entry in book(db, at, world).announced]
    return (f"{found.rate.prices.output:f}" if found.rate is not None else "", announced)


def dated(row: Any, since: datetime, seen: datetime | None = None, gone: datetime | None = None, origin: str = "price-page") -> Dated:
    return Dated(row, origin, to_s(since), to_s(seen or since), None if gone is None else to_s(gone))


# --- announced prices ---------------------------------------------------------------------------------------------------------


def test_an_announced_rate_holds_from_its_date_on_and_is_known_from_its_announcement_on(db: Engine, world: World) -> None:
    today, later = rate(input="2", output="10"), rate(input="1", output="5", valid_from=to_s(START))
    sweep(db, "tokens", T0, today)
    sweep(db, "tokens", T0 + DAY, today, later)
    sweep(db, "tokens", START + DAY, today, later)
    assert outputs(db, T0 + DAY - TICK, world) == ("10", [])
    assert outputs(db, T0 + DAY, world) == ("10", ["5"])
    assert outputs(db, START - TICK, world) == ("10", ["5"])
    assert outputs(db, START, world) == ("5", [])
    assert outputs(db, START + DAY, world) == ("5", [])


def test_an_announced_rent_holds_from_its_date_on_and_is_known_from_its_announcement_on(db: Engine, world: World) -> None:
    today, later = offer("3"), offer("2", valid_from=to_s(START))
    sweep(db, "rents", T0, today)
    sweep(db, "rents", T0 + DAY, today, later)
    assert usd(db, T0 + DAY - TICK, world) == usd(db, T0 + DAY, world) == usd(db, START - TICK, world) == {"cloud 141x1": "3"}
    assert usd(db, START, world) == {"cloud 141x1": "2"}
    answers = recompute(db, world, Sizer(world), START).answers[0]
    assert answers.setup is not None
    assert answers.setup.usd_per_hour == 2


def test_a_rate_ends_with_the_moment_it_is_valid_to(db: Engine, world: World) -> None:
    sweep(db, "tokens", T0, rate(input="2", output="10", valid_to=to_s(START)))
    assert len(book(db, START - TICK, world).rates) == 1
    assert book(db, START, world).rates == ()


def test_an_end_that_is_told_later_was_not_known_before(db: Engine, world: World) -> None:
    sweep(db, "tokens", T0, rate(input="2", output="10"))
    sweep(db, "tokens", T0 + 2 * HOUR, rate(input="2", output="10", valid_to=to_s(T0 + HOUR)))
    assert len(book(db, T0 + HOUR + TICK, world).rates) == 1
    assert book(db, T0 + 2 * HOUR, world).rates == ()


# --- corrections --------------------------------------------------------------------------------------------------------------


def test_an_import_about_the_past_changes_no_answer_of_before_it(db: Engine, world: World) -> None:
    """Known at T0: $3. A month later a recording says that another provider asked $1 all along."""
    sweep(db, "rents", T0, offer("3"))
    sweep(db, "rents", T0 + 30 * DAY, offer("3"))
    asked = [T0, T0 + DAY, T0 + 30 * DAY]
    before = [(usd(db, at, world), recompute(db, world, Sizer(world), at).answers) for at in asked]
    learnt = T0 + 30 * DAY + HOUR
    assert import_dated(db, [dated(offer("1", provider="old"), T0 - DAY, T0 + 29 * DAY)], learnt).new_points == 2
    assert [(usd(db, at, world), recompute(db, world, Sizer(world), at).answers) for at in asked] == before
    assert usd(db, learnt - TICK, world) == {"cloud 141x1": "3"}
    assert usd(db, learnt, world) == {"cloud 141x1": "3", "old 141x1": "1"}
    assert usd(db, T0 + DAY, world, known=learnt) == {"cloud 141x1": "3", "old 141x1": "1"}  # with hindsight


def test_a_second_recording_that_says_otherwise_leaves_what_the_first_said(db: Engine, world: World) -> None:
    """Imported at T0: $4 from day -20 on. Imported a day later: it was $5 on day -10."""
    sweep(db, "rents", T0, status="failed", error="no answer")
    import_dated(db, [dated(offer("4", provider="old"), T0 - 20 * DAY, T0 - 2 * HOUR)], T0)
    assert usd(db, T0 + HOUR, world) == {"old 141x1": "4"}
    import_dated(db, [dated(offer("5", provider="old"), T0 - 10 * DAY, T0 - HOUR)], T0 + DAY)
    assert usd(db, T0 + HOUR, world) == {"old 141x1": "4"}
    assert usd(db, T0 + DAY, world) == {"old 141x1": "5"}
    assert usd(db, T0 - 5 * DAY, world, known=T0 + HOUR) == {"old 141x1": "4"}
    assert usd(db, T0 - 5 * DAY, world, known=T0 + DAY) == {"old 141x1": "5"}


def test_importing_again_does_not_make_it_known_later(db: Engine, world: World) -> None:
    sweep(db, "rents", T0, status="failed", error="no answer")
    recording = [dated(offer("4", provider="old"), T0 - 20 * DAY, T0 - DAY)]
    import_dated(db, recording, T0)
    assert import_dated(db, recording, T0 + DAY).new_points == 0
    assert usd(db, T0, world) == {"old 141x1": "4"}


def test_before_the_book_began_recordings_are_all_there_is(db: Engine, world: World) -> None:
    sweep(db, "rents", T0, offer("3"))
    import_dated(db, [dated(offer("4", provider="old"), T0 - 20 * DAY, T0 - DAY)], T0 + DAY)
    found = book(db, T0 - 2 * DAY, world)
    assert [e.value.usd_per_hour for e in found.offers] == [4]
    assert (found.at, found.known) == (T0 - 2 * DAY, T0 + DAY)
    assert book(db, T0, world).known == T0


def test_a_new_wording_is_not_put_into_the_past(db: Engine, world: World) -> None:
    """A price that was an indication until noon was no offer to rank before."""
    sweep(db, "rents", T0, offer("2", price_kind="indicative"), offer("3", sku="other"))
    sweep(db, "rents", T0 + HOUR, offer("2"), offer("3", sku="other"))
    sweep(db, "rents", T0 + 2 * HOUR, offer("2", is_slice=True), offer("3", sku="other"))

    def winner(at: datetime) -> tuple[str, str, bool]:
        (mine,) = (e for e in book(db, at, world).offers if e.value.sku == "141x1")
        setup = recompute(db, world, Sizer(world), at).answers[0].setup
        assert setup is not None
        return (setup.offer.sku, mine.value.price_kind, mine.is_slice)

    assert winner(T0 + HOUR - TICK) == ("other", "indicative", False)
    assert winner(T0 + HOUR) == winner(T0 + 2 * HOUR - TICK) == ("141x1", "list", False)
    assert winner(T0 + 2 * HOUR) == ("other", "list", True)


def test_an_accepted_price_was_not_listed_before_it_was_accepted(db: Engine, world: World) -> None:
    guarded(db, world, T0, offer("3"))
    guarded(db, world, T0 + HOUR, offer("0.03"))
    with writing(db) as connection:
        (held,) = entries(connection)
        accept(connection, held["id"], "tester", T0 + 2 * HOUR)
    with reading(db) as connection:
        assert [e["state"] for e in entries(connection, at=T0 + 2 * HOUR - TICK)] == ["pending"]
        assert entries(connection, at=T0 + 2 * HOUR) == entries(connection, at=T0 + HOUR - TICK) == []
        counts = [source_health(connection, world.config.sources, at) for at in (T0, T0 + HOUR, T0 + 2 * HOUR)]
    assert [next(s.quarantined for s in health if s.id == "rents") for health in counts] == [0, 1, 0]
    assert usd(db, T0 + 2 * HOUR - TICK, world) == {"cloud 141x1": "3"}
    assert usd(db, T0 + 2 * HOUR, world) == {"cloud 141x1": "0.03"}


def guarded(db: Engine, world: World, at: datetime, *rows: Any) -> None:
    report = SweepReport(source="rents", started_at=at, finished_at=at, status="ok", rows=len(rows), offers=rows)
    with reading(db) as connection:
        exchange = load_exchange(connection)
    record_sweep(db, report, Guard(settings=GuardSettings(), sources=world.config.sources, exchange=exchange))


# --- everything at once -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_no_answer_is_ever_rewritten(db: Engine, world: World, seed: int) -> None:
    """Whatever is swept, missed, reworded, imported and learnt of exchange rates: every past moment answers as it did then."""
    dice = random.Random(seed)
    told: dict[datetime, Book] = {}
    now = T0
    sweep(db, "ecb", now, fx=fx((now - 3 * DAY).date(), USD="1.25", CNY="8.75"))
    for _ in range(25):
        now += timedelta(minutes=dice.choice((1, 20, 90, 1500)))
        happen(db, dice, now)
        told[now] = book(db, now, world)
    assert {at: book(db, at, world) for at in told} == told
    with reading(db) as connection:
        assert {at: read_book(connection, at, world.config.sources, known=at) for at in told} == told


def happen(db: Engine, dice: random.Random, now: datetime) -> None:
    """Something that changes the book."""
    what = dice.choice(("rents", "rents", "tokens", "tokens", "failed", "recording", "euro"))
    if what == "rents":
        kinds = dice.choice(("list", "ask", "starting_at"))
        sold = (("a", "USD"), ("b", "EUR"), ("c", "CNY"))
        rows = [offer(f"{dice.randint(1, 9)}", sku=sku, price_kind=kinds, currency=currency) for sku, currency in sold]
        sweep(db, "rents", now, *(row for row in rows if dice.random() < 0.7))
    elif what == "tokens":
        start = None if dice.random() < 0.5 else to_s(now + timedelta(days=dice.randint(-2, 2)))
        sweep(db, "tokens", now, rate(input="1", output=f"{dice.randint(2, 9)}", valid_from=start), rate("small-8b", input="1", output="2"))
    elif what == "failed":
        sweep(db, dice.choice(("rents", "tokens")), now, status="failed", error="no answer")
    elif what == "recording":
        since = now - timedelta(days=dice.randint(0, 30), minutes=dice.randint(1, 900))
        row = offer(f"{dice.randint(1, 9)}", sku=dice.choice("xy"), provider="old", currency=dice.choice(("USD", "EUR")))
        import_dated(db, [dated(row, since, dice.choice((None, now - timedelta(minutes=1))))], now)
    else:
        day = (now - timedelta(days=dice.randint(0, 6))).date()
        sweep(db, "ecb", now, fx=fx(day, USD=f"1.{dice.randint(10, 30)}", CNY=f"8.{dice.randint(10, 90)}"))


def test_the_whole_book_and_a_part_of_it_agree(db: Engine, world: World) -> None:
    dice = random.Random(7)
    sweep(db, "ecb", T0, fx=fx((T0 - 3 * DAY).date(), USD="1.25", CNY="8.75"))
    for number in range(30):
        happen(db, dice, T0 + number * HOUR)
    import_dated(db, [dated(offer("1", sku="d"), T0 - DAY), dated(offer("1", sku="a", provider="old"), T0 - DAY)], T0 + DAY)
    for hours in (1, 10, 24, 29):
        moment = Moment(at=T0 + hours * HOUR, known=T0 + 2 * DAY)
        with reading(db) as connection:
            whole, exchange = read_book(connection, moment.at, world.config.sources, moment.known), load_exchange(connection, moment)
            for sku in "abcdxy":
                part = read_offers(connection, moment, world.config.sources, exchange, {"sku": (sku,)})
                assert part == [entry for entry in whole.offers if entry.value.sku == sku]


# --- siblings -----------------------------------------------------------------------------------------------------------------


def test_euros_are_worth_what_was_known_then(db: Engine, world: World) -> None:
    """A rate of the 30th that was read on the 2nd of November was not known on the 1st; today's is published at 15:00 UTC."""
    with writing(db) as connection:
        store_rates(connection, fx(date(2026, 10, 29), USD="1.10"), "ecb-history")
        store_rates(connection, fx(date(2026, 11, 2), USD="1.50"), "ecb-history")
    sweep(db, "rents", T0 - DAY, offer("10", currency="EUR"))
    sweep(db, "ecb", T0, fx=[FxQuote(base="EUR", currency="USD", rate=Decimal("1.25"), day=date(2026, 10, 30))])
    assert usd(db, T0 - TICK, world) == {"cloud 141x1": "11"}
    assert usd(db, T0, world) == {"cloud 141x1": "12.5"}
    assert usd(db, T0 - TICK, world, known=T0) == {"cloud 141x1": "12.5"}
    assert usd(db, T0 + 3 * HOUR - TICK, world) == {"cloud 141x1": "12.5"}
    assert usd(db, T0 + 3 * HOUR, world) == {"cloud 141x1": "15"}


def test_a_history_looks_back_from_the_moment_it_is_asked_at(db: Engine, world: World) -> None:
    sweep(db, "rents", T0, offer("3"))
    import_dated(db, [dated(offer("4", provider="old"), T0 - 20 * DAY, T0 - 10 * DAY)], T0 + DAY)

    def prices(known: datetime) -> list[str]:
        with reading(db) as connection:
            found = price_history(connection, world, "gpu", "test-141", [T0 - 11 * DAY, T0], known)
            return [f"{row['usd_per_gpu_hour']:f}" for _, rows in found for row in rows]

    assert prices(T0) == ["3"]
    assert prices(T0 + DAY) == ["4", "3"]


def test_the_feed_tells_of_a_recording_from_its_import_on(db: Engine) -> None:
    sweep(db, "rents", T0, offer("3"))
    import_dated(db, [dated(offer("4", provider="old"), T0 - 20 * DAY, T0 - 10 * DAY)], T0 + DAY)

    def providers(until: datetime) -> list[str]:
        with reading(db) as connection:
            return [change.provider for change in changes(connection, T0 - 30 * DAY, until=until, imported=True)]

    assert (providers(T0), providers(T0 + TICK), providers(T0 + DAY)) == ([], ["cloud"], ["cloud"])
    assert providers(T0 + DAY + TICK) == ["old", "cloud"]


def test_an_export_is_of_what_was_known_then(db: Engine, tmp_path: Path) -> None:
    sweep(db, "rents", T0, offer("3"))
    export_book(db, tmp_path / "then", T0 + HOUR)
    sweep(db, "rents", T0 + 2 * HOUR, offer("2"))
    sweep(db, "tokens", T0 + 2 * HOUR, rate(input="1", output="5"))
    import_dated(db, [dated(offer("4", provider="old"), T0 - 20 * DAY, T0 - 10 * DAY)], T0 + DAY)
    assert export_book(db, tmp_path / "again", T0 + HOUR) == (1, 0)
    for name in ("offers.csv", "rates.csv"):
        assert (tmp_path / "then" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    assert export_book(db, tmp_path / "now", T0 + DAY) == export_book(db, tmp_path / "all") == (3, 1)


def test_live_prices_cost_no_row_of_their_own(db: Engine) -> None:
    """Only what is written later than the moment it is of needs a note of when we knew it."""
    sweep(db, "rents", T0, offer("3"))
    sweep(db, "rents", T0 + HOUR, offer("2"))
    with reading(db) as connection:
        assert connection.scalar(select(func.count()).select_from(BACKDATED)) == 0


def test_sweeps_of_a_clock_that_ran_ahead_bring_their_knowledge_back_with_them(db: Engine, world: World) -> None:
    ahead = T0 + 100 * DAY
    sweep(db, "rents", T0, offer("3", currency="EUR"))
    sweep(db, "ecb", ahead, fx=fx((T0 - 3 * DAY).date(), USD="1.25"))
    sweep(db, "rents", ahead, offer("3", currency="EUR", price_kind="ask"))
    with writing(db) as connection:
        assert mend_future(connection, to_s(T0 + HOUR), 1) == 2
    (entry,) = book(db, T0 + HOUR, world).offers
    assert (entry.value.usd_per_hour, entry.value.price_kind) == (Decimal("3.75"), "ask")
