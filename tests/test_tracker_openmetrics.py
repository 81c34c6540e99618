"""The past as /metrics would have told it, step by step; loaded by the real promtool, a real Prometheus answers with it."""

from __future__ import annotations

import io
import random
import subprocess
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest
from databases import BOTH, new_book, opened
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as text_of_the_live_ones
from servers import Prometheus
from small_world import T0, fill, fx, offer, rate, sweep
from sqlalchemy import Engine

from tracker.answers.recompute import Sizer, recompute
from tracker.exports.openmetrics import write_openmetrics
from tracker.exports.past import KNOWN_THEN, Steps
from tracker.metrics.exposition import Renderer, assemble
from tracker.metrics.families import families
from tracker.metrics.table import COUNTERS, GAUGES, PREFIX
from tracker.moments import NoSuchTime
from tracker.world import World

HOUR = timedelta(hours=1)
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture(params=BOTH)
def db(request: pytest.FixtureRequest) -> Iterator[Engine]:
    yield from opened(new_book(request, request.param))


def exported(db: Engine, world: World, start: datetime, end: datetime, step: timedelta) -> str:
    out = io.StringIO()
    write_openmetrics(out, db, world, Steps(start=start, end=end, step=step))
    return out.getvalue()


def by_time(text: str) -> dict[float, Samples]:
    """The samples of each time, read by Prometheus's own Python client, which refuses what is out of order."""
    found: dict[float, Samples] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(float(sample.timestamp), {})[sample.name, frozenset(sample.labels.items())] = sample.value
    return found


def live(db: Engine, world: World, at: datetime) -> Samples:
    """What /metrics says at that time, as far as the book can tell it of any time."""
    text = assemble(Renderer().lines(families(recompute(db, world, Sizer(world), at))), "text").decode()
    names = {PREFIX + name for name in KNOWN_THEN}
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_of_the_live_ones(text)
        for sample in family.samples
        if sample.name in names or sample.name.removesuffix("_total") in names
    }


def test_every_metric_it_tells_of_is_one_of_the_contract() -> None:
    assert set(KNOWN_THEN) <= set(GAUGES) | set(COUNTERS)
    assert len(KNOWN_THEN) == len(set(KNOWN_THEN))


def test_each_step_says_what_metrics_said_then(db: Engine, world: World) -> None:
    """Prices that move, vanish and grow stale, a source that fails, rates that begin and end, days with other exchange rates."""
    fill(db)
    dice = random.Random(7)
    for hour in (1, 2, 2.5, 7, 8, 30, 31):
        at = T0 + timedelta(hours=hour)
        rows = [offer(f"{dice.randint(150, 320)}e-2"), offer(f"{dice.randint(200, 400)}e-2", sku="80x2", gpu="test-80", gpu_count=2)]
        sweep(db, "rents", at, *rows[: dice.randint(1, 2)])
    sweep(db, "rents", T0 + timedelta(hours=4), status="failed", error="no answer", rows=0)
    ends = int((T0 + timedelta(hours=20)).timestamp())
    sweep(
        db, "tokens", T0 + timedelta(hours=6),
        rate(input="2", cache_read="0.2", output="10", valid_to=ends),
        rate(input="1", cache_read="0.1", output="5", valid_from=ends),
        rate(provider="vendor-cn", currency="CNY", input="14", cache_read="7", output="70"),
    )  # fmt: skip
    sweep(db, "ecb", T0 + timedelta(hours=10), fx=fx(date(2026, 11, 3), USD="1.30", CNY="8.50"), rows=2)
    start, step = T0 - timedelta(minutes=50), timedelta(minutes=50)
    told = by_time(exported(db, world, start, T0 + timedelta(hours=90), step))
    for number in range(109):  # 90 hours and 50 minutes
        at = start + number * step
        assert told.get(at.timestamp(), {}) == live(db, world, at), at
    assert len({len(samples) for samples in told.values()}) > 5


def test_a_stale_price_is_a_gap_and_the_text_ends_well(db: Engine, world: World) -> None:
    sweep(db, "rents", T0, offer("2.30"))
    sweep(db, "rents", T0 + 5 * HOUR, offer("2.40"))
    text = exported(db, world, T0 - HOUR, T0 + 10 * HOUR, HOUR)
    assert text.endswith("\n# EOF\n")
    assert text.count("# EOF") == 1
    name = ("breakeven_rental_usd_per_gpu_hour", frozenset({("provider", "cloud"), ("gpu", "test-141"), ("tier", "on_demand")}))
    seen = {(moment - T0.timestamp()) / 3600: samples[name] for moment, samples in by_time(text).items() if name in samples}
    assert seen == {0: 2.3, 1: 2.3, 2: 2.3, 3: 2.3, 5: 2.4, 6: 2.4, 7: 2.4, 8: 2.4}  # max_age of the source is three hours


