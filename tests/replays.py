"""Recorded price series as sweeps of sources, and a replay of them through resolve, guard, store and book with a clock of their own.

The quotes are read off the raw files here, without the filters of the import adapters: what is wrong in them has to meet the guard.
What is wrong was found by looking at the series with other means; ``faults`` states it as plain conditions on what was printed.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from time import monotonic
from typing import Any

from sqlalchemy import delete

from scrapers import genai_prices, litellm
from scrapers.contract import GpuQuote, LayoutChanged, Page, Row, TokenQuote
from scrapers.http import HostGate
from tracker.book.book import Book, read_book
from tracker.book.exchange import FX, load_shipped
from tracker.book.listing import OFFERS, RATES, known_prices, load_listing, prices_of
from tracker.config import Source, SourceSettings
from tracker.database.handle import migrate, open_database, reading, writing
from tracker.database.rows import identity
from tracker.facts.values import ModelAlias
from tracker.paths import config_dir
from tracker.sweeps.collect import Collector, keep, read_rows
from tracker.sweeps.store import SweepReport
from tracker.world import World, load_world

Quotes = Sequence[Row]


@dataclass(frozen=True)
class Feed:
    """One source: its sweeps in time, and which of its printed rows are known to be wrong."""

    id: str
    kind: str
    sweeps: Sequence[tuple[datetime, Quotes]]
    is_wrong: Callable[[Any, datetime], bool] = lambda row, at: False  # of rows, and of offers and rates: both name things alike
    complete: bool = True
    max_age_hours: float = 24 * 40


@dataclass
class Tally:
    """What became of the rows of one feed. ``first`` are prices printed for the first time; a wrong one should not be listed."""

    sweeps: int = 0
    failed: int = 0
    rows: int = 0
    first: int = 0
    first_listed: int = 0
    second: int = 0  # listed at the sweep after the first
    rejected: int = 0
    wrong_printed: int = 0
    wrong_listed: int = 0
    late: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


SPELLINGS = {
    (catalogue, name): ModelAlias(model=model)
    for catalogue, name, model in (
        ("portkey", "moonshot.kimi-k2-thinking", "kimi-k2-thinking"),
        ("portkey", "moonshotai.kimi-k2.5", "kimi-k2.5"),
        ("portkey", "zai.glm-5", "glm-5"),
        ("portkey", "zai.glm-4.7", "glm-4.7"),
        ("portkey", "meta.llama3-1-405b-instruct-v1:0", "llama-3.1-405b-instruct"),
        ("portkey", "meta.llama3-1-70b-instruct-v1:0", "llama-3.1-70b-instruct"),
        ("litellm", "openrouter/moonshotai/kimi-k3", "kimi-k3"),
        ("litellm", "wandb/zai-org/GLM-4.5", "glm-4.5"),
    )
}  # what the catalogue of models does not map, and these series are about


class Clock:
    """The time of the sweep that is replayed."""

    at = datetime(2020, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.at


class Replay:
    """A book that feeds are replayed into, one sweep after the other in time."""

    def __init__(self, folder: Path, feeds: Sequence[Feed]) -> None:
        self.feeds = feeds
        self.clock = Clock()
        self.tallies: dict[str, Tally] = {feed.id: Tally() for feed in feeds}
        self._waiting: dict[str, dict[str, Any]] = defaultdict(dict)  # rows that were new last time and not listed
        self._seen: dict[str, dict[str, Any]] = defaultdict(dict)
        db = open_database(f"sqlite:///{folder / 'replay.db'}")
        migrate(db)
        with writing(db) as connection:
            load_shipped(connection)  # reading a book reads them all, so only those that are needed stay
            connection.execute(delete(FX).where(FX.c.currency.not_in(("USD", "CNY"))))
        self.collector = Collector(world=self._world(), db=db, now=self.clock, gate=HostGate(monotonic=monotonic))

    def _world(self) -> World:
        world = load_world(config_dir())
        sources = {f.id: _source(f) for f in self.feeds}
        aliases = {**world.catalogue.model_aliases, **SPELLINGS}
        return replace(world, config=replace(world.config, sources=sources), catalogue=replace(world.catalogue, model_aliases=aliases))

    def run(self, watch: Callable[[Replay, Feed, datetime], None] | None = None) -> None:
        """All sweeps of all feeds in time."""
        events = sorted(((at, n, quotes) for n, feed in enumerate(self.feeds) for at, quotes in feed.sweeps), key=lambda e: e[:2])
        for at, number, quotes in events:
            self.sweep(self.feeds[number], at, quotes)
            if watch is not None:
                watch(self, self.feeds[number], at)

    def sweep(self, feed: Feed, at: datetime, quotes: Quotes) -> SweepReport:
        """One sweep, judged and kept as the daemon does."""
        self.clock.at = at
        source = self.collector.world.config.sources[feed.id]
        try:
            report = replace(read_rows(self.collector, source, quotes, at - timedelta(seconds=1), at), complete=feed.complete)
        except LayoutChanged as error:
            report = SweepReport(source=feed.id, started_at=at, finished_at=at, status="failed", error=str(error))
        kept = keep(self.collector, report)
        self._count(feed, at, report, kept)
        return kept

    def listed(self, source: str) -> dict[str, Any]:
        """Prices by identity that a source lists now."""
        found: dict[str, Any] = {}
        with reading(self.collector.db) as connection:
            for kind in (OFFERS, RATES):
                known = load_listing(connection, kind, source).known
                found.update({key: known_prices(entry, kind) for key, entry in known.items() if not entry.gone})
        return found

    def book(self, at: datetime) -> Book:
        """Everything listed at a moment."""
        with reading(self.collector.db) as connection:
            return read_book(connection, at, self.collector.world.config.sources)

    def _count(self, feed: Feed, at: datetime, report: SweepReport, kept: SweepReport) -> None:
        tally, listed = self.tallies[feed.id], self.listed(feed.id)
        tally.sweeps += 1
        tally.failed += kept.status == "failed"
        if kept.status == "failed":
            tally.errors.append(f"{at:%Y-%m-%d} {kept.error[:200]}")
        tally.rejected += len(report.rejected)
        waiting, self._waiting[feed.id] = self._waiting[feed.id], {}
        for row in (*report.offers, *report.rates):
            key, prices = identity(feed.id, row), prices_of(row)
            tally.rows += 1
            wrong = feed.is_wrong(row, at)
            tally.wrong_printed += wrong
            tally.wrong_listed += wrong and listed.get(key) == prices
            if wrong:
                self._seen[feed.id][key] = prices
                continue
            if self._seen[feed.id].get(key) != prices:
                tally.first += 1
                if listed.get(key) == prices:
                    tally.first_listed += 1
                else:
                    self._waiting[feed.id][key] = prices
                    tally.late.append(f"{at:%Y-%m-%d} {key} {prices}")
            elif key in waiting:
                tally.second += listed.get(key) == prices
            self._seen[feed.id][key] = prices


def _source(feed: Feed) -> Source:
    """A source that prints what the feed does: euros, dollars and yuan, or dollars."""
    module = {"scaleway": "scaleway", "aws": "moonshot"}.get(feed.id, "gpuhunt")
    settings = SourceSettings(
        module=module, kind=feed.kind, base_url="https://replay", interval_minutes=60, max_age_hours=feed.max_age_hours
    )  # type: ignore[arg-type]
    return Source(id=feed.id, settings=settings)


def wrong_in_cheapest(replay: Replay, at: datetime, book: Book | None = None) -> list[str]:
    """Winners of the cheapest table at a moment that are known to be wrong: per GPU on demand, and per model over standard rates.

    ``book``: that of the moment, where it is at hand.
    """
    book, feeds = book or replay.book(at), {feed.id: feed for feed in replay.feeds}
    found = []
    offers: dict[str, Any] = {}
    for entry in book.offers:
        offer = entry.value
        if entry.fresh and not entry.is_slice and offer.tier == "on_demand" and offer.trust != "unverified":
            best = offers.get(offer.gpu)
            offers[offer.gpu] = offer if best is None or offer.usd_per_gpu_hour < best.usd_per_gpu_hour else best
    rates: dict[tuple[str, str], Any] = {}
    for entry in book.rates:
        rate = entry.value
        if entry.fresh and rate.sku == "standard" and rate.usd.input and rate.usd.output:
            for kind in ("input", "output"):
                best = rates.get((rate.model, kind))
                rates[rate.model, kind] = rate if best is None or rate.usd.of(kind) < best.usd.of(kind) else best
    for winner in (*offers.values(), *{id(r): r for r in rates.values()}.values()):
        if winner.source in feeds and feeds[winner.source].is_wrong(winner, at):
            found.append(f"{at:%Y-%m-%d} {winner.source} {winner.provider} {getattr(winner, 'sku', '')} {winner}"[:200])
    return found


# --- the series ---------------------------------------------------------------------------------------------------------------------


def table(path: Path) -> list[dict[str, str]]:
    """Lines of a CSV file, plain or gzip."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") if path.suffix == ".gz" else path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def moment(text: str) -> datetime:
    when = datetime.fromisoformat(text)
    return when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)


