"""How far the throughput estimate is from measured runs: on all points with the shipped constants, and with each model left out.

    python tests/bench/roofline_error.py [POINTS.csv] [--no-refit] [--leave-out model gpu engine format concurrency]

Without a file it takes the runs of config/throughput; a file holds the same columns, or names models and GPUs as their publisher
does (model,gpu,gpu_count,precision,engine,parallelism,isl,osl,concurrency,output_tok_s,...). The error factor of a point is
max(estimate / measured, measured / estimate). Leaving one out fits the constants again on the points of the others.
"""

from __future__ import annotations

import argparse
import csv
import math
import re
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from engine.cache import CacheFormat
from engine.counts import Layout
from engine.facts import MissingFact
from engine.replicas import FITTED, Constants, machine
from engine.roofline import Work, pace
from engine.throughput import ThroughputPoint
from tracker.facts.catalogue import Catalogue, load_catalogue
from tracker.facts.throughput import load_points

CONFIG = Path(__file__).resolve().parents[2] / "config"
CACHE: CacheFormat = "fp8"
GOAL_MEDIAN, GOAL_P90 = 1.2, 1.65
CLIP = math.log(2.2)  # a point further off pulls the fit no harder
PULL = 0.002  # towards the start: what the points do not say stays put
ROUNDS = 14
# Where every fit starts and is pulled to: round figures, no engine faster than another, so that a model left out is not known.
START = Constants(
    bandwidth_share=0.7,
    compute_share=0.5,
    link_share=0.5,
    layer_s=50e-6,
    rank_s=20e-6,
    sequence_s=10e-6,
    engine_overhead={"vllm": 1.0, "trtllm": 1.0, "sglang": 1.0},
)
PUBLISHED_GPUS = {
    "H100": "nvidia-h100-sxm-80",
    "H200": "nvidia-h200-sxm-141",
    "B200": "nvidia-b200-sxm-180",
    "B300": "nvidia-b300-sxm-288",
    "GB200": "nvidia-gb200-186",
    "GB300": "nvidia-gb300-279",
    "A100": "nvidia-a100-sxm-80",
    "L40S": "nvidia-l40s",
    "MI300X": "amd-mi300x",
    "MI325X": "amd-mi325x",
    "MI355X": "amd-mi355x",
}
LOAD = ("gpu_count", "isl", "osl", "concurrency", "output_tok_s")
PRECISIONS = {"fp8_block": "fp8", "bfloat16": "bf16", "float16": "fp16", "fp4": "nvfp4"}  # where they differ from our format ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One run and the function that estimates it under given constants."""

    point: ThroughputPoint
    estimate: Callable[[Constants], float]


GROUPS: dict[str, Callable[[ThroughputPoint], str]] = {
    "model": lambda point: point.model,
    "gpu": lambda point: point.gpu,
    "engine": lambda point: point.engine_name,
    "format": lambda point: point.weight_format,
    "concurrency": lambda point: f"{point.concurrency:4d}",
}


