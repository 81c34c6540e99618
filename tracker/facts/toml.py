"""One table of the catalogue, validated: an unknown key or a wrong value is one clear error with file, key and reason."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from engine.facts import PRECEDENCE, Fact, choose
from tracker.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from tracker.facts.schema import FactTable, OtherFact

T = TypeVar("T", bound=BaseModel)

# "overhead" (weights with cache or reserve on top) is another quantity: shown, never chosen.
CHOOSABLE = tuple(basis for basis in PRECEDENCE if basis != "overhead")
UNITS = {
    "params": "parameters",
    "params_active": "parameters",
    "params_16bit": "parameters",
    "kv_bytes_per_token": "B/token",
    "memory_marketed_gb": "GB",
    "memory_reported_mib": "MiB",
    "bandwidth_gb_s": "GB/s",
}


def validated(model: type[T], values: Any, path: Path, where: str = "") -> T:
    """``values`` as ``model``; ConfigError names file, table, key and reason, with the closest known key."""
    place = f"{path}: [{where}]" if where else f"{path}:"
    if not isinstance(values, dict):
        raise ConfigError(f"{place} must be a table, found {type(values).__name__}; write it as [{where}]")
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise ConfigError(f"{place} {_reason(model, error)}") from error


def _reason(model: type[BaseModel], error: ValidationError) -> str:
    # Of an alias only the table form has keys: its errors say more than "should be a string".
    first = max(error.errors(), key=lambda e: e["type"] == "extra_forbidden")
    loc = [part for part in first["loc"] if part not in ("str", "AliasTable")]
    key = ".".join(str(part + 1) if isinstance(part, int) else part for part in loc)
    if first["type"] == "extra_forbidden":
        return f"{key}: unknown key{did_you_mean(str(loc[-1]), _model_at(model, loc[:-1]).model_fields)}"
    if first["type"] == "missing":
        return f"{key}: is missing"
    message = first["msg"].removeprefix("Value error, ")
    return f"{key}: {message}" if key else message


def _model_at(model: type[BaseModel], loc: Iterable[int | str]) -> type[BaseModel]:
    for part in loc:
        field = model.model_fields.get(str(part))
        model = next(iter(_models_in(field.annotation)), model) if field else model
    return model


def _models_in(annotation: Any) -> Iterable[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


def stated(field: str, entries: Iterable[FactTable] | None, *, basis: str, source: str, checked: date) -> list[Fact]:
    """The values one key states, each with basis, source and date; those without their own take the table's."""
    return [
        Fact(
            field=field,
            value=entry.value,
            unit=UNITS[field],
            basis=entry.basis or basis,
            source=entry.source or source,
            checked=entry.checked or checked,
        )
        for entry in entries or ()
    ]


def other(facts: Iterable[OtherFact], checked: date) -> list[Fact]:
    """Stated values of further fields."""
    return [Fact(field=f.field, value=f.value, unit=f.unit, basis=f.basis, source=f.source, checked=f.checked or checked) for f in facts]


def chosen(facts: Iterable[Fact], field: str) -> Decimal | None:
    """The value of ``field`` that is used: first basis in ``CHOOSABLE``, of equals the first checked last; None when unknown."""
    fact = choose(facts, field, CHOOSABLE)
    return fact.value if fact else None


def whole(facts: Iterable[Fact], field: str, place: str) -> int | None:
    """The chosen value as a whole number; ConfigError when it has a fraction."""
    value = chosen(facts, field)
    if value is None:
        return None
    if value != value.to_integral_value():
        raise ConfigError(f"{place} {field}: must be a whole number, found {value}")
    return int(value)
