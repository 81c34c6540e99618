"""A message that is marked as a test and is about nothing: it shows that a route works."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tracker.alerting.ledger import TEST
from tracker.alerting.message import message_id, page_url
from tracker.database.rows import to_s
from tracker.plain import plain
from tracker.world import World


def trial_message(world: World, now: datetime) -> dict[str, Any]:
    """The message, as a route sends it."""
    key = f"{TEST}@{to_s(now)}"
    text = f"[test] breakeven can reach you here; nothing happened ({now:%Y-%m-%d %H:%M} UTC)"
    link = page_url(world)
    return {
        "type": f"alert.{TEST}", "id": message_id(key), "key": key, "rule": "", "kind": TEST, "subject": TEST, "fired_at": plain(now),
        "title": "[test] breakeven", "text": text, **({"page_url": link} if link else {}),
    }  # fmt: skip
