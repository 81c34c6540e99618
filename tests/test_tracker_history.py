"""Recorded price series into the book: what each adapter reads, what is refused and why, runs, gone offers, and the past.

Expected figures are those written into the little files here by hand, or counted from the raw series without our code.
"""

from __future__ import annotations

import csv
import gzip
import json
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from homes import run
from sqlalchemy import Engine, func, select, text

from scrapers.contract import GpuQuote, Skipped, TokenQuote
from tracker.book.book import read_book
from tracker.book.bookfile import Dated
from tracker.book.bookstore import export_book
from tracker.book.exchange import exchange_of, load_shipped, shipped_quotes
from tracker.database.handle import migrate, open_database, reading, writing
from tracker.database.rows import OfferRow, RateRow, from_s
from tracker.errors import BreakevenError, UnknownName
from tracker.history import gcp, genai, litellm, portkey, quotes, recordings, scaleway
from tracker.history.load import KINDS, HistoryReport, import_history, read_history
from tracker.history.quotes import Shape
from tracker.history.runs import Judge, Runs, to_runs
from tracker.history.sightings import HistoryFileError, Sighting, exact_json, read_text
from tracker.paths import config_dir
from tracker.sweeps.store import OFFER_POINT, RATE_POINT
from tracker.world import World, load_world

NOW = datetime(2026, 11, 29, tzinfo=UTC)
AWS_HEADER = "generated_at,commit,region,instance_type,usd_per_hour"
AZURE_HEADER = "generated_at,commit,region,arm_sku_name,usd_per_hour"
GCP_HEADER = "commit_date,commit,machine_type,vcpu,ram_gb,accelerators,region,usd_hour,usd_hour_spot,usd_month_1y_cud,usd_month_3y_cud"
SCALEWAY_HEADER = "recorded_at,zone,instance_type,gpu_count,gpu_name,eur_hour,eur_month,repo,commit"


@pytest.fixture(scope="module")
def world() -> World:
    return load_world(config_dir())


@pytest.fixture(scope="module")
def judge(world: World) -> Judge:
    return Judge(world=world, exchange=exchange_of(shipped_quotes()))


