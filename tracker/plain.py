"""Any result as plain JSON values. Money and other decimals become strings, so that no digit is lost; times are ISO 8601 UTC."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from engine.exact import to_decimal

PLAIN = {str, int, float, bool, type(None)}


def plain(value: Any) -> Any:
    """``value`` built of dict, list, str, int, float, bool and None."""
    if type(value) in PLAIN:  # most are
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(entry) for entry in (sorted(value) if isinstance(value, set | frozenset) else value)]
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, Fraction):
        return f"{to_decimal(value):f}"
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    return value


def as_json(value: Any) -> str:
    """``value`` as indented JSON text."""
    return json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False)


def as_line(value: Any) -> str:
    """``value`` as JSON on one line."""
    return json.dumps(plain(value), ensure_ascii=False, allow_nan=False)
