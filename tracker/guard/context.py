"""What every sweep is judged by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tracker.book.exchange import Exchange
from tracker.config import Source, whole_s
from tracker.guard.settings import GuardSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """Limits, the sources with their age limits, and the newest exchange rates."""

    settings: GuardSettings
    sources: Mapping[str, Source]
    exchange: Exchange

    def is_fresh(self, source: str, seen: int, at: int) -> bool:
        """Whether a price of ``source`` seen at ``seen`` is within its age limit at ``at``, both in s."""
        known = self.sources.get(source)
        return known is not None and at - seen <= whole_s(known.settings.max_age_hours)
