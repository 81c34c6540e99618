"""KV cache of one sequence by layer group: attention caches tokens, a window caps them, linear layers keep a state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Literal

from engine.facts import MissingFact
from engine.models import LayerGroup, ModelSpec

CacheFormat = Literal["bf16", "fp16", "fp8", "nvfp4"]
CACHE_FORMATS: tuple[CacheFormat, ...] = ("bf16", "fp16", "fp8", "nvfp4")

# NVFP4: 4 bits and one 8-bit scale per 16 values = 4.5 bits.
ELEMENT_BYTES: Mapping[CacheFormat, Fraction] = {
    "bf16": Fraction(2),
    "fp16": Fraction(2),
    "fp8": Fraction(1),
    "nvfp4": Fraction(4 + Fraction(8, 16), 8),
}
CANITRUN_ELEMENT_BYTES = 2  # CanItRun (2026-10-17) counts the cache at FP16 whatever the weights are


def cache_bytes(model: ModelSpec, tokens: int, cache_format: CacheFormat) -> int:
    """Bytes one sequence of ``tokens`` keeps on one undivided copy, summed over all layer groups.

    ``sum of count * (min(tokens, window) * width + state)``; a measured ``kv_bytes_per_token`` replaces the widths.
    """
    require_cache_facts(model)
    return _whole(growing_bytes(model, tokens, cache_format)) + state_bytes(model)


def growing_bytes(model: ModelSpec, tokens: int, cache_format: CacheFormat) -> Fraction:
    """The part of :func:`cache_bytes` that tokens cause; the rest is constant state."""
    if model.kv_bytes_per_token is not None:
        return Fraction(model.kv_bytes_per_token * tokens)
    return sum((group_bytes(group, tokens, cache_format) for group in model.layer_groups), Fraction(0))


def group_bytes(group: LayerGroup, tokens: int, cache_format: CacheFormat) -> Fraction:
    """Bytes the tokens of one sequence take in all layers of one group, without its constant state."""
    cached = tokens if group.window is None else min(tokens, group.window)
    return group.count * cached * bytes_per_token(group, cache_format)


def bytes_per_token(group: LayerGroup, cache_format: CacheFormat) -> Fraction:
    """Bytes one layer of the group adds per cached token: 0 for a linear layer."""
    element = ELEMENT_BYTES[cache_format]
    if group.kind == "gqa":
        return group.kv_heads * (group.k_dim + group.v_dim) * element
    if group.kind == "mla":
        return latent_bytes(group, cache_format) + group.index_dim + group.index_scale_bytes
    return Fraction(0)


def latent_bytes(group: LayerGroup, cache_format: CacheFormat) -> Fraction:
    """Bytes of one MLA latent: compressed rank + RoPE, stored once for all heads.

    A 4-bit cache keeps the RoPE part at 8 bits (512/2 + 512/16 + 64 = 352, vLLM recipe, through DevToolLab, 2026-11-07); the indexer key
    beside it stays at 8 bits with its scale in every format.
    """
    element = ELEMENT_BYTES[cache_format]
    return group.k_dim * element + group.v_dim * max(element, ELEMENT_BYTES["fp8"])


def state_bytes(model: ModelSpec) -> int:
    """Bytes of constant state per sequence, whatever its length (linear attention keeps it in its own precision)."""
    return sum(group.count * group.state_bytes for group in model.layer_groups)


def cache_bytes_per_token(model: ModelSpec, cache_format: CacheFormat) -> Fraction:
    """Bytes each further token adds once every window is full."""
    require_cache_facts(model)
    if model.kv_bytes_per_token is not None:
        return Fraction(model.kv_bytes_per_token)
    unbounded = (group for group in model.layer_groups if group.window is None)
    return sum((group.count * bytes_per_token(group, cache_format) for group in unbounded), Fraction(0))


def cache_saving(model: ModelSpec, tokens: int) -> Decimal:
    """How many times smaller the cache is than if every windowed layer kept all ``tokens``."""
    full = sum((group.count * tokens * bytes_per_token(group, "bf16") for group in model.layer_groups), Fraction(0))
    kept = sum((group_bytes(group, tokens, "bf16") for group in model.layer_groups), Fraction(0))
    if kept == 0:
        raise MissingFact(model.id, "layer_groups", "the saving of its windows")
    return Decimal((full / kept).numerator) / (full / kept).denominator


def cache_gain(model: ModelSpec, cache_format: CacheFormat, over: CacheFormat) -> Decimal:
    """How many times more tokens one byte budget holds in ``cache_format`` than in ``over``, states left aside."""
    gain = cache_bytes_per_token(model, over) / cache_bytes_per_token(model, cache_format)
    return Decimal(gain.numerator) / gain.denominator


def canitrun_cache_bytes(model: ModelSpec, tokens: int, cache_format: CacheFormat = "fp16") -> int:
    """Bytes of the cache as CanItRun counts it (2026-10-17): FP16 always, an MLA latent twice (as K and as V), nothing else.

    It leaves out RoPE, indexer and linear state. A foreign convention, kept to compare with that site; it knows no measured size.
    """
    if not model.layer_groups:
        raise MissingFact(model.id, "layer_groups", "its KV cache as CanItRun counts it")
    return sum(_canitrun_group(group, tokens) for group in model.layer_groups)


def no_cache_bytes(model: ModelSpec, tokens: int, cache_format: CacheFormat) -> int:
    """0: the convention of calculators that size by weights alone."""
    return 0


CONVENTIONS: Mapping[str, Callable[[ModelSpec, int, CacheFormat], int]] = {
    "layer_groups": cache_bytes,
    "canitrun": canitrun_cache_bytes,
    "none": no_cache_bytes,
}


def require_cache_facts(model: ModelSpec) -> None:
    """Refuse a model whose cache nobody described."""
    if not model.layer_groups and model.kv_bytes_per_token is None:
        raise MissingFact(model.id, "layer_groups (or a measured kv_bytes_per_token)", "its KV cache")


def _canitrun_group(group: LayerGroup, tokens: int) -> int:
    cached = tokens if group.window is None else min(tokens, group.window)
    width = {"gqa": group.kv_heads * (group.k_dim + group.v_dim), "mla": 2 * group.k_dim, "linear": 0}[group.kind]
    return group.count * cached * width * CANITRUN_ELEMENT_BYTES


def _whole(size: Fraction) -> int:
    return -(-size.numerator // size.denominator)
