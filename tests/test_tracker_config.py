"""Configuration: every rule with a file that breaks it, whole tables replaced by the user's, and keys that stay where they are."""

from __future__ import annotations

import logging
import re
import shutil
from decimal import Decimal
from pathlib import Path
from time import monotonic

import pytest
from small_world import FILES, T0, write_config
from sqlalchemy import Engine
from upstream import Upstream

from scrapers import lambda_labs
from scrapers.http import HostGate
from tracker.alerting.rules import CheaperSetup, load_alerts
from tracker.answers.health import source_health
from tracker.config import load_config, off_reason, secrets_of
from tracker.database.handle import reading
from tracker.errors import ConfigError, UnknownName
from tracker.present import source_line
from tracker.sweeps.collect import Collector, collect_source, describe
from tracker.world import load_world

INVALID = Path(__file__).parent / "invalid"
KINDS = ("tracker", "sources", "workloads", "providers", "alerts", "overrides")
KEY = "k3y-that-nobody-may-see"

MESSAGES = {
    "tracker-no-toml": "not valid TOML: Expected ']' at the end of a table declaration (at line 1",
    "tracker-unknown-table": "unknown table [trak] (did you mean track?)",
    "tracker-unknown-key": "[web] prot: unknown key (did you mean port?)",
    "tracker-no-table": "web must be a table, found int; write it as [web]",
    "tracker-port-too-high": "[web] port: Input should be less than or equal to 65535",
    "tracker-port-as-word": "[web] port: Input should be a valid integer",
    "tracker-database-unknown-key": "[database] path: unknown key",
    "tracker-no-models": "[track] models: Field required",
    "tracker-no-workload": "[track] workload: Field required",
    "tracker-models-as-text": "[track] models: Input should be a valid tuple",
    "tracker-unknown-tier": "[track] tiers.0: Input should be 'on_demand', 'spot' or 'reserved'",
    "tracker-unknown-trust": "[track] trusts.1: Input should be 'datacenter', 'verified', 'community' or 'unverified'",
    "tracker-no-session": "[track] sessions: Input should be greater than or equal to 1",
    "tracker-unknown-model": "[track] no model named 'large-60' (did you mean large-60b?)",
    "tracker-model-twice": "[track] models: large-60b is named twice",
    "tracker-unknown-workload": "[track] no workload named 'turn' (did you mean turns?)",
    "tracker-unknown-policy": "[track] no policy named 'studio' (did you mean studiotv?); there are studiotv, swfte, canitrun, recipe",
    "tracker-also-unknown-workload": "[track] also.0: no workload named 'turn' (did you mean turns?)",
    "tracker-also-unknown-policy": "[track] also.0: no policy named 'swft' (did you mean swfte?)",
    "tracker-also-unknown-key": "[track] also.0.polcy: unknown key",
    "tracker-also-untracked-model": "[track] also.0: models: 'small-8b' is not tracked; name it in [track] models too",
    "tracker-also-model-twice": "[track] also.0: models: large-60b is named twice",
    "tracker-also-unknown-provider": "[track] also.0: no provider named 'clouds' (did you mean cloud?)",
    "tracker-also-provider-twice": "[track] also.0: providers: cloud is named twice",
    "tracker-also-without-a-name": "[track] also.0: tiers, trusts and providers need a name for the offers they admit; add name",
    "tracker-also-name-of-nothing": "[track] also.0: name is of other offers; state tiers, trusts or providers, or leave it out",
    "tracker-also-name-of-two": "[track] also.1: name is used twice, for different offers; state the same tiers",
    "tracker-also-bad-name": "[track] also.0.name: String should match pattern",
    "tracker-also-the-default-again": "[track] also.0: workload 'turns' with policy 'studiotv' is asked already; state what differs",
    "tracker-also-twice": "[track] also.1: workload 'turns' with policy 'studiotv' is asked already",
    "tracker-also-too-many": "[track] also: Tuple should have at most 20 items",
    "alerts-unasked-workload": "[rules.cheaper] workloads: 'chat' is not asked; ask it in [[track.also]] of tracker.toml",
    "alerts-unasked-policy": "[rules.cheaper] policies: 'studiotb' is not asked (did you mean studiotv?); ask it",
    "alerts-unasked-name": "[rules.cheaper] names: 'ours' is not asked; ask it in [[track.also]] of tracker.toml",
    "alerts-rates-of-a-workload": "[rules.rates] workloads: unknown key",
    "tracker-unknown-rate-source": "[track] no source named 'token' (did you mean tokens?)",
    "tracker-no-user-agent": "[fetch] user_agent: Field required",
    "tracker-empty-user-agent": "[fetch] user_agent: String should have at least 1 character",
    "tracker-no-deadline": "[fetch] deadline_s: Input should be greater than 0",
    "tracker-endless-read": "[fetch] read_timeout_s: Input should be less than or equal to 3600",
    "tracker-connect-timeout-nan": "[fetch] connect_timeout_s: Input should be less than or equal to 3600",
    "tracker-no-attempt": "[fetch] attempts: Input should be greater than or equal to 1",
    "tracker-many-attempts": "[fetch] attempts: Input should be less than or equal to 20",
    "tracker-no-bytes": "[fetch] max_bytes: Input should be greater than 0",
    "tracker-negative-spacing": "[fetch] host_spacing_s: Input should be greater than or equal to 0",
    "tracker-rare-recompute": "[recompute] every_s: Input should be less than or equal to 60",
    "tracker-no-recompute": "[recompute] every_s: Input should be greater than or equal to 1",
    "tracker-public-url": "[web] public_url: String should match pattern",
    "tracker-alerts-moved": "[alerts] has a file of its own; move it to [rules] and [routes] of alerts.toml",
    "alerts-no-toml": "not valid TOML",
    "alerts-unknown-table": "unknown table [rule] (did you mean rules?)",
    "alerts-rules-no-tables": "rules must hold tables; write [rules.NAME]",
    "alerts-rule-no-table": "[rules.cheaper] kind: must be one of cheaper_setup, price_drop, price_rise, rate_change, setup_gone, ",
    "alerts-rule-without-kind": "[rules.cheaper] kind: must be one of cheaper_setup, ",
    "alerts-rule-unknown-kind": "source_stale, quarantine (did you mean cheaper_setup?)",
    "alerts-rule-bad-name": "[rules.Cheaper Setup]: a name is lower-case letters, digits, - and _; rename the table",
    "alerts-unknown-key": "[rules.cheaper] precent: unknown key (did you mean percent?)",
    "alerts-key-of-another-kind": "[rules.stale] percent: unknown key",
    "alerts-no-percent": "[rules.cheaper] percent: Field required",
    "alerts-percent-zero": "[rules.cheaper] percent: Input should be greater than 0",
    "alerts-percent-nan": "[rules.cheaper] percent: Input should be",
    "alerts-negative-saving": "[rules.cheaper] usd_per_month: Input should be greater than or equal to 0",
    "alerts-no-sweep": "[rules.cheaper] sweeps: Input should be greater than or equal to 1",
    "alerts-endless-cooldown": "[rules.cheaper] cooldown_hours: Input should be less than or equal to 8784",
    "alerts-untracked-model": "[rules.cheaper] models: 'large-60' is not tracked (did you mean large-60b?); name it in [track] models of",
    "alerts-no-gpu": "[rules.drop] gpus: Tuple should have at least 1 item",
    "alerts-unknown-gpu": "[rules.drop] no GPU named 'test-142' (did you mean test-141?)",
    "alerts-unknown-source": "[rules.stale] no source named 'rent' (did you mean rents?)",
    "alerts-unknown-route": "[rules.stale] routes: no route named 'webhok' (did you mean webhook?)",
    "alerts-margin-100": "[rules.verdict] margin_percent: Input should be less than 100",
    "alerts-unknown-zone": "[delivery] time_zone: no zone named 'Europe/Pariss'; write UTC or Europe/Paris",
    "alerts-quiet-hours": "[delivery] quiet_hours: String should match pattern",
    "alerts-digest-at": "[delivery] digest_at: String should match pattern",
    "alerts-none-per-day": "[delivery] max_per_day: Input should be greater than or equal to 1",
    "alerts-bundle-of-none": "[delivery] bundle_above: Input should be greater than or equal to 1",
    "alerts-no-link": "[switching] link_gbps: Input should be greater than 0",
    "alerts-no-timeout": "[routes.webhook] timeout_s: Input should be greater than 0",
    "alerts-url-in-file": "[routes.webhook] url: unknown key (did you mean url_env?)",
    "alerts-variable-lower-case": "[routes.webhook] url_env: String should match pattern",
    "tracker-baseline-of-nobody": "[baseline] 'large-60' is not among [track] models (did you mean large-60b?)",
    "tracker-baseline-of-nothing": "[baseline] large-60b: Input should be greater than 0",
    "sources-no-table": "cloudy must be a table, found int; write it as [cloudy]",
    "sources-unknown-key": "[cloudy] base_uri: unknown key (did you mean base_url?)",
    "sources-no-kind": "[cloudy] kind: Field required",
    "sources-unknown-kind": "[cloudy] kind: Input should be 'rent'",
    "sources-no-base-url": "[cloudy] base_url: Field required",
    "sources-url-without-scheme": "[cloudy] base_url: String should match pattern",
    "sources-url-of-a-file": "[cloudy] base_url: String should match pattern",
    "sources-no-interval": "[cloudy] interval_minutes: Input should be greater than 0",
    "sources-interval-infinite": "[cloudy] interval_minutes: Input should be less than or equal to 527040",
    "sources-interval-nan": "[cloudy] interval_minutes: Input should be less than or equal to 527040",
    "sources-no-age": "[cloudy] max_age_hours: Input should be greater than 0",
    "sources-age-infinite": "[cloudy] max_age_hours: Input should be less than or equal to 8784",
    "sources-enabled-maybe": "[cloudy] enabled: Input should be a valid boolean",
    "sources-key-in-file": "[cloudy] key: unknown key (did you mean key_env?)",
    "sources-unknown-module": "[cloudy] names module 'runpot', which scrapers/ does not have (did you mean runpod?)",
    "sources-module-that-is-no-scraper": "[cloudy] module 'text' has no parse function",
    "sources-names-of-nobody": "[cloudy] names 'rent': no table of gpu_names.toml and no key of [aliases] in config/models (did",
    "sources-region-without-a-place": "base_url must hold {region} where there are regions, and no other braces",
    "sources-module-with-dots": "[cloudy] names module 'os.path', which scrapers/ does not have",
    "workloads-no-table": "mine] must be a table, found int; write it as [mine]",
    "workloads-unknown-key": "[mine] requests_per_moth: unknown key (did you mean requests_per_month?)",
    "workloads-unknown-token-kind": "[mine] mix.cached: unknown key (did you mean cache_read?)",
    "workloads-no-mix": "[mine] mix: is missing",
    "workloads-no-name": "[mine] name: is missing",
    "workloads-no-context": "[mine] context: is missing",
    "workloads-no-tokens": "[mine] a request without tokens has no price",
    "workloads-negative-tokens": "[mine] tokens of kind input must be at least 0, got -1",
    "workloads-no-volume": "[mine] state either requests_per_month, or users, requests_per_user_workday and workdays_per_month",
    "workloads-two-volumes": "[mine] state either requests_per_month, or users, requests_per_user_workday and workdays_per_month",
    "workloads-half-a-team": "[mine] state either requests_per_month, or users, requests_per_user_workday and workdays_per_month",
    "workloads-volume-zero": "[mine] workload mine: requests_per_month must be above 0",
    "workloads-utilization-above-one": "[mine] workload mine: utilization must be above 0 and at most 1",
    "workloads-utilization-zero": "[mine] workload mine: utilization must be above 0 and at most 1",
    "workloads-batch-share-above-one": "[mine] workload mine: batch_share must be 0..1",
    "workloads-cold-start-share-below-zero": "[mine] workload mine: cold_start_share must be 0..1",
    "workloads-no-session": "[mine] workload mine: sessions must be at least 1",
    "workloads-context-too-small": "[mine] workload mine: context must hold one request of 1200 tokens",
    "workloads-context-as-text": "[mine] context: Input should be a valid integer",
    "workloads-three-hours": "[mine] workload mine: hour_shares must have 168 values",
    "workloads-negative-hour": "[mine] workload mine: hour_shares must not be negative",
    "workloads-no-hour": "[mine] workload mine: hour_shares must not all be 0",
    "workloads-capacity-unknown-key": "[mine] capacities.1.gpus: unknown key (did you mean gpu?)",
    "workloads-capacity-without-source": "[mine] capacities.1.source: is missing",
    "workloads-capacity-without-date": "[mine] capacities.1.checked: is missing",
    "workloads-capacity-of-nothing": "[mine] capacities.1.requests_per_month: Input should be greater than 0",
    "workloads-capacity-on-no-gpu": "[mine] capacities.1.gpu_count: Input should be greater than or equal to 1",
    "workloads-capacity-of-unknown-model": "[mine] capacities: no model named 'large-60' (did you mean large-60b?)",
    "workloads-capacity-on-unknown-gpu": "[mine] capacities: no GPU named 'test-142' (did you mean test-141?)",
    "workloads-capacity-in-unknown-format": "[mine] capacities: no weight format named 'bf61' (did you mean bf16?)",
    "providers-no-table": "mine] must be a table, found int; write it as [mine]",
    "providers-unknown-key": "[mine] organisation: unknown key (did you mean organisations?)",
    "providers-no-name": "[mine] name: is missing",
    "providers-no-source": "[mine] source: is missing",
    "providers-empty-source": "[mine] source: String should have at least 1 character",
    "providers-no-date": "[mine] checked: is missing",
    "providers-no-date-but-text": "[mine] checked: Input should be a valid date",
    "overrides-no-table": "mine] must be a table, found int; write it as [mine]",
    "overrides-unknown-key": "[mine] curency: unknown key (did you mean currency?)",
    "overrides-no-start": "[mine] from: is missing",
    "overrides-no-source": "[mine] source: is missing",
    "overrides-ends-before-it-starts": "[mine] to 2026-12-01 is not after from 2026-12-01",
    "overrides-discount-of-itself": "[mine] sku 'standard' cannot be a part of its own price; state prices instead",
    "overrides-free": "[mine] factor: Input should be greater than 0",
    "overrides-negative-price": "[mine] prices.input: Input should be greater than or equal to 0",
    "overrides-rent-per-year": "[mine] per: Input should be 'gpu_hour'",
    "overrides-unknown-model": "no model named 'large-60' (did you mean large-60b?)",
    "overrides-unknown-gpu": "no GPU named 'test-142' (did you mean test-141?)",
    "overrides-another-spelling": "[mine] provider 'vendor-ai' is spelled 'vendor' here",
    "providers-spelling-of-another": "[mine] 'vendor-ai' already means vendor",
    "providers-spelling-that-is-an-id": "[mine] 'vendor' already means vendor",
}


