"""Conflicting facts: one is chosen by stated precedence, the others stay, nothing is averaged."""

from __future__ import annotations

from datetime import date

from sizes import fact

from engine.facts import PRECEDENCE, MissingFact, choose, spread

BANDWIDTH = (fact("bandwidth_gb_s", 8000, "vendor"), fact("bandwidth_gb_s", 7700, "config"), fact("memory", 1, "files"))


def test_precedence_decides_and_a_reader_may_ask_for_another_basis() -> None:
    found = choose(BANDWIDTH, "bandwidth_gb_s")
    assert found is not None
    assert (found.value, found.basis) == (7700, "config")
    asked = choose(BANDWIDTH, "bandwidth_gb_s", ("vendor", "config"))
    assert asked is not None
    assert asked.value == 8000
    assert choose(BANDWIDTH, "bandwidth_gb_s", ("recipe",)) is None
    assert choose(BANDWIDTH, "other") is None


def test_of_one_basis_the_latest_reading_counts() -> None:
    old, new = fact("x", 1, "vendor", date(2026, 1, 1)), fact("x", 2, "vendor", date(2026, 2, 1))
    assert choose((old, new), "x") is choose((new, old), "x") is new


def test_the_spread_keeps_every_value() -> None:
    assert [f.value for f in spread(BANDWIDTH, "bandwidth_gb_s")] == [7700, 8000]


def test_files_come_before_words_and_general_knowledge_last() -> None:
    assert PRECEDENCE.index("files") < PRECEDENCE.index("vendor") < PRECEDENCE.index("rounded") < PRECEDENCE.index("memory")


def test_what_is_missing_says_who_needs_it() -> None:
    missing = MissingFact("kimi", "layers", "a split")
    assert (str(missing), missing.subject, missing.field) == ("kimi: layers is not known, a split needs it", "kimi", "layers")
