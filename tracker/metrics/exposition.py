"""Prometheus text and OpenMetrics of families of numbers, to the byte as prometheus_client writes them, and much faster.

The lines of both forms are the same; what stands before a series is kept from one rendering to the next, since only numbers move.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

Sample = tuple[tuple[str, ...], float]
Form = Literal["text", "openmetrics"]
SPECIAL = {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}
SPARE = 100  # series that are gone and still remembered
GZIP_LEVEL = 1  # a body of a minute, for a scraper near by: level 6 takes four times as long for a third less


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One metric: ``labels`` name the values of each sample, in that order. A counter's ``name`` is without ``_total``."""

    name: str
    text: str
    kind: Literal["gauge", "counter"]
    labels: tuple[str, ...]
    samples: Sequence[Sample]


@dataclass(slots=True)
class Written:
    """What was written of a family: the samples, by which their lines are known again, and how each series is written."""

    samples: Sequence[Sample] = ()
    lines: dict[int, str] = field(default_factory=dict)  # by the sample, which is the same object where nothing moved
    heads: dict[tuple[str, ...], str] = field(default_factory=dict)


@dataclass(slots=True)
class Renderer:
    """Writes families. It remembers the last rendering, so one of them serves one sequence of renderings."""

    _written: dict[tuple[str, str, tuple[str, ...]], Written] = field(default_factory=dict)

    def lines(self, families: Iterable[Family]) -> list[tuple[Family, str]]:
        """Every family with the lines of its samples."""
        return [(family, self._samples(family)) for family in families]

    def _samples(self, family: Family) -> str:
        written = self._written.setdefault((family.name, family.kind, family.labels), Written())
        lines: list[str | None] = list(map(written.lines.get, map(id, family.samples)))
        for place, (values, number) in enumerate(family.samples) if None in lines else ():
            if lines[place] is None:
                head = written.heads.get(values)
                if head is None:
                    head = written.heads[values] = _head(family, values)
                lines[place] = f"{head} {_number(number)}\n"
        told = [line for line in lines if line is not None]
        written.lines = dict(zip(map(id, family.samples), told, strict=True))
        written.samples = family.samples  # kept, so that no other sample is taken for one of them
        if len(written.heads) > 2 * len(told) + SPARE:
            written.heads = {values: head for values, _ in family.samples if (head := written.heads.get(values))}
        return "".join(told)


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
