"""The question whether a model fits, and its answer with reason and receipt."""

from __future__ import annotations

from dataclasses import dataclass

from engine.cache import CACHE_FORMATS, CacheFormat
from engine.counts import Layout
from engine.policies import FitPolicy, usable_share
from engine.receipts import Receipt, ReceiptLine
from engine.weights import Weights


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What must fit beside the weights. ``engines`` narrows what the policy offers; () leaves it. ``dcp`` 1 is off."""

    context: int = 8192  # tokens one session may hold
    sessions: int = 1
    cache_format: CacheFormat = "bf16"
    engines: tuple[str, ...] = ()
    dcp: int = 1  # decode context parallelism: vLLM spreads cached tokens over so many ranks
    expert_parallel: bool = True  # allowed where FP8 blocks forbid to split an expert

    def __post_init__(self) -> None:
        if self.context < 1 or self.sessions < 1 or self.dcp < 1:
            raise ValueError(f"context, sessions and dcp must be at least 1, got {self.context}, {self.sessions}, {self.dcp}")
        if self.cache_format not in CACHE_FORMATS:
            raise ValueError(f"unknown cache format {self.cache_format!r}, expected one of {', '.join(CACHE_FORMATS)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """One (model, GPU, format, count) under one policy and need. Bytes are of the whole setup, over all its GPUs.

    ``weight_bytes`` and ``cache_bytes`` are one undivided copy (the cache of all sessions asked for). ``load_bytes`` is what
    they take once spread: with the policy's factors, copies of the cache, and every GPU counted as full as the fullest one.
    """

    model: str
    gpu: str
    weight_format: str
    gpu_count: int
    nodes: int
    engine: str  # "" where none is offered; "any" where the policy asks for none
    layout: Layout | None = None
    weight_bytes: int = 0
    cache_bytes: int = 0
    load_bytes: int = 0
    capacity_bytes: int = 0
    fits: bool = False
    tight: bool = False
    max_sessions: int | None = None  # None: unknown, or the policy counts no cache
    reason: str = ""  # why it does not fit; "" when it does
    note: str = ""  # what a reader should know of a fit: expert parallel, why tight, recorded capacity
    need: Need
    policy: FitPolicy
    weights: Weights | None = None

    @property
    def short_bytes(self) -> int:
        """Bytes missing; 0 where memory suffices."""
        return max(0, self.load_bytes - self.capacity_bytes)

    @property
    def spare_bytes(self) -> int:
        """Bytes left; 0 where memory does not suffice."""
        return max(0, self.capacity_bytes - self.load_bytes)

    @property
    def receipt(self) -> Receipt:
        """Formulas, inputs and sources of the verdict."""
        inputs = (*(self.weights.receipt if self.weights else ()), *_sizes(self))
        if self.layout is None:
            return (*inputs, ReceiptLine(name="refused", value=self.reason))
        return (*inputs, *_balance(self, self.layout))


def _sizes(found: Fit) -> Receipt:
    need = found.need
    cache = f"cache of {need.sessions} x {need.context:,} tokens, {need.cache_format}"
    return (
        ReceiptLine(name="weights", value=found.weight_bytes, unit="B", source=found.weights.basis if found.weights else ""),
        ReceiptLine(name=cache, value=found.cache_bytes, unit="B", formula=f"convention {found.policy.cache_convention}"),
    )


def _balance(found: Fit, layout: Layout) -> Receipt:
    policy = found.policy
    load = f"total factor * (weight factor * weights + cache), spread as {layout.label}"
    sessions = "floor((capacity - weights) / cache of one session)"
    return (
        ReceiptLine(name="weight factor", value=policy.weight_factor, source=policy.name),
        ReceiptLine(name="total factor", value=policy.total_factor, source=policy.name),
        ReceiptLine(name="load", value=found.load_bytes, unit="B", formula=load),
        ReceiptLine(name="capacity", value=found.capacity_bytes, unit="B", formula=_capacity(found), source=policy.source),
        ReceiptLine(name="spare", value=found.spare_bytes, unit="B", formula="capacity - load"),
        ReceiptLine(name="short", value=found.short_bytes, unit="B", formula="load - capacity"),
        ReceiptLine(name="sessions at most", value=found.max_sessions, formula=sessions, source=found.note),
    )


def _capacity(found: Fit) -> str:
    policy = found.policy
    if policy.whole_nodes and found.gpu_count > 1:
        return f"{found.nodes} nodes x memory of a node"
    memory = "marketed memory" if policy.marketed_memory else "reported memory"
    return f"{found.gpu_count} x ({usable_share(policy, found.engine)} x {memory} - {policy.reserve_bytes} B)"
