"""An EC2-shaped offer file of 50 and of 500 MB through the client: memory over baseline, and time against a bare csv prefilter loop.

    python tests/bench/offer_file.py [--megabytes 50 500]

The files are generated (seeded, about 1,400 bytes a line as in the published ones, about 300 of the rows GPU instances on demand: a
region has as many of them however many other rows) into a temporary folder and served by a process of its own on 127.0.0.1. Every reading
is a fresh process; the bare loop reads the same file from the disk, line by line with the same test, and parses what passes with csv.
Fails where a reading takes 25 MB or more over its baseline, where the two sizes differ by more than 3 MB, where the client needs more than
twice the time of the loop, or where the rows differ.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import multiprocessing
import random
import resource
import sys
import tempfile
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from time import monotonic, perf_counter

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from scrapers import aws  # noqa: E402  the path is set above
from scrapers.contract import GpuQuote  # noqa: E402
from scrapers.http import HostGate, SourceLimits, open_client  # noqa: E402

HEADER = (
    "SKU", "OfferTermCode", "RateCode", "TermType", "PriceDescription", "EffectiveDate", "Unit", "PricePerUnit", "Currency",
    "Location Type", "Instance Type", "vCPU", "Memory", "Tenancy", "Operating System", "License Model", "CapacityStatus", "GPU",
    "Pre Installed S/W", "MarketOption", "Region Code", "Filler",
)  # fmt: skip
TYPES = ("m7i.large", "c7g.4xlarge", "r7a.8xlarge", "i7ie.large", "m6i.metal")
GPU_TYPES = (("p5.48xlarge", "8", "55.0400000000"), ("g6.xlarge", "1", "0.8048000000"), ("p4d.24xlarge", "8", "21.9576420000"))
MOST_MB, MOST_APART_MB, MOST_TIMES = 25, 3, 2
ROUNDS = 3
GPU_ROWS, LINE_BYTES = 300, 1_400


def main() -> int:
    """Prints one line a size; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--megabytes", type=int, nargs="+", default=[50, 500])
    sizes = parser.parse_args().megabytes
    with tempfile.TemporaryDirectory() as folder:
        results = [measure(Path(folder), size) for size in sizes]
    peaks = [over for over, _, _ in results]
    apart = max(peaks) - min(peaks)
    print(f"memory of the sizes apart by {apart:.1f} MB")
    good = max(peaks) < MOST_MB and apart <= MOST_APART_MB and all(times <= MOST_TIMES and same for _, times, same in results)
    return 0 if good else 1


def measure(folder: Path, megabytes: int) -> tuple[float, float, bool]:
    """MB over baseline, time as a multiple of the bare loop's, and whether both found the same rows."""
    path = folder / f"{megabytes}.csv"
    write_file(path, megabytes * 10**6)
    ours, loops, over, found = [], [], 0.0, set()
    with served(path) as url:
        for _ in range(ROUNDS):  # in turn, so that a slow moment of the machine meets both
            client = in_process(read_with_client, url)
            loop = in_process(read_with_loop, str(path))
            ours.append(client["seconds"])
            loops.append(loop["seconds"])
            over = max(over, client["over_mb"])
            found |= {client["rows"], loop["rows"]}
    times = median(ours) / median(loops)
    print(
        f"{megabytes} MB: {over:.1f} MB over baseline; client {median(ours):.2f} s, bare loop {median(loops):.2f} s, "
        f"{times:.2f} times; rows {sorted(found)}"
    )
    path.unlink()
    return over, times, len(found) == 1


def write_file(path: Path, size: int) -> None:
    """The generated offer file: five lines about the file, a header, and rows until ``size`` bytes."""
    chance = random.Random(20261129)
    filler = "Intel AMX; Intel AVX; Intel AVX2; Intel AVX512; Intel Turbo; " * 15
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
        for line in (
            ("FormatVersion", "v1.0"),
            ("Disclaimer", "..."),
            ("Publication Date", "..."),
            ("Version", "1"),
            ("OfferCode", "AmazonEC2"),
        ):
            writer.writerow(line)
        writer.writerow(HEADER)
        while file.tell() < size:
            for _ in range(200):
                writer.writerow(row(chance, GPU_ROWS * LINE_BYTES / size, filler))


