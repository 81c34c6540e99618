"""The shipped sources: every scraper has a table, every table a scraper, names of GPUs resolve, and README lists the same."""

from __future__ import annotations

import csv
import importlib
import json
import pkgutil
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import scrapers
from scrapers.contract import GpuQuote, Page, TokenQuote
from tracker.config import Source, SourceSettings, load_config, off_reason
from tracker.facts.catalogue import Catalogue, load_catalogue
from tracker.sweeps.resolve import Refused, resolve_gpu, resolve_tokens
from tracker.sweeps.scrapers import scraper_module

ROOT = Path(__file__).parents[1]
SIX = ["runpod", "scaleway", "coreweave", "genai_prices", "openrouter", "ecb"]
SOURCES = load_config(ROOT / "config").sources
COLUMNS = ["Source", "What it prices", "Key", "Every", "Fresh for", "Terms", "Licence"]
KEYED = {"aws_spot_history", "gcp", "upcloud", "lambda", "digitalocean", "shadeform", "primeintellect"}
# names that the documentation prints and that more than one GPU or none of ours answers to
UNMAPPED = {
    ("cloudrift", "RTX PRO 6000"),
    ("digitalocean", "nvidia_h100"),
    ("coreweave", "NVIDIA A100"),
    ("vultr", "NVIDIA_A100"),
    ("sparecores", "L4"),  # an eighth of one
}


def tables() -> dict[str, Any]:
    return tomllib.loads((ROOT / "config/sources.toml").read_text(encoding="utf-8"))


def test_the_six_of_the_beginning_come_first() -> None:
    assert list(tables())[:6] == SIX


def test_every_scraper_has_a_table_and_every_table_a_scraper() -> None:
    modules = {module.name for module in pkgutil.iter_modules(scrapers.__path__)}
    readers = {name for name in modules if hasattr(importlib.import_module(f"scrapers.{name}"), "parse")}
    assert {source.module for source in SOURCES.values()} == readers
    for source in SOURCES.values():
        module = scraper_module(source)
        assert hasattr(module, "fetch") or hasattr(module, "PATH"), source.id


def test_ages_outlast_two_intervals() -> None:
    """One failed sweep must not make a source stale."""
    for source in SOURCES.values():
        assert source.settings.max_age_hours * 60 >= 2 * source.settings.interval_minutes, source.id


def test_what_takes_a_key_is_off_without_one_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    keyed = [source for source in SOURCES.values() if source.settings.auth != "none"]
    assert {source.id for source in keyed} == {
        "aws_spot_history",
        "gcp",
        "upcloud",
        "lambda",
        "digitalocean",
        "shadeform",
        "primeintellect",
    }
    for source in keyed:
        assert off_reason(source) == f"no key: set {source.settings.key_env} in the environment"
        monkeypatch.setenv(source.settings.key_env, "k")
        assert off_reason(source) == ""
    assert not [source.id for source in SOURCES.values() if source.settings.key_env and source.settings.auth == "none"]


def test_what_is_off_is_off_for_a_reason() -> None:
    """Verda's terms forbid scrapers; SkyPilot's catalogue is a fallback; not everybody may use Spare Cores' data."""
    assert {source.id for source in SOURCES.values() if not source.settings.enabled} == {"verda", "skypilot", "sparecores"}


def test_pages_for_people_obey_robots_txt() -> None:
    pages = {"coreweave", "nebius", "crusoe", "hyperstack", "deepseek", "moonshot", "moonshot_cn"}
    assert {source.id for source in SOURCES.values() if source.settings.robots} == pages


def test_vast_has_time_for_its_spaced_searches() -> None:
    """Ten calls a minute are allowed, and two groups of searches overlap: fourteen calls six seconds apart are 78 seconds."""
    settings = SOURCES["vast"].settings
    calls = sum(len(group) + 1 for group in importlib.import_module("scrapers.vast").GROUPS)
    assert settings.host_spacing_s is not None and settings.deadline_s is not None
    assert 60 / settings.host_spacing_s <= 10
    assert settings.deadline_s >= 2 * calls * settings.host_spacing_s


def quotes(source: Source) -> list[GpuQuote]:
    """The quotes of the normal recording of a source."""
    case = ROOT / "tests/recorded" / source.module / "normal"
    entries = json.loads((case / "pages.json").read_text()) if case.exists() else []
    pages = [Page(url=entry["url"], body=(case / entry["file"]).read_bytes(), headers=entry.get("headers", {})) for entry in entries]
    rows = importlib.import_module(f"scrapers.{source.module}").parse(pages) if pages else []
    return [row for row in rows if isinstance(row, GpuQuote)]


RENTS = sorted(name for name, source in SOURCES.items() if source.settings.kind in ("rent", "marketplace"))


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load_catalogue(ROOT / "config")


@pytest.mark.parametrize("source_id", RENTS)
def test_names_of_the_recordings_resolve(source_id: str, catalogue: Catalogue) -> None:
    found = quotes(SOURCES[source_id])
    assert found
    for quote in found:
        gpu = catalogue.gpu_for(SOURCES[source_id].names, quote.provider, quote.gpu, memory_gb=quote.memory_gb, sku=quote.sku)
        assert (gpu is None) == ((source_id, quote.gpu) in UNMAPPED), f"{quote.sku}: {quote.gpu} is {gpu}"


