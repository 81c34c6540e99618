"""``health``: is the daemon ready? For a container's health check and for people."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Annotated, Any

import httpx
import typer

from tracker.cli.session import Json, print_json, say
from tracker.config import load_config
from tracker.errors import BreakevenError
from tracker.now import utc_now
from tracker.paths import config_dir, user_config_dir
from tracker.service.systemd import STUCK_S

ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # where to ask one that listens everywhere


class NotReady(BreakevenError):
    """The daemon does not answer, or says what keeps it from working."""


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(health)


def health(
    host: Annotated[str, typer.Option(help="Address to ask; default from tracker.toml.")] = "",
    port: Annotated[int, typer.Option(help="Port to ask; default from tracker.toml.", min=-1, max=65535)] = -1,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for the answer.", min=0.1)] = 5,
    as_json: Json = False,
) -> None:
    """Ask the running daemon whether it is ready. Exit code 1 when it is not, with the reason."""
    web = load_config(config_dir(), user_config_dir()).settings.web
    url = address(host or web.host, port if port >= 0 else web.port) + "/readyz"
    found = ask(url, timeout)
    age = utc_now() - datetime.fromisoformat(str(found["snapshot_at"]))
    if age > timedelta(seconds=STUCK_S):
        raise NotReady(f"{url}: the answers are {int(age.total_seconds())} s old; recomputing has stopped, see the daemon's log")
    if as_json:
        print_json(found)
    else:
        say(f"ready; answers are {int(age.total_seconds())} s old")


def address(host: str, port: int) -> str:
    """Where to reach a daemon that listens on ``host``."""
    reached = ANY_ADDRESS.get(host, host)
    return f"http://[{reached}]:{port}" if ":" in reached else f"http://{reached}:{port}"


def ask(url: str, timeout_s: float) -> dict[str, Any]:
    """What ``/readyz`` says; NotReady with the reason where that is not yes."""
    try:
        answer = httpx.get(url, timeout=timeout_s, trust_env=False)
        found = json.loads(answer.text)
    except httpx.HTTPError as error:
        raise NotReady(f"{url}: no answer ({error or type(error).__name__}); is breakeven running?") from error
    except ValueError as error:
        raise NotReady(f"{url}: HTTP {answer.status_code} without JSON; another program answers there") from error
    if answer.status_code != httpx.codes.OK or not isinstance(found, dict) or found.get("ready") is not True or "snapshot_at" not in found:
        reason = found.get("reason", f"HTTP {answer.status_code}") if isinstance(found, dict) else f"HTTP {answer.status_code}"
        raise NotReady(f"{url}: not ready: {reason}")
    return found
