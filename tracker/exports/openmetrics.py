"""OpenMetrics text with timestamps, for ``promtool tsdb create-blocks-from openmetrics``.

A metric's samples stand together in the order of time, as OpenMetrics 1.0 asks; a step without a fresh value has no sample.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TextIO

from sqlalchemy import Engine

from tracker.database.rows import to_s
from tracker.exports.past import Labels, Past, Steps, record
from tracker.metrics.exposition import Family
from tracker.world import World


def write_openmetrics(out: TextIO, db: Engine, world: World, steps: Steps) -> int:
    """Write what ``/metrics`` would have said at every step; returns the number of samples."""
    with Past() as past:
        record(past, db, world, steps)
        for family in past.families.values():
            out.writelines(_lines(past, family, steps))
        out.write("# EOF\n")
        return past.samples


def _lines(past: Past, family: Family, steps: Steps) -> Iterator[str]:
    yield f"# HELP {family.name} {_escaped(family.text)}\n# TYPE {family.name} {family.kind}\n"
    name = f"{family.name}_total" if family.kind == "counter" else family.name
    for run in past.series(family.name):
        head = f"{name}{_labels(run.labels)} {run.value!r}"
        for number in range(run.first, run.last + 1):
            yield f"{head} {to_s(steps.at(number))}\n"


def _labels(labels: Labels) -> str:
    return "" if not labels else "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
