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


@pytest.mark.shared
@pytest.mark.parametrize(("model", "billions"), PRINTED.items())
def test_public_configs_give_what_vendors_print(shared: Path, model: str, billions: str) -> None:
    rows = csv.DictReader((shared / "facts" / "model_configs.csv").read_text().splitlines())
    row = next(row for row in rows if row["model"] == model)
    config = {**row, "tie_word_embeddings": row["tie_word_embeddings"] == "True"}
    assert f"{params_from_config(config).total / 1e9:.2f}" == billions
