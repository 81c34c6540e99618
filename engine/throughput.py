"""Tokens per second of a replica: measured where somebody measured it, else estimated; each figure says which."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal

from engine.cache import CacheFormat
from engine.counts import Layout
from engine.facts import MissingFact
from engine.formats import WeightFormat
from engine.gpus import Gpu
from engine.models import ModelSpec
from engine.receipts import Receipt, ReceiptLine
from engine.roofline import FITTED, Constants, Machine, Pace, Work, machine, pace

ThroughputKind = Literal["live", "config", "measured", "estimate"]
ORDER: tuple[ThroughputKind, ...] = ("live", "config", "measured", "estimate")  # of trust

MAX_AGE_DAYS = 400
NEAREST_FACTOR = 2.0  # a measured prompt or answer length further away than this is another workload
POINT_ERROR = 1.1  # two runs of one setup differ by about that much
ESTIMATE_ERROR = 1.6  # 9 of 10 points of a model the fit has not seen lie within (tests/bench/roofline_error.py)
UNFITTED_ERROR = 2.5  # pipelines, llama.cpp, unified memory, other vendors, more than 256 at once: no points to fit on
FITTED_CONCURRENCY = 256
DCP_SLOWDOWN = 1.25  # decode steps are 7 to 25 % slower with decode context parallelism (vLLM recipe, seed 002): the worse end


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


def matching_points(
    points: Iterable[ThroughputPoint], deployment: Deployment, work: Work, on: date, max_age_days: int = MAX_AGE_DAYS
) -> tuple[ThroughputPoint, ...]:
    """Points of exactly this model, GPU, count and format, of the nearest prompt and answer lengths, not too old, most trusted kind.

    Points of the deployment's own engine leave the others out. Points know no prefix cache: a workload that reads more than a
    tenth of its prompt from it has no measured figure. Of one concurrency the newest remains, of one day the fastest.
    """
    key = (deployment.model.id, deployment.gpu.id, deployment.gpu_count, deployment.weight_format.id)
    if work.cached * 10 > work.prompt or deployment.dcp > 1:
        return ()
    fresh = [p for p in points if point_key(p) == key and 0 <= (on - p.measured).days <= max_age_days and _distance(p, work) is not None]
    if not fresh:
        return ()
    kind = min((p.kind for p in fresh), key=ORDER.index)
    trusted = [p for p in fresh if p.kind == kind]
    same = [p for p in trusted if p.engine_name == deployment.engine] or trusted
    nearest = min(_distance(p, work) or 1.0 for p in same)
    chosen = [p for p in same if _distance(p, work) == nearest]
    best: dict[int, ThroughputPoint] = {}
    for point in sorted(chosen, key=lambda p: (p.measured, p.output_tok_s)):
        best[point.concurrency] = point
    return tuple(best[c] for c in sorted(best))


def point_key(point: ThroughputPoint) -> tuple[str, str, int, str]:
    """What a point was measured on: model, GPU, count, weight format."""
    return point.model, point.gpu, point.gpu_count, point.weight_format


def measured_throughput(points: Sequence[ThroughputPoint], work: Work, concurrency: int) -> Throughput | None:
    """The figure between the two nearest measured concurrencies (log-log); None outside of what was measured.

    ``points`` as :func:`matching_points` returns them.
    """
    below = max((p for p in points if p.concurrency <= concurrency), key=lambda p: p.concurrency, default=None)
    above = min((p for p in points if p.concurrency >= concurrency), key=lambda p: p.concurrency, default=None)
    if below is None or above is None:
        return None
    share = _share(below.concurrency, concurrency, above.concurrency)
    rate = below.output_tok_s ** (1 - share) * above.output_tok_s**share
    distance = _distance(below, work) or 1.0
    note = f"{below.engine}, isl {below.isl}, osl {below.osl}, concurrency {below.concurrency}" + (
        f" to {above.concurrency}" if share else ""
    )
    return Throughput(
        kind=below.kind,
        output_tok_s=rate,
        tpot_s=_blend(below.tpot_s, above.tpot_s, share) or concurrency / rate,
        ttft_s=_blend(below.ttft_s, above.ttft_s, share),
        concurrency=concurrency,
        error_factor=POINT_ERROR * distance,
        source=below.source,
        measured=min(below.measured, above.measured),
        note=note,
        receipt=(_point_line(below), _point_line(above)),
    )


def estimated_throughput(deployment: Deployment, work: Work, concurrency: int, constants: Constants = FITTED) -> Throughput:
    """The roofline's figure; MissingFact where the model or the GPU lacks a fact it needs."""
    return _of_pace(deployment, work, run_pace(replica_of(deployment, constants), deployment, work, concurrency, constants), constants)


