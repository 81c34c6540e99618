"""What a row may hold: how long a name is, how many GPUs, and text that databases and terminals do not choke on."""

from __future__ import annotations

import re

MAX_NAME = 300
MAX_GPUS = 10_000
MAX_TERM_MONTHS = 120
# control and invisible characters, marks that turn the reading direction, and halves of a character that no encoding takes
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")


def clean(text: str, most: int = MAX_NAME) -> str:
    """Printed text without control and direction characters, at most ``most`` characters; databases and terminals choke on them."""
    return _CONTROL.sub("", text)[:most].strip()
