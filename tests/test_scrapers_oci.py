"""Oracle Cloud: the real price list of 2026-08-14."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest

from scrapers import oci
from scrapers.contract import GpuQuote, Page, Skipped

ANSWER = Path(__file__).parents[2] / "shared/recorded/gpu-clouds/oci/cetools_products_usd_2026-08-14_gpu_trimmed.json"


@pytest.mark.shared
def test_the_real_price_list() -> None:
    """Counted in the raw list: 25 parts per GPU-hour in "Compute - GPU", of which 8 are AI Enterprise licences and one (E4) has no
    shape in our table. The other 16 are one shape each, but for A10 (three shapes) and V100 (two): 19.
    """
    if not ANSWER.exists():
        pytest.skip(f"{ANSWER} is not here")
    rows = list(oci.parse([Page(url="https://apexapps.oracle.com/pls/apex/cetools/api/v1/products/", body=ANSWER.read_bytes())]))
    quotes = {row.sku: row for row in rows if isinstance(row, GpuQuote)}
    assert len(quotes) == 19 and len(rows) == 19 + 8 + 1
    assert Counter(row.reason for row in rows if isinstance(row, Skipped)) == {
        "software or another product, no GPU rental": 8,
        "part is not in the table of shapes": 1,
    }
    # printed in the file, USD per GPU-hour
    assert quotes["BM.GPU.H100.8"].price == Decimal("10")
    assert quotes["BM.GPU.MI355X.8"].price == Decimal("8.6")
    assert quotes["BM.GPU.GB300.4"].price == Decimal("18")


def test_the_count_of_a_shape_is_in_its_name() -> None:
    """Theirs, not ours: BM.GPU.H100.8 has eight."""
    for shapes in oci.SHAPES.values():
        for shape, gpu_count in shapes:
            assert shape.rpartition(".")[2] == str(gpu_count)
