"""Prices of a recorded series that nobody can believe: held back as the guard would, confirmed by what follows, or decided by hand."""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from databases import BOTH, new_book, opened
from homes import Told, run
from sqlalchemy import Engine, func, select

from tracker.book.listing import OFFER_POINT
from tracker.book.timeline import changes
from tracker.database.handle import reading, writing
from tracker.guard.decisions import accept, entries, reject
from tracker.history.load import HistoryReport, import_history
from tracker.paths import config_dir
from tracker.rollup.read import least_days
from tracker.rollup.run import roll_up
from tracker.world import World, load_world

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HEADER = "generated_at,commit,region,arm_sku_name,usd_per_hour"
MACHINE = "Standard_ND96ams_A100_v4"
REGIONS = {"eastus": "32.77", "westus": "42.60", "uksouth": "40.96", "westeurope": "40.96", "norwayeast": "46.86"}
POLAND = "polandcentral"


@pytest.fixture(params=BOTH)
def db(request: pytest.FixtureRequest) -> Iterator[Engine]:
    yield from opened(new_book(request, request.param))


@pytest.fixture(scope="module")
def world() -> World:
    return load_world(config_dir())


Import = Callable[..., HistoryReport]


@pytest.fixture
def bring(db: Engine, world: World, tmp_path: Path) -> Import:
    """Import snapshots of five regions at their usual prices and of one at the price told for each day; None is not printed."""

    def importer(prices: dict[str, str | None], name: str = "azure.csv") -> HistoryReport:
        lines = [HEADER]
        for day, price in prices.items():
            for region, usual in {**REGIONS, POLAND: price}.items():
                lines += [f"{day}T00:00:00Z,x,{region},{MACHINE},{usual}"] if usual is not None else []
            lines.append(f"{day}T00:00:00Z,x,{POLAND},Standard_ND96isr_MI300X_v5,73.92")
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        return import_history(db, "azure", tmp_path / name, world, NOW)

    return importer


def waiting(db: Engine, *, every: bool = False) -> list[dict[str, Any]]:
    with reading(db) as connection:
        return [dict(entry) for entry in entries(connection, every=every)]


def polish(db: Engine) -> list[tuple[str, str]]:
    """Day and new price of every change in that region; empty where it went."""
    with reading(db) as connection:
        found = changes(connection, NOW - timedelta(days=900), imported=True)
    return [
        (f"{one.at:%Y-%m-%d}", "" if one.kind == "gone" else f"{one.new['price']}") for one in found if f"{MACHINE} {POLAND}" in one.name
    ]


def points(db: Engine) -> int:
    with reading(db) as connection:
        return connection.scalar(select(func.count()).select_from(OFFER_POINT)) or 0


def test_a_price_far_below_its_other_regions_waits_and_is_listed_nowhere(db: Engine, world: World, bring: Import) -> None:
    """46.86 / 8 = $5.86 a GPU; the median of the six is 40.96, of which 7.69 is less than a third."""
    report = bring({"2024-12-13": "46.86", "2025-05-16": "7.69", "2025-06-03": "7.69"})
    assert report.held == {"5.3 times below its other regions; price moved 6.09 times down": 1}
    (entry,) = waiting(db)
    assert (entry["source"], entry["subject"], entry["sweeps"]) == ("book:azure-karpenter", f"azure {MACHINE} {POLAND} on demand", 2)
    assert (entry["first_seen"], entry["last_seen"]) == (datetime(2025, 5, 16, tzinfo=UTC), datetime(2025, 6, 3, tzinfo=UTC))
    assert ('"price": "46.86"' in entry["old"], '"price": "7.69"' in entry["new"]) == (True, True)
    assert polish(db) == [("2024-12-13", "46.86")]
    roll_up(db, world.config.sources, NOW)
    with reading(db) as connection:
        days = least_days(connection, "nvidia-a100-sxm-80", 8, "on_demand", datetime(2025, 5, 1, tzinfo=UTC).date(), NOW.date())
    assert min(price for _, price in days) == Decimal("32.77") / 8


def test_importing_it_again_changes_nothing(db: Engine, bring: Import) -> None:
    history = {"2024-12-13": "46.86", "2025-05-16": "7.69", "2025-06-03": "7.69"}
    bring(history)
    before = (waiting(db, every=True), points(db))
    report = bring(history)
    assert (report.new_points, sum(report.held.values())) == (0, 1)
    assert (waiting(db, every=True), points(db)) == before


def test_a_move_that_the_next_sighting_confirms_counts_from_the_first_one(db: Engine, bring: Import) -> None:
    """46.86 to 20.00 is 2.3 times down, and less than three times below the others: the second sighting confirms it."""
    report = bring({"2024-12-13": "46.86", "2025-01-01": "20.00", "2025-02-01": "20.00"})
    assert (report.held, waiting(db)) == ({}, [])
    assert polish(db) == [("2024-12-13", "46.86"), ("2025-01-01", "20")]


