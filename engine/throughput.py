"""Tokens per second of a replica: measured where somebody measured it, else estimated; each figure says which."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from engine.facts import MissingFact
from engine.measured import MAX_AGE_DAYS, matching_points, measured_throughput
from engine.receipts import ReceiptLine
from engine.replicas import FITTED, Constants, Machine, machine
from engine.roofline import Pace, Work, pace
from engine.speeds import Deployment, Throughput, ThroughputKind, ThroughputPoint

__all__ = [
    "MAX_AGE_DAYS",
    "Deployment",
    "Throughput",
    "ThroughputKind",
    "ThroughputPoint",
    "error_factor",
    "estimated_throughput",
    "replica_of",
    "throughput",
]

# 9 of 10 points of a model, GPU or format the fit has not seen lie within 1.35, of an engine within 1.54 (tests/bench/roofline_error.py).
ESTIMATE_ERROR = 1.5
UNFITTED_ERROR = 2.5  # pipelines, llama.cpp, unified memory, other vendors, unknown links, more than 256 at once: no points
FITTED_CONCURRENCY = 256
DCP_SLOWDOWN = 1.25  # decode steps are 7 to 25 % slower with decode context parallelism (vLLM recipe): the worse end


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
    matching = matching_points(points, deployment, work, on, max_age_days)
    measured = measured_throughput(matching, work, concurrency, deployment.engine)
    if measured is not None:
        return measured
    try:
        return estimated_throughput(deployment, work, concurrency)
    except MissingFact:
        return None


def error_factor(deployment: Deployment, concurrency: int) -> float:
    """Error band of an estimate: wider where the fit saw nothing of the kind."""
    gpu, layout = deployment.gpu, deployment.layout
    fitted = deployment.engine in FITTED.engine_overhead and layout.pp == 1 and gpu.vendor == "nvidia" and gpu.gpu_class == "datacenter"
    link_known = layout.tp == 1 or (gpu.link_gb_s is not None and deployment.model.hidden_size is not None)
    known = fitted and link_known and bool(gpu.dense_tflops) and concurrency <= FITTED_CONCURRENCY
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
