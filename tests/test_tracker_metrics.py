"""What ``/metrics`` says: the whole text of one small book, the contract in the README, staleness, hostile labels, and real readers."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any

import pytest
from processes import Running
from servers import Prometheus
from small_world import BUDGETS, FILES, T0, VITALS, fill, fx, offer, rate, small_world, sweep
from sqlalchemy import Engine
from upstream import Upstream
from worlds import serve_market, serve_shared, write_user_config

from scrapers.http import HostGate
from tracker.answers.ageing import latest
from tracker.answers.health import source_health
from tracker.answers.recompute import Sizer, of_book, recompute
from tracker.answers.snapshot import Snapshot
from tracker.book.book import read_book
from tracker.book.entry_values import offers_of, rates_of
from tracker.book.remembered import Remembered
from tracker.book.running import RunningBook
from tracker.database.handle import reading
from tracker.database.rows import OfferRow
from tracker.metrics.exposition import Form, Renderer, assemble
from tracker.metrics.families import families
from tracker.metrics.table import COUNTERS, GAUGES, PREFIX, PROCESS_COUNTERS, PROCESS_GAUGES
from tracker.paths import config_dir
from tracker.service.opening import open_book
from tracker.sweeps.collect import Collector, collect_source
from tracker.world import World, load_world

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = Path(__file__).parent / "golden" / "metrics.txt"
CONTRACT = (
    {PREFIX + name: entry for name, entry in GAUGES.items()}
    | {f"{PREFIX}{name}_total": entry for name, entry in COUNTERS.items()}
    | PROCESS_GAUGES
    | {f"{name}_total": entry for name, entry in PROCESS_COUNTERS.items()}
)
NOW = T0 + timedelta(hours=1)


@pytest.fixture
def snapshot(db: Engine, world: World) -> Snapshot:
    fill(db)
    return replace(recompute(db, world, Sizer(world), NOW), budgets=BUDGETS, vitals=VITALS)


def text_of(snapshot: Snapshot, form: Form = "text") -> str:
    return assemble(Renderer().lines(families(snapshot)), form).decode("utf-8")


def series(text: str) -> dict[str, str]:
    """Value by series."""
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))


def test_the_whole_text_is_this(snapshot: Snapshot) -> None:
    assert text_of(snapshot) == GOLDEN.read_text(encoding="utf-8").replace("VERSION", version("breakeven"))


def test_open_metrics_is_the_same_with_its_own_type_and_end(snapshot: Snapshot) -> None:
    text = text_of(snapshot, "openmetrics")
    assert text.endswith("# EOF\n")
    assert series(text) == series(text_of(snapshot))


# --- the contract ---------------------------------------------------------------------------------------------------------


def contract(readme: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Meaning and labels of every metric in the README's table."""
    section = readme.partition("\n## Metrics\n")[2].partition("\n## ")[0]
    cells = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in section.splitlines() if line.startswith("| `")]
    return {name.strip("`"): (meaning, tuple(re.findall(r"`(\w+)`", labels))) for name, labels, meaning in cells}


def test_the_readme_s_table_is_what_is_served() -> None:
    assert contract((ROOT / "README.md").read_text(encoding="utf-8")) == CONTRACT


def test_every_metric_of_the_contract_is_in_the_pinned_text() -> None:
    text = GOLDEN.read_text(encoding="utf-8")
    named = set(re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE))
    without_figure = {PREFIX + "disagreement_ratio"}  # one source a provider here; tests/test_tracker_precedence.py has two
    assert named - without_figure == {name.partition("{")[0] for name in series(text)}
    assert named == set(CONTRACT)


def test_value_series_carry_no_label_that_changes_with_the_answer() -> None:
    """What won is a label of an info series; the series a graph is drawn of keeps its name when the winner changes."""
    changing = {"provider", "gpu_count", "tier", "sku", "status", "verdict"}
    about_the_answer = [name for name, (_, labels) in GAUGES.items() if "policy" in labels and not name.endswith("_info")]
    assert len(about_the_answer) == 12
    for name in about_the_answer:
        assert not changing & set(GAUGES[name][1])


def test_what_an_info_series_tells_is_joined_on_the_labels_of_the_value(snapshot: Snapshot) -> None:
    """Without a doubt: each info series is there once for the model, workload and policy of a value."""
    for name in ("best_setup_info", "api_info", "break_even_info"):
        found = [line for line in series(text_of(snapshot)) if line.startswith(f"{PREFIX}{name}{{")]
        assert len(found) == len({re.search(r'model="[^"]+"', line)[0] for line in found}) == 2  # type: ignore[index]


# --- figures that the golden text has one of -------------------------------------------------------------------------------


