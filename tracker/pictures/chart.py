"""What a picture shows, as values: no clock, no database, no drawing. A line is steps, and what is between them is unknown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class Step:
    """A price that was known to hold in [start, end), UTC."""

    start: datetime
    end: datetime
    value: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The steps of one thing, ascending and apart. ``role`` is what the message says of it."""

    label: str
    steps: tuple[Step, ...]
    role: str = "new"  # new, old, other


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Lines on one scale. ``unit`` is written at it: "USD per hour"."""

    unit: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Panels one below the other over the same time [start, end]. ``notes`` are the lines below them: whence and when."""

    title: str
    panels: tuple[Panel, ...]
    start: datetime
    end: datetime
    changed_at: datetime
    notes: tuple[str, ...] = ()


def joined(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The same with neighbours of one price as one step."""
    found: list[Step] = []
    for step in steps:
        if found and found[-1].end == step.start and found[-1].value == step.value:
            found[-1] = Step(found[-1].start, step.end, step.value)
        else:
            found.append(step)
    return tuple(found)
