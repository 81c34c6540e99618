"""What the sweeps of each source come to: a look counts on from the one before, so that it costs by what was swept since, and not by a
year of sweeps.

What was counted holds where nothing was put in, moved or taken away among it: the last sweep stands at its moment, every sweep with a
higher number than any had then is later than it, and the first sweeps that retention may take are still there. Else a source is
counted anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import Connection

from tracker.book.listing import GOOD
from tracker.database.postgres import marked

LEFT = 5  # sweeps of a source that retention leaves before its horizon, at most: where it takes some, another one is the next


class Swept(NamedTuple):
    """A sweep, as its row has it."""

    id: int
    at: int
    lag_ms: int
    status: str
    rows: int
    skipped: str
    took_ms: int
    bytes: int
    error: str
    conflicts: int


@dataclass(slots=True)
class Tally:
    """Of a source's sweeps up to a moment: how many there are, how many failed, the last of all and the last that was kept."""

    sweeps: int = 0
    failures: int = 0
    last: Swept | None = None
    good: Swept | None = None

    def add(self, swept: Swept) -> None:
        """Count the next one."""
        self.sweeps += 1
        self.last = swept
        if swept.status in GOOD:
            self.good = swept
        else:
            self.failures += 1


class _Head(NamedTuple):
    """What either statement tells of a source beside its sweeps. ``sixth``: when the first sweep after the LEFT first ones was."""

    source: str
    newest: int  # number of any source's
    sixth: int | None
    sweeps: int  # counting: all of them; counting on: those with a higher number than the newest had before
    failures: int


Known = dict[str, tuple[Tally, int | None]]


@dataclass(slots=True)
class Tallies:
    """Owns what was counted at the last look. One thread looks at a time."""

    _newest: int = 0
    _known: Known = field(default_factory=dict)

    def of(self, connection: Connection, sources: Collection[str], at: int) -> Mapping[str, Tally]:
        """The tally of each source that was ever swept, up to a moment (s)."""
        known, self._known = self._known, {}  # whatever goes wrong from here on, the next look counts anew
        found = self._counted_on(connection, {source: known[source] for source in sources if source in known}, at)
        self._known = found | self._counted(connection, [source for source in sources if source not in found], at)
        return {source: tally for source, (tally, _) in self._known.items()}

    def _counted_on(self, connection: Connection, known: Known, at: int) -> Known:
        """Of those sources the ones that hold."""
        since = {source: tally.last.at for source, (tally, _) in known.items() if tally.last is not None and tally.last.at <= at}
        values, found = [*(part for pair in since.items() for part in pair), self._newest], Known()
        for head, sweeps in _by_source(connection, _counting_on(len(since)), values) if since else ():
            self._newest = head.newest
            tally, sixth = known[head.source]
            if sixth is not None and (head.sixth, sweeps[0], head.sweeps) == (sixth, tally.last, len(sweeps) - 1):
                found[head.source] = (tally, sixth)
                for swept in sweeps[1:]:
                    if swept.at <= at:
                        tally.add(swept)
        return found

    def _counted(self, connection: Connection, sources: Sequence[str], at: int) -> Known:
        """Of those sources the ones that were ever swept."""
        found = Known()
        for head, sweeps in _by_source(connection, _counting(len(sources)), [*sources, at]) if sources else ():
            self._newest = head.newest
            good = [swept for swept in sweeps if swept.status in GOOD]
            found[head.source] = (Tally(head.sweeps, int(head.failures), sweeps[-1], good[-1] if good else None), head.sixth)
        return found


def _by_source(connection: Connection, statement: str, values: Sequence[Any]) -> Iterator[tuple[_Head, list[Swept]]]:
    """What the statement tells of each source, and the sweeps with it, ascending."""
    rows = connection.exec_driver_sql(marked(connection, statement), tuple(values)).all()
    wide = len(_Head._fields)
    for _, group in groupby(rows, itemgetter(0)):
        mine = list(group)
        yield _Head(*mine[0][:wide]), [Swept(*row[wide:]) for row in mine]


# as text: they are asked with every look, and to build them anew takes longer than to answer them
_SWEEP = ", ".join(f"sweep.{name}" for name in Swept._fields)
_HEAD = f"""(select max(id) from sweep),
    (select early.at from sweep early where early.source = sweep.source order by early.at limit 1 offset {LEFT})"""
_FAILED = "case when status in ('ok', 'unchanged') then 0 else 1 end"


def _counting_on(sources: int) -> str:
    """Of each source, from a sweep of it on."""
    return f"""with asked(source, since) as (values {", ".join(["(?, ?)"] * sources)}),
    newer(source, number) as (select source, count(*) from sweep where id > ? group by source)
    select sweep.source, {_HEAD}, coalesce((select number from newer where newer.source = sweep.source), 0), 0, {_SWEEP}
    from asked join sweep on sweep.source = asked.source and sweep.at >= asked.since order by sweep.source, sweep.at"""


def _counting(sources: int) -> str:
    """Of each source, up to a moment: all of its sweeps as numbers, and the last one and the last good one."""
    return f"""with told(source, number, failures, last, good) as (
    select source, count(*), sum({_FAILED}), max(at), max(case when status in ('ok', 'unchanged') then at end)
    from sweep where source in ({", ".join("?" * sources)}) and at <= ? group by source)
    select sweep.source, {_HEAD}, told.number, told.failures, {_SWEEP}
    from told join sweep on sweep.source = told.source and sweep.at in (told.last, told.good) order by sweep.source, sweep.at"""
