"""Parameter totals from config fields against what vendors print."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from engine.facts import MissingFact
from engine.params import params_from_config

LLAMA = {
    "model": "llama",
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14_336,
    "vocab_size": 128_256,
}
LLAMA_4 = {
    "model_type": "llama4_text",
    "hidden_size": 5120,
    "num_hidden_layers": 48,
    "num_attention_heads": 40,
    "head_dim": 128,
    "intermediate_size_mlp": 16_384,
}

# Billions printed by the vendors or counted from files. gpt-oss: 116.83 and 20.91 on OpenAI's card, biases included.
PRINTED = {
    "meta-llama/Meta-Llama-3.1-8B": "8.03",
    "meta-llama/Meta-Llama-3.1-70B": "70.55",
    "meta-llama/Meta-Llama-3.1-405B": "405.85",
    "Qwen/Qwen3-32B": "32.76",
    "Qwen/Qwen3-30B-A3B": "30.53",
    "Qwen/Qwen3-235B-A22B": "235.09",
    "Qwen/Qwen3-Coder-480B-A35B-Instruct": "480.15",
    "deepseek-ai/DeepSeek-V3": "671.03",
    "moonshotai/Kimi-K2-Instruct": "1026.41",
    "MiniMaxAI/MiniMax-M2.5": "228.69",
    "openai/gpt-oss-120b": "116.83",
    "openai/gpt-oss-20b": "20.91",
    "zai-org/GLM-5": "743.91",
    "mistralai/Mixtral-8x7B-v0.1": "46.70",
    "mistralai/Mixtral-8x22B-v0.1": "140.62",
    "Qwen/Qwen3-8B": "8.19",
}
# Fields as the public config.json prints them, and the vendor's total in billions (Llama 4 without its vision tower of 0.9).
ELSEWHERE = {
    "Qwen2.5-72B": (
        {"model_type": "qwen2", "hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64},
        29_568,
        152_064,
        "72.7",
    ),
    "phi-4": ({"model_type": "phi3", "hidden_size": 5120, "num_hidden_layers": 40, "num_key_value_heads": 10}, 17_920, 100_352, "14.7"),
    "Mistral-7B-v0.3": ({"model_type": "mistral", "hidden_size": 4096, "num_attention_heads": 32}, 14_336, 32_768, "7.2"),
    "Llama-4-Scout": ({**LLAMA_4, "num_local_experts": 16, "interleave_moe_layer_step": 1}, 8192, 202_048, "107.8"),
    "Llama-4-Maverick": ({**LLAMA_4, "num_local_experts": 128, "interleave_moe_layer_step": 2}, 8192, 202_048, "400.7"),
}
# Why the other rows of the handed configurations have no total.
UNCOUNTED = {
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": "interleave_moe_layer_step is not known",
    "moonshotai/Kimi-K3": "the width its routed experts work in is not known",
    "google/gemma-4-26B-A4B": "the shape of its global layers is not known",
    "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16": "the size of its Mamba layers is not known",
    "nvidia/Llama-3_3-Nemotron-Super-49B-v1": "block_configs is not known",
    "XiaomiMiMo/MiMo-V2-Flash": "the shape of its windowed layers is not known",
    "MiniMaxAI/MiniMax-M3": "the width of its dense layers is not known",
    "deepseek-ai/DeepSeek-V4-Pro": "the size of its compressors is not known",
}


def test_llama_by_hand() -> None:
    parts = params_from_config(LLAMA)
    assert parts.embedding == parts.head == 128_256 * 4096
    assert parts.attention == 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024)
    assert parts.dense == 32 * 3 * 4096 * 14_336
    assert parts.norms == 65 * 4096
    assert parts.total == 8_030_261_248  # the count of the published safetensors
    assert (parts.experts, parts.shared, parts.router) == (0, 0, 0)


def test_a_tied_head_is_counted_once() -> None:
    assert params_from_config({**LLAMA, "tie_word_embeddings": True}).total == 8_030_261_248 - 128_256 * 4096


def test_absent_fields_and_unknown_families_are_named() -> None:
    with pytest.raises(MissingFact, match="llama: vocab_size is not known, counting parameters needs it"):
        params_from_config({k: v for k, v in LLAMA.items() if k != "vocab_size"})
    with pytest.raises(MissingFact, match=r"llama: model_type is not known, counting parameters \(known: .*; this is 'mamba'\)"):
        params_from_config({**LLAMA, "model_type": "mamba"})


@pytest.mark.parametrize(("fields", "inner", "vocab", "billions"), ELSEWHERE.values(), ids=ELSEWHERE)
def test_families_outside_the_handed_list(fields: dict[str, object], inner: int, vocab: int, billions: str) -> None:
    defaults = {"num_hidden_layers": 32, "num_attention_heads": 40, "num_key_value_heads": 8}
    config = {**defaults, **fields, "intermediate_size": inner, "vocab_size": vocab}
    assert f"{params_from_config(config).total / 1e9:.1f}" == billions


@pytest.mark.shared
def test_every_handed_configuration_has_a_total_or_a_reason(shared: Path) -> None:
    """113 rows: 27 are quantization files without a model_type, 59 are counted, 27 lack a field that is named."""
    rows = tuple(csv.DictReader((shared / "facts" / "model_configs.csv").read_text().splitlines()))
    reasons: dict[str, str] = {}
    for row in rows:
        try:
            params_from_config({**row, "tie_word_embeddings": row["tie_word_embeddings"] == "True"})
        except MissingFact as missing:
            reasons[row["model"]] = str(missing)
    quantization = {name for name in reasons if name.endswith("_hf_quant")}
    assert (len(rows), len(reasons), len(quantization)) == (113, 54, 27)
    assert all("model_type is not known" in reasons[name] for name in quantization)
    assert all(text in reasons[name] for name, text in UNCOUNTED.items())
    assert not any("this is" in reasons[name] for name in reasons.keys() - quantization)


@pytest.mark.shared
@pytest.mark.parametrize(("model", "billions"), PRINTED.items())
def test_public_configs_give_what_vendors_print(shared: Path, model: str, billions: str) -> None:
    rows = csv.DictReader((shared / "facts" / "model_configs.csv").read_text().splitlines())
    row = next(row for row in rows if row["model"] == model)
    config = {**row, "tie_word_embeddings": row["tie_word_embeddings"] == "True"}
    assert f"{params_from_config(config).total / 1e9:.2f}" == billions
