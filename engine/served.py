"""What a fit serves of a workload: requests a month, how well that is known, and whether it keeps the service level."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from engine.candidates import Setup
from engine.capacity import Capacity, ServiceLevel, capacity, work_of
from engine.counts import Layout
from engine.fits import Fit
from engine.formats import WeightFormat
from engine.gpus import Gpu
from engine.models import ModelSpec
from engine.plans import Rental
from engine.throughput import MAX_AGE_DAYS, Deployment, Throughput, ThroughputKind, ThroughputPoint, throughput
from engine.workloads import Workload

STATED_ERROR = Decimal(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Requests of the workload one replica serves in a 730-hour month when always busy; None is unknown and ``reason`` says why.

    ``kind`` says how the figure came about: ``live`` and ``config`` were measured by the operator, ``estimate`` is no measurement.
    The truth lies within the figure divided and multiplied by ``error_factor``.
    """

    requests_per_month: Decimal | None
    kind: ThroughputKind | None = None
    error_factor: Decimal = STATED_ERROR
    source: str = ""
    reason: str = ""
    capacity: Capacity | None = None  # None where the operator stated the figure


def served(
    fit: Fit,
    model: ModelSpec,
    gpu: Gpu,
    weight_format: WeightFormat,
    workload: Workload,
    points: Iterable[ThroughputPoint] = (),
    *,
    on: date,
    max_age_days: int = MAX_AGE_DAYS,
) -> Served:
    """Capacity of the fit for the workload: what the operator stated, else measured points, else the estimate."""
    stated = workload.stated_capacity(model=fit.model, gpu=fit.gpu, gpu_count=fit.gpu_count, weight_format=fit.weight_format)
    if stated is not None:
        return Served(requests_per_month=stated.requests_per_month, kind="config", source=stated.source)
    if fit.layout is None or not fit.fits:
        return Served(requests_per_month=None, reason=fit.reason or "how it would be served is not known")
    deployment = _deployment(fit, fit.layout, model, gpu, weight_format)
    level = service_level(workload)
    found = capacity(deployment, work_of(workload.mix), fit.max_sessions, level, points, on=on, max_age_days=max_age_days)
    return _of(found)


def speed(
    fit: Fit,
    model: ModelSpec,
    gpu: Gpu,
    weight_format: WeightFormat,
    workload: Workload,
    points: Iterable[ThroughputPoint] = (),
    *,
    on: date,
    concurrency: int = 1,
) -> Throughput | None:
    """How fast answers run with so many requests at once (one: as fast as this setup ever answers); None where unknown."""
    if fit.layout is None or not fit.fits:
        return None
    return throughput(_deployment(fit, fit.layout, model, gpu, weight_format), work_of(workload.mix), concurrency, points, on=on)


def _deployment(fit: Fit, layout: Layout, model: ModelSpec, gpu: Gpu, weight_format: WeightFormat) -> Deployment:
    return Deployment(
        model=model,
        gpu=gpu,
        weight_format=weight_format,
        gpu_count=fit.gpu_count,
        layout=layout,
        engine=fit.engine,
        cache_format=fit.need.cache_format,
        dcp=fit.need.dcp,
    )


def _of(found: Capacity | str) -> Served:
    if isinstance(found, str):
        return Served(requests_per_month=None, reason=found)
    rate = found.throughput
    error = Decimal(str(round(rate.error_factor, 4)))
    return Served(requests_per_month=found.requests_per_month, kind=rate.kind, error_factor=error, source=rate.source, capacity=found)


def service_level(workload: Workload) -> ServiceLevel:
    """What each user of the workload must see."""
    slowest, wait = workload.min_tok_s_per_user, workload.max_ttft_s
    return ServiceLevel(min_tok_s_per_user=None if slowest is None else float(slowest), max_ttft_s=None if wait is None else float(wait))


def service_refusal(found: Served, workload: Workload) -> str:
    """Why a fit may not serve the workload; "" where it may. Without a service level an unknown capacity refuses nothing."""
    asks = workload.min_tok_s_per_user is not None or workload.max_ttft_s is not None
    return found.reason if asks and found.requests_per_month is None else ""


def widest_fit(setup: Setup, fits: Iterable[Fit]) -> Fit:
    """The fit that uses most of what is rented: who needs 5 GPUs and pays for 8 of one machine runs on all 8 where that is legal."""
    if setup.machines > 1:
        return setup.fit
    same = (f for f in fits if f.fits and (f.gpu, f.weight_format) == (setup.gpu, setup.weight_format))
    return max((f for f in same if f.gpu_count <= setup.gpu_count_rented), key=lambda f: f.gpu_count, default=setup.fit)


def rental_of(setup: Setup, found: Served, workload: Workload, *, interruption_loss: Decimal = Decimal(0)) -> Rental | None:
    """The setup as a replica to plan with; None while its capacity is unknown."""
    if found.requests_per_month is None:
        return None
    offer = setup.offer
    machines = f"{setup.machines} x " if setup.machines > 1 else ""
    gpus = f"{machines}{setup.gpu_count_rented // setup.machines} x {setup.gpu}"
    return Rental(
        name=f"{gpus} ({setup.weight_format}) at {offer.provider}",
        usd_per_month=setup.usd_per_month,
        capacity_tokens_per_month=found.requests_per_month * workload.mix.total,
        tier=offer.tier,
        interruption_loss=interruption_loss,
    )
