"""Alerts of several questions: each is told by itself, names what it is about, and is compared with itself alone. ``questions`` has the
arithmetic: one test-141 holds a turn, two test-80 a long session; ``ours`` are the offers of ``rents``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import timedelta
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path

import pytest
from questions import ALSO, RATE, asking_world, offers
from small_world import FILES, T0, offer, rate
from sqlalchemy import Engine
from watching import CHEAPER, SECOND, Watch

from tracker.alerting.backtest import backtest
from tracker.alerting.decisions import acknowledge, silence, since
from tracker.alerting.ledger import message_of
from tracker.alerting.message import Alarm
from tracker.alerting.replay import read_past, snapshots
from tracker.alerting.rules import CheaperSetup, load_alerts
from tracker.answers.recompute import Sizer
from tracker.database.handle import reading, writing
from tracker.database.rows import OfferRow
from tracker.errors import ConfigError
from tracker.paths import config_dir

Make = Callable[..., Watch]
D = Decimal
LARGE = 'models = ["large-60b"]\n'
ASKED = ("turns/studiotv", "long/studiotv", "turns/studiotv@ours", "long/studiotv@ours")
GONE = '[rules.gone]\nkind = "setup_gone"\npercent = 5\n'


@pytest.fixture
def make(db: Engine, tmp_path: Path) -> Make:
    """A watch on a world of four questions, with rules of its own about the large model."""

    def made(rules: str, also: str = ALSO, folder: str = "asking", **changed: str) -> Watch:
        return Watch(db, asking_world(tmp_path / folder, also, alerts_toml=rules, **changed))

    return made


def subjects(alarms: Sequence[Alarm]) -> list[str]:
    """Workload and policy of each, sorted; the model is large-60b."""
    assert all(alarm.subject.startswith("large-60b/") for alarm in alarms)
    return sorted(alarm.subject.removeprefix("large-60b/") for alarm in alarms)


# --- cheaper setup --------------------------------------------------------------------------------------------------------


def test_each_question_is_told_once_by_itself(make: Make) -> None:
    """All four prices fall by a fifth at once: four messages, and never again."""
    watch = make(CHEAPER + LARGE)
    watch.look(*offers())
    cheap = offers("1.84", "2.00", "2.40", "2.64")
    told = [subjects(watch.look(*cheap)) for _ in range(4)]
    assert told == [[], sorted(ASKED), [], []]
    keys = [row["key"] for row in watch.told() if row["kind"] != "digest"]
    assert len(set(keys)) == len(keys) == 4


@pytest.mark.parametrize(
    ("prices", "asked"),
    [
        ({"cloud": "1.84"}, ["turns/studiotv"]),  # somebody else's offer is nothing to those who rent from rents
        ({"rents": "2.35"}, ["turns/studiotv@ours"]),  # 6 % less there, and dearer than the cloud's 2.30
        ({"rents": "1.84"}, ["turns/studiotv", "turns/studiotv@ours"]),
        ({"pair": "2.40"}, ["long/studiotv"]),
        ({"own_pair": "2.64"}, ["long/studiotv", "long/studiotv@ours"]),  # 20 % for ours, 12 % for all
        ({"pair": "2.90", "own_pair": "3.20"}, []),  # 3 % each
    ],
)
def test_what_moves_one_question_is_no_news_of_another(make: Make, prices: dict[str, str], asked: list[str]) -> None:
    watch = make(CHEAPER + LARGE)
    watch.look(*offers())
    watch.look(*offers(**prices))
    assert subjects(watch.look(*offers(**prices))) == asked


def test_a_message_says_which_workload_policy_and_providers_it_is_about(make: Make) -> None:
    watch = make(CHEAPER + LARGE)
    watch.look(*offers())
    watch.look(*offers(rents="2.35"))
    (alarm,) = watch.look(*offers(rents="2.35"))
    about = "turns, studiotv@ours, only rents"
    assert alarm.title == "large-60b: $2.35/h instead of $2.50/h (turns, studiotv@ours)"
    assert alarm.text.startswith("cheaper setup for large-60b: $2.35/h instead of $2.50/h (6.0 % or $109.50 a month less): ")  # 0.15 x 730
    assert alarm.text.endswith(f"; asked: {about}")
    facts = alarm.facts
    assert "page_url" not in facts  # nobody said where the page is
    assert (facts["workload"], facts["policy"], facts["question"]) == ("turns", "studiotv@ours", about)


def test_a_message_links_to_the_page_with_its_question(make: Make) -> None:
    page = '[web]\npublic_url = "https://prices.example/gpu"\n'
    watch = make(CHEAPER + LARGE, tracker_toml=FILES["tracker.toml"].replace('"turns"\n', '"turns"\n' + ALSO) + page)
    watch.look(*offers())
    watch.look(*offers(rents="2.35"))
    (alarm,) = watch.look(*offers(rents="2.35"))
    assert alarm.facts["page_url"] == "https://prices.example/gpu/?workload=turns&policy=studiotv@ours"
    with reading(watch.db) as connection:
        (row,) = since(connection, T0, watch.at)
        drawn = message_of(row).get("history_png_url")
    link = "https://prices.example/gpu/api/v1/alerts/1/history.png"
    assert drawn == (link if find_spec("PIL") else None)


def test_where_one_question_is_asked_no_message_speaks_of_it(make: Make) -> None:
    watch = make(CHEAPER, also="")
    watch.look(*offers())
    watch.look(*offers("1.84"))
    told = watch.look(*offers("1.84"))
    assert {alarm.title for alarm in told} == {f"{model}: $1.84/h instead of $2.30/h" for model in ("large-60b", "small-8b")}


@pytest.mark.parametrize(
    ("which", "asked"),
    [
        ('workloads = ["long"]', ["long/studiotv", "long/studiotv@ours"]),
        ('names = ["ours"]', ["long/studiotv@ours", "turns/studiotv@ours"]),
        ('names = [""]', ["long/studiotv", "turns/studiotv"]),
        ('policies = ["studiotv"]', sorted(ASKED)),
        ('workloads = ["turns"]\nnames = ["ours"]', ["turns/studiotv@ours"]),
    ],
)
def test_a_rule_may_name_its_questions(make: Make, which: str, asked: list[str]) -> None:
    watch = make(CHEAPER + LARGE + which + "\n")
    watch.look(*offers())
    cheap = offers("1.84", "2.00", "2.40", "2.64")
    watch.look(*cheap)
    assert subjects(watch.look(*cheap)) == asked


APART = """
[[track.also]]
workload = "long"
[[track.also]]
name = "ours"
providers = ["rents"]
models = ["large-60b"]
"""


@pytest.mark.parametrize(
    ("which", "apart"),
    [
        ('workloads = ["long"]\nnames = ["ours"]', "workloads, names"),
        ('workloads = ["long"]\nnames = ["ours", ""]', ""),  # the second is asked
        ('models = ["small-8b"]\nnames = ["ours"]', "models, names"),
        ('models = ["small-8b"]\nworkloads = ["long"]\npolicies = ["studiotv"]', ""),
    ],
)
def test_a_rule_about_what_is_never_asked_together_stops_the_start(make: Make, which: str, apart: str) -> None:
    message = rf"alerts.toml: \[rules.cheaper\] {apart}: each is asked, but never together; ask for them in one \[\[track.also\]\]"
    with pytest.raises(ConfigError, match=message) if apart else nullcontext():
        make(CHEAPER + which + "\n", also=APART)


def test_a_rule_is_about_no_model_where_none_is_tracked(make: Make) -> None:
    tracker = FILES["tracker.toml"].replace('["large-60b", "small-8b"]', "[]").replace("[baseline]\nlarge-60b", "[baseline]\n# large-60b")
    assert make(CHEAPER + 'workloads = ["turns"]\n', also="", tracker_toml=tracker).world.settings.track.models == ()


def test_the_shipped_rules_are_about_all_questions() -> None:
    rule = load_alerts(config_dir()).rules["cheaper-setup"]
    assert isinstance(rule, CheaperSetup)
    assert (rule.models, rule.workloads, rule.policies, rule.names) == ((), (), (), ())


def test_what_somebody_knows_or_silenced_of_one_question_is_told_of_the_others(make: Make) -> None:
    watch = make(CHEAPER + LARGE)
    watch.look(*offers())
    with writing(watch.db) as connection:
        silence(connection, "cheaper", "large-60b/turns/studiotv", "me", watch.at, watch.at + timedelta(hours=2))
    both = offers("1.84", "2.00")
    watch.look(*both)
    assert subjects(watch.look(*both)) == ["turns/studiotv@ours"]
    with writing(watch.db) as connection:
        acknowledge(connection, watch.told()[0]["id"], "me", watch.at)
    watch.wait(hours=3)
    assert subjects(watch.look(*both)) == ["turns/studiotv"]


def test_the_cooldown_of_one_question_holds_no_other_up(make: Make) -> None:
    watch = make(CHEAPER + LARGE + "cooldown_hours = 12\n")
    watch.look(*offers())
    for _ in range(2):
        watch.look(*offers(cloud="2.10"))
    lower = offers(cloud="1.90", rents="2.20")
    watch.look(*lower)
    assert subjects(watch.look(*lower)) == ["turns/studiotv@ours"]
    watch.wait(hours=12)
    assert subjects(watch.look(*lower)) == ["turns/studiotv"]


def test_a_question_that_is_new_or_admits_other_offers_now_starts_in_silence(make: Make) -> None:
    """``ours`` admits the cloud too from then on: $2.30 instead of $2.50 is another question's answer, and no saving."""
    watch = make(CHEAPER + LARGE)
    watch.look(*offers())
    wider = make(CHEAPER + LARGE, also=ALSO.replace('["rents"]', '["rents", "cloud"]'), folder="wider")
    wider.at = watch.at
    assert [wider.look(*offers()) for _ in range(4)] == [()] * 4
    wider.look(*offers(cloud="1.84"))
    assert subjects(wider.look(*offers(cloud="1.84"))) == ["turns/studiotv", "turns/studiotv@ours"]


