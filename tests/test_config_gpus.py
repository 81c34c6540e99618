"""GPUs and weight formats: the figures, their conflicts, and what a printed name means."""

from __future__ import annotations

import csv
import json
import tomllib
from decimal import Decimal
from pathlib import Path

import pytest

from engine.facts import spread
from tracker.facts.catalogue import Catalogue, load_catalogue
from tracker.facts.values import ANY

ROOT = Path(__file__).resolve().parents[1]
CONFIG = ROOT / "config"


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load_catalogue(CONFIG)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# --- figures ------------------------------------------------------------------------------------------------------------


def test_every_fact_has_source_and_date(catalogue: Catalogue) -> None:
    facts = [(gpu.id, fact) for gpu in catalogue.gpus.values() for fact in gpu.facts]
    assert len(facts) > 3 * len(catalogue.gpus)
    assert [gpu for gpu, fact in facts if not fact.source or fact.checked.year < 2026] == []
    assert all(gpu.source for gpu in catalogue.gpus.values())
    assert all(form.source for form in catalogue.formats.values())


# nvidia-smi and amd-smi print MiB; x 2**20 bytes
REPORTED = [
    ("nvidia-h100-sxm-80", 81_559),
    ("nvidia-h100-nvl-94", 95_830),
    ("nvidia-h200-sxm-141", 143_771),
    ("nvidia-b200-sxm-180", 183_359),
    ("nvidia-b300-sxm-288", 275_040),
    ("nvidia-gb300-279", 284_208),
    ("nvidia-l40s", 46_068),
    ("amd-mi300x", 196_592),
    ("amd-mi355x", 294_896),
]


@pytest.mark.parametrize(("gpu", "mib"), REPORTED)
def test_a_model_gets_the_reported_memory(gpu: str, mib: int, catalogue: Catalogue) -> None:
    assert catalogue.gpus[gpu].memory_reported_mib == mib
    assert catalogue.gpus[gpu].memory_bytes == mib * 2**20


def test_marketed_and_reported_memory_stay_apart(catalogue: Catalogue) -> None:
    b300 = catalogue.gpus["nvidia-b300-sxm-288"]
    assert (b300.memory_marketed_gb, b300.memory_bytes) == (288, 288_400_343_040)
    assert {fact.value for fact in spread(b300.facts, "memory_gb")} == {Decimal("262.5"), Decimal(268), Decimal(270)}


@pytest.mark.parametrize(
    ("gpu", "field", "values", "chosen"),
    [
        ("nvidia-b200-sxm-180", "bandwidth_gb_s", {7_700, 8_000}, 7_700),
        ("nvidia-rtx-pro-6000-server", "bandwidth_gb_s", {1_792, 1_597}, 1_792),
        ("nvidia-b200-sxm-180", "memory_marketed_gb", {180, 192}, 180),
        ("amd-mi325x", "memory_marketed_gb", {256, 288}, 256),
        ("amd-mi308x", "memory_marketed_gb", {192, 128}, 192),
    ],
)
def test_conflicts_stay_side_by_side(gpu: str, field: str, values: set[int], chosen: int, catalogue: Catalogue) -> None:
    assert {int(fact.value) for fact in spread(catalogue.gpus[gpu].facts, field)} == values
    assert getattr(catalogue.gpus[gpu], field) == chosen


@pytest.mark.parametrize(
    ("gpu", "basis", "gb"),
    [
        ("nvidia-b200-sxm-180", "vendor", 1_440),  # DGX B200 page
        ("nvidia-b300-sxm-288", "vendor", 2_100),  # DGX B300 page: 2.1 TB
        ("nvidia-b300-sxm-288", "recipe", 2_144),
        ("nvidia-h200-sxm-141", "recipe", 1_128),
        ("amd-mi355x", "recipe", 2_304),
    ],
)
def test_node_totals_are_facts_with_their_basis(gpu: str, basis: str, gb: int, catalogue: Catalogue) -> None:
    assert [fact.value for fact in catalogue.gpus[gpu].facts if (fact.field, fact.basis) == ("node_memory_gb", basis)] == [gb]


@pytest.mark.parametrize(
    ("gpu", "usable_gib"),
    [("apple-m5-ultra-512", 384), ("apple-m5-max-128", 96), ("amd-ryzen-ai-max-395-128", 96), ("nvidia-gb10", 128)],
)
def test_unified_boxes_give_a_model_what_studiotv_says(gpu: str, usable_gib: int, catalogue: Catalogue) -> None:
    box = catalogue.gpus[gpu]
    assert box.usable_bytes == usable_gib * 2**30
    assert (box.gpu_class, box.node_gpus) == ("unified", 1)
    assert "llama.cpp" in box.engines


