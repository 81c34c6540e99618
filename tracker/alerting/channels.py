"""Chat and push services by way of Apprise, an extra: ``pip install 'breakeven[channels]'``. Its addresses are secrets throughout."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import httpx

from tracker.alerting.picture import Picture
from tracker.alerting.routes import Channels, secret
from tracker.errors import BreakevenError

SOUND = {"cheaper_setup": "success", "price_drop": "success", "test": "info", "digest": "info"}  # others are warnings


class NoApprise(BreakevenError):
    """The extra is not installed."""


@dataclass(frozen=True, slots=True)
class ChannelSender:
    """Tells all addresses of one variable; ``each`` one of them, so that one that is away is tried again without the others."""

    variable: str
    apprise: Any  # the library's own collection of services, untyped
    each: tuple[ChannelSender, ...] = ()

    @property
    def takes_pictures(self) -> bool:
        """Whether a service among them does."""
        return any(service.attachment_support for service in self.apprise)

    def send(self, client: httpx.Client, message: Mapping[str, Any], now: datetime, pictures: Sequence[Picture] = ()) -> str:
        """What went wrong; empty when every service took it."""
        how = SOUND.get(str(message["kind"]), "warning")
        files = _attachments(pictures) if self.takes_pictures else None
        links = ("page_url",) if files is not None else ("page_url", "history_png_url")
        link = "".join(f"\n{message[name]}" for name in links if message.get(name))
        taken = self.apprise.notify(title=str(message["title"]), body=str(message["text"]) + link, notify_type=how, attach=files)
        return "" if taken else f"a service in {self.variable} did not take it"


def _attachments(pictures: Sequence[Picture]) -> Any:
    """The pictures as Apprise takes them, from memory; None without any. A service that takes none gets the text alone."""
    if not pictures:
        return None
    memory = importlib.import_module("apprise.attachment.memory")
    found = importlib.import_module("apprise").AppriseAttachment()
    for picture in pictures:
        found.add(memory.AttachMemory(content=picture.png, name=picture.name, mimetype="image/png"))
    return found


def channel_sender(route: Channels) -> ChannelSender:
    """A sender to the addresses of the environment; BreakevenError, without them, where one cannot be used or the extra is missing."""
    try:
        library = importlib.import_module("apprise")
    except ModuleNotFoundError as error:
        raise NoApprise(f"{route.url_env} is set and Apprise is not installed: pip install 'breakeven[channels]'") from error
    logging.getLogger("apprise").setLevel(logging.CRITICAL)  # what it cannot use it logs whole
    services, each = library.Apprise(), []
    for number, address in enumerate(secret(route.url_env).split(), 1):
        one = library.Apprise()
        if not (one.add(address) and services.add(address)):
            raise BreakevenError(f"{route.url_env}: address {number} is none that Apprise knows")
        each.append(ChannelSender(route.url_env, one))
    return ChannelSender(route.url_env, services, tuple(each))