def _by_time(rows: Sequence[dict[str, str]], column: str) -> Iterator[tuple[datetime, list[dict[str, str]]]]:
    found: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in rows:
        found[row[column]].append(row)
    yield from ((moment(at), found[at]) for at in sorted(found, key=moment))


def _machine(world: World, provider: str, sku: str, region: str, price: str, currency: str, **more: Any) -> Iterator[GpuQuote]:
    held = world.catalogue.instances.get((provider, sku))
    if held is not None and held.whole and price:
        yield GpuQuote(
            provider=provider, sku=sku, gpu=sku, gpu_count=int(held.gpu_count), region=region, price=Decimal(price), per="node_hour",
            currency=currency, availability="listed", **({"tier": "on_demand"} | more),
        )  # fmt: skip


def aws(shared: Path, world: World) -> Feed:
    """Snapshots that hold different sets of regions: not whole."""
    sweeps = []
    for at, rows in _by_time(table(shared / "series/gpu-clouds/aws_on_demand_2022_2025.csv.gz"), "generated_at"):
        quotes = [
            q for r in rows
            for q in _machine(
                world, "aws", r["instance_type"], r["region"], r["usd_per_hour"], "CNY" if r["region"].startswith("cn-") else "USD"
            )
        ]  # fmt: skip
        sweeps.append((at, quotes))
    return Feed("aws", "rent", sweeps, complete=False, max_age_hours=24 * 120)


