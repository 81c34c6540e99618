"""How the cache of one sequence spreads over tensor-parallel ranks: what divides, and what every rank repeats."""

from __future__ import annotations

from fractions import Fraction

from engine.cache import CacheFormat, group_bytes, growing_bytes, require_cache_facts
from engine.counts import Layout
from engine.models import LayerGroup, ModelSpec


def rank_share(group: LayerGroup, tp: int, dcp: int = 1) -> Fraction:
    """Share of one group's cache each of ``tp`` ranks holds.

    GQA divides by KV heads and is repeated beyond them (TP / H_kv copies). An MLA latent is one head: every rank repeats it,
    unless decode context parallelism spreads its tokens. Linear state divides by heads, so by TP.
    """
    if group.kind == "linear":
        return Fraction(1, tp)
    heads = group.kv_heads if group.kind == "gqa" else 1
    return Fraction(1, min(tp, max(1, heads) * dcp))


def replication(group: LayerGroup, tp: int, dcp: int = 1) -> Fraction:
    """Copies of the group's cache over all ranks: 1 where it divides fully."""
    return tp * rank_share(group, tp, dcp)


def layout_cache_bytes(model: ModelSpec, tokens: int, cache_format: CacheFormat, layout: Layout, dcp: int = 1) -> Fraction:
    """Bytes one sequence takes over the whole setup, copies included, every stage counted as the fullest one."""
    require_cache_facts(model)
    if layout.even:
        return growing_bytes(model, tokens, cache_format) + sum(g.count * g.state_bytes for g in model.layer_groups)
    fullest = layout.largest_share(model.layers) * layout.tp * layout.pp
    if model.kv_bytes_per_token is not None:
        return fullest * _measured(model, tokens, layout.tp, dcp)
    spread = sum((_group_total(group, tokens, cache_format, layout.tp, dcp) for group in model.layer_groups), Fraction(0))
    return fullest * spread


def recorded_tokens(model: ModelSpec, gpu: str, gpu_count: int, cache_format: str, dcp: int) -> int | None:
    """Cache tokens an engine or recipe reports for exactly this deployment; None where nobody recorded it."""
    wanted = (gpu, gpu_count, cache_format, dcp)
    found = (r for r in model.recorded_capacity if (r.gpu, r.gpu_count, r.cache_format, r.dcp) == wanted)
    return next((r.tokens for r in found), None)


def _group_total(group: LayerGroup, tokens: int, cache_format: CacheFormat, tp: int, dcp: int) -> Fraction:
    state = group.count * group.state_bytes  # split by heads over the ranks, never repeated
    return group_bytes(group, tokens, cache_format) * replication(group, tp, dcp) + state


def _measured(model: ModelSpec, tokens: int, tp: int, dcp: int) -> Fraction:
    """A measured size has no groups to divide: repeated on every rank unless all groups are GQA, as the fewest KV heads allow."""
    attention = [g for g in model.layer_groups if g.kind != "linear"]
    heads = min((g.kv_heads for g in attention if g.kind == "gqa"), default=1)
    shared = heads if attention and all(g.kind == "gqa" for g in attention) else 1
    state = sum(g.count * g.state_bytes for g in model.layer_groups)
    return Fraction(tp, min(tp, max(1, shared) * dcp)) * (model.kv_bytes_per_token or 0) * tokens + state
