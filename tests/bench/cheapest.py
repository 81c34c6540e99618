"""The cheapest 8 x H100 on demand, every matching offer in order of price: the program's search beside gpuhunt's Catalog.query, as a ratio.

    python tests/bench/cheapest.py [--offers 20000 100000] [--rounds 21]    (--short: 5,000 offers, 7 rounds)

Both hold the same seeded offers in memory. gpuhunt comes from PyPI into build/gpuhunt, an environment of its own, and runs there; it
is given its items as it loads them. Its list is merged from its providers' lists and holds equal rows; ours is strictly sorted. The
first call of the program, which sorts the book, is told apart. Fails below 25, or where the rows differ.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import venv
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from statistics import median
from time import perf_counter

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "bench")]

from stream import START, stream  # noqa: E402  the path is set above

from engine.offers import GpuOffer  # noqa: E402
from tracker.book.book import Book, Listed  # noqa: E402
from tracker.book.entry_values import NO_RATES, offers_of  # noqa: E402
from tracker.book.exchange import Exchange  # noqa: E402
from tracker.book.offer_search import OfferSearch  # noqa: E402
from tracker.database.rows import OfferRow  # noqa: E402
from tracker.service.memory import collect_rarely  # noqa: E402

GOAL = 25
PEER = ROOT / "build" / "gpuhunt"
VERSION = "0.1.34"
H100 = "gpu-20"
PEER_CODE = """
import json, sys, time
from gpuhunt import Catalog, CatalogItem
from gpuhunt._internal.catalog import OFFLINE_PROVIDERS, ProviderCatalog
asked = json.load(sys.stdin)
lists = {name: [] for name in OFFLINE_PROVIDERS}
for source, sku, region, usd, gpu, count, spot in asked["offers"]:
    name = OFFLINE_PROVIDERS[source % len(OFFLINE_PROVIDERS)]
    lists[name].append(CatalogItem(provider=name, instance_name=sku, location=region, price=usd, cpu=8, memory=64, gpu_count=count,
        gpu_name="H100" if gpu == asked["wanted"] else gpu, gpu_memory=80, spot=spot, disk_size=None, gpu_vendor="nvidia"))
catalog = Catalog(balance_resources=False, auto_reload=False)
catalog.loaded_at = time.monotonic()
catalog.catalog = {name: ProviderCatalog(version="1", items=sorted(items, key=lambda i: i.price)) for name, items in lists.items()}
seconds = []
for _ in range(asked["rounds"]):
    started = time.perf_counter()
    found = catalog.query(gpu_name="H100", min_gpu_count=8, max_gpu_count=8, spot=False)
    seconds.append(time.perf_counter() - started)
json.dump({"seconds": seconds, "rows": [[item.instance_name, item.price] for item in found]}, sys.stdout)
"""


def main() -> int:
    """Prints times and ratios; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--offers", type=int, nargs="+", default=[20_000, 100_000])
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--short", action="store_true")
    asked = parser.parse_args()
    collect_rarely()  # as the program does
    python = install()
    sizes, rounds = ([5_000], 7) if asked.short else (asked.offers, asked.rounds)
    met = [compare(python, size, rounds, asked.short) for size in sizes]
    return 0 if all(met) else 1


def install() -> Path:
    """The interpreter of an environment with gpuhunt in it; says what is missing where it cannot be had."""
    python = PEER / "bin" / "python"
    if not python.exists():
        venv.create(PEER, with_pip=True)
    wanted = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"gpuhunt=={VERSION}"]
    if subprocess.run([str(python), "-c", "import gpuhunt"], capture_output=True, check=False).returncode != 0:
        done = subprocess.run(wanted, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"gpuhunt {VERSION} cannot be installed into {PEER}; a package index is needed:\n{done.stderr.strip()}")
    return python


def compare(python: Path, size: int, rounds: int, short: bool) -> bool:
    """One size: the peer's rounds in its own process, ours before and after them."""
    rows = [(source, row) for source, offers in enumerate(stream(size, 0).offers) for row in offers]
    book, search = book_of([row for _, row in rows]), OfferSearch()
    started = perf_counter()
    found = search.find(book, gpu=H100, gpu_count=8, tier="on_demand")
    first_s = perf_counter() - started
    before = [ours(search, book) for _ in range(rounds)]
    peer = query_peer(python, rows, rounds)
    seconds = median([*before, *(ours(search, book) for _ in range(rounds))])
    theirs = median(peer["seconds"])
    mine = [(entry.value.sku, float(entry.value.usd_per_hour)) for entry in found]
    same = sorted(mine) == sorted((sku, usd) for sku, usd in peer["rows"])
    ordered = [usd for _, usd in mine] == sorted(usd for _, usd in mine)
    ratio = theirs / seconds
    print(f"{size:,} offers, {len(found)} match; equal rows: {same}; strictly sorted: {ordered}")
    print(
        f"  search {seconds * 1000:8.3f} ms   gpuhunt {VERSION} {theirs * 1000:8.2f} ms   ratio {ratio:6.0f}   (goal {GOAL})"
        f"   first search, which sorts {first_s * 1000:.0f} ms"
    )
    return same and ordered and (ratio >= GOAL or short)


def ours(search: OfferSearch, book: Book) -> float:
    started = perf_counter()
    search.find(book, gpu=H100, gpu_count=8, tier="on_demand")
    return perf_counter() - started


def query_peer(python: Path, rows: list[tuple[int, OfferRow]], rounds: int) -> dict[str, list[object]]:
    told = [
        [source, row.sku, row.region, float(row.native_per_hour), row.gpu, row.gpu_count, row.tier == "spot"]
        for source, row in rows
    ]  # fmt: skip
    given = json.dumps({"offers": told, "wanted": H100, "rounds": rounds})
    done = subprocess.run([str(python), "-c", PEER_CODE], input=given, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"gpuhunt failed:\n{done.stderr.strip()}")
    found: dict[str, list[object]] = json.loads(done.stdout)
    return found


def book_of(rows: list[OfferRow]) -> Book:
    """The rows as offers of a book."""
    offer = GpuOffer(
        provider="x", source="x", sku="x", region="", gpu="x", gpu_count=1, tier="on_demand", currency="USD", native_per_hour=Decimal(1),
        usd_per_hour=Decimal(1), valid_from=START, seen_at=START + timedelta(hours=1),
    )  # fmt: skip
    names = ("provider", "sku", "region", "gpu", "gpu_count", "tier")
    offers = offers_of(
        Listed(
            replace(offer, native_per_hour=row.native_per_hour, usd_per_hour=row.native_per_hour, **{n: getattr(row, n) for n in names}),
            row.provider, True, False,
        )
        for row in rows
    )  # fmt: skip
    return Book(at=START, known=START, offers=offers, price_lists=NO_RATES, exchange=Exchange(days={}, rates={}), unpriced={})


if __name__ == "__main__":
    raise SystemExit(main())
