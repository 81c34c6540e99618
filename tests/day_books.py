"""Figures a day the slow way: the book read at every moment, all seconds laid side by side. And those that the program keeps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN
from itertools import accumulate
from typing import Any

from histories import hour
from sqlalchemy import Engine, select

from tracker.book.book import read_book
from tracker.config import Source
from tracker.database.handle import reading
from tracker.rollup.run import DAY, GROUP

HOUR_S = 3_600
Key = tuple[Any, ...]


def by_the_book(db: Engine, sources: Mapping[str, Source], until: int) -> dict[Key, tuple[int, ...]]:
    """The book read one second into every hour and at its beginning: in between nothing happens in these histories."""
    seen: dict[Key, dict[tuple[Any, ...], int]] = defaultdict(lambda: defaultdict(int))
    with reading(db) as connection:
        for number in range(until):
            for moment, weight in ((hour(number), 1), (hour(number) + timedelta(seconds=1), HOUR_S - 1)):
                for entry in read_book(connection, moment, sources).offers:
                    found = entry.value
                    if not entry.fresh or entry.is_slice or found.trust in ("community", "unverified"):
                        continue
                    if found.availability == "unavailable" or found.price_kind not in ("list", "ask"):
                        continue
                    price = found.native_per_hour / found.gpu_count
                    nano = int((price * 10**9).to_integral_value(rounding=ROUND_HALF_EVEN))
                    sold = range(found.gpu_count, (found.max_gpu_count or found.gpu_count) + 1)
                    for count in {max(c for c in (1, 2, 4, 8, 16) if c <= one) for one in sold}:
                        day = (moment - datetime(1970, 1, 1, tzinfo=UTC)).days
                        key = (found.source, found.provider, found.gpu, count, found.tier, found.currency, day)
                        seen[key][found.sku, found.region, found.valid_from if "dated" in found.sku else None, nano] += weight
    return {key: figures(held) for key, held in seen.items()}


def figures(held: dict[tuple[Any, ...], int]) -> tuple[int, ...]:
    """Least, the price at the middle of all seconds laid side by side, most, different offers, and all seconds."""
    side_by_side = sorted((price, length) for (*_, price), length in held.items())
    middle = -(-sum(length for _, length in side_by_side) // 2)  # the last second of the first half
    ends = accumulate(length for _, length in side_by_side)
    median = next(price for (price, _), end in zip(side_by_side, ends, strict=True) if end >= middle)
    return side_by_side[0][0], median, side_by_side[-1][0], len({name[:3] for name in held}), sum(held.values())


def kept(db: Engine) -> dict[Key, tuple[int, ...]]:
    """What the program keeps, in the same shape."""
    columns = (GROUP.c.source, GROUP.c.provider, GROUP.c.gpu, GROUP.c.gpu_count, GROUP.c.tier, GROUP.c.currency, DAY.c.day)
    query = select(*columns, DAY.c.least, DAY.c.median, DAY.c.most, DAY.c.offers, DAY.c.held_s).join(GROUP, GROUP.c.id == DAY.c.group_id)
    with reading(db) as connection:
        return {tuple(row[:7]): tuple(row[7:]) for row in connection.execute(query)}