# Rows of the raw files that mean something of ours, counted in the files by hand: Vultr's two bare metal plans with an on-demand and a
# preemptible price each (its three plans of an A100 of unstated form mean nothing); Verda's two types but for the V100; Prime Intellect's
# eight items; Oracle's nine parts of one shape from L40S to RTX PRO 6000 and seven older ones with ten; the four models of Moonshot's page.
REAL = [
    ("vultr", ("gpu-markets/vultr_plans_vcg.json", "gpu-markets/vultr_plans_metal.json"), 4, 3),
    ("verda", ("gpu-markets/verda_instance_types_4.json",), 4, 2),
    ("primeintellect", ("gpu-markets/primeintellect_availability_gpus_response.json",), 8, 0),
    ("oci", ("gpu-clouds/oci/cetools_products_usd_2026-08-14_gpu_trimmed.json",), 19, 0),
    ("moonshot", ("tokens/html/kimi-pricing-chat.2026-08.md",), 4, 0),
]


@pytest.mark.shared
@pytest.mark.parametrize(("source_id", "files", "meant", "unmapped"), REAL, ids=[case[0] for case in REAL])
def test_names_of_real_answers_mean_something(
    shared: Path, catalogue: Catalogue, source_id: str, files: tuple[str, ...], meant: int, unmapped: int
) -> None:
    source = SOURCES[source_id]
    pages = [Page(url="", body=(shared / "recorded" / file).read_bytes()) for file in files]
    rows = [row for row in importlib.import_module(f"scrapers.{source.module}").parse(pages) if isinstance(row, (GpuQuote, TokenQuote))]
    found = [
        resolve_gpu(row, source.names, catalogue, "") if isinstance(row, GpuQuote) else resolve_tokens(row, source.names, catalogue, "", {})
        for row in rows
    ]
    refused = [row.reason for row in found if isinstance(row, Refused)]
    assert (len(found) - len(refused), refused) == (meant, ["unmapped gpu"] * unmapped)


def test_the_counts_of_aws_are_those_of_the_instance_types() -> None:
    """Two lists of one thing, each with its sources; rented by the rack or by the slice, a type has no spot price of its own here."""
    with (ROOT / "config/instances.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["provider"] == "aws" and row["verified"] == "yes"]
    whole = {row["sku"]: int(row["gpu_count"]) for row in rows if row["gpu_count"].isdecimal() and not row["sku"].startswith("p6e-")}
    assert whole == importlib.import_module("scrapers.aws_spot").GPUS


# --- README ---------------------------------------------------------------------------------------------------------------


def listed(text: str) -> list[dict[str, str]]:
    """Rows of the table under "## Sources", by column."""
    section = re.split(r"(?m)^## ", text.split("\n## Sources\n", 1)[1])[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert cells[0] == COLUMNS
    return [dict(zip(COLUMNS, row, strict=True)) for row in cells[2:]]


def as_listed(source_id: str, settings: SourceSettings) -> dict[str, str]:
    """What the table must say of a source; what it prices is for people alone."""
    minutes = int(settings.interval_minutes)
    return {
        "Source": f"`{source_id}`" + ("" if settings.enabled else " (off)"),
        "Key": f"{settings.auth} in `{settings.key_env}`" if settings.key_env else settings.auth,
        "Every": f"{minutes} min" if minutes % 60 else f"{minutes // 60} h",
        "Fresh for": f"{settings.max_age_hours:g} h",
        "Terms": settings.terms,
        "Licence": settings.licence,
    }


def differing(rows: list[dict[str, str]], sources: dict[str, SourceSettings]) -> list[str]:
    """What the table and the settings do not agree on; empty when they are the same, in the same order."""
    stated = [{column: row[column] for column in row if column != "What it prices"} for row in rows]
    wanted = [as_listed(source_id, settings) for source_id, settings in sources.items()]
    missing = [f"not in README: {row['Source']}" for row in wanted if row not in stated]
    extra = [f"not in sources.toml: {row['Source']}" for row in stated if row not in wanted]
    silent = [f"prices nothing: {row['Source']}" for row in rows if not row["What it prices"]]
    order = ["another order"] if not missing and not extra and stated != wanted else []
    return missing + extra + silent + order


def in_file_order() -> dict[str, SourceSettings]:
    return {source_id: SOURCES[source_id].settings for source_id in tables()}


def test_readme_lists_the_sources() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    if "\n<!-- sources -->\n" in text:
        pytest.skip("the list of sources is not in README yet")
    assert differing(listed(text), in_file_order()) == []


def test_a_table_that_differs_is_found() -> None:
    sources = {"runpod": SOURCES["runpod"].settings, "gcp": SOURCES["gcp"].settings}
    rows = [{"What it prices": "GPUs", **as_listed(source_id, settings)} for source_id, settings in sources.items()]
    assert differing(rows, sources) == []
    assert differing(rows[::-1], sources) == ["another order"]
    assert differing(rows[:1], sources) == ["not in README: `gcp`"]
    assert differing([*rows, {**rows[0], "Source": "`other`"}], sources) == ["not in sources.toml: `other`"]
    assert differing([{**rows[0], "Every": "5 min"}, rows[1]], sources) == ["not in README: `runpod`", "not in sources.toml: `runpod`"]
    assert differing([rows[0], {**rows[1], "What it prices": ""}], sources) == ["prices nothing: `gcp`"]
