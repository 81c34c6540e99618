"""Runs a command within the test's own process, in a home with directories of its own: what it prints, and its exit code."""

from __future__ import annotations

import gc
import io
import json
import os
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from tracker.cli import main


@dataclass(frozen=True)
class Told:
    """What a command said."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Standard output as JSON; fails with what was said when the command failed or complained."""
        assert (self.code, self.err) == (0, ""), self.err
        return json.loads(self.out)


def run(home: Path, *words: str, **env: str) -> Told:
    """Run ``breakeven words`` with its data and configuration in ``home``."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    directories = {"HOME": str(home), "BREAKEVEN_DATA": str(home / "data"), "BREAKEVEN_CONFIG": str(home / "config"), "COLUMNS": "100"}
    with (
        warnings.catch_warnings(),
        mock.patch.dict(os.environ, directories | env),
        mock.patch.object(sys, "argv", ["breakeven", *words]),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        warnings.simplefilter("ignore", ResourceWarning)  # a command ends with its process, which closes what it left open
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        gc.collect()
    return Told(code, out.getvalue(), err.getvalue())
