"""Column types of our own."""

from __future__ import annotations

from typing import Any

from sqlalchemy import LargeBinary
from sqlalchemy.types import TypeDecorator


class Hex(TypeDecorator[str]):
    """A hash as hexadecimal text here, in half as many bytes in the database; empty is empty."""

    impl = LargeBinary
    cache_ok = True

    @property
    def python_type(self) -> type[str]:
        """What a value is here."""
        return str

    def process_bind_param(self, value: str | None, dialect: Any) -> bytes | None:
        """To the database; ValueError for what is not hexadecimal."""
        return None if value is None else bytes.fromhex(value)

    def process_result_value(self, value: bytes | None, dialect: Any) -> str | None:
        """From the database."""
        return None if value is None else bytes(value).hex()
