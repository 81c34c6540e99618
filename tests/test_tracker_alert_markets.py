"""What alerts keep of a market from one look to the next is what they see when they look at all of it."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from small_world import T0, offer, small_world, sweep
from sqlalchemy import Engine, select
from watching import CHEAPER, SECOND, TRACK_ONE, Watch

from engine.offers import GpuOffer
from tracker.alerting import state
from tracker.alerting.markets import gpu_prices
from tracker.alerting.rules import PriceDrop, PriceRise
from tracker.answers.ageing import latest
from tracker.answers.recompute import Sizer, recompute
from tracker.answers.snapshot import Snapshot
from tracker.book.book import Book
from tracker.book.entries import Listed
from tracker.book.entry_values import NO_OFFERS, NO_RATES, offers_of
from tracker.book.exchange import Exchange
from tracker.book.remembered import Remembered
from tracker.book.running import RunningBook
from tracker.database.handle import migrate, open_database, reading
from tracker.database.rows import OfferRow

PRICED = 'gpus = ["test-80", "test-141"]\npercent = 4\nsweeps = 1\n'
RULES = f"""{CHEAPER}
[rules.gone]
kind = "setup_gone"
sweeps = 1

[rules.drop]
kind = "price_drop"
{PRICED}
[rules.rise]
kind = "price_rise"
{PRICED}tiers = ["on_demand", "spot"]
providers = ["others", "nobody"]

[rules.some]
kind = "price_drop"
{PRICED}skus = ["1", "2", "3", "4", "5", "6"]
trusts = ["community", "datacenter"]
"""


@pytest.mark.parametrize("seed", range(3))
def test_what_is_kept_tells_what_a_first_look_tells(tmp_path: Path, seed: int) -> None:
    """Two books get the same sweeps. One is followed by a process, the other read whole by a new one at each look."""
    dice, own = random.Random(seed), Remembered()
    world = small_world(tmp_path / "small", tracker_toml=TRACK_ONE, sources_toml=SECOND, alerts_toml=RULES)
    kept, anew = (Watch(_empty(tmp_path / name), world) for name in ("kept.db", "anew.db"))
    running, listed, now = RunningBook(world.config.sources, own), [_drawn(dice, number) for number in range(40)], T0
    told = []
    for _ in range(40):
        now += timedelta(minutes=dice.choice((1, 15, 15, 15, 120, 300)))
        for place in dice.sample(range(40), dice.choice((0, 1, 2, 6))):
            listed[place] = _drawn(dice, place)
        source = dice.choice(("rents", "rents", "others", "nobody asks"))
        rows = [row for row in listed if row.provider == {"rents": "cloud"}.get(source, source) and dice.random() < 0.95]
        if rows:
            sweep(kept.db, source, now, *rows, remembered=own)
            sweep(anew.db, source, now, *rows)
        _, found = latest(kept.db, world, kept.sizer, now, running.read)
        whole = recompute(anew.db, world, Sizer(world), found.at)
        for rule in world.alerts.rules.values():
            if isinstance(rule, PriceDrop | PriceRise):
                assert [(key, price, facts["sku"]) for key, price, facts in gpu_prices(rule, found)] == _lowest(rule, whole)
        told += kept.desk.judge(found)
        state._read.cache_clear()
        anew.desk = anew.new_desk()
        anew.desk.judge(whole)
        assert _states(kept.db) == _states(anew.db)
    assert len({alarm.kind for alarm in told}) > 2
    assert [(row["key"], row["body"]) for row in kept.told()] == [(row["key"], row["body"]) for row in anew.told()]


@pytest.mark.parametrize("sources", list(permutations(("gpuhunt", "override", "vendor"))))
def test_of_offers_that_differ_in_source_alone_the_first_by_name_is_told(sources: tuple[str, ...]) -> None:
    """A message names its source: it is the same one in whichever order the book has them."""
    one = GpuOffer(
        provider="cloud", source="", sku="a", region="", gpu="test-80", gpu_count=2, tier="on_demand", currency="USD",
        native_per_hour=Decimal(3), usd_per_hour=Decimal(3), valid_from=T0, seen_at=T0,
    )  # fmt: skip
    market = offers_of(Listed(replace(one, source=source), source, True, False) for source in sources)
    rule = PriceDrop(gpus=("test-80",), percent=Decimal(4))
    ((subject, price, facts),) = gpu_prices(rule, Snapshot(at=T0, book=_book(), answers=(), sources=(), market=market))
    assert (subject, price, facts["source"]) == ("test-80/on_demand", Decimal("1.5"), "gpuhunt")


def _book() -> Book:
    return Book(at=T0, known=T0, offers=NO_OFFERS, price_lists=NO_RATES, exchange=Exchange(days={}, rates={}), unpriced={})


def _empty(path: Path) -> Engine:
    db = open_database(f"sqlite:///{path}")
    migrate(db)
    return db


def _drawn(dice: random.Random, number: int) -> OfferRow:
    count = dice.choice((1, 1, 2, 3))
    return offer(
        f"{count * dice.randrange(200, 300) / 100}", sku=str(number), gpu=dice.choice(("test-80", "test-141")), gpu_count=count,
        provider=("cloud", "others")[number % 2], tier=dice.choice(("on_demand", "on_demand", "spot")),
        availability=dice.choice((0, 1, 2, 3)), trust=dice.choice(("datacenter", "verified", "community")),
        price_kind=dice.choice(("list", "ask", "starting_at")),
    )  # fmt: skip


def _lowest(rule: Any, snapshot: Snapshot) -> list[tuple[str, Any, str]]:
    """The lowest price of each GPU and tier, out of the offers as values."""
    best: dict[str, GpuOffer] = {}
    for entry in snapshot.market:
        one, subject = entry.value, f"{entry.value.gpu}/{entry.value.tier}"
        stated = (
            (rule.gpus, one.gpu),
            (rule.providers, one.provider),
            (rule.skus, one.sku),
            (rule.tiers, one.tier),
            (rule.trusts, one.trust),
        )
        had = entry.fresh and one.availability != "unavailable" and one.price_kind != "starting_at"
        if had and all(not wanted or has in wanted for wanted, has in stated):
            best[subject] = min(best.get(subject, one), one, key=lambda of: (of.usd_per_gpu_hour, of.provider, of.sku))
    return [(subject, one.usd_per_gpu_hour, one.sku) for subject, one in sorted(best.items())]


def _states(db: Engine) -> list[Any]:
    with reading(db) as connection:
        return [tuple(row) for row in connection.execute(select(state.STATE).order_by(state.STATE.c.rule, state.STATE.c.subject))]
