"""Pictures of price histories: what was read for them against expectations worked out by hand, and what is on them pixel by pixel."""

from __future__ import annotations

import importlib
import io
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from databases import new_book, opened
from extras import extra
from small_world import FILES, T0, fx, offer, rate, sweep
from sqlalchemy import Engine, select
from watching import CHEAPER, SECOND, Watch, watch_with

from tracker.alerting.ledger import ALERT, message_of
from tracker.alerting.markets import gpu_prices
from tracker.answers.decisions import keep_decisions
from tracker.answers.recompute import recompute
from tracker.database.handle import reading
from tracker.pictures.chart import Chart, Line, Panel, Step, joined
from tracker.pictures.drawing import PANEL, WIDTH, plain, png
from tracker.pictures.lowest import lowest
from tracker.pictures.subjects import READ, chart_of
from tracker.pictures.ticks import day_ticks, price_range, price_text, price_ticks

Make = Callable[..., Watch]
DROP = '[rules.drop]\nkind = "price_drop"\ngpus = ["test-80"]\npercent = 10\nsweeps = 1\n'
RATES = '[rules.rates]\nkind = "rate_change"\npercent = 5\nsweeps = 1\n'
GONE = '[rules.gone]\nkind = "setup_gone"\nsweeps = 1\n'
FLIP = '[rules.flip]\nkind = "verdict_flip"\nsweeps = 1\n'
CROSSED = '[rules.crossed]\nkind = "break_even_crossed"\nsweeps = 1\n'


@pytest.fixture
def make(db: Engine, tmp_path: Path) -> Make:
    return lambda rules, **changed: watch_with(db, tmp_path, rules, **changed)


def chart(watch: Watch) -> Chart:
    """What is drawn for the last message."""
    with reading(watch.db) as connection:
        row = connection.execute(select(ALERT).order_by(ALERT.c.id.desc()).limit(1)).mappings().one()
        found = chart_of(connection, watch.world, message_of(row), row["fired_at"])
    assert found is not None
    return found


def steps(line: Line) -> list[tuple[str, str, str]]:
    """Day and minute it began, minute it ended, price; the second at the end of the picture left out."""
    return [(f"{s.start:%d %H:%M}", f"{s.end:%d %H:%M}", f"{s.value.normalize():f}") for s in line.steps]


# --- what is read -----------------------------------------------------------------------------------------------------


def test_of_one_offer_that_is_cheaper_now_there_is_one_line(make: Make) -> None:
    watch = make(CHEAPER)
    for price in ("2.00", "1.80", "1.80"):
        watch.look(price)
    found = chart(watch)
    ((line,),) = [panel.lines for panel in found.panels]
    assert line.label == "before and now: 1 x test-141, cloud 141x1"
    assert steps(line) == [("02 12:15", "02 12:30", "2"), ("02 12:30", "02 12:45", "1.8")]
    assert (found.title, found.panels[0].unit) == ("large-60b: $1.80/h instead of $2.00/h", "USD per hour, whole setup")
    assert found.changed_at == T0 + timedelta(minutes=30)  # when the new price was first seen
    assert (found.start, found.end) == (watch.at - timedelta(days=14), watch.at + timedelta(days=14) / 50)
    assert found.notes[0] == "Source: cloud, observed at 2026-11-02 12:45 UTC"


def test_two_setups_are_two_lines_of_the_price_of_all_their_machines(make: Make) -> None:
    """Two of one GPU at 0.90 each are 1.80 an hour."""
    watch = make(CHEAPER)
    two = offer("0.90", sku="80x1", gpu="test-80", max_gpu_count=8)
    watch.look("2.00")
    watch.look("2.00", two)
    watch.look("2.00", two)
    old, new = chart(watch).panels[0].lines
    assert (old.role, old.label) == ("old", "before: 1 x test-141, cloud 141x1")
    assert (new.role, new.label) == ("new", "now: 2 x test-80, cloud 80x1")
    assert steps(old) == [("02 12:15", "02 12:45", "2")]
    assert steps(new) == [("02 12:30", "02 12:45", "1.8")]


def test_where_nothing_was_observed_for_longer_than_the_age_limit_there_is_a_gap(make: Make) -> None:
    """The limit is 3 hours: a price seen at 12:15 is known until 15:15."""
    watch = make(CHEAPER)
    watch.look("2.00")
    watch.wait(hours=10)
    for price in ("2.00", "1.80", "1.80"):
        watch.look(price)
    (line,) = chart(watch).panels[0].lines
    assert steps(line) == [("02 12:15", "02 15:15", "2"), ("02 22:30", "02 22:45", "2"), ("02 22:45", "02 23:00", "1.8")]


