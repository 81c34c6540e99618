"""``--at``, as every command takes it."""

from __future__ import annotations

from typing import Annotated

import typer

At = Annotated[str, typer.Option("--at", help="As known at this UTC time, such as 2026-10-16T12:00Z; default: now.")]
