"""What is counted on of the sweeps of sources is what is counted of all of them, whatever happened in between."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from databases import BOTH, new_book, opened
from guarded import SOURCES, T0, offer
from small_world import sweep
from sqlalchemy import Engine, select

from tracker.answers import tallies
from tracker.answers.health import source_health
from tracker.answers.tallies import Tallies
from tracker.book.bookfile import Dated
from tracker.book.bookstore import import_dated
from tracker.book.listing import SWEEP
from tracker.database.handle import reading, writing
from tracker.database.rows import to_s
from tracker.maintenance.retention import take_away
from tracker.service.clock import mend_future

HOUR = timedelta(hours=1)
NAMES = ("runpod", "lambda", "nebius")


@pytest.fixture(params=BOTH)
def db(request: pytest.FixtureRequest) -> Iterator[Engine]:
    yield from opened(new_book(request, request.param, "book"))


@pytest.mark.parametrize("seed", range(4))
def test_what_is_counted_on_is_what_is_counted_whole(db: Engine, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sweeps, failures, a clock that was ahead, imports, what grew too old, and looks at moments of before."""
    dice, now, kept, looks = random.Random(seed), T0, [Tallies(), Tallies()], 0
    whole: list[int] = []
    counting = tallies._counting
    monkeypatch.setattr(tallies, "_counting", lambda sources: whole.append(sources) or counting(sources))
    for _ in range(150):
        now += timedelta(minutes=dice.randrange(1, 40))
        what = dice.choices(("sweep", "ahead", "import", "take away", "nothing"), (80, 3, 3, 4, 10))[0]
        if what == "sweep":
            _swept(db, dice, now)
        elif what == "ahead":
            with reading(db) as connection:
                last = max(connection.scalars(select(SWEEP.c.id)).all(), default=0)
            for _ in range(dice.randrange(1, 4)):
                _swept(db, dice, now + dice.randrange(1, 9) * HOUR)
            _look(db, dice.choice(kept), to_s(now + 9 * HOUR))
            with writing(db) as connection:
                mend_future(connection, to_s(now), last)
        elif what == "import":
            import_dated(db, [Dated(offer(3, sku=f"i{dice.randrange(9)}"), "page", to_s(now) - 90_000, to_s(now) - 80_000, None)], now)
        elif what == "take away":
            take_away(db, None, to_s(now - dice.choice((1, 5, 15, 25)) * HOUR), dry_run=dice.random() < 0.2)
        for own in kept:
            if dice.random() < 0.6:
                looks += 1
                _look(db, own, to_s(now - dice.choice((0,) * 9 + (5,)) * HOUR))
    assert sum(whole) < looks * 4 * 0.7  # or nothing was counted on; the source that was never swept is looked for each time


def _swept(db: Engine, dice: random.Random, at: Any) -> None:
    source = dice.choices(NAMES, (6, 3, 1))[0]
    if dice.random() < 0.25:
        sweep(db, source, at, status="failed", error=f"no answer {dice.random()}", rows=0)
    else:
        rows = [offer(dice.randrange(2, 5), sku=f"s{number}", provider=source) for number in range(2)]
        sweep(db, source, at, *rows, complete=dice.random() < 0.9, skipped={"odd": dice.randrange(9)})


def _look(db: Engine, kept: Tallies, at: int) -> None:
    with reading(db) as connection:
        found = kept.of(connection, (*NAMES, "never asked"), at)
        rows = [dict(row) for row in connection.execute(select(SWEEP).where(SWEEP.c.at <= at).order_by(SWEEP.c.at)).mappings()]
    for name in NAMES:
        mine = [row for row in rows if row["source"] == name]
        good = [row for row in mine if row["status"] != "failed"]
        told = found.get(name, tallies.Tally())
        assert (told.sweeps, told.failures) == (len(mine), len(mine) - len(good))
        for one, those in ((told.last, mine), (told.good, good)):
            assert (None if one is None else one._asdict()) == ({f: those[-1][f] for f in tallies.Swept._fields} if those else None)
    assert found.keys() <= set(NAMES)


@pytest.fixture
def counted(db: Engine) -> Tallies:
    """Ten sweeps of each of two sources, an hour apart, and what was counted of them."""
    kept = Tallies()
    for hours in range(10):
        for name in ("runpod", "lambda"):
            sweep(db, name, T0 + hours * HOUR, offer(2, provider=name))
    _look(db, kept, LATER)
    return kept


LATER = to_s(T0 + 90 * HOUR)
_ninth = (SWEEP.c.source == "runpod", SWEEP.c.at == to_s(T0 + 9 * HOUR))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda told: SWEEP.insert().values(**told | {"at": told["at"] - 7}), id="a sweep of before the last is put in"),
        pytest.param(lambda told: SWEEP.update().where(*_ninth).values(status="failed"), id="the last is another one"),
        pytest.param(lambda told: SWEEP.update().where(*_ninth).values(at=told["at"] - 7), id="the last is of another moment"),
        pytest.param(lambda told: SWEEP.delete().where(*_ninth), id="the last is gone"),
    ],
)
def test_a_source_whose_sweeps_are_others_is_counted_anew(db: Engine, counted: Tallies, change: Callable[[Any], Any]) -> None:
    with writing(db) as connection:
        told = dict(connection.execute(select(SWEEP).where(*_ninth)).mappings().one())
        del told["id"]
        connection.execute(change(told))
    _look(db, counted, LATER)


def test_what_retention_takes_is_not_counted_whichever_it_is(db: Engine) -> None:
    """It leaves the first, the last two that are whole, the last good and the last one; the first failed one goes."""
    kept = Tallies()
    for hours, how in enumerate(("whole", "whole", "whole", "part", "failed", "failed", "whole", "whole", "whole")):
        status = "failed" if how == "failed" else "ok"
        sweep(db, "runpod", T0 + hours * HOUR, *[offer(2)] * (status == "ok"), complete=how == "whole", status=status)
    _look(db, kept, LATER)
    assert take_away(db, None, to_s(T0 + 5.5 * HOUR))["sweep"] == 1
    _look(db, kept, LATER)


def test_health_counts_on(db: Engine) -> None:
    """The same health with what was counted before as without."""
    kept = Tallies()
    for hours in range(9):
        sweep(db, "runpod", T0 + hours * HOUR, offer(2), status="ok" if hours % 3 else "failed")
        with reading(db) as connection:
            at = T0 + hours * HOUR
            assert source_health(connection, SOURCES, at, kept) == source_health(connection, SOURCES, at)
