"""What is followed from book to book is what a look at all the rows of each finds, whatever moved in between."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from test_tracker_offer_market import row, rows

from engine.offers import OfferPolicy
from tracker.book.asof import Row
from tracker.book.cheapest import Cheapest, cheapest
from tracker.book.offer_market import alike
from tracker.book.parts import Moved, Part, Parting, moved, parted
from tracker.book.row_fields import GPU, LIST, PRICE, PROVIDER, RENTAL
from tracker.book.trail import Trail

ALIKE = (alike(OfferPolicy()), alike(OfferPolicy(providers=frozenset("ab"), max_term_months=3)), (GPU, PROVIDER))
STEPS = 40


def stepped(dice: random.Random, before: Sequence[Row]) -> list[Row]:
    """The rows a while later: other prices, words and kinds under the same ids, some gone, some new and some back."""
    share = dice.choice((0, 0.02, 0.1, 0.6))
    found = {held[0]: held for held in before}
    for id_ in list(found):
        if dice.random() < share:
            what = dice.choice(("gone", "price", "all", "same values"))
            if what == "gone":
                del found[id_]
            elif what == "price":
                found[id_] = (*found[id_][:PRICE], dice.randrange(1, 12) * 100_000_000, *found[id_][PRICE + 1 :])
            else:
                found[id_] = row(dice, id_) if what == "all" else (*found[id_][:2], *found[id_][2:])
    for id_ in range(-2, 130):
        if id_ not in found and dice.random() < share / 2:
            found[id_] = row(dice, id_)
    return [found[id_] for id_ in sorted(found)]


def contents(parts: Mapping[Any, Part]) -> list[tuple[Any, list[int]]]:
    """Keys in their order, and which rows each part has: these very objects."""
    return [(key, list(map(id, part.rows))) for key, part in parts.items()]


def identities(found: Mapping[Any, Row]) -> dict[Any, int]:
    return {key: id(held) for key, held in found.items()}


@pytest.mark.parametrize("seed", range(20))
def test_what_is_followed_is_what_all_rows_say(seed: int) -> None:
    dice = random.Random(f"trail {seed}")
    trail, held = Trail(), rows(dice, dice.choice((0, 5, 100))).rows
    for _ in range(STEPS):
        trail.move(held)
        before = {key: (part, list(part.rows)) for key, part in trail.parts(RENTAL).items()}
        wholes = [trail.cheapest(fields) for fields in ALIKE if dice.random() < 0.8]  # some are not asked for before some step
        kept = [dict(found) for found in wholes]
        for part in trail.parts(RENTAL).values():
            part.once("rows", lambda found: found)
        then, held = held, stepped(dice, held)
        trail.move(held)
        assert contents(trail.parts(RENTAL)) == contents(parted(held, RENTAL))
        for fields in ALIKE:
            assert identities(trail.cheapest(fields)) == identities(cheapest(held, fields))
        for key, part in trail.parts(RENTAL).items():
            same = key in before and list(map(id, part.rows)) == list(map(id, before[key][1]))
            many = len(moved(then, held).came) + len(moved(then, held).gone) > len(held) / 2
            assert many or (part is before[key][0] if same else part.known == {})
            assert many or same or part.before == ({"rows": before[key][1]} if key in before else {})
        assert all(list(part.rows) == found for part, found in before.values())  # what was given away stays
        assert wholes == kept


@pytest.mark.parametrize("broken", [Parting, Cheapest])
def test_a_step_that_breaks_off_is_made_good_by_the_next_question(broken: type, monkeypatch: pytest.MonkeyPatch) -> None:
    dice, trail = random.Random(3), Trail()
    held = rows(dice, 60).rows
    trail.move(held)
    for fields in ALIKE:
        trail.parts(RENTAL), trail.cheapest(fields)

    def fails(*_: object) -> None:
        raise MemoryError

    for _ in range(3):
        held = stepped(dice, held)
        with monkeypatch.context() as patch, pytest.raises(MemoryError):
            patch.setattr(broken, "follow", fails)
            trail.move([*held, row(dice, 999)])
        trail.move(held)
        assert contents(trail.parts(RENTAL)) == contents(parted(held, RENTAL))
        for fields in ALIKE:
            assert identities(trail.cheapest(fields)) == identities(cheapest(held, fields))


def test_rows_that_do_not_move_are_not_looked_for() -> None:
    """The same parts come out, and nothing is taken for moved."""
    held, trail = rows(random.Random(1), 50).rows, Trail()
    trail.move(held)
    parts = dict(trail.parts(LIST))
    assert moved(held, list(held)) == Moved([], [])
    trail.move(list(held))
    assert all(part is parts[key] for key, part in trail.parts(LIST).items())


@pytest.mark.parametrize("seed", range(30))
def test_what_moved_makes_the_one_of_the_other_in_any_order(seed: int) -> None:
    dice = random.Random(seed)
    before = list(rows(dice, dice.randrange(8)).rows)
    after = stepped(dice, before)
    for one, other in ((before, after), (after, before), (before, []), ([], after)):
        for shuffled in (False, True):
            if shuffled:
                one, other = dice.sample(one, len(one)), dice.sample(other, len(other))
            what = moved(one, other)
            left = list(map(id, one))
            for gone in what.gone:
                left.remove(id(gone))
            assert sorted([*left, *map(id, what.came)]) == sorted(map(id, other))
            if not shuffled:
                assert not {*map(id, what.gone)} & {*map(id, what.came)}
