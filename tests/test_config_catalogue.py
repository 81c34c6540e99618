"""The catalogue's loader: what a wrong file is told, what the user's files replace, and what changes the digest."""

from __future__ import annotations

import csv
import shutil
from datetime import date
from pathlib import Path

import pytest

from engine.facts import PRECEDENCE
from tracker.errors import ConfigError
from tracker.facts.catalogue import Catalogue, load_catalogue
from tracker.facts.schema import Basis
from tracker.facts.throughput import COLUMNS, load_points
from tracker.facts.toml import CHOOSABLE

ROOT = Path(__file__).resolve().parents[1]
CONFIG = ROOT / "config"
INVALID = Path(__file__).parent / "invalid"
PLACES = {"gpus": "gpus.toml", "formats": "formats.toml", "gpu_names": "gpu_names.toml", "model": "models/test-8b.toml"}

MESSAGES = {
    "gpus-unknown-key": "[nvidia-test] bandwith_gb_s: unknown key (did you mean bandwidth_gb_s?)",
    "gpus-unknown-fact-key": "[nvidia-test] bandwidth_gb_s.1.sorce: unknown key (did you mean source?)",
    "gpus-no-source": "[nvidia-test] source: is missing",
    "gpus-no-date": "[nvidia-test] checked: is missing",
    "gpus-fact-without-source": "[nvidia-test] bandwidth_gb_s.1: a stated value needs both basis and source",
    "gpus-unknown-basis": "[nvidia-test] bandwidth_gb_s.1.basis: Input should be 'files', 'config'",
    "gpus-zero-memory": "[nvidia-test] memory_marketed_gb.1.value: Input should be greater than 0",
    "gpus-memory-of-parts": "[nvidia-test] memory_reported_mib: must be a whole number, found 81559.5",
    "gpus-overhead-only": "[nvidia-test] memory_marketed_gb: no value that can be chosen",
    "gpus-unknown-class": "[nvidia-test] gpu_class: Input should be 'datacenter', 'workstation', 'consumer' or 'unified'",
    "gpus-unknown-engine": "[nvidia-test] engines.2: Input should be 'vllm' or 'llama.cpp'",
    "gpus-share-above-one": "[nvidia-test] usable_share: Input should be less than or equal to 1",
    "gpus-no-table": "[nvidia-test] must be a table, found int; write it as [nvidia-test]",
    "formats-no-bits": "[test4] bits_per_weight: Input should be greater than 0",
    "formats-unknown-compute": "[test4] compute: Input should be 'bf16', 'fp16', 'fp8', 'fp4' or 'int8'",
    "formats-fidelity-above-100": "[test4] fidelity: Input should be less than or equal to 100",
    "formats-unknown-key": "[test4] bytes_per_parameter: unknown key (did you mean bytes_per_param_by_basis?)",
    "gpu_names-unknown-gpu": "[test.\"H100 SXM\"] unknown GPU 'nvidia-h100-sxm-8' (did you mean nvidia-h100-sxm-80?)",
    "gpu_names-not-a-name": '[test."H100 SXM"] must be a GPU id or a list of { memory_gb, gpu }, found int',
    "gpu_names-no-memory": '[test."A100"] memory_gb: is missing',
    "gpu_names-one-name-twice": "not valid TOML: Cannot overwrite a value (at line 3",
    "gpu_names-no-table": "test must be a table of names, found str",
    "model-unknown-key": "attention_head: unknown key (did you mean attention_heads?)",
    "model-unknown-group-key": "layer_groups.1.windw: unknown key (did you mean window?)",
    "model-no-params": "params: is missing",
    "model-negative-params": "params.1.value: Input should be greater than 0",
    "model-params-as-text": "params: must be a number, or tables of value, basis and source",
    "model-fact-without-basis": "params.1: a stated value needs both basis and source",
    "model-unknown-format": "unknown weight format 'nvpf4' (did you mean nvfp4?)",
    "model-layers-do-not-add-up": "layer_groups and cacheless_layers count 31 layers, layers says 32",
    "model-group-without-heads": "layer_groups.1: a group of kind gqa needs kv_heads",
    "model-group-with-foreign-key": "layer_groups.1: a group of kind gqa has no state_bytes",
    "model-group-basis-without-source": "layer_groups.1: a group with its own basis needs its source, and the other way round",
    "model-unknown-kind": "layer_groups.1.kind: Input should be 'gqa', 'mla' or 'linear'",
    "model-two-days-of-one-kind": "dates: one entry a kind, found weights, weights",
    "model-checkpoint-without-source": "checkpoints.1.source: is missing",
    "model-checkpoint-unknown-format": "unknown weight format 'bf61' (did you mean bf16?)",
    "model-benchmark-of-nobody": "benchmarks.1.measured_by: is missing",
    "model-capacity-on-unknown-gpu": "unknown GPU 'nvidia-b300'",
    "model-alias-of-another-model": "alias 'kimi-k3.1-pro' of moonshotai already means kimi-k3.1-pro",
    "model-alias-unknown-key": "aliases.moonshotai.1.skew: unknown key (did you mean sku?)",
    "model-no-toml": "not valid TOML: Invalid value (at line 1",
}  # fmt: skip


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load_catalogue(CONFIG)


