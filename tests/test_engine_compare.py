"""Two models side by side: totals, cache curve, who fits where, and the sentence."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from sizes import BF16, FP8, NVFP4, Q4, device, spec

from engine.compare import cache_curve, holdings, totals, verdict_sentence
from engine.facts import MissingFact
from engine.fits import Need
from engine.policies import CANITRUN, STUDIOTV

D = Decimal
SMALL = spec(id="small", name="Small")
LARGE = spec(id="large", name="Large", params=100_000_000_000, native_format="nvfp4")
NEED = Need(context=1000)
CACHE = 131_072_000


def test_totals_by_format_and_natively() -> None:
    rows = totals(LARGE, SMALL, [BF16, FP8, NVFP4], NEED, STUDIOTV)
    assert [(row.weight_format, row.first_bytes, row.second_bytes) for row in rows] == [
        ("bf16", 200 * 10**9 + CACHE, 16 * 10**9 + CACHE),
        ("fp8", 100 * 10**9 + CACHE, 8 * 10**9 + CACHE),
        ("nvfp4", 56_250_000_000 + CACHE, 4_500_000_000 + CACHE),
        (None, 56_250_000_000 + CACHE, 16 * 10**9 + CACHE),
    ]
    assert rows[0].percent == (D(200 * 10**9 + CACHE) / (16 * 10**9 + CACHE) - 1) * 100


def test_an_unknown_model_leaves_its_cell_empty() -> None:
    rows = totals(replace(LARGE, layer_groups=()), SMALL, [BF16], NEED, STUDIOTV)
    assert (rows[0].first_bytes, rows[0].percent, len(rows)) == (None, None, 1)
    assert verdict_sentence(LARGE, SMALL, rows[0]) == ""
    with pytest.raises(MissingFact):
        cache_curve(replace(LARGE, layer_groups=()), SMALL, (1,), NEED, STUDIOTV)


def test_the_curve_follows_the_policy_of_the_comparison() -> None:
    ours, theirs = (cache_curve(LARGE, SMALL, (1, 1000), replace(NEED, cache_format="fp8"), p) for p in (STUDIOTV, CANITRUN))
    assert [(p.tokens, p.first_bytes) for p in ours] == [(1, 65_536), (1000, 65_536_000)]
    assert [(p.tokens, p.second_bytes) for p in theirs] == [(1, 131_072), (1000, CACHE)]


def test_gpus_that_hold_only_one_of_them() -> None:
    """One GPU of 89 usable GiB holds the small model and the large one at 4 bit; a card with llama.cpp the small one alone."""
    card = device(id="card", gpu_class="workstation", memory_reported_mib=24 * 1024)
    found = holdings(LARGE, SMALL, [device(), card], [BF16, FP8, NVFP4, Q4], NEED, STUDIOTV, max_gpus=1)
    assert [(h.gpu, h.first and h.first.weight_format, h.second and h.second.weight_format) for h in found] == [
        ("test-100", "nvfp4", "bf16"),
        ("card", None, "bf16"),
    ]


def test_the_sentence_comes_from_the_numbers() -> None:
    rows = totals(LARGE, SMALL, [BF16], NEED, STUDIOTV)
    sentence = "Small needs 16.1 GB, Large 200.1 GB: 12.4 times as much"
    assert verdict_sentence(LARGE, SMALL, rows[0]) == sentence
    assert verdict_sentence(SMALL, LARGE, totals(SMALL, LARGE, [BF16], NEED, STUDIOTV)[0]) == sentence