@pytest.fixture
def shipped(tmp_path: Path) -> Path:
    """The configuration that stands in for the shipped one."""
    return write_config(tmp_path / "shipped")


@pytest.fixture
def user_dir(tmp_path: Path) -> Path:
    (tmp_path / "user").mkdir()
    return tmp_path / "user"


# --- wrong files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("case", "message"), MESSAGES.items())
def test_a_wrong_file_is_one_clear_error(shipped: Path, user_dir: Path, case: str, message: str) -> None:
    name = f"{case.partition('-')[0]}.toml"
    shutil.copy(INVALID / f"invalid-{case}.toml", user_dir / name)
    with pytest.raises(ConfigError) as caught:
        load_world(shipped, user_dir)
    told = str(caught.value)
    assert told.startswith((f"{user_dir / name}:", f"{name}:"))
    assert message in told
    assert "\n" not in told


def test_every_invalid_file_has_its_message() -> None:
    files = {path.stem.removeprefix("invalid-") for kind in KINDS for path in INVALID.glob(f"invalid-{kind}-*.toml")}
    assert files == set(MESSAGES)


SOUND = [  # an invalid file and what makes it right: so the tests above see the fault and nothing else
    ("tracker-unknown-key", "prot", "port"),
    ("tracker-unknown-model", "large-60", "large-60b"),
    ("tracker-unknown-policy", "studio", "studiotv"),
    ("tracker-also-unknown-workload", 'workload = "turn"\n', 'workload = "turns"\npolicy = "swfte"\n'),
    ("tracker-also-unknown-provider", "clouds", "cloud"),
    ("tracker-also-without-a-name", "providers", 'name = "ours"\nproviders'),
    ("tracker-also-name-of-two", '"rents"', '"cloud"'),
    ("tracker-also-the-default-again", "studiotv", "swfte"),
    ("tracker-also-twice", 'workload = "turns"\ntiers', 'policy = "swfte"\ntiers'),
    ("tracker-also-too-many", '[[track.also]]\nname = "n0"\ntiers = ["spot"]\n', ""),
    ("tracker-no-deadline", "deadline_s = 0", "deadline_s = 1"),
    ("tracker-rare-recompute", "61", "60"),
    ("sources-no-interval", "interval_minutes = 0", "interval_minutes = 0.5"),
    ("sources-unknown-module", "runpot", "runpod"),
    ("sources-region-without-a-place", "prices.example", "{region}.prices.example"),
    ("sources-names-of-nobody", '"rent"\nbase', '"rents"\nbase'),
    ("workloads-unknown-key", "requests_per_moth = 3", ""),
    ("workloads-context-too-small", "1_199", "1_200"),
    ("workloads-capacity-in-unknown-format", "bf61", "bf16"),
    ("workloads-half-a-team", "users = 20", "users = 20\nrequests_per_user_workday = 150\nworkdays_per_month = 21"),
    ("providers-unknown-key", "organisation =", "organisations ="),
    ("overrides-ends-before-it-starts", "to = 2026-12-01", "to = 2026-12-02"),
    ("overrides-unknown-gpu", "test-142", "test-141"),
    ("overrides-discount-of-itself", 'sku = "standard"', 'sku = "batch"'),
]


