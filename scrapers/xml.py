"""XML documents of a source, read without their namespaces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

from scrapers.contract import Page
from scrapers.fields import layout_changed

FORBIDDEN = re.compile(r"<!\s*(DOCTYPE|ENTITY)", re.IGNORECASE)


def document(source: str, page: Page) -> ElementTree.Element:
    """The root element. A document that declares a type or entities is refused unread: the real ones never do."""
    text = page.text
    if FORBIDDEN.search(text):
        raise layout_changed(source, "expected plain XML, found a DOCTYPE or ENTITY declaration")
    try:
        return ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError) as error:
        raise layout_changed(source, f"expected XML, found {text[:40]!r} ({error})") from error


def children(element: ElementTree.Element, name: str) -> Iterator[ElementTree.Element]:
    """The elements of that name right below, whatever namespace they are in."""
    return (child for child in element if isinstance(child.tag, str) and child.tag.rpartition("}")[2] == name)


def child_text(element: ElementTree.Element, name: str) -> str:
    """The text of the one element of that name right below; empty where there is none, or more than one."""
    found = list(children(element, name))
    return (found[0].text or "").strip() if len(found) == 1 else ""
