"""Where alerts go: the tables [routes.NAME] of ``alerts.toml``. Addresses and passwords come from the environment or a file only."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tracker.config import HOUR_S
from tracker.errors import ConfigError
from tracker.strict import Strict

VARIABLE = r"^[A-Z][A-Z0-9_]*$"
ADDRESS = r"^[^@\s,<>]+@[^@\s,<>]+$"  # of one person, without the name


class Route(Strict):
    """What all routes have."""

    kind: ClassVar[str]
    enabled: bool = True
    timeout_s: float = Field(default=10, gt=0, le=HOUR_S)  # of a whole delivery, from the connection to the answer

    @property
    def off_reason(self) -> str:
        """Why nothing is sent there; empty when it is."""
        return "" if self.enabled else "switched off in alerts.toml"


class _Addressed(Route):
    """A route whose whole address is a secret."""

    url_env: str = Field(pattern=VARIABLE)

    @property
    def off_reason(self) -> str:
        """Why nothing is sent there."""
        missing = "" if secret(self.url_env) else f"{self.url_env} is not set"
        return missing if self.enabled else "switched off in alerts.toml"


class Webhook(_Addressed):
    """JSON by POST, signed as the Standard Webhooks specification says where a secret is set."""

    kind: ClassVar[str] = "webhook"
    url_env: str = Field(default="BREAKEVEN_WEBHOOK_URL", pattern=VARIABLE)
    secret_env: str = Field(default="BREAKEVEN_WEBHOOK_SECRET", pattern=VARIABLE)


class AlertmanagerRoute(_Addressed):
    """Active alerts pushed to an Alertmanager, and closed there when they are over."""

    kind: ClassVar[str] = "alertmanager"
    url_env: str = Field(default="BREAKEVEN_ALERTMANAGER_URL", pattern=VARIABLE)


class Email(Route):
    """Mail by SMTP. It is on once ``host`` and ``to`` are stated."""

    kind: ClassVar[str] = "email"
    host: str = ""
    port: int = Field(default=587, ge=1, le=65535)
    security: Literal["starttls", "tls", "none"] = "starttls"
    sender: str = Field(default="breakeven@localhost", pattern=ADDRESS)
    to: tuple[Annotated[str, Field(pattern=ADDRESS)], ...] = ()
    user_env: str = Field(default="BREAKEVEN_SMTP_USER", pattern=VARIABLE)
    password_env: str = Field(default="BREAKEVEN_SMTP_PASSWORD", pattern=VARIABLE)

    @property
    def off_reason(self) -> str:
        """Why nothing is sent there."""
        if not self.enabled:
            return "switched off in alerts.toml"
        return "" if self.host and self.to else "host and to are not stated"


class Channels(_Addressed):
    """Whatever Apprise can reach; addresses with spaces or line ends between them."""

    kind: ClassVar[str] = "apprise"
    url_env: str = Field(default="BREAKEVEN_APPRISE_URLS", pattern=VARIABLE)


ROUTES: Mapping[str, type[Route]] = {route.kind: route for route in (Webhook, AlertmanagerRoute, Email, Channels)}


def secret(variable: str) -> str:
    """The value of a variable, or the content of the file that VARIABLE_FILE names; empty where neither is set."""
    if value := os.environ.get(variable, ""):
        return value.strip()
    path = os.environ.get(f"{variable}_FILE", "")
    if not path:
        return ""
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ConfigError(f"{variable}_FILE: {path} cannot be read: {reason}") from error
