"""Shadeform: the examples of its guide."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path

import pytest

from scrapers import shadeform
from scrapers.contract import GpuQuote, Page


@pytest.mark.shared
def test_the_examples_of_the_guide(shared: Path) -> None:
    """Read in the guide: four answers of one instance each, cut with "..." and trailing commas; cents for the whole instance."""
    text = (shared / "recorded/gpu-markets/documented/shadeform_most_affordable_guide_examples.txt").read_text()
    quotes = []
    for example in text.split("\n\n\n"):
        whole = re.sub(r"(?m)^\s*\.\.\.$", "", example)
        document = json.loads(re.sub(r",(\s*[\]}])", r"\1", whole))
        quotes += list(shadeform.parse([Page(url="https://api.shadeform.ai/v1/instances/types", body=json.dumps(document).encode())]))
    assert [(q.sku, q.gpu, q.gpu_count, q.price * q.scale, q.availability) for q in quotes if isinstance(q, GpuQuote)] == [
        ("runpod NVIDIA A100 80GB PCIe", "A100_80G pcie", 1, Decimal("2.03"), "available"),
        ("oblivus H100_PCIE_80GB_x8", "H100 pcie", 8, Decimal("32.80"), "available"),
        ("massedcompute gpu_8x_h100", "H100 pcie", 8, Decimal("23.92"), "unavailable"),
        ("massedcompute gpu_1x_a6000", "A6000 pcie", 1, Decimal("0.57"), "available"),
    ]
    assert len(quotes) == 4
