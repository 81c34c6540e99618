"""``size``, ``compare`` and ``download-time`` against the pages they answer like: seeds 000 to 003, number by number."""

from __future__ import annotations

from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import pytest
import typer
from commands import breakeven

from engine.counts import Layout
from engine.fits import Fit, Need
from engine.models import Licence
from engine.policies import STUDIOTV
from tracker.answers.sizes import USUAL_GPUS
from tracker.cli.downloads import duration
from tracker.cli.sizing import licence_text, machines_of
from tracker.cli.values import amounts, context_label, context_list, context_tokens, token_volume
from tracker.world import load_world

D = Decimal
CONFIG = Path(__file__).resolve().parents[1] / "config"
K = 1024
CONTEXTS = (8 * K, 32 * K, 128 * K, K * K)
H100, H200, B200, B300 = "nvidia-h100-sxm-80", "nvidia-h200-sxm-141", "nvidia-b200-sxm-180", "nvidia-b300-sxm-288"


def whole(value: str) -> str:
    return str(D(value).quantize(D(1), rounding=ROUND_HALF_UP))


def at(value: str, places: str) -> str:
    return str(D(value).quantize(D(places), rounding=ROUND_HALF_UP))


# --- size: seed 003 -----------------------------------------------------------------------------------------------------

# StudioTV, 2026-10-16: GiB alone, then with one request of 8K, 32K, 128K, 1M
STUDIOTV_GIB = {
    "nvfp4": ("496", "497", "499", "505", "561"),
    "bf16": ("1531", "1532", "1534", "1540", "1596"),
    "fp8": ("769", "770", "771", "777", "833"),
    "q4_k_m": ("461", "462", "464", "470", "526"),
}
STUDIOTV_CACHE_GIB = {"bf16": ("0.86", "2.36", "8.36", "64.4"), "fp8": ("0.43", "1.18", "4.18", "32.2")}
# GPU: native, 16-bit, 8-bit, 4-bit; 0 is "not on this GPU"
STUDIOTV_COUNTS = {
    "nvidia-rtx-4090": (0, 96, 48, 24),
    "nvidia-rtx-5090": (0, 64, 32, 16),
    "nvidia-rtx-pro-6000-ws": (0, 24, 16, 5),
    "apple-m5-max-128": (0, 24, 16, 5),
    "amd-ryzen-ai-max-395-128": (0, 24, 16, 5),
    "nvidia-gb10": (0, 16, 7, 4),
    H100: (0, 24, 16, 7),
    H200: (0, 16, 7, 4),
    B200: (4, 16, 6, 3),
}


@pytest.fixture(scope="module")
def muse() -> Any:
    return breakeven("size", "muse-spark-open", "--json").json


def test_weights_alone_and_with_the_cache_are_those_of_the_page(muse: Any) -> None:
    rows = {row["weight_format"]: row for row in muse["weights"]}
    for name, expected in STUDIOTV_GIB.items():
        found = [rows[name]["weights"]["gib"], *(entry["total"]["gib"] for entry in rows[name]["with_cache"])]
        assert tuple(map(whole, found)) == expected, name
    assert [entry["tokens"] for entry in rows["bf16"]["with_cache"]] == list(CONTEXTS)
    assert at(rows["bf16"]["weights"]["gb"], "1") == "1644"  # "1531 GiB (1644 GB)"


def test_the_cache_is_that_of_the_page(muse: Any) -> None:
    for name, expected in STUDIOTV_CACHE_GIB.items():
        printed = [at(row[name]["gib"], "0.01") for row in muse["cache"][:3]] + [at(muse["cache"][3][name]["gib"], "0.1")]
        assert tuple(printed) == expected


def test_counts_of_gpus_are_those_of_the_page(muse: Any) -> None:
    found = {row["gpu"]: tuple(fit["gpu_count"] if fit["fits"] else 0 for fit in row["fits"].values()) for row in muse["gpus"]}
    assert {gpu: found[gpu] for gpu in STUDIOTV_COUNTS} == STUDIOTV_COUNTS


def test_a_gpu_that_cannot_run_the_format_says_why(muse: Any) -> None:
    reasons = {row["gpu"]: row["fits"]["nvfp4 (native)"]["reason"] for row in muse["gpus"]}
    assert reasons["nvidia-rtx-4090"] == "llama.cpp has no NVFP4 loader"
    assert reasons[H200] == "H200 SXM 141GB has no FP4 units for NVFP4"
    assert reasons[B200] == ""


