"""Parameter totals recomputed from the fields of a public config.json: a check on what vendors print."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from engine.facts import MissingFact

Config = Mapping[str, object]

LLAMA_4 = "llama4_text"
QK_NORM_FAMILIES = frozenset(("qwen3", "qwen3_moe", "qwen3_vl_text", "qwen3_vl_moe_text"))
GQA_FAMILIES = QK_NORM_FAMILIES | {"llama", LLAMA_4, "mistral", "mixtral", "phi3", "qwen2", "minimax_m2", "mimo", "gpt_oss"}
MLA_FAMILIES = frozenset(("deepseek_v3", "deepseek_v32", "kimi_k2", "glm_moe_dsa"))
DELTA_FAMILIES = frozenset(("qwen3_5_text", "qwen3_5_moe_text"))
KNOWN_FAMILIES = GQA_FAMILIES | MLA_FAMILIES | DELTA_FAMILIES
# Families nobody can count by the fields listed here: what is missing of them.
UNSTATED = {
    "deepseek_v4": "the size of its compressors",
    "deepseek_ref": "the size of its compressors",
    "gemma4_text": "the shape of its global layers",
    "kimi_linear": "the width its routed experts work in",
    "mimo_v2_flash": "the shape of its windowed layers",
    "minimax_m3": "the width of its dense layers",
    "minimax_m3_vl": "the width of its dense layers",
    "nemotron-nas": "block_configs",
    "nemotron_h": "the size of its Mamba layers",
    "step3p7": "the shape of its windowed layers",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParamParts:
    """Parameters of the text model by part, without multi-token-prediction modules and vision towers."""

    embedding: int
    head: int  # 0 where it is the embedding
    attention: int
    dense: int  # feed-forward of layers without experts
    experts: int  # routed
    shared: int
    router: int
    norms: int

    @property
    def total(self) -> int:
        """All parameters."""
        return sum(int(getattr(self, part.name)) for part in fields(self))


def params_from_config(config: Config) -> ParamParts:
    """Parameters of the model the config describes; MissingFact names an absent field or an unknown family."""
    family = str(config.get("model_type") or "")
    if family in UNSTATED:
        raise MissingFact(_name(config), UNSTATED[family], f"counting the parameters of {family}")
    if family not in KNOWN_FAMILIES:
        known = ", ".join(sorted(KNOWN_FAMILIES))
        raise MissingFact(_name(config), "model_type", f"counting parameters (known: {known}; this is {family!r})")
    hidden, layers, vocab = (_need(config, key) for key in ("hidden_size", "num_hidden_layers", "vocab_size"))
    experts = _first(config, "num_experts", "n_routed_experts", "num_local_experts")
    moe_layers = _moe_layers(config, family, layers) if experts else 0
    dense_layers = layers - moe_layers
    inner = _get(config, "moe_intermediate_size") or _get(config, "intermediate_size") or 0
    return ParamParts(
        embedding=vocab * hidden,
        head=0 if config.get("tie_word_embeddings") is True else vocab * hidden,
        attention=_attention(config, family, hidden, layers),
        dense=dense_layers * 3 * hidden * _need(config, "intermediate_size_mlp" if family == LLAMA_4 else "intermediate_size")
        if dense_layers
        else 0,
        experts=moe_layers * experts * _expert(family, hidden, inner),
        shared=moe_layers * _shared(config, family) * (3 * hidden * inner),
        router=moe_layers * (hidden * experts + _router_extra(family, hidden, experts)),
        norms=(2 * layers + 1) * hidden,
    )


def _moe_layers(config: Config, family: str, layers: int) -> int:
    """Layers with routed experts: every n-th of Llama 4, all after the first dense ones of the others."""
    if family == LLAMA_4:
        return layers // _need(config, "interleave_moe_layer_step")
    return layers - (_get(config, "first_k_dense_replace") or 0)


def _attention(config: Config, family: str, hidden: int, layers: int) -> int:
    if family in MLA_FAMILIES:
        return layers * (_mla(config, hidden) + _indexer(config, hidden))
    if family in DELTA_FAMILIES:
        full = layers // (_get(config, "full_attention_interval") or 4)
        return full * _gqa(config, family, hidden) + (layers - full) * _gated_delta(config, hidden)
    return layers * _gqa(config, family, hidden)


def _gqa(config: Config, family: str, hidden: int) -> int:
    """Query, key, value and output matrices: ``h*H*d + 2*h*H_kv*d + H*d*h``."""
    heads, kv_heads = _need(config, "num_attention_heads"), _need(config, "num_key_value_heads")
    dim = _get(config, "head_dim") or hidden // heads
    gate = heads * dim * hidden if family in DELTA_FAMILIES else 0  # an output gate as wide as the queries
    norm = 2 * dim if family in QK_NORM_FAMILIES | DELTA_FAMILIES else 0
    bias = (heads + 2 * kv_heads) * dim if family in ("gpt_oss", "qwen2") else 0
    bias += hidden + heads if family == "gpt_oss" else 0  # of the output, and one sink a head
    return 2 * hidden * heads * dim + 2 * hidden * kv_heads * dim + gate + norm + bias


def _mla(config: Config, hidden: int) -> int:
    """Low-rank queries, the shared latent with its RoPE part, its up-projections and the output."""
    heads = _need(config, "num_attention_heads")
    rank, rope, nope, value = (_need(config, key) for key in ("kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim"))
    low = _get(config, "q_lora_rank") or 0
    queries = hidden * low + low + low * heads * (nope + rope) if low else hidden * heads * (nope + rope)
    latent = hidden * (rank + rope) + rank + rank * heads * (nope + value)
    return queries + latent + heads * value * hidden


def _indexer(config: Config, hidden: int) -> int:
    """Sparse attention's own small queries, one key with its norm, and the weights of its heads."""
    dim, heads = _get(config, "index_head_dim") or 0, _get(config, "index_n_heads") or 0
    low = _get(config, "q_lora_rank") or hidden
    return low * heads * dim + hidden * dim + 2 * dim + hidden * heads if dim else 0


