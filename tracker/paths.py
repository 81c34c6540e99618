"""Where configuration and data live. Directories are named here and made by whoever writes into them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
APP = "breakeven"


def config_dir() -> Path:
    """The shipped configuration: inside the package of a wheel, ``<repo>/config`` of a checkout (editable ones too)."""
    packaged = HERE / "_config"  # exists in a wheel only: an editable install imports this file from the checkout
    return packaged if packaged.is_dir() else HERE.parent / "config"


def user_config_dir() -> Path:
    """The user's own configuration, whose tables replace shipped ones: $BREAKEVEN_CONFIG, else the system's place for it."""
    return _chosen("BREAKEVEN_CONFIG") or _system_dir("XDG_CONFIG_HOME", ".config")


def data_dir() -> Path:
    """The user's data (database, kept bodies): $BREAKEVEN_DATA, else the system's place for it."""
    return _chosen("BREAKEVEN_DATA") or _system_dir("XDG_DATA_HOME", ".local/share")


def _chosen(variable: str) -> Path | None:
    value = os.environ.get(variable, "")
    return Path(value).expanduser() if value else None


def _system_dir(xdg_variable: str, below_home: str) -> Path:
    """``$XDG_.../breakeven`` when that is absolute (the XDG specification ignores relative ones), else below the home directory."""
    base = Path(os.environ.get(xdg_variable, ""))
    if base.is_absolute():
        return base / APP
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / APP
    return Path.home() / below_home / APP
