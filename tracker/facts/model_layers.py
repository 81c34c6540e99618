"""Layer groups out of a Hugging Face config.json: what each layer caches, for the attention kinds the engine can size."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from engine.models import LayerGroup
from tracker.errors import ConfigError

Config = Mapping[str, Any]

FP32, BF16 = 4, 2  # bytes
LAYER_TYPES = {
    "full_attention": "full",
    "deepseek_sparse_attention": "full",
    "sliding_attention": "window",
    "chunked_attention": "window",
    "linear_attention": "linear",
}
PATTERN = {"*": "full", "M": "mamba", "E": "none", "-": "none"}  # hybrid_override_pattern; E and - are layers without attention
# Names that speak of attention or state. One of these that is not understood may change what a layer caches: refused, by name.
SPEAKS_OF_ATTENTION = re.compile(
    "attn|attention|mamba|ssm|linear_|window|chunk|compress|sparse|index_|kv_|state|conv|block_config|recurrent|hybrid|rope_layer"
)
UNDERSTOOD = re.compile(
    r"num_(attention|key_value|global_key_value)_heads|attention_(bias|dropout|multiplier|k_eq_v|chunk_size)|_?attn_implementation(_autoset)?"
    r"|attn_(logit_softcapping|output_gate|scale|temperature_tuning)|(use_)?sliding_window|sliding_window_pattern|max_window_layers|layer_types"
    r"|full_attention_interval|no_rope_layers|no_rope_layer_interval|kv_lora_rank|index_(head_dim|n_heads|topk)|linear_attn_config"
    r"|linear_(num_key_heads|num_value_heads|key_head_dim|value_head_dim|conv_kernel_dim)|hybrid_override_pattern|conv_kernel|use_conv_bias"
    r"|mamba_(num_heads|head_dim|hidden_act|proj_bias|ssm_cache_dtype|ssm_dtype)|ssm_state_size"
)


def text_config(config: Config) -> dict[str, Any]:
    """The language model's fields: a multimodal config keeps them one level down."""
    return {**config, **table(config, "text_config")}


def layer_groups(config: Config) -> tuple[tuple[LayerGroup, ...], int]:
    """Groups of equal layers and the number of layers that cache nothing; ConfigError names fields that are absent or not understood."""
    unknown = sorted(key for key, value in config.items() if SPEAKS_OF_ATTENTION.search(key) and value and not UNDERSTOOD.fullmatch(key))
    if unknown:
        raise ConfigError(f"config.json: architecture {config.get('model_type')!r} is not known here: {', '.join(unknown)} not understood")
    kinds = Counter(_kinds(config, need(config, "num_hidden_layers")))
    without = kinds.pop("none", 0)
    return tuple(_GROUPS[kind](config, count) for kind, count in kinds.items()), without


def need(config: Config, key: str) -> int:
    """A field that must be a whole number above 0; ConfigError names it."""
    value = config.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(
            f"config.json: {key} must be a whole number above 0, found {value!r}; a {config.get('model_type')!r} model needs it"
        )
    return value


def optional(config: Config, key: str) -> int | None:
    """A field that may be absent, null or 0; ConfigError when it is something else than a whole number."""
    return need(config, key) if config.get(key) not in (None, False, 0) else None


def table(config: Config, key: str) -> Config:
    """A field that may hold further fields; empty when absent."""
    value = config.get(key)
    if value is not None and not isinstance(value, Mapping):
        raise ConfigError(f"config.json: {key} must be an object, found {value!r}")
    return value or {}


def _listed(config: Config, key: str) -> Sequence[Any]:
    value = config.get(key)
    if value is not None and not isinstance(value, Sequence):
        raise ConfigError(f"config.json: {key} must be a list, found {value!r}")
    return value or ()


def _kinds(config: Config, layers: int) -> list[str]:
    if pattern := _listed(config, "hybrid_override_pattern"):
        return _complete([_one_of(PATTERN, letter, "hybrid_override_pattern") for letter in pattern], layers, "hybrid_override_pattern")
    if linear := table(config, "linear_attn_config"):
        full, delta = (_layer_count(linear, key) for key in ("full_attn_layers", "kda_layers"))
        return _complete(["full"] * full + ["kda"] * delta, layers, "linear_attn_config")
    if types := _listed(config, "layer_types"):
        return _complete([_one_of(LAYER_TYPES, name, "layer_types") for name in types], layers, "layer_types")
    return _by_interval(config, layers)