def main(arguments: Sequence[str]) -> int:
    """Print the report; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("points", nargs="?", type=Path)
    parser.add_argument("--no-refit", action="store_true", help="leave out the fits without one model (about half a minute)")
    parser.add_argument("--leave-out", nargs="+", choices=GROUPS, default=["model"], help="what is left out in turn")
    given = parser.parse_args(arguments)
    catalogue = load_catalogue(CONFIG)
    points = load_points(CONFIG, None, catalogue) if given.points is None else read_points(given.points, catalogue)
    cases = [case for point in points if (case := case_of(point, catalogue)) is not None]
    if not cases:
        print("no point of a known model and GPU")
        return 1
    print(f"{len(cases)} of {len(points)} points can be estimated")
    missed = report("all, shipped constants", [error(case, FITTED) for case in cases])
    for name, of in GROUPS.items():
        for value in sorted({of(case.point) for case in cases}):
            report(f"  {name} {value}", [error(case, FITTED) for case in cases if of(case.point) == value])
    for name in () if given.no_refit else given.leave_out:
        missed = leave_one_out(cases, name) or missed
    return int(missed)


def leave_one_out(cases: Sequence[Case], name: str) -> bool:
    """Report each model (or GPU, ...) under constants fitted without it; whether a goal is missed over all."""
    errors: list[float] = []
    of = GROUPS[name]
    for value in sorted({of(case.point) for case in cases}):
        constants = fitted([case for case in cases if of(case.point) != value])
        own = [error(case, constants) for case in cases if of(case.point) == value]
        report(f"  without {name} {value}", own)
        errors += own
    return report(f"leave one {name} out", errors)


def report(name: str, errors: Sequence[float]) -> bool:
    """One line of the report from log errors; whether a goal is missed."""
    factors = sorted(math.exp(abs(e)) for e in errors)
    median, p90 = statistics.median(factors), factors[min(len(factors) - 1, int(0.9 * len(factors)))]
    bias = math.exp(statistics.median(errors))
    print(f"{name:44s} {len(factors):5d} points  median x{median:.3f}  p90 x{p90:.3f}  bias x{bias:.3f}")
    return median > GOAL_MEDIAN or p90 > GOAL_P90


def error(case: Case, constants: Constants) -> float:
    """Logarithm of estimate over measured."""
    return math.log(case.estimate(constants) / case.point.output_tok_s)


def fitted(cases: Sequence[Case]) -> Constants:
    """Constants of the least mean clipped log error: one after the other is moved up or down while that helps."""
    best, step = START, 0.25
    score = loss(cases, best)
    for _ in range(ROUNDS):
        moved = False
        for move in MOVES:
            for factor in (1 + step, 1 / (1 + step)):
                tried = move(best, factor)
                if (value := loss(cases, tried)) < score - 1e-6:
                    best, score, moved = tried, value, True
        step = step if moved else step / 2
    return best


def loss(cases: Sequence[Case], constants: Constants) -> float:
    """Mean absolute log error, clipped, and the pull to the start."""
    mean = statistics.fmean(min(abs(error(case, constants)), CLIP) for case in cases)
    return mean + PULL * sum(math.log(a / b) ** 2 for a, b in zip(free(constants), free(START), strict=True))


def free(constants: Constants) -> tuple[float, ...]:
    """The constants a fit moves."""
    c = constants
    times = (c.layer_s, c.rank_s, c.sequence_s)
    return (c.bandwidth_share, c.compute_share, c.link_share, *times, *(c.engine_overhead[e] for e in ("trtllm", "sglang")))


def _scaled(field: str) -> Callable[[Constants, float], Constants]:
    return lambda constants, factor: replace(constants, **{field: getattr(constants, field) * factor})


def _engine(name: str) -> Callable[[Constants, float], Constants]:
    def move(constants: Constants, factor: float) -> Constants:
        return replace(constants, engine_overhead={**constants.engine_overhead, name: constants.engine_overhead[name] * factor})

    return move


FIELDS = ("bandwidth_share", "compute_share", "link_share", "layer_s", "rank_s", "sequence_s")
MOVES = (*(_scaled(field) for field in FIELDS), _engine("trtllm"), _engine("sglang"))


def case_of(point: ThroughputPoint, catalogue: Catalogue) -> Case | None:
    """The point as the roofline sees it; None where a fact is missing."""
    model, gpu = catalogue.models[point.model], catalogue.gpus[point.gpu]
    weight_format = catalogue.formats[point.weight_format]
    tp = point.tp or point.gpu_count
    layout = Layout(tp=tp, pp=max(1, point.gpu_count // tp))
    work = Work(fresh=point.isl, output=point.osl)

    def estimate(constants: Constants) -> float:
        replica = machine(model, gpu, weight_format, layout, point.engine_name, constants)
        return pace(replica, work, point.concurrency, CACHE, constants=constants).output_tok_s

    try:
        estimate(FITTED)
    except MissingFact:
        return None
    return Case(point=point, estimate=estimate)


def read_points(path: Path, catalogue: Catalogue) -> tuple[ThroughputPoint, ...]:
    """Runs of a file in our columns or in the publisher's; what names no known model, GPU, precision or load is left out and counted."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    points = [point for row in rows if (point := _published(row, catalogue)) is not None]
    print(f"{path}: {len(rows)} rows, {len(rows) - len(points)} without a known model, GPU, precision or load")
    return tuple(points)


def _published(row: dict[str, str], catalogue: Catalogue) -> ThroughputPoint | None:
    model = row["model"] if row["model"] in catalogue.models else _alias(row["model"], catalogue)
    gpu = row["gpu"] if row["gpu"] in catalogue.gpus else PUBLISHED_GPUS.get(re.split("[ _-]", row["gpu"].upper())[0])
    precision = row.get("precision", "").lower()
    weight_format = row.get("weight_format") or PRECISIONS.get(precision, precision)
    if weight_format == "nvfp4" and model and catalogue.models[model].native_format == "mxfp4":
        weight_format = "mxfp4"
    if model is None or gpu is None or weight_format not in catalogue.formats or not all(row[name] for name in LOAD):
        return None
    tp = re.search(r"TP(\d+)", row.get("parallelism", ""))
    return ThroughputPoint(
        model=model,
        gpu=gpu,
        gpu_count=int(row["gpu_count"]),
        weight_format=weight_format,
        engine=row["engine"].lower(),
        tp=int(row.get("tp") or (tp.group(1) if tp else 0)),
        isl=int(row["isl"]),
        osl=int(row["osl"]),
        concurrency=int(row["concurrency"]),
        output_tok_s=float(row["output_tok_s"]),
        measured=date.fromisoformat(row.get("measured") or row["date"]),
    )


def _alias(name: str, catalogue: Catalogue) -> str | None:
    found = catalogue.model_for("huggingface", "huggingface", name)
    return None if found is None else found.model


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