@pytest.mark.parametrize(("case", "wrong", "right"), SOUND)
def test_the_rules_pass_what_is_right(shipped: Path, user_dir: Path, case: str, wrong: str, right: str) -> None:
    text = (INVALID / f"invalid-{case}.toml").read_text(encoding="utf-8")
    assert wrong in text
    (user_dir / f"{case.partition('-')[0]}.toml").write_text(text.replace(wrong, right, 1), encoding="utf-8")
    assert load_world(shipped, user_dir)


def test_a_file_that_cannot_be_read_says_why(shipped: Path, user_dir: Path) -> None:
    (user_dir / "sources.toml").write_bytes(b"[x]\nkind = '\xff'\n")
    with pytest.raises(ConfigError, match=r"sources\.toml: not UTF-8 text \(invalid start byte at byte 12\)"):
        load_world(shipped, user_dir)
    (user_dir / "sources.toml").unlink()
    (user_dir / "sources.toml").mkdir()
    with pytest.raises(ConfigError, match=r"sources\.toml: cannot be read: Is a directory"):
        load_world(shipped, user_dir)


def test_the_examples_in_the_comments_of_the_shipped_settings_are_sound(tmp_path: Path) -> None:
    config = Path(__file__).resolve().parents[1] / "config"
    text = (config / "tracker.toml").read_text(encoding="utf-8")
    (tmp_path / "tracker.toml").write_text(re.sub(r'^# (?=\[|[a-z_]+ = |"[^"]+" = )', "", text, flags=re.MULTILINE), encoding="utf-8")
    (tmp_path / "rentals.csv").write_text("start,end,provider,gpu,gpu_count,price_per_hour\n", encoding="utf-8")
    settings = load_world(config, tmp_path).settings
    assert [also.workload for also in settings.track.also] == ["documents-batch", ""]
    assert [also.name for also in settings.track.also] == ["", "hyperscalers"]
    assert list(settings.budget.root) == ["serving"] and list(settings.baseline.root) == ["kimi-k3.1-pro"]


