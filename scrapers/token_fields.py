"""Token prices and their conditions as JSON prints them: read exactly, or refused with a reason short enough to count by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal

from scrapers.contract import Row, TokenQuote
from scrapers.fields import NUMBER, BadRow, layout_changed, with_quotes

MTOK = Decimal(1_000_000)
MAX_PER_MTOK = Decimal(1_000_000)  # the worst unit slip on record printed 55,000 USD per Mtok; that is for the guard to hold back
MIN_PER_MTOK = Decimal("0.000000001")  # nothing is sold below; a smaller number is not a price and would be stored as free
FLOAT_DIGITS = Context(prec=15)  # a double keeps 15 decimal digits
MAX_PROMPT = 1_000_000_000  # tokens
MINUTES_PER_DAY = 1440
EVERY_DAY = "1234567"
Window = tuple[int, int]  # minutes of the UTC day, start inclusive, end exclusive; start > end wraps midnight
_Part = tuple[int, int, tuple[int, ...], str]  # start and end minute, what applies, weekdays


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """When something applies: a window of the UTC day (None: all day) on ISO weekdays, judged at the instant of the request."""

    window: Window | None = None
    weekdays: str = EVERY_DAY
    next_day_from: int = MINUTES_PER_DAY  # minute of the UTC day at which the weekday meant is already the next one (east of UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A part of the week in which the same of several ``Times`` apply; ``active`` are their positions."""

    hours_utc: str
    weekdays: str
    active: tuple[int, ...]


def number_price(value: object, what: str, *, tokens: Decimal = MTOK) -> Decimal:
    """A price of at least 0 printed as a JSON number for ``tokens`` tokens; 0 is a stated zero."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise BadRow(f"{what} is not a number")
    return _checked(Decimal(value), what, tokens)


def float_price(value: object, what: str, *, tokens: Decimal = MTOK) -> Decimal:
    """``number_price`` where the publisher computes in binary floats: 2.0000000000000002e-07 is 2e-7 with the noise of a float."""
    return FLOAT_DIGITS.plus(number_price(value, what, tokens=tokens))


def text_price(value: object, what: str, *, tokens: Decimal = Decimal(1)) -> Decimal:
    """A price of at least 0 printed as a decimal string for ``tokens`` tokens; 0 is a stated zero."""
    if not isinstance(value, str) or not NUMBER.fullmatch(value):
        raise BadRow(f"{what} is not a decimal string")
    return _checked(Decimal(value), what, tokens)


def _checked(value: Decimal, what: str, tokens: Decimal) -> Decimal:
    if value < 0:
        raise BadRow(f"{what} is negative")
    if value != 0 and not MIN_PER_MTOK * tokens <= value * MTOK <= MAX_PER_MTOK * tokens:
        raise BadRow(f"{what} is out of range")
    return value


def prompt_size(value: object, what: str) -> int:
    """A context threshold in tokens: a whole number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not 0 <= value <= MAX_PROMPT or value != int(value):
        raise BadRow(f"{what} is no number of tokens")
    return int(value)


def week_cells(times: Sequence[Times]) -> list[Cell]:
    """The week cut where the answer to "which of ``times`` apply" changes; the cells in which none applies are left out."""
    edges = sorted({0} | {edge % MINUTES_PER_DAY for each in times for edge in (*(each.window or ()), each.next_day_from)})
    parts: list[_Part] = []
    for start, end in zip(edges, [*edges[1:], MINUTES_PER_DAY], strict=True):
        for active, weekdays in _active_on(times, start).items():
            parts = _joined(parts, (start, end, active, weekdays))
    return [
        Cell(hours_utc=_hours(start, end), weekdays="" if weekdays == EVERY_DAY else weekdays, active=active)
        for start, end, active, weekdays in _over_midnight(parts)
    ]


def _active_on(times: Sequence[Times], minute: int) -> dict[tuple[int, ...], str]:
    """Weekdays by the positions that apply at ``minute``."""
    found: dict[tuple[int, ...], str] = {}
    for day in EVERY_DAY:
        active = tuple(n for n, each in enumerate(times) if _means(each, day, minute) and _holds(each.window, minute))
        if active:
            found[active] = found.get(active, "") + day
    return found


def _means(times: Times, day: str, minute: int) -> bool:
    return (str(int(day) % 7 + 1) if minute >= times.next_day_from else day) in times.weekdays


def _holds(window: Window | None, minute: int) -> bool:
    if window is None:
        return True
    start, end = window
    return start <= minute < end if start < end else minute >= start or minute < end


def _joined(parts: list[_Part], new: _Part) -> list[_Part]:
    for n, (start, end, active, weekdays) in enumerate(parts):
        if (end, active, weekdays) == (new[0], *new[2:]):
            return [*parts[:n], (start, new[1], active, weekdays), *parts[n + 1 :]]
    return [*parts, new]


def _over_midnight(parts: list[_Part]) -> list[_Part]:
    """``parts`` with each that ends at midnight joined to the one that goes on after it, where no weekday comes between."""
    for late in parts:
        for early in parts:
            if late[1] == MINUTES_PER_DAY and early[0] == 0 and late is not early and late[2:] == early[2:] and late[3] == EVERY_DAY:
                rest = [part for part in parts if part is not late and part is not early]
                return _over_midnight([*rest, (late[0], early[1], *late[2:])])
    return parts


def _hours(start: int, end: int) -> str:
    """ "16:30-00:30"; "" is all day."""
    if (start, end) == (0, MINUTES_PER_DAY):
        return ""
    return "-".join(f"{minute // 60 % 24:02}:{minute % 60:02}" for minute in (start, end))


def with_token_quotes(source: str, rows: Iterable[Row]) -> Iterator[Row]:
    """``rows``; LayoutChanged at the end when none is a price, or when no row at all states an input or an output price."""
    stated: set[str] = set()
    for row in with_quotes(source, rows):
        if isinstance(row, TokenQuote):
            stated.update(row.prices)
        yield row
    for kind in ("input", "output"):
        if kind not in stated:
            raise layout_changed(source, f"no {kind} price in any row")
