"""What a fit serves of a workload: requests a month, how well that is known, and whether it keeps the service level."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from engine.capacity import Capacity, ServiceLevel, capacity, work_of
from engine.fits import Fit
from engine.formats import WeightFormat
from engine.gpus import Gpu
from engine.models import ModelSpec
from engine.throughput import MAX_AGE_DAYS, Deployment, ThroughputKind, ThroughputPoint
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

    @property
    def tok_s_per_user(self) -> float | None:
        """Output tokens a second one user sees; None where unknown."""
        return None if self.capacity is None else self.capacity.throughput.tok_s_per_user


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
    deployment = Deployment(
        model=model,
        gpu=gpu,
        weight_format=weight_format,
        gpu_count=fit.gpu_count,
        layout=fit.layout,
        engine=fit.engine,
        cache_format=fit.need.cache_format,
        dcp=fit.need.dcp,
    )
    level = service_level(workload)
    found = capacity(deployment, work_of(workload.mix), fit.max_sessions, level, points, on=on, max_age_days=max_age_days)
    return _of(found)


def _of(found: Capacity | str) -> Served:
    if isinstance(found, str):
        return Served(requests_per_month=None, reason=found)
    speed = found.throughput
    error = Decimal(str(round(speed.error_factor, 4)))
    return Served(
        requests_per_month=found.requests_per_month, kind=speed.kind, error_factor=error, source=speed.source, capacity=found
    )  # fmt: skip


def service_level(workload: Workload) -> ServiceLevel:
    """What each user of the workload must see."""
    speed, wait = workload.min_tok_s_per_user, workload.max_ttft_s
    return ServiceLevel(min_tok_s_per_user=None if speed is None else float(speed), max_ttft_s=None if wait is None else float(wait))


def service_refusal(found: Served, workload: Workload) -> str:
    """Why a fit may not serve the workload; "" where it may. Without a service level an unknown capacity refuses nothing."""
    asks = workload.min_tok_s_per_user is not None or workload.max_ttft_s is not None
    return found.reason if asks and found.requests_per_month is None else ""
