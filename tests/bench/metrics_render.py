"""``/metrics`` at 14,500 series: requests a second of the daemon's web server against prometheus_client's own, and rendering alone.

    python tests/bench/metrics_render.py [--series 14500] [--seconds 4]

Both servers are processes of their own with the same figures: the stock one holds its metrics built, so that a request costs it its own
work only (writing them out, and gzip). One client asks both in turn, with the headers of a Prometheus: it keeps a connection as long as
the server does, and reads whole bodies. The bodies are compared to the byte. Fails below 200 times, plain or gzip, or below 5 times in
rendering.
"""

from __future__ import annotations

import argparse
import gzip
import multiprocessing
import socket
import sys
import tomllib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from itertools import islice, product
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

import uvicorn  # noqa: E402  the path is set above
from prometheus_client import CollectorRegistry, generate_latest, start_http_server  # noqa: E402
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric  # noqa: E402

from engine.rates import TOKEN_KINDS, TokenPrices, TokenRate  # noqa: E402
from tracker.answers.snapshot import Snapshot  # noqa: E402
from tracker.book.book import Book, Listed  # noqa: E402
from tracker.book.entry_values import NO_OFFERS, rates_of  # noqa: E402
from tracker.book.exchange import Exchange  # noqa: E402
from tracker.database.faults import Trouble  # noqa: E402
from tracker.database.handle import open_database  # noqa: E402
from tracker.metrics.exposition import Renderer, assemble  # noqa: E402
from tracker.metrics.families import families  # noqa: E402
from tracker.paths import config_dir  # noqa: E402
from tracker.service.serving import listen  # noqa: E402
from tracker.web.front import make_front  # noqa: E402
from tracker.world import load_world  # noqa: E402

NOW = datetime(2026, 11, 29, tzinfo=UTC)
ACCEPT = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5"
SKUS = ("standard", "batch", "flex", "priority", "highspeed", "free")
TIMES, RENDER_TIMES, ROUNDS = 200, 5, 3


def main() -> int:
    """Prints a line for each measurement; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--series", type=int, default=14_500)
    parser.add_argument("--seconds", type=float, default=4.0)
    asked = parser.parse_args()
    good = rendering(asked.series)
    with served(stock, asked.series) as one, served(ours, asked.series) as other:
        for encoding in ("identity", "gzip"):
            good = compare(one, other, encoding, asked.seconds) and good
    return 0 if good else 1


def snapshot_of(series: int) -> Snapshot:
    """A snapshot whose price lists make about so many series, five of each: our models, sources for providers, and skus."""
    models = sorted(path.stem for path in (ROOT / "config" / "models").glob("*.toml"))
    providers = tomllib.loads((ROOT / "config" / "sources.toml").read_text(encoding="utf-8"))
    entries = []
    for number, (sku, model, provider) in enumerate(islice(product(SKUS, models, providers), series // len(TOKEN_KINDS))):
        prices = TokenPrices(**{kind: Decimal(number + place + 1) / 1000 for place, kind in enumerate(TOKEN_KINDS)})
        rate = TokenRate(
            provider=provider, source="bench", source_model="m", model=model, sku=sku, currency="USD", native=prices, usd=prices,
            valid_from=NOW, seen_at=NOW,
        )  # fmt: skip
        entries.append(Listed(value=rate, origin="bench", fresh=True, imported=False))
    book = Book(at=NOW, offers=NO_OFFERS, price_lists=rates_of(entries), exchange=Exchange({}, {}), unpriced={}, known=NOW)
    return Snapshot(at=NOW, book=book, answers=(), sources=())


# --- rendering alone --------------------------------------------------------------------------------------------------------


def rendering(series: int) -> bool:
    """The two writers on the same families."""
    found = list(families(snapshot_of(series)))
    registry, renderer = registry_of(series), Renderer()
    lines = sum(len(family.samples) for family in found)
    written = assemble(renderer.lines(found), "text")
    same = written == generate_latest(registry)
    first, again = timed(lambda: assemble(Renderer().lines(found), "text")), timed(lambda: assemble(renderer.lines(found), "text"))
    theirs = timed(lambda: generate_latest(registry))
    print(
        f"render {lines:,} series, {len(written):,} bytes: prometheus_client {theirs * 1000:.1f} ms, ours {again * 1000:.1f} ms "
        f"(the first {first * 1000:.1f} ms), {theirs / again:.1f} times; bytes {'equal' if same else 'DIFFER'}"
    )
    return same and theirs / again >= RENDER_TIMES


def timed(work: Callable[[], object]) -> float:
    took = []
    for _ in range(7):
        start = perf_counter()
        work()
        took.append(perf_counter() - start)
    return median(took)


# --- servers ----------------------------------------------------------------------------------------------------------------


class Held:
    """A collector whose metrics are built already."""

    def __init__(self, series: int) -> None:
        self.metrics = []
        for family in families(snapshot_of(series)):
            metric = (GaugeMetricFamily if family.kind == "gauge" else CounterMetricFamily)(family.name, family.text, labels=family.labels)
            for values, number in family.samples:
                metric.add_metric(values, number)
            self.metrics.append(metric)

    def collect(self) -> Iterator[Metric]:
        yield from self.metrics


def registry_of(series: int) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Held(series))  # type: ignore[arg-type]
    return registry


def stock(series: int, ready: Any) -> None:
    """prometheus_client's server."""
    server, thread = start_http_server(0, "127.0.0.1", registry_of(series))
    ready.send(server.server_port)
    thread.join()


