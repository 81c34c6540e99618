"""Which question an address asks: ``?workload=chat&policy=studiotv@hyperscalers``; the default one where it names none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import HTTPException

from tracker.answers.questions import Question, tracked
from tracker.answers.snapshot import ModelAnswer, Snapshot
from tracker.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question out of all that are tracked, and its answers."""

    question: Question
    questions: Sequence[Question]
    answers: Sequence[ModelAnswer]

    @property
    def others(self) -> list[tuple[str, Question]]:
        """The other questions, each with what an address must say to ask it."""
        return [(question.query, question) for question in self.questions if question != self.question]

    @property
    def query(self) -> str:
        """What an address must say to ask this one; empty for the default one."""
        return "" if self.question == self.questions[0] else self.question.query


def asked(world: World, snapshot: Snapshot, workload: str, policy: str) -> Asked:
    """The first question of that workload and policy, an empty name is any; 404 with those there are where it is none of them."""
    questions = tracked(world)
    for question in questions:
        if workload in ("", question.workload.id) and policy in ("", question.policy_id):
            return Asked(question=question, questions=questions, answers=snapshot.asked(question.workload.id, question.policy_id))
    wanted = " and ".join(f"{key} {name!r}" for key, name in (("workload", workload), ("policy", policy)) if name)
    known = ", ".join(f"{question.workload.id} with {question.policy_id}" for question in questions)
    raise HTTPException(404, detail=f"nobody asks for {wanted}; tracker.toml asks {known}")


def question_facts(question: Question) -> dict[str, Any]:
    """A question as JSON values; ``providers`` is null where any will do."""
    offers = question.offers
    return {
        "workload": question.workload.id, "policy": question.policy_id, "name": question.name, "models": question.models,
        "tiers": offers.tiers, "trusts": offers.trusts, "providers": None if offers.providers is None else sorted(offers.providers),
    }  # fmt: skip
