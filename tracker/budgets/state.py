"""Where a budget stands at a moment."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

from engine.budgets import Span, Spent, hours_between
from engine.exact import to_decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One thing a budget is for. ``ahead`` is what the rest of the month comes to; None where no price is known now."""

    what: str
    spans: tuple[Span, ...]  # those of the month so far, for the receipt
    spent: Spent
    ahead: Fraction | None
    how: str  # what is counted on for the rest of the month


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetState:
    """A budget in a calendar month [month, end), ``at`` a moment of it. USD; hours of unknown price are counted and cost nothing here."""

    name: str
    month: datetime
    at: datetime
    end: datetime
    budget_usd: Decimal
    parts: tuple[Part, ...]

    @property
    def month_name(self) -> str:
        """The month as ISO 8601 has it, with four digits of the year: 2026-11, 0999-05."""
        return self.month.date().isoformat()[:7]

    @property
    def spent_usd(self) -> Decimal | None:
        """The month to date, over the hours whose price was known; None where there was none of them: that is not 0."""
        known = [usd for part in self.parts if (usd := self.spent_by(part)) is not None]
        return to_decimal(sum(known, Fraction(0))) if known else None

    def spent_by(self, part: Part) -> Fraction | None:
        """What one part of it has cost so far; None where no price was known in any hour."""
        passed, spent = hours_between(self.month, self.at), part.spent
        return None if passed and not spent.usd and spent.unknown_hours >= passed else spent.usd

    @property
    def unknown_hours(self) -> Decimal:
        """Hours of the month so far for which no price was known, of the part that lacks most."""
        return to_decimal(max(part.spent.unknown_hours for part in self.parts))

    @property
    def projected_usd(self) -> Decimal | None:
        """The whole month at the pace of now; None where a price is not known now."""
        whole = [_whole(part) for part in self.parts]
        return None if None in whole else to_decimal(sum((usd for usd in whole if usd is not None), Fraction(0)))

    @property
    def projected_share(self) -> Decimal | None:
        """What the whole month comes to over what was planned for it."""
        projected = self.projected_usd
        return None if projected is None else projected / self.budget_usd

    @property
    def driver(self) -> Part:
        """What costs most of it."""
        return max(self.parts, key=lambda part: part.spent.usd + (part.ahead or 0))


def _whole(part: Part) -> Fraction | None:
    return None if part.ahead is None else part.spent.usd + part.ahead
