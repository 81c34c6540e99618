"""Bytes of a model's weights in one format, by stated precedence and with the basis they were counted on."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Literal

from engine.facts import choose
from engine.formats import WeightFormat
from engine.models import Checkpoint, ModelSpec
from engine.receipts import Receipt, ReceiptLine

WeightsBasis = Literal["files", "studiotv", "counted", "swfte", "canitrun"]
BITS_16_BYTES = 2

# Which stated parameter count a calculator starts from; the counted one where nobody stated another.
STATED_PARAMS: dict[WeightsBasis, tuple[str, ...]] = {
    "swfte": ("vendor", "rounded"),  # what the card or model name says: 2.8T, 816B
    "canitrun": ("rounded", "vendor"),  # 2800B, 820B
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """``size_bytes`` of one copy of all weights. ``basis`` names how it was counted, ``source`` who stated it."""

    size_bytes: int
    weight_format: str
    basis: str
    source: str
    receipt: Receipt = ()


def weight_bytes(model: ModelSpec, weight_format: WeightFormat, basis: WeightsBasis = "files") -> Weights:
    """Weights of the model in the format, in bytes.

    ``files``: the file listing of the official checkpoint in that format, else parameters x bytes with the 16-bit remainder.
    ``counted``: never the listing. ``studiotv``, ``swfte``, ``canitrun``: as those calculators count.
    """
    listed = official_build(model, weight_format.id)
    if listed is not None and basis in ("files", "studiotv", "canitrun"):
        return _listed(listed)
    table = weight_format.bytes_per_param_by_basis.get(basis)
    if table is not None:
        return _by_table(model, weight_format, basis, table)
    if basis in ("swfte", "canitrun"):
        return _by_table(model, weight_format, basis, weight_format.bytes_per_param)
    return _counted(model, weight_format)


def checkpoint_bytes(checkpoint: Checkpoint) -> Weights | None:
    """Weights of one named build, community and pruned ones too; None where nobody listed its files."""
    return None if checkpoint.size_bytes is None else _listed(checkpoint)


def official_build(model: ModelSpec, weight_format: str) -> Checkpoint | None:
    """The vendor's own build in the format, with a known size."""
    builds = (c for c in model.checkpoints if c.kind == "official" and c.weight_format == weight_format)
    return next((c for c in builds if c.size_bytes is not None), None)


def stated_params(model: ModelSpec, basis: WeightsBasis) -> tuple[int, str]:
    """Total parameters a calculator starts from, and who states them."""
    fact = choose(model.facts, "params", STATED_PARAMS.get(basis, ()))
    return (model.params, model.source) if fact is None else (int(fact.value), fact.source)


def active_share(model: ModelSpec, basis: WeightsBasis = "files") -> Decimal | None:
    """Share of the parameters one token touches, 0..1; None where the active count is unknown."""
    return None if model.params_active is None else Decimal(model.params_active) / stated_params(model, basis)[0]


def params_16bit(model: ModelSpec, weight_format: WeightFormat) -> tuple[int, str]:
    """Parameters that stay 16-bit in a build of this format, and why: stated, or the embedding and head a server keeps so."""
    if weight_format.bits_per_weight >= 16:
        return 0, "the format is 16-bit or wider"
    stated = choose(model.facts, f"params_16bit.{weight_format.id}")
    if stated is not None:
        return int(stated.value), stated.source
    if weight_format.id == model.native_format and model.params_16bit is not None:
        return model.params_16bit, model.source
    if "vllm" in weight_format.engines and model.vocab_size and model.hidden_size:
        copies = 1 if model.tied_embeddings else 2
        return copies * model.vocab_size * model.hidden_size, "embedding and output head: vocabulary x hidden size"
    return 0, "none stated; the bits per weight are taken as the average over the file"


def average_bits(model: ModelSpec, weights: Weights) -> Decimal:
    """Bits per parameter over the whole build."""
    return Decimal(8 * weights.size_bytes) / model.params


def weight_parts(model: ModelSpec, weight_format: WeightFormat) -> tuple[int, int]:
    """Bytes of the 16-bit remainder and of the parameters stored in the format, counted."""
    kept, _ = params_16bit(model, weight_format)
    return kept * BITS_16_BYTES, _product(model.params - kept, weight_format.bytes_per_param)


def active_bytes(model: ModelSpec, weight_format: WeightFormat) -> int | None:
    """Bytes of weights a token reads where the 16-bit remainder is read whole, counted; None where the active count is unknown.

    ``kept * 2 + (active - kept) * bytes per parameter``. For Kimi K3.1 Pro 139.5 GB: 114.7 for every token and 24.8 of experts, where 16 of
    its 896 experts are 25.8 GB (DevToolLab, 2026-11-07).
    """
    if model.params_active is None:
        return None
    kept, _ = params_16bit(model, weight_format)
    remainder, _ = weight_parts(model, weight_format)
    return remainder + _product(max(0, model.params_active - kept), weight_format.bytes_per_param)


def _listed(checkpoint: Checkpoint) -> Weights:
    assert checkpoint.size_bytes is not None
    line = ReceiptLine(name=f"files of {checkpoint.name}", value=checkpoint.size_bytes, unit="B", source=checkpoint.source)
    return Weights(
        size_bytes=checkpoint.size_bytes,
        weight_format=checkpoint.weight_format,
        basis="files",
        source=checkpoint.source,
        receipt=(line,),
    )


def _by_table(model: ModelSpec, weight_format: WeightFormat, basis: WeightsBasis, bytes_per_param: Decimal) -> Weights:
    params, source = stated_params(model, basis)
    receipt = (
        ReceiptLine(name="parameters", value=params, source=source),
        ReceiptLine(name=f"bytes per parameter, {weight_format.name}", value=bytes_per_param, unit="B", source=basis),
    )
    size = _product(params, bytes_per_param)
    return Weights(size_bytes=size, weight_format=weight_format.id, basis=basis, source=source, receipt=receipt)


def _counted(model: ModelSpec, weight_format: WeightFormat) -> Weights:
    kept, why = params_16bit(model, weight_format)
    remainder, rest = weight_parts(model, weight_format)
    receipt = (
        ReceiptLine(name="parameters", value=model.params, source=model.source),
        ReceiptLine(name="parameters kept 16-bit", value=kept, source=why),
        ReceiptLine(name=f"bytes per parameter, {weight_format.name}", value=weight_format.bytes_per_param, source=weight_format.source),
        ReceiptLine(name="weights", value=remainder + rest, unit="B", formula="kept * 2 + (parameters - kept) * bytes per parameter"),
    )
    basis = "counted with 16-bit remainder" if kept else "counted"
    return Weights(size_bytes=remainder + rest, weight_format=weight_format.id, basis=basis, source=model.source, receipt=receipt)


def _product(params: int, bytes_per_param: Decimal) -> int:
    return int((params * bytes_per_param).to_integral_value(rounding=ROUND_HALF_UP))
