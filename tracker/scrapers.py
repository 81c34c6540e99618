"""Finds the scraper module of a source."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

import scrapers
from tracker.config import Source
from tracker.errors import ConfigError, did_you_mean


def scraper_module(source: Source) -> ModuleType:
    """The module of ``scrapers`` that reads a source; ConfigError when there is none."""
    known = [module.name for module in pkgutil.iter_modules(scrapers.__path__)]
    if source.module not in known:
        hint = did_you_mean(source.module, known)
        raise ConfigError(f"sources.toml: [{source.id}] names module {source.module!r}, which scrapers/ does not have{hint}")
    module = importlib.import_module(f"scrapers.{source.module}")
    if not hasattr(module, "parse"):
        raise ConfigError(f"sources.toml: [{source.id}] module {source.module!r} has no parse function")
    return module


def currencies_of(source: Source) -> tuple[str, ...]:
    """Currencies the source's pages are printed in, as its module says in PRINTED_CURRENCIES; US dollars where it says nothing."""
    found: tuple[str, ...] = getattr(scraper_module(source), "PRINTED_CURRENCIES", ("USD",))
    return found
