"""A small configuration of its own, so that what the tracker works out can be worked out by hand and no fact of ours moves it.

Two GPUs, two models, one workload. By the rule "90 % of the memory less 1 GiB" a GPU of 80 GB gives 70.93 GB and one of 141 GB
125.83 GB: ``small-8b`` (16 GB of weights) takes one of either, ``large-60b`` (120 GB) one of 141 GB or two of 80 GB.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from sqlalchemy import Engine

from engine.budgets import Spent
from scrapers.contract import FxQuote
from tracker.answers.snapshot import ActiveAlert, Vitals
from tracker.book.remembered import Remembered
from tracker.budgets.state import BudgetState, Part
from tracker.database.handle import migrate, open_database
from tracker.database.rows import OfferRow, RateRow, scaled
from tracker.database.tables import RATE_SCALE, RENT_SCALE
from tracker.paths import config_dir
from tracker.sweeps.store import SweepReport, record_sweep
from tracker.world import World, load_world

T0 = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)  # a Monday

FILES: Mapping[str, str] = {
    "formats.toml": """
[bf16]
name = "BF16"
bits_per_weight = 16
fidelity = 100
engines = ["vllm"]
source = "16 bits"
checked = 2026-11-29
""",
    "gpus.toml": """
[test-80]
name = "Test 80GB"
vendor = "nvidia"
architecture = "Test"
gpu_class = "datacenter"
engines = ["vllm"]
native_formats = ["bf16"]
memory_marketed_gb = 80
source = "made up"
checked = 2026-11-29

[test-141]
name = "Test 141GB"
vendor = "nvidia"
architecture = "Test"
gpu_class = "datacenter"
engines = ["vllm"]
native_formats = ["bf16"]
memory_marketed_gb = 141
source = "made up"
checked = 2026-11-29
""",
    "gpu_names.toml": """
[any]
"TEST 80GB" = "test-80"
"TEST 141GB" = "test-141"
"TEST" = [{ memory_gb = 80, gpu = "test-80" }, { memory_gb = 141, gpu = "test-141" }]

[rents]
"T141" = "test-141"
""",
    "instances.csv": """provider,sku,gpu,gpu_count,verified,source,checked
cloud,whole.8x,test-80,8,yes,made up,2026-11-29
cloud,slice.1x,test-80,0.5,yes,made up,2026-11-29
cloud,rumour.4x,test-80,4,no,made up,2026-11-29
""",
    "models/small-8b.toml": """
name = "Small 8B"
organisation = "Other"
native_format = "bf16"
layers = 32
params = 8_000_000_000
source = "made up"
checked = 2026-11-29

[[layer_groups]]
count = 32
kind = "gqa"
kv_heads = 8
k_dim = 64
v_dim = 64

[aliases]
other = ["small"]
""",
    "models/large-60b.toml": """
name = "Large 60B"
organisation = "Vendor Inc."
native_format = "bf16"
layers = 64
attention_heads = 64
params = 60_000_000_000
source = "made up"
checked = 2026-11-29

[[layer_groups]]
count = 64
kind = "gqa"
kv_heads = 8
k_dim = 64
v_dim = 64

[aliases]
vendor = ["large", { id = "large-highspeed", sku = "highspeed" }, { id = "eu.large", region = "eu" }]
tokens = ["vendor/large", { id = "global.large", sku = "highspeed", region = "global" }]
""",
    "workloads.toml": """
[turns]
name = "Turns of a test"
mix = { cache_read = 6_000, input = 1_500, output = 500 }
requests_per_month = 1_000_000
context = 8_192

[[turns.capacities]]
model = "large-60b"
gpu = "test-141"
gpu_count = 1
weight_format = "bf16"
requests_per_month = 500_000
source = "made up"
checked = 2026-11-29
""",
    "providers.toml": """
