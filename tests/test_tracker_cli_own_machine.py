"""``offload`` against what the seeds print about models on one's own machine."""

from __future__ import annotations

from decimal import Decimal

import pytest
from commands import breakeven

D = Decimal
MAC = ("offload", "kimi-k3.1-pro", "--gpu", "apple-m5-ultra-512")


def test_experts_that_stream_from_disk_are_as_slow_as_the_disk() -> None:
    """Seed 002: 114.7 GB stay in a Mac's memory, the experts stream from its SSD at 0.37 tokens a second; an SSD of 7.4 GB/s is assumed."""
    facts = breakeven(*MAC, "--disk-gb", "2000", "--disk-gb-s", "7.4", "--json").json
    assert (facts["fits"], facts["weights_bytes"], facts["basis"]) == (True, 1_561_293_160_568, "files")
    assert sum(facts["placed"].values()) == facts["weights_bytes"] + facts["cache_bytes"]
    # by hand: (104 - 57.36) * 4.25 / 8 = 24.78 GB of experts a token, 1,150.8 of 1,446.6 GB on disk, the rest and 114.72 GB at 1,200 GB/s
    by_hand = 1 / ((D("114.72") + D("24.78") * D("295.8") / D("1446.6")) / 1200 + D("24.78") * D("1150.8") / D("1446.6") / D("7.4"))
    assert abs(D(facts["ceiling_tok_s"]) - by_hand) < D("0.001")
    assert D("0.3") < by_hand < D("0.4")


def test_an_answer_of_500_tokens_takes_as_long_as_the_pages_say() -> None:
    """Seed 002: about 22 minutes at 0.37 tokens a second; seed 004: 1 h 23 min at 0.10."""
    disk = ("--disk-gb", "2000", "--disk-gb-s", "7.4")
    assert int(D(breakeven(*MAC, *disk, "--tok-s", "0.37", "--json").json["answer_seconds"])) // 60 == 22
    assert int(D(breakeven(*MAC, *disk, "--tok-s", "0.10", "--json").json["answer_seconds"])) // 60 == 83
    assert "at 0.10 tokens a second: 500 tokens in 1.4 h" in breakeven(*MAC, *disk, "--tok-s", "0.10").text
    assert breakeven(*MAC, *disk, "--tok-s", "0.10", "--answer-tokens", "1", "--json").json["answer_seconds"] == "10"


def test_what_finds_no_room_is_said_and_has_no_time() -> None:
    answer = breakeven(*MAC, "--ram-gb", "100", "--json").json
    assert not answer["fits"]
    assert answer["short_bytes"] == answer["weights_bytes"] + answer["cache_bytes"] - sum(answer["placed"].values())
    assert (answer["ceiling_tok_s"], answer["answer_seconds"]) == (None, None)
    assert "does not fit: " in breakeven(*MAC).text


def test_without_a_bandwidth_the_rate_is_unknown() -> None:
    text = breakeven(*MAC, "--disk-gb", "2000").text
    assert "one stream: unknown, for want of a bandwidth" in text
    assert "at best" not in text


def test_a_named_build_and_its_receipt() -> None:
    """Seed 002: the 1,009.3 GB build in two bits needs GPU memory and system RAM that together exceed its size."""
    build = ("--build", "DevQuasar/moonshotai.Kimi-K3.1-Pro-GGUF Q2_K", "--gpu", "nvidia-rtx-pro-6000-ws", "--gpus", "4", "--json")
    short = breakeven("offload", "kimi-k3.1-pro", *build, "--ram-gb", "512").json
    assert (short["fits"], short["weight_format"], round(D(short["weights_bytes"]) / 10**9, 1)) == (False, "q2_k", D("1009.3"))
    assert breakeven("offload", "kimi-k3.1-pro", *build, "--ram-gb", "1024").json["fits"]
    assert "no build of kimi-k3.1-pro named 'q2'" in breakeven(*MAC, "--build", "q2").err
    text = breakeven(*MAC, "--disk-gb", "2000", "--disk-gb-s", "7.4", "--explain").text
    assert "1 / sum(bytes a token reads there / bandwidth)" in text and "114,720,000,000" in text


def test_unknown_names_are_refused() -> None:
    assert "no GPU named 'foo'" in breakeven("offload", "kimi-k3.1-pro", "--gpu", "foo").err
    assert "no weight format named 'fp9'" in breakeven(*MAC, "--format", "fp9").err


@pytest.mark.parametrize(
    "args",
    [
        (*MAC, "--context", "0"),
        (*MAC, "--context", "9" * 30),
        (*MAC, "--ram-gb", "1e400"),
        (*MAC, "--ram-gb", "nan"),
        ("plan", "kimi-k3.1-pro", "--tokens-per-month", "1e99"),
        ("size", "kimi-k3.1-pro", "--sessions", "9" * 30),
        ("alerts", "ack", "9" * 20),
        ("alerts", "ack", "0"),
        ("quarantine", "accept", "9" * 30),
        ("bill", "kimi-k3.1-pro", "--requests", "1e30"),
    ],
)
def test_figures_nobody_means_are_wrong_usage(args: tuple[str, ...]) -> None:
    found = breakeven(*args)
    assert (found.code, found.out) == (2, "")
    assert "Traceback" not in found.err


def test_a_context_beyond_the_window_is_said() -> None:
    assert "2M tokens is beyond its window of 1M" in breakeven(*MAC, "--context", "2M").text
