"""The recorded series through the whole pipeline: what is wrong in them is never listed, what is genuine is listed at once or next.

``tests/bench/guard_replay.py`` replays all of them whole; here are the parts that the series are known for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from replays import (
    Feed,
    Replay,
    aws,
    azure,
    gcp,
    genai,
    marketplaces,
    moment,
    neoclouds_october,
    portkey,
    runpod_october,
    table,
    token_maps,
    wrong_in_cheapest,
)

from scrapers.contract import GpuQuote, TokenQuote
from tracker.paths import config_dir
from tracker.world import World, load_world

pytestmark = pytest.mark.shared


@pytest.fixture(scope="module")
def world() -> World:
    return load_world(config_dir())


def only(feed: Feed, wanted: Callable[[Any], bool], *, since: str = "2020-01-01") -> Feed:
    """A part of a feed."""
    return replace(feed, sweeps=[(at, [q for q in quotes if wanted(q)]) for at, quotes in feed.sweeps if at >= moment(since)])


def follow(folder: Path, feeds: list[Feed]) -> tuple[Replay, list[tuple[datetime, dict[tuple[str, ...], str]]], list[str]]:
    """Replay feeds; what was listed after each sweep, by provider, name, region and tier; and wrong winners."""
    run, seen, winners = Replay(folder, feeds), [], []

    def watch(replay: Replay, _feed: Feed, at: datetime) -> None:
        book = replay.book(at)
        listed = {(o.provider, o.sku, o.region, o.tier): f"{o.native_per_hour:f}" for o in (e.value for e in book.offers)}
        rates = {
            (r.provider, r.source_model, r.region, r.sku): f"{r.native.input:f}" for r in (e.value for e in book.rates) if r.native.input
        }
        seen.append((at, listed | rates))
        winners.extend(wrong_in_cheapest(replay, at, book))

    run.run(watch)
    return run, seen, winners


def steps(seen: list[tuple[datetime, dict[tuple[str, ...], str]]], key: tuple[str, ...]) -> list[tuple[str, str]]:
    """Day and price of every change of what was listed."""
    found: list[tuple[str, str]] = []
    for at, listed in seen:
        price = listed.get(key, "")
        if price and (not found or found[-1][1] != price):
            found.append((f"{at:%Y-%m-%d}", price))
    return found


def test_the_price_cut_of_aws_is_listed_the_day_it_is_printed(shared: Path, tmp_path: Path, world: World) -> None:
    run, seen, _ = follow(tmp_path, [only(aws(shared, world), lambda q: q.sku in ("p5.48xlarge", "p4d.24xlarge"), since="2025-01-01")])
    first = f"{seen[0][0]:%Y-%m-%d}"
    assert steps(seen, ("aws", "p5.48xlarge", "us-east-1", "on_demand")) == [(first, "98.32"), ("2025-06-23", "55.04")]
    assert run.tallies["aws"].late == []


def test_the_price_cuts_of_azure_are_and_the_odd_region_is_not(shared: Path, tmp_path: Path, world: World) -> None:
    """In polandcentral a node of A100 fell from 46.861 to 7.692 while every other region kept asking 32 to 66."""
    run, seen, winners = follow(tmp_path, [azure(shared, world)])
    cuts = {
        ("Standard_ND96isr_H200_v5", "eastus2"): [("2024-12-13", "118"), ("2025-05-16", "84.8")],
        ("Standard_ND96isr_MI300X_v5", "eastus2"): [("2024-12-13", "88.488"), ("2025-05-16", "48")],
    }
    for (sku, region), expected in cuts.items():
        assert steps(seen, ("azure", sku, region, "on_demand"))[-2:] == expected[-2:]
    assert steps(seen, ("azure", "Standard_ND96amsr_A100_v4", "polandcentral", "on_demand"))[-1][1] == "46.861"
    tally = run.tallies["azure"]
    assert (tally.first, tally.first_listed, tally.wrong_printed, tally.wrong_listed, winners) == (731, 731, 4, 0, [])


def test_googles_spot_prices_follow_and_prices_without_the_gpu_never_show(shared: Path, tmp_path: Path, world: World) -> None:
    machines = ("a2-highgpu-1g", "a3-highgpu-8g")
    run, seen, winners = follow(tmp_path, [only(gcp(shared, world), lambda q: q.sku in machines and q.tier != "reserved")])
    printed: list[tuple[str, str]] = []  # read off the file once more, without any code of ours
    for line in table(shared / "series/gpu-clouds/gcp_monthly_2022_2025.csv.gz"):
        if line["machine_type"] == "a3-highgpu-8g" and line["region"] == "us-central1" and line["usd_hour_spot"]:
            price = f"{round(float(line['usd_hour_spot']), 9):.9f}".rstrip("0").rstrip(".")
            if not printed or printed[-1][1] != price:
                printed.append((line["commit_date"][:10], price))
    assert len(printed) > 5
    assert steps(seen, ("gcp", "a3-highgpu-8g", "us-central1", "spot")) == printed
    place = (machines[0], "northamerica-northeast2")
    assert all(Decimal(price) > 1 for _, listed in seen for key, price in listed.items() if key[1:3] == place)
    assert (run.tallies["cyclenerd"].wrong_listed, winners) == (0, [])
    assert run.tallies["cyclenerd"].wrong_printed > 40


def is_kimi(quote: Any) -> bool:
    return isinstance(quote, TokenQuote) and any(name in quote.model.lower() for name in ("kimi-k2.5", "kimi-k2-thinking", "glm-5"))


def test_bedrocks_flips_never_show(shared: Path, tmp_path: Path) -> None:
    """Ten times too dear from 2026-03 on, right from 06-05, wrong again 06-09 and 06-23: four flips in a month, daily sweeps."""
    feeds = [only(genai(shared), is_kimi, since="2026-05-25"), only(portkey(shared), is_kimi, since="2026-05-25")]
    feeds[0] = replace(feeds[0], sweeps=[sweep for sweep in feeds[0].sweeps if sweep[0] <= moment("2026-07-10")])
    feeds[1] = replace(feeds[1], sweeps=[sweep for sweep in feeds[1].sweeps if sweep[0] <= moment("2026-07-10")])
    run, seen, winners = follow(tmp_path, feeds)
    assert steps(seen, ("aws", "moonshotai.kimi-k2.5", "", "standard")) == [("2026-06-05", "0.6")]
    assert steps(seen, ("aws", "moonshot.kimi-k2-thinking", "", "standard")) == [("2026-06-05", "0.6")]
    assert (run.tallies["portkey"].wrong_printed > 40, run.tallies["portkey"].wrong_listed, winners) == (True, 0, [])


def test_the_dip_of_kimi_k3_and_dollars_told_per_token_never_show(shared: Path, tmp_path: Path) -> None:
    def wanted(quote: Any) -> bool:
        return isinstance(quote, TokenQuote) and ("kimi-k3" in quote.model or "GLM-4.5" in quote.model)

    run, seen, winners = follow(tmp_path, [only(token_maps(shared), wanted)])
    assert steps(seen, ("openrouter", "openrouter/moonshotai/kimi-k3", "", "standard")) == [("2026-09-10", "3")]
    assert not any("wandb" in key[1] for _, listed in seen for key in listed)
    assert (run.tallies["litellm"].wrong_printed, run.tallies["litellm"].wrong_listed, winners) == (2, 0, [])
    assert run.tallies["litellm"].rejected == 3  # 55,000 USD per Mtok, three times


def test_marketplace_noise_never_shows(shared: Path, tmp_path: Path) -> None:
    """Sixty snapshots of raw asks from 0.02 for an L4 on: without the field that says who is verified nobody is."""
    chosen = ("vast-ai", "runpod", "hyperstack")
    feeds = [replace(feed, sweeps=feed.sweeps[:12]) for feed in marketplaces(shared) if feed.id in chosen]
    run, seen, winners = follow(tmp_path, feeds)
    assert {key[0] for _, listed in seen for key in listed} == {"runpod", "hyperstack"}
    assert min(Decimal(price) for _, listed in seen for key, price in listed.items() if key[3] == "on_demand") > Decimal("0.15")
    assert (sum(t.first - t.first_listed for t in run.tallies.values()), winners) == (0, [])


def test_the_placeholders_of_october_never_show(shared: Path, tmp_path: Path, world: World) -> None:
    """RunPod printed 0.50 for a MIG slice of a B300 and for the MI300X: others' B300 index halved and their MI300X stood at 0.50."""
    run, seen, winners = follow(tmp_path, [*neoclouds_october(shared, world), runpod_october(shared)])
    listed = {key[1]: price for key, price in seen[-1][1].items() if key[0] == "runpod"}
    assert listed["NVIDIA B300 SXM6 AC (secure)"] == "8.99"
    assert listed["AMD Instinct MI300X OAM (secure)"] == "2.39"
    assert not any("MIG" in sku for sku in listed)
    assert "AMD Instinct MI300X OAM (community)" not in listed
    assert all(isinstance(q, GpuQuote) for feed in run.feeds for _, quotes in feed.sweeps for q in quotes)
    assert winners == []
