"""The seeds' numbers about memory, counts and times, one row a number: computed by the functions the commands use, from config.

Each row: id of facts/seed_numbers.json, the number as the seed prints it, and how it is computed from the catalogue. Rounding
habits of a seed's site live here and nowhere else.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from functools import cache
from pathlib import Path

import pytest

from engine.cache import cache_bytes, cache_bytes_per_token, cache_gain, cache_saving, canitrun_cache_bytes, latent_bytes, state_bytes
from engine.compare import totals
from engine.fits import Fit, Need
from engine.gpus import rack_bytes
from engine.offload import Place, Placement, place, pooled_gb, times_short
from engine.policies import CANITRUN, RECIPE, STUDIOTV, SWFTE, custom_policy, node_bytes
from engine.sharding import rank_share
from engine.sizing import fit, smallest_fit
from engine.traffic import answer_seconds, bandwidth_bytes_s, decode_ceiling_tok_s, download_seconds, weight_traffic_bytes
from engine.units import GB, GIB, MINUTES_PER_HOUR, SECONDS_PER_HOUR, gb, gib
from engine.weights import active_share, average_bits, checkpoint_bytes, params_16bit, stated_params, weight_bytes, weight_parts
from tracker.facts.catalogue import Catalogue, load_catalogue

D = Decimal
CONFIG = Path(__file__).resolve().parents[1] / "config"
KIMI, MUSE = "kimi-k3.1-pro", "muse-spark-open"
H100, H200, B200, B300 = "nvidia-h100-sxm-80", "nvidia-h200-sxm-141", "nvidia-b200-sxm-180", "nvidia-b300-sxm-288"
MAC512, MAC128 = "apple-m5-ultra-512", "apple-m5-max-128"
K = 1024  # of context windows
ONE_MILLION = 1024 * K
TERA = 1000

Value = Decimal | int | bool | str
Compute = Callable[[Catalogue], Value]
Row = tuple[str, str, Compute]

# --- how a site prints -------------------------------------------------------------------------------------------------


def printed(value: Value, like: str) -> str:
    """The value with as many decimals as the seed prints, half up."""
    if isinstance(value, bool | str):
        return str(value)
    decimals = -D(like).as_tuple().exponent if "." in like else 0
    return str(D(value).quantize(D(1).scaleb(-decimals), rounding=ROUND_HALF_UP))


def js_fixed(value: Decimal) -> str:
    """CanItRun: binary floats, rounded to 2 decimals, then toFixed(1): 6272.451 prints 6272.4 and 12544.451 prints 12544.5."""
    return f"{round(float(value), 2):.1f}"


def about_tens(value: Decimal) -> str:
    """Swfte: 'about 1,230' for 1,230.77."""
    return str((value / 10).quantize(D(1), rounding=ROUND_DOWN) * 10)


def about_whole(value: Decimal) -> str:
    """DevToolLab: 'about 22 minutes' for 22.5."""
    return str(value.quantize(D(1), rounding=ROUND_DOWN))


# --- seed 000, Swfte ---------------------------------------------------------------------------------------------------


def swfte_weights(model: str, weight_format: str) -> Compute:
    return lambda c: gb(weight_bytes(c.models[model], c.formats[weight_format], "swfte").size_bytes)


def swfte_fit(c: Catalogue, model: str, weight_format: str, gpu: str) -> Fit:
    return smallest_fit(c.models[model], c.gpus[gpu], c.formats[weight_format], need=Need(), policy=SWFTE)


def swfte_node(model: str, weight_format: str, gpu: str) -> tuple[Compute, Compute]:
    return (
        lambda c: swfte_fit(c, model, weight_format, gpu).nodes,
        lambda c: gb(swfte_fit(c, model, weight_format, gpu).spare_bytes),
    )


def mac_pair(c: Catalogue) -> Fit:
    return fit(c.models[MUSE], c.gpus[MAC512], c.formats["fp8"], 2, need=Need(), policy=SWFTE)


# model and precision -> weights in our terms; node -> GPU; printed nodes and spare GB of every cell
SWFTE_MODELS = {
    "kimi_mxfp4": (KIMI, "mxfp4"),
    "kimi_8bit": (KIMI, "fp8"),
    "kimi_bf16": (KIMI, "bf16"),
    "muse_4bit": (MUSE, "int4"),
    "muse_8bit": (MUSE, "fp8"),
    "muse_bf16": (MUSE, "bf16"),
}
SWFTE_NODES = {"8xH200": H200, "DGX_B200": B200, "DGX_B300": B300}
SWFTE_CELLS = {
    ("kimi_mxfp4", "8xH200"): ("2", "768.5"),
    ("kimi_mxfp4", "DGX_B200"): ("2", "1392.5"),
    ("kimi_mxfp4", "DGX_B300"): ("1", "612.5"),
    ("kimi_8bit", "8xH200"): ("3", "584"),
    ("kimi_8bit", "DGX_B200"): ("2", "80"),
    ("kimi_8bit", "DGX_B300"): ("2", "1400"),
    ("kimi_bf16", "8xH200"): ("5", "40"),
    ("kimi_bf16", "DGX_B200"): ("4", "160"),
    ("kimi_bf16", "DGX_B300"): ("3", "700"),
    ("muse_4bit", "8xH200"): ("1", "720"),
    ("muse_4bit", "DGX_B200"): ("1", "1032"),
    ("muse_4bit", "DGX_B300"): ("1", "1692"),
    ("muse_8bit", "8xH200"): ("1", "312"),
    ("muse_8bit", "DGX_B200"): ("1", "624"),
    ("muse_8bit", "DGX_B300"): ("1", "1284"),
    ("muse_bf16", "8xH200"): ("2", "624"),
    ("muse_bf16", "DGX_B200"): ("2", "1248"),
    ("muse_bf16", "DGX_B300"): ("1", "468"),
}


def swfte_cells() -> tuple[Row, ...]:
    rows: list[Row] = []
    for (name, node), (nodes, spare) in SWFTE_CELLS.items():
        count, left = swfte_node(*SWFTE_MODELS[name], SWFTE_NODES[node])
        rows += [(f"swfte.nodes.{name}.{node}", nodes, count), (f"swfte.spare.{name}.{node}", spare, left)]
    return tuple(rows)


SWFTE_ROWS: tuple[Row, ...] = (
    ("swfte.weights.kimi.bf16", "5600", swfte_weights(KIMI, "bf16")),
    ("swfte.weights.kimi.8bit", "2800", swfte_weights(KIMI, "fp8")),
    ("swfte.weights.kimi.4bit", "1400", swfte_weights(KIMI, "int4")),
    ("swfte.weights.kimi.mxfp4", "1487.5", swfte_weights(KIMI, "mxfp4")),
    ("swfte.weights.muse.bf16", "1632", swfte_weights(MUSE, "bf16")),
    ("swfte.weights.muse.8bit", "816", swfte_weights(MUSE, "fp8")),
    ("swfte.weights.muse.4bit", "408", swfte_weights(MUSE, "int4")),
    ("swfte.weights.muse.mxfp4", "433.5", swfte_weights(MUSE, "mxfp4")),
    ("swfte.mxfp4.bpp", "0.53125", lambda c: c.formats["mxfp4"].bytes_per_param),
    (
        "swfte.4bit_scales_overhead",
        "6",
        lambda c: (D(swfte_weights(MUSE, "mxfp4")(c)) / D(swfte_weights(MUSE, "int4")(c)) - 1) * 100,
    ),
    ("swfte.node.h200", "1128", lambda c: gb(node_bytes(SWFTE, c.gpus[H200]))),
    ("swfte.mac2.capacity", "1024", lambda c: pooled_gb(c.gpus[MAC512], 2)),
    ("swfte.mac2.spare", "208", lambda c: gb(mac_pair(c).spare_bytes)),
    ("swfte.decode_ceiling.mac", "29", lambda c: decode_ceiling_tok_s(c.models[MUSE], c.gpus[MAC512], c.formats["fp8"], basis="swfte")),
    ("swfte.active_traffic.kimi", "52", lambda c: gb(weight_traffic_bytes(c.models[KIMI], c.formats["int4"], "swfte"))),
    (
        "swfte.decode_ceiling.b200",
        "1230",
        lambda c: about_tens(
            decode_ceiling_tok_s(c.models[KIMI], c.gpus[B200], c.formats["int4"], 8, basis="swfte", bandwidth_bases=("vendor",))
        ),
    ),
    ("swfte.active_frac.kimi", "3.7", lambda c: (active_share(c.models[KIMI], "swfte") or 0) * 100),
    ("swfte.active_frac.muse", "5.1", lambda c: (active_share(c.models[MUSE], "swfte") or 0) * 100),
    ("swfte.vr_nvl72", "20.7", lambda c: gb(rack_bytes(c.gpus["nvidia-vr200-288"]) or 0) / TERA),
    (
        "swfte.kimi.b200_short",
        "True",
        lambda c: not fit(c.models[KIMI], c.gpus[B200], c.formats["mxfp4"], 8, need=Need(), policy=SWFTE).fits,
    ),
    *swfte_cells(),
)

# --- seed 001, CanItRun ------------------------------------------------------------------------------------------------

CANITRUN_TOTALS = {
    "FP32": ("12544.5", "3674.6"),
    "BF16": ("6272.4", "1837.8"),
    "FP16": ("6272.4", "1837.8"),
    "Q8_0": ("3334.0", "977.3"),
    "Q6_K": ("2575.1", "755.0"),
    "Q5_K_M": ("2233.3", "654.9"),
    "Q4_K_M": ("1910.3", "560.3"),
    "Q3_K_M": ("1508.9", "442.8"),
    "Q2_K": ("1195.3", "350.9"),
    "NVFP4": ("1749.1", "598.0"),  # their label; the native checkpoint of each
}


def canitrun_pair(label: str, context: int = 8 * K) -> Callable[[Catalogue], tuple[int, int, Decimal]]:
    """Totals of Kimi and Muse in bytes, and the difference in percent, as `compare` shows them."""

    def compute(c: Catalogue) -> tuple[int, int, Decimal]:
        native = label == "NVFP4"
        formats = [c.formats[name] for name in ("mxfp4", "nvfp4")] if native else [c.formats[label.lower()]]
        found = totals(c.models[KIMI], c.models[MUSE], formats, Need(context=context), CANITRUN)
        row = found[-1] if native else found[0]
        assert row.first_bytes is not None and row.second_bytes is not None and row.percent is not None
        return row.first_bytes, row.second_bytes, row.percent

    return compute


def canitrun_rows() -> tuple[Row, ...]:
    rows: list[Row] = []
    for label, (kimi, muse) in CANITRUN_TOTALS.items():
        pair = canitrun_pair(label)
        rows += [
            (f"canitrun.total8k.kimi.{label}", kimi, lambda c, pair=pair: js_fixed(gb(pair(c)[0]))),
            (f"canitrun.total8k.muse.{label}", muse, lambda c, pair=pair: js_fixed(gb(pair(c)[1]))),
            (f"canitrun.diff.{label}", "192" if label == "NVFP4" else "241", lambda c, pair=pair: pair(c)[2]),
        ]
    return tuple(rows)


def canitrun_fits(weight_format: str, gpu: str, count: int, context: int = 8 * K) -> Compute:
    def compute(c: Catalogue) -> bool:
        need = Need(context=context)
        return fit(c.models[MUSE], c.gpus[gpu], c.formats[weight_format], count, need=need, policy=CANITRUN).fits

    return compute


CANITRUN_ROWS: tuple[Row, ...] = (
    *canitrun_rows(),
    ("canitrun.kv1m.muse", "69.1", lambda c: gb(canitrun_cache_bytes(c.models[MUSE], ONE_MILLION))),
    ("canitrun.kv1m.kimi", "51.5", lambda c: gb(canitrun_cache_bytes(c.models[KIMI], ONE_MILLION))),
    ("canitrun.total1m.muse", "636.7", lambda c: js_fixed(gb(canitrun_pair("Q4_K_M", ONE_MILLION)(c)[1]))),
    ("canitrun.total1m.kimi", "1806.4", lambda c: js_fixed(gb(canitrun_pair("NVFP4", ONE_MILLION)(c)[0]))),
    ("canitrun.active_ratio", "0.4", lambda c: D(c.models[MUSE].params_active or 0) / (c.models[KIMI].params_active or 1)),
    ("canitrun.fit.h100x8", "True", canitrun_fits("q4_k_m", H100, 8)),
    ("canitrun.fit.b200x4", "True", lambda c: all(canitrun_fits("q4_k_m", B200, 4, t)(c) for t in (8 * K, ONE_MILLION))),
    ("canitrun.fit.mac512_q3", "True", canitrun_fits("q3_k_m", MAC512, 1)),
    ("canitrun.fit.mac512_q4", "False", canitrun_fits("q4_k_m", MAC512, 1)),
)

# --- seed 002, DevToolLab ----------------------------------------------------------------------------------------------


def kimi_files(c: Catalogue) -> int:
    return weight_bytes(c.models[KIMI], c.formats["mxfp4"]).size_bytes


def latent(c: Catalogue) -> Decimal:
    group = next(g for g in c.models[KIMI].layer_groups if g.kind == "mla")
    return D(int(latent_bytes(group, "fp8")))


def kda_state(c: Catalogue) -> Decimal:
    """20 sessions of KDA state on one of eight GPUs, in GB."""
    group = next(g for g in c.models[KIMI].layer_groups if g.kind == "linear")
    return gb(int(20 * group.count * group.state_bytes * rank_share(group, 8)))


def sessions(dcp: int) -> Compute:
    def compute(c: Catalogue) -> int:
        need = Need(context=256 * K, cache_format="fp8", dcp=dcp)
        return fit(c.models[KIMI], c.gpus[B300], c.formats["mxfp4"], 8, need=need, policy=STUDIOTV).max_sessions or 0

    return compute


DTL_ROWS: tuple[Row, ...] = (
    ("dtl.nonexpert", "114.7", lambda c: gb(weight_parts(c.models[KIMI], c.formats["mxfp4"])[0])),
    ("dtl.experts", "1446.5", lambda c: gb(weight_parts(c.models[KIMI], c.formats["mxfp4"])[1])),
    ("dtl.h200_node", "1128", lambda c: gb(node_bytes(RECIPE, c.gpus[H200]))),
    ("dtl.kv.per_token", "16992", lambda c: int(cache_bytes_per_token(c.models[KIMI], "fp8"))),
    ("dtl.kv.latent_fp8", "576", latent),
    ("dtl.kv.nvfp4_gain", "1.5", lambda c: cache_gain(c.models[KIMI], "nvfp4", over="fp8")),
    ("dtl.kv.per_seq", "449.4", lambda c: D(state_bytes(c.models[KIMI])) / 10**6),
    ("dtl.kv.seq.32768", "1.01", lambda c: gb(cache_bytes(c.models[KIMI], 32 * K, "fp8"))),
    ("dtl.kv.seq.131072", "2.68", lambda c: gb(cache_bytes(c.models[KIMI], 128 * K, "fp8"))),
    ("dtl.kv.seq.262144", "4.90", lambda c: gb(cache_bytes(c.models[KIMI], 256 * K, "fp8"))),
    ("dtl.kv.seq.1048576", "18.27", lambda c: gb(cache_bytes(c.models[KIMI], ONE_MILLION, "fp8"))),
    (
        "dtl.cache_per_gpu",
        "44.2",
        lambda c: gb(c.models[KIMI].recorded_capacity[0].tokens * int(cache_bytes_per_token(c.models[KIMI], "fp8"))),
    ),
    ("dtl.sessions_tp8", "9", sessions(1)),
    ("dtl.sessions_dcp8", "70", sessions(8)),
    ("dtl.kda_20", "1.1", kda_state),
    ("dtl.b200_short", "121 GB short of weights", lambda c: _files_on_label(c, B200)),
    ("dtl.mac512_decimal", "549.8", lambda c: gb(c.gpus[MAC512].memory_bytes)),
    ("dtl.ssd_answer", "22", lambda c: about_whole(answer_seconds(500, D("0.37")) / MINUTES_PER_HOUR)),
    ("dtl.dl.1g", "3.5", lambda c: download_seconds(kimi_files(c), D(1)) / SECONDS_PER_HOUR),
    ("dtl.dl.10g", "21", lambda c: download_seconds(kimi_files(c), D(10)) / MINUTES_PER_HOUR),
)


def _files_on_label(c: Catalogue, gpu: str) -> str:
    """The file listing against the label of one node, nothing else."""
    policy = custom_policy(SWFTE, weights_basis="files")
    return fit(c.models[KIMI], c.gpus[gpu], c.formats["mxfp4"], 8, need=Need(), policy=policy).reason


# --- seed 003, StudioTV ------------------------------------------------------------------------------------------------

STV_FORMATS = {"native": "nvfp4", "bf16": "bf16", "fp8": "fp8", "q8": "q8_0", "q4": "q4_k_m"}
STV_CONTEXTS = {"8K": 8 * K, "32K": 32 * K, "128K": 128 * K, "1M": ONE_MILLION}
STV_CACHE = {"bf16": ("0.86", "2.36", "8.36", "64.4"), "fp8": ("0.43", "1.18", "4.18", "32.2")}
STV_TABLE = {  # weights alone, then with one request of each context, GiB
    "native": ("496", "497", "499", "505", "561"),
    "bf16": ("1531", "1532", "1534", "1540", "1596"),
    "fp8": ("769", "770", "771", "777", "833"),
    "q4": ("461", "462", "464", "470", "526"),
}
STV_GPUS = {
    "RTX4090": "nvidia-rtx-4090",
    "RTX5090": "nvidia-rtx-5090",
    "RTXPRO6000": "nvidia-rtx-pro-6000-ws",
    "M5Max128": MAC128,
    "RyzenAIMax395": "amd-ryzen-ai-max-395-128",
    "DGXSpark": "nvidia-gb10",
    "H100": H100,
    "H200": H200,
    "B200": B200,
    "A100-80": "nvidia-a100-sxm-80",
    "MI300X": "amd-mi300x",
    "MI355X": "amd-mi355x",
    "H100NVL": "nvidia-h100-nvl-94",
    "B300": B300,
}
STV_COUNTS = {
    "RTX4090": {"bf16": "96", "q8": "48", "q4": "24"},
    "RTX5090": {"bf16": "64", "q8": "32", "q4": "16"},
    "RTXPRO6000": {"bf16": "24", "q8": "16", "q4": "5"},
    "M5Max128": {"bf16": "24", "q8": "16", "q4": "5"},
    "RyzenAIMax395": {"bf16": "24", "q8": "16", "q4": "5"},
    "DGXSpark": {"bf16": "16", "q8": "7", "q4": "4"},
    "H100": {"bf16": "24", "fp8": "16", "q4": "7"},
    "H200": {"bf16": "16", "fp8": "7", "q4": "4"},
    "B200": {"native": "4", "bf16": "16", "fp8": "6", "q4": "3"},
    "A100-80": {"q4": "7"},
    "MI300X": {"q4": "3"},
    "MI355X": {"native": "2"},
    "H100NVL": {"q4": "6"},
    "B300": {"q4": "2"},
}
STV_NOT_ON_THIS_GPU = ("RTX4090", "RTX5090", "RTXPRO6000", "M5Max128", "RyzenAIMax395", "DGXSpark", "H100", "H200")


def stv_weights(name: str) -> Callable[[Catalogue], int]:
    """4-bit is Q4_K_M or, at the same size, AWQ and GPTQ."""
    return lambda c: weight_bytes(c.models[MUSE], c.formats[STV_FORMATS[name]], "studiotv").size_bytes


def stv_count(gpu: str, name: str) -> Compute:
    """Fewest of the GPU; the 4-bit column is AWQ with vLLM and Q4_K_M with llama.cpp."""

    def compute(c: Catalogue) -> int:
        device = c.gpus[STV_GPUS[gpu]]
        weight_format = "awq" if name == "q4" and device.gpu_class == "datacenter" else STV_FORMATS[name]
        found = smallest_fit(c.models[MUSE], device, c.formats[weight_format], need=Need(context=8 * K), policy=STUDIOTV)
        return found.gpu_count if found.fits else 0

    return compute


def stv_rows() -> tuple[Row, ...]:
    rows: list[Row] = []
    for cache_format, values in STV_CACHE.items():
        for (context, tokens), value in zip(STV_CONTEXTS.items(), values, strict=True):
            rows.append(
                (
                    f"stv.kv.{cache_format}.{context}",
                    value,
                    lambda c, t=tokens, f=cache_format: gib(cache_bytes(c.models[MUSE], t, f)),
                )
            )
    for name, (alone, *with_cache) in STV_TABLE.items():
        rows.append((f"stv.w.{name}", alone, lambda c, n=name: gib(stv_weights(n)(c))))
        for (context, tokens), value in zip(STV_CONTEXTS.items(), with_cache, strict=True):
            rows.append(
                (
                    f"stv.wkv.{name}.{context}",
                    value,
                    lambda c, n=name, t=tokens: gib(stv_weights(n)(c) + cache_bytes(c.models[MUSE], t, "bf16")),
                )
            )
    rows += [(f"stv.count.{gpu}.{name}", n, stv_count(gpu, name)) for gpu, row in STV_COUNTS.items() for name, n in row.items()]
    return tuple(rows)


STV_ROWS: tuple[Row, ...] = (
    *stv_rows(),
    ("stv.kv_saving", "3.3", lambda c: cache_saving(c.models[MUSE], 32 * K)),
    ("stv.w.bf16_gb", "1644", lambda c: gb(stv_weights("bf16")(c))),
    (
        "stv.count.B300.native_not_2",
        "True",
        lambda c: not fit(c.models[MUSE], c.gpus[B300], c.formats["nvfp4"], 2, need=Need(), policy=STUDIOTV).fits,
    ),
    ("stv.mac_usable", "384", lambda c: gib(c.gpus[MAC512].usable_bytes)),
    ("stv.mac128_usable", "96", lambda c: gib(c.gpus[MAC128].usable_bytes)),
    (
        "stv.mac_q4_no",
        "True",
        lambda c: not fit(c.models[MUSE], c.gpus[MAC512], c.formats["q4_k_m"], 1, need=Need(), policy=STUDIOTV).fits,
    ),
)

# --- seed 004, BestHub -------------------------------------------------------------------------------------------------


def short_of(memory: str) -> Compute:
    return lambda c: times_short(kimi_files(c), D(memory))


def q2_build(c: Catalogue) -> int:
    return next(b.size_bytes or 0 for b in c.models[KIMI].checkpoints if b.weight_format == "q2_k")


BESTHUB_ROWS: tuple[Row, ...] = (
    ("bh.params", "2.78", lambda c: D(c.models[KIMI].params) / 10**12),
    ("bh.bf16", "5.6", lambda c: gb(weight_bytes(c.models[KIMI], c.formats["bf16"], "swfte").size_bytes) / TERA),
    ("bh.mxfp4_params", "2.72", lambda c: D(c.models[KIMI].params - params_16bit(c.models[KIMI], c.formats["mxfp4"])[0]) / 10**12),
    ("bh.avg_bits", "4.5", lambda c: average_bits(c.models[KIMI], weight_bytes(c.models[KIMI], c.formats["mxfp4"]))),
    ("bh.mac.24", "65", short_of("24")),
    ("bh.mac.64", "24", short_of("64")),
    ("bh.mac.128", "12", short_of("128")),
    ("bh.mac.256", "6.1", short_of("256")),
    ("bh.mac.512", "3", lambda c: times_short(kimi_files(c), c.gpus[MAC512].memory_marketed_gb)),
    ("bh.h200x8", "1.13", lambda c: gb(node_bytes(SWFTE, c.gpus[H200])) / TERA),
    ("bh.gguf_vs_mac", "2", lambda c: times_short(q2_build(c), c.gpus[MAC512].memory_marketed_gb)),
    (
        "bh.recipe",
        "1874",
        lambda c: gb(fit(c.models[KIMI], c.gpus[B300], c.formats["mxfp4"], 8, need=Need(), policy=RECIPE).load_bytes),
    ),
)

ROWS: tuple[Row, ...] = (*SWFTE_ROWS, *CANITRUN_ROWS, *DTL_ROWS, *STV_ROWS, *BESTHUB_ROWS)

# --- printed in the seeds as well, though not among the handed rows ----------------------------------------------------


def build(c: Catalogue, start: str) -> Decimal:
    """GB of one named build of Kimi K3.1 Pro."""
    found = checkpoint_bytes(next(one for one in c.models[KIMI].checkpoints if one.name.startswith(start)))
    assert found is not None
    return gb(found.size_bytes)


def streamed(c: Catalogue) -> Placement:
    """Kimi on a 512 GB Mac that keeps what every token reads and streams the experts from its SSD."""
    dense, experts = weight_parts(c.models[KIMI], c.formats["mxfp4"])
    places = (Place(name="memory", size_bytes=dense), Place(name="disk", size_bytes=2 * 10**12))
    return place(dense + experts, 0, places, dense_bytes=dense)


def layers_of(model: str, kind: str, windowed: bool = False) -> Compute:
    return lambda c: sum(g.count for g in c.models[model].layer_groups if g.kind == kind and (g.window is not None) == windowed)


def entry(c: Catalogue, model: str) -> int:
    """Bytes one layer that grows with the context caches a token, as CanItRun counts."""
    group = next(g for g in c.models[model].layer_groups if g.kind != "linear" and g.window is None)
    one = replace(c.models[model], layer_groups=(replace(group, count=1),))
    return canitrun_cache_bytes(one, 1)


def kimi_fits(gpu: str, count: int) -> Compute:
    return lambda c: fit(c.models[KIMI], c.gpus[gpu], c.formats["mxfp4"], count, need=Need(), policy=CANITRUN).fits


def hold_alone(model: str) -> Compute:
    """Devices of the catalogue one of which holds the model's own build."""

    def compute(c: Catalogue) -> int:
        form = c.formats[c.models[model].native_format]
        return sum(fit(c.models[model], gpu, form, 1, need=Need(), policy=CANITRUN).fits for gpu in c.gpus.values())

    return compute


