"""Text that may be shown: credentials in addresses and known secrets become ``***``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

MASK = "***"
_SHORTEST_SECRET = 4  # masking shorter ones would eat ordinary words
# A name that is one of these words, or ends in one after "-", "_" or ".": api_key, x-goog-api-key, X-Amz-Signature
_WORDS = (
    r"(?:api[_-]?)?key|(?:access|auth|id|refresh|session)?[_-]?token|secret|password|passwd|pwd|signature|sig|auth|credential|authorization"
)
_SECRET_NAME = re.compile(rf"(?:[\w.-]*[_.-])?(?:{_WORDS})", re.I)
_IN_QUERY = re.compile(rf"([?&;](?:[\w.-]*[_.-])?(?:{_WORDS})=)[^&;#\s\"'<>]+", re.I)
_USER_INFO = re.compile(r"(?<=://)[^/?#\s@]+@")


def is_secret_name(name: str) -> bool:
    """Whether a header or parameter of that name holds a credential."""
    return _SECRET_NAME.fullmatch(name) is not None


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """``text`` without credentials: in query strings, before an @ in an address, and every one of ``secrets``."""
    for shape in _shapes(secrets):
        text = text.replace(shape, MASK)
    return _IN_QUERY.sub(rf"\g<1>{MASK}", _USER_INFO.sub(f"{MASK}@", text))


def redact_bytes(body: bytes, secrets: Iterable[str]) -> bytes:
    """``body`` without any of ``secrets``: an answer may quote the key it was asked with."""
    for shape in _shapes(secrets):
        body = body.replace(shape.encode(), MASK.encode())
    return body


def _shapes(secrets: Iterable[str]) -> Iterator[str]:
    """Every way the secrets may be written, the longest secret first."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            yield from (secret, quote(secret), quote(secret, safe=""), quote_plus(secret))