@pytest.fixture
def user_dir(tmp_path: Path) -> Path:
    (tmp_path / "models").mkdir()
    (tmp_path / "throughput").mkdir()
    return tmp_path


# --- wrong files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("case", "message"), MESSAGES.items())
def test_a_wrong_file_is_one_clear_error(case: str, message: str, user_dir: Path) -> None:
    place = user_dir / PLACES[case.partition("-")[0]]
    shutil.copy(INVALID / f"invalid-{case}.toml", place)
    with pytest.raises(ConfigError) as caught:
        load_catalogue(CONFIG, user_dir)
    assert str(caught.value).startswith(f"{place}:")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_invalid_file_has_its_message() -> None:
    files = {path.stem.removeprefix("invalid-") for kind in PLACES for path in INVALID.glob(f"invalid-{kind}-*.toml")}
    assert files == set(MESSAGES)


def test_the_rules_pass_what_is_right(user_dir: Path) -> None:
    # Each invalid file is this one with one thing wrong; without the fault it loads, so the tests above see the fault and nothing else.
    text = (INVALID / "invalid-model-unknown-key.toml").read_text(encoding="utf-8").replace("attention_head =", "attention_heads =")
    (user_dir / "models/test-8b.toml").write_text(text, encoding="utf-8")
    gpu = (INVALID / "invalid-gpus-unknown-key.toml").read_text(encoding="utf-8").replace("bandwith", "bandwidth")
    (user_dir / "gpus.toml").write_text(gpu, encoding="utf-8")
    loaded = load_catalogue(CONFIG, user_dir)
    assert loaded.models["test-8b"].attention_heads == 32
    assert loaded.gpus["nvidia-test"].bandwidth_gb_s == 3350


@pytest.mark.parametrize("name", ["Test-8B", "test 8b", "test..8b", "test_8b", "-test", "test-8b-"])
def test_a_model_file_is_named_by_an_id(name: str, user_dir: Path) -> None:
    (user_dir / f"models/{name}.toml").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match="the file name is the model's id"):
        load_catalogue(CONFIG, user_dir)


