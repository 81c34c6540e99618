"""Floods, drips and bombs over real HTTP, against every source at once: each fails by itself, within its deadline and in little memory."""

from __future__ import annotations

import pytest
from bs4 import BeautifulSoup
from floods import DEADLINE_S, measured
from upstream import FAULTS

from scrapers.contract import LayoutChanged
from scrapers.html import DEEPEST, MOST_TAGS, tree

MOST_MIB = 420  # four sources at a time hold 64 MiB each, some of them twice for a moment; all 38 together would be 2,400
SLACK_S = 90  # of a busy machine: by their own pace the drips would take hours


@pytest.mark.loopback
@pytest.mark.parametrize("fault", ["bomb:1024", "flood:500", "drip:0.05", "zip bomb", "tags", "deep tags"])
def test_every_source_fails_in_time_and_in_little_memory(fault: str) -> None:
    assert fault.partition(":")[0] in FAULTS or ":" not in fault
    cost = measured(fault)
    assert len(cost.statuses) > 35
    assert {name: status for name, status in cost.statuses.items() if not status.startswith("failed: ")} == {}
    assert not [status for status in cost.statuses.values() if "unexpected" in status]
    assert cost.mib < MOST_MIB
    assert cost.seconds < DEADLINE_S + SLACK_S


@pytest.mark.parametrize("text", ["<b>" * (MOST_TAGS + 1), "<b>" * (DEEPEST + 1) + "x", "<table>" + "<tr><td>" * DEEPEST])
def test_a_page_of_too_many_or_too_deep_tags_is_none(text: str) -> None:
    with pytest.raises(LayoutChanged, match=r"expected (a page of at most|tags at most)"):
        tree("x", text)


def test_a_page_for_people_is_read() -> None:
    text = "<html><body>" + "<div><table><tr><td>1</td></tr></table></div>" * 5000 + "</body></html>"
    assert isinstance(tree("x", text), BeautifulSoup)
