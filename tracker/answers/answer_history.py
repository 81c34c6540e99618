"""The answer about a model over time as plain rows, for the command line and the API alike."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from tracker.answers.decided import Decided, course
from tracker.answers.questions import Question
from tracker.answers.recompute import Sizer, answer
from tracker.book.book import read_book
from tracker.database.rows import TICK
from tracker.present import money
from tracker.world import World

ANSWERS = ("setup", "breakeven")


def answer_history(
    connection: Connection,
    world: World,
    what: str,
    name: str,
    moments: Sequence[datetime],
    question: Question,
    known: datetime,
    undecided: Callable[[Sequence[datetime]], object] = lambda moments: None,
) -> Iterator[tuple[datetime, list[dict[str, Any]]]]:
    """At each moment the setup, or the break-even, that was decided then; before the first decision what the book of the time says.

    ``undecided`` is told those moments first: each of them reads a whole book.
    """
    model, sizer, sources = world.model(name), Sizer(world), world.config.sources
    of = {"model": model.id, "workload": question.workload.id, "policy": question.policy_id}
    decided = course(connection, sources, moments[0], moments[-1] + TICK, **of) if moments else []
    undecided([at for at in moments if not decided or at < decided[0].at])
    for at in moments:
        if place := bisect_right(decided, at, key=lambda entry: entry.at):
            yield at, [_decided(decided[place - 1], what)]
        else:
            book = read_book(connection, at, sources, known=known)
            yield at, [_answer(answer(world, sizer, book, model, question), what)]


def _answer(found: Any, what: str) -> dict[str, Any]:
    setup, rate, point = found.setup, found.rate, found.break_even
    facts = {
        "setup": None if setup is None else f"{setup.gpu_count_rented} x {setup.gpu} {setup.weight_format}",
        "provider": None if setup is None else setup.offer.provider,
        "usd_per_hour": None if setup is None else money(setup.usd_per_hour),
        "seen_at": found.seen_at,
        "fresh": found.all_fresh if what == "breakeven" else found.setup_fresh,
        "decided_at": None,
    }
    if what == "setup":
        return facts
    return facts | {
        "api_provider": None if rate is None else rate.rate.provider,
        "api_usd_per_mtok": None if rate is None else f"{rate.usd_per_mtok:.4f}",
        "break_even_tokens": None if point is None or point.tokens is None else f"{point.tokens:.0f}",
        "status": None if point is None else point.status,
        "verdict": None if found.verdict is None else found.verdict.answer,
    }


def _decided(found: Decided, what: str) -> dict[str, Any]:
    """The same facts of a decision. It was seen again after ``seen_at`` for as long as it held."""
    facts = {
        "setup": None if found.gpu is None else f"{found.gpu_count} x {found.gpu} {found.weight_format}",
        "provider": found.provider,
        "usd_per_hour": None if found.usd_per_hour is None else money(found.usd_per_hour),
        "seen_at": min((at for at in (found.seen_at, found.api_seen_at) if at is not None), default=None),
        "fresh": found.fresh if what == "breakeven" else found.provider is not None,
        "decided_at": found.at,
    }
    if what == "setup":
        return facts
    return facts | {
        "api_provider": found.api_provider,
        "api_usd_per_mtok": None if found.api_usd_per_mtok is None else f"{found.api_usd_per_mtok:.4f}",
        "break_even_tokens": None if found.break_even_tokens is None else f"{found.break_even_tokens:.0f}",
        "status": found.break_even_status,
        "verdict": found.verdict,
    }
