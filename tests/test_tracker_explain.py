"""Receipts of an answer: every figure back to the printed price, its currency, exchange rate, source, time and origin."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from books import B300, EURO, MOONSHOT, NOW, SEEN, book, listed
from commands import breakeven
from sqlalchemy import Engine

from engine.rates import Conditions, TokenPrices
from engine.receipts import ReceiptLine
from tracker.answers.explain import Section, explain_answer, readings, seen_by
from tracker.answers.questions import default_question
from tracker.answers.recompute import Sizer, answer
from tracker.answers.snapshot import ModelAnswer
from tracker.book.book import Book
from tracker.book.stated import with_overrides
from tracker.cli.receipts import value_text
from tracker.database.handle import migrate, open_database, reading
from tracker.sweeps.store import SweepReport, record_sweep
from tracker.world import World, load_world

D = Decimal
CONFIG = Path(__file__).resolve().parents[1] / "config"
Lines = dict[str, ReceiptLine]


@pytest.fixture(scope="module")
def world() -> World:
    return load_world(CONFIG)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Engine]:
    found = open_database(f"sqlite:///{tmp_path / 'book.db'}")
    migrate(found)
    yield found
    found.dispose()


def answered(world: World, found: Book, workload: str = "") -> ModelAnswer:
    return answer(world, Sizer(world), found, world.model("kimi-k3.1-pro"), default_question(world, workload))


def explained(world: World, found: Book, read: Any = None, workload: str = "") -> dict[str, Lines]:
    sections: tuple[Section, ...] = explain_answer(answered(world, found, workload), found, world.catalogue, read or {})
    return {section.title: {line.name: line for line in section.lines} for section in sections}


def test_every_part_of_an_answer_has_its_section(world: World) -> None:
    titles = list(explained(world, book()))
    rent = ["offer", "setup", "facts of nvidia-b300-sxm-288", "fit: 7 x nvidia-b300-sxm-288, mxfp4"]
    assert titles == [*rent, "rate of moonshot", "bill of agent-turns", "capacity", "break-even"]


def test_a_foreign_price_shows_its_currency_the_rate_and_its_day(world: World) -> None:
    """48 EUR at 0.8 EUR for a dollar is $60 an hour, $43,800 for 730 hours."""
    sections = explained(world, book((EURO,)))
    offer = sections["offer"]
    assert (offer["price as printed"].value, offer["price as printed"].unit) == (D(48), "EUR/hour")
    assert offer["price as printed"].source == "https://www.scaleway.com/en/pricing/gpu/"
    assert (offer["exchange rate"].value, offer["exchange rate"].unit) == (D("0.8"), "EUR/USD")
    assert offer["exchange rate"].source == "ECB reference rates of 2026-11-27"
    assert (offer["price"].value, offer["price"].formula) == (D(60), "printed / exchange rate")
    assert offer["sold as"].value == "scaleway B300-SXM-8-288G fr-par-2: 8 x nvidia-b300-sxm-288"
    assert sections["setup"]["price"].value == D(43_800)
    assert "exchange rate" not in explained(world, book())["offer"]


def test_tier_trust_and_state_are_named(world: World) -> None:
    reserved = replace(B300, trust="verified", price_kind="ask", availability="available", max_gpu_count=None)
    assert explained(world, book((reserved,)))["offer"]["terms"].value == "on_demand, verified, ask price, available"
    stale = explained(world, book((listed(B300, fresh=False, origin="seed-001"),)))["offer"]
    assert (stale["last seen"].unit, stale["told by"].value) == ("stale", "seed-001, imported")
    live = explained(world, book())["offer"]
    assert (live["last seen"].value, live["last seen"].unit, live["told by"].value) == ("2026-11-29 11:00 UTC", "fresh", "runpod")


def test_the_sweep_that_saw_a_price_and_the_hash_of_its_body(world: World, db: Engine) -> None:
    """The sweep of exactly that source at exactly that moment, not another one."""
    for finished, digest in ((SEEN - timedelta(hours=1), "0" * 64), (SEEN, "3fa1" * 16)):
        record_sweep(db, SweepReport(source="runpod", started_at=finished, finished_at=finished, status="ok", input_hash=digest))
    found = answered(world, book())
    assert seen_by(found) == (("runpod", SEEN), ("moonshot", SEEN))
    with reading(db) as connection:
        read = readings(connection, seen_by(found))
        assert readings(connection, ()) == {}
    assert read == {("runpod", SEEN): "sweep of runpod (ok), body 3fa13fa13fa1"}
    sections = explained(world, book(), read)
    assert sections["offer"]["last seen"].source == "sweep of runpod (ok), body 3fa13fa13fa1"
    assert sections["rate of moonshot"]["last seen"].source == "moonshot"


def test_a_rate_shows_every_kind_and_unknown_is_a_question_mark(world: World) -> None:
    yuan = replace(
        MOONSHOT, currency="CNY", fx_rate=D("6.5"), native=TokenPrices(input=D(13), cache_read=D("1.3"), output=D(65)),
        usd=TokenPrices(input=D(2), cache_read=D("0.2"), output=D(10)), fx_day=NOW.date(), region="cn",
        valid_from=datetime(2026, 11, 1, tzinfo=UTC),
    )  # fmt: skip
    rate = explained(world, book(rates=(yuan,)))["rate of moonshot"]
    assert (rate["input as printed"].value, rate["input as printed"].unit) == (D(13), "CNY/Mtok")
    assert (rate["input"].value, rate["input"].unit, rate["input"].formula) == (D(2), "USD/Mtok", "printed / exchange rate")
    assert rate["cache_write_5m as printed"].value is None and "cache_write_5m" not in rate
    assert rate["sold as"].value == "kimi-k3.1-pro, standard, cn"
    assert rate["in force"].value == "from 2026-11-01 00:00 UTC"
    assert value_text(None) == "?"


def test_entries_with_conditions_are_sections_of_their_own(world: World) -> None:
    peak = replace(MOONSHOT, conditions=Conditions(min_prompt_tokens=200_000, hours_utc="01:00-04:00", weekdays="12345"))
    titles = list(explained(world, book(rates=(MOONSHOT, peak))))
    assert "rate of moonshot, prompts above 200,000 tokens, 01:00-04:00 UTC, on weekdays 12345" in titles


def test_the_blend_follows_from_the_mix(world: World) -> None:
    """Seed 002: 63,000 turns of 240K cached + 16K + 4K: $3,024 + $2,016 + $2,520 = $7,560 over 16.38 billion tokens."""
    bill = explained(world, book())["bill of agent-turns"]
    assert bill["tokens of a request"].value == "16,000 input + 240,000 cache_read + 4,000 output"
    assert "DevToolLab" in bill["tokens of a request"].source
    assert [bill[kind].value for kind in ("cache_read", "input", "output")] == [D(3_024), D(2_016), D(2_520)]
    assert bill["cache_read"].formula == "15,120,000,000 tokens * 0.2 USD / 10**6"
    assert (bill["bill"].value, bill["tokens"].value) == (D(7_560), D(16_380_000_000))
    assert bill["blend"].formula == "bill / tokens * 10**6" and str(bill["blend"].value).startswith("0.46153846")
    assert bill["bill without caching"].value == D(34_776)


def test_assumed_prices_cold_starts_and_batch_are_said(world: World) -> None:
    bare = replace(MOONSHOT, usd=TokenPrices(input=D(2), output=D(10)))
    bill = explained(world, book(rates=(bare,)), workload="sessions-cold")["bill of sessions-cold"]
    assert bill["cache_read"].source == "no price of its own: the input price, an upper bound"
    assert bill["bill"].source == "upper bound: no price for cache_read"
    assert bill["share of cold starts"].value == D("0.1")
    stated = with_overrides(book(), world.overrides, ())  # overrides.toml: 60 % at Moonshot
    batch = explained(world, stated, workload="documents-batch")["bill of documents-batch"]
    assert batch["share of batch"].source == "at batch prices"
    other = replace(MOONSHOT, provider="together", source="together")
    dear = explained(world, book(rates=(other,)), workload="documents-batch")["bill of documents-batch"]
    assert dear["share of batch"].source == "no batch price known: the standard price, an upper bound"


def test_capacity_says_how_it_is_known(world: World) -> None:
    found = answered(world, book())
    capacity = explained(world, book())["capacity"]
    assert found.capacity is not None and capacity["capacity"].value == found.capacity.requests_per_month
    assert (capacity["known by"].value, capacity["capacity"].source) == ("estimate", "roofline")
    assert capacity["error factor"].value == found.capacity.error_factor > 1
    assert "output tokens * 3600 * 730" in capacity["output rate"].formula


def test_the_gpu_s_facts_carry_their_sources(world: World) -> None:
    facts = explained(world, book())["facts of nvidia-b300-sxm-288"]
    assert (facts["memory_reported_mib"].value, facts["memory_reported_mib"].unit) == (275_040, "MiB")
    assert all(line.source for line in facts.values())


def test_a_part_that_is_missing_has_no_section(world: World) -> None:
    assert list(explained(world, book(offers=()))) == ["rate of moonshot", "bill of agent-turns"]
    assert "rate of moonshot" not in explained(world, book(rates=()))
    assert seen_by(answered(world, book((), ()))) == ()


def test_commands_print_their_receipts() -> None:
    """The embedded book: the offer with its address and origin, the rate with its prices, the formula of V*."""
    text = breakeven("breakeven", "kimi-k3.1-pro", "--explain").text
    for part in (
        "price as printed",
        "USD/hour",
        "https://",
        "imported",
        "stale",
        "sweep of book:",
        "(C + f) / (p - v) * 10**6",
        "error factor",
    ):
        assert part in text, part
    found = breakeven("cheapest", "muse-spark-open", "--context", "8k", "--explain", "--json").json
    lines = {section["title"]: {line["name"]: line for line in section["lines"]} for section in found["explain"]}
    assert lines["offer"]["price as printed"]["source"].startswith("https://")
    assert D(lines["setup"]["price"]["value"]) == D(found["setup"]["usd_per_month"])
    assert "explain" not in breakeven("cheapest", "muse-spark-open", "--json").json


@pytest.mark.parametrize(
    ("value", "text"),
    [(D("0.4615384615384615384615384615"), "0.4615384615"), (D("24046.20"), "24,046.20"), (16_992, "16,992"), ("TP8", "TP8"), (D(0), "0")],
)
def test_values_for_a_reader(value: Any, text: str) -> None:
    assert value_text(value) == text