def test_an_alert_of_a_question_that_is_asked_no_more_is_over_and_asked_again_it_starts_in_silence(make: Make) -> None:
    watch = make(CHEAPER + LARGE)
    watch.look(*offers())
    for _ in range(2):
        watch.look(*offers(cloud="1.84", rents="2.00"))
    fewer = make(CHEAPER + LARGE, also="", folder="fewer")
    fewer.at = watch.at
    fewer.look(*offers(cloud="1.84", rents="2.00"))
    assert {row["subject"] for row in watch.told() if row["over_at"] is None} == {"large-60b/turns/studiotv"}
    again = make(CHEAPER + LARGE, folder="again")
    again.at = fewer.at
    assert [again.look(*offers(cloud="1.84", rents="1.90")) for _ in range(3)] == [()] * 3  # 5 % less than was told of ours
    again.look(*offers(cloud="1.84", rents="1.70"))
    assert [alarm.subject for alarm in again.look(*offers(cloud="1.84", rents="1.70"))][-1] == "large-60b/turns/studiotv@ours"


@pytest.mark.parametrize("stale", [True, False])
def test_an_alert_is_not_over_because_its_prices_are_stale(make: Make, stale: bool) -> None:
    watch = make(CHEAPER + LARGE)
    watch.look(*offers())
    for _ in range(2):
        watch.look(*offers(cloud="1.84"))
    watch.wait(hours=4 if stale else 1)
    watch.judge()
    assert [row["over_at"] for row in watch.told()] == [None]


