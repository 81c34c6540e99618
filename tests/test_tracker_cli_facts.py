"""``model add`` and ``model list``: a new model is one file, checked before it is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import breakeven

# Fields as the public config.json of Llama 3.1 8B prints them; 8,030,261,248 parameters by its model card.
LLAMA_8B: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}
SHARDS = {"siblings": [{"rfilename": f"model-{n}-of-2.safetensors", "size": size} for n, size in ((1, 9_000_000_000), (2, 7_060_522_496))]}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return write(tmp_path / "config.json", LLAMA_8B)


def write(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def user_models(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "config" / "models").glob("*"))


def test_a_model_is_added_listed_and_sized(tmp_path: Path, config: Path) -> None:
    files = write(tmp_path / "files.json", SHARDS)
    done = breakeven("model", "add", "acme/Tiny-8B", "--config-json", str(config), "--files", str(files))
    path = tmp_path / "config" / "models" / "tiny-8b.toml"
    assert (done.code, done.err, user_models(tmp_path)) == (0, "", ["tiny-8b.toml"])
    assert done.text == f"{path}: written Tiny 8B (acme): 8.0B parameters, 8.0B active; native bf16; window 128K tokens"
    assert "checked = 2026-11-29" in path.read_text(encoding="utf-8")
    entry = next(row for row in breakeven("model", "list", "--json").json if row["id"] == "tiny-8b")
    assert (entry["params"], entry["official_bytes"], entry["missing"]) == (8_030_261_248, 16_060_522_496, [])
    size = breakeven("size", "tiny-8b", "--context", "8k", "--gpu", "nvidia-h100-sxm-80", "--json").json
    # 2 x 32 layers x 8 KV heads x 128 x 2 bytes x 8,192 tokens = 1 GiB
    assert size["cache"][0]["bf16"]["bytes"] == 2**30
    assert size["weights"][0]["weights"]["bytes"] == 16_060_522_496
    assert size["gpus"][0]["fits"]["bf16 (native)"]["gpu_count"] == 1


def test_parameters_given_by_hand_go_before_counted_ones_and_both_are_kept(config: Path) -> None:
    args = ("model", "add", "acme/Tiny-8B", "--config-json", str(config), "--params", "8000000000", "--active", "7000000000", "--json")
    done = breakeven(*args).json
    assert (done["params"], done["params_active"], done["replaces_shipped"]) == (8_000_000_000, 7_000_000_000, False)
    stated = [row["value"] for row in breakeven("size", "tiny-8b", "--json").json["conflicts"] if row["field"] == "params"]
    assert stated == ["8000000000", "8030261248"]


def test_a_second_time_nothing_is_overwritten(tmp_path: Path, config: Path) -> None:
    args = ("model", "add", "acme/Tiny-8B", "--config-json", str(config))
    assert breakeven(*args).code == 0
    before = (tmp_path / "config" / "models" / "tiny-8b.toml").read_bytes()
    again = breakeven(*args)
    assert (again.code, again.err.count("\n")) == (1, 1)
    assert again.err.endswith("tiny-8b.toml: is there already; edit it, or remove it first\n")
    assert (tmp_path / "config" / "models" / "tiny-8b.toml").read_bytes() == before


def test_a_shipped_model_is_replaced_and_said_so(tmp_path: Path, config: Path) -> None:
    done = breakeven("model", "add", "meta-llama/Llama-3.1-8B-Instruct", "--config-json", str(config))
    assert (done.code, "in place of the shipped file of that name" in done.text) == (0, True)


def test_what_would_break_the_configuration_is_taken_back(tmp_path: Path, config: Path) -> None:
    """The repository's spelling means a shipped model of another id already."""
    done = breakeven("model", "add", "meta-models/Muse-Spark-Open-816B-A42B", "--config-json", str(config))
    assert (done.code, user_models(tmp_path)) == (1, [])
    assert "already means muse-spark-open" in done.err
    assert breakeven("check").code == 0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"num_hidden_layers": None}, "num_hidden_layers"),
        ({"model_type": "mamba9", "num_key_value_heads": None, "num_attention_heads": None}, "mamba9"),
    ],
)
def test_what_is_not_understood_names_the_field(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    config = {key: value for key, value in {**LLAMA_8B, **change}.items() if value is not None}
    done = breakeven("model", "add", "acme/Odd", "--config-json", str(write(tmp_path / "odd.json", config)))
    assert (done.code, done.out, done.err.count("\n"), user_models(tmp_path)) == (1, "", 1, [])
    assert reason in done.err


def test_files_that_are_none_are_one_line(tmp_path: Path, config: Path) -> None:
    def add(repository: str, path: Path) -> str:
        done = breakeven("model", "add", repository, "--config-json", str(path))
        assert (done.code, done.err.count("\n")) == (1, 1)
        return done.err

    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "list.json").write_text("[1]", encoding="utf-8")
    assert "No such file or directory" in add("acme/Tiny", tmp_path / "absent.json")
    assert "not UTF-8 text (invalid start byte at byte 0)" in add("acme/Tiny", tmp_path / "binary")
    assert "config.json: expected an object, found list" in add("acme/Tiny", tmp_path / "list.json")
    assert "is no repository" in add("Tiny", config)
    with (tmp_path / "weights").open("wb") as file:
        file.truncate(64 * 2**20 + 1)
    assert "larger than 64 MiB; expected a JSON file of facts, no weights" in add("acme/Tiny", tmp_path / "weights")
    assert breakeven("model", "add", "acme/Tiny").code == 2


def test_the_list_names_what_is_not_known() -> None:
    found = breakeven("model", "list")
    assert found.code == 0
    assert "kimi-k3.1-pro Moonshot AI 2,780.1 104.0 mxfp4 1M 1,561.3" in found.text
    assert "mistral-medium-3.5-128b" in found.text and "layer_groups (or a measured kv_bytes_per_token)" in found.text
