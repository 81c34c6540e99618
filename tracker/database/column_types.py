"""Column types of our own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import DateTime, Interval, LargeBinary
from sqlalchemy.types import TypeDecorator

HASH_SIZE = 16  # digits of a hash of 8 bytes: enough to tell an input from the one before it (migration 0019 says why)


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


class Moment(TypeDecorator[datetime]):
    """An aware time, in UTC here; SQLite keeps it without its zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def coerce_compared_value(self, op: Any, value: Any) -> Any:
        """A span of time that is added stays a span."""
        return Interval() if isinstance(value, timedelta) else self

    def process_bind_param(self, value: datetime | None, dialect: Any) -> datetime | None:
        """To the database; ValueError for a time without a zone."""
        if value is not None and value.tzinfo is None:
            raise ValueError(f"{value} has no zone")
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Any) -> datetime | None:
        """From the database."""
        if value is None:
            return None
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
