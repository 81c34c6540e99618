"""The embedded price book: what is in it, against figures read by hand from the raw files, and the answers it makes at a first start."""

from __future__ import annotations

import csv
import gzip
import re
import shutil
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from sqlalchemy import Engine

from tracker.answers.recompute import Sizer, recompute
from tracker.book.book import read_book
from tracker.book.bookstore import export_book, import_book
from tracker.book.exchange import load_shipped
from tracker.database.handle import migrate, open_database, reading, writing
from tracker.history.starter import main, make_starter
from tracker.paths import config_dir
from tracker.world import World, load_world

STARTER = Path(__file__).resolve().parents[1] / "config" / "starter"
NAMES = ("offers.csv", "rates.csv")
NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
Row = dict[str, str]

# Last day each source was looked at: its own statement, or the day in the name of the recording.
LAST_SEEN = {
    "aws-karpenter": date(2025, 12, 29),
    "aws-karpenter-2026-05": date(2026, 5, 31),
    "azure-karpenter": date(2025, 6, 3),
    "coreweave-page": date(2026, 10, 31),
    "crusoe-price-list": date(2026, 10, 31),
    "digitalocean-price-list": date(2026, 10, 1),
    "gcp-cyclenerd": date(2025, 12, 25),
    "genai-prices": date(2026, 11, 10),
    "hyperstack-price-list": date(2026, 10, 10),
    "lambda-price-list": date(2026, 10, 10),
    "litellm": date(2026, 11, 20),
    "nebius-price-list": date(2026, 10, 10),
    "oci-cetools": date(2026, 8, 14),
    "openrouter-api": date(2026, 8, 30),
    "ovhcloud-price-list": date(2026, 1, 27),
    "portkey": date(2026, 8, 18),
    "runpod-api": date(2026, 10, 31),
    "runpod-price-list": date(2026, 10, 10),
    "scaleway-api": date(2026, 7, 30),
    "seed-001": date(2026, 10, 17),
    "seed-002": date(2026, 11, 7),
    "seed-003": date(2026, 10, 16),
    "seed-004": date(2026, 11, 10),
    "upcloud-api": date(2026, 9, 23),
    "verda-price-list": date(2026, 10, 1),
    "vultr-price-list": date(2026, 10, 1),
}


def lines(name: str) -> list[Row]:
    with (STARTER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


OFFERS, RATES = lines("offers.csv"), lines("rates.csv")


@pytest.fixture(scope="module")
def world() -> World:
    return load_world(config_dir())


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory, world: World) -> Iterator[Engine]:
    """A database with the book in it."""
    db = open_database(f"sqlite:///{tmp_path_factory.mktemp('starter') / 'book.db'}")
    migrate(db)
    with writing(db) as connection:
        load_shipped(connection)
    import_book(db, STARTER, world.catalogue, NOW)
    yield db
    db.dispose()


def found(rows: list[Row], **wanted: str) -> list[Row]:
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


# --- what is in it -----------------------------------------------------------------------------------------------------------


def test_it_is_small_and_names_enough_sellers() -> None:
    assert sum((STARTER / name).stat().st_size for name in NAMES) < 1_000_000
    sellers = {row["provider"] for row in OFFERS if row["price_kind"] in ("list", "ask") and not row["gone_at"]}
    assert len(sellers) >= 10, sorted(sellers)
    assert len({row["provider"] for row in RATES}) >= 15


@pytest.mark.parametrize("model", ["kimi-k3.1-pro", "muse-spark-open"])
def test_both_tracked_models_have_many_sellers(model: str) -> None:
    assert len({row["provider"] for row in found(RATES, model=model, sku="standard", gone_at="")}) >= 8


def test_every_row_names_its_source_and_no_row_is_later_than_that_source() -> None:
    for row in OFFERS + RATES:
        latest = LAST_SEEN[row["source"]]
        for column in ("valid_from", "seen_at", "gone_at"):
            assert row[column] == "" or date.fromisoformat(row[column][:10]) <= latest, row
        assert row["currency"] in ("USD", "EUR", "CNY")


def test_the_readme_describes_every_source_and_no_other() -> None:
    text = (STARTER / "README.md").read_text(encoding="utf-8")
    described = {name for row in re.findall(r"^\| (`[^|]+) \|", text, re.M) for name in re.findall(r"`([^`]+)`", row)}
    assert described == {row["source"] for row in OFFERS + RATES} == set(LAST_SEEN)