@pytest.fixture
def postgres(request: pytest.FixtureRequest) -> Iterator[Engine]:
    yield from opened(new_book(request, "postgres"))


@pytest.mark.real
def test_postgresql_tells_the_same(postgres: Engine, tmp_path: Path) -> None:
    watch = watch_with(postgres, tmp_path, CHEAPER)
    watch.look("2.00")
    watch.wait(hours=10)
    for price in ("2.00", "1.80", "1.80"):
        watch.look(price)
    (line,) = chart(watch).panels[0].lines
    assert steps(line) == [("02 12:15", "02 15:15", "2"), ("02 22:30", "02 22:45", "2"), ("02 22:45", "02 23:00", "1.8")]


def test_a_price_that_is_no_longer_printed_ends(make: Make) -> None:
    """Missed twice, at 12:45 and 13:00, it is gone from the second on; the limit of its own last sighting is later."""
    watch = make(GONE)
    watch.look("2.00", offer("3.00", sku="dear"))
    watch.look("2.00", offer("3.00", sku="dear"))
    for _ in range(2):
        watch.look(offer("3.00", sku="dear"))
    old, new = chart(watch).panels[0].lines
    assert steps(old) == [("02 12:15", "02 13:00", "2")]
    assert steps(new) == [("02 12:15", "02 13:00", "3")]


def test_what_was_seen_before_the_window_is_not_shown_and_what_held_at_its_start_is(make: Make) -> None:
    watch = make(CHEAPER)
    watch.minutes = 60
    watch.look("5.00")
    start = watch.at
    for _ in range(40 * 8):
        watch.wait(hours=2)
        watch.look("2.00" if watch.at > start + timedelta(days=20) else "2.20")
    watch.look("1.80")
    watch.look("1.80")
    found = chart(watch)
    (line,) = found.panels[0].lines
    assert found.start == watch.at - timedelta(days=30)
    assert line.steps[0].start == found.start
    assert [f"{step.value.normalize():f}" for step in line.steps] == ["2.2", "2", "1.8"]


def test_a_foreign_price_is_shown_at_one_rate_so_that_every_step_is_one_of_the_price(make: Make) -> None:
    """EUR 2.00 and 1.80 at 1.25 dollars: 2.50 and 2.25, though the euro was worth 1.10 when the first was seen."""
    watch = make(CHEAPER)
    sweep(watch.db, "ecb", watch.at - timedelta(days=2), fx=fx(watch.at.date() - timedelta(days=3), USD="1.10"), rows=1)
    watch.look(offer("2.00", currency="EUR"))
    sweep(watch.db, "ecb", watch.at, fx=fx(watch.at.date() - timedelta(days=1), USD="1.25"), rows=1)
    watch.look(offer("1.60", currency="EUR"))
    watch.look(offer("1.60", currency="EUR"))
    found = chart(watch)
    assert steps(found.panels[0].lines[0]) == [("02 12:15", "02 12:30", "2.5"), ("02 12:30", "02 12:45", "2")]
    assert "EUR at 0.8000 for 1 USD, the reference rate of 2026-11-01, throughout." in found.notes


def test_the_lowest_price_of_a_gpu_is_at_every_moment_the_one_the_rule_saw(make: Make) -> None:
    """Random lists of two sources of one provider and others, one believed before the other: against the market of every look."""
    dice = random.Random(20261129)
    watch = make(DROP, sources_toml=SECOND, tracker_toml=FILES["tracker.toml"] + '\n[precedence]\ncloud = ["others", "rents"]\n')
    rule = watch.world.alerts.rules["drop"]
    seen: list[tuple[datetime, Decimal]] = []
    for _ in range(120):
        rows = [
            offer(f"{dice.randint(100, 120) / 100}", sku=f"80-{sku}", gpu="test-80", provider=provider, availability=dice.choice((0, 1, 2)))
            for provider, sku in (("cloud", "a"), ("cloud", "b"), ("other", "c"))
            if dice.random() < 0.8
        ]  # fmt: skip
        watch.list(*rows, source=dice.choice(("rents", "others")))
        watch.wait(minutes=dice.choice((0, 0, 0, 200)))
        market = recompute(watch.db, watch.world, watch.sizer, watch.at)
        prices = {subject: price for subject, price, _ in gpu_prices(rule, market)}  # type: ignore[arg-type]
        if "test-80/on_demand" in prices:
            seen.append((watch.at, prices["test-80/on_demand"]))
    message = {"kind": "price_drop", "rule": "drop", "gpu": "test-80", "tier": "on_demand", "title": "t", "provider": "cloud"}
    with reading(watch.db) as connection:
        found = chart_of(connection, watch.world, message, watch.at)
    assert found is not None
    (line,) = found.panels[0].lines
    for at, price in seen:
        assert [step.value for step in line.steps if step.start <= at < step.end] == [price], at
    assert len(seen) > 60