def azure(shared: Path, world: World) -> Feed:
    """polandcentral's A100 node at 7.692 where the day before it was 46.861 and every other region asks 32 to 66."""
    sweeps = [
        (at, [q for r in rows for q in _machine(world, "azure", r["arm_sku_name"], r["region"], r["usd_per_hour"], "USD")])
        for at, rows in _by_time(table(shared / "series/gpu-clouds/azure_on_demand_2023_2025.csv.gz"), "generated_at")
    ]
    return Feed(
        "azure", "rent", sweeps, max_age_hours=24 * 240,
        is_wrong=lambda row, at: (
            row.sku.startswith("Standard_ND96a") and "A100" in row.sku and row.region == "polandcentral" and row.native_per_hour < 10
        ),
    )  # fmt: skip


def gcp(shared: Path, world: World) -> Feed:
    """All four prices of every machine, also those that lack the GPU: northamerica-northeast2 until 2024, europe-west6 on 2022-02-27."""
    tiers = {"usd_hour": ("on_demand", None), "usd_hour_spot": ("spot", None), "usd_month_1y_cud": ("reserved", 12),
             "usd_month_3y_cud": ("reserved", 36)}  # fmt: skip
    sweeps = []
    for at, rows in _by_time(table(shared / "series/gpu-clouds/gcp_monthly_2022_2025.csv.gz"), "commit_date"):
        quotes = []
        for row in rows:
            name, count = re.findall(r"([a-z0-9-]+)=(\d+)", re.sub(r"local=\d+;?", "", row["accelerators"]))[0]
            for column, (tier, months) in tiers.items():
                if row[column]:
                    quotes.append(GpuQuote(
                        provider="gcp", sku=row["machine_type"], gpu=name, gpu_count=int(count), region=row["region"],
                        tier=tier,  # type: ignore[arg-type]
                        term_months=months, price=Decimal(row[column]), per="node_month" if months else "node_hour", currency="USD",
                        availability="listed",
                    ))  # fmt: skip
        sweeps.append((at, quotes))
    return Feed("cyclenerd", "rent", sweeps, is_wrong=_gcp_lacks_gpu)


