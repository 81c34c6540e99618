"""Packages of the heavy extras: tests that need one are skipped where it is not installed, and fail where EXTRAS=yes asks for it."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version

import pytest


def extra(package: str) -> str:
    """The version of an installed package of an extra; a missing one skips the test, and fails it under EXTRAS=yes (CI)."""
    try:
        return version(package)
    except PackageNotFoundError:
        if os.environ.get("EXTRAS") == "yes":
            pytest.fail(f"{package} is not installed, and EXTRAS=yes asks for it")
        pytest.skip(f"needs {package}: EXTRAS=yes make test")
