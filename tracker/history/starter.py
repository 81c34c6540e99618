"""Makes the embedded price book: ``python -m tracker.history.starter RECORDINGS OUT`` writes offers.csv and rates.csv.

RECORDINGS is a folder with ``series/`` and ``recorded/``; the single prices that people printed come from ``cited_offers.csv`` and
``cited_rates.csv`` in ``config/starter``. All of it goes through the adapters, resolve and the guard into a fresh database, and the
book is that database's export. Every row keeps the day it was seen; what may be passed on is told in ``config/starter/README.md``.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

from engine.gpus import Gpu
from scrapers.contract import TokenQuote
from tracker.book.bookfile import Dated
from tracker.book.bookstore import export_book, import_dated
from tracker.book.exchange import load_exchange, load_shipped
from tracker.database.handle import migrate, open_database, writing
from tracker.database.rows import OfferRow, RateRow, from_s
from tracker.errors import BreakevenError
from tracker.history import aws, azure, gcp, genai, litellm, portkey, quotes, recordings, scaleway
from tracker.history.runs import Judge, Runs, span_of, to_runs
from tracker.history.sightings import Sighting
from tracker.paths import config_dir
from tracker.world import World, load_world

OLD_ARCHITECTURES = frozenset({"Kepler", "Maxwell", "Pascal", "Volta", "Turing"})
# A few regions of each of the three large clouds; spot and committed use, which change monthly, of fewer.
REGIONS: Mapping[str, frozenset[str]] = {
    "aws": frozenset({"us-east-1"}),
    "azure": frozenset({"eastus", "eastus2", "southcentralus", "westus2", "westus3", "northeurope", "westeurope", "swedencentral",
                        "uksouth", "francecentral", "germanywestcentral", "japaneast", "australiaeast", "southeastasia"}),
    "gcp": frozenset({"us-central1", "us-east4", "us-west1", "europe-west1", "europe-west4", "asia-southeast1", "asia-northeast1"}),
}  # fmt: skip
SPOT_REGIONS = frozenset({"us-central1", "europe-west4"})
RESERVED_REGIONS = frozenset({"us-central1"})
# What litellm adds to genai-prices. Its map holds unit errors of some providers: those are not among these.
LITELLM_PROVIDERS = frozenset(
    {"nebius", "deepinfra", "sambanova", "gmi", "hyperbolic", "nscale", "scaleway", "crusoe", "friendliai", "kyma", "aiand"}
)
# Recordings of which single list prices may be cited, but no table carried over.
SINGLE_PRICES = frozenset({"runpod-api", "coreweave-page"})
SINGLE_PRICE_GPUS = frozenset({"nvidia-b300-sxm-288", "nvidia-b200-sxm-180", "nvidia-h200-sxm-141", "nvidia-h100-sxm-80"})
PORTKEY_FILES = ("deepseek.changes.json", "deepseek.2026-05-25.abfe30f6.json", "moonshot.2026-07-22.78e71c3b.json",
                 "openrouter.changes.json", "openrouter.2026-08-18.9860d6ad.json")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Made:
    """What was written."""

    offers: int
    rates: int
    runs: Runs


def day(text: str) -> datetime:
    """Midnight of an ISO day in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def make_starter(shared: Path, out: Path, world: World) -> Made:
    """Write offers.csv and rates.csv into ``out`` from the recordings in ``shared``."""
    with tempfile.TemporaryDirectory() as scratch:
        db = open_database(f"sqlite:///{Path(scratch) / 'starter.db'}")
        migrate(db)
        with writing(db) as connection:
            load_shipped(connection)
            exchange = load_exchange(connection)
        runs = to_runs(sightings(shared, world), Judge(world=world, exchange=exchange))
        kept = [run for run in runs.dated if keep(run, world)]
        span = span_of(kept)
        if span is None:
            raise BreakevenError(f"{shared}: not one price for the starter book")
        import_dated(db, kept, from_s(span[1]))
        offers, rates = export_book(db, out)
        db.dispose()
    return Made(offers, rates, runs)


def sightings(shared: Path, world: World) -> Iterator[Sighting]:
    """Every price of the sources that may be passed on."""
    cited = config_dir() / "starter"
    return chain(
        rents(shared, world),
        rates(shared),
        quotes.read_offers(cited / "cited_offers.csv", world.catalogue),
        quotes.read_rates(cited / "cited_rates.csv", world.catalogue),
    )