def _gcp_lacks_gpu(row: Any, at: datetime) -> bool:
    """CPU and memory of an A2 machine cost 0.6 to 1.3 an hour and GPU on demand, the A100 itself about 2.9 and 3.9 more."""
    if not row.sku.startswith("a2-"):
        return False
    per_gpu = row.native_per_hour / row.gpu_count
    least = {"on_demand": Decimal("1.6"), "spot": Decimal("0.35"), "reserved": Decimal("0.65")}[row.tier]
    return bool(per_gpu < least)


def scaleway(shared: Path, world: World) -> Feed:
    """Pages of recorded answers: placeholders at 0.01, TEST types, MIG slices counted as one GPU."""
    sweeps = []
    for at, rows in _by_time(table(shared / "series/gpu-clouds/scaleway_2020_2025.csv.gz"), "recorded_at"):
        quotes = [
            GpuQuote(
                provider="scaleway", sku=r["instance_type"], gpu=r["gpu_name"] or r["instance_type"], gpu_count=int(r["gpu_count"]),
                region=r["zone"], tier="on_demand", price=Decimal(r["eur_hour"]), per="node_hour", currency="EUR",
                is_slice="MIG" in r["instance_type"], availability="listed",
            )
            for r in rows if r["eur_hour"]
        ]  # fmt: skip
        sweeps.append((at, quotes))
    return Feed(
        "scaleway", "rent", sweeps, complete=False, max_age_hours=24 * 240, is_wrong=lambda row, at: row.native_per_hour < Decimal("0.1")
    )


LABELS = {
    "A10": "NVIDIA A10", "A100 40GB": "NVIDIA A100-SXM4-40GB", "A100 80GB": "NVIDIA A100-SXM4-80GB", "A100 SXM": "NVIDIA A100-SXM4-80GB",
    "A10G": "A10G", "A30": "A30", "A40": "A40", "B200": "B200", "B300": "B300", "GB200 (Grace-Blackwell)": "GB200",
    "GB300 (Grace-Blackwell)": "GB300", "H100": "H100 SXM", "H100 NVL": "H100 NVL", "H100 PCIe": "H100 PCIe", "H100 SXM": "H100 SXM",
    "H200 NVL": "H200 NVL", "H200 SXM": "H200 SXM", "L4": "L4", "L40": "L40", "L40S": "L40S", "MI300X": "MI300X", "MI325X": "MI325X",
    "MI355X": "MI355X",
}  # fmt: skip
BILLING = {"spot": ("spot", "datacenter"), "community": ("on_demand", "community")}


def marketplaces(shared: Path, *, vast_verified: bool = False) -> list[Feed]:
    """Sixty snapshots of three days. Vast.ai's asks carry no verification, so none of them may be ranked.

    ``vast_verified`` takes them for verified ones, each place a host: raw noise for the statistics.
    """
    rows = table(shared / "series/gpu-markets/marketplace_snapshots_2026-08.csv.gz")
    providers = sorted({row["provider"] for row in rows})
    feeds = []
    for provider in providers:
        mine = [row for row in rows if row["provider"] == provider and row["usd_per_hr"] and row["gpu_label"] in LABELS]
        slug = re.sub(r"[^a-z0-9]+", "-", provider.lower()).strip("-")
        sweeps = [(at, _asks(slug, found, vast_verified)) for at, found in _by_time(mine, "generated_at")]
        feeds.append(Feed(slug, "marketplace" if slug == "vast-ai" else "rent", sweeps, max_age_hours=3,
                          is_wrong=lambda row, at: row.native_per_hour / row.gpu_count < Decimal("0.12")))  # fmt: skip
    return feeds