def test_classes_and_engines(catalogue: Catalogue) -> None:
    kind = {gpu.id: gpu.gpu_class for gpu in catalogue.gpus.values()}
    consumer = ("nvidia-rtx-4090", "nvidia-rtx-5090")
    assert [kind[gpu] for gpu in (*consumer, "nvidia-rtx-pro-6000-server", "nvidia-h100-sxm-80", "nvidia-l40s", "amd-mi300x")] == [
        *("consumer", "consumer", "workstation", "datacenter", "datacenter", "datacenter")
    ]
    assert {gpu.id for gpu in catalogue.gpus.values() if not gpu.engines} == {
        *("nvidia-k80", "intel-gaudi1", "intel-gaudi2", "intel-gaudi3"),
        *("google-tpu-v5e", "google-tpu-v5p", "google-tpu-v6e", "google-tpu-v7x"),
    }
    fp4 = {gpu.id for gpu in catalogue.gpus.values() if "fp4" in gpu.native_formats}
    assert {"nvidia-b200-sxm-180", "nvidia-rtx-5090", "amd-mi355x"} <= fp4
    assert fp4.isdisjoint({"nvidia-h100-sxm-80", "nvidia-h200-sxm-141", "amd-mi300x", "nvidia-rtx-4090"})


@pytest.mark.shared
def test_all_gpus_of_the_two_lists_are_there(shared: Path, catalogue: Catalogue) -> None:
    gpus, compute = rows_of(shared / "facts/gpus.csv"), rows_of(shared / "facts/gpu_compute.csv")
    ids = {row["gpu_id"] for row in gpus} | {row["gpu_id"] for row in compute}
    assert set(catalogue.gpus) == ids
    assert len(ids) == 79
    for row in gpus:
        gpu = catalogue.gpus[row["gpu_id"]]
        assert gpu.memory_marketed_gb == Decimal(row["memory_gb_marketing"])
        assert gpu.memory_reported_mib == (int(row["memory_mib_reported"]) if row["memory_mib_reported"] else None)
        assert ("fp8" in gpu.native_formats, "fp4" in gpu.native_formats) == (row["fp8_native"] == "1", row["fp4_native"] == "1")
    for row in compute:
        gpu = catalogue.gpus[row["gpu_id"]]
        stated = {kind: Decimal(row[f"{kind}_dense_tflops"]) for kind in ("bf16", "fp8", "fp4") if row[f"{kind}_dense_tflops"]}
        assert (gpu.dense_tflops, gpu.node_gpus) == (stated, int(row["node_gpus"]))
        assert gpu.bandwidth_gb_s == (Decimal(row["mem_bw_gb_s"]) if row["mem_bw_gb_s"] else None)


# --- formats ------------------------------------------------------------------------------------------------------------

BYTES = [
    ("bf16", "2"),
    ("fp8", "1"),
    ("q8_0", "1.0625"),  # 34 bytes for 32 weights
    ("q6_k", "0.8203125"),  # 210 bytes for 256 weights
    ("mxfp4", "0.53125"),  # 4 bits + 8 / 32
    ("nvfp4", "0.5625"),  # 4 bits + 8 / 16
    ("int4", "0.5625"),  # 4 bits + 16 / 32
    ("q4_k_m", "0.6025"),  # StudioTV: 4.82 bits
]


@pytest.mark.parametrize(("name", "size"), BYTES)
def test_bytes_per_weight_hold_the_scales(name: str, size: str, catalogue: Catalogue) -> None:
    assert catalogue.formats[name].bytes_per_param == Decimal(size)


# CanItRun, 2026-10-17: bytes a parameter
CANITRUN = {
    "fp32": "4",
    "bf16": "2",
    "q8_0": "1.063",
    "q6_k": "0.821",
    "q5_k_m": "0.712",
    "q4_k_m": "0.609",
    "q3_k_m": "0.481",
    "q2_k": "0.381",
}


@pytest.mark.parametrize(("name", "size"), CANITRUN.items())
def test_other_calculators_figures_stay_under_their_name(name: str, size: str, catalogue: Catalogue) -> None:
    assert catalogue.formats[name].bytes_per_param_by_basis["canitrun"] == Decimal(size)


def test_fidelity_falls_with_the_width_and_ties_within_it(catalogue: Catalogue) -> None:
    order = [("fp32", "bf16", "fp16"), ("fp8", "mxfp8", "int8", "q8_0"), ("q6_k",), ("q5_k_m",)]
    order += [("int4", "awq", "gptq", "mxfp4", "nvfp4", "q4_k_m"), ("q3_k_m",), ("q2_k",), ("iq1_s",)]
    ranks = [{catalogue.formats[name].fidelity for name in names} for names in order]
    assert all(len(rank) == 1 for rank in ranks)
    assert [rank.pop() for rank in ranks] == sorted({form.fidelity for form in catalogue.formats.values()}, reverse=True)
    assert sorted(name for names in order for name in names) == sorted(catalogue.formats)


