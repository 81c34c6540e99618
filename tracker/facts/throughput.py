"""Measured throughput: one CSV file a model in ``throughput/``, one run a row."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path

from engine.throughput import ThroughputKind, ThroughputPoint
from tracker.errors import ConfigError, did_you_mean
from tracker.facts.values import Catalogue

COLUMNS = (
    *("model", "gpu", "gpu_count", "weight_format", "engine", "tp", "ep", "isl", "osl", "concurrency"),
    *("output_tok_s", "ttft_s", "tpot_s", "measured", "source"),
)


def load_points(config_dir: Path, user_dir: Path | None, catalogue: Catalogue) -> tuple[ThroughputPoint, ...]:
    """All measured runs. The user's own files count as measured by the operator and replace shipped ones of the same name."""
    paths = {path.name: path for folder in (config_dir, user_dir) if folder for path in sorted((folder / "throughput").glob("*.csv"))}
    return tuple(point for _, path in sorted(paths.items()) for point in _points(path, _kind(path, config_dir), catalogue))


def _kind(path: Path, config_dir: Path) -> ThroughputKind:
    return "measured" if path.is_relative_to(config_dir) else "config"


def _points(path: Path, kind: ThroughputKind, catalogue: Catalogue) -> Iterator[ThroughputPoint]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        if tuple(rows.fieldnames or ()) != COLUMNS:
            raise ConfigError(f"{path}: columns must be {','.join(COLUMNS)}, found {','.join(rows.fieldnames or ())}")
        for row in rows:
            yield _Row(path, rows.line_num, row).point(kind, catalogue)


class _Row:
    """One line being read: every error names file, line and column."""

    def __init__(self, path: Path, line: int, cells: Mapping[str, str | None]) -> None:
        self.place = f"{path}: line {line}"
        self.cells = cells

    def point(self, kind: ThroughputKind, catalogue: Catalogue) -> ThroughputPoint:
        return ThroughputPoint(
            model=self.known("model", catalogue.models),
            gpu=self.known("gpu", catalogue.gpus),
            gpu_count=self.whole("gpu_count"),
            weight_format=self.known("weight_format", catalogue.formats),
            engine=self.text("engine"),
            tp=self.whole("tp", at_least=0),
            ep=self.whole("ep", at_least=0),
            isl=self.whole("isl"),
            osl=self.whole("osl"),
            concurrency=self.whole("concurrency"),
            output_tok_s=self.number("output_tok_s"),
            ttft_s=self.number("ttft_s") if self.cells["ttft_s"] else None,
            tpot_s=self.number("tpot_s") if self.cells["tpot_s"] else None,
            measured=self.day("measured"),
            kind=kind,
            source=self.text("source"),
        )

    def text(self, column: str) -> str:
        value = self.cells[column]
        if not value:
            raise ConfigError(f"{self.place}: {column} is empty")
        return value

    def known(self, column: str, names: Mapping[str, object]) -> str:
        value = self.text(column)
        if value not in names:
            raise ConfigError(f"{self.place}: unknown {column} {value!r}{did_you_mean(value, names)}")
        return value

    def whole(self, column: str, *, at_least: int = 1) -> int:
        value = self.text(column)
        if not (value.isascii() and value.isdigit()) or int(value) < at_least:
            raise ConfigError(f"{self.place}: {column} must be a whole number of at least {at_least}, found {value!r}")
        return int(value)

    def number(self, column: str) -> float:
        value = self.text(column)
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not (math.isfinite(number) and number > 0):
            raise ConfigError(f"{self.place}: {column} must be a number above 0, found {value!r}")
        return number

    def day(self, column: str) -> date:
        value = self.text(column)
        try:
            return date.fromisoformat(value)
        except ValueError as error:
            raise ConfigError(f"{self.place}: {column} must be a day like 2026-04-08, found {value!r}") from error
