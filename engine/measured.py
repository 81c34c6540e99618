"""Speed from measured runs of the same deployment: the nearest lengths, between the measured concurrencies, never beyond them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import date

from engine.receipts import ReceiptLine
from engine.roofline import Work
from engine.speeds import ORDER, Deployment, Throughput, ThroughputPoint

MAX_AGE_DAYS = 400
NEAREST_FACTOR = 2.0  # a measured prompt or answer length further away than this is another workload
POINT_ERROR = 1.1  # two runs of one setup differ by about that much
OTHER_ENGINE_ERROR = 1.3  # engines differ by about a third on the same GPUs (overheads of 0.6 to 1.2 in engine.replicas.FITTED)


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


def measured_throughput(points: Sequence[ThroughputPoint], work: Work, concurrency: int, engine: str) -> Throughput | None:
    """The figure between the two nearest measured concurrencies (log-log); None outside of what was measured.

    ``points`` as :func:`matching_points` returns them; those of another ``engine`` have a wider band.
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
        error_factor=POINT_ERROR * distance * (1.0 if below.engine_name in (engine, "") else OTHER_ENGINE_ERROR),
        source=below.source,
        measured=min(below.measured, above.measured),
        note=note,
        receipt=(_point_line(below), _point_line(above)),
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