def test_the_text_labels_units_and_gathers_reasons() -> None:
    text = breakeven("size", "muse-spark-open", "--gpu", f"{H100},{H200},nvidia-rtx-4090").text
    assert "Muse Spark Open (Meta): 822.0B parameters, 42.0B active; native nvfp4; window 1M tokens" in text
    assert "weights, and with the bf16 cache of one session of each context, GiB / GB" in text
    assert "496.4 / 533.0" in text
    assert f"{H100} 80 not on this GPU 24 bf16 (3 machines) 16 fp8 (2 machines) 7 awq 6.7 x" in text
    assert f"nvfp4 not on {H100}, {H200}: no FP4 units for NVFP4" in text
    assert "96 bf16 (12 machines), tight" in text


def test_a_licence_nobody_read_says_so() -> None:
    spec = load_world(CONFIG).catalogue.models["llama-3.1-8b-instruct"]
    read, unread = Licence(name="MIT", conditions="none", verified=True), Licence(name="Community License")
    texts = [licence_text(replace(spec, licence=licence)) for licence in (read, unread, None)]
    assert texts == ["MIT: none", "Community License (unverified)", "?"]


def test_cards_sit_eight_to_a_machine_and_boxes_alone() -> None:
    gpus = load_world(CONFIG).catalogue.gpus
    fit = Fit(
        model="m", gpu="g", weight_format="bf16", gpu_count=16, nodes=1, engine="", layout=Layout(1, 16), need=Need(), policy=STUDIOTV
    )
    machines = {name: machines_of(fit, gpus[name]) for name in ("nvidia-rtx-4090", H100, "nvidia-gb300-279", "apple-m5-max-128")}
    assert list(machines.values()) == [2, 2, 4, 16]


def test_usual_gpus_are_all_known() -> None:
    assert set(USUAL_GPUS) <= set(load_world(CONFIG).catalogue.gpus)


# --- size: seeds 000, 002 -----------------------------------------------------------------------------------------------


def test_sessions_with_and_without_dcp_are_those_the_recipe_reports() -> None:
    """Seed 002: about nine sessions of 256K on 8 x B300, 70 with DCP8; 4.90 GB each; 16,992 bytes a token."""
    found = breakeven("size", "kimi-k3.1-pro", "--cache", "fp8", "--context", "256k", "--gpu", B300, "--json", "--explain").json
    assert [(row["gpu_count"], row["dcp"], row["sessions"][0]["sessions"]) for row in found["machines"]] == [(8, 1, 9), (8, 8, 70)]
    assert at(found["cache"][0]["fp8"]["gb"], "0.01") == "4.90"
    lines = {line["name"]: line for section in found["explain"] if section["title"].startswith("KV cache") for line in section["lines"]}
    assert (lines["24 mla layers"]["value"], lines["24 mla layers"]["unit"]) == (16_992, "B/token")
    assert lines["24 mla layers"]["formula"] == "24 * (latent 512 + RoPE 64 in fp8 + 128 + 4 B of indexer)"
    assert lines["69 linear layers"]["value"] == 449_372_160
    assert "DevToolLab" in lines["24 mla layers"]["source"]


def test_the_checkpoint_is_short_of_a_b200_node_by_name_of_policy() -> None:
    """Seed 000: 1,487.5 GB in MXFP4 against 1,440 GB; seed 001's and the recipe's totals under their own policies."""
    swfte = breakeven("size", "kimi-k3.1-pro", "--policy", "swfte", "--gpu", B200, "--gpus", "8", "--json").json
    native = swfte["gpus"][0]["fits"]["mxfp4 (native)"]
    assert (native["fits"], native["reason"], native["capacity_bytes"]) == (False, "48 GB short of weights", 1_440 * 10**9)
    recipe = breakeven("size", "kimi-k3.1-pro", "--policy", "recipe", "--format", "mxfp4", "--gpu", f"{B300},amd-mi355x", "--json").json
    assert at(recipe["weights"][0]["with_cache"][0]["total"]["gb"], "1") == "1874"
    assert [row["fits"]["mxfp4"]["gpu_count"] for row in recipe["gpus"]] == [8, 8]
    canitrun = breakeven("size", "muse-spark-open", "--policy", "canitrun", "--context", "8k", "--json").json
    totals = {row["weight_format"]: at(row["with_cache"][0]["total"]["gb"], "0.1") for row in canitrun["weights"]}
    assert (totals["q4_k_m"], totals["nvfp4"]) == ("560.3", "598.0")
    assert "awq" not in totals  # a size that page does not state is not mixed in


