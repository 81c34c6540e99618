"""All rules on one snapshot. The daemon and the backtest both hear here; only where the states are kept differs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from tracker.alerting.judge import Ruling, Seen, State, Terms, is_old, judge
from tracker.alerting.observe import observe, terms_of
from tracker.alerting.rules import Asked, Rule
from tracker.alerting.view import View, answers_of, subject_of
from tracker.answers.questions import tracked
from tracker.plain import plain
from tracker.world import World

OFF = "off"  # the basis of a source or question that is not looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What a rule saw of one subject and what follows."""

    rule: Rule
    terms: Terms
    seen: Seen
    ruling: Ruling


def hear(
    rules: Mapping[str, Rule], view: View, now: datetime, is_silent: Callable[[str, str], bool] = lambda rule, subject: False
) -> Iterator[Heard]:
    """A ruling for every subject of every rule that is on. ``is_silent``: whether nobody may be told of it now."""
    for name, rule in rules.items():
        if not rule.enabled:
            continue
        terms = terms_of(rule)
        for found in observe(name, rule, view):
            seen = _in_plain(found)
            state = view.states.get((name, seen.subject))
            ruling = judge(terms, state, seen, now, may_tell=not is_silent(name, seen.subject))
            yield Heard(rule=rule, terms=terms, seen=seen, ruling=ruling)


def _in_plain(found: Seen) -> Seen:
    """The same with facts as they are kept: plain values."""
    facts = plain(found.facts)
    if found.anew is None:
        return found if facts == found.facts else replace(found, facts=facts)
    return replace(found, facts=facts, anew=(found.anew[0], plain(found.anew[1])))


def over_unseen(
    rules: Mapping[str, Rule], view: View, seen: set[tuple[str, str]], now: datetime
) -> Iterator[tuple[tuple[str, str], State]]:
    """Messages that end unseen, and the states without them: of rules and sources that are off, of what nobody asks, and what is old."""
    asked = {name: _subjects(rule, view) for name, rule in rules.items() if isinstance(rule, Asked) and rule.enabled}
    for key, state in view.states.items():
        if key in seen:
            continue
        if state.basis != OFF and key[0] in asked and key[1] not in asked[key[0]]:  # asked again, it is looked at anew
            yield key, replace(state, active="", basis=OFF)
            continue
        if not state.active:
            continue
        rule = rules.get(key[0])
        terms = None if rule is None or not rule.enabled else terms_of(rule)
        if terms is not None and terms.lasting:  # its source is off; on again, it is looked at anew
            yield key, replace(state, active="", basis=OFF)
        elif terms is None or is_old(terms, state, now):
            yield key, replace(state, active="")


def _subjects(rule: Asked, view: View) -> set[str]:
    return {subject_of(answer) for answer in answers_of(rule, view)}


def bases_of(world: World) -> Mapping[tuple[str, str], str]:
    """What each question of a world asks, by workload and policy, the default one first."""
    return {(question.workload.id, question.policy_id): question.basis for question in tracked(world)}