def replica_of(deployment: Deployment, constants: Constants = FITTED) -> Machine:
    """The deployment as the roofline sees it."""
    d = deployment
    return machine(d.model, d.gpu, d.weight_format, d.layout, d.engine, constants)


def run_pace(replica: Machine, deployment: Deployment, work: Work, concurrency: int, constants: Constants = FITTED) -> Pace:
    """The roofline's pace with the deployment's cache format and decode context parallelism."""
    slower = DCP_SLOWDOWN if deployment.dcp > 1 else 1.0
    return pace(replica, work, concurrency, deployment.cache_format, dcp=deployment.dcp, dcp_slowdown=slower, constants=constants)


def throughput(
    deployment: Deployment,
    work: Work,
    concurrency: int,
    points: Iterable[ThroughputPoint] = (),
    *,
    on: date,
    max_age_days: int = MAX_AGE_DAYS,
) -> Throughput | None:
    """The most trusted figure: live, configured, measured, else the estimate; None where not even that is possible."""
    measured = measured_throughput(matching_points(points, deployment, work, on, max_age_days), work, concurrency)
    if measured is not None:
        return measured
    try:
        return estimated_throughput(deployment, work, concurrency)
    except MissingFact:
        return None


def error_factor(deployment: Deployment, concurrency: int) -> float:
    """Error band of an estimate: wider where the fit saw nothing of the kind."""
    d = deployment
    fitted = d.engine == "vllm" and d.layout.pp == 1 and d.gpu.vendor == "nvidia" and d.gpu.gpu_class == "datacenter"
    known = fitted and concurrency <= FITTED_CONCURRENCY and bool(d.gpu.dense_tflops)
    return ESTIMATE_ERROR if known else UNFITTED_ERROR


def _of_pace(deployment: Deployment, work: Work, found: Pace, constants: Constants) -> Throughput:
    d = deployment
    lines = (
        ReceiptLine(name="layout", value=d.layout.label, source=d.engine),
        ReceiptLine(name="request", value=f"{work.fresh:,} fresh + {work.cached:,} cached + {work.output:,} output", unit="tokens"),
        ReceiptLine(name="concurrency", value=found.concurrency),
        ReceiptLine(name="bandwidth", value=d.gpu.bandwidth_gb_s, unit="GB/s", source=d.gpu.source),
        ReceiptLine(name="share of bandwidth, of compute", value=f"{constants.bandwidth_share}, {constants.compute_share}", source="fit"),
        ReceiptLine(
            name="seconds per output token",
            value=f"{found.tpot_s:.4g}",
            formula="max(bytes / bandwidth, operations / FLOPS) + link + overhead + concurrency * prefill / output",
        ),
    )
    return Throughput(
        kind="estimate",
        output_tok_s=found.output_tok_s,
        tpot_s=found.tpot_s,
        ttft_s=found.ttft_s,
        concurrency=found.concurrency,
        error_factor=error_factor(d, found.concurrency),
        source="roofline",
        receipt=lines,
    )


def _distance(point: ThroughputPoint, work: Work) -> float | None:
    """Factor between the lengths measured and asked for, at least 1; None beyond NEAREST_FACTOR."""
    ratios = (point.isl / max(1, work.prompt), point.osl / work.output)
    factors = [max(ratio, 1 / ratio) for ratio in ratios]
    return max(factors) if max(factors) <= NEAREST_FACTOR else None


def _share(low: int, wanted: int, high: int) -> float:
    """Where ``wanted`` lies between two concurrencies on a log scale, 0..1."""
    return 0.0 if low == high else math.log(wanted / low) / math.log(high / low)


def _blend(low: float | None, high: float | None, share: float) -> float | None:
    return None if not low or not high else low ** (1 - share) * high**share


def _point_line(point: ThroughputPoint) -> ReceiptLine:
    value = f"{point.output_tok_s:g} at {point.concurrency}"
    return ReceiptLine(name=f"{point.kind}, {point.measured}", value=value, unit="output tok/s", source=point.source)
