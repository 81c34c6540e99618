"""Bytes a token moves, and the times that follow."""

from __future__ import annotations

from decimal import Decimal

import pytest
from sizes import BF16, FP8, NVFP4, device, fact, spec

from engine.facts import MissingFact
from engine.traffic import answer_seconds, bandwidth_bytes_s, decode_ceiling_tok_s, download_seconds, weight_traffic_bytes
from engine.units import GB

D = Decimal


def test_a_token_reads_the_active_weights() -> None:
    model = spec(params_active=2_000_000_000)
    assert [weight_traffic_bytes(model, form) for form in (BF16, FP8, NVFP4)] == [4 * GB, 2 * GB, 1_125_000_000]


def test_the_ceiling_is_bandwidth_over_traffic() -> None:
    """8 GB at 1000 GB/s: 125 tokens a second, and as many more as there are GPUs."""
    assert decode_ceiling_tok_s(spec(), device(), FP8) == 125
    assert decode_ceiling_tok_s(spec(), device(), FP8, 8) == 1000


def test_a_data_sheet_is_used_only_where_asked_for() -> None:
    gpu = device(facts=(fact("bandwidth_gb_s", 2000, "vendor"),))
    assert bandwidth_bytes_s(gpu) == 1000 * GB
    assert bandwidth_bytes_s(gpu, ("vendor",)) == 2000 * GB
    assert bandwidth_bytes_s(device(), ("vendor",)) == 1000 * GB


def test_missing_facts_are_named() -> None:
    with pytest.raises(MissingFact, match="dense-8b: params_active is not known, the weight traffic of a token needs it"):
        weight_traffic_bytes(spec(params_active=None), FP8)
    with pytest.raises(MissingFact, match="test-100: bandwidth_gb_s is not known, a decode ceiling needs it"):
        decode_ceiling_tok_s(spec(), device(bandwidth_gb_s=None), FP8)


def test_times_of_answers_and_downloads() -> None:
    assert answer_seconds(500, D(20)) == 25
    assert download_seconds(1000 * GB, D(10)) == 800
    for refused in (lambda: answer_seconds(1, D(0)), lambda: download_seconds(1, D(-1))):
        with pytest.raises(ValueError, match="must be above 0"):
            refused()
