"""What waited and never reached anybody is not the last message: the next one is measured against what people heard before it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from tracker.alerting.hearing import Heard
from tracker.alerting.judge import AHEAD, Ruling, State, way_of

Held = Mapping[str, datetime]


def still_news(state: State, held: Held, now: datetime) -> State:
    """A message that waits is news until it is sent, and from then on for as long as one that did not have to wait."""
    if state.active not in held:
        return state
    ahead = state.told_at is not None and state.told_at > now + AHEAD
    return replace(state, news_at=now if ahead else max(held[state.active], now))


def since_last_sent(heard: Heard, held: Held) -> Heard:
    """The move since people last heard of it: what ends while it waits, or is followed by another message, was never said."""
    ruling = heard.ruling
    if ruling.over not in held:
        return heard
    if not ruling.told or ruling.before is None:
        return replace(heard, ruling=replace(ruling, state=unsaid(ruling.state)))
    earlier = unsaid(ruling.before)
    way = way_of(heard.terms, earlier, heard.seen)
    if not way or heard.terms.is_silent(way):
        return replace(heard, ruling=Ruling(state=earlier, over=ruling.over))
    state = replace(
        ruling.state, told_from=earlier.prices, told_before=earlier.facts, told_label=earlier.label, told_earlier=earlier.told_at
    )
    return replace(heard, ruling=replace(ruling, state=state, before=earlier))


def unsaid(state: State) -> State:
    """As it was before the last message; unchanged where there was none."""
    if not state.told_way:
        return state
    return State(basis=state.basis, prices=state.told_from, facts=state.told_before, label=state.told_label, told_at=state.told_earlier)