def test_the_median_is_of_the_offers_one_source_tells(db: Engine, world: World) -> None:
    """Three at 1.00, 2.00 and 4.00 for one GPU, and four for 12.00: 1, 2, 3, 4, of which 2.50 is the middle."""
    prices = [offer(price, sku=f"a{price}") for price in ("1.00", "2.00", "4.00")]
    sweep(db, "rents", T0, *prices, offer("12.00", sku="x4", gpu_count=4), offer("0.01", sku="part", is_slice=True))
    found = series(text_of(recompute(db, world, Sizer(world), NOW)))
    key = '{gpu="test-141",provider="cloud",tier="on_demand"}'
    names = ("rental_usd_per_gpu_hour", "rental_median_usd_per_gpu_hour", "rental_offers")
    assert [found[f"{PREFIX}{name}{key}"] for name in names] == ["1.0", "2.5", "4.0"]


def test_a_second_source_of_a_provider_is_not_counted_twice(db: Engine, world: World) -> None:
    sweep(db, "rents", T0, offer("2.00"))
    sweep(db, "keyed", T0, offer("1.00"))
    found = series(text_of(recompute(db, world, Sizer(world), NOW)))
    key = '{gpu="test-141",provider="cloud",tier="on_demand"}'
    assert found[f"{PREFIX}rental_offers{key}"] == "1.0"
    assert found[PREFIX + 'disagreement_ratio{provider="cloud",what="test-141"}'] == "1.0"


def test_reasons_beyond_ten_are_told_together(db: Engine, world: World) -> None:
    """Twelve reasons of 12, 11 ... 1 rows: nine by name and 3 + 2 + 1 others."""
    sweep(db, "rents", T0, offer("2.00"), skipped={f"reason {number:02d}": number for number in range(1, 13)})
    found = series(text_of(recompute(db, world, Sizer(world), NOW)))
    told = {k: v for k, v in found.items() if k.startswith(PREFIX + "source_rejected_rows_by_reason")}
    assert len(told) == 10
    assert told[PREFIX + 'source_rejected_rows_by_reason{reason="other",source="rents"}'] == "6.0"
    assert sum(map(float, told.values())) == float(found[PREFIX + 'source_rejected_rows{source="rents"}']) == 78


def test_without_a_stated_rent_there_is_no_saving(db: Engine, tmp_path: Path) -> None:
    bare = small_world(tmp_path / "bare", tracker_toml=FILES["tracker.toml"].partition("[baseline]")[0])
    fill(db)
    told = names(text_of(recompute(db, bare, Sizer(bare), NOW)))
    assert "best_setup_usd_per_hour" in told
    assert not told & {"baseline_usd_per_hour", "best_setup_saving_ratio"}


def test_a_dearer_setup_saves_less_than_nothing(db: Engine, tmp_path: Path) -> None:
    dear = small_world(tmp_path / "dear", tracker_toml=FILES["tracker.toml"].replace("2.875", "1.84"))
    fill(db)
    found = series(text_of(recompute(db, dear, Sizer(dear), NOW)))
    assert found[PREFIX + 'best_setup_saving_ratio{model="large-60b",policy="studiotv",workload="turns"}'] == "-0.25"  # 2.30 / 1.84


def test_the_command_line_has_no_vitals_and_shows_none(snapshot: Snapshot) -> None:
    told = names(text_of(replace(snapshot, vitals=None)))
    assert names(text_of(snapshot)) - told == {
        "jobs", "jobs_missed_total", "outbox_waiting_deliveries", "outbox_failed_deliveries", "outbox_oldest_timestamp_seconds", "trouble",
        "alerts_active",
        "database_size_bytes", *PROCESS_GAUGES, "process_cpu_seconds_total",
    }  # fmt: skip


@pytest.mark.shared
@pytest.mark.loopback
def test_at_full_size_there_are_one_to_three_thousand_series(upstream: Upstream, tmp_path: Path, shared: Path) -> None:
    """Every shipped source, model and setting, the embedded book and the real recordings, all of them taken for fresh."""
    serve_shared(upstream, shared, NOW.date())
    full, ours = load_world(config_dir()), load_world(config_dir(), write_user_config(tmp_path / "config", upstream.url))
    handle = open_book(full, tmp_path, NOW)
    collector = Collector(world=ours, db=handle, now=lambda: NOW, gate=HostGate(monotonic=monotonic))
    for source in ours.config.sources.values():
        if source.settings.enabled:
            collect_source(collector, source)
    with reading(handle) as connection:
        book, health = read_book(connection, NOW, ours.config.sources), source_health(connection, full.config.sources, NOW)
    handle.dispose()
    book = replace(book, offers=offers_of(taken_for_fresh(book.offers)), price_lists=rates_of(taken_for_fresh(book.price_lists)))
    snapshot = replace(of_book(book, health, full, Sizer(full)), vitals=VITALS)
    assert 1_000 < len(series(text_of(snapshot))) < 3_000


