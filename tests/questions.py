"""A small world of which four things are asked, with answers by hand. Prices of one test-141 an hour at ``cloud`` and ``rents``.

A turn needs 120 GB of weights and 8,192 tokens of cache; a session of ``long`` holds 200,000. A token takes 64 layers x 8 heads x
(64 + 64) x 2 bytes = 131,072 bytes, so 200,000 are 26.2 GB. Of the 146.2 GB one test-141 holds 125.83 GiB = 135.1 GB, two test-80 hold
141.86 GiB = 152.3 GB. ``ours`` are the offers of the provider ``rents``.

At the vendor's $2, $0.2 and $10 a Mtok a request of ``long`` costs 190,000 x 2 + 10,000 x 10 = $0.48, $2.40 a Mtok; 5,000 of them
$2,400 a month. Two test-80 at $3.00 are $2,190 a month: break-even at 2,190 / 2.4 = 912.5 Mtok. One pair serves them all.
"""

from __future__ import annotations

from pathlib import Path

from small_world import FILES, offer, rate, small_world

from tracker.database.rows import OfferRow, RateRow
from tracker.world import World

LONG = """
[long]
name = "Long sessions"
mix = { input = 190_000, output = 10_000 }
requests_per_month = 5_000
context = 200_000

[[long.capacities]]
model = "large-60b"
gpu = "test-80"
gpu_count = 2
weight_format = "bf16"
requests_per_month = 10_000
source = "made up"
checked = 2026-11-29
"""
ALSO = """
[[track.also]]
workload = "long"
models = ["large-60b"]

[[track.also]]
name = "ours"
providers = ["rents"]

[[track.also]]
name = "ours"
workload = "long"
providers = ["rents"]
models = ["large-60b"]
"""
TURNS, LONG_TURNS, OURS, LONG_OURS = (
    ("turns", "studiotv"), ("long", "studiotv"), ("turns", "studiotv@ours"), ("long", "studiotv@ours"),
)  # fmt: skip
RATE = rate(input="2", cache_read="0.2", output="10")


def asking_world(folder: Path, also: str = ALSO, **changed: str) -> World:
    """The small world with those questions."""
    track = FILES["tracker.toml"].replace('workload = "turns"\n', 'workload = "turns"\n' + also)
    files = {"tracker_toml": track, "workloads_toml": FILES["workloads.toml"] + LONG}
    return small_world(folder, **(files | changed))


def offers(cloud: str = "2.30", rents: str = "2.50", pair: str = "3.00", own_pair: str = "3.30") -> list[OfferRow | RateRow]:
    """One test-141 at either provider, and two test-80."""
    return [
        offer(cloud), offer(rents, provider="rents"), offer(pair, sku="80x2", gpu="test-80", gpu_count=2),
        offer(own_pair, sku="80x2", gpu="test-80", gpu_count=2, provider="rents"),
    ]  # fmt: skip