def _asks(provider: str, rows: Sequence[dict[str, str]], verified: bool) -> list[Row]:
    """One row each; several of one name are numbered from the cheapest, as variants the labels do not tell apart."""
    quotes: list[Row] = []
    numbers: dict[tuple[str, ...], int] = defaultdict(int)
    for row in sorted(rows, key=lambda r: Decimal(r["usd_per_hr"])):
        tier, trust = BILLING.get(row["billing"], ("on_demand", "datacenter"))
        if provider == "vast-ai":
            trust = "verified" if verified else "unverified"
        name = (row["gpu_label"], row["vram_gb"], row["billing"], row["region"], row["source_kind"])
        numbers[name] += 1
        quotes.append(GpuQuote(
            provider=provider, sku=" ".join((*name[:2], str(numbers[name]))), gpu=LABELS[row["gpu_label"]], gpu_count=1,
            region=row["region"], tier=tier, price=Decimal(row["usd_per_hr"]), per="gpu_hour", currency="USD", trust=trust,
            availability="available",  # type: ignore[arg-type]
            price_kind="ask" if provider == "vast-ai" else "list", host=row["region"],
            reliability=Decimal(row["reliability"]) if row["reliability"] else None,
        ))  # fmt: skip
    return quotes


def runpod_october(shared: Path) -> Feed:
    """RunPod's list of 2026-10-10 as printed: a MIG slice of a B300 and a placeholder at 0.50 among it. Its names are RunPod's own."""
    rows = table(shared / "series/gpu-markets/ewyluda_2026-10-10_neoclouds_marketplaces.csv")
    quotes: list[Row] = []
    for row in rows:
        if row["source"] == "runpod":
            community = "Community" in row["provider"]
            quotes.append(GpuQuote(
                provider="runpod", sku=f"{row['sku']} ({'community' if community else 'secure'})", gpu=row["sku"], gpu_count=1,
                tier="on_demand", price=Decimal(row["usd_per_hour"]), per="gpu_hour", currency="USD",
                trust="community" if community else "datacenter",
                availability="listed",
            ))  # fmt: skip
    days = [moment("2026-10-10") + timedelta(days=n) for n in range(3)]
    return Feed("runpod", "rent", [(at, quotes) for at in days], max_age_hours=48,
                is_wrong=lambda row, at: row.native_per_hour == Decimal("0.5") and "L4" not in row.sku)  # fmt: skip


def neoclouds_october(shared: Path, world: World) -> list[Feed]:
    """The other lists of the same day."""
    rows = table(shared / "series/gpu-markets/ewyluda_2026-10-10_neoclouds_marketplaces.csv")
    names = {"hyperstack": "hyperstack", "lambda": "lambda", "nebius": "nebius"}
    labels = {"A100-80GB": "NVIDIA A100-SXM4-80GB", "A100-40GB": "NVIDIA A100-SXM4-40GB", "A100-80GB-PCIe": "NVIDIA A100 80GB PCIe",
              "B200": "B200", "B300": "B300", "H100": "H100 SXM", "H100-PCIe": "H100 PCIe", "H200": "H200 SXM"}  # fmt: skip
    feeds = []
    for source, provider in names.items():
        quotes: list[Row] = [
            GpuQuote(
                provider=provider, sku=r["sku"], gpu=labels[r["gpu_model"]], gpu_count=int(r["gpu_count"]),
                tier="spot" if r["pricing"] == "spot" else "on_demand", price=Decimal(r["usd_per_hour"]), per="node_hour", currency="USD",
                availability="listed",
            )
            for r in rows if r["source"] == source
        ]  # fmt: skip
        feeds.append(Feed(source, "rent", [(moment("2026-10-10") - timedelta(hours=1), quotes)], max_age_hours=24 * 30))
    return feeds


CENTS = {
    "request_token": "input",
    "response_token": "output",
    "cache_read_input_token": "cache_read",
    "cache_write_input_token": "cache_write_5m",
}
PORTKEY_NAMES = {"bedrock": "aws", "moonshot": "moonshotai"}


