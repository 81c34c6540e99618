"""Which form of the metrics a reader gets, by its Accept and Accept-Encoding headers (RFC 9110, section 12.5)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from tracker.metrics.exposition import Form

TEXT, OPEN_METRICS = "text/plain", "application/openmetrics-text"
SCHEMES = ("allow-utf-8", "underscores")  # our names are the same under both; others would change them
_VERSION = re.compile(r"\d{1,3}(\.\d{1,3}){0,2}")
_WEIGHT = re.compile(r"0(\.\d{0,3})?|1(\.0{0,3})?")


@dataclass(frozen=True, slots=True)
class Answer:
    """How to answer."""

    form: Form
    content_type: str
    gzip: bool


@dataclass(frozen=True, slots=True)
class _Range:
    media: str
    parameters: dict[str, str]
    weight: float


@lru_cache(maxsize=64)
def negotiate(accept: str, accept_encoding: str) -> Answer:
    """The form with the greatest weight, the first named of equal ones; text in format 0.0.4 where nothing else is asked for."""
    best = max(_ranges(accept), key=lambda asked: asked.weight if _content_type(asked) else 0, default=None)
    content_type = _content_type(best) if best is not None and best.weight > 0 else ""
    form: Form = "openmetrics" if content_type.startswith(OPEN_METRICS) else "text"
    return Answer(form, content_type or f"{TEXT}; version=0.0.4; charset=utf-8", _takes_gzip(accept_encoding))


def _ranges(header: str) -> list[_Range]:
    found = []
    for part in header.split(","):
        media, *rest = (piece.strip() for piece in part.split(";"))
        parameters = {name.strip().lower(): value.strip() for name, _, value in (piece.partition("=") for piece in rest)}
        weight = parameters.get("q", "1")
        found.append(_Range(media.lower(), parameters, float(weight) if _WEIGHT.fullmatch(weight) else 0.0))
    return found


def _content_type(asked: _Range) -> str:
    """What is said of the body where that range is chosen; "" where it is none of ours. A version we do not know is the nearest we do."""
    stated = asked.parameters.get("version", "")
    version = tuple(int(part) for part in stated.split(".")) if _VERSION.fullmatch(stated) else ()
    scheme = asked.parameters.get("escaping", "")
    escaping = f"; escaping={scheme if scheme in SCHEMES else SCHEMES[1]}" if version >= (1,) else ""
    if asked.media == OPEN_METRICS and (not stated or version >= (1,)):
        return f"{OPEN_METRICS}; version=1.0.0; charset=utf-8{escaping}"
    if asked.media == TEXT and version >= (1,):
        return f"{TEXT}; version=1.0.0; charset=utf-8{escaping}"
    return f"{TEXT}; version=0.0.4; charset=utf-8" if asked.media in (TEXT, "text/*", "*/*") else ""


def _takes_gzip(header: str) -> bool:
    """Whether gzip is asked for by name; a bare ``*`` or nothing gets the plain body."""
    return any(asked.media == "gzip" and asked.weight > 0 for asked in _ranges(header))
