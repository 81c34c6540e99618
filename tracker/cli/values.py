"""Figures and names as a person types them: 128k tokens of context, 10B tokens a month, a list of GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation

import typer

from tracker.errors import UnknownName, did_you_mean

CONTEXT = re.compile(r"(\d[\d_]*)([kKmM]?)")
CONTEXT_UNITS = {"": 1, "k": 1024, "m": 1024**2}  # context windows are powers of two: 128K is 131,072
VOLUME = re.compile(r"(\d[\d_,]*(?:\.\d+)?(?:[eE]\d{1,2})?)\s*([kKmMbBgGtT]?)")
MOST = 10**15  # of any amount a person types
MOST_TOKENS = 10**18  # a month: beyond what all GPUs there are could serve
MOST_CONTEXT = 10**9
MOST_ROWS = 2**31 - 1  # the largest number of a row that every database has
VOLUME_UNITS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "g": 10**9, "t": 10**12}


def context_tokens(text: object) -> int:
    """Tokens of a context window: 8192, 8k, 128K, 1M, with k = 1024."""
    found = CONTEXT.fullmatch(str(text).strip())
    if found is None:
        raise typer.BadParameter(f"{text!r} is no context; write 8192, 8k, 128k or 1M (k = 1024)")
    tokens = int(found[1].replace("_", "")) * CONTEXT_UNITS[found[2].lower()] if len(found[1]) < 20 else MOST_CONTEXT + 1
    if tokens > MOST_CONTEXT:
        raise typer.BadParameter(f"{found[0][:40]!r} is more than {MOST_CONTEXT:,} tokens")
    return tokens


def context_list(text: str, default: tuple[int, ...]) -> tuple[int, ...]:
    """Contexts separated by commas, smallest first; the default where none is given."""
    asked = {context_tokens(word) for word in text.split(",") if word.strip()}
    if 0 in asked:
        raise typer.BadParameter("a context holds at least 1 token")
    return tuple(sorted(asked)) or default


def token_volume(text: object) -> Decimal:
    """Tokens a month: 10_000_000, 10e9, 500M, 10B; here k, M, B and T are powers of 1000."""
    found = VOLUME.fullmatch(str(text).strip())
    if found is None:
        raise typer.BadParameter(f"{text!r} is no number of tokens; write 10_000_000, 10e9, 500M or 10B")
    volume = Decimal(found[1].replace("_", "").replace(",", "")) * VOLUME_UNITS[found[2].lower()]
    if volume > MOST_TOKENS:
        raise typer.BadParameter(f"{found[0][:40]!r} is more than {MOST_TOKENS:.0e} tokens a month")
    return volume


def amount(text: object) -> Decimal:
    """A plain decimal from 0 to 10**15."""
    try:
        value = Decimal(str(text).strip())
    except InvalidOperation:
        raise typer.BadParameter(f"{text!r} is no number") from None
    if not value.is_finite() or value < 0:
        raise typer.BadParameter(f"{text!r} must be a number of at least 0")
    if value > MOST:
        raise typer.BadParameter(f"{str(text)[:40]!r} is more than {MOST:.0e}")
    return value


def amounts(text: str) -> tuple[Decimal, ...]:
    """Decimals above 0 separated by commas, at least one."""
    found = tuple(amount(word) for word in text.split(",") if word.strip())
    if not found or 0 in found:
        raise typer.BadParameter(f"{text!r} must be numbers above 0, with commas between them")
    return found


def words(text: str) -> tuple[str, ...]:
    """The words between commas."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def known_words(text: str, known: Iterable[str], what: str, hint: str = "") -> tuple[str, ...]:
    """The words between commas, all of them known; UnknownName with the closest one."""
    names = list(known)
    for word in words(text):
        if word not in names:
            raise UnknownName(f"no {what} named {word!r}{did_you_mean(word, names)}; {hint or 'there are ' + ', '.join(names)}")
    return words(text)


def context_label(tokens: int) -> str:
    """8K, 128K, 1M; the plain number where it is no whole one of them."""
    for unit, size in (("M", 1024**2), ("K", 1024)):
        if tokens % size == 0:
            return f"{tokens // size}{unit}"
    return f"{tokens:,}"