def ours(series: int, ready: Any) -> None:
    """The daemon's web server, as the daemon starts it."""

    class Served:
        snapshot, world, db, trouble = snapshot_of(series), load_world(config_dir()), open_database("sqlite://"), Trouble()
        draw = None  # nobody asks for a picture

        def now(self) -> datetime:
            return NOW

    bound = listen("127.0.0.1", 0)
    ready.send(bound.getsockname()[1])
    uvicorn.Server(uvicorn.Config(make_front(Served()), log_config=None, access_log=False, lifespan="off")).run(sockets=[bound])  # type: ignore[arg-type]


class served:
    """A server in a process of its own, ended with the block; gives its port."""

    def __init__(self, target: Callable[[int, Any], None], series: int) -> None:
        mine, theirs = multiprocessing.get_context("spawn").Pipe()
        self._mine = mine
        self._process = multiprocessing.get_context("spawn").Process(target=target, args=(series, theirs), daemon=True)

    def __enter__(self) -> int:
        self._process.start()
        port: int = self._mine.recv()
        return port

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()


# --- the client -------------------------------------------------------------------------------------------------------------


class Client:
    """Asks for the metrics over one connection as long as the server keeps it."""

    def __init__(self, port: int, encoding: str) -> None:
        self._address = ("127.0.0.1", port)
        self._request = (
            f"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: Prometheus/2.42.0\r\nAccept: {ACCEPT}\r\n"
            f"Accept-Encoding: {encoding}\r\n\r\n"
        ).encode()
        self._socket: socket.socket | None = None
        self._buffer = bytearray(16 * 2**20)

    def ask(self) -> memoryview:
        """A body, whole."""
        if self._socket is None:
            self._socket = socket.create_connection(self._address, timeout=30)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(self._request)
        view, got, ends = memoryview(self._buffer), 0, -1
        while ends < 0:
            got += self._read(view[got:])
            ends = self._buffer.find(b"\r\n\r\n", 0, got)
        head = bytes(view[:ends]).lower()
        if b" 200 " not in head[:16]:
            raise RuntimeError(head[:40])
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        while got < ends + 4 + length:
            got += self._read(view[got:])
        if head.startswith(b"http/1.0"):
            self._socket.close()
            self._socket = None
        return view[ends + 4 : ends + 4 + length]

    def _read(self, into: memoryview) -> int:
        assert self._socket is not None
        count = self._socket.recv_into(into)
        if count == 0:
            raise RuntimeError("the server hung up in the middle of a body")
        return count


def compare(stock_port: int, our_port: int, encoding: str, seconds: float) -> bool:
    """Both in turn, three rounds; the middle one counts."""
    clients = [Client(stock_port, encoding), Client(our_port, encoding)]
    bodies = [bytes(client.ask()) for client in clients]
    if encoding == "gzip":
        bodies = [gzip.decompress(body) for body in bodies]
    same = bodies[0] == bodies[1]
    rates = [[rate(client, seconds) for client in clients] for _ in range(ROUNDS)]
    theirs, mine = (median(column) for column in zip(*rates, strict=True))
    print(
        f"serve {encoding}, {len(bodies[1]):,} bytes: prometheus_client {theirs:.1f} requests/s, ours {mine:,.0f}, "
        f"{mine / theirs:.0f} times (goal {TIMES}); bytes {'equal' if same else 'DIFFER'}"
    )
    return same and mine / theirs >= TIMES


def rate(client: Client, seconds: float) -> float:
    client.ask()
    start, count = perf_counter(), 0
    while (now := perf_counter()) - start < seconds:
        client.ask()
        count += 1
    return count / (now - start)


if __name__ == "__main__":
    sys.exit(main())