def test_a_dip_that_comes_back_waits(db: Engine, bring: Import) -> None:
    report = bring({"2024-12-13": "46.86", "2025-01-01": "20.00", "2025-02-01": "46.86"})
    assert report.held == {"price moved 2.34 times down": 1}
    assert polish(db) == [("2024-12-13", "46.86")]
    assert [(entry["sweeps"], entry["release"]) for entry in waiting(db)] == [(1, "repeat")]


def test_a_later_import_confirms_what_waits_or_leaves_it(db: Engine, bring: Import) -> None:
    """A move of 2.3 times is confirmed by the next file; the contradiction with other regions is not, however often it is printed."""
    assert sum(bring({"2024-12-13": "46.86", "2025-01-01": "20.00"}).held.values()) == 1
    bring({"2025-02-01": "20.00"}, "february.csv")
    assert [(entry["state"], entry["decided_by"]) for entry in waiting(db, every=True)] == [("confirmed", "a later sighting")]
    assert polish(db) == [("2024-12-13", "46.86"), ("2025-01-01", "20")]
    for day in ("2025-03-01", "2025-04-01", "2025-05-01"):
        bring({day: "7.69"}, f"{day}.csv")
    (entry,) = waiting(db)
    assert (entry["first_seen"], entry["last_seen"]) == (datetime(2025, 3, 1, tzinfo=UTC), datetime(2025, 5, 1, tzinfo=UTC))
    assert polish(db)[-1] == ("2025-01-01", "20")


def test_a_price_against_what_an_earlier_import_listed(db: Engine, bring: Import) -> None:
    bring({"2024-12-13": "46.86"})
    assert bring({"2025-01-01": "20.00"}, "later.csv").held == {"price moved 2.34 times down": 1}


def test_an_accepted_price_is_listed_in_its_own_time_and_stays_so(db: Engine, bring: Import) -> None:
    history: dict[str, str | None] = {"2024-12-13": "46.86", "2025-05-16": "7.69", "2025-06-03": "7.69"}
    bring(history)
    with writing(db) as connection:
        accept(connection, waiting(db)[0]["id"], "anna", NOW)
    assert polish(db) == [("2024-12-13", "46.86"), ("2025-05-16", "7.69")]
    before = points(db)
    assert bring(history | {"2025-06-20": "7.69"}).held == {}
    assert (points(db), waiting(db)) == (before + 7, [])  # a later sighting of each
    assert polish(db) == [("2024-12-13", "46.86"), ("2025-05-16", "7.69")]


def test_a_rejected_price_does_not_come_back(db: Engine, bring: Import) -> None:
    history: dict[str, str | None] = {"2024-12-13": "46.86", "2025-01-01": "20.00"}
    bring(history)
    with writing(db) as connection:
        reject(connection, waiting(db)[0]["id"], "anna", NOW)
    bring(history | {"2025-02-01": "20.00", "2025-03-01": "20.00"})
    bring({"2025-04-01": "20.00"}, "april.csv")
    assert (polish(db), waiting(db)) == ([("2024-12-13", "46.86")], [])
    assert len(waiting(db, every=True)) == 1


def test_what_waits_is_not_gone(db: Engine, bring: Import) -> None:
    """It is printed, at a price nobody believes: the region is not without the machine. Where it is not printed it is."""
    bring({"2024-12-13": "46.86", "2025-01-01": "7.69"})
    assert polish(db) == [("2024-12-13", "46.86")]
    bring({"2024-12-13": "46.86", "2025-01-01": "7.69", "2025-02-01": None})
    assert polish(db) == [("2024-12-13", "46.86"), ("2025-02-01", "")]


