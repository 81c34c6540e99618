"""What is no price at all: bands per GPU, tier and token kind, cached input, composed prices, currencies; and the limits themselves."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from scrapers.contract import FxQuote, GpuQuote, LayoutChanged, Row, TokenQuote
from scrapers.http import HostGate
from tracker.book.book import read_book
from tracker.book.exchange import load_shipped
from tracker.config import Source, SourceSettings, load_config
from tracker.database.handle import migrate, open_database, writing
from tracker.database.rows import identity
from tracker.errors import ConfigError
from tracker.guard.settings import GuardSettings
from tracker.paths import config_dir
from tracker.sweeps.collect import Collector, keep, read_rows
from tracker.sweeps.store import SweepReport
from tracker.world import World, load_world

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
SOURCE = Source(id="runpod", settings=SourceSettings(kind="rent", base_url="https://x", interval_minutes=15, max_age_hours=3))


@pytest.fixture(scope="module")
def world() -> World:
    return load_world(config_dir())


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated book with exchange rates, to be copied."""
    path = tmp_path_factory.mktemp("book") / "book.db"
    db = open_database(f"sqlite:///{path}")
    migrate(db)
    with writing(db) as connection:
        load_shipped(connection)
    db.dispose()
    return path


@pytest.fixture
def collector(world: World, empty: Path, tmp_path: Path) -> Iterator[Collector]:
    db = open_database(f"sqlite:///{shutil.copy(empty, tmp_path / 'book.db')}")
    sources = {**world.config.sources, SOURCE.id: SOURCE}
    yield Collector(
        world=replace(world, config=replace(world.config, sources=sources)), db=db, now=lambda: NOW, gate=HostGate(monotonic=monotonic)
    )
    db.dispose()


def gpu(price: str, **other: Any) -> GpuQuote:
    """A quote of one H200 an hour in USD, or what is told instead."""
    stated: dict[str, Any] = dict(
        provider="runpod",
        sku="H200",
        gpu="NVIDIA H200",
        gpu_count=1,
        tier="on_demand",
        price=Decimal(price),
        per="node_hour",
        currency="USD",
    )
    return GpuQuote(**(stated | other))


def tokens(**prices: str) -> TokenQuote:
    """A quote of Kimi K3 per Mtok in USD."""
    return TokenQuote(
        provider="moonshotai", model="kimi-k3", prices={kind: Decimal(price) for kind, price in prices.items()}, per="mtok", currency="USD"
    )


def read(collector: Collector, *rows: Row) -> SweepReport:
    return read_rows(collector, SOURCE, rows, NOW - timedelta(seconds=1), NOW)


GOOD = gpu("3.59", sku="good")

# --- bands ------------------------------------------------------------------------------------------------------------------

RENTS = [
    # name, count, tier, USD an hour of the machine, usable: limits of gpu_bands.toml from prices on record and the usual slips
    ("NVIDIA H200", 1, "on_demand", "3.59", True),
    ("NVIDIA H200", 8, "on_demand", "118.00", True),  # Azure eastus 2024-12
    ("NVIDIA H200", 8, "on_demand", "236.00", True),  # Azure brazilsouth 2024-12
    ("NVIDIA H200", 1, "on_demand", "0.50", False),  # a placeholder
    ("NVIDIA H200", 1, "on_demand", "359", False),  # cents
    ("NVIDIA H200", 8, "on_demand", "3.59", False),  # one GPU's price for the node
    ("NVIDIA H100 80GB HBM3", 8, "on_demand", "98.32", True),  # AWS p5 until 2025-06
    ("NVIDIA H100 80GB HBM3", 1, "on_demand", "0.01", False),  # Azure ukwest
    ("NVIDIA H100 80GB HBM3", 8, "spot", "16.0985", True),  # GCP us-east4 2025-09
    ("NVIDIA H100 80GB HBM3", 8, "spot", "1.60", False),
    ("AMD Instinct MI300X OAM", 1, "on_demand", "2.39", True),
    ("AMD Instinct MI300X OAM", 1, "on_demand", "0.50", False),  # RunPod's placeholder of the community cloud
    ("NVIDIA L4", 1, "on_demand", "0.01", False),  # Scaleway's placeholder of 2023
    ("NVIDIA L4", 1, "on_demand", "0.0218", False),  # Vast.ai's lowest in August 2026, nobody verified
    ("NVIDIA L4", 1, "on_demand", "0.44", True),
    ("NVIDIA B300 SXM6 AC", 8, "on_demand", "142.416", True),  # AWS p6-b300
    ("NVIDIA B300 SXM6 AC", 1, "on_demand", "0.50", False),  # a MIG slice's placeholder
    ("NVIDIA B300 SXM6 AC", 1, "on_demand", "5066.2", False),  # a month
]


