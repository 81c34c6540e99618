"""Replays the recorded series beside the checkout through resolve, guard, store and book, and counts what became of their rows.

    python tests/bench/guard_replay.py [clouds | markets | october | tokens]

For each source: sweeps, failed ones, rows, prices printed for the first time, how many of them were listed in that sweep and in the
next, prices known to be wrong, how many of those were listed, and how often one of them won the cheapest table.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from replays import (
    Feed,
    Replay,
    aws,
    azure,
    gcp,
    genai,
    marketplaces,
    neoclouds_october,
    portkey,
    runpod_october,
    scaleway,
    token_maps,
    wrong_in_cheapest,
)

from tracker.paths import config_dir
from tracker.world import World, load_world

SHARED = Path(__file__).resolve().parents[3] / "shared"
GROUPS: dict[str, Callable[[Path, World], list[Feed]]] = {
    "clouds": lambda shared, world: [aws(shared, world), azure(shared, world), gcp(shared, world), scaleway(shared, world)],
    "markets": lambda shared, world: marketplaces(shared),
    "october": lambda shared, world: [*neoclouds_october(shared, world), runpod_october(shared)],
    "tokens": lambda shared, world: [genai(shared), portkey(shared), token_maps(shared)],
}
HEADER = ("source", "sweeps", "failed", "rows", "first", "listed", "next", "rejected", "wrong", "listed")


def replay(name: str) -> tuple[Replay, list[str]]:
    """One group of series; and the wrong winners of the cheapest table over all its sweeps."""
    winners: list[str] = []

    def watch(run: Replay, _feed: Feed, at: datetime) -> None:
        winners.extend(wrong_in_cheapest(run, at))

    with tempfile.TemporaryDirectory() as folder:
        run = Replay(Path(folder), GROUPS[name](SHARED, load_world(config_dir())))
        run.run(watch)
        return run, winners


def main(names: list[str]) -> int:
    """Print the counts; 1 when a wrong price was listed or won, or more than one row in a hundred came late."""
    if not SHARED.is_dir():
        print(f"{SHARED} is not here: nothing to replay")
        return 0
    bad = False
    for name in names or list(GROUPS):
        run, winners = replay(name)
        print(f"{name}\n" + "".join(f"{word:>10}" if word != "source" else f"{word:<22}" for word in HEADER))
        for source, t in run.tallies.items():
            cells = (t.sweeps, t.failed, t.rows, t.first, t.first_listed, t.second, t.rejected, t.wrong_printed, t.wrong_listed)
            print(f"{source:<22}" + "".join(f"{cell:>10}" for cell in cells))
        tallies = run.tallies.values()
        rows, late = sum(t.rows - t.wrong_printed for t in tallies), sum(t.first - t.first_listed for t in tallies)
        wrong = sum(t.wrong_listed for t in tallies)
        print(f"{rows} rows not known to be wrong, {late} not listed in the sweep they were first seen in ({1 - late / rows:.2%} pass)")
        print(f"wrong prices listed: {wrong}; wrong winners of the cheapest table: {len(winners)} {winners[:3] or ''}\n")
        bad = bad or bool(wrong or winners) or late * 100 > rows
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
