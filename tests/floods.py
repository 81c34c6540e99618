"""Every source over real HTTP against an upstream that floods, drips, hangs or answers with a bomb: what it costs in memory and time.

By hand: ``python tests/floods.py``. One process a fault, so that its peak of memory is its own.
"""

from __future__ import annotations

import io
import json
import os
import resource
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

from upstream import Route, Seen, Upstream

from scrapers.http import HostGate
from tracker.config import Source
from tracker.database.handle import migrate, open_database
from tracker.paths import config_dir
from tracker.sweeps.collect import Collector, collect_source
from tracker.world import load_world

DEADLINE_S = 3.0
MIB = 2**20


def zip_bomb() -> bytes:
    """A small archive of a CSV of 1 GiB of zeros."""
    body = io.BytesIO()
    with (
        zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive,
        archive.open("aws.csv", "w", force_zip64=True) as file,
    ):
        for _ in range(1024):
            file.write(bytes(MIB))
    return body.getvalue()


def laughs() -> bytes:
    """XML entities that would become 10**9 words."""
    levels = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    return f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY l0 "ha">{levels}]><x>&l9;</x>'.encode()


BODIES: dict[str, Callable[[], bytes]] = {
    "zip bomb": zip_bomb,
    "entities": laughs,
    "nested": lambda: b"[" * 10 * MIB,
    "number": lambda: b'{"data": ' + b"9" * 10 * MIB + b"}",
    "tags": lambda: b"<html><table>" + b"<tr><td>" * 60_000,
    "deep tags": lambda: b"<html><table>" + b"<tr><td colspan=999>" * 5_000,
}
FAULTS = ("bomb:2048", "flood:500", "drip:0.05", "drip-head:0.05", "hang", "truncate", "html", *BODIES)


@dataclass(frozen=True)
class Cost:
    """What a fault did to all sources: MiB over what the process had before, the slowest source in seconds, and who was not failed."""

    mib: float
    seconds: float
    statuses: dict[str, str]


class Everywhere(Upstream):
    """Answers every address alike, but for robots.txt and the version file in front of an archive."""

    def __init__(self, fault: str) -> None:
        self.fault = "" if fault in BODIES else fault
        self.body = BODIES[fault]() if fault in BODIES else b'{"data": [' + b"1," * 2000 + b"1]}"
        super().__init__()

    def find(self, asked: Seen) -> tuple[Route, str] | None:
        if asked.path == "/robots.txt":
            return None
        if asked.path.endswith("/version"):
            return Route(path=asked.path, body=b"20261129-1"), ""
        return Route(path=asked.path, body=self.body, etag=False), self.fault


def measure(fault: str) -> Cost:
    """All sources under one fault, four at a time."""
    world = load_world(config_dir())
    with tempfile.TemporaryDirectory() as folder, Everywhere(fault) as upstream:
        sources = {name: _local(source, upstream.url) for name, source in world.config.sources.items()}
        fetch = world.settings.fetch.model_copy(update={"attempts": 1, "host_spacing_s": 0, "deadline_s": DEADLINE_S, "read_timeout_s": 2})
        config = replace(world.config, sources=sources, settings=world.settings.model_copy(update={"fetch": fetch}))
        db = open_database(f"sqlite:///{folder}/book.db")
        migrate(db)
        now = lambda: datetime.now(UTC)  # noqa: E731
        collector = Collector(world=replace(world, config=config), db=db, now=now, gate=HostGate(monotonic=monotonic))
        before = _peak_mib()
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda source: _collect(collector, source), sources.values()))
        return Cost(
            mib=_peak_mib() - before,
            seconds=max(s for s, _ in found),
            statuses=dict(zip(sources, (status for _, status in found), strict=True)),
        )


def _collect(collector: Collector, source: Source) -> tuple[float, str]:
    start = monotonic()
    report = collect_source(collector, source)
    return monotonic() - start, "off" if report is None else f"{report.status}: {report.error}"


def _local(source: Source, url: str) -> Source:
    """A source at the upstream; with a key where it takes one, and without waits between its pages."""
    if source.settings.key_env:
        os.environ[source.settings.key_env] = "k"
    changed = {"base_url": url, "enabled": True, "deadline_s": DEADLINE_S, "host_spacing_s": 0}
    return replace(source, settings=source.settings.model_copy(update=changed))


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(fault: str) -> Cost:
    """``measure`` in a process of its own."""
    here = Path(__file__).resolve()
    done = subprocess.run(
        [sys.executable, str(here), fault], capture_output=True, text=True, timeout=300, check=True,
        env={**os.environ, "PYTHONPATH": f"{here.parents[1]}:{here.parent}"},
    )  # fmt: skip
    return Cost(**json.loads(done.stdout))


def main(faults: list[str]) -> None:
    if len(faults) == 1:
        cost = measure(faults[0])
        print(json.dumps({"mib": cost.mib, "seconds": cost.seconds, "statuses": cost.statuses}))
        return
    for fault in faults or FAULTS:
        cost = measured(fault)
        kept = [name for name, status in cost.statuses.items() if not status.startswith("failed")]
        print(f"{fault:<16}{cost.mib:8.1f} MiB {cost.seconds:6.1f} s {len(cost.statuses)} sources, not failed: {kept}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