def _gated_delta(config: Config, hidden: int) -> int:
    """Gated DeltaNet: q, k, v and gate in, two gates a value head, a short convolution, the output."""
    key = _need(config, "linear_num_key_heads") * _need(config, "linear_key_head_dim")
    heads, dim = _need(config, "linear_num_value_heads"), _need(config, "linear_value_head_dim")
    value = heads * dim
    mixed = 2 * key + value
    return (
        hidden * (mixed + value) + 2 * hidden * heads + mixed * _need(config, "linear_conv_kernel_dim") + 2 * heads + dim + value * hidden
    )


def _expert(family: str, hidden: int, inner: int) -> int:
    biases = 2 * inner + hidden if family == "gpt_oss" else 0
    return 3 * hidden * inner + biases


def _shared(config: Config, family: str) -> int:
    """Shared experts of one layer, each as wide as a routed one."""
    return 1 if family in ("qwen3_5_moe_text", LLAMA_4) else _get(config, "n_shared_experts") or 0


def _router_extra(family: str, hidden: int, experts: int) -> int:
    """Biases of the router, or the gate of a shared expert."""
    if family == "qwen3_5_moe_text":
        return hidden
    return experts if family in MLA_FAMILIES | {"gpt_oss", "minimax_m2"} else 0


def _first(config: Config, *keys: str) -> int:
    return next((value for key in keys if (value := _get(config, key))), 0)


def _need(config: Config, key: str) -> int:
    value = _get(config, key)
    if value is None:
        raise MissingFact(_name(config), key, "counting parameters")
    return value


def _get(config: Config, key: str) -> int | None:
    value = config.get(key)
    return None if value is None or value == "" else int(str(value))


def _name(config: Config) -> str:
    return str(config.get("model") or config.get("_name_or_path") or "config.json")