def row(chance: random.Random, gpu_share: float, filler: str) -> tuple[str, ...]:
    """A row; the literals are as frequent as in the published files: few rows pass all of them."""
    sku = f"{chance.getrandbits(64):016X}"
    term_code = "JRTCKXETXF"
    gpu = chance.random() < gpu_share
    kind, gpus, price = chance.choice(GPU_TYPES) if gpu else (chance.choice(TYPES), "NA", "0.1000000000")
    term = "OnDemand" if gpu or chance.random() < 0.15 else "Reserved"
    system = "Linux" if gpu else chance.choice(("Linux", "Windows", "RHEL", "SUSE", "Ubuntu Pro"))
    tenancy = "Shared" if gpu else chance.choice(("Shared", "Dedicated", "Host"))
    return (
        sku, term_code, f"{sku}.{term_code}.6YS6EN2CT7", term, f"${price} per {term} {system} {kind} Hour", "2026-11-01", "Hrs", price,
        "USD", "AWS Region", kind, "192", "2048 GiB", tenancy, system, "No License required", "Used", gpus, "NA", "OnDemand",
        f"test-{sku}", filler,
    )  # fmt: skip


class served:
    """A process of its own that serves one file for as long as the context is open."""

    def __init__(self, path: Path) -> None:
        spawn = multiprocessing.get_context("spawn")
        ours, theirs = spawn.Pipe()
        self._process = spawn.Process(target=serve, args=(str(path), theirs), daemon=True)
        self._process.start()
        self._url = f"http://127.0.0.1:{ours.recv()}"

    def __enter__(self) -> str:
        return self._url

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.join()


def serve(path: str, told: multiprocessing.connection.Connection) -> None:
    """Answers every GET with the file, from the disk, until the process is ended."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with open(path, "rb") as file:
                self.send_response(200)
                self.send_header("Content-Length", str(Path(path).stat().st_size))
                self.end_headers()
                self.wfile.flush()
                self.connection.sendfile(file)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    told.send(server.server_address[1])
    server.serve_forever()


def in_process(work: Callable[[str], int], where: str) -> dict[str, float]:
    """What a fresh process measured: seconds, rows, and MB of its peak over the peak before it began."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=measured, args=(work, where, theirs))
    process.start()
    result = ours.recv()
    process.join()
    return dict(json.loads(result))


def measured(work: Callable[[str], int], where: str, told: multiprocessing.connection.Connection) -> None:
    before, start = peak_mb(), perf_counter()
    rows = work(where)
    told.send(json.dumps({"seconds": perf_counter() - start, "over_mb": peak_mb() - before, "rows": rows}))


def peak_mb() -> float:
    """Most memory this process ever held, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6


def read_with_client(url: str) -> int:
    """GPU rows found through the client and the parser of the product."""
    limits = SourceLimits(base_url=url, user_agent="breakeven-bench/0.1", deadline_s=600, min_interval_s=0)
    with open_client(limits, host_gate=HostGate(monotonic=monotonic), now=lambda: datetime.now(UTC), stop=threading.Event()) as client:
        page = client.get_lines("/index.csv", aws.LINES)
    return sum(isinstance(found, GpuQuote) for found in aws.parse([page]))


def read_with_loop(path: str) -> int:
    """GPU rows found by the plainest loop that does the same: test the raw line, parse what passes."""
    kept, columns = 0, dict(zip(HEADER, range(len(HEADER)), strict=True))
    with open(path, "rb") as file:
        for line in file:
            if all(literal in line for literal in aws.LINES.all_of):
                values = next(csv.reader(io.StringIO(line.decode())))
                kept += values[columns["TermType"]] == "OnDemand" and values[columns["GPU"]] != "NA"
    return kept


if __name__ == "__main__":
    sys.exit(main())
