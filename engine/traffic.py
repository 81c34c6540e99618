"""Bytes a token moves and the times that follow: decode ceiling, answer time, download time."""

from __future__ import annotations

from decimal import Decimal

from engine.facts import MissingFact, choose
from engine.formats import WeightFormat
from engine.gpus import Gpu
from engine.models import ModelSpec
from engine.units import BITS_PER_BYTE, GB
from engine.weights import WeightsBasis

GBIT = 10**9


def weight_traffic_bytes(model: ModelSpec, weight_format: WeightFormat, basis: WeightsBasis = "files") -> int:
    """Bytes of weights one token of a single stream reads: active parameters x bytes per parameter."""
    if model.params_active is None:
        raise MissingFact(model.id, "params_active", "the weight traffic of a token")
    per_param = weight_format.bytes_per_param_by_basis.get(basis, weight_format.bytes_per_param)
    return int(model.params_active * per_param)


def bandwidth_bytes_s(gpu: Gpu, bases: tuple[str, ...] = ()) -> Decimal:
    """Memory bandwidth of one device in bytes per second; with ``bases``, as that kind of source states it where it does."""
    stated = choose(gpu.facts, "bandwidth_gb_s", bases)
    value = stated.value if stated is not None else gpu.bandwidth_gb_s
    if value is None:
        raise MissingFact(gpu.id, "bandwidth_gb_s", "a decode ceiling")
    return value * GB


def decode_ceiling_tok_s(
    model: ModelSpec,
    gpu: Gpu,
    weight_format: WeightFormat,
    gpu_count: int = 1,
    *,
    basis: WeightsBasis = "files",
    bandwidth_bases: tuple[str, ...] = (),
) -> Decimal:
    """Tokens per second no single stream can exceed: ``bandwidth / (active parameters * bytes)``. A bound, not a forecast.

    It leaves out cache, links and overhead; measured rates are about a third of it (see engine.roofline).
    """
    return gpu_count * bandwidth_bytes_s(gpu, bandwidth_bases) / weight_traffic_bytes(model, weight_format, basis)


def answer_seconds(tokens: int, tok_s: Decimal) -> Decimal:
    """Seconds until the last of ``tokens`` at a steady rate."""
    if tok_s <= 0:
        raise ValueError(f"the rate must be above 0 tokens per second, got {tok_s}")
    return tokens / tok_s


def download_seconds(size_bytes: int, gbit_per_s: Decimal) -> Decimal:
    """Seconds to fetch ``size_bytes`` over a link of 10**9 bits per second times ``gbit_per_s``, used fully."""
    if gbit_per_s <= 0:
        raise ValueError(f"the link must be above 0 Gbit/s, got {gbit_per_s}")
    return Decimal(size_bytes * BITS_PER_BYTE) / (gbit_per_s * GBIT)