# --- the other kinds ------------------------------------------------------------------------------------------------------


def test_a_verdict_is_of_its_question(make: Make) -> None:
    """A month of long sessions is $2,400 at the vendor: two test-80 at $3.00 are $2,190, at $3.40 $2,482; ours never are less."""
    watch = make('[rules.verdict]\nkind = "verdict_flip"\nworkloads = ["long"]\n')
    watch.minutes = 30
    watch.list(RATE, source="tokens")
    for pair in ("3.00", "3.00", "3.40", "3.40"):
        found = watch.look(*offers(pair=pair, own_pair="3.60"))
    assert subjects(found) == ["long/studiotv"]
    assert found[0].title == "large-60b: API instead of self-host (long, studiotv)"


def test_a_token_price_is_told_once_however_many_questions_it_answers(make: Make) -> None:
    watch = make('[rules.rates]\nkind = "rate_change"\npercent = 5\nsweeps = 2\n')
    watch.look(*offers())
    watch.look(RATE, source="tokens")
    dearer = rate(input="2", cache_read="0.2", output="20")
    watch.look(dearer, source="tokens")
    assert [alarm.kind for alarm in watch.look(dearer, source="tokens")] == ["rate_change"]


@pytest.mark.parametrize(("also", "told"), [(ALSO, ["rate_change"]), ("", [])])
def test_a_price_list_that_only_another_question_can_use_is_watched_for_it(make: Make, also: str, told: list[str]) -> None:
    """Cached tokens for nothing are no price that is believed; a long session has none."""
    watch = make('[rules.rates]\nkind = "rate_change"\npercent = 5\nsweeps = 2\n', also=also)
    watch.look(*offers())
    lists = [(RATE, rate(provider="other", input="2", cache_read="0", output=output)) for output in ("10", "20", "20", "20")]
    assert [alarm.kind for found in lists for alarm in watch.look(*found, source="tokens")] == told


