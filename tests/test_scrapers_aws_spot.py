"""AWS spot: the table of GPU counts says what the catalogue says."""

from __future__ import annotations

import csv
from pathlib import Path

from scrapers import aws_spot

INSTANCES = Path(__file__).parents[1] / "config/instances.csv"


def test_counts_are_those_of_the_catalogue() -> None:
    with INSTANCES.open(newline="") as file:
        counts = {row["sku"]: row["gpu_count"] for row in csv.DictReader(file) if row["provider"] == "aws" and row["verified"] == "yes"}
    known = {sku: str(gpus) for sku, gpus in aws_spot.GPUS.items() if sku in counts}
    assert len(known) >= 30
    assert known == {sku: counts[sku] for sku in known}


def test_every_type_of_the_table_is_read_as_a_gpu_type() -> None:
    assert all(aws_spot.GPU_TYPE.fullmatch(sku) for sku in aws_spot.GPUS)
