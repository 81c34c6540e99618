"""Entries of a book: rows that become offers and rates when they are looked at, each once, and the same whoever looks."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from threading import Barrier, Thread
from typing import Any

import pytest
from books import B300, EURO, MOONSHOT, SPOT, listed
from small_world import T0, fx, offer, rate, sweep
from small_world import db as db
from small_world import world as world
from sqlalchemy import Engine

from engine.offers import GpuOffer
from tracker.book.book import Book, read_book
from tracker.book.entry_values import offers_of, rates_of, usd_per_hour
from tracker.database.handle import reading
from tracker.database.rows import to_s
from tracker.world import World

HOUR = timedelta(hours=1)


def book_at(db: Engine, world: World, hours: float) -> Book:
    with reading(db) as connection:
        return read_book(connection, T0 + hours * HOUR, world.config.sources)


def test_nothing_is_built_until_it_is_looked_at(db: Engine, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep(db, "rents", T0, *(offer(f"{number}.5", sku=f"machine-{number}") for number in range(1, 6)))
    built: list[str] = []
    monkeypatch.setattr(GpuOffer, "__post_init__", lambda offer: built.append(offer.sku))
    offers = book_at(db, world, 1).offers
    assert (len(offers), built) == (5, [])
    assert offers[3].value.usd_per_hour == Decimal("4.5")
    assert [entry.value.sku for entry in offers[2:]] == ["machine-3", "machine-4", "machine-5"]
    assert offers[3] is list(offers)[3]
    assert sorted(built) == [f"machine-{number}" for number in range(1, 6)]


def test_threads_that_look_at_once_see_the_same_entries(db: Engine, world: World) -> None:
    sweep(db, "rents", T0, *(offer("2", sku=f"machine-{number}") for number in range(300)))
    offers, start, seen = book_at(db, world, 1).offers, Barrier(4), []

    def look() -> None:
        start.wait()
        seen.append([id(entry) for entry in offers])

    threads = [Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 4
    assert all(ids == seen[0] for ids in seen)


def test_an_offer_is_fresh_to_the_last_moment_of_its_limit(db: Engine, world: World) -> None:
    limit = world.config.sources["rents"].settings.max_age_hours
    sweep(db, "rents", T0, offer("2"))
    assert [entry.fresh for entry in book_at(db, world, limit).offers] == [True]
    late = T0 + limit * HOUR + timedelta(seconds=1)
    with reading(db) as connection:
        assert [entry.fresh for entry in read_book(connection, late, world.config.sources).offers] == [False]


def test_of_one_machine_in_two_currencies_the_one_that_came_later_holds(db: Engine, world: World) -> None:
    sweep(db, "ecb", T0 - 48 * HOUR, fx=fx((T0 - 72 * HOUR).date(), USD="1.25"))
    euro = offer("4", currency="EUR")
    sweep(db, "rents", T0, euro, offer("9", sku="other", currency="EUR"))
    sweep(db, "rents", T0 + HOUR, euro, offer("9", sku="other", currency="EUR"), offer("6"))
    both = {entry.value.sku: (entry.value.currency, entry.value.usd_per_hour) for entry in book_at(db, world, 2).offers}
    assert both == {"141x1": ("USD", 6), "other": ("EUR", Decimal("11.25"))}  # 9 EUR at 1.25 USD
    assert [entry.value.usd_per_hour for entry in book_at(db, world, 0.5).offers] == [5, Decimal("11.25")]


def test_what_has_no_exchange_rate_is_counted_and_left_out(db: Engine, world: World) -> None:
    sweep(db, "rents", T0, offer("2", currency="XTS"), offer("3", sku="b", currency="XTS"), offer("4", sku="c"))
    sweep(db, "tokens", T0, rate(input="1", output="2", currency="XTS"), rate(model="small-8b", input="1", output="2"))
    book = book_at(db, world, 1)
    assert [entry.value.sku for entry in book.offers] == ["c"]
    assert ([entry.value.model for entry in book.rates], dict(book.unpriced)) == (["small-8b"], {"XTS": 3})


@pytest.mark.parametrize("stated", [B300, EURO, SPOT, replace(B300, usd_per_hour=Decimal(40_529) / 730)])
def test_offers_that_are_no_rows_stay_as_they_were_given(stated: GpuOffer) -> None:
    entries = offers_of([listed(stated), listed(B300, fresh=False, origin="somebody")])
    assert [entry.value for entry in entries] == [stated, B300]
    assert [(entry.fresh, entry.imported, entry.origin) for entry in entries] == [(True, False, stated.source), (False, True, "somebody")]
    assert [usd_per_hour(row, entries.reading) for row in entries.rows] == [stated.usd_per_hour, B300.usd_per_hour]


def test_given_entries_go_ahead_of_rows_and_of_those_given_before(db: Engine, world: World) -> None:
    sweep(db, "rents", T0, offer("2"))
    rows = book_at(db, world, 1).offers
    first = offers_of([listed(SPOT)], rows)
    both = offers_of([listed(B300), listed(EURO)], first)
    assert [entry.value.sku for entry in both] == [B300.sku, EURO.sku, SPOT.sku, "141x1"]
    assert [entry.value.sku for entry in first] == [SPOT.sku, "141x1"]
    assert offers_of((), rows) is rows


def test_the_rates_in_force_are_the_same_ones_at_every_question(db: Engine, world: World) -> None:
    """What is kept of their parts from one book to the next hangs on them; one announced price is no reason to lose it."""
    start = T0 + 2 * HOUR
    sweep(db, "tokens", T0, rate(input="1", output="2"), rate(model="small-8b", input="1", output="2", valid_from=to_s(start)))
    book = book_at(db, world, 1)
    assert [entry.value.model for entry in book.rates] == ["large-60b"]
    assert book.rates is book.rates
    assert book.rates.fresh() is book.rates.fresh()
    assert [entry.value.model for entry in replace(book, at=start).rates] == ["large-60b", "small-8b"]


def test_a_rate_that_is_given_is_in_force_to_the_microsecond() -> None:
    late: Any = replace(MOONSHOT, valid_from=T0 + timedelta(microseconds=7))
    for later, held in ((6, []), (7, [late])):
        at = T0 + timedelta(microseconds=later)
        lists = rates_of([listed(late)])
        book = Book(at=at, known=at, offers=offers_of(()), price_lists=lists, exchange=lists.reading.exchange, unpriced={})
        assert [entry.value for entry in book.rates] == held
