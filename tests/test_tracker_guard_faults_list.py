"""Every fault on record that can be reproduced has a test: the numbered lists against the names of the tests."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from test_tracker_guard_faults_tokens import TESTED_ELSEWHERE

HERE = Path(__file__).parent


def numbers(word: str) -> set[int]:
    """Numbers in the names of the tests ``test_<word>_<number>_...``; one test may show several faults."""
    text = "".join(path.read_text(encoding="utf-8") for path in HERE.glob("test_tracker_guard_faults_*.py"))
    names = re.findall(rf"^def test_{word}_((?:\d+_)+)", text, re.MULTILINE)
    return {int(number) for name in names for number in name.split("_") if number} | (set(TESTED_ELSEWHERE) if word == "token" else set())


@pytest.mark.shared
def test_every_fault_of_cloud_prices_is_here(shared: Path) -> None:
    with (shared / "facts/gpu_price_faults.csv").open(encoding="utf-8", newline="") as file:
        wanted = {int(line["n"]) for line in csv.DictReader(file) if line["reproducible_small_input"].lower() != "no"}
    assert len(wanted) > 40
    assert numbers("case") == wanted


@pytest.mark.shared
@pytest.mark.parametrize(("notes", "word", "least"), [("gpu-markets", "market", 12), ("token-rates", "token", 40)])
def test_every_numbered_fault_marked_as_reproducible_is_here(shared: Path, notes: str, word: str, least: int) -> None:
    """Marked with an R after its reference or at its end; several may share a line."""
    text = (shared / f"research/{notes}.md").read_text(encoding="utf-8").partition("Real failure cases")[2].partition("\n## ")[0]
    cases = re.split(r"(?m)(?:^|(?<=\. ))(?=\d{1,2}\.? (?:\[|[A-Za-z]))", text)
    marked = {int(found[1]) for case in cases if re.search(r"\bR\b", case) and (found := re.match(r"(\d{1,2})\.? ", case))}
    assert len(marked) >= least
    assert marked <= numbers(word), sorted(marked - numbers(word))
