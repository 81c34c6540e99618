"""How Python and the C library handle memory: what suits a book of tens of thousands of small values and forty threads that mostly wait."""

from __future__ import annotations

import gc
import sys

THRESHOLD = (50_000, 20, 20)  # the default of (700, 10, 10) takes a third of the time of a sweep of 30,000 offers
M_ARENA_MAX = -8  # malloc.h of glibc
ARENAS = 2


def collect_rarely() -> None:
    """Look for cycles after 50,000 new values instead of 700, and no more among those that were made while none were looked for."""
    gc.set_threshold(*THRESHOLD)
    if not gc.isenabled():
        gc.freeze()  # or the first look would be at everything that was imported: a tenth of a start
        gc.enable()


def collect_later() -> None:
    """Look for no cycles until ``collect_rarely``: what a start makes is there to stay."""
    gc.disable()


def share_arenas() -> None:
    """Let all threads share two heaps of the C library. With one each, a first round of all sources leaves 25 MB that nobody uses."""
    if sys.platform != "linux":
        return
    try:
        import ctypes  # here: no other part of the program needs it

        ctypes.CDLL(None).mallopt(M_ARENA_MAX, ARENAS)
    except (AttributeError, MemoryError, OSError):  # another C library, or one that a hardened system does not let us call
        return