@pytest.mark.parametrize(("name", "count", "tier", "price", "usable"), RENTS)
def test_bands_of_gpus(collector: Collector, name: str, count: int, tier: str, price: str, usable: bool) -> None:
    report = read(collector, GOOD, gpu(price, gpu=name, gpu_count=count, tier=tier))
    assert len(report.offers) == 1 + usable
    assert report.skipped == Counter({} if usable else {"price outside the plausible band": 1})
    assert len(report.rejected) == 1 - usable


def test_a_slice_is_kept_apart_and_no_band_judges_it(collector: Collector) -> None:
    report = read(collector, gpu("0.16", is_slice=True))
    assert [row.is_slice for row in report.offers] == [True]


@pytest.mark.parametrize("price", ["0", "-1", "NaN", "Infinity", "-Infinity"])
def test_a_rent_is_a_finite_number_above_zero(collector: Collector, price: str) -> None:
    assert [row.sku for row in read(collector, GOOD, gpu(price)).offers] == ["good"]


@pytest.mark.parametrize(
    ("currency", "usable"), [("USD", True), ("CNY", True), ("XTS", False), ("usd", False), ("", False), ("HRK", False)]
)
def test_a_currency_is_known_and_still_quoted(collector: Collector, currency: str, usable: bool) -> None:
    """Of a source whose pages are in dollars or in yuan."""
    source = replace(SOURCE, id="moonshot")
    report = read_rows(collector, source, [GOOD, gpu("25", currency=currency)], NOW, NOW)
    assert len(report.offers) == 1 + usable


@pytest.mark.parametrize(("source", "currency", "usable"), [
    ("runpod", "USD", 1), ("runpod", "EUR", 0), ("azure", "EUR", 0), ("aws", "EUR", 0), ("scaleway", "EUR", 1), ("scaleway", "USD", 0),
    ("ovhcloud", "USD", 0), ("ovhcloud_us", "USD", 1), ("upcloud", "USD", 0),
])  # fmt: skip
def test_a_price_is_in_the_money_its_source_prints(collector: Collector, source: str, currency: str, usable: int) -> None:
    """The same figure in another currency: at a first sight nothing else would tell."""
    right = {"scaleway": "EUR", "ovhcloud": "EUR", "upcloud": "EUR"}.get(source, "USD")
    rows = [gpu("3.59", sku="good", currency=right), gpu("3.59", currency=currency)]
    report = read_rows(collector, replace(SOURCE, id=source), rows, NOW, NOW)
    assert len(report.offers) - 1 == usable
    assert report.skipped == Counter({} if usable else {"currency that the source does not print": 1})


@pytest.mark.parametrize("count", [0, -1, 0.5, True])
def test_counts_are_whole(collector: Collector, count: Any) -> None:
    assert [row.sku for row in read(collector, GOOD, gpu("3.59", gpu_count=count)).offers] == ["good"]


def test_nothing_usable_at_all_fails_the_sweep_with_the_reasons(collector: Collector) -> None:
    with pytest.raises(LayoutChanged, match=r"runpod: not one usable price \(2 price outside the plausible band, 1 price is not above 0\)"):
        read(collector, gpu("359"), gpu("0.01", sku="b"), gpu("0", sku="c"))


TOKENS = [
    (dict(input="3", output="15", cache_read="0.3"), ""),
    (dict(input="0", output="0"), ""),  # free is no fault
    (dict(input="3"), ""),  # a missing kind is unknown
    (dict(input="150", output="600"), ""),  # o1-pro
    (dict(input="15000", output="15000"), "price outside the plausible band"),  # wandb: dollars per Mtok told as dollars per token
    (dict(input="0.0001", output="0.0002"), "price outside the plausible band"),  # a placeholder, four orders low
    (dict(input="3", output="15", cache_read="0.00005"), "price outside the plausible band"),
    (dict(input="3", output="1500"), "price outside the plausible band"),
    (dict(input="3", output="15", cache_read="3"), ""),
    (dict(input="3", output="15", cache_read="3.01"), "cached input dearer than input"),
    (dict(input="0", output="0", cache_read="0.1"), "cached input dearer than input"),
    (dict(input="3", output="15", cache_write_5m="401"), "price outside the plausible band"),
]


@pytest.mark.parametrize(("prices", "reason"), TOKENS)
def test_bands_of_tokens(collector: Collector, prices: dict[str, str], reason: str) -> None:
    report = read(collector, GOOD, tokens(**prices))
    assert (len(report.rates), report.skipped) == (not reason, Counter({reason: 1} if reason else {}))