MORE: tuple[Row, ...] = (
    ("seed 000: Kimi needs 1.49 TB", "1.49", lambda c: swfte_weights(KIMI, "mxfp4")(c) / TERA),
    ("seed 000: a DGX B200", "1440", lambda c: gb(node_bytes(SWFTE, c.gpus[B200]))),
    ("seed 000: a DGX B300, TB", "2.1", lambda c: gb(node_bytes(SWFTE, c.gpus[B300])) / TERA),
    ("seed 000: HBM4 of a Vera Rubin", "288", lambda c: c.gpus["nvidia-vr200-288"].memory_marketed_gb),
    ("seed 000: Muse reads 42 GB a token", "42", lambda c: gb(weight_traffic_bytes(c.models[MUSE], c.formats["fp8"], "swfte"))),
    ("seed 000: bandwidth of a DGX B200, GB/s", "64000", lambda c: 8 * bandwidth_bytes_s(c.gpus[B200], ("vendor",)) / GB),
    ("seed 000: bandwidth of an M5 Ultra, TB/s", "1.2", lambda c: bandwidth_bytes_s(c.gpus[MAC512]) / GB / TERA),
    (
        "seed 000: Muse in BF16 on two Macs",
        "False",
        lambda c: fit(c.models[MUSE], c.gpus[MAC512], c.formats["bf16"], 2, need=Need(), policy=SWFTE).fits,
    ),
    ("seed 000: layers of Kimi", "93", lambda c: c.models[KIMI].layers or 0),
    ("seed 000: KDA layers of Kimi", "69", layers_of(KIMI, "linear")),
    ("seed 000: DSA layers of Kimi", "24", layers_of(KIMI, "mla")),
    ("seed 000: heads of Kimi", "96", lambda c: c.models[KIMI].attention_heads or 0),
    ("seed 000: experts of Kimi", "896", lambda c: c.models[KIMI].experts or 0),
    ("seed 000: context of Kimi", "1048576", lambda c: c.models[KIMI].context or 0),
    ("seed 001: parameters of Kimi, billions", "2800.0", lambda c: D(stated_params(c.models[KIMI], "canitrun")[0]) / GB),
    ("seed 001: parameters of Muse, billions", "820.0", lambda c: D(stated_params(c.models[MUSE], "canitrun")[0]) / GB),
    ("seed 001: active parameters of Kimi, billions", "104.0", lambda c: D(c.models[KIMI].params_active or 0) / GB),
    ("seed 001: active parameters of Muse, billions", "42.0", lambda c: D(c.models[MUSE].params_active or 0) / GB),
    ("seed 001: layers of Muse that grow", "16", layers_of(MUSE, "gqa")),
    ("seed 001: windowed layers of Muse", "46", layers_of(MUSE, "gqa", windowed=True)),
    ("seed 001: layers of Muse", "62", lambda c: c.models[MUSE].layers or 0),
    ("seed 001: an entry of Muse is twice as wide", "2", lambda c: D(entry(c, MUSE)) / entry(c, KIMI)),
    ("seed 001: contexts in K", "1024", lambda c: (c.models[MUSE].context or 0) // K),
    ("seed 001: eight H200 hold Muse", "True", canitrun_fits("q4_k_m", H200, 8)),
    ("seed 001: a Mac of 512 GB holds Q2_K", "True", canitrun_fits("q2_k", MAC512, 1)),
    ("seed 001: a Mac of 512 GB and the NVFP4 build", "False", canitrun_fits("nvfp4", MAC512, 1)),
    ("seed 001: eight B300 hold Kimi", "True", kimi_fits(B300, 8)),
    ("seed 001: eight B200 and Kimi", "False", kimi_fits(B200, 8)),
    ("seed 001: Hopper and Kimi", "False", kimi_fits(H200, 8)),
    ("seed 001: single GPUs that hold Kimi", "0", hold_alone(KIMI)),
    ("seed 001: single GPUs that hold Muse", "0", hold_alone(MUSE)),
    ("seed 002: the official checkpoint", "1561.3", lambda c: gb(kimi_files(c))),
    ("seed 002: the smallest GGUF", "1009.3", lambda c: gb(q2_build(c))),
    ("seed 002: 16-bit parameters, billions", "57.36", lambda c: D(params_16bit(c.models[KIMI], c.formats["mxfp4"])[0]) / GB),
    ("seed 002: KDA state in a session, GB", "0.45", lambda c: gb(state_bytes(c.models[KIMI]))),
    ("seed 002: an NVFP4 latent", "352", lambda c: int(latent_bytes(c.models[KIMI].layer_groups[0], "nvfp4"))),
    ("seed 002: tokens the node caches", "2.6", lambda c: D(c.models[KIMI].recorded_capacity[0].tokens) / 10**6),
    ("seed 002: tokens with DCP8", "18.5", lambda c: D(c.models[KIMI].recorded_capacity[1].tokens) / 10**6),
    ("seed 002: smallest REAP80", "321.9", lambda c: build(c, "pipenetwork REAP80, smallest")),
    ("seed 002: REAP80 q6", "336.0", lambda c: build(c, "pipenetwork REAP80 q6")),
    ("seed 002: largest REAP80", "350.0", lambda c: build(c, "pipenetwork REAP80, largest")),
    ("seed 002: 52 GB less as GGUF", "52", lambda c: gb(kimi_files(c)) - build(c, "4-bit GGUF")),
    ("seed 002: kept in the Mac's memory", "114.7", lambda c: gb(dict(streamed(c).placed)["memory"])),
    ("seed 002: streamed from its SSD", "1446.5", lambda c: gb(dict(streamed(c).placed)["disk"])),
    ("seed 002: an MI355X", "288", lambda c: c.gpus["amd-mi355x"].memory_marketed_gb),
    ("seed 003: parameters, billions", "822.0", lambda c: D(c.models[MUSE].params) / GB),
    ("seed 004: the files in TB", "1.56", lambda c: gb(kimi_files(c)) / TERA),
    ("seed 004: counted parameters", "2780110363392", lambda c: c.models[KIMI].params),
    ("seed 004: 16-bit parameters, billions", "57.4", lambda c: D(params_16bit(c.models[KIMI], c.formats["mxfp4"])[0]) / GB),
    (
        "seed 004: bytes a parameter",
        "0.56",
        lambda c: average_bits(c.models[KIMI], weight_bytes(c.models[KIMI], c.formats["mxfp4"])) / 8,
    ),
    ("seed 004: the Q2_K build in TB", "1.01", lambda c: gb(q2_build(c)) / TERA),
    ("seed 004: seconds a token at 0.10 a second", "10", lambda c: answer_seconds(1, D("0.10"))),
    ("seed 004: minutes for 500 of them, 1h23m", "83", lambda c: answer_seconds(500, D("0.10")) / MINUTES_PER_HOUR),
)

# What no arithmetic of ours gives, and why.
NOT_REPRODUCIBLE = {
    "canitrun.fit.h100x8_1m": "636.7 GB are below 8 x 80 GB, yet the page says they do not fit: its usable share of an H100 is unstated",
    "canitrun.toks.muse.8xh100.8k": "estimated by the site with an unstated formula; no bandwidth law gives all four of its rates",
    "canitrun.toks.muse.4xb200.8k": "as above",
    "canitrun.toks.muse.4xb200.1m": "as above",
    "canitrun.toks.kimi.8xb300.8k": "as above",
    "bh.task_cny": "CNY 26 a task: no token counts are given",
}


@cache
def catalogue() -> Catalogue:
    return load_catalogue(CONFIG)


@pytest.mark.parametrize(("name", "expected", "compute"), [*ROWS, *MORE], ids=[row[0] for row in (*ROWS, *MORE)])
def test_seed_number(name: str, expected: str, compute: Compute) -> None:
    assert printed(compute(catalogue()), expected) == expected


@pytest.mark.parametrize("gpu", STV_NOT_ON_THIS_GPU)
def test_native_weights_are_not_offered_on(gpu: str) -> None:
    """Seed 003, eight cells 'Not on this GPU', with a reason each."""
    c = catalogue()
    found = smallest_fit(c.models[MUSE], c.gpus[STV_GPUS[gpu]], c.formats["nvfp4"], need=Need(), policy=STUDIOTV)
    assert not found.fits
    assert "NVFP4" in found.reason


def test_swfte_calls_two_cells_not_usable() -> None:
    """Seed 000: under about 100 GB spare is not usable in practice; 80 and 40 are the two such cells."""
    c = catalogue()
    cells = {cell: swfte_fit(c, *SWFTE_MODELS[cell[0]], SWFTE_NODES[cell[1]]) for cell in SWFTE_CELLS}
    assert {cell for cell, found in cells.items() if found.tight} == {("kimi_8bit", "DGX_B200"), ("kimi_bf16", "8xH200")}


# Seeds 002 and 004: one 8 x B300, two GB300 trays or one 8 x MI355X; the recipe of Kimi K3 verified two 8 x H200.
RECIPE_NODES = ((B300, 1, 8), ("nvidia-gb300-279", 2, 8), ("amd-mi355x", 1, 8), (H200, 2, 16), (B200, 2, 16))


@pytest.mark.parametrize(("gpu", "nodes", "gpus"), RECIPE_NODES)
def test_recipe_nodes_of_kimi(gpu: str, nodes: int, gpus: int) -> None:
    c = catalogue()
    found = smallest_fit(c.models[KIMI], c.gpus[gpu], c.formats["mxfp4"], need=Need(), policy=RECIPE)
    assert (found.fits, found.nodes, found.gpu_count) == (True, nodes, gpus)


def test_bounds_that_seed_003_forces() -> None:
    """Its sums leave 822.02 to 822.05 billion parameters and 768.64 to 769.14 GiB of 8-bit weights."""
    c = catalogue()
    assert 822_020_000_000 <= c.models[MUSE].params <= 822_050_000_000
    assert D("768.64") <= gib(stv_weights("fp8")(c)) < D("769.14")
    assert c.formats["awq"].bytes_per_param_by_basis["studiotv"] == c.formats["q4_k_m"].bytes_per_param


# One fact a time, edited in a copy of config: the rows that must then fail.
EDITS = (
    (
        "models/kimi-k3.1-pro.toml",
        'value = 2_800_000_000_000, basis = "vendor"',
        'value = 2_900_000_000_000, basis = "vendor"',
        "swfte.weights.kimi.mxfp4",
    ),
    (
        "models/kimi-k3.1-pro.toml",
        'value = 2_800_000_000_000, basis = "rounded"',
        'value = 2_801_000_000_000, basis = "rounded"',
        "canitrun.total8k.kimi.Q4_K_M",
    ),
    ("models/kimi-k3.1-pro.toml", "size_bytes = 1_561_293_160_568", "size_bytes = 1_591_293_160_568", "bh.mac.256"),
    ("models/kimi-k3.1-pro.toml", "state_bytes = 6_512_640", "state_bytes = 6_612_640", "dtl.kv.per_seq"),
    ("models/kimi-k3.1-pro.toml", "index_dim = 128", "index_dim = 64", "dtl.kv.per_token"),
    ("models/kimi-k3.1-pro.toml", "tokens = 2_600_000", "tokens = 2_700_000", "dtl.sessions_tp8"),
    ("models/muse-spark-open.toml", "window = 2_048", "window = 4_096", "stv.kv.bf16.8K"),
    ("models/muse-spark-open.toml", "value = 816_000_000_000", "value = 820_000_000_000", "swfte.weights.muse.bf16"),
    ("models/muse-spark-open.toml", "value = 42_000_000_000", "value = 43_000_000_000", "swfte.decode_ceiling.mac"),
    ("models/muse-spark-open.toml", "size_bytes = 533_000_000_000", "size_bytes = 543_000_000_000", "stv.wkv.native.8K"),
    ("gpus.toml", "value = 275_040", "value = 294_912", "stv.count.B300.native_not_2"),
    ("gpus.toml", "value = 2_100", "value = 2_144", "swfte.spare.kimi_mxfp4.DGX_B300"),
    ("gpus.toml", "usable_share = 0.75", "usable_share = 1", "stv.mac_usable"),
    ("formats.toml", "bits_per_weight = 4.82", "bits_per_weight = 4.25", "stv.w.q4"),
    ("formats.toml", "canitrun = 0.609", "canitrun = 0.6", "canitrun.total8k.muse.Q4_K_M"),
)


@pytest.mark.parametrize(("file", "old", "new", "row"), EDITS, ids=[f"{edit[0]}: {edit[3]}" for edit in EDITS])
def test_editing_a_fact_breaks_its_row(tmp_path: Path, file: str, old: str, new: str, row: str) -> None:
    edited = tmp_path / "config"
    shutil.copytree(CONFIG, edited)
    text = (edited / file).read_text()
    assert old in text
    (edited / file).write_text(text.replace(old, new))
    expected, compute = next((r[1], r[2]) for r in ROWS if r[0] == row)
    assert printed(compute(load_catalogue(edited)), expected) != expected


def test_conflicting_counts_stay_side_by_side() -> None:
    c = catalogue()
    stated = {basis: stated_params(c.models[MUSE], basis)[0] for basis in ("files", "swfte", "canitrun")}
    assert stated == {"files": 822_030_000_000, "swfte": 816_000_000_000, "canitrun": 820_000_000_000}


def test_units_do_not_mix() -> None:
    """496 GiB and 533 GB are one checkpoint."""
    size = stv_weights("native")(catalogue())
    assert (size / GB, round(size / GIB)) == (533, 496)
