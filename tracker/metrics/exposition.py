"""Prometheus text and OpenMetrics of families of numbers, to the byte as prometheus_client writes them, and much faster.

The lines of both forms are the same; what stands before a series is kept from one rendering to the next, since only numbers move.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Sample = tuple[tuple[str, ...], float]
Form = Literal["text", "openmetrics"]
SPECIAL = {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}
GZIP_LEVEL = 1  # a body of a minute, for a scraper near by: level 6 takes four times as long for a third less


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One metric: ``labels`` name the values of each sample, in that order. A counter's ``name`` is without ``_total``."""

    name: str
    text: str
    kind: Literal["gauge", "counter"]
    labels: tuple[str, ...]
    samples: Sequence[Sample]


Series = dict[tuple[str, ...], tuple[str, float, str]]  # of one family by label values: how a series is written, its number and its line


@dataclass(slots=True)
class Renderer:
    """Writes families. It remembers the series of the last rendering, so one of them serves one sequence of renderings."""

    _series: dict[tuple[str, str, tuple[str, ...]], Series] = field(default_factory=dict)

    def lines(self, families: Iterable[Family]) -> list[tuple[Family, str]]:
        """Every family with the lines of its samples."""
        before, self._series = self._series, {}
        return [(family, self._samples(family, before)) for family in families]

    def _samples(self, family: Family, before: Mapping[tuple[str, str, tuple[str, ...]], Series]) -> str:
        key = (family.name, family.kind, family.labels)
        known, series = before.get(key, {}), self._series.setdefault(key, {})
        lines = []
        for values, number in family.samples:
            last = known.get(values)
            if last is None or last[1] != number or not number:  # 0 and -0 are equal, and written differently
                head = _head(family, values) if last is None else last[0]
                last = (head, number, f"{head} {_number(number)}\n")
            series[values] = last
            lines.append(last[2])
        return "".join(lines)


def _head(family: Family, values: tuple[str, ...]) -> str:
    """A series as it is written: labels in the order of their names."""
    name = f"{family.name}_total" if family.kind == "counter" else family.name
    pairs = ",".join(f'{label}="{_escaped(value)}"' for label, value in sorted(zip(family.labels, values, strict=True)))
    return f"{name}{{{pairs}}}" if pairs else name


def _number(value: float) -> str:
    """As Go prints it, with an exponent from a million on."""
    text = repr(float(value))
    dot = text.find(".")
    if dot > 6 and value > 0:
        digits = f"{text[0]}.{text[1:dot]}{text[dot + 1 :]}".rstrip("0.")
        return f"{digits}e+{dot - 1:02d}"
    return SPECIAL.get(text, text) if dot < 0 else text


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def assemble(written: Iterable[tuple[Family, str]], form: Form) -> bytes:
    """The whole exposition in one of its two forms."""
    parts = []
    for family, lines in written:
        parts.append(_heading(family, form))
        parts.append(lines)
    if form == "openmetrics":
        parts.append("# EOF\n")
    return "".join(parts).encode("utf-8")


def _heading(family: Family, form: Form) -> str:
    """The text format names a counter with its suffix, OpenMetrics without; and only OpenMetrics escapes quotes in a text."""
    if form == "openmetrics":
        return f"# HELP {family.name} {_escaped(family.text)}\n# TYPE {family.name} {family.kind}\n"
    name = f"{family.name}_total" if family.kind == "counter" else family.name
    text = family.text.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {name} {text}\n# TYPE {name} {family.kind}\n"


def compressed(body: bytes) -> bytes:
    """The body in gzip; the same body always gives the same bytes."""
    return gzip.compress(body, GZIP_LEVEL, mtime=0)