def test_a_width_is_counted_in_the_format_whose_size_the_policy_states() -> None:
    """CanItRun states Q8_0 and Q4_K_M and holds 560.3 GB on eight 80 GB H100; Swfte states plain 8 and 4 bit, 408 GB on one H200 node."""
    columns = {}
    for policy, gpu in (("canitrun", H100), ("swfte", H200), ("studiotv", H100)):
        row = breakeven("size", "muse-spark-open", "--policy", policy, "--gpu", gpu, "--json").json["gpus"][0]["fits"]
        columns[policy] = [(row[width]["weight_format"], row[width]["gpu_count"]) for width in ("8-bit", "4-bit")]
    assert columns["canitrun"] == [("q8_0", 16), ("q4_k_m", 8)]
    assert columns["swfte"] == [("fp8", 8), ("int4", 8)]
    assert columns["studiotv"] == [("fp8", 16), ("awq", 7)]


def test_facts_on_which_sources_differ_stand_side_by_side() -> None:
    found = breakeven("size", "kimi-k3.1-pro", "--gpu", B200, "--json").json
    weights = [(row["value"], row["basis"], row["used"]) for row in found["conflicts"] if row["field"] == "weights_gb"]
    assert weights == [
        ("1487.5", "idealised", False),
        ("1561.293160568", "files", True),
        ("1749.1", "overhead", False),
        ("1874", "overhead", False),
        ("2000", "overhead", False),
    ]
    bandwidth = [(row["value"], row["used"]) for row in found["conflicts"] if row["field"] == "bandwidth_gb_s"]
    assert bandwidth == [("7700", True), ("8000", False)]
    assert not any(row["used"] for row in found["conflicts"] if row["field"] == "kv_1m_gb")  # worked out, never taken from a page


def test_builds_carry_their_kind_and_are_sized_only_by_name() -> None:
    found = breakeven("size", "kimi-k3.1-pro", "--json").json
    assert {build["name"]: build["kind"] for build in found["checkpoints"]}["vllm-project pruned"] == "pruned"
    assert found["weights"][0]["weights"]["bytes"] == 1_561_293_160_568
    q2 = "DevQuasar/moonshotai.Kimi-K3.1-Pro-GGUF Q2_K"
    named = breakeven("size", "kimi-k3.1-pro", "--build", q2, "--gpu", "nvidia-rtx-pro-6000-ws", "--json").json
    fit = named["gpus"][0]["fits"][q2]
    assert (fit["weight_bytes"], fit["fits"], fit["engine"]) == (1_009_300_000_000, True, "llama.cpp")
    assert fit["gpu_count"] == 16  # 940 GiB + cache over 95 usable GiB each: more than 8, so whole machines
    gguf = breakeven("size", "kimi-k3.1-pro", "--build", "4-bit GGUF", "--gpu", "apple-m5-ultra-512", "--json").json
    assert gguf["gpus"][0]["fits"]["4-bit GGUF"]["gpu_count"] == 4  # 1,405 GiB over 383 usable GiB each


def test_a_reserve_of_ones_own_is_a_policy_of_ones_own() -> None:
    found = breakeven("size", "kimi-k3.1-pro", "--gpu", B300, "--reserve-gib", "20", "--cache", "fp8", "--json").json
    assert found["policy"] == "custom"
    fit = found["gpus"][0]["fits"]["mxfp4 (native)"]
    assert fit["capacity_bytes"] == fit["gpu_count"] * (int(275_040 * 2**20 * D("0.9")) - 20 * 2**30)


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (("--gpu", "nvidia-b200-sxm-18"), "no GPU named 'nvidia-b200-sxm-18' (did you mean nvidia-b200-sxm-180?); gpus.toml has them all"),
        (("--format", "nvfp5"), "no weight format named 'nvfp5' (did you mean nvfp4?)"),
        (("--cache", "fp9"), "no cache format named 'fp9' (did you mean fp8?); there are bf16, fp16, fp8, nvfp4"),
        (("--policy", "swift"), "no policy named 'swift' (did you mean swfte?)"),
        (("--build", "pipenetwork REAP80"), "no build of kimi-k3.1-pro named 'pipenetwork REAP80' (did you mean pipenetwork REAP80 q6?)"),
        (("--build", "midagedev IQ1_S"), "nobody lists the size of midagedev IQ1_S"),
    ],
)
def test_names_nobody_knows_are_one_line_with_the_closest(args: tuple[str, ...], line: str) -> None:
    found = breakeven("size", "kimi-k3.1-pro", *args)
    assert (found.code, found.out) == (1, "")
    assert found.err.startswith(f"breakeven: {line}") and found.err.count("\n") == 1


