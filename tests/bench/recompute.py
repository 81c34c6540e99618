"""Cheapest setups of 120 models x 4 formats over 30,000 offers: naive loop, full recompute and one changed offer, as ratios of one run.

    python tests/bench/recompute.py [--models 120] [--offers 30000]

Offers are synthetic (seeded): 25 providers, every rentable GPU of the catalogue, machines of 1, 2, 4 and 8. Models are those of
config/models, larger and smaller copies of them filling up the number. Fits are worked out beforehand: they depend on facts alone.
Fails where the full recompute is not 50 times as fast as the naive loop, or one change not 30 times as fast as the full one.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from statistics import median
from time import process_time

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from naive_setups import naive_winner  # noqa: E402  the path is set above

from engine.candidates import SetupPolicy, fidelities  # noqa: E402
from engine.fits import Fit, Need  # noqa: E402
from engine.models import ModelSpec  # noqa: E402
from engine.offers import GpuOffer  # noqa: E402
from engine.policies import STUDIOTV  # noqa: E402
from engine.sizing import feasible_fits  # noqa: E402
from engine.winners import Compiled, SetupIndex, compile_ways  # noqa: E402
from tracker.facts.catalogue import Catalogue, load_catalogue  # noqa: E402

FORMATS = ("bf16", "fp8", "int4", "q4_k_m")
DAY = datetime(2026, 11, 25, tzinfo=UTC)
ROUNDS = 9
CHANGES = 500
FULL_GOAL, CHANGE_GOAL = 50, 30


@dataclass(frozen=True, slots=True)
class World:
    """What the three ways are asked about."""

    catalogue: Catalogue
    models: Sequence[ModelSpec]
    fits: Sequence[Sequence[Fit]]
    compiled: Sequence[Compiled]
    offers: Sequence[GpuOffer]
    policy: SetupPolicy


def main() -> int:
    """Prints the three times and the two ratios; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--models", type=int, default=120)
    parser.add_argument("--offers", type=int, default=30_000)
    asked = parser.parse_args()
    world = build(asked.models, asked.offers)
    print(f"{len(world.models)} models x {len(FORMATS)} formats, {sum(map(len, world.fits)):,} fits, {len(world.offers):,} offers")

    full_s = median(timed(lambda: SetupIndex(world.compiled, world.offers, world.policy).winners()) for _ in range(ROUNDS))
    index = SetupIndex(world.compiled, world.offers, world.policy)
    started = process_time()
    slow = naive(world)
    naive_s = process_time() - started
    fast = {model: setup.order for model, setup in index.winners().items()}
    if fast != slow:
        print(f"winners differ: {sorted(m for m in {*fast, *slow} if fast.get(m) != slow.get(m))}")
        return 1
    change_s, moved = changes(world, index)
    print(f"winners: {len(fast)}, identical in both; {moved} of {CHANGES} changes moved one")
    print(f"naive loop        {naive_s * 1000:10.1f} ms")
    print(f"full recompute    {full_s * 1000:10.1f} ms   {naive_s / full_s:8.0f} x the naive loop   (goal {FULL_GOAL})")
    print(f"one changed offer {change_s * 1000:10.3f} ms   {full_s / change_s:8.0f} x the full one      (goal {CHANGE_GOAL})")
    return 0 if naive_s / full_s >= FULL_GOAL and full_s / change_s >= CHANGE_GOAL else 1


def timed(work: Callable[[], object]) -> float:
    """Seconds one call takes."""
    started = process_time()
    work()
    return process_time() - started


def naive(world: World) -> dict[str, tuple[object, ...]]:
    """The winner's order by model, by trying everything."""
    found: dict[str, tuple[object, ...]] = {}
    for model, fits in zip(world.models, world.fits, strict=True):
        by_format = {form: [fit for fit in fits if fit.weight_format == form] for form in FORMATS}
        winner = naive_winner(by_format, fidelities(model, world.catalogue.formats), world.offers, world.policy)
        if winner is not None:
            found[model.id] = winner[0]
    return found


def changes(world: World, index: SetupIndex) -> tuple[float, int]:
    """Median seconds of one rise or fall, half of them of an offer that currently wins, and how many moved a winner."""
    dice = random.Random(7)
    held = list(world.offers)
    times, moved = [], 0
    for step in range(CHANGES):
        winning = [setup.offer for setup in index.winners().values()]
        old = dice.choice(winning) if step % 2 else dice.choice(held)
        usd = (old.usd_per_hour * Decimal(dice.choice(("0.8", "0.95", "1.05", "1.3")))).quantize(Decimal("0.0001"))
        new = replace(old, usd_per_hour=usd, native_per_hour=usd)
        started = process_time()
        moved += bool(index.put(new))
        times.append(process_time() - started)
    return median(times), moved


def build(models: int, offers: int) -> World:
    """The catalogue's models with their fits, and a seeded book of offers."""
    catalogue = load_catalogue(ROOT / "config")
    policy = SetupPolicy()
    known = [m for m in catalogue.models.values() if m.layer_groups]
    specs = [known[n % len(known)] if n < len(known) else scaled(known[n % len(known)], n) for n in range(models)]
    formats = [catalogue.formats[name] for name in FORMATS]
    fits = [feasible_fits(model, catalogue.gpus.values(), formats, Need(), STUDIOTV) for model in specs]
    compiled = [compile_ways(model, mine, catalogue.formats, policy) for model, mine in zip(specs, fits, strict=True)]
    return World(catalogue, specs, fits, compiled, book(catalogue, offers), policy)


def scaled(model: ModelSpec, number: int) -> ModelSpec:
    """A copy a few per cent larger or smaller under its own name."""
    return replace(model, id=f"{model.id}-{number}", params=model.params * (90 + number % 40) // 100)


def book(catalogue: Catalogue, offers: int) -> list[GpuOffer]:
    """Seeded offers: a base price a GPU by its memory, spread by provider and size."""
    dice = random.Random(20261125)
    gpus = [gpu for gpu in catalogue.gpus.values() if gpu.gpu_class != "unified"]
    return [one(dice, dice.choice(gpus).id, catalogue, number) for number in range(offers)]


def one(dice: random.Random, gpu: str, catalogue: Catalogue, number: int) -> GpuOffer:
    """One offer."""
    count = dice.choice((1, 1, 2, 4, 8, 8))
    per_gpu = float(catalogue.gpus[gpu].memory_marketed_gb) * 0.02 * dice.uniform(0.7, 2.5)
    usd = Decimal(str(round(per_gpu * count, 4)))
    return GpuOffer(
        provider=f"provider-{number % 25}",
        source=f"provider-{number % 25}",
        sku=f"sku-{number}",
        region=dice.choice(("us", "eu", "ap")),
        gpu=gpu,
        gpu_count=count,
        max_gpu_count=8 if count == 1 and dice.random() < 0.2 else None,
        tier=dice.choice(("on_demand", "on_demand", "on_demand", "spot")),
        trust=dice.choice(("datacenter", "datacenter", "verified", "community")),
        availability=dice.choice(("available", "listed", "unavailable")),
        price_kind=dice.choice(("list", "list", "ask")),
        currency="USD",
        native_per_hour=usd,
        usd_per_hour=usd,
        valid_from=DAY,
        seen_at=DAY,
    )


if __name__ == "__main__":
    sys.exit(main())