def test_no_table_of_an_origin_that_may_only_be_cited() -> None:
    """At most a few single list prices of each: the files behind them state no licence, or one that nobody has read."""
    cited = [name for name in LAST_SEEN if name.endswith(("-price-list", "-page")) or name in ("runpod-api", "aws-karpenter-2026-05")]
    for name in cited:
        assert 1 <= len({row["gpu"] for row in found(OFFERS, source=name)}) <= 4, name


def test_history_is_real_and_covers_years() -> None:
    spans = {source: (min(r["valid_from"] for r in found(OFFERS, source=source)), max(r["seen_at"] for r in found(OFFERS, source=source)))
             for source in ("aws-karpenter", "azure-karpenter", "gcp-cyclenerd", "scaleway-api")}  # fmt: skip
    assert {source: (first[:7], last[:7]) for source, (first, last) in spans.items()} == {
        "aws-karpenter": ("2022-06", "2025-12"),
        "azure-karpenter": ("2023-10", "2025-06"),
        "gcp-cyclenerd": ("2022-02", "2025-12"),
        "scaleway-api": ("2023-09", "2026-07"),
    }


# --- prices, read by hand from the raw files -----------------------------------------------------------------------------------

AWS, AZURE, GCP, SCW = "aws-karpenter", "azure-karpenter", "gcp-cyclenerd", "scaleway-api"
NAMED_OFFERS = [
    # source, sku, region, tier, valid_from, seen_at: currency and price an hour of the whole offer
    (AWS, "p5.48xlarge", "us-east-1", "on_demand", "2023-08-08T13:58:38Z", "2025-04-28T13:22:31Z", "USD", "98.32"),
    (AWS, "p5.48xlarge", "us-east-1", "on_demand", "2025-06-23T13:18:30Z", "2025-12-29T13:20:43Z", "USD", "55.04"),
    (AZURE, "Standard_ND96isr_H200_v5", "eastus2", "on_demand", "2024-12-13T01:59:24Z", "2024-12-13T01:59:24Z", "USD", "118"),
    (AZURE, "Standard_ND96isr_MI300X_v5", "eastus2", "on_demand", "2025-05-16T07:05:27Z", "2025-06-03T21:16:07Z", "USD", "48"),
    (GCP, "a3-highgpu-8g", "us-central1", "on_demand", "2024-05-30T03:54:20Z", "2025-12-25T04:25:16Z", "USD", "88.489999903"),
    (SCW, "H100-SXM-8-80G", "fr-par-2", "on_demand", "2025-05-05T19:02:49Z", "2025-11-04T10:20:01Z", "EUR", "23.028"),
    (SCW, "B300-SXM-8-288G", "fr-par-2", "on_demand", "2026-07-30T12:55:12Z", "2026-07-30T12:55:12Z", "EUR", "60"),
    ("coreweave-page", "hgx-h200", "", "on_demand", "2026-10-01", "2026-10-01", "USD", "50.44"),
    ("oci-cetools", "BM.GPU.MI355X.8", "", "on_demand", "2026-08-14", "2026-08-14", "USD", "68.8"),  # 8 x 8.6
    ("runpod-api", "NVIDIA B300 SXM6 AC (secure)", "", "on_demand", "2026-10-01", "2026-10-01", "USD", "7.89"),
    ("upcloud-api", "GPU-8xCPU-64GB-1xL40S", "au-syd1", "on_demand", "2026-09-21", "2026-09-21", "EUR", "1.111607"),
    ("lambda-price-list", "gpu_8x_b200_sxm6_180gb", "", "on_demand", "2026-10-10", "2026-10-10", "USD", "53.52"),
    ("nebius-price-list", "NVIDIA HGX B300", "", "on_demand", "2026-10-10", "2026-10-10", "USD", "76"),  # 8 x 9.50
    ("seed-001", "8x B300", "", "on_demand", "2026-10-17", "2026-10-17", "USD", "55.52"),
]


@pytest.mark.parametrize("named", NAMED_OFFERS, ids=lambda named: f"{named[0]} {named[1]} {named[7]}")
def test_rental_prices_are_those_of_the_raw_files(named: tuple[str, ...]) -> None:
    columns = ("source", "sku", "region", "tier", "valid_from", "seen_at", "currency", "price_per_hour")
    assert len(found(OFFERS, **dict(zip(columns, named, strict=True)))) == 1


