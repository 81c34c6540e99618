"""The winner a day: which setup was the answer for a model the longest, and what the day's answers cost, by the time they held."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from sqlalchemy import Connection, select

from tracker.answers.decided import DECISION, Decided, Subject, course
from tracker.book.spans import DAY_S, by_day, lower_median
from tracker.config import Source
from tracker.database.rows import from_s, scaled, to_s
from tracker.database.schema import RENT_SCALE

WINNER = ("provider", "sku", "region", "tier", "gpu", "gpu_count", "weight_format")


@dataclass(slots=True)
class _Day:
    held: dict[tuple[Any, ...], int] = field(default_factory=lambda: defaultdict(int))  # setup -> s
    prices: dict[int, int] = field(default_factory=lambda: defaultdict(int))  # USD an hour in 1e-9 -> s
    cheapest: dict[tuple[Any, ...], int] = field(default_factory=dict)


def model_days(
    connection: Connection, sources: Mapping[str, Source], subject: Subject, first: int, last: int, until: int
) -> list[dict[str, Any]]:
    """Rows of the days ``first`` to ``last`` as far as ``until`` (s); a day without a fresh offer has none.

    Of setups that held equally long the cheaper one won.
    """
    start, end = first * DAY_S, min((last + 1) * DAY_S, until)
    if start >= end:
        return []
    model, workload, policy = subject
    found = course(connection, sources, from_s(start), from_s(end), model=model, workload=workload, policy=policy)
    names = {"model": model, "workload": workload, "policy": policy}
    return [names | {"day": day} | _row(facts) for day, facts in sorted(_days(found, start, end).items())]


def _days(found: Sequence[Decided], start: int, end: int) -> dict[int, _Day]:
    days: dict[int, _Day] = defaultdict(_Day)
    moments = [max(to_s(entry.at), start) for entry in found]
    for entry, (begun, ended) in zip(found, pairwise([*moments, end]), strict=True):
        if entry.usd_per_hour is None:
            continue
        setup, price = tuple(getattr(entry, name) for name in WINNER), scaled(entry.usd_per_hour, RENT_SCALE)
        for number, length in by_day([(begun, ended)]):
            day = days[number]
            day.held[setup] += length
            day.prices[price] += length
            day.cheapest[setup] = min(price, day.cheapest.get(setup, price))
    return days


def _row(day: _Day) -> dict[str, Any]:
    winner = min(day.held, key=lambda setup: (-day.held[setup], day.cheapest[setup], setup))
    figures = {"least": min(day.prices), "median": lower_median(day.prices), "most": max(day.prices), "setups": len(day.held)}
    return dict(zip(WINNER, winner, strict=True)) | {"held_s": day.held[winner], "decided_s": sum(day.held.values())} | figures


def first_decision(connection: Connection, subject: Subject) -> int:
    """Day of the first decision."""
    names = zip(("model", "workload", "policy"), subject, strict=True)
    query = select(DECISION.c.at).where(*(DECISION.c[name] == value for name, value in names)).order_by(DECISION.c.at).limit(1)
    return int(connection.execute(query).scalar_one()) // DAY_S
