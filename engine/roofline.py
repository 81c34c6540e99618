"""Throughput of one replica from bandwidth, compute, link and per-layer overhead: an estimate, fitted on measured points.

::

    B      = min(concurrency, memory beside the weights / KV(isl + osl))      sequences that run; the others wait
    cov    = 1 - (1 - k/E)^b                       share of routed experts b tokens touch; 1 if dense
    t_mem  = (W_dense + W_experts * cov) / (tp * BW * e) + b * KV(isl + osl/2) * share / (BW * e)
    t_cmp  = 2 * P_active * b / (tp * FLOPS * c)   FLOPS of the format; a mixture of experts at the 16-bit peak
    t_link = 2 * layers * 2 (n-1)/n * b * hidden * 2 B / (LINK * l)     two all-reduces a layer, tp > 1
    t_step = max(t_mem, t_cmp) + t_link + engine * (launches * (t0 + t1 * log2 tp) + t2 * b)
    t_pre  = (2 * P_active * fresh prompt tokens) / (tp * FLOPS * c) + t_link for those tokens
    tpot   = t_step + B * t_pre / (pp * osl);    output tok/s = B / tpot

with b = B / pp sequences a pipeline stage works on at once (llama.cpp passes the whole batch through its devices: pp = 1), and
launches = layers, where one with an indexer (sparse attention) runs two attentions and counts twice.
Form: Roofline after Williams et al. (2009); the per-layer overhead is what makes it fit small batches. Constants: engine.replicas.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.cache import CacheFormat, cache_bytes
from engine.counts import Layout
from engine.replicas import FITTED, Constants, Machine
from engine.sharding import layout_cache_bytes

ACTIVATION_BYTES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Tokens of one request as a server sees them. Cached prompt tokens fill the cache but are not computed again."""

    fresh: int  # prompt tokens to compute
    cached: int = 0
    output: int

    def __post_init__(self) -> None:
        if self.output < 1 or self.fresh < 0 or self.cached < 0:
            raise ValueError(f"work must have output and no negative tokens, got {self}")

    @property
    def prompt(self) -> int:
        """All prompt tokens."""
        return self.fresh + self.cached


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Seconds of one replica at a concurrency: per output token of a user, until the first token; and its output tokens/s."""

    concurrency: int
    tpot_s: float
    ttft_s: float
    output_tok_s: float


def pace(
    replica: Machine,
    work: Work,
    concurrency: int,
    cache_format: CacheFormat = "fp8",
    *,
    dcp: int = 1,
    dcp_slowdown: float = 1.0,
    constants: Constants = FITTED,
) -> Pace:
    """Speed of the replica while ``concurrency`` requests of the kind are always in flight, running or waiting for memory."""
    layout = replica.layout
    stages = 1 if layout.even else layout.pp
    running = min(float(concurrency), sequences_held(replica, work, cache_format, dcp))
    step = _step_s(replica, work, running / stages, cache_format, dcp, constants) * dcp_slowdown
    prefill = 2 * replica.active * work.fresh / (layout.tp * replica.flops) + _link_s(replica, work.fresh)
    interruption = running * prefill / (stages * work.output)
    tpot = step + interruption
    busy = interruption / tpot  # share of the time that goes into prompts
    waiting = prefill * running * busy / 2  # on average half of the prompts under way are ahead
    queue = (concurrency / running - 1) * work.output * tpot  # Little's law: those without memory wait for a whole answer
    return Pace(
        concurrency=concurrency,
        tpot_s=tpot,
        ttft_s=constants.first_token_s + step + prefill + waiting + queue,
        output_tok_s=running / tpot,
    )


def sequences_held(replica: Machine, work: Work, cache_format: CacheFormat, dcp: int = 1) -> float:
    """Requests of full length whose cache the memory beside the weights holds, at least one; infinite without a cache."""
    one = _cache_bytes(replica, work.prompt + work.output, cache_format, dcp)
    return max(1.0, replica.cache_room_bytes / one) if one else math.inf


def _step_s(replica: Machine, work: Work, batch: float, cache_format: CacheFormat, dcp: int, constants: Constants) -> float:
    """Seconds of one decode step through all layers for ``batch`` sequences."""
    tp = replica.layout.tp
    touched = 1 - (1 - replica.touched) ** batch if replica.touched else 1.0
    weights = (replica.dense_bytes + replica.expert_bytes * touched) / tp
    memory = (weights + batch * _cache_read(replica, work, cache_format, dcp)) / replica.bytes_s
    compute = 2 * replica.active * batch / (tp * replica.flops)
    layers = replica.launches * (constants.layer_s + constants.rank_s * math.log2(tp))
    return max(memory, compute) + _link_s(replica, batch) + replica.overhead * (layers + constants.sequence_s * batch)


def _cache_read(replica: Machine, work: Work, cache_format: CacheFormat, dcp: int) -> float:
    """Bytes of cache one rank reads for one sequence at the middle of its answer."""
    ranks = 1 if replica.layout.even else replica.layout.tp
    return _cache_bytes(replica, work.prompt + work.output // 2, cache_format, dcp) / ranks


def _cache_bytes(replica: Machine, tokens: int, cache_format: CacheFormat, dcp: int) -> float:
    """Bytes of cache of one sequence over all ranks, copies included; pipeline stages each keep their own layers."""
    layout = replica.layout
    if layout.even or layout.tp == 1:
        return float(cache_bytes(replica.model, tokens, cache_format))
    return float(layout_cache_bytes(replica.model, tokens, cache_format, Layout(tp=layout.tp, pp=1), dcp))


def _link_s(replica: Machine, tokens: float) -> float:
    """Seconds of the two all-reduces of every layer for so many tokens; 0 without tensor parallelism or a known width."""
    tp = replica.layout.tp
    if tp == 1 or replica.model.hidden_size is None:
        return 0.0
    moved = 2 * (tp - 1) / tp * tokens * replica.model.hidden_size * ACTIVATION_BYTES
    return 2 * replica.layers * moved / replica.link_bytes_s