SEED_003 = [  # GPU, number, USD a month as printed: StudioTV, 2026-10-16
    ("nvidia-rtx-pro-6000-server", 5, "4869.10", "vast", "indicative"),
    ("nvidia-a100-sxm-80", 7, "5115.11", "vast", "indicative"),
    ("amd-mi300x", 3, "5234.10", "runpod", "list"),
    ("amd-mi350x", 2, "8015.40", "runpod", "list"),
    ("nvidia-h200-sxm-141", 4, "11528.16", "vast", "indicative"),
    ("nvidia-h100-nvl-94", 6, "11685.84", "vast", "indicative"),
    ("nvidia-h100-sxm-80", 7, "12264.00", "vast", "indicative"),
    ("nvidia-b300-sxm-288", 2, "12272.76", "scaleway", "indicative"),
]


@pytest.mark.parametrize(("gpu", "count", "month", "provider", "kind"), SEED_003)
def test_the_unit_prices_of_seed_003_make_its_months(gpu: str, count: int, month: str, provider: str, kind: str) -> None:
    (row,) = found(OFFERS, source="seed-003", gpu=gpu)
    assert (row["provider"], row["price_kind"], row["gpu_count"]) == (provider, kind, "1")
    assert Decimal(row["price_per_hour"]) * count * 730 == Decimal(month)


NAMED_RATES = [
    # source, provider, source model, sku, from: input, cached, output per Mtok
    ("genai-prices", "moonshot", "kimi-k3.1-pro", "standard", "", "2", "0.2", "10"),
    ("genai-prices", "fireworks", "kimi-k3p1-pro", "standard", "", "2", "0.2", "10"),
    ("genai-prices", "baseten", "meta-models/muse-spark-open", "standard", "", "1.25", "0.15", "4.25"),
    ("genai-prices", "aws", "global.moonshotai.kimi-k3.1", "highspeed", "", "4", "0.2", "20"),
    ("genai-prices", "deepseek", "deepseek-v4-pro", "standard", "2026-08-17", "0.66", "0.022", "1.98"),
    ("genai-prices", "openrouter", "moonshotai/kimi-k3", "standard", "2026-10-19", "0.239", "0.21", "11.936"),
    ("litellm", "nebius", "nebius/meta-models/muse-spark-open", "standard", "", "1.25", "0.15", "4.25"),
    ("litellm", "kyma", "kyma/kimi-k3.1-pro", "standard", "", "2.7", "0.27", "13.5"),
    ("openrouter-api", "openrouter", "z-ai/glm-5.2", "standard", "", "0.966", "0.1932", "3.036"),
    ("seed-002", "moonshot", "kimi-k3.1-pro", "standard", "", "2", "0.2", "10"),
]


@pytest.mark.parametrize("named", NAMED_RATES, ids=lambda named: " ".join(named[:3]))
def test_token_prices_are_those_of_the_raw_files(named: tuple[str, ...]) -> None:
    columns = ("source", "provider", "source_model", "sku", "in_force_from", "input", "cache_read", "output")
    wanted = dict(zip(columns, named, strict=True)) | {"hours_utc": ""}
    assert len(found(RATES, **wanted)) == 1


def test_the_write_prices_of_seed_002_and_the_yuan_of_seed_004() -> None:
    (moonshot,) = found(RATES, source="seed-002")
    assert (moonshot["cache_write_5m"], moonshot["cache_write_1h"], moonshot["seen_at"]) == ("2", "4", "2026-11-07")
    (mainland,) = found(RATES, source="seed-004")
    assert (mainland["currency"], mainland["input"], mainland["cache_read"], mainland["output"]) == ("CNY", "13", "1.3", "68")
    assert (mainland["sku"], mainland["cache_write_5m"]) == ("mainland-china", "")


def test_placeholders_and_unknown_clouds_never_win() -> None:
    """RunPod's answer lacks the flags: unverified. 0.5 is its placeholder; MI300X and H200 NVL have one in the recording."""
    assert {row["trust"] for row in found(OFFERS, source="runpod-api")} == {"unverified"}
    assert not [row for row in found(OFFERS, provider="runpod") if row["price_per_hour"] == "0.5"]
    assert not [row for row in found(OFFERS, provider="scaleway") if row["price_per_hour"] == "0.01"]


# --- what it does ------------------------------------------------------------------------------------------------------------


