"""Corruptions of every source: nothing wrong is listed, nothing crashes, no other source is touched, and two good sweeps heal it.

``tests/bench/guard_campaign.py`` runs every kind on every source; here each source gets a few, chosen by the seed, and each kind some.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from campaigns import KINDS, Campaign, FirstSight, Outcome

SEED = 20261129
EACH = 7  # kinds for every source


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> list[Outcome]:
    campaign = Campaign(tmp_path_factory.mktemp("campaign"), SEED)
    count = len(campaign.sources)
    chosen = [
        (source, KINDS[(number + step * count) % len(KINDS)]) for number, source in enumerate(campaign.sources) for step in range(EACH)
    ]
    return [outcome for outcome in (campaign.run(source, kind) for source, kind in chosen) if outcome.applied]


def test_every_kind_and_every_source_had_its_turn(outcomes: list[Outcome]) -> None:
    assert len({outcome.source for outcome in outcomes}) > 30
    assert len({outcome.kind for outcome in outcomes}) > 40
    assert {outcome.status for outcome in outcomes} == {"ok", "failed"}


def test_nothing_wrong_is_listed(outcomes: list[Outcome]) -> None:
    assert [(o.source, o.kind, o.wrong) for o in outcomes if o.wrong] == []


def test_nothing_crashes(outcomes: list[Outcome]) -> None:
    assert [(o.source, o.kind, o.crash) for o in outcomes if o.crash] == []


def test_other_sources_are_unaffected(outcomes: list[Outcome]) -> None:
    assert [(o.source, o.kind, o.elsewhere) for o in outcomes if o.elsewhere] == []


def test_two_good_sweeps_heal_it(outcomes: list[Outcome]) -> None:
    assert [(o.source, o.kind) for o in outcomes if not o.healed] == []


def test_without_its_limits_the_guard_would_list_wrong_prices(tmp_path: Path) -> None:
    """So that the tests above can fail."""
    far = Decimal(10**6)
    lax = dict.fromkeys(
        ("rent_change", "spot_change", "reserved_change", "history", "count", "region", "rent_low", "rent_high", "own"), far
    )
    campaign = Campaign(tmp_path, SEED, bands={}, all_rows=1000, mass_rows=1000, **lax)
    runpod = next(source for source in campaign.sources if source.id == "runpod")
    assert campaign.run(runpod, "x10").wrong
    assert campaign.run(runpod, "some x10").wrong


KNOWN = ("aws", "azure", "gcp", "lambda", "runpod", "scaleway", "shadeform")  # providers or GPUs that the starter book knows well
UNITS = ("x10", "x100 (cents)", "x1000 (per 1K)", "x730 (month)", "/10", "/100", "/730", "one GPU for the node", "node for one GPU",
         "currency EUR", "currency CNY", "prices one cent")  # fmt: skip


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> FirstSight:
    return FirstSight(tmp_path_factory.mktemp("first"), SEED)


@pytest.mark.parametrize("source", KNOWN)
def test_nothing_wrong_by_a_unit_is_listed_of_a_first_sweep(first: FirstSight, source: str) -> None:
    """With nothing but the starter book to be held against."""
    (chosen,) = (known for known in first.sources if known.id == source)
    assert first.right(chosen)  # of a good first sweep something is
    assert [(kind, wrong) for kind in UNITS if (wrong := first.run(chosen, kind).wrong)] == []