def portkey(shared: Path, *, every_days: int = 1) -> Feed:
    """The four files of one repository, whole at every day: the last version with its changes taken back one after the other."""
    folder = shared / "series/tokens/portkey"
    states: dict[str, dict[str, Any]] = {}
    changes: list[tuple[datetime, str, dict[str, Any]]] = []
    for path in sorted(folder.glob("*.json")):
        name = path.name.split(".")[0]
        content = json.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)
        if path.name.endswith(".changes.json"):
            changes += [(moment(change["date"]), name, change) for change in content]
        else:
            states[name] = {model: _pay(entry) for model, entry in content.items() if model != "default"}
    changes.sort(key=lambda change: change[0])
    last, first = moment("2026-08-21"), changes[0][0] - timedelta(days=3)
    sweeps: list[tuple[datetime, Quotes]] = []
    undo = list(changes)
    at = last
    while at >= first:
        while undo and undo[-1][0] > at:
            _, name, change = undo.pop()
            states[name][change["model"]] = change["before_cents_per_token"]
        sweeps.append((at, [q for name, models in states.items() for q in _portkey_quotes(name, models)]))
        at -= timedelta(days=every_days)
    return Feed("portkey", "token", sweeps[::-1], max_age_hours=48, is_wrong=_portkey_wrong)


def _pay(entry: Any) -> dict[str, Any]:
    prices = (entry.get("pricing_config") or {}).get("pay_as_you_go") or {}
    return {key: prices[key]["price"] for key in CENTS if isinstance(prices.get(key), dict) and "price" in prices[key]}


def _portkey_quotes(name: str, models: dict[str, Any]) -> Iterator[TokenQuote]:
    for model, cents in models.items():
        found = {kind: Decimal(cents[key]) for key, kind in CENTS.items() if cents.get(key) is not None}
        if found.get("cache_write_5m") == 0:
            del found["cache_write_5m"]
        suffix = model.partition(":")[2] if "/" in model else ""
        if found.get("input") or found.get("output"):
            yield TokenQuote(provider=PORTKEY_NAMES.get(name, name), model=model, sku=suffix or "standard", prices=found, per="token",
                             scale=Decimal("0.01"), currency="USD")  # fmt: skip


def _portkey_wrong(row: Any, at: datetime) -> bool:
    """Bedrock's Kimi rows ten times too dear (right: 0.60 in, 2.50 or 3.00 out), and the like of GLM-5."""
    return row.provider == "aws" and row.source_model in ("moonshot.kimi-k2-thinking", "moonshotai.kimi-k2.5", "zai.glm-5") and (
        _usd(row, "input") or 0) > 4  # fmt: skip


def _usd(row: Any, kind: str) -> Decimal | None:
    value: Decimal | None = row.native.of(kind)
    return value


def genai(shared: Path) -> Feed:
    """genai-prices as it stood on 2026-08-21, daily; each entry's own dates say when it holds."""
    body = gzip.decompress((shared / "recorded/tokens/genai-prices/v2-data.2026-08-21.47df840a.json.gz").read_bytes())
    rows = [row for row in genai_prices.parse([Page(url="https://x", body=body)]) if isinstance(row, TokenQuote)]
    days = [moment("2025-12-01") + timedelta(days=n) for n in range(0, 300)]
    return Feed("genai_prices", "token", [(at, rows) for at in days], max_age_hours=48)


def token_maps(shared: Path) -> Feed:
    """litellm's map as copied on three days: dollars per Mtok where dollars per token are due, and OpenRouter's dip of Kimi K3."""
    sweeps = []
    for path in sorted((shared / "series/tokens/litellm").glob("*.json.gz")):
        day = re.findall(r"20\d\d-\d\d-\d\d", path.name)[0]
        page = Page(url="https://x", body=gzip.decompress(path.read_bytes()))
        quotes: list[Row] = [row for row in litellm.parse([page]) if isinstance(row, TokenQuote)]
        sweeps += [(moment(day), quotes)]
    return Feed("litellm", "token", sweeps, max_age_hours=24 * 40, is_wrong=_map_wrong)


def _map_wrong(row: Any, at: datetime) -> bool:
    dipped = row.source_model.endswith("openrouter/moonshotai/kimi-k3") and (_usd(row, "input") or 9) < 1
    return bool(dipped or (_usd(row, "input") or 0) > 250)
