"""A snapshot as rules see it: with what was last told, and what may be compared with what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tracker.alerting.judge import State
from tracker.alerting.rules import Asked
from tracker.answers.questions import parted
from tracker.answers.snapshot import ModelAnswer, Snapshot

States = Mapping[tuple[str, str], State]
OK, STALE, GROWN, OVER = "ok", "stale", "grown", "over"
THERE, GONE = "there", "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A snapshot and what it is compared with. ``bases``: what each question of the world asks, by workload and policy.

    A question of another basis, such as other tiers, starts anew. Prices that rules watch by themselves go by the default one.
    """

    snapshot: Snapshot
    states: States
    started_at: datetime  # sources that were not asked since are not complained of
    bases: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def stale(self, source: str) -> bool:
        """Whether a configured source is stale, so that its prices are missing and not gone."""
        return any(s.id == source and s.stale for s in self.snapshot.sources)

    def basis(self, *kinds: str, answer: ModelAnswer | None = None) -> str:
        """What is compared: the question of the answer, or the default one, and the sources of those kinds that were ever read."""
        read = sorted(s.id for s in self.snapshot.sources if s.kind in kinds and s.last_success is not None)
        asked = next(iter(self.bases.values()), "") if answer is None else self.bases.get((answer.workload.id, answer.policy), "")
        return "|".join([asked, *read])

    def all_asked(self, *kinds: str) -> bool:
        """Whether every source was tried: until then the cheapest known price is only that of those that answered first."""
        return all(s.last_attempt is not None for s in self.snapshot.sources if s.enabled and s.kind in kinds)


RENT, PAID = ("rent", "marketplace"), ("rent", "marketplace", "token")


def answers_of(rule: Asked, view: View) -> Iterator[ModelAnswer]:
    """The answers that a rule is about."""
    return (answer for answer in view.snapshot.every if rule.is_about(answer.model.id, answer.workload.id, *parted(answer.policy)))


def subject_of(answer: ModelAnswer) -> str:
    """Model, workload and policy."""
    return f"{answer.model.id}/{answer.workload.id}/{answer.policy}"
