"""Every number of the seeds that can be reproduced is a row of exactly one table, and what cannot be is named with its reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import test_engine_seed_money
import test_engine_seed_numbers

pytestmark = pytest.mark.shared

NUMBERS = {row[0] for row in test_engine_seed_numbers.ROWS}
MONEY = {row[0] for row in test_engine_seed_money.ROWS}


def ids(shared: Path, *reproduced: str) -> set[str]:
    rows = json.loads((shared / "facts" / "seed_numbers.json").read_text())
    return {row["id"] for row in rows if row["reproduced"] in reproduced}


def test_no_row_is_in_both_tables() -> None:
    assert not NUMBERS & MONEY


def test_no_id_is_used_twice() -> None:
    assert len(NUMBERS) == len(test_engine_seed_numbers.ROWS)


def test_every_reproduced_number_has_its_row(shared: Path) -> None:
    assert ids(shared, "yes", "approx") - NUMBERS - MONEY == set()


def test_every_other_number_has_its_reason(shared: Path) -> None:
    assert ids(shared, "no") == set(test_engine_seed_numbers.NOT_REPRODUCIBLE)


def test_rows_print_what_the_seed_prints(shared: Path) -> None:
    """The expected column is the seed's own, not ours."""
    rows = json.loads((shared / "facts" / "seed_numbers.json").read_text())
    seeds = {row["id"]: row["expected"] for row in rows}
    ours = {name: expected for name, expected, _ in test_engine_seed_numbers.ROWS if name in seeds}
    wrong = {name: (value, seeds[name]) for name, value in ours.items() if not _same(value, seeds[name])}
    assert wrong == {}


def _same(printed: str, seed: object) -> bool:
    return printed == str(seed) if isinstance(seed, bool) else float(printed) == float(str(seed))