def _by_interval(config: Config, layers: int) -> list[str]:
    """Every n-th layer is full; the others are linear, chunked or windowed."""
    if optional(config, "linear_num_value_heads"):
        return _every(need(config, "full_attention_interval"), "linear", layers)
    if config.get("attention_chunk_size"):
        rope = config.get("no_rope_layers")  # 1: RoPE within a chunk, 0: full attention
        return (
            ["window" if one else "full" for one in rope] if rope else _every(config.get("no_rope_layer_interval") or 4, "window", layers)
        )
    if config.get("sliding_window_pattern"):
        return _every(need(config, "sliding_window_pattern"), "window", layers)
    if config.get("sliding_window") and config.get("use_sliding_window") is not False:
        first = config.get("max_window_layers") or 0  # layers before it keep everything
        return ["full"] * min(first, layers) + ["window"] * max(layers - first, 0)
    return ["full"] * layers


def _every(interval: int, otherwise: str, layers: int) -> list[str]:
    return ["full" if (layer + 1) % interval == 0 else otherwise for layer in range(layers)]


def _complete(kinds: list[str], layers: int, key: str) -> list[str]:
    if len(kinds) != layers:
        raise ConfigError(f"config.json: {key} names {len(kinds)} layers, num_hidden_layers says {layers}")
    return kinds


def _one_of(known: Mapping[str, str], value: Any, key: str) -> str:
    if not isinstance(value, str) or value not in known:
        raise ConfigError(f"config.json: {key} holds {value!r}, known are {', '.join(known)}")
    return known[value]


def _layer_count(config: Config, key: str) -> int:
    value = config.get(key)
    return len(value) if isinstance(value, Sequence) and not isinstance(value, str) else need(config, key)


def _full(config: Config, count: int) -> LayerGroup:
    if not optional(config, "kv_lora_rank"):
        heads = optional(config, "num_global_key_value_heads") or _kv_heads(config)
        dim = optional(config, "global_head_dim") or _head_dim(config)
        return LayerGroup(count=count, kind="gqa", kv_heads=heads, k_dim=dim, v_dim=dim)
    index = optional(config, "index_head_dim") or optional(table(config, "dsa_config"), "index_head_dim") or 0
    return LayerGroup(
        count=count,
        kind="mla",
        k_dim=need(config, "kv_lora_rank"),
        v_dim=need(config, "qk_rope_head_dim"),
        index_dim=index,
        index_scale_bytes=FP32 if index else 0,
    )


def _window(config: Config, count: int) -> LayerGroup:
    window = optional(config, "sliding_window") or need(config, "attention_chunk_size")
    dim = _head_dim(config)
    return LayerGroup(count=count, kind="gqa", kv_heads=_kv_heads(config), k_dim=dim, v_dim=dim, window=window)


def _kv_heads(config: Config) -> int:
    return optional(config, "num_key_value_heads") or need(config, "num_attention_heads")


def _head_dim(config: Config) -> int:
    return optional(config, "head_dim") or need(config, "hidden_size") // need(config, "num_attention_heads")


def _linear(config: Config, count: int) -> LayerGroup:
    """Gated DeltaNet: an FP32 state a value head, and the BF16 short convolution over q, k and v."""
    heads, value_dim = need(config, "linear_num_value_heads"), need(config, "linear_value_head_dim")
    key_dim = need(config, "linear_key_head_dim")
    mixed = 2 * need(config, "linear_num_key_heads") * key_dim + heads * value_dim
    state = heads * key_dim * value_dim * FP32 + mixed * (need(config, "linear_conv_kernel_dim") - 1) * BF16
    return LayerGroup(count=count, kind="linear", state_bytes=state)


def _kda(config: Config, count: int) -> LayerGroup:
    """Kimi Delta Attention: an FP32 state a head, and the BF16 short convolutions of q, k and v."""
    linear = config["linear_attn_config"]
    heads, dim = need(linear, "num_heads"), need(linear, "head_dim")
    state = heads * dim * dim * FP32 + 3 * heads * dim * (need(linear, "short_conv_kernel_size") - 1) * BF16
    return LayerGroup(count=count, kind="linear", state_bytes=state)


def _mamba(config: Config, count: int) -> LayerGroup:
    """Mamba2: one state a head in the stated precision, and the BF16 convolution over x, B and C."""
    width = {"float32": FP32, "bfloat16": BF16, "float16": BF16}.get(str(config.get("mamba_ssm_cache_dtype")))
    if width is None:
        raise ConfigError(
            f"config.json: mamba_ssm_cache_dtype must be float32, bfloat16 or float16, found {config.get('mamba_ssm_cache_dtype')!r}"
        )
    inner, size = need(config, "mamba_num_heads") * need(config, "mamba_head_dim"), need(config, "ssm_state_size")
    convolved = inner + 2 * need(config, "n_groups") * size
    return LayerGroup(count=count, kind="linear", state_bytes=inner * size * width + convolved * (need(config, "conv_kernel") - 1) * BF16)


_GROUPS = {"full": _full, "window": _window, "linear": _linear, "kda": _kda, "mamba": _mamba}
