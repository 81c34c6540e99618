"""``overrides.toml``: stated prices stand before every source from day to day, and go when their time is over."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from homes import run
from small_world import T0, fx, offer, rate, small_world, sweep
from sqlalchemy import Engine

from engine.rates import TokenPrices
from tracker.answers.ageing import aged
from tracker.answers.recompute import Sizer, recompute
from tracker.book.book import Book, read_book
from tracker.book.stated import STATED, with_overrides
from tracker.database.handle import reading
from tracker.paths import config_dir
from tracker.world import World, load_world

D = Decimal
LIST = rate(input="2", cache_read="0.2", output="10")
EIGHT = offer("16.00", sku="141x8", gpu_count=8)
RATES = """
[ours]
provider = "vendor"
model = "large-60b"
prices = { input = 0.50, cache_read = 0.05, output = 1.50 }
from = 2026-11-01
to = 2026-11-05
source = "contract"
checked = 2026-11-29

[night]
provider = "vendor"
sku = "batch"
of = "standard"
factor = 0.6
from = 2026-11-02
source = "price page"
checked = 2026-11-29
"""
NIGHT = "[night]" + RATES.partition("[night]")[2]
NODE = """
[node]
provider = "cloud"
gpu = "test-141"
gpu_count = 8
price = 5_840
per = "node_month"
currency = "EUR"
from = 2026-11-01
to = 2026-11-03
source = "contract"
checked = 2026-11-29
"""


def book_at(db: Engine, world: World, at: datetime) -> Book:
    with reading(db) as connection:
        return with_overrides(read_book(connection, at, world.config.sources), world.overrides, world.settings.track.rate_sources)


def standard(db: Engine, world: World, at: datetime, sku: str = "standard") -> dict[str, TokenPrices]:
    """USD prices in force by source."""
    return {entry.value.source: entry.value.usd for entry in book_at(db, world, at).rates if entry.value.sku == sku}


@pytest.fixture
def listed(db: Engine) -> Engine:
    """One source lists the model at 2.00 / 0.20 / 10.00, seen at T0, the 2nd of November at noon."""
    sweep(db, "tokens", T0, LIST)
    return db


def test_stated_rates_replace_listed_ones_from_day_to_day(listed: Engine, tmp_path: Path) -> None:
    world = small_world(tmp_path, overrides_toml=RATES)
    ours = TokenPrices(input=D("0.50"), cache_read=D("0.05"), output=D("1.50"))
    assert standard(listed, world, T0) == {STATED: ours}
    assert standard(listed, world, datetime(2026, 11, 4, 23, 59, 59, 999000, tzinfo=UTC)) == {STATED: ours}
    assert standard(listed, world, datetime(2026, 11, 5, tzinfo=UTC)) == {
        "tokens": TokenPrices(input=D(2), cache_read=D("0.2"), output=D(10))
    }


def test_before_its_day_a_stated_rate_is_announced(listed: Engine, tmp_path: Path) -> None:
    world = small_world(tmp_path, overrides_toml=RATES.replace("from = 2026-11-01", "from = 2026-11-03"))
    assert set(standard(listed, world, T0)) == {"tokens"}
    announced = {entry.value.source: entry.value.valid_from for entry in book_at(listed, world, T0).announced}
    assert announced == {STATED: datetime(2026, 11, 3, tzinfo=UTC)}


def test_a_discount_is_of_the_price_in_force(listed: Engine, tmp_path: Path) -> None:
    """60 % of 2.00 / 0.20 / 10.00; what nobody lists stays unknown."""
    world = small_world(tmp_path, overrides_toml=NIGHT)
    assert standard(listed, world, T0, "batch") == {STATED: TokenPrices(input=D("1.20"), cache_read=D("0.12"), output=D("6.00"))}
    assert standard(listed, world, datetime(2026, 11, 1, 12, tzinfo=UTC), "batch") == {}


def test_a_discount_is_of_the_believed_source_and_replaces_a_listed_batch_price(listed: Engine, tmp_path: Path) -> None:
    more = [rate(input="3", cache_read="0.3", output="15"), rate(input="9", cache_read="0.9", output="45", sku="batch")]
    sweep(listed, "rents", T0, *more)
    tracker = '[track]\nmodels = ["large-60b"]\nworkload = "turns"\nrate_sources = ["rents", "tokens"]\n[fetch]\nuser_agent = "t"\n'
    world = small_world(tmp_path, overrides_toml=NIGHT, tracker_toml=tracker)
    assert standard(listed, world, T0, "batch") == {STATED: TokenPrices(input=D("1.80"), cache_read=D("0.18"), output=D("9.00"))}


def test_a_discount_is_of_the_stated_price_where_there_is_one(listed: Engine, tmp_path: Path) -> None:
    world = small_world(tmp_path, overrides_toml=RATES)
    assert standard(listed, world, T0, "batch") == {STATED: TokenPrices(input=D("0.30"), cache_read=D("0.03"), output=D("0.90"))}


def test_a_discount_ages_with_the_price_it_is_of(listed: Engine, tmp_path: Path) -> None:
    world = small_world(tmp_path, overrides_toml=NIGHT)
    for hours, fresh in ((0, True), (47, True), (49, False)):
        found = [entry for entry in book_at(listed, world, T0 + timedelta(hours=hours)).rates if entry.value.sku == "batch"]
        assert [(entry.fresh, entry.seen_at, entry.origin) for entry in found] == [(fresh, T0, "override [night] of tokens")]


def test_a_machine_of_a_contract_is_priced_by_the_hour_and_day(db: Engine, tmp_path: Path) -> None:
    """5,840 EUR a month of 730 hours are 8.00 EUR an hour; at 1.25 USD for one EUR 10.00 USD."""
    sweep(db, "ecb", T0 - timedelta(hours=1), fx=fx(T0.date(), USD="1.25"), rows=1)
    sweep(db, "rents", T0, EIGHT, offer("2.50"))
    world = small_world(tmp_path, overrides_toml=NODE)
    found = {(e.value.source, e.value.gpu_count): (e.value.native_per_hour, e.value.usd_per_hour) for e in book_at(db, world, T0).offers}
    assert found[STATED, 8] == (D("8.00"), D("10.00"))
    assert ("rents", 1) in found
    assert STATED not in {e.value.source for e in book_at(db, world, datetime(2026, 11, 3, tzinfo=UTC)).offers}


def test_a_contract_wins_where_it_is_cheapest_and_hides_nothing_else(db: Engine, tmp_path: Path) -> None:
    sweep(db, "ecb", T0 - timedelta(hours=1), fx=fx(T0.date(), USD="1.25"), rows=1)
    sweep(db, "rents", T0, EIGHT)
    sweep(db, "tokens", T0, LIST)
    sweep(db, "rents", T0 + timedelta(seconds=1), EIGHT, offer("2.50"), offer("3.00", sku="80x2", gpu="test-80", gpu_count=2))
    found = {}
    for price in ("5_840", "584"):  # 10.00 and 1.00 USD an hour, against 2.50 for one GPU that holds the model as well
        world = small_world(tmp_path / price, overrides_toml=NODE.replace("5_840", price))
        answer = recompute(db, world, Sizer(world), T0 + timedelta(seconds=1)).answers[0]
        assert answer.setup is not None and answer.setup_fresh
        found[price] = (answer.setup.offer.source, answer.setup.usd_per_hour, {s.gpu: s.offer.source for s in answer.per_gpu})
    assert found["5_840"] == ("rents", D("2.50"), {"test-141": "rents", "test-80": "rents"})
    assert found["584"] == (STATED, D("1.00"), {"test-141": STATED, "test-80": "rents"})


def test_twice_is_once_and_a_book_that_ages_keeps_it(listed: Engine, tmp_path: Path) -> None:
    world = small_world(tmp_path, overrides_toml=RATES)
    book = book_at(listed, world, T0)
    assert with_overrides(book, world.overrides, ()) == book
    later = aged(recompute(listed, world, Sizer(world), T0), world, Sizer(world), T0 + timedelta(days=1))
    assert {entry.value.source for entry in later.book.rates if entry.value.sku == "standard" and entry.fresh} == {STATED}


def test_without_a_currency_rate_nothing_is_stated(db: Engine, tmp_path: Path) -> None:
    world = small_world(tmp_path, overrides_toml=NODE)
    sweep(db, "rents", T0, EIGHT)
    assert {e.value.source for e in book_at(db, world, T0).offers} == {"rents"}


def test_the_shipped_entries_are_kimi_s_batch_price_alone() -> None:
    """Seed 002: batch jobs bill at 60 % of the standard rate."""
    stated = load_world(config_dir()).overrides
    assert [(f.provider, f.sku, f.of, f.factor, f.end) for f in stated.factors] == [("moonshot", "batch", "standard", D("0.6"), None)]
    assert stated.all == stated.factors


def test_commands_use_what_the_user_states(tmp_path: Path) -> None:
    """A contract of one dollar an hour beats the embedded book; the receipt names it."""
    (tmp_path / "config").mkdir()
    ours = (
        NODE.replace("test-141", "nvidia-b300-sxm-288").replace('"EUR"', '"USD"').replace("5_840", "1").replace("node_month", "node_hour")
    )
    (tmp_path / "config/overrides.toml").write_text(ours.replace("to = 2026-11-03\n", "").replace("2026-11-01", "2020-01-01"))
    told = run(tmp_path, "cheapest", "kimi-k3.1-pro", "--explain")
    assert told.code == 0
    assert "$1.00/h" in told.out and "cloud" in told.out and "override" in told.out
    listed = run(tmp_path, "offers", "--gpu", "nvidia-b300-sxm-288", "--provider", "cloud", "--json").json()
    assert [(entry["source"], entry["usd_per_hour"], entry["fresh"]) for entry in listed] == [("override", "1", True)]
    assert replace(load_world(config_dir()).overrides, factors=()).all == ()