def taken_for_fresh(entries: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(replace(entry, fresh=True, imported=False) for entry in entries)


# --- what is kept from one look to the next ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_what_is_kept_tells_what_is_worked_out_from_nothing(db: Engine, world: World, seed: int) -> None:
    """Offers move, come, go, sell out and grow old, in two currencies and odd numbers of GPUs; rates of exchange move as well."""
    dice, now = random.Random(seed), T0
    own, sizer, renderer = Remembered(), Sizer(world), Renderer()
    running = RunningBook(world.config.sources, own)
    listed = {sku: _drawn(dice, sku) for sku in map(str, range(30))}
    for _ in range(30):
        now += timedelta(minutes=dice.choice((1, 20, 20, 50, 400)))
        what = dice.choice(("rents", "rents", "rents", "tokens", "ecb", "nothing"))
        if what == "rents":
            listed |= {sku: _drawn(dice, sku) for sku in dice.sample(sorted(listed), dice.choice((0, 1, 3)))}
            sweep(db, "rents", now, *(row for row in listed.values() if dice.random() < 0.97), remembered=own)
        elif what == "tokens":
            rates = (rate(input=str(dice.randrange(1, 9)), output="9", sku=sku) for sku in ("standard", "batch", "flex"))
            cny = rate(provider="cn", currency="CNY", input=str(dice.randrange(1, 9)), output="70")
            sweep(db, "tokens", now, *rates, cny, remembered=own)
        elif what == "ecb":
            sweep(db, "ecb", now, fx=fx(now.date() - timedelta(days=1), USD=f"1.{dice.randrange(10, 99)}", CNY="8.75"), rows=2)
        _, found = latest(db, world, sizer, now, running.read)
        whole = recompute(db, world, Sizer(world), found.at)
        assert assemble(renderer.lines(families(found)), "text").decode() == text_of(whole)
        assert {key: told for key, told in series(text_of(found)).items() if PREFIX + "rental_" in key} == _rentals(whole)


def _drawn(dice: random.Random, sku: str) -> OfferRow:
    count = dice.choice((1, 1, 2, 3, 8))
    return offer(
        f"{count * dice.randrange(100, 400) / 100}", sku=sku, gpu=dice.choice(("test-80", "test-141")), gpu_count=count,
        provider=dice.choice(("cloud", "euro-cloud")), currency=dice.choice(("USD", "USD", "USD", "EUR")),
        availability=dice.choice((0, 1, 2, 3)), trust=dice.choice(("datacenter", "verified", "community")),
        price_kind=dice.choice(("list", "ask", "starting_at")),
    )  # fmt: skip


def _rentals(snapshot: Snapshot) -> dict[str, str]:
    """The series of rents, out of the offers as values."""
    prices: dict[str, list[Decimal]] = {}
    for entry in snapshot.market:
        one = entry.value
        if (
            entry.fresh
            and one.trust in ("datacenter", "verified")
            and one.availability != "unavailable"
            and one.price_kind != "starting_at"
        ):
            prices.setdefault(f'{{gpu="{one.gpu}",provider="{one.provider}",tier="{one.tier}"}}', []).append(one.usd_per_gpu_hour)
    figures = (("rental_usd_per_gpu_hour", min), ("rental_median_usd_per_gpu_hour", median), ("rental_offers", len))
    return {f"{PREFIX}{name}{key}": str(float(of(found))) for name, of in figures for key, found in prices.items()}


# --- staleness ------------------------------------------------------------------------------------------------------------

RENT_FIGURES = {
    "best_setup_usd_per_hour", "best_setup_info", "best_setup_tight", "best_setup_saving_ratio", "setup_usd_per_hour",
    "rental_usd_per_gpu_hour", "rental_median_usd_per_gpu_hour", "rental_offers",
}  # fmt: skip
API_FIGURES = {"api_usd_per_mtok", "api_usd_per_month", "api_info", "token_rate_usd_per_mtok"}
BOTH = {
    "break_even_tokens_per_month", "break_even_info", "break_even_utilization_ratio", "break_even_feasible", "self_host_usd_per_mtok",
    "self_host_usd_per_month",
}  # fmt: skip


def names(text: str) -> set[str]:
    return {name.partition("{")[0].removeprefix(PREFIX) for name in series(text)}


@pytest.mark.parametrize(
    ("hours", "gone"),
    [
        (3, set()),  # rents may be 3 h old, to the moment
        (4, RENT_FIGURES | BOTH),
        (49, RENT_FIGURES | BOTH | API_FIGURES),  # token prices 48 h
    ],
)
def test_stale_figures_leave_and_the_timestamps_stay(db: Engine, world: World, hours: int, gone: set[str]) -> None:
    fill(db)
    now, late = (recompute(db, world, Sizer(world), at) for at in (NOW, T0 + timedelta(hours=hours)))
    before, after = text_of(now), text_of(late)
    assert names(before) - names(after) == gone
    for name in ("source_last_success_timestamp_seconds", "source_last_attempt_timestamp_seconds", "source_sweeps_total"):
        kept = {key: value for key, value in series(after).items() if key.startswith(PREFIX + name)}
        assert kept == {key: value for key, value in series(before).items() if key.startswith(PREFIX + name)}
        assert kept


def test_what_leaves_the_book_leaves_the_metrics(db: Engine, world: World) -> None:
    fill(db)
    for minutes in (15, 30):  # once may be a slip of the page
        sweep(db, "rents", T0 + timedelta(minutes=minutes), offer("2.30"))
    text = text_of(recompute(db, world, Sizer(world), NOW))
    assert "euro-cloud" not in text
    assert series(text)['breakeven_best_setup_usd_per_hour{model="small-8b",policy="studiotv",workload="turns"}'] == "2.3"


def test_an_empty_book_has_its_own_times_and_no_figure(db: Engine, world: World) -> None:
    about_us = {"source_enabled", "source_max_age_seconds", "source_sweeps_total", "source_failures_total"}
    about_us |= {"source_quarantined_prices", "source_conflicting_prices"}  # none is a true 0 here
    about_us |= {"source_interval_seconds", "baseline_usd_per_hour"}
    assert names(text_of(recompute(db, world, Sizer(world), NOW))) == about_us | {"snapshot_timestamp_seconds", "build_info"}


# --- hostile labels -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("provider", "escaped"),
    [
        ('a"b', r"a\"b"),
        ("a\\b", r"a\\b"),
        ("a\nb", r"a\nb"),
        ('"} 1\nbreakeven_build_info{version="0"} 1', r"\"} 1\nbreakeven_build_info{version=\"0\"} 1"),
        ("ünïcödé \N{SNOWMAN}", "ünïcödé \N{SNOWMAN}"),
    ],
)
def test_a_hostile_label_stays_one_label(snapshot: Snapshot, provider: str, escaped: str) -> None:
    (listed,) = (entry for entry in snapshot.market if entry.value.provider == "euro-cloud")
    market = (replace(listed, value=replace(listed.value, provider=provider)),)
    lines = [
        x for x in text_of(replace(snapshot, market=offers_of(market))).splitlines() if x.startswith("breakeven_rental_usd_per_gpu_hour")
    ]
    assert lines == [f'breakeven_rental_usd_per_gpu_hour{{gpu="test-80",provider="{escaped}",tier="on_demand"}} 0.95']


