"""A sweep whose rows are those of the last one: most are. It is known by a digest, and then nothing is read, judged or compared."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from operator import attrgetter

from sqlalchemy import ColumnElement, Connection, exists, or_, select
from sqlmodel import SQLModel

from tracker.listing import GOOD, OFFERS, RATES, SWEEP, UNSEEN
from tracker.rows import OfferRow, RateRow

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_ALL = {kind: attrgetter(*(field.name for field in fields(kind))) for kind in (OfferRow, RateRow)}


def rows_digest(offers: Sequence[OfferRow], rates: Sequence[RateRow]) -> str:
    """A digest of everything the rows say, in their order."""
    told = (list(map(_ALL[OfferRow], offers)), list(map(_ALL[RateRow], rates)))
    return hashlib.blake2b(_encode(told).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """What is known of a sweep before its rows are judged. ``warned``: it says what the last one said, which looked odd in this."""

    digest: str
    warned: Counter[str] | None


NEW = Repeat(digest="", warned=None)


def repeat_of(connection: Connection, source: str, offers: Sequence[OfferRow], rates: Sequence[RateRow]) -> Repeat:
    """Whether the rows are those of the last whole sweep, with nothing that waits or is missing: then each is listed at its price.

    A source that changed something the last time is likely to do so again: its digest is not worked out.
    """
    columns = (SWEEP.c.rows_hash, SWEEP.c.changed, SWEEP.c.complete, SWEEP.c.quarantined, SWEEP.c.conflicts, SWEEP.c.warned)
    query = select(*columns).where(SWEEP.c.source == source, SWEEP.c.status.in_(GOOD)).order_by(SWEEP.c.at.desc()).limit(1)
    last = connection.execute(query).first()
    if last is None or last.changed or not (offers or rates):
        return NEW
    digest = rows_digest(offers, rates)
    same = last.complete and last.rows_hash == digest and not last.quarantined and not last.conflicts
    if not same or connection.scalar(select(or_(_waits(source), _absent(source)))):
        return Repeat(digest=digest, warned=None)
    return Repeat(digest=digest, warned=Counter(json.loads(last.warned)))


def _waits(source: str) -> ColumnElement[bool]:
    quarantine = SQLModel.metadata.tables["quarantine"]
    return exists().where(quarantine.c.source == source, quarantine.c.state == "pending")


def _absent(source: str) -> ColumnElement[bool]:
    """Whether a price of the source is listed that its last sweep did not print."""
    return or_(
        *(
            exists().where(
                UNSEEN.c.kind == kind.name,
                UNSEEN.c.until.is_(None),
                UNSEEN.c.target == kind.dimension.c.id,
                kind.dimension.c.source == source,
            )
            for kind in (OFFERS, RATES)
        )
    )