def test_a_shipped_file_that_lost_a_table_says_so(shipped: Path) -> None:
    (shipped / "tracker.toml").write_text('[track]\nmodels = ["large-60b"]\nworkload = "turns"\n', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"tracker\.toml: table \[fetch\] is missing; restore it from the shipped file"):
        load_world(shipped)
    (shipped / "tracker.toml").unlink()
    with pytest.raises(ConfigError, match=r"tracker\.toml: cannot be read: No such file or directory"):
        load_world(shipped)


# --- whole tables ---------------------------------------------------------------------------------------------------------


def test_the_user_s_tables_replace_whole_ones_and_leave_the_others(shipped: Path, user_dir: Path) -> None:
    (shipped / "tracker.toml").write_text(
        FILES["tracker.toml"] + '[web]\nhost = "0.0.0.0"\nport = 80\n\n[database]\nlease_s = 9\n',
        encoding="utf-8",
    )
    (user_dir / "tracker.toml").write_text("[web]\nport = 9000\n", encoding="utf-8")
    settings = load_config(shipped, user_dir).settings
    assert (settings.web.port, settings.web.host) == (9000, "127.0.0.1")  # the host is the default again, not the shipped table's
    assert settings.database.lease_s == 9
    assert settings.fetch.user_agent == "breakeven-tests"
    assert load_config(shipped).settings.web.host == "0.0.0.0"


