"""A new model's file out of a config.json: every attention kind, the weights' format, parameters, and what is refused."""

from __future__ import annotations

import json
import tomllib
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.models import LayerGroup, ModelSpec
from tracker.errors import ConfigError
from tracker.facts.catalogue import load_catalogue
from tracker.facts.model_add import Given, new_model, write_model

CONFIG = Path(__file__).resolve().parents[1] / "config"
DAY = date(2026, 11, 29)

# Fields as the public config.json files print them.
LLAMA_8B: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "attention_bias": False,
    "attention_dropout": 0.0,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}
GPT_OSS_20B = {
    "model_type": "gpt_oss",
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "num_hidden_layers": 24,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "num_local_experts": 32,
    "num_experts_per_tok": 4,
    "sliding_window": 128,
    "layer_types": ["sliding_attention", "full_attention"] * 12,
    "vocab_size": 201088,
    "max_position_embeddings": 131072,
    "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]},
}
DEEPSEEK_V32 = {
    "model_type": "deepseek_v32",
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "n_routed_experts": 256,
    "num_experts_per_tok": 8,
    "n_shared_experts": 1,
    "first_k_dense_replace": 3,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "index_head_dim": 128,
    "index_n_heads": 64,
    "index_topk": 2048,
    "vocab_size": 129280,
    "max_position_embeddings": 163840,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}
QWEN35_27B = {
    "model_type": "qwen3_5",
    "torch_dtype": "bfloat16",
    "text_config": {
        "model_type": "qwen3_5_text",
        "hidden_size": 5120,
        "intermediate_size": 17408,
        "num_hidden_layers": 64,
        "num_attention_heads": 24,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "full_attention_interval": 4,
        "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 16,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 48,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
        "vocab_size": 248320,
        "max_position_embeddings": 262144,
    },
}
KIMI_K31 = {
    "model_type": "kimi_k31",
    "text_config": {
        "model_type": "kimi_linear",
        "hidden_size": 7168,
        "num_hidden_layers": 93,
        "num_attention_heads": 96,
        "num_experts": 896,
        "num_experts_per_tok": 16,
        "n_shared_experts": 2,
        "first_k_dense_replace": 1,
        "moe_intermediate_size": 3072,
        "kv_lora_rank": 512,
        "q_lora_rank": 1536,
        "qk_rope_head_dim": 64,
        "vocab_size": 163840,
        "max_position_embeddings": 1048576,
        "linear_attn_config": {
            "full_attn_layers": [n for n in range(1, 94) if n % 4 == 0] + [93],
            "kda_layers": [n for n in range(1, 93) if n % 4],
            "num_heads": 96,
            "head_dim": 128,
            "short_conv_kernel_size": 4,
        },
        "dsa_config": {"index_head_dim": 128, "index_topk": 2048},
        "quantization_config": {"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized"},
    },
}
NEMOTRON_H = {
    "model_type": "nemotron_h",
    "torch_dtype": "bfloat16",
    "hidden_size": 2688,
    "num_hidden_layers": 8,
    "hybrid_override_pattern": "MEMEM*EM",
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "mamba_num_heads": 64,
    "mamba_head_dim": 64,
    "mamba_ssm_cache_dtype": "float32",
    "ssm_state_size": 128,
    "n_groups": 8,
    "conv_kernel": 4,
    "use_conv_bias": True,
    "vocab_size": 131072,
}


def added(
    tmp_path: Path, config: dict[str, Any], listing: dict[str, Any] | None = None, *, repository: str = "test/New-Model", **how: Any
) -> ModelSpec:
    """The model as the catalogue loads it after ``model add`` wrote its file."""
    given = Given(repository=repository, checked=DAY, **how)
    name, text = new_model(given, json.dumps(config), json.dumps(listing) if listing else "")
    write_model(tmp_path, name, text)
    return load_catalogue(CONFIG, tmp_path).models[name]


def gqa(count: int, heads: int, dim: int, window: int | None = None) -> LayerGroup:
    return LayerGroup(count=count, kind="gqa", kv_heads=heads, k_dim=dim, v_dim=dim, window=window)


# --- attention kinds ----------------------------------------------------------------------------------------------------

