"""The speed of a replica as a value: how it is known, from whom, and how far off it may be."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Literal

from engine.cache import CacheFormat
from engine.counts import Layout
from engine.formats import WeightFormat
from engine.gpus import Gpu
from engine.models import ModelSpec
from engine.receipts import Receipt

ThroughputKind = Literal["live", "config", "measured", "estimate"]
ORDER: tuple[ThroughputKind, ...] = ("live", "config", "measured", "estimate")  # of trust


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputPoint:
    """One measured run. Rates are of the whole replica; ``concurrency`` requests were always in flight."""

    model: str
    gpu: str
    gpu_count: int
    weight_format: str
    engine: str = ""  # with its version: "vllm 0.19.0"
    tp: int = 0  # 0 is unknown
    ep: int = 0
    isl: int
    osl: int
    concurrency: int
    output_tok_s: float
    ttft_s: float | None = None
    tpot_s: float | None = None
    measured: date
    kind: ThroughputKind = "measured"
    source: str = ""

    @property
    def engine_name(self) -> str:
        """The engine without its version."""
        return self.engine.partition(" ")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """Speed of one replica at a concurrency. The truth lies within ``output_tok_s`` divided and multiplied by ``error_factor``."""

    kind: ThroughputKind
    output_tok_s: float
    tpot_s: float
    ttft_s: float | None
    concurrency: int
    error_factor: float
    source: str
    measured: date | None = None
    note: str = ""
    receipt: Receipt = ()

    @property
    def tok_s_per_user(self) -> float:
        """Output tokens per second one user sees while the answer runs."""
        return 1 / self.tpot_s

    @property
    def low_tok_s(self) -> float:
        """Lower end of the error band."""
        return self.output_tok_s / self.error_factor

    @property
    def high_tok_s(self) -> float:
        """Upper end of the error band."""
        return self.output_tok_s * self.error_factor


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What serves: the replica whose speed is asked for."""

    model: ModelSpec
    gpu: Gpu
    weight_format: WeightFormat
    gpu_count: int
    layout: Layout
    engine: str = "vllm"
    cache_format: CacheFormat = "fp8"
    dcp: int = 1