INSTANCES = "provider,sku,gpu,gpu_count,verified,source,checked\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("provider,sku,gpu\n", "columns must be provider,sku,gpu,gpu_count,verified,source,checked, found provider,sku,gpu"),
        (INSTANCES + "aws,x.large,nvidia-h100,8,yes,a page,2026-11-29\n", "line 2: unknown GPU 'nvidia-h100'"),
        (INSTANCES + "aws,x.large,nvidia-l4,many,yes,a page,2026-11-29\n", "line 2: gpu_count must be a number, found 'many'"),
        (INSTANCES + "aws,x.large,nvidia-l4,0,yes,a page,2026-11-29\n", "line 2: gpu_count must be above 0, found '0'"),
        (INSTANCES + "aws,x.large,nvidia-l4,NaN,yes,a page,2026-11-29\n", "line 2: gpu_count must be above 0, found 'NaN'"),
        (INSTANCES + "aws,x.large,nvidia-l4,1,yes,,2026-11-29\n", "line 2: source and checked must be given"),
        (INSTANCES + "aws,x.large,nvidia-l4,1,yes,a page,2026-11-29\n" * 2, "line 3: aws x.large is listed twice"),
    ],
)
def test_a_wrong_instance_map_names_its_line(text: str, message: str, user_dir: Path) -> None:
    (user_dir / "instances.csv").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_catalogue(CONFIG, user_dir)
    assert message in str(caught.value)
    assert str(user_dir / "instances.csv") in str(caught.value)


# --- bases --------------------------------------------------------------------------------------------------------------


def test_the_bases_of_the_files_are_those_of_the_engine() -> None:
    assert set(Basis.__args__) == set(PRECEDENCE)
    assert set(CHOOSABLE) == set(PRECEDENCE) - {"overhead"}


# --- the user's files ---------------------------------------------------------------------------------------------------


def test_a_user_table_replaces_the_whole_table(user_dir: Path, catalogue: Catalogue) -> None:
    text = '[q4_k_m]\nname = "Mine"\nbits_per_weight = 5\nfidelity = 41\nengines = ["vllm"]\nsource = "me"\nchecked = 2026-11-29\n'
    (user_dir / "formats.toml").write_text(text, encoding="utf-8")
    mine = load_catalogue(CONFIG, user_dir)
    assert (mine.formats["q4_k_m"].name, mine.formats["q4_k_m"].bytes_per_param_by_basis) == ("Mine", {})
    assert {n: f for n, f in mine.formats.items() if n != "q4_k_m"} == {n: f for n, f in catalogue.formats.items() if n != "q4_k_m"}


def test_a_user_model_file_replaces_the_shipped_one(user_dir: Path, catalogue: Catalogue) -> None:
    shipped = (CONFIG / "models/phi-4.toml").read_text(encoding="utf-8")
    (user_dir / "models/phi-4.toml").write_text(shipped.replace("14_700_000_000", "14_000_000_000"), encoding="utf-8")
    mine = load_catalogue(CONFIG, user_dir)
    assert (catalogue.models["phi-4"].params, mine.models["phi-4"].params) == (14_700_000_000, 14_000_000_000)
    assert set(mine.models) == set(catalogue.models)


def test_a_user_directory_that_is_not_there_changes_nothing(tmp_path: Path, catalogue: Catalogue) -> None:
    assert load_catalogue(CONFIG, tmp_path / "nowhere") == catalogue


def test_the_digest_changes_with_every_kind_of_input(user_dir: Path, catalogue: Catalogue) -> None:
    assert load_catalogue(CONFIG, user_dir).digest == catalogue.digest
    digests = {catalogue.digest}
    for name in ("formats.toml", "gpus.toml", "gpu_names.toml", "instances.csv", "models/phi-4.toml"):
        shutil.copy(CONFIG / name, user_dir / name)
        with (user_dir / name).open("a", encoding="utf-8") as file:
            file.write("" if name == "instances.csv" else "# touched\n")
        digests.add(load_catalogue(CONFIG, user_dir).digest)
    assert len(digests) == 6


# --- measured throughput ------------------------------------------------------------------------------------------------

RUN = "phi-4,nvidia-l40s,1,bf16,vllm 0.19.0,1,0,1024,256,8,301.5,,0.0251,2026-11-01,our own run"


def write_runs(user_dir: Path, *rows: str, header: str = ",".join(COLUMNS), name: str = "mine.csv") -> None:
    (user_dir / "throughput" / name).write_text("\n".join((header, *rows, "")), encoding="utf-8")