def rents(shared: Path, world: World) -> Iterator[Sighting]:
    """Rental prices: the cloud series, and recorded answers. Of the month of a recording without a day the first is taken."""
    series, recorded = shared / "series" / "gpu-clouds", shared / "recorded"
    return chain(
        aws.read(series / "aws_on_demand_2022_2025.csv.gz", world.catalogue),
        azure.read(series / "azure_on_demand_2023_2025.csv.gz", world.catalogue),
        gcp.read(series / "gcp_monthly_2022_2025.csv.gz", world.catalogue),
        scaleway.read(series / "scaleway_2020_2025.csv.gz", world.catalogue),
        recordings.read_scaleway(recorded / "gpu-clouds" / "scaleway"),
        recordings.read_oci(recorded / "gpu-clouds" / "oci" / "cetools_products_usd_2026-08-14_gpu_trimmed.json", day("2026-08-14")),
        recordings.read_runpod(recorded / "gpu-markets" / "runpod_graphql_gpuTypes_2026-10.json", day("2026-10-01")),
        recordings.read_coreweave(recorded / "gpu-markets" / "html" / "coreweave_pricing_2026-10.html", day("2026-10-01")),
    )


def rates(shared: Path) -> Iterator[Sighting]:
    """Token prices. genai-prices 0.2.3 was uploaded to PyPI on 2026-11-10, litellm 1.110.2 on 2026-11-20."""
    tokens = shared / "recorded" / "tokens"
    portkey_files = [shared / "series" / "tokens" / "portkey" / name for name in PORTKEY_FILES]
    return chain(
        genai.read(tokens / "genai-prices" / "v2-data.2026-08-21.47df840a.json.gz"),
        genai.read(tokens / "genai-prices" / "pypi-0.2.3-providers-dump.json.gz", day("2026-11-10")),
        chain.from_iterable(portkey.read(path) for path in portkey_files),
        recordings.read_openrouter(tokens / "openrouter" / "models.ai-pricelog-fixture.2026-08-30.json", day("2026-08-30")),
        litellm_rates(shared),
    )


def litellm_rates(shared: Path) -> Iterator[Sighting]:
    """litellm's map and copies of it, for providers that genai-prices lacks. The copies never drop a model, so one that the
    map of November does not hold is left out."""
    tokens, copies = shared / "recorded" / "tokens" / "litellm", shared / "series" / "tokens" / "litellm"
    maps = [
        *chosen(litellm.read(tokens / "litellm-1.104.9.model_prices.json.gz", day("2026-11-04"))),
        *chosen(litellm.read(tokens / "subset-1.110.2.kimi-k3_muse_deepseek.json", day("2026-11-20"))),
    ]
    held = {sighting.quote.model for sighting in maps if isinstance(sighting.quote, TokenQuote)}
    older = chain.from_iterable(chosen(litellm.read(path)) for path in sorted(copies.glob("tokencostauto-*.json.gz")))
    yield from (sighting for sighting in older if isinstance(sighting.quote, TokenQuote) and sighting.quote.model in held)
    yield from maps


def chosen(found: Iterable[Sighting]) -> Iterator[Sighting]:
    """The sightings of the chosen providers."""
    return (s for s in found if isinstance(s.quote, TokenQuote) and s.quote.provider in LITELLM_PROVIDERS)


def keep(run: Dated, world: World) -> bool:
    """Whether a run belongs into a book of under 1 MB."""
    if isinstance(run.row, RateRow):
        return True
    if run.origin in SINGLE_PRICES and run.row.gpu not in SINGLE_PRICE_GPUS:
        return False
    return is_current(world.catalogue.gpus[run.row.gpu]) and in_region(run.row)


def is_current(gpu: Gpu) -> bool:
    """Data-centre GPUs from Ampere and CDNA2 on, and the RTX PRO 6000 that clouds rent out beside them."""
    return gpu.architecture not in OLD_ARCHITECTURES and (gpu.gpu_class == "datacenter" or gpu.id.startswith("nvidia-rtx-pro-6000"))


def in_region(row: OfferRow) -> bool:
    """Whether the region is one of the few chosen ones."""
    regions = REGIONS.get(row.provider)
    if row.provider == "gcp" and row.tier != "on_demand":
        regions = SPOT_REGIONS if row.tier == "spot" else RESERVED_REGIONS
    return regions is None or row.region in regions


def main(arguments: Sequence[str]) -> int:
    """Make the book and say what is in it; 2 for wrong arguments, 1 for an error a person can mend."""
    if len(arguments) != 2:
        print("usage: python -m tracker.history.starter RECORDINGS OUT", file=sys.stderr)
        return 2
    try:
        made = make_starter(Path(arguments[0]), Path(arguments[1]), load_world(config_dir()))
    except BreakevenError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{made.offers} offers, {made.rates} rates")
    for reason, count in made.runs.refused.most_common():
        print(f"  {count:6} refused: {reason} (first: {made.runs.examples[reason]})")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
