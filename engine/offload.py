"""Weights on GPU, RAM and disk of one's own machine. A separate answer: never ranked beside rentals that hold everything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from engine.gpus import Gpu
from engine.units import GB


def times_short(need_bytes: int, memory_gb: Decimal) -> Decimal:
    """How many times the memory (a label in GB, read as 10**9) the need is: 3.05 means a third of it fits."""
    if memory_gb <= 0:
        raise ValueError(f"memory must be above 0 GB, got {memory_gb}")
    return Decimal(need_bytes) / (memory_gb * GB)


def pooled_gb(gpu: Gpu, machines: int) -> Decimal:
    """Labels of several unified-memory machines added up, in GB: what a maker's page promises."""
    return gpu.memory_marketed_gb * machines


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One place weights can lie. ``bytes_s`` is its read bandwidth, None where unknown."""

    name: str  # gpu, ram, disk
    size_bytes: int
    bytes_s: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """How weights and cache lie over the places. ``short_bytes`` is what found no room; 0 fits.

    ``ceiling_tok_s`` bounds one stream: every place reads its share of the active weights, one after the other.
    """

    placed: tuple[tuple[str, int], ...]
    short_bytes: int
    ceiling_tok_s: Decimal | None
    note: str

    @property
    def fits(self) -> bool:
        """Whether everything found room."""
        return self.short_bytes == 0


def place(
    weight_bytes: int,
    cache_bytes: int,
    places: Sequence[Place],
    *,
    dense_bytes: int = 0,
    active_bytes: int | None = None,
    reserve_bytes: int = 0,
) -> Placement:
    """Fill the places in order: cache first, then the ``dense_bytes`` every token reads, then routed experts.

    ``reserve_bytes`` stays free in the first place. ``active_bytes`` are read for each token, dense ones included.
    """
    room = [p.size_bytes for p in places]
    if room:
        room[0] = max(0, room[0] - reserve_bytes)
    cache, missing_cache = _pour(cache_bytes, room)
    dense, missing_dense = _pour(min(dense_bytes, weight_bytes), room)
    experts, missing_experts = _pour(weight_bytes - min(dense_bytes, weight_bytes), room)
    totals = tuple((p.name, c + d + e) for p, c, d, e in zip(places, cache, dense, experts, strict=True))
    short = missing_cache + missing_dense + missing_experts
    return Placement(
        placed=totals,
        short_bytes=short,
        ceiling_tok_s=None if short else _ceiling(places, dense, experts, active_bytes),
        note=_note(totals, short),
    )


def _pour(size: int, room: list[int]) -> tuple[list[int], int]:
    """Bytes put in each place, taking them from ``room``, and the rest that did not fit."""
    put = []
    for index, free in enumerate(room):
        taken = min(size, free)
        room[index] = free - taken
        size -= taken
        put.append(taken)
    return put, size


def _ceiling(places: Sequence[Place], dense: list[int], experts: list[int], active_bytes: int | None) -> Decimal | None:
    """``1 / sum(bytes read there / bandwidth)``: dense weights whole, experts in the share a token activates."""
    if active_bytes is None:
        return None
    routed = max(0, active_bytes - sum(dense))
    share = Decimal(min(routed, sum(experts))) / sum(experts) if sum(experts) else Decimal(0)
    seconds = Decimal(0)
    for spot, fixed, routed_here in zip(places, dense, experts, strict=True):
        read = fixed + routed_here * share
        if read and spot.bytes_s is None:
            return None
        seconds += read / spot.bytes_s if spot.bytes_s else 0
    return 1 / seconds if seconds else None


def _note(totals: tuple[tuple[str, int], ...], short: int) -> str:
    lying = ", ".join(f"{size / GB:,.1f} GB in {name}" for name, size in totals if size)
    return f"{short / GB:,.1f} GB short; {lying}" if short else lying