@pytest.mark.parametrize("kind", sorted(READ))
def test_of_a_message_that_says_too_little_there_is_no_picture(make: Make, kind: str) -> None:
    """Messages of before there were pictures lack some of what one is made of."""
    watch = make(CHEAPER)
    with reading(watch.db) as connection:
        assert chart_of(connection, watch.world, {"kind": kind, "title": "large-60b", "text": "large-60b"}, watch.at) is None


def test_the_lowest_of_some_spans() -> None:
    """3 from 0 to 10, 2 from 4 to 6, 1 from 20 to 21."""
    found = lowest([((0, 10), Decimal(3)), ((4, 6), Decimal(2)), ((20, 21), Decimal(1)), ((5, 6), Decimal(9))])
    told = [(step.start.timestamp(), step.end.timestamp(), step.value) for step in found]
    unit = told[0][1] / 4
    assert told == [(0, 4 * unit, 3), (4 * unit, 6 * unit, 2), (6 * unit, 10 * unit, 3), (20 * unit, 21 * unit, 1)]


def test_token_prices_are_shown_in_their_own_currency(make: Make) -> None:
    watch = make(RATES)
    yuan = {"currency": "CNY", "cache_read": "1"}
    sweep(watch.db, "ecb", watch.at - timedelta(hours=1), fx=fx(watch.at.date() - timedelta(days=3), USD="1.25", CNY="8"), rows=1)
    watch.list("2.00")
    watch.look(rate(input="4", output="16", **yuan), source="tokens")
    watch.look(rate(input="3", output="12", **yuan), source="tokens")
    found = chart(watch)
    (panel,) = found.panels
    assert panel.unit == "CNY per million tokens"
    assert [(line.label, [step.value for step in line.steps]) for line in panel.lines] == [
        ("input", [Decimal(4), Decimal(3)]), ("output", [Decimal(16), Decimal(12)]),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("rules", "units"), [(FLIP, ["USD per month, turns"]), (CROSSED, ["USD per hour, whole setup", "USD per million tokens"])]
)
def test_answers_show_the_prices_they_follow_from(make: Make, rules: str, units: list[str]) -> None:
    watch = make(rules)

    def look(price: str) -> tuple[Any, ...]:
        watch.list(rate(input="1", cache_read="0.1", output="4"), source="tokens")
        watch.list(price)
        keep_decisions(watch.db, watch.world.config.sources, recompute(watch.db, watch.world, watch.sizer, watch.at), len(prices))
        return watch.judge()

    prices = ["1.00"]
    assert look("1.00") == ()
    told: tuple[Any, ...] = ()
    for price in ("9.00", "9.00"):
        prices.append(price)
        told += look(price)
    assert len(told) == 1
    found = chart(watch)
    assert [panel.unit for panel in found.panels] == units
    assert all(line.steps for panel in found.panels for line in panel.lines)
    rents = {step.value for step in found.panels[0].lines[0].steps}
    if rules == CROSSED:
        assert rents == {Decimal(1), Decimal(9)}


# --- scales -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "marks"),
    [
        (("2", "2"), ["1.90", "1.95", "2.00", "2.05", "2.10"]),  # one price: a twentieth of room either way
        (("37.6", "49.5"), ["37.5", "40.0", "42.5", "45.0", "47.5", "50.0"]),  # 36.6 to 50.5
        (("0.3", "16"), ["0", "5", "10", "15"]),  # from 0: 0 to 17.3
        (("0.00012", "0.0002"), ["0.00012", "0.00014", "0.00016", "0.00018", "0.00020"]),
        (("0", "0"), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (("1000", "250000"), ["0", "50,000", "100,000", "150,000", "200,000", "250,000"]),
    ],
)
def test_prices_are_marked_at_round_figures(values: tuple[str, str], marks: list[str]) -> None:
    least, most = price_range([Decimal(value) for value in values])
    ticks = price_ticks(least, most)
    assert [price_text(tick, ticks[1] - ticks[0]) for tick in ticks] == marks
    assert all(least <= tick <= most for tick in ticks)


