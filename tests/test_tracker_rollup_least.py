"""The lowest price of each day, as the database finds it and as the providers' days have it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from decimal import Decimal

import pytest
from databases import BOTH, new_book, opened
from small_world import T0, fx, offer, sweep
from sqlalchemy import Engine

from tracker.config import Source, SourceSettings
from tracker.database.handle import reading
from tracker.rollup.read import cheapest_days, gpu_days, least_days
from tracker.rollup.run import roll_up

DAY = timedelta(days=1)
FIRST = date(2026, 11, 2)
SOURCES = {
    name: Source(id=name, settings=SourceSettings(kind="rent", base_url="https://x", interval_minutes=60, max_age_hours=48))
    for name in ("rents", "others")
}


@pytest.fixture(params=BOTH)
def db(request: pytest.FixtureRequest) -> Iterator[Engine]:
    yield from opened(new_book(request, request.param))


def fill(db: Engine, second: str) -> None:
    """Dollars from one source, euros (at 1.25) from the other, over three days; its provider is told."""
    sweep(db, "ecb", T0 - DAY, fx=fx(date(2026, 10, 30), USD="1.25"))
    for number, (dollars, euros) in enumerate([("3", "2"), ("2.4", "2"), ("3", "2.6")]):
        sweep(db, "rents", T0 + number * DAY, offer(dollars))
        sweep(db, "others", T0 + number * DAY, offer(euros, provider=second, currency="EUR"))
    roll_up(db, SOURCES, T0 + 3 * DAY)


def both(db: Engine) -> tuple[list[tuple[date, Decimal]], list[tuple[date, Decimal]]]:
    with reading(db) as connection:
        asked = (connection, "test-141", 1, "on_demand", FIRST, FIRST + 3 * DAY)
        return least_days(*asked), [(found.day, found.least) for found in cheapest_days(gpu_days(*asked))]


def test_the_lowest_of_several_currencies_each_day(db: Engine) -> None:
    """EUR 2 is $2.50; $2.40 from the second noon on; on the third day it and EUR 2 hold until noon."""
    fill(db, "elsewhere")
    quick, whole = both(db)
    assert quick == whole
    assert quick == [(FIRST, Decimal("2.5")), (FIRST + DAY, Decimal("2.4")), (FIRST + 2 * DAY, Decimal("2.4"))]


def test_where_two_sources_tell_of_one_provider_one_of_them_speaks(db: Engine) -> None:
    fill(db, "cloud")
    quick, whole = both(db)
    assert quick == whole != []