def test_an_operators_run_is_read_as_written(user_dir: Path, catalogue: Catalogue) -> None:
    write_runs(user_dir, RUN)
    mine = [point for point in load_points(CONFIG, user_dir, catalogue) if point.kind == "config"]
    (point,) = mine
    assert (point.model, point.gpu, point.gpu_count, point.weight_format) == ("phi-4", "nvidia-l40s", 1, "bf16")
    assert (point.isl, point.osl, point.concurrency, point.output_tok_s) == (1024, 256, 8, 301.5)
    assert (point.ttft_s, point.tpot_s, point.measured, point.source) == (None, 0.0251, date(2026, 11, 1), "our own run")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (RUN.replace("phi-4", "phi-5"), "line 2: unknown model 'phi-5' (did you mean phi-4?)"),
        (RUN.replace("nvidia-l40s", "l40s"), "line 2: unknown gpu 'l40s'"),
        (RUN.replace("bf16", "bf61"), "line 2: unknown weight_format 'bf61' (did you mean bf16?)"),
        (RUN.replace(",256,", ",2.5,"), "line 2: osl must be a whole number of at least 1, found '2.5'"),
        (RUN.replace(",256,", ",0,"), "line 2: osl must be a whole number of at least 1, found '0'"),
        (RUN.replace("301.5", "fast"), "line 2: output_tok_s must be a number above 0, found 'fast'"),
        (RUN.replace("301.5", "inf"), "line 2: output_tok_s must be a number above 0, found 'inf'"),
        (RUN.replace("301.5", "-1"), "line 2: output_tok_s must be a number above 0, found '-1'"),
        (RUN.replace("2026-11-01", "November"), "line 2: measured must be a day like 2026-04-08, found 'November'"),
        (RUN.replace("our own run", ""), "line 2: source is empty"),
    ],
)
def test_a_wrong_run_names_its_line_and_column(row: str, message: str, user_dir: Path, catalogue: Catalogue) -> None:
    write_runs(user_dir, row)
    with pytest.raises(ConfigError) as caught:
        load_points(CONFIG, user_dir, catalogue)
    assert message in str(caught.value)


def test_other_columns_are_refused(user_dir: Path, catalogue: Catalogue) -> None:
    write_runs(user_dir, header="model,gpu,tok_s")
    with pytest.raises(ConfigError, match="columns must be model,gpu,gpu_count,weight_format"):
        load_points(CONFIG, user_dir, catalogue)


def test_a_users_file_replaces_the_shipped_runs_of_that_name(user_dir: Path, catalogue: Catalogue) -> None:
    shipped = load_points(CONFIG, None, catalogue)
    write_runs(user_dir, name="glm-5.csv")
    mine = load_points(CONFIG, user_dir, catalogue)
    assert {point.model for point in shipped} - {point.model for point in mine} == {"glm-5"}


def test_shipped_runs_are_measured_dated_and_sourced(catalogue: Catalogue) -> None:
    points = load_points(CONFIG, None, catalogue)
    assert {point.kind for point in points} == {"measured"}
    assert all(point.source and date(2025, 1, 1) < point.measured < date(2026, 11, 29) for point in points)
    assert all(point.tp * max(point.gpu_count // point.tp, 1) == point.gpu_count for point in points)


@pytest.mark.shared
def test_all_handed_runs_are_there(shared: Path, catalogue: Catalogue) -> None:
    with (shared / "facts/throughput_points.csv").open(encoding="utf-8", newline="") as file:
        handed = sorted(
            (int(r["isl"]), int(r["osl"]), int(r["concurrency"]), float(r["output_tok_s"]), r["date"]) for r in csv.DictReader(file)
        )
    points = load_points(CONFIG, None, catalogue)
    assert sorted((p.isl, p.osl, p.concurrency, p.output_tok_s, p.measured.isoformat()) for p in points) == handed
    assert len(points) == 739