def test_days_are_marked_at_midnight() -> None:
    start = datetime(2026, 10, 30, 12, tzinfo=UTC)
    assert [day.day for day in day_ticks(start, start + timedelta(days=30))] == [31, 5, 10, 15, 20, 25]
    assert [day.day for day in day_ticks(start, start + timedelta(days=4))] == [31, 1, 2, 3]
    assert day_ticks(start, start + timedelta(hours=2)) == ()
    assert day_ticks(start.replace(hour=0), start.replace(hour=1)) == (start.replace(hour=0),)


def test_neighbours_of_one_price_are_one_step() -> None:
    a, b, c, d = (T0 + timedelta(hours=hour) for hour in range(4))
    one, two = Decimal(1), Decimal(2)
    assert joined([Step(a, b, one), Step(b, c, one), Step(c, d, two)]) == (Step(a, c, one), Step(c, d, two))
    assert joined([Step(a, b, one), Step(c, d, one)]) == (Step(a, b, one), Step(c, d, one))


# --- what is drawn ----------------------------------------------------------------------------------------------------

BLUE = (9, 105, 218)


def picture(*lines: Line, days: int = 10, **other: Any) -> Chart:
    stated = {"title": "t", "panels": (Panel(unit="USD per hour", lines=lines),), "start": T0, "end": T0 + timedelta(days=days)}
    return Chart(**(stated | {"changed_at": T0 - timedelta(days=1)} | other))


def line(*spans: tuple[float, float, str]) -> Line:
    """Days from, to, price."""
    return Line(label="l", steps=tuple(Step(T0 + timedelta(days=a), T0 + timedelta(days=b), Decimal(value)) for a, b, value in spans))


def columns(found: Chart) -> dict[int, list[int]]:
    """Rows of the line's colour by column of the plot: below the legend."""
    extra("pillow")
    image_of = importlib.import_module("PIL.Image")
    image = image_of.open(io.BytesIO(png(found))).convert("RGB")
    assert image.width == WIDTH
    top = image.height - PANEL - 26 - 36  # what lies below it
    pixels = image.load()
    return {
        x: [y for y in range(top, image.height) if max(abs(a - b) for a, b in zip(pixels[x, y], BLUE, strict=True)) < 25]
        for x in range(image.width)
    }  # fmt: skip


def test_a_price_runs_level_until_it_changes_and_is_nowhere_where_it_was_not_observed() -> None:
    found = columns(picture(line((0, 4, "10"), (4, 6, "20"), (8, 10, "20"))))
    drawn = [x for x, rows in found.items() if rows]
    first, last = drawn[0], max(x for x in drawn if len(found[x]) <= 6)
    width = WIDTH - 36 - first  # of ten days
    day = width / 10
    at = {number: found[round(first + day * number)] for number in (1, 2, 3, 5, 7, 9)}
    assert at[1] == at[2] == at[3] != []
    assert at[5] == at[9] != []
    assert at[7] == []  # no line from one to the other
    assert max(at[5]) < min(at[1])  # the dearer one is higher
    between = found[round(first + day * 4)]
    assert len(between) > min(at[1]) - max(at[5]) > 50  # upright where one follows the other at once
    assert last <= WIDTH - 36 + 6


def test_a_price_seen_once_can_be_seen() -> None:
    found = columns(picture(line((5, 5.00001, "10"))))
    assert sum(len(rows) for rows in found.values()) >= 60


def test_a_thousand_prices_and_long_names_stay_small_and_within_the_picture() -> None:
    extra("pillow")
    dice = random.Random(7)
    many = line(*((number / 100, (number + 1) / 100, f"{dice.randint(180, 240) / 100}") for number in range(1000)))
    drawn = png(picture(many, Line(label="n" * 400, steps=many.steps[:500], role="old"), title="T" * 300, notes=("n" * 500,)))
    assert 5_000 < len(drawn) < 200_000
    assert drawn[:8] == b"\x89PNG\r\n\x1a\n"
    assert png(picture(many)) == png(picture(many))


def test_letters_that_cannot_be_drawn_become_such_that_can() -> None:
    assert plain("Zürich 2 \u00d7 H100 \u2013 \u4e2d") == "Zurich 2 x H100 - ?"
