"""What a row may hold: how long a name is, how many GPUs, and text that databases and terminals do not choke on; and how much a
statement may ask for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TypeVar

MAX_NAME = 300
MAX_GPUS = 10_000
MAX_TERM_MONTHS = 120
MAX_ASKED = 500  # values in one statement: SQLite allows 999 parameters in old builds
# control and invisible characters, marks that turn the reading direction, and halves of a character that no encoding takes
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")

Value = TypeVar("Value")


def clean(text: str, most: int = MAX_NAME) -> str:
    """Printed text without control and direction characters, at most ``most`` characters; databases and terminals choke on them."""
    return _CONTROL.sub("", text)[:most].strip()


def in_parts(values: Sequence[Value]) -> Iterator[Sequence[Value]]:
    """The values, so many together as one statement may ask for."""
    return (values[start : start + MAX_ASKED] for start in range(0, len(values), MAX_ASKED))
