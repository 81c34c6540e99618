"""A chart -> the bytes of a PNG. Pure: the same chart gives the same picture. It needs Pillow, the extra ``breakeven[pictures]``.

A price holds until it changes, so a line runs level and then steps; where nothing was observed there is no line. The letters are
those that Pillow brings, which are ASCII.
"""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from tracker.pictures.chart import Chart, Line, Panel
from tracker.pictures.ticks import day_ticks, price_range, price_text, price_ticks

WIDTH, PANEL = 1200, 360  # pixels; shown at half the size on most screens
EDGE, GAP = 36, 26
TITLE, TEXT, SMALL = 30, 22, 19  # heights of letters
THICK, DOT = 5, 6  # of a line, and of what is too short to be one
INK, QUIET, GRID, PAPER = "#1b1f24", "#57606a", "#d8dee4", "#ffffff"
MARK = "#b35900"
COLOURS = {"new": "#0969da", "old": "#8c6d9e", "other": "#1a7f37"}  # told apart in grey too: "old" is drawn thinner
MORE = ("#1a7f37", "#8c6d9e", "#bc4c00", "#0e7490")  # of further lines of the same role
COLOUR_COUNT = 64


@cache
def can_draw() -> bool:
    """Whether the extra is installed."""
    return find_spec("PIL") is not None


def png(chart: Chart) -> bytes:
    """The picture, white behind it."""
    labels = [label for panel in chart.panels for label in _labels(panel)]
    heads = EDGE + TITLE + GAP
    height = heads + sum(_panel_height(panel) for panel in chart.panels) + (SMALL + 9) * len(chart.notes) + EDGE
    image = import_module("PIL.Image").new("RGB", (WIDTH, height), PAPER)
    pen = Pen(import_module("PIL.ImageDraw").Draw(image))
    pen.text((EDGE, EDGE - 6), pen.fitted(chart.title, TITLE, WIDTH - 2 * EDGE), TITLE, INK)
    left = EDGE + max((pen.width(label, SMALL) for label in labels), default=0) + 12
    top = heads
    for panel in chart.panels:
        _draw_panel(pen, chart, panel, left, top)
        top += _panel_height(panel)
    for note in chart.notes:
        pen.text((EDGE, top), pen.fitted(note, SMALL, WIDTH - 2 * EDGE), SMALL, QUIET)
        top += SMALL + 9
    file = io.BytesIO()
    image.quantize(COLOUR_COUNT, dither=0).save(file, "PNG", optimize=True)
    return file.getvalue()


@dataclass(frozen=True, slots=True)
class Pen:
    """Draws text and measures it."""

    draw: Any  # Pillow's, which is loaded only where it is needed

    def text(self, place: tuple[float, float], words: str, size: int, colour: str, anchor: str = "la") -> None:
        """Words at a place."""
        self.draw.text(place, plain(words), fill=colour, font=_font(size), anchor=anchor)

    def width(self, words: str, size: int) -> float:
        """Pixels that the words take."""
        return float(self.draw.textlength(plain(words), font=_font(size)))

    def fitted(self, words: str, size: int, most: float) -> str:
        """As much of the words as there is room for."""
        if self.width(words, size) <= most:
            return words
        keep = len(words)
        while keep and self.width(words[:keep].rstrip() + "...", size) > most:
            keep -= 1
        return words[:keep].rstrip() + "..."


@cache
def _font(size: int) -> Any:
    return import_module("PIL.ImageFont").load_default(size)


def plain(words: str) -> str:
    """In the letters there are: accents are left out, and what has no letter is a question mark."""
    parts = unicodedata.normalize("NFKD", words.replace("\u00d7", "x").replace("\u2013", "-"))
    return "".join(letter for letter in parts if not unicodedata.combining(letter)).encode("ascii", "replace").decode()


# --- one panel --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The plot within the picture, and what its edges stand for."""

    left: float
    right: float
    top: float
    bottom: float
    start: datetime
    end: datetime
    least: Decimal
    most: Decimal

    def x(self, when: datetime) -> float:
        """Where a moment is."""
        share = (when - self.start) / (self.end - self.start)
        return self.left + min(max(share, 0.0), 1.0) * (self.right - self.left)

    def y(self, value: Decimal) -> float:
        """Where a price is."""
        share = float((value - self.least) / (self.most - self.least))
        return self.bottom - share * (self.bottom - self.top)


def _panel_height(panel: Panel) -> int:
    return PANEL + (TEXT + 10) * (len(panel.lines) + 1) + GAP