def test_a_rule_or_route_of_the_user_s_replaces_that_of_its_name(shipped: Path, user_dir: Path) -> None:
    rules = '[rules.one]\nkind = "cheaper_setup"\npercent = 0.1\nsweeps = 9\n[rules.two]\nkind = "source_stale"\n'
    (shipped / "alerts.toml").write_text(rules + '[delivery]\nmax_per_day = 3\n[routes.hook]\nkind = "webhook"\n', encoding="utf-8")
    (user_dir / "alerts.toml").write_text('[rules.two]\nkind = "source_stale"\nenabled = false\n', encoding="utf-8")
    found = load_alerts(shipped, user_dir)
    one = found.rules["one"]
    assert isinstance(one, CheaperSetup)
    assert (one.percent, one.sweeps, found.rules["two"].enabled) == (Decimal("0.1"), 9, False)  # exact: no float was in between
    assert (found.delivery.max_per_day, list(found.routes)) == (3, ["hook"])


def test_a_source_of_the_user_s_replaces_ours_and_may_be_new(shipped: Path, user_dir: Path) -> None:
    rents = '[rents]\nkind = "rent"\nmodule = "vast"\nbase_url = "http://mirror.example"\ninterval_minutes = 5\nmax_age_hours = 1\n'
    (user_dir / "sources.toml").write_text(rents + rents.replace("[rents]", "[mine]") + "robots = true\n", encoding="utf-8")
    sources = load_config(shipped, user_dir).sources
    assert list(sources) == ["ecb", "keyed", "mine", "rents", "tokens"]
    assert (sources["rents"].module, sources["rents"].settings.base_url) == ("vast", "http://mirror.example")
    assert (sources["rents"].settings.robots, sources["mine"].settings.robots) == (False, True)
    assert sources["tokens"].settings.max_age_hours == 48


