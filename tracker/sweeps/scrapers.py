"""Finds the scraper module of a source. It is imported when the source is first due: no start waits for forty of them."""

from __future__ import annotations

import importlib
import re
from functools import cache
from pathlib import Path
from types import ModuleType

import scrapers
from tracker.config import Source
from tracker.errors import ConfigError, did_you_mean

_PARSE = re.compile(r"^def parse\(", re.MULTILINE)


def check_module(source: Source) -> None:
    """ConfigError where ``scrapers`` has no module that reads the source; nothing is imported."""
    known = _files()
    if source.module not in known:
        hint = did_you_mean(source.module, known)
        raise ConfigError(f"sources.toml: [{source.id}] names module {source.module!r}, which scrapers/ does not have{hint}")
    if not _PARSE.search(known[source.module].read_text(encoding="utf-8")):
        raise ConfigError(f"sources.toml: [{source.id}] module {source.module!r} has no parse function")


@cache
def _files() -> dict[str, Path]:
    """The modules of ``scrapers`` by name."""
    return {path.stem: path for folder in scrapers.__path__ for path in sorted(Path(folder).glob("*.py")) if path.stem != "__init__"}


def scraper_module(source: Source) -> ModuleType:
    """The module of ``scrapers`` that reads a source; ConfigError when there is none."""
    check_module(source)
    return importlib.import_module(f"scrapers.{source.module}")


def currencies_of(source: Source) -> tuple[str, ...]:
    """Currencies the source's pages are printed in, as its module says in PRINTED_CURRENCIES; US dollars where it says nothing."""
    found: tuple[str, ...] = getattr(scraper_module(source), "PRINTED_CURRENCIES", ("USD",))
    return found