def _values(panel: Panel) -> list[Decimal]:
    return [step.value for line in panel.lines for step in line.steps]


def _labels(panel: Panel) -> list[str]:
    values = _values(panel)
    return [text for _, text in _marks(*price_range(values))] if values else []


def _marks(least: Decimal, most: Decimal) -> list[tuple[Decimal, str]]:
    ticks = price_ticks(least, most)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else ticks[0]
    return [(tick, price_text(tick, step)) for tick in ticks]


def _draw_panel(pen: Pen, chart: Chart, panel: Panel, left: float, top: float) -> None:
    pen.text((EDGE, top), panel.unit, TEXT, QUIET)
    top += TEXT + 10
    colours = _colours(panel.lines)
    for line, colour in zip(panel.lines, colours, strict=True):
        pen.draw.rectangle((EDGE, top + 8, EDGE + 30, top + 8 + _thickness(line)), fill=colour)
        words = line.label if line.steps else f"{line.label} (not observed)"
        pen.text((EDGE + 42, top), pen.fitted(words, TEXT, WIDTH - 2 * EDGE - 42), TEXT, INK)
        top += TEXT + 10
    values = _values(panel)
    least, most = price_range(values) if values else (Decimal(0), Decimal(1))
    frame = Frame(
        left=left, right=WIDTH - EDGE, top=top + 16, bottom=top + PANEL - 36, start=chart.start, end=chart.end, least=least, most=most
    )
    _draw_axes(pen, frame, _marks(least, most) if values else [])
    _draw_change(pen, frame, chart.changed_at)
    for line, colour in sorted(zip(panel.lines, colours, strict=True), key=lambda pair: pair[0].role == "new"):
        _draw_line(pen, frame, line, colour)


def _colours(lines: Sequence[Line]) -> list[str]:
    """Each line its own: by its role, and the further ones in turn."""
    found: list[str] = []
    for line in lines:
        wanted = (COLOURS[line.role], *MORE)
        found.append(next((colour for colour in wanted if colour not in found), wanted[len(found) % len(wanted)]))
    return found


def _thickness(line: Line) -> int:
    return THICK if line.role != "old" else THICK - 2


def _draw_axes(pen: Pen, frame: Frame, marks: Sequence[tuple[Decimal, str]]) -> None:
    for value, words in marks:
        pen.draw.line((frame.left, frame.y(value), frame.right, frame.y(value)), fill=GRID)
        pen.text((frame.left - 10, frame.y(value)), words, SMALL, QUIET, "rm")
    for day in day_ticks(frame.start, frame.end):
        pen.draw.line((frame.x(day), frame.bottom, frame.x(day), frame.bottom + 7), fill=QUIET)
        anchor = "ra" if frame.x(day) > frame.right - 45 else "ma"
        pen.text((frame.x(day), frame.bottom + 11), f"{day:%b} {day.day}", SMALL, QUIET, anchor)
    pen.draw.line((frame.left, frame.bottom, frame.right, frame.bottom), fill=QUIET)


def _draw_change(pen: Pen, frame: Frame, when: datetime) -> None:
    if not frame.start <= when <= frame.end:
        return
    x = frame.x(when)
    for y in range(int(frame.top), int(frame.bottom), 12):
        pen.draw.line((x, y, x, y + 6), fill=MARK, width=2)
    words = f"{when:%Y-%m-%d %H:%M} UTC"
    anchor = "rs" if x > (frame.left + frame.right) / 2 else "ls"
    pen.text((x + (-8 if anchor == "rs" else 8), frame.top - 1), words, SMALL, MARK, anchor)


def _draw_line(pen: Pen, frame: Frame, line: Line, colour: str) -> None:
    """Level while a price holds, upright where the next one follows at once; a dot where it stands alone, and at the end."""
    width = _thickness(line)
    for before, step, after in zip((None, *line.steps), line.steps, (*line.steps[1:], None), strict=False):
        left, right, y = frame.x(step.start), frame.x(step.end), frame.y(step.value)
        is_joined = before is not None and before.end == step.start
        if before is not None and is_joined:
            pen.draw.line((left, frame.y(before.value), left, y), fill=colour, width=width)
        pen.draw.line((left, y, right, y), fill=colour, width=width)
        if after is None:
            _dot(pen, right, y, DOT, colour)
        elif right - left < DOT and not is_joined and after.start != step.end:
            _dot(pen, (left + right) / 2, y, DOT / 2, colour)


def _dot(pen: Pen, x: float, y: float, radius: float, colour: str) -> None:
    pen.draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour)
