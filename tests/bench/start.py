"""Cold start to the first /metrics, and memory at rest: the daemon beside an empty application on the same stack, as a ratio.

    python tests/bench/start.py [--rounds 5]    (--short: 2 rounds)

The empty application is uvicorn and FastAPI over a migrated SQLite file, with one route /metrics. Both start with a database that was
made before, and with every source switched off, so that nothing is fetched. Fails beyond 1.5, or beyond 110 MB at rest; the memory
after the first page, which loads the web framework, is held to the same, and so is that of a very first start, which makes the
database. The first /metrics must be that of a book that was read.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import tomllib
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter, sleep

ROOT = Path(__file__).resolve().parents[2]
GOAL, GOAL_MB = 1.5, 110
REST_S = 3.0  # until memory is read
EMPTY = """
import sys
import uvicorn
from fastapi import FastAPI
from fastapi.responses import PlainTextResponse
from tracker.database.handle import migrate, open_database
migrate(open_database(f"sqlite:///{sys.argv[2]}"))
app = FastAPI()

@app.get("/metrics")
def metrics() -> PlainTextResponse:
    return PlainTextResponse("up 1\\n")

uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error", lifespan="off")
"""


@dataclass(frozen=True, slots=True)
class Started:
    """Seconds to the first answer, by the clock and of the processor, and MB resident at rest; then the same of the first page."""

    seconds: float
    cpu_s: float
    mb: float
    page_s: float
    paged_mb: float


def main() -> int:
    """Prints both, the ratio and the memory; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--short", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "config").mkdir()
        (folder / "config" / "sources.toml").write_text(_all_off(), encoding="utf-8")
        first_mb = start(ours(folder), folder).mb  # makes the database, and the compiled files of both
        start(empty(folder), folder)
        pairs = [(start(ours(folder), folder), start(empty(folder), folder)) for _ in range(2 if asked.short else asked.rounds)]
    ratio = median(mine.seconds / bare.seconds for mine, bare in pairs)
    mine, bare = (median(one.seconds for one in side) for side in zip(*pairs, strict=True))
    mb, bare_mb = (median(one.mb for one in side) for side in zip(*pairs, strict=True))
    print(f"start to the first /metrics {mine:6.2f} s   empty application {bare:6.2f} s   ratio {ratio:5.2f}   (goal {GOAL})")
    cpu = median(mine.cpu_s / bare.cpu_s for mine, bare in pairs)
    print(f"of the processor alone, which a busy machine changes less: ratio {cpu:5.2f}")
    print(f"resident at rest {mb:6.1f} MB   (goal {GOAL_MB})   empty application {bare_mb:6.1f} MB")
    page_s, paged_mb = (median(values) for values in zip(*((one.page_s, one.paged_mb) for one, _ in pairs), strict=True))
    print(f"resident at rest after a very first start {first_mb:6.1f} MB   (goal {GOAL_MB})")
    print(f"the first page takes {page_s:6.2f} s more   resident after it {paged_mb:6.1f} MB   (goal {GOAL_MB})")
    return 0 if (ratio <= GOAL and max(mb, paged_mb, first_mb) <= GOAL_MB) or asked.short else 1


def _all_off() -> str:
    """The shipped sources, none of them collected."""
    shipped = tomllib.loads((ROOT / "config" / "sources.toml").read_text(encoding="utf-8"))
    lines: list[str] = []
    for name, table in shipped.items():
        lines += [f"[{name}]", *(f'{key} = "{table[key]}"' for key in ("kind", "module", "names") if key in table)]
        lines += ['base_url = "http://127.0.0.1:9"', "interval_minutes = 60", "max_age_hours = 1", "enabled = false"]
    return "\n".join(lines)


def ours(folder: Path) -> list[str]:
    return [sys.executable, "-c", "from tracker.cli import main; main()", "run", "--port", "{port}"]


def empty(folder: Path) -> list[str]:
    return [sys.executable, "-c", EMPTY, "{port}", str(folder / "empty.db")]


def start(command: list[str], folder: Path) -> Started:
    """Start it, ask until it answers, let it rest, end it."""
    port = _free_port()
    env = {**os.environ, "PYTHONPATH": str(ROOT), "BREAKEVEN_DATA": str(folder / "data"), "BREAKEVEN_CONFIG": str(folder / "config")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # or a checkout would be compiled at every start, as nothing that is installed is
    begun = perf_counter()
    process = subprocess.Popen(
        [word.format(port=port) if word == "{port}" else word for word in command], env=env, stdout=subprocess.DEVNULL
    )
    try:
        url = f"http://127.0.0.1:{port}"
        while (found := _answer(f"{url}/metrics")) is None:
            if process.poll() is not None or perf_counter() - begun > 120:
                raise SystemExit(f"{command[0]} did not start")
            sleep(0.005)
        seconds, cpu_s = perf_counter() - begun, _cpu_s(process.pid)
        if b"breakeven_build_info" in found and b"\nbreakeven_snapshot_timestamp_seconds " not in found:
            raise SystemExit("the first /metrics is that of no book")
        sleep(REST_S)
        mb, begun = _resident_mb(process.pid), perf_counter()
        _answer(f"{url}/")
        return Started(seconds, cpu_s, mb, perf_counter() - begun, _resident_mb(process.pid))
    finally:
        process.terminate()
        process.wait(20)


def _answer(url: str) -> bytes | None:
    """The body; None where there is no answer, or no such page (the empty application has one route)."""
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            body: bytes = answer.read()
            return body or None
    except (urllib.error.URLError, ConnectionError):
        return None


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _cpu_s(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _resident_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1000


if __name__ == "__main__":
    raise SystemExit(main())
