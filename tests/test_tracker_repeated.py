"""A sweep that says what the last one said reads no prices and costs one row; anything that waits or is missing is still judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from guarded import Watched, offer, rate
from guarded import db as db
from guarded import watched as watched
from sqlalchemy import Engine, event

from tracker.database.rows import OfferRow, identities, identity
from tracker.database.tables import Offer, OfferPoint, Rate, RatePoint, Sweep


@contextmanager
def statements(db: Engine) -> Iterator[list[str]]:
    """What is asked of the database meanwhile."""
    told: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        told.append(statement)

    event.listen(db, "before_cursor_execute", note)
    yield told
    event.remove(db, "before_cursor_execute", note)


def test_a_list_that_does_not_change_is_not_read_again(watched: Watched) -> None:
    watched.sweep(0, offer(3), offer(4, sku="other"))
    with statements(watched.db) as told:
        assert watched.sweep(15, offer(3), offer(4, sku="other")) == 0
    assert not [statement for statement in told if "offer_point" in statement]
    assert watched.prices() == {"H200": "3", "other": "4"}
    assert watched.seen() == 15


@pytest.mark.parametrize(
    "rows",
    [
        (offer(3),),
        (offer(3), offer(5, sku="other")),
        (offer(3), offer(4, sku="other", price_kind="ask")),
        (offer(3), offer(4, sku="other", availability=0)),
        (offer(3), offer(4, sku="another")),
    ],
)
def test_whatever_differs_is_seen(watched: Watched, rows: tuple[OfferRow, ...]) -> None:
    for minutes in (0, 15, 30):
        watched.sweep(minutes, offer(3), offer(4, sku="other"))
    for minutes in (45, 60, 75):
        watched.sweep(minutes, *rows)
    listed = {entry.value.sku: (entry.value.usd_per_hour, entry.value.price_kind) for entry in watched.book().offers}
    assert listed == {row.sku: (row.native_per_hour, row.price_kind) for row in rows}


def test_what_waits_for_a_second_sighting_gets_it(watched: Watched) -> None:
    for minutes in (0, 15, 30):
        watched.sweep(minutes, offer(3))
    watched.sweep(45, offer("0.5"))
    assert watched.prices() == {"H200": "3"}
    watched.sweep(60, offer("0.5"))
    assert watched.prices() == {"H200": "0.5"}


def test_what_is_missing_is_missed_again(watched: Watched) -> None:
    for minutes in (0, 15, 30):
        watched.sweep(minutes, offer(3), offer(4, sku="other"))
    watched.sweep(45, offer(3))
    assert set(watched.prices()) == {"H200", "other"}
    watched.sweep(60, offer(3))
    assert set(watched.prices()) == {"H200"}


def test_rates_are_known_again_too(watched: Watched) -> None:
    for minutes in (0, 15, 30, 45):
        watched.sweep(minutes, rate("3", "15"), source="openrouter")
    assert watched.tokens() == ("3", None, "15")
    watched.sweep(60, rate("3", "14"), source="openrouter")
    assert watched.tokens() == ("3", None, "14")


@pytest.mark.parametrize("sku", ["a", '],["b', '"],["', "],[", "é\ud800", "", "\\", "\n"])
def test_many_identities_are_those_of_each(sku: str) -> None:
    rows = [offer(3, sku=sku), offer(3, sku="plain"), offer(3, sku=sku * 3, region=sku)]
    assert identities("source", rows) == [identity("source", row) for row in rows]
    assert identities("source", []) == []


def test_no_table_class_is_instantiated_on_the_way_in_or_out(watched: Watched) -> None:
    """One such object costs more than a hundred rows."""
    built: list[str] = []
    note: Callable[..., None] = lambda target, *_: built.append(type(target).__name__)  # noqa: E731
    tables = (Offer, OfferPoint, Rate, RatePoint, Sweep)
    for table in tables:
        event.listen(table, "init", note)
    Sweep(source="proof that it would be seen")
    watched.sweep(0, offer(3), rate("3", "15"))
    watched.sweep(15, offer(4))
    assert watched.book().offers
    for table in tables:
        event.remove(table, "init", note)
    assert built == ["Sweep"]