# --- names --------------------------------------------------------------------------------------------------------------

# source, provider, printed name, memory, sku, GPU
NAMES = [
    ("runpod", "runpod", "NVIDIA H100 80GB HBM3", 80, "", "nvidia-h100-sxm-80"),
    ("runpod", "runpod", "NVIDIA H100 PCIe", 80, "", "nvidia-h100-pcie-80"),
    ("runpod", "runpod", "NVIDIA H200 NVL", 143, "", "nvidia-h200-nvl-141"),
    ("runpod", "runpod", "AMD Instinct MI300X OAM", 192, "", "amd-mi300x"),
    ("runpod", "runpod", "NVIDIA B300 SXM6 AC", 288, "", "nvidia-b300-sxm-288"),
    ("scaleway", "scaleway", "H100-SXM", None, "H100-SXM-8-80G", "nvidia-h100-sxm-80"),
    ("scaleway", "scaleway", "H100-SXM", None, "H100-SXM-3-80G", "nvidia-h100-sxm-80"),  # a size the instance map has not seen
    ("scaleway", "scaleway", "H100-PCIe", None, "", "nvidia-h100-pcie-80"),
    ("coreweave", "coreweave", "NVIDIA HGX H200", 141, "hgx-h200", "nvidia-h200-sxm-141"),
    ("coreweave", "coreweave", "NVIDIA GB300 NVL72", 279, "nvidia-gb300-nvl72", "nvidia-gb300-279"),
    ("vast", "vast", "A100 SXM4", Decimal(39936) / 1024, "", "nvidia-a100-sxm-40"),
    ("vast", "vast", "A100 PCIE", Decimal(81920) / 1024, "", "nvidia-a100-pcie-80"),
    ("ovhcloud", "ovhcloud", "H100", None, "", "nvidia-h100-pcie-80"),  # PCIe by nvidia-smi
    ("ovhcloud", "ovhcloud", "A100", None, "a100-180", "nvidia-a100-pcie-80"),
    ("aws", "aws", "NVIDIA", None, "p5e.48xlarge", "nvidia-h200-sxm-141"),  # the vendor's name says nothing, the type does
    ("ec2instances", "aws", "NVIDIA B200", None, "p6e-gb200.36xlarge", "nvidia-gb200-186"),
    ("skypilot", "azure", "H100", None, "Standard_NC40ads_H100_v5", "nvidia-h100-nvl-94"),
    ("gpuhunt", "gcp", "A100", 40, "a2-highgpu-1g", "nvidia-a100-sxm-40"),
]


@pytest.mark.parametrize(("source", "provider", "name", "memory", "sku", "gpu"), NAMES)
def test_a_printed_name_means_one_gpu(
    source: str, provider: str, name: str, memory: Decimal | int | None, sku: str, gpu: str, catalogue: Catalogue
) -> None:
    printed = None if memory is None else Decimal(memory)
    assert catalogue.gpu_for(source, provider, name, memory_gb=printed, sku=sku) == gpu


# Nothing is guessed: shared names, slices, vGPUs, software, near misses.
UNRESOLVED = [
    ("runpod", "runpod", "NVIDIA RTX PRO 6000 Blackwell Server Edition MIG 1g.24gb", 24, ""),
    ("runpod", "runpod", "NVIDIA B300 SXM6 AC MIG 1g.34gb", 34, ""),
    ("runpod", "runpod", "unknown", 0, ""),
    ("runpod", "runpod", "nvidia h100 80gb hbm3", 80, ""),
    ("coreweave", "coreweave", "NVIDIA A100", 80, "nvidia-a100"),
    ("vast", "vast", "A100 SXM4", None, ""),
    ("vast", "vast", "A100 SXM4", 60, ""),
    ("vast", "vast", "Tesla V100", 16, ""),
    ("ovhcloud", "ovhcloud", "A100", 80, ""),
    ("skypilot", "runpod", "H100", 80, ""),
    ("gpuhunt", "lambda", "A100", 80, ""),
    ("aws", "aws", "NVIDIA", 141, ""),
    ("aws", "aws", "L4", 3, "g6f.large"),  # an eighth of an L4
    ("azure", "azure", "StandardNVADSA10v5Family", 4, "Standard_NV6ads_A10_v5"),  # a sixth of an A10
    ("azure", "azure", "StandardNCdsRTXPRO6000BSEv6XLFamily", 96, "Standard_NC256lds_xl_RTXPRO6000BSE_v6"),  # count only inferred
    ("gcp", "gcp", "1/8 vGPU no lssd", None, ""),
    ("oci", "oci", "OCI - NVIDIA AI Enterprise - H100", None, ""),
    ("any source", "any provider", "NVIDIA L4-3Q", 3, ""),
    ("any source", "any provider", "GRID T4-8Q", 8, ""),
]


