"""The values of an offer's point as SQLite keeps them: in one number, where three columns made a row a third longer.

``offer_point`` has a column ``packed`` there, and its price, availability and max_gpu_count are generated from it whenever they are
read (migration 0018): by the program, by the views, and by whoever opens the file. PostgreSQL keeps the three plainly.

Its bits, from the lowest: two of the availability; two that say which of STEPS the price is counted in, the largest that it is a whole
number of; the price. A negative number has the most GPUs in eight bits before the price. NULL is a price that is gone. What does not fit
is JSON of the three: a price of more than 59 bits of steps (51 beside the most GPUs), one below zero or gone with an availability, a
machine of more than 255 GPUs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

from tracker.database.schema import MAX_SCALED

STEPS = (1, 10**3, 10**5, 10**7)  # of 1e-9: a price of up to nine, six, four or two decimals, as most are printed
VALUES = ("price", "availability", "max_gpu_count")
KEY = ("offer_id", "at")


def packed(price: int | None, availability: int, max_gpu_count: int | None) -> int | str | None:
    """The three in one; ValueError where they are no numbers that a database holds."""
    if price is None and availability == 0 and max_gpu_count is None:
        return None
    if price is None or price < 0 or not 0 <= availability <= 3:
        return _spelled(price, availability, max_gpu_count)
    code = 3 if price % STEPS[3] == 0 else 2 if price % STEPS[2] == 0 else 1 if price % STEPS[1] == 0 else 0
    low, steps = code << 2 | availability, price // STEPS[code]
    if max_gpu_count is None:
        number = steps << 4 | low
    elif 0 <= max_gpu_count <= 255:
        number = -(steps << 12 | max_gpu_count << 4 | low)
    else:
        return _spelled(price, availability, max_gpu_count)
    return number if abs(number) <= MAX_SCALED else _spelled(price, availability, max_gpu_count)


def _spelled(*values: int | None) -> str:
    if any(value is not None and abs(value) > MAX_SCALED for value in values):
        raise ValueError(f"{values} are larger than the database holds")
    return json.dumps(values, separators=(",", ":"))


def as_kept(
    dialect: str, table: str, names: Sequence[str], rows: Iterable[tuple[Any, ...]]
) -> tuple[Sequence[str], list[tuple[object, ...]]]:
    """Rows of the named columns as a database keeps them: the points of offers packed on SQLite, all others as they are."""
    if table != "offer_point" or dialect != "sqlite":
        return names, list(rows)
    ordered = rows if tuple(names) == (*KEY, *VALUES) else map(itemgetter(*map(list(names).index, (*KEY, *VALUES))), rows)
    return (*KEY, "packed"), [(id_, at, packed(price, available, most)) for id_, at, price, available, most in ordered]
