"""How often Python looks for garbage in cycles: seldom, since a book is made of tens of thousands of small values without any."""

from __future__ import annotations

import gc

THRESHOLD = (50_000, 20, 20)  # the default of (700, 10, 10) takes a third of the time of a sweep of 30,000 offers


def collect_rarely() -> None:
    """Look for cycles after 50,000 new values instead of 700."""
    gc.set_threshold(*THRESHOLD)
