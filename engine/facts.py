"""One value as one source states it, and the stated precedence by which one of several is used."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

PRECEDENCE = ("measured", "files", "config", "vendor", "secondary", "recipe", "derived", "rounded", "idealised", "overhead", "memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One value of one field as one source states it. Conflicting facts stay side by side and are never averaged."""

    field: str
    value: Decimal
    unit: str
    basis: str  # one of PRECEDENCE
    source: str
    checked: date


class MissingFact(ValueError):
    """A subject cannot be computed; names the subject, the field and what needs it."""

    def __init__(self, subject: str, field: str, needed_for: str) -> None:
        super().__init__(f"{subject}: {field} is not known, {needed_for} needs it")
        self.subject = subject
        self.field = field


def choose(facts: Iterable[Fact], field: str, bases: tuple[str, ...] = PRECEDENCE) -> Fact | None:
    """The fact of ``field`` whose basis comes first in ``bases``; of equals the one checked last; None without any."""
    named = [fact for fact in facts if fact.field == field and fact.basis in bases]
    return min(named, key=lambda fact: (bases.index(fact.basis), -fact.checked.toordinal()), default=None)


def spread(facts: Iterable[Fact], field: str) -> tuple[Fact, ...]:
    """Every stated value of ``field``, smallest first: the conflict as it is."""
    return tuple(sorted((fact for fact in facts if fact.field == field), key=lambda fact: fact.value))
