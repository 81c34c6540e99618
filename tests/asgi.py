"""The web application in this process: what it needs of a daemon, and its answers as a client over the network would have them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import httpx
from sqlalchemy import Engine

from tracker.answers.snapshot import Snapshot
from tracker.database.faults import Trouble
from tracker.pictures.drawing import png
from tracker.web.scrape import App
from tracker.world import World


@dataclass
class Served:
    """What the web needs of a daemon."""

    world: World
    db: Engine
    snapshot: Snapshot
    now: Callable[[], datetime]
    trouble: Trouble = field(default_factory=Trouble)
    starting: bool = False
    draw = staticmethod(png)


def get(app: App, *paths: str) -> list[httpx.Response]:
    """Answers in turn, as a client over the network would have them."""

    async def ask() -> list[httpx.Response]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://breakeven.test") as client:
            return [await client.get(path) for path in paths]

    return asyncio.run(ask())


def body(app: App, path: str) -> Any:
    """An answer's JSON, with money as strings."""
    (answer,) = get(app, path)
    assert answer.status_code == 200, answer.text
    return json.loads(answer.text)