def test_a_model_that_cannot_be_sized_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "secret.toml").write_text(
        'name = "Secret"\norganisation = "Nobody"\nnative_format = "bf16"\n'
        'params = { value = 7_000_000_000, basis = "vendor", source = "card" }\n'
        'source = "card"\nchecked = 2026-11-29\n',
        encoding="utf-8",
    )
    monkeypatch.setenv("BREAKEVEN_CONFIG", str(tmp_path))
    found = breakeven("size", "secret", "--gpu", H100)
    assert found.code == 0
    assert "not known: layers" in found.text and "KV cache: not known" in found.text
    assert f"{H100} 80 ? ? ?" in found.text
    assert "13.0 / 14.0 ?" in found.text  # the weights are known: 7e9 x 2 bytes
    facts = breakeven("size", "secret", "--gpu", H100, "--json").json
    assert facts["cache"] == [] and facts["weights"][0]["with_cache"][0]["total"] is None
    assert breakeven("compare", "secret", "muse-spark-open").code == 0


# --- compare: seed 001 --------------------------------------------------------------------------------------------------

CANITRUN = {
    "fp32": ("12544.5", "3674.6"),
    "bf16": ("6272.4", "1837.8"),
    "fp16": ("6272.4", "1837.8"),
    "q8_0": ("3334.0", "977.3"),
    "q6_k": ("2575.1", "755.0"),
    "q5_k_m": ("2233.3", "654.9"),
    "q4_k_m": ("1910.3", "560.3"),
    "q3_k_m": ("1508.9", "442.8"),
    "q2_k": ("1195.3", "350.9"),
}


def as_the_site_prints(gb: str) -> str:
    """Binary floats, rounded to 2 decimals and then to 1: 6272.451 prints 6272.4 and 12544.451 prints 12544.5."""
    return f"{round(float(gb), 2):.1f}"


@pytest.fixture(scope="module")
def pair() -> Any:
    return breakeven("compare", "kimi-k3.1-pro", "muse-spark-open", "--policy", "canitrun", "--json").json


def test_totals_and_differences_are_those_of_the_page(pair: Any) -> None:
    rows = {str(row["weight_format"]): row for row in pair["totals"]}
    for name, expected in CANITRUN.items():
        assert tuple(as_the_site_prints(total["gb"]) for total in rows[name]["totals"]) == expected
        assert whole(rows[name]["percent"]) == "241"
    native = rows["['mxfp4', 'nvfp4']"]
    assert [as_the_site_prints(total["gb"]) for total in native["totals"]] == ["1749.1", "598.0"]
    assert whole(native["percent"]) == "192"