GROUPS = [
    ("GQA, head width from hidden size", LLAMA_8B, {gqa(32, 8, 128)}),
    ("no KV heads stated: one a query head", {k: v for k, v in LLAMA_8B.items() if k != "num_key_value_heads"}, {gqa(32, 32, 128)}),
    ("sliding window by layer types", GPT_OSS_20B, {gqa(12, 8, 64), gqa(12, 8, 64, 128)}),
    ("every sixth layer full", LLAMA_8B | {"sliding_window": 1024, "sliding_window_pattern": 6}, {gqa(5, 8, 128), gqa(27, 8, 128, 1024)}),
    ("window everywhere", LLAMA_8B | {"sliding_window": 4096}, {gqa(32, 8, 128, 4096)}),
    ("window switched off", LLAMA_8B | {"sliding_window": 4096, "use_sliding_window": False}, {gqa(32, 8, 128)}),
    (
        "window in upper layers",
        LLAMA_8B | {"sliding_window": 4096, "use_sliding_window": True, "max_window_layers": 28},
        {gqa(28, 8, 128), gqa(4, 8, 128, 4096)},
    ),
    ("chunks, every fourth full", LLAMA_8B | {"attention_chunk_size": 8192, "no_rope_layers": []}, {gqa(8, 8, 128), gqa(24, 8, 128, 8192)}),
    (
        "chunks where RoPE is",
        LLAMA_8B | {"attention_chunk_size": 8192, "no_rope_layers": [1, 0] * 16},
        {gqa(16, 8, 128), gqa(16, 8, 128, 8192)},
    ),
    (
        "wider global layers",
        GPT_OSS_20B | {"num_global_key_value_heads": 2, "global_head_dim": 512},
        {gqa(12, 2, 512), gqa(12, 8, 64, 128)},
    ),
    (
        "MLA with a sparse indexer",
        DEEPSEEK_V32,
        {LayerGroup(count=61, kind="mla", k_dim=512, v_dim=64, index_dim=128, index_scale_bytes=4)},
    ),
    (
        "MLA alone",
        {k: v for k, v in DEEPSEEK_V32.items() if not k.startswith("index_")} | {"model_type": "deepseek_v3"},
        {LayerGroup(count=61, kind="mla", k_dim=512, v_dim=64)},
    ),
    (
        # 48 value heads x 128 x 128 in FP32, and 3 steps of a convolution over 2 x 16 x 128 + 48 x 128 in BF16
        "Gated DeltaNet hybrid",
        QWEN35_27B,
        {gqa(16, 4, 256), LayerGroup(count=48, kind="linear", state_bytes=3_145_728 + 61_440)},
    ),
    (
        # 449,372,160 B a sequence over 69 layers (DevToolLab, 2026-11-07)
        "Kimi Delta Attention hybrid",
        KIMI_K31,
        {
            LayerGroup(count=24, kind="mla", k_dim=512, v_dim=64, index_dim=128, index_scale_bytes=4),
            LayerGroup(count=69, kind="linear", state_bytes=449_372_160 // 69),
        },
    ),
    (
        # 64 heads x 64 x 128 in FP32, and 3 steps over 4,096 + 2 x 8 x 128 in BF16
        "Mamba2 hybrid with layers that cache nothing",
        NEMOTRON_H,
        {gqa(1, 2, 128), LayerGroup(count=4, kind="linear", state_bytes=2_097_152 + 36_864)},
    ),
]


@pytest.mark.parametrize(("config", "groups"), [pytest.param(config, groups, id=name) for name, config, groups in GROUPS])
def test_layer_groups(config: dict[str, Any], groups: set[LayerGroup], tmp_path: Path) -> None:
    model = added(tmp_path, config, params=10**10)
    assert set(model.layer_groups) == groups
    assert len(model.layer_groups) == len(groups)


# --- parameters and formats ---------------------------------------------------------------------------------------------


def test_a_dense_model_is_counted(tmp_path: Path) -> None:
    model = added(tmp_path, LLAMA_8B, repository="meta-llama/Llama-3.1-8B-Instruct-Copy")
    assert (model.id, model.name, model.organisation) == ("llama-3.1-8b-instruct-copy", "Llama 3.1 8B Instruct Copy", "meta-llama")
    assert round(Decimal(model.params) / 10**9, 2) == Decimal("8.03")
    assert model.params_active == model.params
    assert (model.native_format, model.context, model.vocab_size, model.attention_heads) == ("bf16", 131_072, 128_256, 32)
    assert {fact.basis for fact in model.facts if fact.field == "params"} == {"derived"}
    assert all(fact.checked == DAY for fact in model.facts)


def test_a_mixture_counts_the_experts_a_token_meets(tmp_path: Path) -> None:
    model = added(tmp_path, GPT_OSS_20B)
    assert round(Decimal(model.params) / 10**9, 2) == Decimal("20.91")
    # 24 layers x 28 idle experts x 3 x 2880 x 2880 with their biases less than all
    idle = 24 * 28 * (3 * 2880 * 2880 + 3 * 2880)
    assert model.params_active == model.params - idle
    assert (model.experts, model.experts_per_token, model.moe_intermediate, model.native_format) == (32, 4, 2880, "mxfp4")


def test_the_listing_gives_bytes_and_parameters(tmp_path: Path) -> None:
    listing = {
        "siblings": [
            {"rfilename": "config.json", "size": 2_000},
            {"rfilename": "model-00001-of-00002.safetensors", "size": 9_000_000_001},
            {"rfilename": "model-00002-of-00002.safetensors", "size": 4_761_000_000},
        ],
        "safetensors": {"parameters": {"BF16": 1_804_459_584, "U8": 19_110_297_600}, "total": 20_914_757_184},
    }
    model = added(tmp_path, GPT_OSS_20B, listing)
    assert model.official_checkpoint is not None
    assert (model.official_checkpoint.size_bytes, model.official_checkpoint.weight_format) == (13_761_000_001, "mxfp4")
    assert (model.params, model.params_16bit) == (20_914_757_184, 1_804_459_584)


def test_an_index_gives_the_bytes(tmp_path: Path) -> None:
    model = added(tmp_path, LLAMA_8B, {"metadata": {"total_size": 16_060_522_496}, "weight_map": {}})
    assert model.official_checkpoint is not None
    assert model.official_checkpoint.size_bytes == 16_060_522_496


def test_sizes_that_are_not_all_known_are_no_size(tmp_path: Path) -> None:
    model = added(tmp_path, LLAMA_8B, {"siblings": [{"rfilename": "a.safetensors", "size": 5}, {"rfilename": "b.safetensors"}]})
    assert model.checkpoints == ()


def test_a_family_that_cannot_be_counted_takes_what_is_given(tmp_path: Path) -> None:
    model = added(tmp_path, KIMI_K31, params=2_800_000_000_000, params_active=104_000_000_000)
    assert (model.params, model.params_active, model.native_format) == (2_800_000_000_000, 104_000_000_000, "mxfp4")
    assert (model.layers, model.dense_layers, model.experts, model.shared_experts) == (93, 1, 896, 2)


QUANTIZED = [
    ({"quant_method": "fp8"}, "fp8"),
    ({"quant_method": "awq", "bits": 4}, "awq"),
    ({"quant_method": "gptq", "bits": 4}, "gptq"),
    ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
    ({"quant_method": "compressed-tensors", "format": "pack-quantized"}, "int4"),
    ({"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"}, "nvfp4"),
]


@pytest.mark.parametrize(("quantization", "native"), QUANTIZED)
def test_the_format_the_weights_are_stored_in(quantization: dict[str, Any], native: str, tmp_path: Path) -> None:
    assert added(tmp_path, LLAMA_8B | {"quantization_config": quantization}).native_format == native


# --- refused ------------------------------------------------------------------------------------------------------------

REFUSED = [
    (LLAMA_8B | {"compress_ratios": [128, 4], "model_type": "deepseek_v4"}, "'deepseek_v4' is not known here: compress_ratios"),
    (LLAMA_8B | {"block_configs": [{}], "state_dim": 64}, "block_configs, state_dim not understood"),
    ({k: v for k, v in LLAMA_8B.items() if k != "num_hidden_layers"}, "num_hidden_layers must be a whole number above 0, found None"),
    (LLAMA_8B | {"num_hidden_layers": "32"}, "num_hidden_layers must be a whole number above 0, found '32'"),
    (LLAMA_8B | {"layer_types": ["full_attention"] * 31}, "layer_types names 31 layers, num_hidden_layers says 32"),
    (LLAMA_8B | {"layer_types": ["lightning_attention"] * 32}, "layer_types holds 'lightning_attention', known are full_attention"),
    ({k: v for k, v in GPT_OSS_20B.items() if k != "sliding_window"}, "attention_chunk_size must be a whole number above 0"),
    ({k: v for k, v in DEEPSEEK_V32.items() if k != "qk_rope_head_dim"}, "qk_rope_head_dim must be a whole number above 0, found None"),
    ({k: v for k, v in NEMOTRON_H.items() if k != "mamba_ssm_cache_dtype"}, "mamba_ssm_cache_dtype must be float32"),
    ({k: v for k, v in LLAMA_8B.items() if k != "torch_dtype"}, "torch_dtype is 'None', known are bfloat16"),
    (LLAMA_8B | {"quantization_config": {"quant_method": "exl3"}}, "quantization_config.quant_method is 'exl3', known are fp8"),
    (KIMI_K31, "parameters of a 'kimi_linear' model cannot be counted"),
]  # fmt: skip


@pytest.mark.parametrize(("config", "message"), REFUSED)
def test_an_architecture_that_is_not_understood_names_its_fields(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        new_model(Given(repository="test/New-Model", checked=DAY), json.dumps(config))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


NONSENSE = st.none() | st.booleans() | st.integers(-2, 200) | st.text(max_size=3) | st.sampled_from([[], [0], {}, {"a": 1}, 0.5])


@given(data=st.data())
def test_no_config_or_listing_gives_a_traceback(data: st.DataObject) -> None:
    config = json.loads(json.dumps(data.draw(st.sampled_from([LLAMA_8B, GPT_OSS_20B, DEEPSEEK_V32, QWEN35_27B, KIMI_K31, NEMOTRON_H]))))
    inner = config.get("text_config", config)
    for key in data.draw(st.lists(st.sampled_from(sorted({*inner, "text_config", "quantization_config", "sliding_window"})), max_size=3)):
        (config if key == "text_config" else inner)[key] = data.draw(NONSENSE)
    listing = data.draw(
        st.dictionaries(st.sampled_from(["siblings", "safetensors", "metadata"]), NONSENSE | st.just({"parameters": 3}), max_size=3)
    )
    try:
        new_model(Given(repository="test/New-Model", checked=DAY), json.dumps(config), json.dumps(listing))
    except ConfigError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"x"', "[" * 100_000])
def test_a_file_that_is_no_config_is_one_line(text: str) -> None:
    with pytest.raises(ConfigError, match=r"config\.json: "):
        new_model(Given(repository="test/New-Model", checked=DAY), text)


@pytest.mark.parametrize(
    "repository", ["", "Model", "a/b/c", "../../etc/passwd", "test/", "test/new model", "te\x7fst/Model", 'test/"x"', "test/.."]
)
def test_a_name_that_is_no_repository_is_refused(repository: str) -> None:
    with pytest.raises(ConfigError, match="is no repository"):
        new_model(Given(repository=repository, checked=DAY), json.dumps(LLAMA_8B))


def test_an_existing_file_is_left_alone(tmp_path: Path) -> None:
    name, text = new_model(Given(repository="test/New-Model", checked=DAY), json.dumps(LLAMA_8B))
    path = write_model(tmp_path, name, text)
    with pytest.raises(ConfigError, match="is there already"):
        write_model(tmp_path, name, "x")
    assert path.read_text(encoding="utf-8") == text


def test_what_is_written_is_what_a_shipped_file_says(tmp_path: Path) -> None:
    """The written gpt-oss-20b in place of the shipped one: the same shape from an independent hand."""
    shipped = load_catalogue(CONFIG).models["gpt-oss-20b"]
    written = added(tmp_path, GPT_OSS_20B, repository="openai/gpt-oss-20b")
    same = (
        "layers",
        "attention_heads",
        "hidden_size",
        "vocab_size",
        "experts",
        "experts_per_token",
        "moe_intermediate",
        "native_format",
        "context",
    )
    assert {key: getattr(written, key) for key in same} == {key: getattr(shipped, key) for key in same}
    assert set(written.layer_groups) == set(shipped.layer_groups)


def test_the_text_reads_like_the_files_kept_by_hand() -> None:
    _, text = new_model(Given(repository="test/New-Model", checked=DAY), json.dumps(LLAMA_8B))
    assert text.startswith(
        'name = "New Model"\norganisation = "test"\nnative_format = "bf16"\nlayers = 32\nattention_heads = 32\nhidden_size = 4_096\n'
    )
    assert '\nsource = "config.json of test/New-Model"\nchecked = 2026-11-29\n' in text
    assert tomllib.loads(text)["aliases"] == {"huggingface": ["test/New-Model"]}
    assert text.endswith("]\n")
