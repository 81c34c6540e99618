"""Weight formats: bits per weight with their scales, fidelity order, and what runs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from engine.units import BITS_PER_BYTE


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightFormat:
    """One storage format of weights. ``bits_per_weight`` includes block scales (MXFP4: 4 + 8/32 = 4.25).

    ``fidelity`` orders formats: higher is closer to the 16-bit original; equal is a tie.
    ``compute`` is the compute format its kernels need natively (fp4, fp8, bf16); ``fallback_compute`` what they use elsewhere, or None.
    ``bytes_per_param_by_basis`` keeps figures other calculators use under their name (canitrun: q8_0 1.063), never mixed in silently.
    """

    id: str
    name: str
    bits_per_weight: Decimal
    fidelity: int
    engines: tuple[str, ...]
    compute: str = "bf16"
    fallback_compute: str | None = "bf16"
    bytes_per_param_by_basis: Mapping[str, Decimal] = field(default_factory=dict)
    source: str = ""

    @property
    def bytes_per_param(self) -> Decimal:
        """Bytes per weight, scales included."""
        return self.bits_per_weight / BITS_PER_BYTE


def fidelity_of(weight_format: WeightFormat, native_format: str, best: int) -> int:
    """Rank of the format for one model: the format a model ships in is as faithful as ``best``, the 16-bit rank."""
    return best if weight_format.id == native_format else weight_format.fidelity