def test_it_comes_out_as_it_went_in_and_twice_is_once(loaded: Engine, world: World, tmp_path: Path) -> None:
    assert import_book(loaded, STARTER, world.catalogue, NOW + timedelta(days=1)).new_points == 0
    export_book(loaded, tmp_path / "one")
    second = open_database(f"sqlite:///{tmp_path / 'second.db'}")
    migrate(second)
    import_book(second, tmp_path / "one", world.catalogue, NOW)
    export_book(second, tmp_path / "two")
    second.dispose()
    for name in NAMES:
        assert (tmp_path / "one" / name).read_bytes() == (STARTER / name).read_bytes()
        assert (tmp_path / "two" / name).read_bytes() == (STARTER / name).read_bytes()


def test_it_answers_for_both_models_and_never_looks_fresh(loaded: Engine, world: World) -> None:
    snapshot = recompute(loaded, world, Sizer(world=world), NOW)
    assert not any(entry.fresh for entry in (*snapshot.book.offers, *snapshot.book.rates))
    assert snapshot.book.unpriced == {}
    answers = {answer.model.id: answer for answer in snapshot.answers}
    assert set(answers) >= {"kimi-k3.1-pro", "muse-spark-open"}
    for answer in answers.values():
        assert answer.setup is not None
        assert answer.setup.offer.price_kind == "list"
        assert (answer.setup_fresh, answer.rate_fresh) == (False, False)
        assert answer.rate is not None
    # seed 002: 240K cached, 16K new, 4K written is 12 cents a turn; 63,000 turns are $7,560
    rate = answers["kimi-k3.1-pro"].rate
    assert rate is not None
    assert rate.usd_per_month == 7560


def test_an_eight_gpu_b300_machine_can_be_bought(loaded: Engine, world: World) -> None:
    with reading(loaded) as connection:
        book = read_book(connection, NOW, world.config.sources)
    whole = {e.value.provider for e in book.offers if e.value.gpu == "nvidia-b300-sxm-288" and e.value.tier == "on_demand"
             and e.value.price_kind == "list" and e.value.trust == "datacenter" and e.value.sold_count(8) == 8}  # fmt: skip
    assert whole == {"aws", "nebius", "oci", "runpod", "scaleway"}


def test_the_past_is_in_it(loaded: Engine, world: World) -> None:
    with reading(loaded) as connection:
        book = read_book(connection, datetime(2025, 1, 1, tzinfo=UTC), world.config.sources)
    (p5,) = [entry for entry in book.offers if entry.value.sku == "p5.48xlarge"]
    assert p5.value.usd_per_hour == Decimal("98.32")
    assert not book.rates  # nobody looked before February 2026


# --- how it is made ----------------------------------------------------------------------------------------------------------


def test_wrong_arguments_and_missing_recordings_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage: python -m tracker.history.starter RECORDINGS OUT" in capsys.readouterr().err
    assert main([str(tmp_path / "nowhere"), str(tmp_path / "out")]) == 1
    error = capsys.readouterr().err
    assert re.fullmatch(r".*nowhere/\S+: cannot be read: No such file or directory\n", error)
    assert not (tmp_path / "out").exists()


@pytest.mark.shared
def test_it_is_made_again_from_the_recordings(shared: Path, world: World, tmp_path: Path) -> None:
    """Every row of the book. A new spelling in the catalogue may add rows: then the book is made again."""
    make_starter(shared, tmp_path, world)
    for name in NAMES:
        made = set((tmp_path / name).read_text(encoding="utf-8").splitlines())
        assert set((STARTER / name).read_text(encoding="utf-8").splitlines()) <= made


@pytest.mark.shared
def test_counts_against_the_raw_series(shared: Path) -> None:
    """Types of the AWS file that hold whole data-centre GPUs of today, counted without our code."""
    with gzip.open(shared / "series/gpu-clouds/aws_on_demand_2022_2025.csv.gz", "rt", encoding="utf-8", newline="") as file:
        types = {row["instance_type"] for row in csv.DictReader(file) if row["region"] == "us-east-1"}
    today = {name for name in types if re.match(r"(p4d|p4de|p5|p5en|p6-b200|g5|g6|g6e|gr6)\.", name)}
    assert {row["sku"] for row in found(OFFERS, source="aws-karpenter")} == today


def test_the_wheel_is_not_needed_to_read_it(tmp_path: Path, world: World) -> None:
    """A copy of the two files alone is a book."""
    for name in NAMES:
        shutil.copy(STARTER / name, tmp_path / name)
    db = open_database(f"sqlite:///{tmp_path / 'copy.db'}")
    migrate(db)
    assert import_book(db, tmp_path, world.catalogue, NOW).rows == len(OFFERS) + len(RATES)
    db.dispose()
