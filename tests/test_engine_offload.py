"""Weights over GPU, RAM and disk of one's own machine, and memory that falls short."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sizes import device

from engine.offload import Place, place, pooled_gb, times_short
from engine.units import GB

D = Decimal
GPU = Place(name="gpu", size_bytes=100 * GB, bytes_s=D(1000 * GB))
RAM = Place(name="ram", size_bytes=500 * GB, bytes_s=D(100 * GB))
DISK = Place(name="disk", size_bytes=4000 * GB, bytes_s=D(10 * GB))


def test_cache_and_dense_weights_come_first_then_experts() -> None:
    """100 GB of GPU less 10 reserved: 20 of cache, 30 dense, 40 of experts; 160 of experts go to RAM."""
    found = place(230 * GB, 20 * GB, (GPU, RAM, DISK), dense_bytes=30 * GB, reserve_bytes=10 * GB)
    assert dict(found.placed) == {"gpu": 90 * GB, "ram": 160 * GB, "disk": 0}
    assert (found.fits, found.note) == (True, "90.0 GB in gpu, 160.0 GB in ram")


def test_one_stream_reads_every_place_in_turn() -> None:
    """Of 200 GB of experts a token reads 10: 2 from the GPU (40 GB lie there), 8 from RAM, beside 30 GB of dense weights."""
    found = place(230 * GB, 20 * GB, (GPU, RAM), dense_bytes=30 * GB, active_bytes=40 * GB, reserve_bytes=10 * GB)
    assert found.ceiling_tok_s == 1 / (D(30 + 2) / 1000 + D(8) / 100)


def test_streaming_experts_from_disk_is_as_slow_as_the_disk() -> None:
    """Seed 002: 114.7 GB stay in memory of a 512 GB Mac, 1,446.5 GB of experts stream from its SSD: about 0.37 tokens a second.

    16 of 896 experts a token; 384 GiB usable at 819 GB/s and an SSD of 7.4 GB/s are assumed, so only the size is compared.
    """
    mac = Place(name="gpu", size_bytes=384 * 2**30, bytes_s=D(819 * GB))
    ssd = Place(name="disk", size_bytes=4000 * GB, bytes_s=D("7.4") * GB)
    dense, experts = 114_700_000_000, 1_446_500_000_000
    found = place(dense + experts, GB, (mac, ssd), dense_bytes=dense, active_bytes=dense + experts * 16 // 896)
    assert found.ceiling_tok_s is not None
    assert D("0.3") < found.ceiling_tok_s < D("0.4")


def test_what_finds_no_room_is_said() -> None:
    found = place(700 * GB, 20 * GB, (GPU, RAM))
    assert (found.fits, found.short_bytes, found.ceiling_tok_s) == (False, 120 * GB, None)
    assert found.note == "120.0 GB short; 100.0 GB in gpu, 500.0 GB in ram"
    assert place(1, 0, ()).short_bytes == 1


def test_an_unknown_bandwidth_gives_no_ceiling() -> None:
    unknown = Place(name="ram", size_bytes=500 * GB)
    assert place(230 * GB, 0, (GPU, unknown), active_bytes=10 * GB).ceiling_tok_s is None
    assert place(50 * GB, 0, (GPU, unknown), active_bytes=10 * GB).ceiling_tok_s == 100
    assert place(50 * GB, 0, (GPU, unknown)).ceiling_tok_s is None


@given(
    weights=st.integers(0, 10**13),
    cache=st.integers(0, 10**12),
    sizes=st.lists(st.integers(0, 10**13), max_size=4),
    dense=st.integers(0, 10**13),
    reserve=st.integers(0, 10**12),
)
def test_every_byte_is_somewhere(weights: int, cache: int, sizes: list[int], dense: int, reserve: int) -> None:
    places = [Place(name=str(index), size_bytes=size) for index, size in enumerate(sizes)]
    found = place(weights, cache, places, dense_bytes=dense, reserve_bytes=reserve)
    assert sum(size for _, size in found.placed) + found.short_bytes == weights + cache
    assert all(put <= size for (_, put), size in zip(found.placed, sizes, strict=True))


def test_times_short_reads_the_label_as_decimal_gigabytes() -> None:
    assert times_short(1536 * GB, D(512)) == 3
    with pytest.raises(ValueError, match="memory must be above 0 GB"):
        times_short(1, D(0))


def test_labels_of_several_machines_add_up() -> None:
    assert pooled_gb(device(memory_marketed_gb=D(512)), 2) == 1024