def test_a_reference_rate_follows_the_last_one(collector: Collector) -> None:
    """Dollars for one euro; the shipped history ends in 2026. A quarter at once is no rate, unless the last one known is old."""
    with collector.db.connect() as connection:
        day = connection.exec_driver_sql("select max(day) from fx where currency = 'USD'").scalar()
        last = Decimal(connection.exec_driver_sql("select rate from fx where currency = 'USD' order by day desc limit 1").scalar()) / 10**9
    next_day = date.fromisoformat(str(day)) + timedelta(days=1)
    for factor, late, usable in (("1.02", 0, 1), ("0.97", 0, 1), ("10", 0, 0), ("0.1", 0, 0), ("1.25", 0, 0), ("1.25", 60, 1)):
        quote = FxQuote(base="EUR", currency="USD", rate=last * Decimal(factor), day=next_day + timedelta(days=late))
        later = replace(collector, now=lambda: NOW + timedelta(days=400))
        report = read_rows(later, SOURCE, [GOOD, quote], NOW, NOW)
        assert len(report.fx) == usable, factor


# --- composed prices --------------------------------------------------------------------------------------------------------

PARTS: dict[str, Any] = {"vcpu": "0.38", "ram": "0.31", "gpu": "2.90", "disk": "0.08"}


@pytest.mark.parametrize("missing", [None, "vcpu", "ram", "gpu", "disk"])
def test_a_composed_price_needs_every_part(collector: Collector, missing: str | None) -> None:
    parts = tuple((name, None if name == missing else Decimal(price)) for name, price in PARTS.items())
    total = sum((price for _, price in parts if price is not None), Decimal(0))
    report = read(collector, GOOD, gpu(str(total), parts=parts))
    assert report.skipped == Counter({f"composed price lacks {missing}": 1} if missing else {})
    assert len(report.offers) == (1 if missing else 2)


def test_parts_add_up(collector: Collector) -> None:
    parts = tuple((name, Decimal(price)) for name, price in PARTS.items())
    assert read(collector, GOOD, gpu("3.68", parts=parts)).skipped == Counter({"parts do not add up to the price": 1})


# --- conflicts --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("printed", "offers", "conflicts"),
    [
        (("3.59", "3.59"), 1, 0),  # the same twice is once
        (("3.59", "3.79"), 0, 1),
        (("3.59", "359"), 0, 1),  # one of the two is no price: still nobody knows which line is meant
        (("3.59", "3.79", "3.59"), 0, 1),
    ],
)
def test_one_offer_at_two_prices(collector: Collector, printed: tuple[str, ...], offers: int, conflicts: int) -> None:
    report = read(collector, GOOD, *(gpu(price) for price in printed))
    assert (len(report.offers) - 1, len(report.conflicts)) == (offers, conflicts)
    assert report.skipped["same offer at two prices"] == conflicts


def test_a_sweep_tells_how_much_it_held_back(collector: Collector) -> None:
    """The first sweep lists; the second prints one offer ten times dearer and one at two prices."""
    keep(collector, read(collector, GOOD, gpu("3.59"), gpu("4.00", sku="B")))
    report = read_rows(collector, SOURCE, [GOOD, gpu("35.9"), gpu("4", sku="B"), gpu("5", sku="B")], NOW, NOW + timedelta(minutes=15))
    kept = keep(collector, report)
    assert kept.status == "ok"
    with collector.db.connect() as connection:
        found = connection.exec_driver_sql("select quarantined, conflicts from sweep order by id").all()
    assert [tuple(row) for row in found] == [(0, 0), (2, 1)]


def test_a_sweep_of_which_every_row_is_rejected_keeps_what_was_listed(collector: Collector) -> None:
    """Cents for dollars in every row: the source fails as a whole, and its last good prices stay with their own age."""
    keep(collector, read(collector, GOOD, gpu("4.00", sku="B")))
    with pytest.raises(LayoutChanged, match=r"2 price outside the plausible band"):
        read(collector, gpu("359", sku="good"), gpu("400", sku="B"))
    later = NOW + timedelta(minutes=15)
    keep(collector, SweepReport(source="runpod", started_at=later, finished_at=later, status="failed", error="not one usable price"))
    with collector.db.connect() as connection:
        book = read_book(connection, later, collector.world.config.sources)
    assert {(e.value.sku, f"{e.value.usd_per_hour:f}", e.seen_at) for e in book.offers} == {("good", "3.59", NOW), ("B", "4", NOW)}


