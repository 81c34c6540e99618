"""The answers of a process that follows its books are those of one that sees each of them for the first time."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from small_world import T0, offer, rate, small_world, sweep
from watching import SECOND, TRACK_ONE

from tracker.answers.ageing import aged, latest
from tracker.answers.recompute import Sizer, recompute
from tracker.answers.snapshot import ModelAnswer, Snapshot
from tracker.book.remembered import Remembered
from tracker.book.running import RunningBook
from tracker.database.handle import migrate, open_database
from tracker.database.rows import OfferRow

TRACK = TRACK_ONE.replace("[fetch]", '[[track.also]]\nname = "theirs"\nproviders = ["others"]\ntiers = ["on_demand", "spot"]\n\n[fetch]')


@pytest.mark.parametrize("seed", range(6))
def test_what_is_followed_answers_as_what_is_new(tmp_path: Path, seed: int) -> None:
    dice, own = random.Random(f"followed {seed}"), Remembered()
    world = small_world(tmp_path / "small", tracker_toml=TRACK, sources_toml=SECOND)
    db = open_database(f"sqlite:///{tmp_path / 'book.db'}")
    migrate(db)
    running, sizer, listed, now = RunningBook(world.config.sources, own), Sizer(world), [_drawn(dice, n) for n in range(40)], T0
    for _ in range(30):
        now += timedelta(minutes=dice.choice((1, 15, 15, 120, 300)))
        for place in dice.sample(range(40), dice.choice((0, 1, 2, 6))):
            listed[place] = _drawn(dice, place)
        source = dice.choice(("rents", "others", "tokens"))
        rows: list[Any] = [row for row in listed if row.provider == {"rents": "cloud"}.get(source, source) and dice.random() < 0.9]
        rows += [rate(output=str(dice.randrange(2, 12)))] if source == "tokens" else []
        if rows:
            sweep(db, source, now, *rows, remembered=dice.choice((own, own, None)))
        _, found = latest(db, world, sizer, now, running.read)
        assert told(found) == told(recompute(db, world, Sizer(world), found.at))
        if dice.random() < 0.3:  # as when the database does not answer: the book grows old meanwhile
            later = now + timedelta(hours=dice.choice((1, 5, 30)))
            assert told(aged(found, world, sizer, later)) == told(aged(found, world, Sizer(world), later))


def told(snapshot: Snapshot) -> list[Any]:
    """All that the answers say, with what is only worked out when it is asked for."""
    return [*map(_answer, snapshot.every), snapshot.disagreements]


def _answer(found: ModelAnswer) -> tuple[Any, ...]:
    rankings = [(of.best, of.per_gpu(), of.buyable, of.indicative, of.rejected) for of in (found.fresh, found.shown)]
    return (
        found.model.id,
        found.policy,
        rankings,
        found.setup,
        found.setup_fresh,
        found.rates,
        found.rate_fresh,
        found.verdict,
        found.why_not,
    )


def _drawn(dice: random.Random, number: int) -> OfferRow:
    count = dice.choice((1, 1, 2, 3))
    return offer(
        f"{count * dice.randrange(200, 206) / 100}", sku=str(number % 9), region=str(number), gpu=dice.choice(("test-80", "test-141")),
        gpu_count=count, provider=("cloud", "others")[number % 2], tier=dice.choice(("on_demand", "on_demand", "spot")),
        availability=dice.choice((0, 1, 2, 3)), trust=dice.choice(("datacenter", "verified", "community")),
        price_kind=dice.choice(("list", "ask", "starting_at")),
    )  # fmt: skip
