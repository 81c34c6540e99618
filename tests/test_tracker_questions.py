"""Several questions beside each other: each has answers, series, decisions and addresses of its own. ``questions`` has the arithmetic."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from datetime import datetime, timedelta
from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import Any

import commands
import httpx
import pytest
from asgi import Served
from asgi import get as answers
from commands import breakeven
from questions import ALSO, LONG_OURS, LONG_TURNS, OURS, RATE, TURNS, asking_world, offers
from small_world import T0, fill, small_world, sweep
from sqlalchemy import Engine

from tracker.answers.ageing import latest
from tracker.answers.decided import course, decisions
from tracker.answers.decisions import keep_decisions
from tracker.answers.questions import default_question, nearest_question, tracked
from tracker.answers.recompute import Sizer, recompute
from tracker.answers.snapshot import Snapshot
from tracker.cli import session as sessions
from tracker.database.handle import reading
from tracker.errors import ConfigError, UnknownName
from tracker.exports.openmetrics import write_openmetrics
from tracker.exports.past import Steps
from tracker.metrics.families import families
from tracker.paths import config_dir
from tracker.rollup.run import MODEL, roll_up
from tracker.web.front import make_front
from tracker.world import World, load_world

D = Decimal
NOW = T0 + timedelta(minutes=10)
WINNERS = {  # model, workload, policy: provider, sku, USD an hour
    ("large-60b", *TURNS): ("cloud", "141x1", "2.30"),
    ("large-60b", *LONG_TURNS): ("cloud", "80x2", "3.00"),
    ("large-60b", *OURS): ("rents", "141x1", "2.50"),
    ("large-60b", *LONG_OURS): ("rents", "80x2", "3.30"),
    ("small-8b", *TURNS): ("cloud", "141x1", "2.30"),
    ("small-8b", *OURS): ("rents", "141x1", "2.50"),
}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return asking_world(tmp_path / "asking")


@pytest.fixture
def book(db: Engine) -> Engine:
    sweep(db, "tokens", T0, RATE)
    sweep(db, "rents", T0, *offers())
    return db


def samples(snapshot: Snapshot) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (family.name, tuple(zip(family.labels, values, strict=True))): number
        for family in families(snapshot)
        for values, number in family.samples
    }


# --- answers --------------------------------------------------------------------------------------------------------------


def test_each_question_has_the_winner_that_its_own_needs_and_offers_have(book: Engine, world: World) -> None:
    found = recompute(book, world, Sizer(world), NOW)
    told = {
        (a.model.id, a.workload.id, a.policy): (a.setup.offer.provider, a.setup.offer.sku, a.setup.usd_per_hour)
        for a in found.every
        if a.setup
    }
    assert told == {key: (provider, sku, D(price)) for key, (provider, sku, price) in WINNERS.items()}
    assert [(a.model.id, a.workload.id, a.policy) for a in found.answers] == [("large-60b", *TURNS), ("small-8b", *TURNS)]


def test_the_break_even_is_of_the_question_s_workload(book: Engine, world: World) -> None:
    (found,) = recompute(book, world, Sizer(world), NOW).asked(*LONG_TURNS)
    assert found.rate is not None and found.break_even is not None
    assert (found.rate.usd_per_mtok, found.rate.usd_per_month, found.break_even.tokens) == (D("2.4"), D(2_400), D(912_500_000))


def test_what_is_rented_today_measures_only_questions_about_its_own_workload(book: Engine, world: World) -> None:
    found = recompute(book, world, Sizer(world), NOW).every
    saving = {(a.workload.id, a.policy): a.saving_ratio for a in found if a.model.id == "large-60b"}
    # $2.875 an hour runs today: 2.30 saves a fifth, 2.50 3 of 23; nobody says what runs for long sessions
    assert saving == {TURNS: D("0.2"), LONG_TURNS: None, OURS: 1 - D("2.50") / D("2.875"), LONG_OURS: None}


def test_a_further_question_changes_nothing_about_the_default_one(book: Engine, world: World, tmp_path: Path) -> None:
    one = small_world(tmp_path / "one")
    alone, beside = (recompute(book, w, Sizer(w), NOW) for w in (one, world))
    assert beside.answers == alone.answers
    assert (alone.also, beside.market) == ((), alone.market)


def test_offers_of_a_name_can_be_asked_with_another_workload_or_policy_and_an_unknown_name_is_one_error(world: World) -> None:
    found = default_question(world, "long", "swfte@ours")
    assert (found.workload.id, found.policy_id, found.offers.providers) == ("long", "swfte@ours", {"rents"})
    assert default_question(world, policy="@ours") == next(q for q in tracked(world) if q.policy_id == "studiotv@ours")
    with pytest.raises(UnknownName, match=r"no offers named 'our' \(did you mean ours\?\); \[\[track.also\]\] of tracker.toml has ours"):
        default_question(world, policy="studiotv@our")


def test_tiers_and_trusts_are_of_the_offers_too(db: Engine, tmp_path: Path) -> None:
    spot = asking_world(tmp_path / "spot", '[[track.also]]\nname = "spot"\ntiers = ["spot"]\ntrusts = ["community"]\n')
    fill(db)  # a spot machine at $1.00 of a data center, one of the community on demand at $0.10: neither is both
    assert [a.setup for a in recompute(db, spot, Sizer(spot), NOW).asked("", "studiotv@spot")] == [None, None]
    looser = asking_world(tmp_path / "looser", '[[track.also]]\nname = "spot"\ntiers = ["spot"]\n')
    found = recompute(db, looser, Sizer(looser), NOW).asked("", "studiotv@spot")
    assert [a.setup and a.setup.usd_per_hour for a in found] == [1, 1]


@pytest.mark.parametrize(("provider", "known"), [("gcp", True), ("vast", True), ("hetzner", True), ("gpuhunt", False), ("moonshot", False)])
def test_a_provider_is_known_by_its_source_or_by_a_catalogue_that_tells_of_it(tmp_path: Path, provider: str, known: bool) -> None:
    text = f'[track]\nmodels = ["kimi-k3.1-pro"]\nworkload = "agent-turns"\n[[track.also]]\nname = "some"\nproviders = ["{provider}"]\n'
    (tmp_path / "tracker.toml").write_text(text, encoding="utf-8")
    with nullcontext() if known else pytest.raises(ConfigError, match=f"no provider named '{provider}'"):
        assert load_world(config_dir(), tmp_path)


# --- metrics --------------------------------------------------------------------------------------------------------------


def test_series_of_two_questions_never_share_their_labels_and_those_of_the_default_one_stay(
    book: Engine, world: World, tmp_path: Path
) -> None:
    one = small_world(tmp_path / "one")
    alone, beside = (samples(recompute(book, w, Sizer(w), NOW)) for w in (one, world))
    assert {key: number for key, number in beside.items() if key in alone} == alone
    more = [dict(labels) for _, labels in beside.keys() - alone.keys()]
    assert {(labels["workload"], labels["policy"]) for labels in more} == {LONG_TURNS, OURS, LONG_OURS}
    rents = {
        tuple(labels[name] for name in ("model", "workload", "policy")): number
        for (name, pairs), number in beside.items()
        if name == "breakeven_best_setup_usd_per_hour" and (labels := dict(pairs))
    }
    assert rents == {key: float(price) for key, (_, _, price) in WINNERS.items()}


def test_no_series_comes_twice(book: Engine, world: World) -> None:
    for family in families(recompute(book, world, Sizer(world), NOW)):
        keys = [values for values, _ in family.samples]
        assert len(keys) == len(set(keys)), family.name


# --- decisions ------------------------------------------------------------------------------------------------------------


def look(db: Engine, world: World, at: datetime) -> int:
    newest, snapshot = latest(db, world, Sizer(world), at)
    return keep_decisions(db, world.config.sources, snapshot, newest)


def test_decisions_are_kept_and_read_by_question(book: Engine, world: World) -> None:
    assert look(book, world, NOW) == len(WINNERS)
    sweep(book, "rents", T0 + timedelta(hours=1), *offers(rents="2.40"))
    assert look(book, world, T0 + timedelta(hours=1.1)) == 2  # of both models, at our own provider alone
    with reading(book) as connection:
        of = {"model": "large-60b", "workload": "turns", "policy": "studiotv@ours"}
        told = course(connection, world.config.sources, T0, T0 + timedelta(hours=2), **of)
        every = decisions(connection, T0, T0 + timedelta(hours=2), model="large-60b")
    assert [(found.provider, found.usd_per_hour) for found in told] == [("rents", D("2.5")), ("rents", D("2.4"))]
    assert sorted((f.workload, f.policy) for f in every) == sorted([TURNS, LONG_TURNS, OURS, OURS, LONG_OURS])


def test_a_question_that_is_asked_no_more_is_over_and_the_others_go_on(book: Engine, world: World, tmp_path: Path) -> None:
    look(book, world, NOW)
    fewer = asking_world(tmp_path / "fewer", ALSO[: ALSO.rindex("[[track.also]]")])
    assert look(book, fewer, NOW + timedelta(minutes=1)) == 1
    with reading(book) as connection:
        (_, last) = decisions(connection, T0, NOW + timedelta(hours=1), workload="long", policy="studiotv@ours")
    assert (last.usd_per_hour, last.reason) == (None, "asked no more")


def test_the_winner_of_a_day_is_of_its_question(book: Engine, world: World) -> None:
    look(book, world, NOW)
    roll_up(book, world.config.sources, T0 + timedelta(hours=2))
    with reading(book) as connection:
        rows = connection.execute(MODEL.select()).mappings().all()
    told = {(row["model"], row["workload"], row["policy"]): (row["provider"], row["sku"], row["least"]) for row in rows}
    assert told == {key: (provider, sku, int(D(price) * 10**9)) for key, (provider, sku, price) in WINNERS.items()}


# --- page and API ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def served(book: Engine, world: World) -> Served:
    return Served(world, book, recompute(book, world, Sizer(world), NOW), lambda: NOW)


def get(served: Served, path: str) -> httpx.Response:
    (answer,) = answers(make_front(served), path)
    return answer


def test_a_history_is_of_the_question_that_is_asked_so_and_else_of_what_is_named(tmp_path: Path) -> None:
    """Nobody asks about turns at ``ours``: its name alone means the question that has it, as on the page."""
    world = asking_world(tmp_path, '\n[[track.also]]\nname = "ours"\nworkload = "long"\nproviders = ["rents"]\n')
    named = {(w, p): nearest_question(world, w, p) for w in ("", "turns") for p in ("", "studiotv", "studiotv@ours", "swfte")}
    assert {key: (q.workload.id, q.policy_id) for key, q in named.items()} == {
        ("", ""): TURNS, ("", "studiotv"): TURNS, ("", "studiotv@ours"): LONG_OURS, ("", "swfte"): ("turns", "swfte"),
        ("turns", ""): TURNS, ("turns", "studiotv"): TURNS, ("turns", "studiotv@ours"): OURS, ("turns", "swfte"): ("turns", "swfte"),
    }  # fmt: skip


def models(served: Served, query: str) -> list[Any]:
    found = json.loads(get(served, "/api/v1/models" + query).text, parse_float=D)["models"]
    return [(m["model"], m["workload"], m["policy"], m["setup"]["offer"]["provider"], m["setup"]["offer"]["sku"]) for m in found]


@pytest.mark.parametrize(
    ("query", "key"),
    [
        ("", TURNS),
        ("?workload=turns", TURNS),
        ("?policy=studiotv", TURNS),
        ("?workload=long", LONG_TURNS),
        ("?policy=studiotv@ours", OURS),
        ("?policy=studiotv%40ours&workload=long", LONG_OURS),
        ("?workload=long&at=2026-11-02T12:05Z", LONG_TURNS),
    ],
)
def test_the_api_answers_the_default_question_unless_asked_another(served: Served, query: str, key: tuple[str, str]) -> None:
    expected = [(*found, provider, sku) for found, (provider, sku, _) in WINNERS.items() if found[1:] == key]
    assert models(served, query) == expected


def test_one_model_s_answer_is_of_the_question_too(served: Served) -> None:
    assert get(served, "/api/v1/models/large-60b?policy=studiotv@ours").json()["setup"]["usd_per_hour"] == "2.5"
    assert get(served, "/api/v1/models/large-60b").json()["setup"]["usd_per_hour"] == "2.3"
    missing = get(served, "/api/v1/models/small-8b?workload=long")
    assert (missing.status_code, missing.json()["detail"]) == (
        404, "model 'small-8b' is tracked, but not with that workload and policy; see models in [[track.also]] of tracker.toml",
    )  # fmt: skip


@pytest.mark.parametrize("path", ["/", "/api/v1/models", "/api/v1/models/large-60b"])
def test_a_question_that_nobody_asks_is_not_answered(served: Served, path: str) -> None:
    found = get(served, path + "?workload=long&policy=swfte")
    assert found.status_code == 404
    assert found.json()["detail"] == (
        "nobody asks for workload 'long' and policy 'swfte'; tracker.toml asks turns with studiotv, long with studiotv, "
        "turns with studiotv@ours, long with studiotv@ours"
    )


@pytest.mark.parametrize("key", [TURNS, OURS, LONG_OURS])
def test_the_api_tells_the_history_of_a_question(served: Served, key: tuple[str, str]) -> None:
    look(served.db, served.world, T0 + timedelta(minutes=1))
    rows = get(served, f"/api/v1/history/setup/large-60b?workload={key[0]}&policy={key[1]}&since=2026-11-02T12:05Z&step=5m").json()[
        "history"
    ]
    provider, _, price = WINNERS["large-60b", *key]
    assert [(row["provider"], row["usd_per_hour"], row["decided_at"]) for row in rows] == [(provider, price, "2026-11-02T12:01:00Z")] * 2
    assert get(served, "/api/v1/history/setup/large-60b?policy=studiotv@nobody").status_code == 404


def test_the_api_lists_the_questions(served: Served) -> None:
    found = get(served, "/api/v1/questions").json()["questions"]
    assert [(q["workload"], q["policy"], q["name"], q["providers"], q["models"]) for q in found] == [
        (*TURNS, "", None, ["large-60b", "small-8b"]),
        (*LONG_TURNS, "", None, ["large-60b"]),
        (*OURS, "ours", ["rents"], ["large-60b", "small-8b"]),
        (*LONG_OURS, "ours", ["rents"], ["large-60b"]),
    ]


def test_the_page_shows_one_question_and_links_to_the_others(served: Served) -> None:
    page = get(served, "/?workload=long&policy=studiotv@ours").text
    assert "rents 80x2" in page and "141x1" not in page and "small-8b" not in page
    assert "rented from rents only" in page and "Long sessions" in page
    links = re.findall(r'href="(/\?[^"]*)"', page)
    assert links == [
        "/?workload=turns&amp;policy=studiotv",
        "/?workload=long&amp;policy=studiotv",
        "/?workload=turns&amp;policy=studiotv@ours",
    ]
    assert 'href="/api/v1/models?workload=long&amp;policy=studiotv@ours"' in page
    assert "cloud 141x1" in get(served, "/").text


def test_the_page_keeps_the_question_and_the_moment_together(served: Served) -> None:
    page = get(served, "/?policy=studiotv@ours&at=2026-11-02T12:05Z").text
    assert 'href="/?workload=turns&amp;policy=studiotv&amp;at=2026-11-02T12:05Z"' in page
    assert '<a href="/?workload=turns&amp;policy=studiotv@ours">Back to now</a>' in page
    assert 'href="/api/v1/offers?at=2026-11-02T12:05Z"' in page
    assert '<input type="hidden" name="policy" value="studiotv@ours">' in page
    assert "hidden" not in get(served, "/").text


# --- commands and exports -------------------------------------------------------------------------------------------------


@pytest.fixture
def shell(book: Engine, world: World, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """The command line works on that book with that configuration, and was looked at once."""
    look(book, world, NOW)
    monkeypatch.setattr(sessions, "world", lambda: world)
    monkeypatch.setattr(commands, "sessions_open_book", lambda *_: book)
    return book


@pytest.mark.parametrize("key", [TURNS, LONG_TURNS, OURS, LONG_OURS])
def test_commands_answer_a_question_by_its_workload_and_policy(shell: Engine, key: tuple[str, str]) -> None:
    provider, sku, price = WINNERS["large-60b", *key]
    asked = ("--workload", key[0], "--policy", key[1])
    found = breakeven("cheapest", "large-60b", *asked, "--json", at=NOW).json
    assert (found["workload"], found["policy"]) == key
    assert (found["setup"]["offer"]["provider"], found["setup"]["offer"]["sku"], D(found["setup"]["usd_per_hour"])) == (
        provider,
        sku,
        D(price),
    )
    rows = breakeven("history", "setup", "large-60b", *asked, "--since", "1m", "--step", "1m", "--json", at=NOW + timedelta(minutes=1)).json
    assert [(row["provider"], row["usd_per_hour"], row["decided_at"] is not None) for row in rows][-1] == (provider, price, True)


def test_prices_have_no_question(shell: Engine) -> None:
    done = breakeven("history", "gpu", "test-141", "--policy", "studiotv@ours", at=NOW)
    assert (done.code, "prices of gpu are of no workload or policy" in " ".join(done.err.split())) == (2, True)


def test_the_exported_past_has_every_question(book: Engine, world: World) -> None:
    out = StringIO()
    write_openmetrics(out, book, world, Steps(start=NOW, end=NOW + timedelta(minutes=2), step=timedelta(minutes=1)))
    pattern = r'^breakeven_best_setup_usd_per_hour\{model="([^"]+)",workload="([^"]+)",policy="([^"]+)"\} (\S+) '
    told = {(model, workload, policy): float(price) for model, workload, policy, price in re.findall(pattern, out.getvalue(), re.MULTILINE)}
    assert told == {key: float(price) for key, (_, _, price) in WINNERS.items()}
