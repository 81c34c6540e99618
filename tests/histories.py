"""Histories of one source as hypothesis draws them: prices that move, are missed, go and come back, and sweeps that fail."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from small_world import offer, sweep
from sqlalchemy import Engine

from scrapers.contract import FxQuote
from tracker.book.exchange import store_rates
from tracker.database.handle import migrate, open_database, writing
from tracker.database.rows import to_s

D0 = datetime(2026, 11, 2, tzinfo=UTC)  # a midnight


def hour(number: float) -> datetime:
    """That many hours after it."""
    return D0 + timedelta(hours=number)


OFFERS = [
    offer("3.00"),
    offer("3.00", sku="any", max_gpu_count=5),
    offer("20.00", sku="three", gpu_count=3),
    offer("2.50", sku="euro", provider="euro-cloud", currency="EUR"),
    offer("1.00", sku="spot", tier="spot"),
    offer("0.10", sku="slice", is_slice=True),
    offer("0.20", sku="somebody's", trust="community"),
    offer("6.00", sku="dated", valid_from=to_s(hour(-5))),
    offer("5.00", sku="dated", valid_from=to_s(hour(30))),
]
PRICES = st.integers(1, 6).map(lambda n: n * 1_000_000_000 + 1)
STEP = st.fixed_dictionaries(
    {
        "gap": st.integers(1, 9),
        "status": st.sampled_from(["ok", "ok", "ok", "ok", "failed", "incomplete"]),
        "there": st.sets(st.integers(0, len(OFFERS) - 1), min_size=2),
        "price": st.lists(PRICES, min_size=len(OFFERS), max_size=len(OFFERS)),
        "same": st.booleans(),
        "gone": st.booleans(),
        "look": st.booleans(),
    }
)


@pytest.fixture(scope="session")
def empty_history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated book with one exchange rate and nothing else."""
    path = tmp_path_factory.mktemp("empty") / "book.db"
    db = open_database(f"sqlite:///{path}")
    migrate(db)
    with writing(db) as connection:
        store_rates(connection, [FxQuote(base="EUR", currency="USD", rate=Decimal("1.25"), day=hour(-48).date())], "test")
    db.dispose()
    return path


@contextmanager
def copy_of(empty: Path, folder: Path) -> Iterator[Engine]:
    """A book of its own for one history."""
    db = open_database(f"sqlite:///{shutil.copy(empty, folder / 'history.db')}")
    try:
        yield db
    finally:
        db.dispose()


def play(db: Engine, steps: list[dict[str, Any]], look: Callable[[datetime], object]) -> int:
    """Sweeps of ``rents`` some hours apart, with a look after some of them; returns the hour after the last."""
    now, prices = -9, [row.price for row in OFFERS]
    for step in steps:
        now += step["gap"]
        prices = prices if step["same"] else step["price"]
        rows = [replace(OFFERS[n], price=prices[n], availability=2 if step["gone"] and n == 0 else 3) for n in sorted(step["there"])]
        if step["status"] == "failed":
            sweep(db, "rents", hour(now), status="failed", error="no answer", rows=0)
        else:
            sweep(db, "rents", hour(now), *rows, complete=step["status"] == "ok")
        if step["look"]:
            look(hour(now))
    return now + 1