def test_token_prices_are_judged_too(db: Engine, world: World, tmp_path: Path) -> None:
    """An output price that falls to a hundredth for one reading, and one that stays down."""
    lines = ["observed,provider,model,per,currency,input,output"]
    for model, outputs in (("kimi-k3.1-pro", (10, 0.1, 10)), ("deepseek-v4-pro", (10, 1, 1))):
        lines += [f"2025-0{month}-01,example,{model},mtok,USD,0.5,{output}" for month, output in zip((1, 2, 3), outputs, strict=True)]
    (tmp_path / "mine.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    report = import_history(db, "rates", tmp_path / "mine.csv", world, NOW)
    assert [entry["subject"] for entry in waiting(db)] == ["example kimi-k3.1-pro"]
    assert sum(report.held.values()) == 1


def told_by_the_command(home: Path, price: str) -> Told:
    """An import of two snapshots, in whose second one Poland asks that price."""
    lines = [f"{day}T00:00:00Z,x,{region},{MACHINE},{usual}" for day in ("2025-05-16", "2025-06-03") for region, usual in REGIONS.items()]
    lines += [f"2025-05-16T00:00:00Z,x,{POLAND},{MACHINE},46.86", f"2025-06-03T00:00:00Z,x,{POLAND},{MACHINE},{price}"]
    (home / "azure.csv").write_text("\n".join([HEADER, *lines]) + "\n", encoding="utf-8")
    return run(home, "import", "history", "azure", str(home / "azure.csv"))


@pytest.mark.parametrize(("price", "waits"), [("20.00", "the next import"), ("7.69", "an import whose other prices agree")])
def test_the_list_says_what_an_imported_price_waits_for(tmp_path: Path, price: str, waits: str) -> None:
    """A move waits for another sighting; what contradicts its other regions does not: no sweep and no other source is asked."""
    told_by_the_command(tmp_path, price)
    _, _, header, _, *lines = run(tmp_path, "quarantine", "list").out.splitlines()
    last = header.index("state")
    assert " ".join(" ".join(line[last:] for line in lines).split()) == f"pending: waits for {waits}"


def test_the_commands_tell_of_it(tmp_path: Path) -> None:
    told = told_by_the_command(tmp_path, "7.69")
    assert (told.code, "1 not believed and not listed; breakeven quarantine list shows them" in told.out) == (0, True)
    (entry,) = run(tmp_path, "quarantine", "list", "--source", "book:azure-karpenter", "--json").json()
    assert (entry["subject"], entry["new"]["price"]) == (f"azure {MACHINE} {POLAND} on demand", "7.69")
    assert run(tmp_path, "quarantine", "accept", str(entry["id"])).code == 0
    assert run(tmp_path, "quarantine", "list", "--json").json() == []


def test_a_snapshot_of_what_is_to_come_lists_nothing_and_misses_nothing(bring: Import, db: Engine) -> None:
    """A month after now: its six prices were seen by nobody, and the machine that is not in it is not gone."""
    report = bring({"2025-12-01": "46.86", "2026-02-01": None})
    assert report.refused == {"observed in the future": len(REGIONS) + 1}
    assert polish(db) == [("2025-12-01", "46.86")]


@pytest.mark.shared
def test_of_the_recorded_series_of_azure_just_the_outliers_wait(shared: Path, db: Engine, world: World) -> None:
    """Counted without our code: prices of a snapshot at most a third of the middle of their machine's regions, or three times it."""
    path = shared / "series" / "gpu-clouds" / "azure_on_demand_2023_2025.csv.gz"
    groups: dict[tuple[str, str], list[tuple[str, Decimal]]] = {}
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in csv.DictReader(file):
            place = (line["generated_at"], line["arm_sku_name"])
            groups.setdefault(place, []).append((line["region"], Decimal(line["usd_per_hour"])))
    far = {
        (machine, region)
        for (_, machine), found in groups.items()
        if len(found) >= 5
        for middle in [median(price for _, price in found)]
        for region, price in found
        if price * 3 <= middle or price >= middle * 3
    }
    import_history(db, "azure", path, world, NOW)
    found = {(entry["subject"].split()[1], entry["subject"].split()[2]) for entry in waiting(db)}
    assert found == {(MACHINE, POLAND), ("Standard_ND96amsr_A100_v4", POLAND)} == {one for one in far if one in found}
    assert {(machine, region) for machine, region in far if machine.startswith("Standard_ND")} == found


@pytest.mark.shared
def test_of_the_recorded_series_of_google_just_prices_without_the_gpu_wait(shared: Path, db: Engine, world: World) -> None:
    """Counted without our code: an A2 machine below 30 % of its middle over all regions and dates is CPU and memory alone.

    Real prices are not: commitments of a region whose price on demand lacks the GPU, and spot prices of a3-megagpu-8g that fell months
    before those of a3-highgpu.
    """
    path = shared / "series" / "gpu-clouds" / "gcp_monthly_2022_2025.csv.gz"
    columns = {"usd_hour": "demand", "usd_hour_spot": "spot", "usd_month_1y_cud": "reserved", "usd_month_3y_cud": "reserved"}
    prices: dict[tuple[str, str], list[tuple[str, Decimal]]] = {}
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in csv.DictReader(file):
            for column in columns:
                is_known = line[column] and not (column == "usd_hour_spot" and Decimal(line[column]) * 5 < Decimal(line["usd_hour"]))
                if is_known and not (line["machine_type"].startswith("a2-ultragpu") and "cud" in column):  # real ones reach 0.23
                    prices.setdefault((line["machine_type"], column), []).append((line["region"], Decimal(line[column])))
    lacking = {
        (machine, region, column)
        for (machine, column), found in prices.items()
        if machine.startswith("a2-")
        for least in [median(price for _, price in found) * 3 / 10]
        for region, price in found
        if price < least
    }
    import_history(db, "gcp", path, world, NOW)
    held = [entry["subject"].split() for entry in waiting(db)]
    assert len(held) == len(lacking) == 29
    assert Counter((words[1], words[2], words[-1]) for words in held) == Counter((m, r, columns[c]) for m, r, c in lacking)
