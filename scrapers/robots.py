"""The Robots Exclusion Protocol (RFC 9309): may this product fetch this path? Pure; the client fetches the file.

Not ``urllib.robotparser``: it takes the first matching rule instead of the longest, and on Python 3.11 reads ``*`` and
``$`` in a path as plain characters, so it allows what the site forbids.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote, unquote

MAX_BYTES = 500 * 1024  # RFC 9309, 2.5: at least so much must be read
_SAFE = "/?*$=&;:@,+!~()'[]|"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One line of a group. ``path`` may hold ``*`` and end in ``$``."""

    path: str
    allow: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Robots:
    """What a robots.txt says to one product. ``crawl_delay_s`` is the wait between requests it asks for."""

    rules: tuple[Rule, ...] = ()
    crawl_delay_s: float = 0

    def allows(self, target: str) -> bool:
        """Whether ``target`` (path and query) may be fetched: the longest matching rule decides, allow wins a tie."""
        path = _normal(target)
        if path == "/robots.txt":
            return True
        best = max(((len(rule.path), rule.allow) for rule in self.rules if _matches(rule.path, path)), default=(0, True))
        return best[1]


ALLOW_ALL = Robots()


def rules_for(text: str, product: str) -> Robots:
    """The rules for ``product`` (our name, without version); those for ``*`` when the file does not name it."""
    named: list[tuple[str, str]] = []
    others: list[tuple[str, str]] = []
    found = False
    for agents, lines in _groups(text):
        if product.lower() in agents:
            found = True
            named += lines
        elif "*" in agents:
            others += lines
    return _robots(named if found else others)


def _robots(lines: list[tuple[str, str]]) -> Robots:
    rules = tuple(Rule(path=_normal(value), allow=key == "allow") for key, value in lines if key in ("allow", "disallow") and value)
    delays = [float(value) for key, value in lines if key == "crawl-delay" and value.isascii() and value.isdigit() and len(value) < 6]
    return Robots(rules=rules, crawl_delay_s=max(delays, default=0.0))


def _groups(text: str) -> Iterator[tuple[set[str], list[tuple[str, str]]]]:
    """(products, their lines) for each group: one or more user-agent lines, then rules."""
    agents: set[str] = set()
    lines: list[tuple[str, str]] = []
    for key, value in _lines(text):
        if key == "user-agent":
            if lines:
                yield agents, lines
                agents, lines = set(), []
            agents.add(value.split("/")[0].strip().lower())
        elif key in ("allow", "disallow", "crawl-delay") and agents:
            lines.append((key, value))
    if agents:
        yield agents, lines


def _lines(text: str) -> Iterator[tuple[str, str]]:
    for line in text.removeprefix("\ufeff").splitlines():
        key, colon, value = line.partition("#")[0].partition(":")
        if colon:
            yield key.strip().lower(), value.strip()


def _normal(path: str) -> str:
    """The same octets always percent-encoded the same way."""
    return quote(unquote(path), safe=_SAFE)


def _matches(pattern: str, path: str) -> bool:
    """Whether ``path`` starts with ``pattern`` (``*`` is any run, a final ``$`` the end). Linear: no regular expression to blow up."""
    first, *parts = pattern.removesuffix("$").split("*")
    if not path.startswith(first):
        return False
    at = len(first)
    if pattern.endswith("$"):
        if not parts:
            return at == len(path)
        *parts, last = parts
        end = len(path) - len(last)
    else:
        last, end = "", len(path)
    for part in parts:
        found = path.find(part, at, end if last else len(path))
        if found < 0:
            return False
        at = found + len(part)
    return path.endswith(last) and at <= end
