"""A reader of JSON schemas (draft 7), as far as Grafana's schema of a dashboard goes: enough to check one without a package."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]


def faults(value: Any, schema: Any, root: Json, place: str = "") -> list[str]:
    """Where a value breaks a JSON schema, for the keywords that Grafana's schema uses; another keyword is an error."""
    found: list[str] = []
    for keyword, wanted in schema.items():
        found += KEYWORDS[keyword](value, wanted, schema, root, place)
    return found


TYPES: dict[str, Any] = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}
Check = Callable[[Any, Any, Json, Json, str], list[str]]


def _type(value: Any, wanted: Any, schema: Json, root: Json, place: str) -> list[str]:
    fits = isinstance(value, TYPES[wanted]) and (wanted == "boolean" or not isinstance(value, bool))
    return [] if fits else [f"{place}: {value!r} is no {wanted}"]


def _properties(value: Any, wanted: Any, schema: Json, root: Json, place: str) -> list[str]:
    if not isinstance(value, dict):
        return []
    return [fault for name in value.keys() & wanted for fault in faults(value[name], wanted[name], root, f"{place}/{name}")]


def _additional(value: Any, wanted: Any, schema: Json, root: Json, place: str) -> list[str]:
    extra = value.keys() - schema.get("properties", {}).keys() if isinstance(value, dict) else set()
    if wanted is False:
        return [f"{place}: unknown {name}" for name in sorted(extra)]
    return [fault for name in extra for fault in faults(value[name], wanted, root, f"{place}/{name}")]


def _required(value: Any, wanted: Any, schema: Json, root: Json, place: str) -> list[str]:
    return [f"{place}: no {name}" for name in wanted if isinstance(value, dict) and name not in value]


def _items(value: Any, wanted: Any, schema: Json, root: Json, place: str) -> list[str]:
    items = value if isinstance(value, list) else []
    return [fault for number, item in enumerate(items) for fault in faults(item, wanted, root, f"{place}/{number}")]


def _branches(value: Any, wanted: Any, root: Json, place: str) -> list[list[str]]:
    return [faults(value, one, root, place) for one in wanted]


def _one_of(value: Any, wanted: Any, schema: Json, root: Json, place: str) -> list[str]:
    tried = _branches(value, wanted, root, place)
    return [] if sum(not one for one in tried) == 1 else [f"{place}: not exactly one of {len(tried)}", *min(tried, key=len)]


def _any_of(value: Any, wanted: Any, schema: Json, root: Json, place: str) -> list[str]:
    tried = _branches(value, wanted, root, place)
    return [] if any(not one for one in tried) else min(tried, key=len)


def _all_of(value: Any, wanted: Any, schema: Json, root: Json, place: str) -> list[str]:
    return [fault for one in _branches(value, wanted, root, place) for fault in one]


def _enum(value: Any, wanted: Any, schema: Json, root: Json, place: str) -> list[str]:
    return [] if value in wanted else [f"{place}: {value!r} is none of {wanted}"]


def _least_length(value: Any, wanted: Any, schema: Json, root: Json, place: str) -> list[str]:
    return [f"{place}: shorter than {wanted}"] if isinstance(value, str) and len(value) < wanted else []


def _bound(keeps: Callable[[Any, Any], bool]) -> Check:
    def check(value: Any, wanted: Any, schema: Json, root: Json, place: str) -> list[str]:
        wrong = isinstance(value, (int, float)) and not keeps(value, wanted)
        return [f"{place}: {value} is out of bounds"] if wrong else []

    return check


def _says_nothing(value: Any, wanted: Any, schema: Json, root: Json, place: str) -> list[str]:
    return []


KEYWORDS: dict[str, Check] = {
    "type": _type, "properties": _properties, "additionalProperties": _additional, "required": _required, "items": _items,
    "oneOf": _one_of, "anyOf": _any_of, "allOf": _all_of, "enum": _enum, "minLength": _least_length,
    "const": lambda value, wanted, schema, root, place: _enum(value, [wanted], schema, root, place),
    "$ref": lambda value, wanted, schema, root, place: faults(value, root["definitions"][wanted.rpartition("/")[2]], root, place),
    "maximum": _bound(operator.le), "exclusiveMaximum": _bound(operator.lt), "exclusiveMinimum": _bound(operator.gt),
} | dict.fromkeys(("$schema", "definitions", "description", "default", "format"), _says_nothing)  # fmt: skip
