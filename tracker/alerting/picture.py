"""A picture that goes with a message."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Picture:
    """A PNG, its file name, and what to say where it cannot be shown."""

    name: str
    words: str
    png: bytes