def test_the_cache_curve_crosses_as_on_the_page(pair: Any) -> None:
    last = pair["cache"][-1]
    assert (last["tokens"], [at(cache["gb"], "0.1") for cache in last["caches"]]) == (K * K, ["51.5", "69.1"])
    assert [point["tokens"] // K for point in pair["cache"]] == [8, 32, 128, 256, 512, 1024]


def test_the_sentences_come_from_the_numbers(pair: Any) -> None:
    assert pair["verdict"][:2] == [
        "in their own formats Muse Spark Open needs 598.0 GB, Kimi K3.1 Pro 1,749.1 GB: 2.9 times as much",
        "at 1M tokens the cache of Muse Spark Open is 69.1 GB, of Kimi K3.1 Pro 51.5 GB: 1.3 times as much",
    ]


def test_gpus_that_hold_only_one_of_them(pair: Any) -> None:
    """Seed 001: Muse runs on eight H100, eight H200, four B200; Kimi needs B300. 'Every GPU that runs Kimi also runs Muse.'"""
    gpus = {row["gpu"]: row for row in pair["gpus"]}
    counts = {gpu: [fit and fit["gpu_count"] for fit in gpus[gpu]["fits"]] for gpu in (H100, B200, B300)}
    assert counts == {H100: [None, 8], B200: [None, 4], B300: [7, 2]}
    assert {row["only"] for row in pair["gpus"]} == {None, "muse-spark-open"}
    assert gpus[B300]["only"] is None


def test_the_text_of_a_comparison() -> None:
    text = breakeven("compare", "kimi-k3.1-pro", "muse-spark-open", "--policy", "canitrun", "--format", "q4_k_m", "--max-gpus", "4").text
    assert "q4_k_m 1,779.1 / 1,910.3 521.9 / 560.3 +241 %" in text
    assert "native: mxfp4, nvfp4 1,629.0 / 1,749.1 556.9 / 598.0 +192 %" in text
    assert "GPQA Diamond 94.2 (Moonshot AI; CanItRun, 2026-10-17) 89.0 (Meta; CanItRun, 2026-10-17)" in text
    assert "on at most 4 GPUs only Kimi K3.1 Pro: none" in text
    assert "bf16 " not in text


def test_beyond_its_window_a_model_has_no_cache() -> None:
    text = breakeven("compare", "llama-3.1-8b-instruct", "muse-spark-open").text
    assert "1M - 64.36 / 69.11" in text  # a window of 128K against one of 1M
    assert "at 128K tokens the cache of Llama 3.1 8B Instruct is 17.2 GB, of Muse Spark Open 9.0 GB: 1.9 times as much" in text


# --- download-time: seed 002 --------------------------------------------------------------------------------------------


def test_the_official_checkpoint_takes_as_long_as_the_page_says() -> None:
    text = breakeven("download-time", "kimi-k3.1-pro").text
    assert "moonshotai/Kimi-K3.1-Pro, official: 1,561.3 GB, 1,454.1 GiB, files" in text
    assert text.endswith("at 1 Gbit/s: 3.5 h at 10 Gbit/s: 21 min")
    facts = breakeven("download-time", "kimi-k3.1-pro", "--gbps", "0.5", "--json").json
    assert (facts["size_bytes"], facts["times"][0]["seconds"]) == (1_561_293_160_568, "24980.690569088")


def test_without_a_listing_the_weights_are_counted_and_say_so() -> None:
    facts = breakeven("download-time", "llama-3.1-8b-instruct", "--json").json
    assert (facts["basis"], facts["build"]) == ("counted", "Llama 3.1 8B Instruct in bf16, no listing of its files")
    assert breakeven("download-time", "kimi-k3.1-pro", "--gbps", "0").code == 2
    assert breakeven("download-time", "kimi-k3.1-pro", "--gbps", "fast").code == 2


# --- what is typed ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "tokens"), [("8192", 8192), ("8k", 8192), ("128K", 131_072), ("1M", 1_048_576), ("256_000", 256_000)])
def test_contexts_count_in_powers_of_two(text: str, tokens: int) -> None:
    assert context_tokens(text) == tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("10B", 10 * 10**9), ("10e9", 10**10), ("1_500_000", 1_500_000), ("16,380M", 16_380_000_000), ("1.5T", 15 * 10**11)],
)
def test_volumes_count_in_powers_of_ten(text: str, tokens: int) -> None:
    assert token_volume(text) == tokens


@pytest.mark.parametrize("text", ["", "8kk", "-8k", "1.5k", "8 192", "many"])
def test_what_is_no_context_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        context_tokens(text)


def test_lists_of_contexts_are_sorted_and_hold_no_zero() -> None:
    assert context_list("1M,8k,8192", ()) == (8192, 1_048_576)
    assert context_list("", (7,)) == (7,)
    with pytest.raises(typer.BadParameter):
        context_list("0,8k", ())
    with pytest.raises(typer.BadParameter):
        amounts("1,,0")


def test_a_context_that_is_none_is_wrong_usage() -> None:
    assert breakeven("size", "muse-spark-open", "--context", "8kk").code == 2
    assert breakeven("cheapest", "muse-spark-open", "--context", "8kk").code == 2


def test_labels_and_durations_for_readers() -> None:
    assert [context_label(tokens) for tokens in (8192, 131_072, 1_048_576, 100_000)] == ["8K", "128K", "1M", "100,000"]
    assert [duration(D(s)) for s in ("12490.35", "1249.03", "59.5", "8.2", "3600")] == ["3.5 h", "21 min", "60 s", "8 s", "1.0 h"]