[vendor]
name = "Vendor"
organisations = ["Vendor Inc."]
aliases = ["vendor-ai", "Vendor.AI"]
source = "made up"
checked = 2026-11-29
""",
    "tracker.toml": """
[track]
models = ["large-60b", "small-8b"]
workload = "turns"

[fetch]
user_agent = "breakeven-tests"

[baseline]
large-60b = 2.875
""",
    "sources.toml": """
[rents]
kind = "rent"
module = "runpod"
base_url = "http://127.0.0.1:9"
interval_minutes = 15
max_age_hours = 3

[tokens]
kind = "token"
module = "genai_prices"
base_url = "http://127.0.0.1:9"
interval_minutes = 60
max_age_hours = 48

[ecb]
kind = "fx"
base_url = "http://127.0.0.1:9"
interval_minutes = 720
max_age_hours = 120

[keyed]
kind = "rent"
module = "lambda_labs"
base_url = "http://127.0.0.1:9"
interval_minutes = 60
max_age_hours = 6
key_env = "TEST_ONLY_KEY"
""",
}


def write_config(folder: Path, **changed: str) -> Path:
    """The configuration as files, shipped ones it has no use for empty; ``changed`` replaces some by name, with ``_`` for the dot."""
    empty = {path.name: "" for path in config_dir().glob("*.toml")}
    texts = empty | dict(FILES) | {name.replace("_toml", ".toml").replace("_csv", ".csv"): text for name, text in changed.items()}
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def small_world(folder: Path, **changed: str) -> World:
    """The world of that configuration."""
    return load_world(write_config(folder, **changed))


@pytest.fixture
def world(tmp_path: Path) -> World:
    """The small world."""
    return small_world(tmp_path / "small")


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Engine]:
    """An empty book."""
    handle = open_database(f"sqlite:///{tmp_path / 'book.db'}")
    migrate(handle)
    yield handle
    handle.dispose()


# --- prices ---------------------------------------------------------------------------------------------------------------


def offer(price: str, sku: str = "141x1", gpu: str = "test-141", gpu_count: int = 1, **other: object) -> OfferRow:
    """``gpu_count`` GPUs at ``price`` an hour for all of them, USD unless said."""
    stated: dict[str, object] = dict(
        provider="cloud", sku=sku, region="", gpu=gpu, gpu_count=gpu_count, tier="on_demand", trust="datacenter", currency="USD",
        price=scaled(Decimal(price), RENT_SCALE),
    )  # fmt: skip
    return OfferRow(**(stated | other))  # type: ignore[arg-type]


def rate(model: str = "large-60b", provider: str = "vendor", **prices: str | object) -> RateRow:
    """Prices per Mtok by token kind, USD unless said; anything else is a column."""
    kinds = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output")
    stated: dict[str, object] = dict(provider=provider, source_model=model, model=model, currency="USD")
    money = {kind: scaled(Decimal(str(price)), RATE_SCALE) for kind, price in prices.items() if kind in kinds}
    return RateRow(**(stated | prices | money))  # type: ignore[arg-type]


def fx(day: date, **per_eur: str) -> list[FxQuote]:
    """Reference rates of a day: units for one EUR."""
    return [FxQuote(base="EUR", currency=currency, rate=Decimal(units), day=day) for currency, units in per_eur.items()]


def sweep(db: Engine, source: str, at: datetime, *rows: OfferRow | RateRow, remembered: Remembered | None = None, **how: object) -> int:
    """Record a sweep of ``source`` that saw ``rows`` at ``at`` and took two seconds; returns the change points."""
    stated: dict[str, object] = dict(
        source=source, started_at=at - timedelta(seconds=2), finished_at=at, status="ok", rows=len(rows),
        offers=[row for row in rows if isinstance(row, OfferRow)], rates=[row for row in rows if isinstance(row, RateRow)],
    )  # fmt: skip
    return record_sweep(db, SweepReport(**(stated | how)), remembered=remembered)  # type: ignore[arg-type]


# 37 hours of $2.875, 683 to come, and one of them that nobody knows the price of: $106.375 and $1,963.625, $2,070 together.
BUDGETS = (
    BudgetState(
        name="team", month=datetime(2026, 11, 1, tzinfo=UTC), at=T0 + timedelta(hours=1), end=datetime(2026, 12, 1, tzinfo=UTC),
        budget_usd=Decimal(2000),
        parts=(
            Part(
                what="rent for large-60b", spans=(), spent=Spent(usd=Fraction("106.375"), unknown_hours=Fraction(1)),
                ahead=Fraction("1963.625"), how="at the price of now",
            ),
        ),
    ),
)  # fmt: skip
VITALS = Vitals(
    jobs=5, missed=2, trouble="full", database_bytes=8192, waiting=1, failed=0, oldest_waiting=T0,
    alerts=(
        ActiveAlert(
            id=7, rule="cheaper-setup", kind="cheaper_setup", subject="large-60b/turns/studiotv", fired_at=T0, held_until=None,
            title="large-60b: $2.30/h instead of $3.00/h", text="cheaper setup for large-60b: $2.30/h instead of $3.00/h",
        ),
    ),
    process={
        "cpu_seconds": 1.5, "resident_memory_bytes": 100 * 2**20, "start_time_seconds": (T0 - timedelta(hours=1)).timestamp(),
        "open_fds": 20, "max_fds": 1024,
    },
)  # fmt: skip


def fill(db: Engine) -> None:
    """A book whose answers were worked out by hand for tests/golden/metrics.txt.

    large-60b: one test-141 at $2.30 against two test-80 at $3.00. A turn costs 6,000 x 0.2 + 1,500 x 2 + 500 x 10 = $0.0092 a
    request of 8,000 tokens, $9,200 a month, $1.15 a Mtok; 2.30 x 730 = $1,679 a month breaks even at 1,679 / 1.15 = 1,460 Mtok,
    0.365 of the 4,000 Mtok that 500,000 requests are, at $0.41975 a Mtok when busy; 8,000 Mtok take two. Of $2.875 an hour it saves 20 %.
    small-8b: EUR 0.76 at 1.25 dollars a euro is $0.95. Without a cached price 7,500 x 0.1 + 500 x 0.4 = $0.00095 a request, $950 a
    month, $0.11875 a Mtok; 0.95 x 730 = $693.50 breaks even at 5,840 Mtok.
    """
    rates = fx(date(2026, 10, 30), USD="1.25", CNY="8.75")
    sweep(db, "ecb", T0 - timedelta(hours=1), fx=rates, rows=2)
    sweep(db, "rents", T0 - timedelta(minutes=30), status="failed", error="no answer", rows=0)
    sweep(
        db, "rents", T0,
        offer("2.30"),
        offer("3.00", sku="80x2", gpu="test-80", gpu_count=2),
        offer("0.76", sku="80x1", gpu="test-80", provider="euro-cloud", currency="EUR"),
        offer("1.00", tier="spot"),
        offer("0.10", trust="community"),
        offer("0.50", sku="sold out", availability=2),
        offer("0.60", sku="as low as", price_kind="starting_at"),
        offer("0.20", sku="slice", gpu="test-80", is_slice=True),
        skipped={"unmapped gpu": 2, "price is not above 0": 1},
    )  # fmt: skip
    sweep(
        db, "tokens", T0 + timedelta(minutes=5),
        rate(input="2", cache_read="0.2", output="10"),
        rate(input="4", output="20", min_prompt_tokens=200_000),
        rate(input="1", output="5", sku="batch"),
        rate(provider="vendor-cn", currency="CNY", input="14", cache_read="7", output="70"),
        rate(provider="other", sku="free", input="0", output="0"),
        rate("small-8b", "other", input="0.1", output="0.4"),
    )  # fmt: skip
