"""Prometheus text and OpenMetrics of families of numbers, to the byte as prometheus_client writes them, and much faster.

The lines of both forms are the same. What was written is kept from one rendering to the next: of a family in which nothing moved its
texts, of others the lines of the samples that are the same objects, and of each series what stands before its number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import compress, count
from operator import is_not
from typing import Literal

Sample = tuple[tuple[str, ...], float]
Form = Literal["text", "openmetrics"]
SPECIAL = {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}
SPARE = 100  # series that are gone and still remembered
TOGETHER = 256  # samples that are one text


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One metric: ``labels`` name the values of each sample, in that order. A counter's ``name`` is without ``_total``."""

    name: str
    text: str
    kind: Literal["gauge", "counter"]
    labels: tuple[str, ...]
    samples: Sequence[Sample]


Texts = tuple[Family, list[str]]


@dataclass(slots=True)
class Written:
    """What was written of a family: the samples with their lines, so many together as a text, and how each series is written."""

    samples: Sequence[Sample] = ()
    lines: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    heads: dict[tuple[str, ...], str] = field(default_factory=dict)

    def take(self, samples: Sequence[Sample]) -> list[int]:
        """Go on to those samples; places of those that were not among the ones before as the same object, and have no line yet."""
        before, self.samples = self.samples, samples
        if len(samples) == len(before):
            return list(compress(count(), map(is_not, samples, before)))
        known = dict(zip(map(id, before), self.lines, strict=True))
        self.lines = [known.get(id(sample), "") for sample in samples]
        self.texts = [""] * -(-len(samples) // TOGETHER)
        return [place for place, line in enumerate(self.lines) if not line]


@dataclass(slots=True)
class Renderer:
    """Writes families. It remembers the last rendering, so one of them serves one sequence of renderings."""

    _written: dict[tuple[str, str, tuple[str, ...]], Written] = field(default_factory=dict)

    def lines(self, families: Iterable[Family]) -> list[Texts]:
        """Every family with the lines of its samples."""
        return [(family, self._samples(family)) for family in families]

    def _samples(self, family: Family) -> list[str]:
        key = (family.name, family.kind, family.labels)
        written = self._written.pop(key, None) or Written()  # put back when all of it is written
        places, lines, texts = written.take(family.samples), written.lines, written.texts
        for place in places:
            lines[place] = _line(family, family.samples[place], written.heads)
        for number in {place // TOGETHER for place in places}.union(number for number, text in enumerate(texts) if not text):
            texts[number] = "".join(lines[number * TOGETHER : (number + 1) * TOGETHER])
        if len(written.heads) > 2 * len(lines) + SPARE:
            written.heads = {values: head for values, _ in family.samples if (head := written.heads.get(values))}
        self._written[key] = written
        return texts.copy()


def _line(family: Family, sample: Sample, heads: dict[tuple[str, ...], str]) -> str:
    values, number = sample
    head = heads.get(values)
    if head is None:
        head = heads[values] = _head(family, values)
    return f"{head} {_number(number)}\n"


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


def assemble(written: Iterable[Texts], form: Form) -> bytes:
    """The whole exposition in one of its two forms."""
    return b"".join(pieces(written, form))


def pieces(written: Iterable[Texts], form: Form) -> list[bytes]:
    """The exposition in pieces, in their order: each text of a long family by itself, and what is between these."""
    found, short = list[str](), list[str]()
    for family, texts in written:
        short.append(_heading(family, form))
        if len(texts) > 1:
            found += ("".join(short), *texts)
            short = []
        else:
            short += texts
    found.append("".join((*short, "# EOF\n" if form == "openmetrics" else "")))
    return [piece.encode("utf-8") for piece in found]


def _heading(family: Family, form: Form) -> str:
    """The text format names a counter with its suffix, OpenMetrics without; and only OpenMetrics escapes quotes in a text."""
    if form == "openmetrics":
        return f"# HELP {family.name} {_escaped(family.text)}\n# TYPE {family.name} {family.kind}\n"
    name = f"{family.name}_total" if family.kind == "counter" else family.name
    text = family.text.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {name} {text}\n# TYPE {name} {family.kind}\n"