@pytest.fixture(scope="module")
def empty_book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated database with the shipped exchange rates, to be copied."""
    path = tmp_path_factory.mktemp("book") / "book.db"
    handle = open_database(f"sqlite:///{path}")
    migrate(handle)
    with writing(handle) as connection:
        load_shipped(connection)
    handle.dispose()
    return path


@pytest.fixture
def db(tmp_path: Path, empty_book: Path) -> Iterator[Engine]:
    handle = open_database(f"sqlite:///{shutil.copy(empty_book, tmp_path / 'book.db')}")
    yield handle
    handle.dispose()


Importer = Callable[..., HistoryReport]


@pytest.fixture
def bring(db: Engine, world: World) -> Importer:
    """Import a series."""

    def importer(kind: str, path: Path, at: datetime | None = None, shape: Shape = quotes.OURS) -> HistoryReport:
        return import_history(db, kind, path, world, NOW, at=at, shape=shape)

    return importer


def table(path: Path, header: str, *lines: str) -> Path:
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return path


def day(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


Shown = tuple[str, Decimal, datetime, datetime, datetime | None]


def shown(run: Dated) -> Shown:
    """Name, price an hour, first and last sighting, and end of a rental run."""
    assert isinstance(run.row, OfferRow)
    gone = None if run.gone_at is None else from_s(run.gone_at)
    return (run.row.sku, run.row.native_per_hour, from_s(run.since), from_s(run.seen_at), gone)


def runs_of(kind: str, path: Path, judge: Judge) -> Runs:
    return to_runs(read_history(kind, path, judge.world.catalogue), judge)


def rents(runs: Runs) -> list[Shown]:
    return sorted((shown(run) for run in runs.dated), key=lambda run: (run[0], run[2]))


def rate(runs: Runs, model: str, sku: str = "standard") -> RateRow:
    """The one rate of a source model."""
    (found,) = [run.row for run in runs.dated if isinstance(run.row, RateRow) and run.row.source_model == model and run.row.sku == sku]
    return found


# --- runs ------------------------------------------------------------------------------------------------------------------


def test_equal_prices_in_a_row_are_one_run_and_a_missing_type_is_gone(tmp_path: Path, judge: Judge) -> None:
    lines = [
        "2025-03-01T00:00:00Z,a,us-east-1,p5.48xlarge,98.32",
        "2025-03-01T00:00:00Z,a,us-east-1,p4d.24xlarge,32.7726",
        "2025-04-01T00:00:00Z,b,us-east-1,p5.48xlarge,98.32",
        "2025-06-01T00:00:00Z,c,us-east-1,p5.48xlarge,55.04",
        "2025-07-01T00:00:00Z,d,us-east-1,p5.48xlarge,55.04",
    ]
    runs = runs_of("aws", table(tmp_path / "aws.csv", AWS_HEADER, *lines), judge)
    assert rents(runs) == [
        ("p4d.24xlarge", Decimal("32.7726"), day("2025-03-01"), day("2025-03-01"), day("2025-04-01")),
        ("p5.48xlarge", Decimal("98.32"), day("2025-03-01"), day("2025-04-01"), None),
        ("p5.48xlarge", Decimal("55.04"), day("2025-06-01"), day("2025-07-01"), None),
    ]


def test_what_comes_back_after_it_was_gone_is_a_second_run(tmp_path: Path, judge: Judge) -> None:
    lines = [
        f"2025-0{month}-01T00:00:00Z,a,us-east-1,{sku},9" for month, sku in ((1, "p5.48xlarge"), (2, "p4d.24xlarge"), (3, "p5.48xlarge"))
    ]
    runs = runs_of("aws", table(tmp_path / "aws.csv", AWS_HEADER, *lines), judge)
    assert rents(runs)[1:] == [
        ("p5.48xlarge", Decimal(9), day("2025-01-01"), day("2025-01-01"), day("2025-02-01")),
        ("p5.48xlarge", Decimal(9), day("2025-03-01"), day("2025-03-01"), None),
    ]


def test_a_region_that_a_snapshot_does_not_have_is_not_gone(tmp_path: Path, judge: Judge) -> None:
    lines = [
        "2025-03-01T00:00:00Z,a,us-gov-west-1,p4d.24xlarge,39.33",
        "2025-03-01T00:00:00Z,a,us-east-1,p4d.24xlarge,32.7726",
        "2025-04-01T00:00:00Z,b,us-east-1,p4d.24xlarge,32.7726",
    ]
    runs = runs_of("aws", table(tmp_path / "aws.csv", AWS_HEADER, *lines), judge)
    assert [run.gone_at for run in runs.dated] == [None, None]


def test_one_offer_at_two_prices_at_one_moment_is_refused_and_is_not_gone(tmp_path: Path, judge: Judge) -> None:
    lines = [
        "2025-03-01T00:00:00Z,a,us-east-1,p5.48xlarge,98.32",
        "2025-04-01T00:00:00Z,b,us-east-1,p5.48xlarge,98.32",
        "2025-04-01T00:00:00Z,b,us-east-1,p5.48xlarge,9.83",
        "2025-04-01T00:00:00Z,b,us-east-1,p4d.24xlarge,32",
        "2025-05-01T00:00:00Z,c,us-east-1,p5.48xlarge,98.32",
    ]
    runs = runs_of("aws", table(tmp_path / "aws.csv", AWS_HEADER, *lines), judge)
    assert [run for run in rents(runs) if run[0] == "p5.48xlarge"] == [
        ("p5.48xlarge", Decimal("98.32"), day("2025-03-01"), day("2025-05-01"), None)
    ]
    assert runs.refused == {"same offer at two prices": 2}


def test_the_same_row_twice_is_one_sighting(tmp_path: Path, judge: Judge) -> None:
    line = "2025-03-01T00:00:00Z,a,us-east-1,p5.48xlarge,98.32"
    runs = runs_of("aws", table(tmp_path / "aws.csv", AWS_HEADER, line, line), judge)
    assert len(runs.dated) == 1
    assert not runs.refused


# --- rental series -----------------------------------------------------------------------------------------------------------


def test_aws_holds_what_instances_csv_says_and_counts_the_rest_by_reason(tmp_path: Path, judge: Judge) -> None:
    lines = [
        "2025-12-29T13:20:43Z,a,us-east-1,p6-b200.48xlarge,113.9328",
        "2025-12-29T13:20:43Z,a,us-east-1,trn1.32xlarge,21.5",
        "2025-12-29T13:20:43Z,a,us-east-1,g6f.large,0.202",
        "2025-12-29T13:20:43Z,a,us-east-1,p5.48xlarge,",
        "2025-12-29T13:20:43Z,a,us-east-1,p4d.24xlarge,0",
        "2023-08-08T13:58:38Z,a,cn-north-1,p4d.24xlarge,200.5",
    ]
    runs = runs_of("aws", table(tmp_path / "aws.csv", AWS_HEADER, *lines), judge)
    first, second = sorted((run.row for run in runs.dated if isinstance(run.row, OfferRow)), key=lambda row: row.currency)
    assert (first.region, first.currency, first.native_per_hour) == ("cn-north-1", "CNY", Decimal("200.5"))
    assert (second.gpu, second.gpu_count, second.currency, second.tier) == ("nvidia-b200-sxm-180", 8, "USD", "on_demand")
    assert runs.refused == {
        "instance type holds no known GPU": 1,
        "a fraction of a GPU, or a count that nobody verified": 1,
        "no price": 1,
        "price is not above 0": 1,
    }
    assert runs.examples["instance type holds no known GPU"] == "aws trn1.32xlarge us-east-1"


def test_azure(tmp_path: Path, judge: Judge) -> None:
    path = table(tmp_path / "azure.csv", AZURE_HEADER, "2025-06-03T21:16:07Z,a,eastus2,Standard_ND96isr_MI300X_v5,48.0")
    (run,) = runs_of("azure", path, judge).dated
    assert isinstance(run.row, OfferRow)
    assert (run.row.provider, run.row.gpu, run.row.gpu_count, run.row.native_per_hour) == ("azure", "amd-mi300x", 8, Decimal(48))
    assert run.origin == "azure-karpenter"


def gcp_line(machine: str, accelerators: str, on_demand: str, spot: str = "", one: str = "", three: str = "") -> str:
    return f"2025-12-25T04:25:16+00:00,d5f4b2b,{machine},12,85,{accelerators},us-central1,{on_demand},{spot},{one},{three}"


def test_gcp_prices_on_demand_spot_and_committed_use(tmp_path: Path, judge: Judge) -> None:
    path = table(tmp_path / "gcp.csv", GCP_HEADER, gcp_line("a2-highgpu-8g", "local=3000;a100=8", "29.2", "11.5", "14600", "8760"))
    rows = [run.row for run in runs_of("gcp", path, judge).dated]
    found = {(row.tier, row.term_months): row.native_per_hour for row in rows if isinstance(row, OfferRow)}
    assert found == {
        ("on_demand", 0): Decimal("29.2"),
        ("spot", 0): Decimal("11.5"),
        ("reserved", 12): Decimal(20),
        ("reserved", 36): Decimal(12),
    }
    assert {(row.gpu, row.gpu_count) for row in rows if isinstance(row, OfferRow)} == {("nvidia-a100-sxm-40", 8)}


@pytest.mark.parametrize(("spot", "kept"), [("1.999999", 0), ("2", 1)])  # of 10: one fifth is the least a GPU can cost
def test_gcp_spot_without_the_gpu_is_refused(tmp_path: Path, spot: str, kept: int, judge: Judge) -> None:
    runs = runs_of("gcp", table(tmp_path / "gcp.csv", GCP_HEADER, gcp_line("a2-highgpu-1g", "a100=1", "10", spot)), judge)
    assert sum(isinstance(run.row, OfferRow) and run.row.tier == "spot" for run in runs.dated) == kept
    assert runs.refused.total() == 1 - kept


def test_gcp_small_a3_machines_are_spot_only(tmp_path: Path, judge: Judge) -> None:
    path = table(tmp_path / "gcp.csv", GCP_HEADER, gcp_line("a3-highgpu-2g", "h100-80gb=2", "22.12", "5.09", "11202", "7092"))
    runs = runs_of("gcp", path, judge)
    assert [(run.row.tier, run.row.gpu_count) for run in runs.dated if isinstance(run.row, OfferRow)] == [("spot", 2)]
    assert runs.refused == {"priced on demand, sold as spot or by reservation only": 1}


def test_gcp_accelerator_without_a_count_stops_the_import(tmp_path: Path, judge: Judge) -> None:
    path = table(tmp_path / "gcp.csv", GCP_HEADER, gcp_line("a2-highgpu-1g", "a100", "10"))
    with pytest.raises(HistoryFileError, match=r"gcp\.csv: line 2: accelerators: expected a GPU and its whole count.*found 'a100'"):
        list(gcp.read(path, judge.world.catalogue))


def scaleway_line(at: str, sku: str, count: int, name: str, price: str) -> str:
    return f"{at},fr-par-2,{sku},{count},{name},{price},0,cli,x"


def test_scaleway_is_in_euro_and_a_missing_type_says_nothing(tmp_path: Path, judge: Judge) -> None:
    lines = [
        scaleway_line("2025-05-05T19:02:49+00:00", "H100-SXM-8-80G", 8, "H100-SXM", "23.028"),
        scaleway_line("2025-11-04T10:20:01+00:00", "L40S-1-48G", 1, "L40S", "1.4"),
        scaleway_line("2023-09-14T11:32:35+00:00", "L4-1-24G", 1, "", "0.01"),
        scaleway_line("2023-09-14T11:32:35+00:00", "TEST1-S", 1, "", "0.5"),
        scaleway_line("2023-09-14T11:32:35+00:00", "H100-MIG-20G", 1, "", "0.8"),
        scaleway_line("2024-02-21T14:05:27+00:00", "L4-8-24G", 8, "", "6.0"),
    ]
    runs = runs_of("scaleway", table(tmp_path / "s.csv", SCALEWAY_HEADER, *lines), judge)
    assert [run[:2] for run in rents(runs)] == [
        ("H100-SXM-8-80G", Decimal("23.028")),
        ("L4-8-24G", Decimal(6)),
        ("L40S-1-48G", Decimal("1.4")),
    ]
    assert {run.row.currency for run in runs.dated} == {"EUR"}
    assert all(run.gone_at is None for run in runs.dated)
    assert runs.refused == {"placeholder price of a type that is not sold": 2, "unmapped gpu": 1}
    assert runs.unmapped == {("gpu", "H100-MIG-20G"): 1}


def test_a_recording_of_whole_zones_ends_what_older_ones_showed(tmp_path: Path, judge: Judge) -> None:
    older = (("H100-1-80G", "2.73"), ("H100-1-M", "4.2"))
    lines = [scaleway_line("2025-11-04T00:00:00+00:00", sku, 1, "H100-PCIe", price) for sku, price in older]
    series = table(tmp_path / "s.csv", SCALEWAY_HEADER, *lines)
    recording = {
        "_request_url": "https://api.scaleway.com/instance/v1/zones/fr-par-2/products/servers?page=1",
        "_response_headers": {"Date": ["Thu, 30 Jul 2026 12:53:11 GMT"]},
        "body": {
            "servers": {"H100-1-80G": {"gpu": 1, "gpu_info": {"gpu_name": "H100-PCIe"}, "hourly_price": 2.8665, "end_of_service": False}}
        },
    }
    folder = tmp_path / "zones"
    folder.mkdir()
    (folder / "products_servers_fr-par-2_p1.json").write_text(json.dumps(recording), encoding="utf-8")
    (folder / "products_servers_availability_fr-par-2_p1.json").write_text("{}", encoding="utf-8")
    found = [*scaleway.read(series, judge.world.catalogue), *recordings.read_scaleway(folder)]
    recorded = datetime(2026, 7, 30, 12, 53, 11, tzinfo=UTC)
    assert rents(to_runs(found, judge)) == [
        ("H100-1-80G", Decimal("2.73"), day("2025-11-04"), day("2025-11-04"), None),
        ("H100-1-80G", Decimal("2.8665"), recorded, recorded, None),
        ("H100-1-M", Decimal("4.2"), day("2025-11-04"), day("2025-11-04"), recorded),
    ]


def test_runpod_half_dollars_without_flags_are_refused_and_the_rest_is_unverified(tmp_path: Path) -> None:
    path = tmp_path / "runpod.json"
    path.write_text(json.dumps({"data": {"gpuTypes": [
        {"id": "AMD Instinct MI300X OAM", "securePrice": 2.39, "communityPrice": 0.5},
        {"id": "NVIDIA B300 SXM6 AC", "securePrice": 7.89, "communityPrice": 6.94},
    ]}}), encoding="utf-8")  # fmt: skip
    found = [sighting.quote for sighting in recordings.read_runpod(path, day("2026-10-01"))]
    kept = [(quote.sku, quote.price, quote.trust) for quote in found if isinstance(quote, GpuQuote)]
    assert kept == [
        ("AMD Instinct MI300X OAM (secure)", Decimal("2.39"), "unverified"),
        ("NVIDIA B300 SXM6 AC (secure)", Decimal("7.89"), "unverified"),
        ("NVIDIA B300 SXM6 AC (community)", Decimal("6.94"), "unverified"),
    ]
    (refused,) = [quote for quote in found if isinstance(quote, Skipped)]
    assert refused.raw == "AMD Instinct MI300X OAM (community)"


# --- token series ------------------------------------------------------------------------------------------------------------


def written(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def change(when: str, model: str, **after: float) -> dict[str, object]:
    return {"date": when, "commit": "x", "model": model, "before_cents_per_token": {}, "after_cents_per_token": after}


def test_portkey_changes_are_cents_a_token_and_the_last_of_a_day_counts(tmp_path: Path, judge: Judge) -> None:
    model = "moonshotai/kimi-k2.5"
    changes = [
        change("2026-02-03", model, request_token=5e-05, response_token=0.00022),
        change(
            "2026-02-03", model, request_token=2.3e-05, response_token=0.0003, cache_read_input_token=1.2e-05, cache_write_input_token=0
        ),
        change("2026-03-05", model, request_token=4.5e-05, response_token=0.0003),
        change("2026-03-05", "nobody/knows-it", request_token=1e-05, response_token=1e-05),
        change("2026-03-05", "moonshotai/kimi-k2.6", request_token=0, response_token=0),
    ]
    runs = runs_of("portkey", written(tmp_path / "openrouter.changes.json", changes), judge)
    assert [(from_s(run.since), run.row.native.input, run.row.native.cache_read, run.row.native.cache_write_5m, run.row.native.output)
            for run in runs.dated if isinstance(run.row, RateRow)] == [
        (day("2026-02-03"), Decimal("0.23"), Decimal("0.12"), None, Decimal(3)),
        (day("2026-03-05"), Decimal("0.45"), None, None, Decimal(3)),
    ]  # fmt: skip
    assert runs.refused == {"unmapped model": 1, "priced 0: free or unknown": 1}


def portkey_model(cents: float) -> dict[str, object]:
    return {"pricing_config": {"pay_as_you_go": {"request_token": {"price": cents}, "response_token": {"price": cents * 4}}}}


def test_portkey_version_lists_its_provider_whole(tmp_path: Path, judge: Judge) -> None:
    changes = [
        change("2026-02-03", model, request_token=5e-05, response_token=0.0002)
        for model in ("moonshotai/kimi-k2.5", "moonshotai/kimi-k2.6")
    ]
    written(tmp_path / "openrouter.changes.json", changes)
    written(tmp_path / "openrouter.2026-08-18.abc.json", {"default": portkey_model(0), "moonshotai/kimi-k2.5": portkey_model(5e-05)})
    runs = runs_of("portkey", tmp_path, judge)
    ends = {
        run.row.source_model: (from_s(run.seen_at), run.gone_at and from_s(run.gone_at))
        for run in runs.dated
        if isinstance(run.row, RateRow)
    }
    assert ends == {
        "moonshotai/kimi-k2.5": (day("2026-08-18"), None),
        "moonshotai/kimi-k2.6": (day("2026-02-03"), day("2026-08-18")),
    }


def litellm_model(provider: str, per_token: float, **more: object) -> dict[str, object]:
    return {"litellm_provider": provider, "mode": "chat", "input_cost_per_token": per_token, "output_cost_per_token": per_token * 4, **more}


def test_litellm_units_of_a_thousand_are_refused_by_the_band(tmp_path: Path, judge: Judge) -> None:
    models = {
        "sample_spec": {"input_cost_per_token": "documentation"},
        "nebius/moonshotai/Kimi-K3": litellm_model("nebius", 3e-06, cache_read_input_token_cost=3.0000000000000002e-07),
        "wandb/openai/gpt-oss-120b": litellm_model("wandb", 0.015),
        "text-embedding": {"mode": "embedding", "litellm_provider": "openai"},
    }
    runs = runs_of("litellm", written(tmp_path / "litellm-2026-10-21.json", models), judge)
    assert rate(runs, "nebius/moonshotai/Kimi-K3").native.cache_read == Decimal("0.3")
    assert [from_s(run.seen_at) for run in runs.dated] == [day("2026-10-21")]
    assert runs.refused == {"price outside the plausible band": 1, "no text model": 1}


def test_an_implausible_price_between_two_good_ones_does_not_end_the_run(tmp_path: Path, judge: Judge) -> None:
    for when, price in (("2026-09-10", 1.5e-07), ("2026-10-07", 0.015), ("2026-10-21", 1.5e-07)):
        written(tmp_path / f"litellm-{when}.json", {"deepinfra/openai/gpt-oss-120b": litellm_model("deepinfra", price)})
    runs = runs_of("litellm", tmp_path, judge)
    assert [(from_s(run.since), from_s(run.seen_at), run.gone_at) for run in runs.dated] == [(day("2026-09-10"), day("2026-10-21"), None)]
    assert runs.refused == {"price outside the plausible band": 1}


@pytest.mark.parametrize("read", [litellm.read, genai.read, portkey.read])
def test_a_snapshot_without_a_day_says_so(read: Callable[[Path], Iterator[Sighting]], tmp_path: Path) -> None:
    path = written(tmp_path / "prices-v2.json", {})
    with pytest.raises(HistoryFileError, match=r"says when it was taken in its name, such as prices-2026-10-21\.json, or is told"):
        list(read(path))


def test_a_told_day_stands_in_for_the_name(tmp_path: Path, bring: Importer) -> None:
    path = written(tmp_path / "map.json", {"nebius/moonshotai/Kimi-K3": litellm_model("nebius", 3e-06)})
    report = bring("litellm", path, at=day("2026-11-20"))
    assert (report.first, report.last) == (day("2026-11-20"), day("2026-11-20"))


GENAI_MODELS = [
    ("kimi-k3.1-pro", {"_type": "ModelPrice", "input_mtok": "2", "cache_read_mtok": "0.2", "cache_write_mtok": "2",
                       "cache_write_1h_mtok": "4", "output_mtok": "10"}),
    ("kimi-k3", [
        {"_type": "ConditionalPrice", "prices": {"_type": "ModelPrice", "input_mtok": "3", "output_mtok": "15"}},
        {"_type": "ConditionalPrice", "constraint": {"_type": "StartDateConstraint", "start_date": "2026-09-20"},
         "prices": {"_type": "ModelPrice", "output_mtok": "15", "input_mtok": {
             "_type": "TieredPrices", "base": "2.5", "tiers": [{"_type": "Tier", "start": 128000, "price": "5"}]}}},
    ]),
]  # fmt: skip


def genai_dump(path: Path, *models: str) -> Path:
    kept = [
        {"_type": "ModelInfo", "id": name, "prices": prices, "match": {"_type": "ClauseEquals", "equals": name}}
        for name, prices in GENAI_MODELS
        if name in models
    ]
    return written(path, [{"_type": "Provider", "id": "moonshotai", "name": "Moonshot", "models": kept}])


def test_genai_dump_is_read_like_the_live_file(tmp_path: Path, judge: Judge) -> None:
    runs = runs_of("genai-prices", genai_dump(tmp_path / "dump-2026-11-10.json", "kimi-k3.1-pro", "kimi-k3"), judge)
    row = rate(runs, "kimi-k3.1-pro")
    assert (row.provider, row.model, row.native.cache_write_5m, row.native.cache_write_1h) == (
        "moonshot",
        "kimi-k3.1-pro",
        Decimal(2),
        Decimal(4),
    )
    dated = {
        (
            run.row.valid_from and from_s(run.row.valid_from),
            run.row.valid_to and from_s(run.row.valid_to),
            run.row.min_prompt_tokens,
        ): run.row.native.input
        for run in runs.dated
        if isinstance(run.row, RateRow) and run.row.model == "kimi-k3"
    }
    begins = day("2026-09-20")
    assert dated == {(None, begins, 0): Decimal(3), (begins, None, 0): Decimal("2.5"), (begins, None, 128000): Decimal(5)}


def test_a_later_genai_file_ends_the_models_it_does_not_have(tmp_path: Path, judge: Judge) -> None:
    genai_dump(tmp_path / "dump-2026-08-21.json", "kimi-k3.1-pro", "kimi-k3")
    genai_dump(tmp_path / "dump-2026-11-10.json", "kimi-k3.1-pro")
    runs = runs_of("genai-prices", tmp_path, judge)
    assert {run.row.model: run.gone_at and from_s(run.gone_at) for run in runs.dated if isinstance(run.row, RateRow)} == {
        "kimi-k3.1-pro": None,
        "kimi-k3": day("2026-11-10"),
    }


def test_exact_json_keeps_every_digit() -> None:
    value = {"a": [Decimal("0.30000000000000004"), 1, None, True, 'q"'], "b": {"c": Decimal("1E-7")}}
    assert exact_json(value) == '{"a":[0.30000000000000004,1,null,true,"q\\""],"b":{"c":0.0000001}}'


# --- single prices -----------------------------------------------------------------------------------------------------------

OFFER_HEADER = ",".join(quotes.OFFER_COLUMNS)
OFFER_LINE = "2026-10-10,lambda-page,lambda,gpu_8x,H100 (80 GB SXM5),8,,,on_demand,,datacenter,unknown,list,3.99,gpu_hour,USD,https://lambda.ai/pricing"


def test_single_prices_go_through_resolve(tmp_path: Path, judge: Judge) -> None:
    (run,) = runs_of("offers", table(tmp_path / "o.csv", OFFER_HEADER, OFFER_LINE), judge).dated
    assert shown(run) == ("gpu_8x", Decimal("31.92"), day("2026-10-10"), day("2026-10-10"), None)
    assert run.row.gpu == "nvidia-h100-sxm-80"  # type: ignore[union-attr]


def test_single_token_prices(tmp_path: Path, judge: Judge) -> None:
    line = "2026-11-10,article,moonshotai,kimi-k3.1-pro,,cn,13,1.3,,,68,mtok,CNY,"
    (run,) = runs_of("rates", table(tmp_path / "r.csv", ",".join(quotes.RATE_COLUMNS), line), judge).dated
    assert isinstance(run.row, RateRow)
    assert (run.row.provider, run.row.sku, run.row.currency, run.row.native.output, run.row.native.cache_write_5m) == (
        "moonshot", "standard", "CNY", Decimal(68), None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("on_demand", "ondemand", r"o\.csv: line 2: tier: expected one of on_demand, spot, reserved \(did you mean on_demand\?\)"),
        ("gpu_hour", "hour", r"line 2: per: expected one of gpu_hour"),
        ("2026-10-10", "10.10.2026", r"line 2: observed: expected a UTC time such as 2026-10-16.*found '10\.10\.2026'"),
        ("lambda-page", "", r"line 2: origin: expected a short id"),
        (",8,", ",0,", r"line 2: gpu_count: expected a whole number of at least 1, found '0'"),
        ("3.99", "$3.99", r"line 2: price: expected a price, found '\$3\.99'"),
        ("3.99", "NaN", r"line 2: price: expected a price, found 'NaN'"),
        (",https://lambda.ai/pricing", "", r"line 2: source_url: expected as many cells as the header has"),
        ("/pricing", "/pricing,more", r"line 2: more cells than the header has"),
        ('lambda-page', '"lambda', r"o\.csv: line \d: "),
    ],
)  # fmt: skip
def test_a_wrong_cell_names_file_line_and_column(old: str, new: str, message: str, tmp_path: Path, judge: Judge) -> None:
    path = table(tmp_path / "o.csv", OFFER_HEADER, OFFER_LINE.replace(old, new))
    with pytest.raises(HistoryFileError, match=message):
        list(read_history("offers", path, judge.world.catalogue))


def test_a_table_of_one_s_own_is_read_as_it_is(tmp_path: Path, bring: Importer, db: Engine) -> None:
    """Its columns have other names, and what holds for all rows stands in none of them. GPUs go by our ids, twice is once."""
    path = table(
        tmp_path / "contract.csv", "date,machine,accelerator,eur",
        "2026-01-01,big,nvidia-h200-sxm-141,20.80", "2026-02-01,big,nvidia-h200-sxm-141,20.80", "2026-03-01,big,nvidia-h200-sxm-141,19.20",
        "2026-03-01,odd,H9000,1",
    )  # fmt: skip
    shape = Shape(
        columns={"observed": "date", "sku": "machine", "gpu": "accelerator", "price": "eur"},
        constants={
            "provider": "northwind",
            "gpu_count": "8",
            "tier": "reserved",
            "term_months": "12",
            "per": "node_hour",
            "currency": "EUR",
        },
    )
    report = bring("offers", path, shape=shape)
    assert (report.sightings, report.rows, report.refused) == (4, 2, {"unmapped gpu": 1})
    assert bring("offers", path, shape=shape).new_points == 0
    with reading(db) as connection:
        found = connection.execute(
            text(
                "select origin, provider, sku, gpu, gpu_count, tier, term_months, currency, price from offer"
                " join offer_point on id = offer_id"
            )
        ).all()
    own = ("contract", "northwind", "big", "nvidia-h200-sxm-141", 8, "reserved", 12, "EUR")
    assert {tuple(row) for row in found} == {(*own, 20_800_000_000), (*own, 19_200_000_000)}


def test_own_token_prices_go_by_our_ids(tmp_path: Path, bring: Importer) -> None:
    path = table(tmp_path / "mine.csv", "when,in,out", "2026-01-01,0.50,2")
    constants = {"provider": "northwind", "model": "kimi-k3.1-pro", "per": "mtok", "currency": "USD"}
    shape = Shape(columns={"observed": "when", "input": "in", "output": "out"}, constants=constants)
    report = bring("rates", path, shape=shape)
    assert (report.rows, report.new_points, report.refused) == (1, 1, {})


def test_a_price_without_its_unit_or_currency_is_not_guessed(tmp_path: Path, judge: Judge) -> None:
    path = table(tmp_path / "mine.csv", "observed,provider,gpu,gpu_count,tier,price,per", "2026-01-01,x,H100,1,on_demand,2,gpu_hour")
    with pytest.raises(HistoryFileError, match=r"mine\.csv: line 1: column currency is missing"):
        list(read_history("offers", path, judge.world.catalogue))


def test_a_column_nobody_knows_and_one_of_a_fixed_shape_are_refused(tmp_path: Path, judge: Judge) -> None:
    with pytest.raises(UnknownName, match=r"no column named 'prize' \(did you mean price\?\)"):
        Shape(columns={"prize": "usd"})
    with pytest.raises(UnknownName, match="the shape of aws is its own"):
        list(read_history("aws", tmp_path / "a.csv", judge.world.catalogue, shape=Shape(constants={"currency": "EUR"})))


def test_the_command_takes_columns_and_values(tmp_path: Path) -> None:
    path = table(tmp_path / "mine.csv", "date,accelerator,eur", "2026-01-01,nvidia-h200-sxm-141,2.60")
    fixed = ("provider=northwind", "gpu_count=1", "tier=on_demand", "per=gpu_hour", "currency=EUR")
    words = [word for name in ("observed=date", "gpu=accelerator", "price=eur") for word in ("--column", name)]
    words += [word for value in fixed for word in ("--set", value)]
    told = run(tmp_path, "import", "history", "offers", str(path), *words)
    assert told.code == 0, told.err
    assert told.out.startswith("offers: 1 prices in 1 files, 1 runs, 2026-01-01 to 2026-01-01, 1 new price points\n")
    assert run(tmp_path, "import", "history", "offers", str(path), "--set", "currency").code == 2


def test_a_wrong_line_imports_nothing_of_the_file(tmp_path: Path, bring: Importer, db: Engine) -> None:
    path = table(tmp_path / "o.csv", OFFER_HEADER, OFFER_LINE, OFFER_LINE.replace("3.99", "free"))
    with pytest.raises(HistoryFileError, match="line 3: price"):
        bring("offers", path)
    assert points(db) == 0


def test_a_missing_column_is_named(tmp_path: Path, judge: Judge) -> None:
    path = table(tmp_path / "a.csv", "generated_at,region,usd_per_hour", "2025-01-01,us-east-1,1")
    with pytest.raises(
        HistoryFileError, match=r"a\.csv: line 1: column instance_type is missing; expected generated_at,region,instance_type"
    ):
        list(read_history("aws", path, judge.world.catalogue))


@pytest.mark.parametrize(
    ("name", "body", "message"),
    [
        ("x.csv.gz", b"no gzip", "cannot be read"),
        ("x.csv.gz", gzip.compress(b"a" * 1000)[:-12], "cannot be read"),
        ("x.csv", b"\xff\xfe", "not UTF-8 text"),
        ("missing.csv", None, "cannot be read: No such file"),
    ],
)
def test_an_unreadable_file_is_one_clear_line(name: str, body: bytes | None, message: str, tmp_path: Path) -> None:
    if body is not None:
        (tmp_path / name).write_bytes(body)
    with pytest.raises(HistoryFileError, match=message) as caught:
        read_text(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracker.history.sightings.MAX_BYTES", 1000)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b"0" * 1001))
    with pytest.raises(HistoryFileError, match="larger than 1000 bytes"):
        read_text(tmp_path / "bomb.gz")


@pytest.mark.parametrize(
    ("kind", "name", "body", "message"),
    [
        ("litellm", "l-2026-10-21.json", "[]", "expected a JSON object of models"),
        ("litellm", "l-2026-10-21.json", "{", "expected JSON"),
        ("genai-prices", "g-2026-10-21.json", "{}", "expected a JSON list of providers"),
        ("genai-prices", "g-2026-10-21.json", '[{"_type": "Tier", "price": "free"}]', "no dump of genai-prices objects"),
        ("portkey", "p-2026-10-21.json", "3", "expected a list of changes or an object by model, found int"),
        ("portkey", "p.changes.json", '[{"date": "2026-10-21"}]', "change 0: expected date, model and after_cents_per_token"),
        ("portkey", "p.changes.json", "[", "not valid JSON"),
        ("portkey", "p-2026-13-41.json", "{}", "says when it was taken in its name"),
    ],
)
def test_a_file_of_another_shape_is_refused(kind: str, name: str, body: str, message: str, tmp_path: Path, judge: Judge) -> None:
    (tmp_path / name).write_text(body, encoding="utf-8")
    with pytest.raises(HistoryFileError, match=message):
        list(read_history(kind, tmp_path / name, judge.world.catalogue))


def test_an_unknown_kind_gets_the_nearest_one(tmp_path: Path, judge: Judge) -> None:
    with pytest.raises(UnknownName, match=r"no series named 'azur' \(did you mean azure\?\); known: aws, azure, gcp"):
        list(read_history("azur", table(tmp_path / "a.csv", AZURE_HEADER), judge.world.catalogue))
    assert set(KINDS) == {"aws", "azure", "gcp", "genai-prices", "litellm", "offers", "portkey", "rates", "scaleway"}


def test_an_empty_folder_is_an_error(tmp_path: Path, judge: Judge) -> None:
    (tmp_path / "none").mkdir()
    with pytest.raises(BreakevenError, match="holds no file"):
        list(read_history("litellm", tmp_path / "none", judge.world.catalogue))


def test_hostile_names_do_not_reach_the_book(tmp_path: Path, bring: Importer, db: Engine) -> None:
    hostile = OFFER_LINE.replace("gpu_8x", "gpu\x1b[2J\u202e_8x")
    bring("offers", table(tmp_path / "o.csv", OFFER_HEADER, hostile))
    with reading(db) as connection:
        (entry,) = read_book(connection, NOW, {}).offers
    assert entry.value.sku == "gpu[2J_8x"


# --- into the database -------------------------------------------------------------------------------------------------------


def points(db: Engine) -> int:
    with reading(db) as connection:
        return sum(connection.scalar(select(func.count()).select_from(table)) or 0 for table in (OFFER_POINT, RATE_POINT))


def test_importing_twice_adds_nothing_and_exports_the_same(tmp_path: Path, bring: Importer, db: Engine) -> None:
    lines = [f"2025-0{month}-01T00:00:00Z,a,us-east-1,p5.48xlarge,{price}" for month, price in ((3, "98.32"), (4, "98.32"), (6, "55.04"))]
    path = table(tmp_path / "aws.csv", AWS_HEADER, *lines)
    first = bring("aws", path)
    assert (first.files, first.sightings, first.rows, first.new_points) == (1, 3, 2, 3)
    assert (first.first, first.last) == (day("2025-03-01"), day("2025-06-01"))
    export_book(db, tmp_path / "one")
    assert bring("aws", path).new_points == 0
    export_book(db, tmp_path / "two")
    assert (tmp_path / "one/offers.csv").read_bytes() == (tmp_path / "two/offers.csv").read_bytes()


def test_a_longer_series_extends_the_one_that_is_there(tmp_path: Path, bring: Importer, db: Engine) -> None:
    lines = [f"2025-0{month}-01T00:00:00Z,a,us-east-1,p5.48xlarge,98.32" for month in (3, 4, 5)]
    bring("aws", table(tmp_path / "short.csv", AWS_HEADER, *lines[:2]))
    assert bring("aws", table(tmp_path / "long.csv", AWS_HEADER, *lines)).new_points == 1
    export_book(db, tmp_path)
    with (tmp_path / "offers.csv").open(encoding="utf-8", newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["valid_from"], row["seen_at"]) == ("2025-03-01", "2025-05-01")


def test_the_past_is_what_was_seen_then(tmp_path: Path, bring: Importer, db: Engine, world: World) -> None:
    lines = [
        "2025-03-01T00:00:00Z,a,us-east-1,p5.48xlarge,98.32",
        "2025-03-01T00:00:00Z,a,us-east-1,p4d.24xlarge,32.7726",
        "2025-06-23T00:00:00Z,b,us-east-1,p5.48xlarge,55.04",
    ]
    bring("aws", table(tmp_path / "aws.csv", AWS_HEADER, *lines))

    def listed(at: str) -> dict[str, Decimal]:
        with reading(db) as connection:
            book = read_book(connection, day(at), world.config.sources)
        assert not any(entry.fresh for entry in book.offers)
        return {entry.value.sku: entry.value.usd_per_hour for entry in book.offers}

    assert listed("2025-02-01") == {}
    assert listed("2025-05-01") == {"p5.48xlarge": Decimal("98.32"), "p4d.24xlarge": Decimal("32.7726")}
    assert listed("2026-01-01") == {"p5.48xlarge": Decimal("55.04")}


def test_euro_prices_of_a_fresh_database_are_converted_with_the_shipped_rates(tmp_path: Path, world: World) -> None:
    db = open_database(f"sqlite:///{tmp_path / 'fresh.db'}")
    migrate(db)
    line = scaleway_line("2025-05-05T19:02:49+00:00", "H100-SXM-8-80G", 8, "H100-SXM", "23.028")
    import_history(db, "scaleway", table(tmp_path / "s.csv", SCALEWAY_HEADER, line), world, NOW)
    with reading(db) as connection:
        (entry,) = read_book(connection, day("2025-05-07"), {}).offers  # the rate of the 6th came out in its afternoon
    db.dispose()
    usd = {quote.currency: quote.rate for quote in shipped_quotes() if quote.day.isoformat() == "2025-05-06"}["USD"]
    assert entry.value.usd_per_hour == Decimal("23.028") * usd


# --- the real series ---------------------------------------------------------------------------------------------------------


def raw(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.shared
def test_real_aws_series(shared: Path, bring: Importer) -> None:
    path = shared / "series/gpu-clouds/aws_on_demand_2022_2025.csv.gz"
    report = bring("aws", path)
    assert report.sightings == len(raw(path))
    assert (report.first, report.last) == (datetime(2022, 6, 23, 18, 10, 28, tzinfo=UTC), datetime(2025, 12, 29, 13, 20, 43, tzinfo=UTC))
    assert bring("aws", path).new_points == 0


@pytest.mark.shared
def test_real_gcp_series_refuses_every_spot_price_below_a_fifth(shared: Path, bring: Importer) -> None:
    path = shared / "series/gpu-clouds/gcp_monthly_2022_2025.csv.gz"
    rows = raw(path)
    low = sum(bool(row["usd_hour_spot"]) and Decimal(row["usd_hour_spot"]) < Decimal(row["usd_hour"]) / 5 for row in rows)
    small = sum(row["machine_type"] in ("a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g") for row in rows)
    report = bring("gcp", path)
    assert low > 700
    assert report.refused == {
        "spot price without the GPU (below 20 % of on demand)": low,
        "priced on demand, sold as spot or by reservation only": small,
    }


@pytest.mark.shared
@pytest.mark.parametrize(
    ("kind", "name", "first", "last"),
    [("azure", "azure_on_demand_2023_2025", "2023-10-27", "2025-06-03"), ("scaleway", "scaleway_2020_2025", "2020-02-11", "2025-11-04")],
)
def test_real_cloud_series_come_in_twice_without_a_change(
    kind: str, name: str, first: str, last: str, shared: Path, bring: Importer, db: Engine
) -> None:
    """Every line is a sighting; every price that is listed stands in the file with that machine and region."""
    path = shared / f"series/gpu-clouds/{name}.csv.gz"
    lines = raw(path)
    report = bring(kind, path)
    assert (report.sightings, sum(report.refused.values()) < len(lines)) == (len(lines), True)
    assert report.first is not None and report.last is not None
    assert (f"{report.first:%Y-%m-%d}", f"{report.last:%Y-%m-%d}") == (first, last)
    columns = ("arm_sku_name", "region", "usd_per_hour") if kind == "azure" else ("instance_type", "zone", "eur_hour")
    printed = {(line[columns[0]], line[columns[1]], Decimal(line[columns[2]] or 0)) for line in lines}
    query = "select sku, region, price from offer join offer_point on id = offer_id where price is not null"
    with reading(db) as connection:
        kept = {(sku, region, Decimal(price) / 10**9) for sku, region, price in connection.execute(text(query))}
    assert (len(kept) > 20, kept - printed) == (True, set())
    assert bring(kind, path).new_points == 0


@pytest.mark.shared
def test_real_dated_rates_come_in_twice_without_a_change(shared: Path, bring: Importer) -> None:
    path = shared / "recorded/tokens/genai-prices/v2-data.2026-08-21.47df840a.json.gz"
    assert bring("genai-prices", path).new_points > 200
    assert bring("genai-prices", path).new_points == 0


@pytest.mark.shared
@pytest.mark.parametrize(("kind", "folder"), [("litellm", "litellm"), ("portkey", "portkey")])
def test_real_token_series_come_in_twice_without_a_change(kind: str, folder: str, shared: Path, bring: Importer) -> None:
    path = shared / "series/tokens" / folder
    first = bring(kind, path)
    assert first.files == len(list(path.iterdir()))
    assert first.new_points > 200
    assert bring(kind, path).new_points == 0


@pytest.mark.shared
def test_real_unit_errors_are_all_refused(shared: Path, judge: Judge) -> None:
    """Every row of the recorded subset above 150 USD per Mtok is a known unit error; the band starts at 1,000."""
    path = shared / "recorded/tokens/litellm/subset-1.98.1.unit-errors.json"
    found = list(litellm.read(path, day("2026-09-25")))
    dear = [s for s in found if isinstance(s.quote, TokenQuote) and max(s.quote.prices.values()) * 10**6 > 1000]
    assert len(dear) >= 13
    assert all(run.row.native.input < 1000 for run in to_runs(found, judge).dated if isinstance(run.row, RateRow) and run.row.native.input)


@pytest.mark.shared
def test_real_genai_dump(shared: Path, judge: Judge) -> None:
    found = genai.read(shared / "recorded/tokens/genai-prices/pypi-0.2.3-providers-dump.json.gz", day("2026-11-10"))
    runs = to_runs(found, judge)
    sellers = {
        run.row.provider
        for run in runs.dated
        if isinstance(run.row, RateRow) and run.row.model == "kimi-k3.1-pro" and run.row.sku == "standard"
    }
    assert sellers == {"doubleword", "fireworks", "modal", "moonshot", "novita", "openrouter", "quicksilverpro", "together"}
    assert rate(runs, "meta-models/muse-spark-open").native.output == Decimal("4.25")  # baseten
