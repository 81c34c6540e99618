"""``breakeven quarantine``: what waits, accepted or rejected by a person, and what of it shows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from commands import breakeven
from guarded import T0, Watched, offer, rate
from sqlalchemy import Engine

from scrapers.contract import ScrapeError
from tracker.database.handle import migrate, open_database
from tracker.guard.doubts import SweepRefused
from tracker.sweeps.store import SweepReport, record_sweep

LATER = T0 + timedelta(hours=1)


@pytest.fixture
def db() -> Iterator[Engine]:
    """The book the commands open."""
    handle = open_database(f"sqlite:///{Path(os.environ['BREAKEVEN_DATA']) / 'breakeven.db'}")
    migrate(handle)
    yield handle
    handle.dispose()


@pytest.fixture
def watched(db: Engine) -> Watched:
    """A rent and a rate that wait, an offer at two prices, and a refused sweep."""
    book = Watched(db)
    ten = [offer("5", sku=f"n{n}") for n in range(10)]
    book.sweep(0, offer("3.60"), offer("7", sku="C"), *ten)
    book.sweep(15, offer("1.20"), *ten, conflicts={"k": [offer("7", sku="C"), offer("8", sku="C")]})
    book.sweep(0, rate("3", "15", "0.3"), source="openrouter")
    book.sweep(15, rate("0.79", "15", "0.26"), source="openrouter")
    with pytest.raises(SweepRefused) as found:
        book.sweep(30, *ten[:2])
    assert isinstance(found.value, ScrapeError)
    at = T0 + timedelta(minutes=30)
    record_sweep(db, SweepReport(source="runpod", started_at=at, finished_at=at, status="failed", error=str(found.value), fault="drop"))
    return book


def test_what_waits_is_listed_with_its_reason_and_what_it_waits_for(watched: Watched) -> None:
    text = breakeven("quarantine", "list", at=LATER).text
    assert "4 held back" in text
    assert "runpod H200 on demand 3.6 USD 1.2 USD price moved 3.00 times down 1 2026-11-02 12:15" in text
    for part in ("input alone fell", "7 USD or 8 USD", "same offer at two", "waits for a decision", "9 of 11 listed"):
        assert part in text


def test_the_list_as_json(watched: Watched) -> None:
    found = breakeven("quarantine", "list", "--source", "openrouter", "--json", at=LATER).json
    assert [(e["source"], e["subject"], e["state"], e["sweeps"], e["release"]) for e in found] == [
        ("openrouter", "openrouter moonshotai/kimi-k3", "pending", 1, "repeat")
    ]
    assert found[0]["old"] == {"currency": "USD", "input": "3", "cache_read": "0.3", "output": "15"}
    assert found[0]["new"] == {"currency": "USD", "input": "0.79", "cache_read": "0.26", "output": "15"}


def ids(*words: str) -> list[str]:
    found = breakeven("quarantine", "list", "--json", at=LATER).json
    return [str(e["id"]) for e in found if any(word in e["reason"] for word in words)]


def test_accepted_prices_are_listed_and_recorded(watched: Watched) -> None:
    ran = breakeven("quarantine", "accept", *ids("3.00 times", "alone"), "--by", "ada", at=LATER)
    assert ran.code == 0
    assert "runpod H200 on demand 1.2 USD: accepted by ada" in ran.text
    watched.at = LATER
    assert (watched.prices()["H200"], watched.tokens()) == ("1.2", ("0.79", "0.26", "15"))
    found = breakeven("quarantine", "list", "--all", "--json", at=LATER).json
    assert sorted((e["state"], e["decided_by"]) for e in found if e["state"] != "pending") == [("accepted", "ada"), ("accepted", "ada")]


def test_a_rejected_price_is_not_listed(watched: Watched) -> None:
    assert breakeven("quarantine", "reject", *ids("3.00 times"), at=LATER).code == 0
    watched.sweep(70, offer("1.20"), offer("7", sku="C"), *(offer("5", sku=f"n{n}") for n in range(10)))
    assert watched.prices()["H200"] == "3.6"


def test_an_accepted_sweep_lets_the_next_one_pass(watched: Watched) -> None:
    ran = breakeven("quarantine", "accept", *ids("vanished"), at=LATER)
    assert ran.text.endswith("; the next sweep may pass")
    watched.sweep(70, offer("5", sku="n0"), offer("5", sku="n1"))
    assert watched.seen("n0") == 70


def test_all_of_several_or_none(watched: Watched) -> None:
    ran = breakeven("quarantine", "accept", *ids("3.00 times"), "999", at=LATER)
    assert (ran.code, ran.err) == (1, "breakeven: no quarantine entry 999; breakeven quarantine list shows those that wait\n")
    watched.at = LATER
    assert watched.prices()["H200"] == "3.6"


def test_what_holds_no_one_price_cannot_be_decided(watched: Watched) -> None:
    ran = breakeven("quarantine", "accept", *ids("two prices"), at=LATER)
    assert (ran.code, "is printed at two prices" in ran.err) == (1, True)
    assert breakeven("quarantine", "reject", *ids("vanished"), at=LATER).code == 1


def test_an_unknown_source_is_one_line(watched: Watched) -> None:
    ran = breakeven("quarantine", "list", "--source", "runpot", at=LATER)
    assert (ran.code, ran.err.startswith("breakeven: no source named 'runpot' (did you mean runpod?)")) == (1, True)