def test_a_source_is_named_like_its_module_unless_it_says_otherwise(shipped: Path, user_dir: Path) -> None:
    table = '[ecb]\nkind = "fx"\nbase_url = "http://mirror.example"\ninterval_minutes = 5\nmax_age_hours = 1\n'
    (user_dir / "sources.toml").write_text(table, encoding="utf-8")
    assert load_config(shipped, user_dir).source("ecb").module == "ecb"
    with pytest.raises(UnknownName, match=r"no source named 'rent' \(did you mean rents\?\); breakeven sources lists them"):
        load_config(shipped, user_dir).source("rent")


def test_workloads_and_providers_are_replaced_whole_too(shipped: Path, user_dir: Path) -> None:
    mine = '[turns]\nname = "Mine"\nmix = { input = 10, output = 5 }\nrequests_per_month = 7\ncontext = 15\ncold_start_share = 0.1\n'
    (user_dir / "workloads.toml").write_text(mine + mine.replace("[turns]", "[other]"), encoding="utf-8")
    (user_dir / "providers.toml").write_text('[vendor]\nname = "V"\nsource = "x"\nchecked = 2026-11-29\n', encoding="utf-8")
    world = load_world(shipped, user_dir)
    turns = world.workload()
    assert (turns.name, turns.capacities, turns.requests_per_month, turns.cold_start_share) == ("Mine", (), Decimal(7), Decimal("0.1"))
    assert set(world.workloads) == {"turns", "other"}
    assert dict(world.provider_ids) == {"vendor": "vendor"}  # the shipped spellings went with the shipped table


def test_a_team_s_volume_is_worked_out(shipped: Path, user_dir: Path) -> None:
    team = '[turns]\nname = "T"\nmix = { input = 1 }\nusers = 20\nrequests_per_user_workday = 150\nworkdays_per_month = 21\ncontext = 1\n'
    (user_dir / "workloads.toml").write_text(team, encoding="utf-8")
    assert load_world(shipped, user_dir).workload().requests_per_month == 63_000


def test_no_directory_of_the_user_s_is_no_fault(shipped: Path, tmp_path: Path) -> None:
    alone = load_world(shipped)
    assert load_world(shipped, tmp_path / "nowhere").config.sources == alone.config.sources
    assert load_world(shipped, shipped / "tracker.toml").config.settings == alone.config.settings  # a file is no directory


