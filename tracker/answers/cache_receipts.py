"""How the KV cache of a model is counted: layer group by layer group, with formulas and sources."""

from __future__ import annotations

from collections.abc import Sequence

from engine.cache import CacheFormat, bytes_per_token, cache_bytes, cache_bytes_per_token, state_bytes
from engine.models import LayerGroup, ModelSpec
from engine.receipts import Receipt, ReceiptLine


def cache_lines(model: ModelSpec, contexts: Sequence[int], cache_format: CacheFormat) -> Receipt:
    """Cache of one session by layer group, then over the contexts, with formulas and sources."""
    formula = "sum of layers * min(tokens, window) * B/token + state"
    return (
        *_group_lines(model, cache_format),
        ReceiptLine(name="state", value=state_bytes(model), unit="B/session", formula="sum of layers * state of a layer"),
        ReceiptLine(name="beyond every window", value=int(cache_bytes_per_token(model, cache_format)), unit="B/token"),
        *(
            ReceiptLine(
                name=f"{tokens:,} tokens, {cache_format}", value=cache_bytes(model, tokens, cache_format), unit="B", formula=formula
            )
            for tokens in contexts
        ),
    )


def _group_lines(model: ModelSpec, cache_format: CacheFormat) -> Receipt:
    sources = {fact.field: fact.source for fact in model.facts}
    if model.kv_bytes_per_token is not None:
        source = sources.get("kv_bytes_per_token", model.source)
        return (ReceiptLine(name="measured", value=model.kv_bytes_per_token, unit="B/token", source=source),)
    return tuple(
        ReceiptLine(
            name=f"{group.count} {group.kind} layers",
            value=int(group.count * (bytes_per_token(group, cache_format) if group.kind != "linear" else group.state_bytes)),
            unit="B/session" if group.kind == "linear" else "B/token",
            formula=_group_formula(group, cache_format),
            source=sources.get(f"layer_groups.{number}.count", model.source),
        )
        for number, group in enumerate(model.layer_groups, start=1)
    )


def _group_formula(group: LayerGroup, cache_format: CacheFormat) -> str:
    if group.kind == "linear":
        return f"{group.count} * {group.state_bytes:,} B of state, whatever the length"
    if group.kind == "gqa":
        window = f", at most {group.window:,} tokens" if group.window else ""
        return f"{group.count} * {group.kv_heads} KV heads * ({group.k_dim} + {group.v_dim}) in {cache_format}{window}"
    indexer = f" + {group.index_dim} + {group.index_scale_bytes} B of indexer" if group.index_dim else ""
    return f"{group.count} * (latent {group.k_dim} + RoPE {group.v_dim} in {cache_format}{indexer})"