@pytest.mark.parametrize(("source", "provider", "name", "memory", "sku"), UNRESOLVED)
def test_nothing_is_guessed(source: str, provider: str, name: str, memory: int | None, sku: str, catalogue: Catalogue) -> None:
    printed = None if memory is None else Decimal(memory)
    assert catalogue.gpu_for(source, provider, name, memory_gb=printed, sku=sku) is None


def test_no_name_means_two_gpus(catalogue: Catalogue) -> None:
    meanings = catalogue.gpu_names[ANY]
    shared_names = [(table, name) for table, names in catalogue.gpu_names.items() if table != ANY for name in names if name in meanings]
    assert len(shared_names) > 20
    assert [(t, n) for t, n in shared_names if catalogue.gpu_names[t][n] != meanings[n]] == []


def test_every_name_leads_to_a_gpu() -> None:
    # Read without the loader, which would refuse the file.
    names = tomllib.loads((CONFIG / "gpu_names.toml").read_text(encoding="utf-8"))
    gpus = tomllib.loads((CONFIG / "gpus.toml").read_text(encoding="utf-8"))
    meant = [v if isinstance(v, str) else [one["gpu"] for one in v] for table in names.values() for v in table.values()]
    flat = {gpu for one in meant for gpu in ([one] if isinstance(one, str) else one)}
    assert flat <= set(gpus)
    assert len(meant) > 300


@pytest.mark.shared
def test_the_alias_list_resolves_where_it_is_certain(shared: Path, catalogue: Catalogue) -> None:
    tables = {
        "Scaleway": "scaleway",
        "OCI shape": "oci",
        "OCI cetools": "oci",
        "nvidia-smi": "x",
        "UpCloud": "upcloud",
        "Cyclenerd": "cyclenerd",
    }
    checked = 0
    for row in rows_of(shared / "facts/gpu_aliases.csv"):
        source = next((ours for theirs, ours in tables.items() if row["catalog_and_field"].startswith(theirs)), None)
        if source and not row["ambiguity_rule"]:
            assert catalogue.gpu_for(source, source, row["alias"]) == row["gpu_id"], row
            checked += 1
        elif source and not row["gpu_id"]:
            assert catalogue.gpu_for(source, source, row["alias"]) is None, row
    assert checked > 75


@pytest.mark.shared
def test_the_instance_map_is_carried_over(shared: Path, catalogue: Catalogue) -> None:
    handed = rows_of(shared / "facts/instance_gpu_map.csv")
    provider = {"ovh": "ovhcloud"}
    assert len(catalogue.instances) == len(handed) == 206
    for row in handed:
        instance = catalogue.instances[provider.get(row["provider"], row["provider"]), row["instance_type"]]
        assert (instance.gpu, instance.gpu_count) == (row["gpu_id"], Decimal(row["gpu_count"]))
        assert instance.verified == (not row["note"].startswith("UNVERIFIED"))


@pytest.mark.shared
def test_recorded_runpod_names_resolve_or_are_no_gpu_of_ours(shared: Path, catalogue: Catalogue) -> None:
    types = json.loads((shared / "recorded/gpu-markets/runpod_graphql_gpuTypes_2026-10.json").read_text(encoding="utf-8"))["data"][
        "gpuTypes"
    ]
    unresolved = {t["id"] for t in types if catalogue.gpu_for("runpod", "runpod", t["id"], memory_gb=Decimal(t["memoryInGb"])) is None}
    assert len(types) == 48
    # By eye: models the GPU list lacks, two MIG slices and "unknown".
    lacking = ("RTX 3080", "RTX 3080 Ti", "RTX 3090 Ti", "RTX 4070 Ti", "RTX 4080 SUPER")
    assert unresolved == {
        *(f"NVIDIA GeForce {name}" for name in lacking),
        *("NVIDIA RTX 2000 Ada Generation", "NVIDIA RTX 4000 SFF Ada Generation", "NVIDIA RTX A2000", "NVIDIA RTX A4500"),
        *("NVIDIA RTX PRO 4000 Blackwell", "NVIDIA RTX PRO 4500 Blackwell Server Edition", "NVIDIA RTX PRO 5000 Blackwell"),
        *(f"NVIDIA RTX PRO 6000 Blackwell Server Edition MIG {part}" for part in ("1g.24gb", "2g.48gb")),
        "unknown",
    }