# --- keys -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def keyed(shipped: Path, user_dir: Path, db: Engine, upstream: Upstream) -> Collector:
    """A collector whose source ``keyed`` asks the upstream."""
    table = FILES["sources.toml"].partition("[keyed]")[2].replace("http://127.0.0.1:9", upstream.url)
    (user_dir / "sources.toml").write_text("[keyed]" + table, encoding="utf-8")
    (user_dir / "tracker.toml").write_text('[fetch]\nuser_agent = "x"\nattempts = 1\nhost_spacing_s = 0\n', encoding="utf-8")
    return Collector(world=load_world(shipped, user_dir), db=db, now=lambda: T0, gate=HostGate(monotonic=monotonic))


@pytest.mark.loopback
@pytest.mark.parametrize("value", [None, ""])
def test_a_source_whose_key_is_not_set_is_off_and_says_so(
    keyed: Collector, upstream: Upstream, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    if value is not None:
        monkeypatch.setenv("TEST_ONLY_KEY", value)
    source = keyed.world.config.source("keyed")
    assert off_reason(source) == "no key: set TEST_ONLY_KEY in the environment"
    assert secrets_of(source) == {}
    assert collect_source(keyed, source) is None
    assert upstream.seen == []
    with reading(keyed.db) as connection:
        health = {found.id: found for found in source_health(connection, keyed.world.config.sources, T0)}
    assert (health["keyed"].enabled, health["keyed"].stale, health["keyed"].status) == (False, False, "never")
    assert source_line(health["keyed"], T0) == "keyed: off (no key: set TEST_ONLY_KEY in the environment)"


def test_a_source_that_is_switched_off_says_so(shipped: Path, user_dir: Path) -> None:
    (user_dir / "sources.toml").write_text("[ecb]" + FILES["sources.toml"].partition("[ecb]")[2].partition("[")[0] + "enabled = false\n")
    assert off_reason(load_config(shipped, user_dir).source("ecb")) == "switched off in sources.toml"


ANSWERS = [
    {"status": 401, "body": f"Bearer {KEY} is not known"},
    {"status": 500, "body": KEY},
    {"status": 200, "body": f'{{"error": "{KEY}"}}'},
    {"status": 200, "body": KEY},
    {"lasting_fault": f"redirect:http://127.0.0.1:9/?key={KEY}", "body": ""},
    {"lasting_fault": "reset", "body": ""},
]


@pytest.mark.loopback
@pytest.mark.parametrize("answer", ANSWERS)
def test_a_key_is_sent_to_its_source_and_seen_nowhere_else(
    keyed: Collector,
    upstream: Upstream,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
    answer: dict[str, str],
) -> None:
    monkeypatch.setenv("TEST_ONLY_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    stated = dict(answer)
    upstream.add(lambda_labs.PATH, stated.pop("body"), **stated)
    report = collect_source(keyed, keyed.world.config.source("keyed"))
    assert report is not None
    assert report.status == "failed"
    assert upstream.seen[-1].headers["authorization"] == f"Bearer {KEY}"
    keyed.db.dispose()
    for place, shown in {
        "line": describe(report),
        "error": report.error,
        "log": caplog.text,
        "book": b"".join(path.read_bytes() for path in tmp_path.glob("book.db*")).decode("latin-1"),
        "world": repr(keyed.world),
    }.items():
        assert KEY not in shown, place


@pytest.mark.loopback
def test_with_its_key_a_source_is_collected(keyed: Collector, upstream: Upstream, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Cents an hour for the whole instance: 230 are $2.30."""
    monkeypatch.setenv("TEST_ONLY_KEY", KEY)
    kind = dict(name="one", description="x", gpu_description="TEST 141GB", price_cents_per_hour=230, specs={"gpus": 1})
    where = [{"name": "x", "description": "x"}]
    upstream.add(lambda_labs.PATH, {"data": {"one": {"instance_type": kind, "regions_with_capacity_available": where}}})
    report = collect_source(keyed, keyed.world.config.source("keyed"))
    assert report is not None
    assert (report.status, report.error, [row.native_per_hour for row in report.offers]) == ("ok", "", [Decimal("2.30")])
    keyed.db.dispose()
    assert KEY.encode() not in b"".join(path.read_bytes() for path in tmp_path.glob("book.db*"))