def test_a_replay_tells_each_question_what_the_daemon_told(make: Make) -> None:
    watch = make(CHEAPER + LARGE)
    steps = [
        offers(),
        offers("1.84"),
        offers("1.84"),
        offers("1.84", "2.00"),
        offers("1.84", "2.00", "2.40"),
        offers("1.84", "2.00", "2.40"),
    ]
    live = [alarm.key for rows in steps for alarm in watch.look(*rows)]
    assert len(live) == 3
    with reading(watch.db) as connection:
        past = read_past(connection)
        looks = past.looks(watch.at - timedelta(days=1), watch.at, timedelta(minutes=1))
        found = backtest(watch.world, watch.world.alerts.rules, snapshots(connection, watch.world, past, looks, watch.at))
    assert [fired.alarm.key for fired in found.fired] == live


# --- gone -----------------------------------------------------------------------------------------------------------------

CATALOGUE = SECOND.replace("[others]", "[catalogue]")
BELIEVED = '\n[precedence]\ncloud = ["rents", "catalogue"]\n'


@pytest.fixture
def catalogued(make: Make) -> Watch:
    """The cloud's own list is ``rents``; a catalogue lists it too, and is believed where that list says nothing."""
    track = FILES["tracker.toml"].replace('["large-60b", "small-8b"]', '["large-60b"]') + BELIEVED
    watch = make(GONE, sources_toml=CATALOGUE, tracker_toml=track)
    watch.sizer = Sizer(watch.world)
    return watch


def listed(watch: Watch, own: list[OfferRow], catalogue: list[OfferRow]) -> list[str]:
    """What is told after the cloud's own list and the catalogue were read, six times each."""
    told: list[str] = []
    for _ in range(6):
        told += [alarm.text for alarm in watch.look(*catalogue, source="catalogue")]
        told += [alarm.text for alarm in watch.look(*own)]
    return told


CHEAP, DEAR = offer("2.00"), offer("9.00", sku="dear")
ELSEWHERE = offer("3.00", provider="newcomer")


def test_what_a_catalogue_still_lists_is_gone_where_the_provider_s_own_list_has_it_no_more(catalogued: Watch) -> None:
    assert listed(catalogued, [CHEAP, DEAR, ELSEWHERE], [CHEAP]) == []
    (told,) = listed(catalogued, [DEAR, ELSEWHERE], [CHEAP])
    assert "cloud 141x1 at $2.00/h is no longer sold; next is 1 x test-141, bf16, newcomer 141x1 at $3.00/h" in told


def test_a_catalogue_is_believed_where_the_provider_s_own_list_says_nothing_of_the_place(catalogued: Watch) -> None:
    listed(catalogued, [CHEAP, ELSEWHERE], [CHEAP])
    assert listed(catalogued, [ELSEWHERE], [CHEAP]) == []


def test_what_was_told_from_a_catalogue_is_not_gone_because_another_list_is_believed_now(catalogued: Watch) -> None:
    """The cloud's own list, read again, has other words for what it sells; the catalogue still lists what was told."""
    listed(catalogued, [ELSEWHERE], [CHEAP])
    assert listed(catalogued, [offer("2.50", sku="its own word"), ELSEWHERE], [CHEAP]) == []