def test_a_price_that_is_listed_and_not_printed_grows_old_by_its_own_sighting(db: Engine, world: World) -> None:
    """The sweep of 1 h lacks the small one: it is listed until it was missed twice, and old three hours after noon; and so are others."""
    sweep(db, "rents", T0, offer("2.30"), offer("1.00", sku="80x1", gpu="test-80"))
    for hours in (1, 6):
        sweep(db, "rents", T0 + hours * HOUR, offer("2.30"))
    sweep(db, "rents", T0 + 4.5 * HOUR, status="failed", error="no answer", rows=0)
    told = by_time(exported(db, world, T0, T0 + 10 * HOUR, timedelta(minutes=30)))
    for number in range(20):
        at = T0 + number * timedelta(minutes=30)
        assert told.get(at.timestamp(), {}) == live(db, world, at), at
    small = ("breakeven_rental_usd_per_gpu_hour", frozenset({("provider", "cloud"), ("gpu", "test-80"), ("tier", "on_demand")}))
    assert [(moment - T0.timestamp()) / 3600 for moment, samples in told.items() if small in samples] == [0, 0.5, 1, 1.5, 2, 2.5, 3]


def test_nothing_known_is_no_sample(db: Engine, world: World) -> None:
    assert exported(db, world, T0, T0 + HOUR, HOUR).endswith("# EOF\n")
    assert not [line for line in exported(db, world, T0, T0 + HOUR, HOUR).splitlines() if line.startswith(f"{PREFIX}rental")]


def test_names_are_escaped(db: Engine, world: World) -> None:
    hostile = 'a "quoted" \\ name'
    sweep(db, "rents", T0, offer("2.30", provider=hostile))
    text = exported(db, world, T0, T0 + HOUR, HOUR)
    assert 'provider="a \\"quoted\\" \\\\ name"' in text
    assert {dict(labels).get("provider") for (_, labels), _ in by_time(text)[T0.timestamp()].items()} >= {hostile}


@pytest.mark.parametrize(
    ("end", "step", "message"), [(T0, HOUR, "before it begins"), (T0 + HOUR, timedelta(0), "step must be longer than nothing")]
)
def test_an_empty_range_is_refused(end: datetime, step: timedelta, message: str) -> None:
    with pytest.raises(NoSuchTime, match=message):
        Steps(start=T0, end=end, step=step)


# --- in the real thing ---------------------------------------------------------------------------------------------------


@pytest.mark.real
def test_a_real_prometheus_answers_with_the_past(
    require: Callable[[str], Path], tmp_path: Path, world: World, request: pytest.FixtureRequest
) -> None:
    """Three days by the hour, in blocks of a day: the answer at a past time is the figure worked out by hand in small_world."""
    promtool, prometheus = require("promtool"), require("prometheus")
    (handle,) = list(_book(request))
    sweep(handle, "rents", T0 + 50 * HOUR, offer("1.95"))
    text, home = tmp_path / "history.om", tmp_path / "prometheus"
    with text.open("w", encoding="utf-8") as out:
        samples = write_openmetrics(out, handle, world, Steps(start=T0 - HOUR, end=T0 + 72 * HOUR, step=HOUR))
    handle.dispose()
    command = [promtool, "tsdb", "create-blocks-from", "--max-block-duration=24h", "openmetrics", text, home / "data"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    flags = ["--storage.tsdb.retention.time=100y"]
    with Prometheus(prometheus, home, "127.0.0.1:1", flags=flags) as server:

        def at(expression: str, when: datetime) -> list[tuple[dict[str, str], str]]:
            found = (server.get("query", query=expression, time=str(when.timestamp())) or {"result": []})["result"]
            return [({name: v for name, v in one["metric"].items() if name != "__name__"}, one["value"][1]) for one in found]

        server.until(lambda: server.get("label/__name__/values"), "it answers")
        names = server.get("label/__name__/values", start=str(T0.timestamp() - 3600), end=str(T0.timestamp() + 72 * 3600))
        counted = [int(value) for name in names for _, value in at(f"sum(count_over_time({name}[5d]))", T0 + 72 * HOUR)]
        assert (len(counted) > 15, sum(counted)) == (True, samples)
        best = 'breakeven_best_setup_usd_per_hour{model="large-60b"}'
        key = {"model": "large-60b", "workload": "turns", "policy": "studiotv"}
        assert at(best, T0 + HOUR) == [(key, "2.3")]
        assert at('breakeven_break_even_tokens_per_month{model="large-60b"}', T0 + HOUR) == [(key, "1460000000")]
        assert at(best, T0 - HOUR) == []  # nothing was known yet
        assert at(best, T0 + 10 * HOUR) == []  # the price was older than its source's three hours
        assert at(best, T0 + 51 * HOUR) == [(key, "1.95")]


def _book(request: pytest.FixtureRequest) -> Iterator[Engine]:
    handle = next(opened(new_book(request, "sqlite")))
    fill(handle)
    yield handle