def test_a_price_is_a_float_here_and_nowhere_else(snapshot: Snapshot) -> None:
    (entry,) = (e for e in snapshot.book.offers if e.value.provider == "euro-cloud")
    assert isinstance(entry.value.usd_per_hour, Decimal)
    assert entry.value.usd_per_hour == Decimal("0.95")


# --- real readers ---------------------------------------------------------------------------------------------------------


@pytest.mark.real
def test_promtool_finds_nothing_to_say(snapshot: Snapshot, require: Callable[[str], Path]) -> None:
    command = [str(require("promtool")), "check", "metrics"]
    told = subprocess.run(command, input=text_of(snapshot), capture_output=True, text=True, timeout=60, check=False)
    assert (told.returncode, told.stdout, told.stderr) == (0, "", "")
    broken = subprocess.run(command, input="# TYPE x counter\nx 1\n", capture_output=True, text=True, timeout=60, check=False)
    assert broken.returncode != 0


@pytest.mark.real
@pytest.mark.loopback
def test_a_prometheus_scrapes_the_daemon_and_answers_for_both_models(
    upstream: Upstream, tmp_path: Path, prometheus: Callable[[str], Prometheus]
) -> None:
    """Seven of RunPod's B300 at $6.94 hold kimi-k3.1-pro; the other price is the one the API serves."""
    serve_market(upstream)
    write_user_config(tmp_path / "config", upstream.url)
    with Running(tmp_path) as daemon:
        server = prometheus(daemon.url.removeprefix("http://"))
        found = server.wait_for("breakeven_best_setup_usd_per_hour", 2)
        prices = {result["metric"]["model"]: Decimal(result["value"][1]) for result in found}
        muse = daemon.get("/api/v1/models/muse-spark-open").json()["setup"]["usd_per_hour"]
        assert prices == {"kimi-k3.1-pro": Decimal("48.58"), "muse-spark-open": Decimal(muse)}
        (up,) = server.query('up{job="breakeven"}')
        assert up["value"][1] == "1"
        assert {result["metric"]["model"] for result in server.query("breakeven_best_setup_info == 1")} == set(prices)
        assert daemon.stop() == 0
