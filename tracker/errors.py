"""Errors a person reads: what is wrong, where, and what to do. The command line prints them on one line and exits non-zero."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class BreakevenError(Exception):
    """Anything a user can mend; shown as one line, never as a traceback."""


class ConfigError(BreakevenError):
    """A configuration file is wrong: names file, key and reason."""


class UnknownName(BreakevenError):
    """A name nobody knows, with the closest one that exists."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A closing `` (did you mean x?)`` for the nearest known name; empty when none is near."""
    near = difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=0.5)
    return f" (did you mean {near[0]}?)" if near else ""