VOLATILE = {
    "availability": 0,
    "max_gpu_count": 8,
    "interconnect": "nvlink",
    "source_url": "https://x/elsewhere",
    "price": 1,
    "price_kind": "list",
}


def test_no_identity_depends_on_what_changes_by_the_minute(collector: Collector) -> None:
    """Prices, stock, addresses and counts that may be rented; a quote's memory, host and parts do not even reach the row."""
    (row,) = read(collector, gpu("3.59")).offers
    for name, value in VOLATILE.items():
        assert identity("runpod", replace(row, **{name: value})) == identity("runpod", row), name  # type: ignore[arg-type]
    told = [gpu("3.59", memory_gb=Decimal(141), host="h1"), gpu("3.59", memory_gb=Decimal(143), host="h2", reliability=Decimal("0.5"))]
    assert len({identity("runpod", row) for quote in told for row in read(collector, quote).offers}) == 1
    for name in ("sku", "region", "gpu", "tier", "trust", "currency"):
        assert identity("runpod", replace(row, **{name: "other"})) != identity("runpod", row), name  # type: ignore[arg-type]


# --- the limits themselves --------------------------------------------------------------------------------------------------


def test_every_gpu_that_is_rented_out_has_bands(world: World) -> None:
    """Boxes with memory of their own are bought, not rented."""
    rented = {gpu.id for gpu in world.catalogue.gpus.values() if gpu.gpu_class != "unified"}
    assert set(world.settings.guard.bands) == rented


def test_what_is_shipped_is_what_the_program_takes_for_granted(world: World) -> None:
    """A user's [guard] replaces the whole table: what it leaves out must not become laxer."""
    shipped = world.settings.guard.model_dump(exclude={"bands", "anchors"})
    assert shipped == GuardSettings().model_dump(exclude={"bands", "anchors"})


def test_bands_of_lower_tiers_reach_lower(world: World) -> None:
    for bands in world.settings.guard.bands.values():
        assert bands.spot.least <= bands.on_demand.least
        assert bands.reserved.least <= bands.on_demand.least
        assert bands.on_demand.most >= 2 * bands.on_demand.least


WRONG = [
    ("tracker.toml", "[guard]\nsweps = 3", r"\[guard\] sweps: unknown key \(did you mean sweeps\?\)"),
    ("tracker.toml", "[guard]\nsweeps = 0", r"\[guard\] sweeps: Input should be greater than or equal to 1"),
    ("tracker.toml", "[guard]\nrent_change = 1", r"\[guard\] rent_change: Input should be greater than 1"),
    ("tracker.toml", "[guard]\nrent_drop = 30", r"\[guard\] rent_drop: Input should be less than or equal to 1"),
    (
        "tracker.toml",
        '[guard.anchors]\nrunpot = ["nvidia-b300-sxm-288"]',
        r"\[guard.anchors\] no source 'runpot' \(did you mean runpod\?\)",
    ),
    ("tracker.toml", '[guard.anchors]\nrunpod = ["b300"]', r"\[guard.anchors\] runpod: no GPU or model 'b300'"),
    ("tracker.toml", '[guard.market]\nheadline = "min"', r"\[guard\] market.headline: String should match pattern"),
    ("gpu_bands.toml", "[nvidia-h100]\n{band}", r"gpu_bands.toml: \[nvidia-h100\] no such GPU in gpus.toml \(did you mean nvidia-"),
    ("gpu_bands.toml", "[nvidia-l4]\n{swapped}", r"\[nvidia-l4\] on_demand: Value error, least 6 is above most 1"),
]
BAND = """on_demand = {{ least = {0}, most = {1} }}
spot = {{ least = 1, most = 6 }}
reserved = {{ least = 1, most = 6 }}
source = "made up"
checked = 2026-11-29
"""


@pytest.mark.parametrize(("name", "text", "message"), WRONG)
def test_a_wrong_limit_is_one_clear_error(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text.replace("{band}", BAND.format(1, 6)).replace("{swapped}", BAND.format(6, 1)), encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        load_world(config_dir(), tmp_path)


def test_one_band_of_ones_own_leaves_the_others(tmp_path: Path) -> None:
    (tmp_path / "gpu_bands.toml").write_text("[nvidia-l4]\n" + BAND.format(1, 6), encoding="utf-8")
    shipped, own = (load_config(config_dir(), folder).settings.guard.bands for folder in (None, tmp_path))
    assert own["nvidia-l4"].on_demand.least == 1
    assert {gpu: own[gpu] for gpu in own if gpu != "nvidia-l4"} == {gpu: shipped[gpu] for gpu in shipped if gpu != "nvidia-l4"}
