"""The dashboards as Grafana reads them: its schema, the rules of its dashboard linter, and every query on a real Prometheus.

There is no Grafana here: what a browser shows has not been seen by these tests.
"""

from __future__ import annotations

import copy
import importlib.util
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any
from xml.etree import ElementTree

import pytest
from conftest import find_program
from deployed import DEPLOY, place_prometheus
from processes import Running
from schemas import faults
from servers import Prometheus, free_port
from upstream import Upstream
from worlds import ASKED, asking, runpod_answer, serve_market, write_user_config

from scrapers import openrouter, runpod
from tracker.metrics.table import COUNTERS, GAUGES, PREFIX, PROCESS_COUNTERS, PROCESS_GAUGES

Json = dict[str, Any]
GRAFANA = DEPLOY / "grafana"
DASHBOARDS: dict[str, Json] = {p.stem: json.loads(p.read_text(encoding="utf-8")) for p in sorted((GRAFANA / "dashboards").glob("*.json"))}
METRICS = {PREFIX + name: labels for name, (_, labels) in GAUGES.items()} | {
    f"{PREFIX}{n}_total": labels for n, (_, labels) in COUNTERS.items()
}
METRICS |= {name: labels for name, (_, labels) in PROCESS_GAUGES.items()}
METRICS |= {f"{name}_total": labels for name, (_, labels) in PROCESS_COUNTERS.items()}
KINDS = {"stat", "table", "timeseries", "bargauge", "state-timeline"}  # none of them deprecated
BUILT_IN = {"__range", "__rate_interval", "__timeFilter", "__timeFrom", "__timeTo"}
OWN_LABELS = {"job", "api"}  # the scrape's, and a renamed provider
ALERT_LABELS = {"alertname", "alertstate", "severity"}
OURS = re.compile(rf"\b(?:{PREFIX}|process_)\w+")
SINGLE = ("model", "workload", "policy")  # of which the dashboard Model shows one


FINANCE = "breakeven-finance"  # asks PostgreSQL; its statements are run by tests/test_deploy_finance.py
METRICS_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
DATABASE_SOURCE = {"type": "grafana-postgresql-datasource", "uid": "${database}"}
PROMETHEUS_BOARDS = [uid for uid in DASHBOARDS if uid != FINANCE]


def panels(board: Json) -> list[Json]:
    return list(board["panels"])


def targets(board: Json) -> list[Json]:
    return [target for panel in panels(board) for target in panel["targets"]]


def queries(board: Json) -> list[str]:
    return [target["expr"] for target in targets(board) if "expr" in target]


def statements(board: Json) -> list[str]:
    return [target["rawSql"] for target in targets(board) if "rawSql" in target]


def variables(board: Json) -> dict[str, Json]:
    return {entry["name"]: entry for entry in board["templating"]["list"]}


def test_the_files_are_what_the_builder_writes(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-B", GRAFANA / "build.py", tmp_path], check=True, cwd=tmp_path)
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert written == {f"{uid}.json": (GRAFANA / "dashboards" / f"{uid}.json").read_bytes() for uid in DASHBOARDS}
    assert set(DASHBOARDS) == {f"breakeven-{name}" for name in ("overview", "model", "market", "finance", "sources")}


# --- Grafana's schema -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def schema(shared: Path) -> Json:
    found: Json = json.loads((shared / "recorded/grafana/dashboard.jsonschema.v11.6.json").read_text(encoding="utf-8"))
    return found


BROKEN: list[Callable[[Json], Any]] = [
    lambda board: board.update(panes=[]),
    lambda board: board["panels"][0].update(units="s"),
    lambda board: board["panels"][0]["gridPos"].pop("w"),
    lambda board: board["panels"][0]["gridPos"].update(w=25),
    lambda board: board["panels"][0]["fieldConfig"]["defaults"]["color"].update(mode="pink"),
    lambda board: board["templating"]["list"][1].update(refresh="always"),
    lambda board: board["annotations"]["list"][0].pop("iconColor"),
    lambda board: board.update(schemaVersion="41"),
    lambda board: board["links"][0].update(type="page"),
]  # fmt: skip


def schema_faults(board: Json, schema: Json) -> list[str]:
    """What our reading of the schema says; the jsonschema package has to agree where it is installed."""
    found = faults(board, schema, schema)
    if importlib.util.find_spec("jsonschema"):
        validator = importlib.import_module("jsonschema").Draft7Validator(schema)
        assert bool(found) == bool(list(validator.iter_errors(board)))
    return found


@pytest.mark.shared
@pytest.mark.parametrize("uid", DASHBOARDS)
def test_it_follows_the_schema_of_grafana_11_6(uid: str, schema: Json) -> None:
    assert schema_faults(DASHBOARDS[uid], schema) == []
    assert DASHBOARDS[uid]["schemaVersion"] == schema["definitions"]["Dashboard"]["properties"]["schemaVersion"]["default"]


@pytest.mark.shared
@pytest.mark.parametrize("breaking", BROKEN, ids=range(len(BROKEN)))
def test_the_schema_refuses_a_broken_dashboard(breaking: Callable[[Json], Any], schema: Json) -> None:
    board = copy.deepcopy(DASHBOARDS["breakeven-overview"])
    breaking(board)
    assert schema_faults(board, schema) != []


# --- the rules of Grafana's dashboard linter, and ours --------------------------------------------------------------------------


def untold(board: Json) -> list[str]:
    """Panels without title, description or unit; a query without a legend."""
    said = [(p["title"], p["description"], p["fieldConfig"]["defaults"]["unit"], p["targets"]) for p in panels(board)]
    return [f"{texts}" for texts in said if not all(texts)] + [t["expr"] for t in targets(board) if "expr" in t and not t["legendFormat"]]


def other_datasources(board: Json) -> list[str]:
    """What asks another source than the one of the variable."""
    asking = [
        *panels(board),
        *targets(board),
        *board["annotations"]["list"],
        *(v for v in variables(board).values() if v["type"] == "query"),
    ]
    first = board["templating"]["list"][0]
    complaints = (
        []
        if (first["type"], first["name"], first["query"]) == ("datasource", "datasource", "prometheus")
        else ["no datasource variable first"]
    )
    fitting = [METRICS_SOURCE] if board["uid"] != FINANCE else [METRICS_SOURCE, DATABASE_SOURCE]
    mixed = [f"{t['refId']}" for t in targets(board) if t["datasource"] != (DATABASE_SOURCE if "rawSql" in t else METRICS_SOURCE)]
    return complaints + mixed + [f"{one['datasource']}" for one in asking if one["datasource"] not in fitting]


def double_names(board: Json) -> list[str]:
    """Panel ids, panel titles and names of a panel's queries that are there twice."""
    names = [f"id {panel['id']}" for panel in panels(board)] + [f"title {panel['title']}" for panel in panels(board)]
    names += [f"{panel['title']} {target['refId']}" for panel in panels(board) for target in panel["targets"]]
    return [name for name, count in Counter(names).items() if count > 1]


def misplaced(board: Json) -> list[str]:
    """Panels that leave the grid of 24 columns or lie over each other."""
    spots = [(panel["title"], panel["gridPos"]) for panel in panels(board)]
    outside = [title for title, at in spots if at["x"] < 0 or at["x"] + at["w"] > 24 or min(at["w"], at["h"]) < 1]
    return outside + [f"{a} over {b}" for (a, p), (b, q) in combinations(spots, 2) if _meet(p, q, "x", "w") and _meet(p, q, "y", "h")]


def _meet(one: Json, other: Json, start: str, length: str) -> bool:
    return bool(one[start] < other[start] + other[length] and other[start] < one[start] + one[length])


def unusual_settings(board: Json) -> list[str]:
    wanted = {"editable": False, "refresh": "1m", "timezone": "utc", "schemaVersion": 41, "tags": ["breakeven"]}
    return [f"{name}: {board[name]!r}" for name, value in wanted.items() if board[name] != value] + ["id"] * ("id" in board)


def unfit_variables(board: Json) -> list[str]:
    """Variables that are not defined or not used, do not follow the time range, or are matched as if they had one value or many."""
    known = variables(board)
    text = " ".join([*queries(board), *statements(board), *(v["query"] for v in known.values())])
    used = set(re.findall(r"\$\{?([a-zA-Z_]\w*)", text))
    complaints = [f"not defined: {name}" for name in used - known.keys() - BUILT_IN]
    complaints += [f"not used: {name}" for name in known.keys() - used - {"datasource", "database"}]
    for name, entry in known.items():
        if entry["type"] == "query":
            complaints += [f"refresh of {name}"] * (entry["refresh"] != 2)
            if entry["datasource"] == DATABASE_SOURCE:  # a statement takes values as quoted text, or a name could end it
                complaints += [f"{name} is not quoted"] * bool(re.search(rf"\${name}\b|\$\{{{name}(?!:sqlstring\}})", text))
                continue
            wrong = rf'(?<!~)"\${name}"' if entry["multi"] else rf'=~"\${name}"'
            complaints += [f"matcher of {name}"] * bool(re.search(wrong, text))
            complaints += [f"all of {name}"] * (entry["includeAll"] and entry["allValue"] != ".+")
    return complaints


def constant_fallbacks(board: Json) -> list[str]:
    return [query for query in queries(board) if re.search(r"\bor\b|\bvector\s*\(|\babsent", query)]


def fixed_windows(board: Json) -> list[str]:
    """Rates over a window that does not follow the resolution or the time range."""
    return [query for query in queries(board) if re.findall(r"\[(?!\$__rate_interval\]|\$__range\])", query)]


def deprecated_panels(board: Json) -> list[str]:
    return [panel["type"] for panel in panels(board) if panel["type"] not in KINDS]


def any_job(board: Json) -> list[str]:
    """Selectors of ours that would mix two daemons."""
    return [query for query in queries(board) if len(OURS.findall(query)) != query.count('{job=~"$job"')]


def unknown_names(board: Json) -> list[str]:
    """Metrics that are not in the contract, and matchers or groupings by labels that their metrics do not have."""
    complaints = []
    for query in [*queries(board), *(v["query"] for v in variables(board).values() if v["type"] == "query")]:
        named = set(OURS.findall(query))
        allowed = {label for name in named & METRICS.keys() for label in METRICS[name]} | OWN_LABELS
        allowed |= ALERT_LABELS | {"model", "workload", "policy", "source"} if "ALERTS{" in query else set()
        complaints += sorted(named - METRICS.keys())
        for selector in re.findall(rf"({OURS.pattern})\{{([^}}]*)\}}", query):
            mine = {*METRICS.get(selector[0], ()), "job"}
            complaints += [f"{selector[0]} has no {label}" for label in re.findall(r"(\w+)[=!]", selector[1]) if label not in mine]
        grouped = {label for names in re.findall(r"(?:by|on|group_left) \(([^)]*)\)", query) for label in names.split(", ") if label}
        complaints += sorted(grouped - allowed)
    return complaints


def lost_links(board: Json) -> list[str]:
    """Links to dashboards that are not there, or with variables that are not there at either end."""
    more = [link for panel in panels(board) for link in panel["fieldConfig"]["defaults"].get("links", [])]
    complaints = []
    for link in [*board["links"], *more]:
        found = re.match(r"/d/([\w-]+)\?", link["url"])
        to = variables(DASHBOARDS[found[1]]) if found and found[1] in DASHBOARDS else {}
        carried = set(re.findall(r"\$\{(\w+):queryparam\}", link["url"]))
        set_there = carried | set(re.findall(r"&var-(\w+)=", link["url"]))
        complaints += [link["url"]] * bool(not to or set_there - to.keys() or carried - variables(board).keys())
    return complaints


def query_of(expression: str) -> Callable[[Json], Any]:
    return lambda board: board["panels"][0]["targets"][0].update(expr=expression)


Rule = Callable[[Json], list[str]]
SNAPSHOT = 'breakeven_snapshot_timestamp_seconds{job=~"$job"}'
RULES: list[tuple[Rule, Callable[[Json], Any]]] = [
    (untold, lambda board: board["panels"][0].update(description="")),
    (untold, lambda board: board["panels"][0]["fieldConfig"]["defaults"].update(unit="")),
    (untold, lambda board: board["panels"][0]["targets"][0].update(legendFormat="")),
    (other_datasources, lambda board: board["panels"][0]["targets"][0].update(datasource={"type": "prometheus", "uid": "prometheus"})),
    (other_datasources, lambda board: board["templating"]["list"][0].update(query="loki")),
    (double_names, lambda board: board["panels"][0].update(id=2)),
    (double_names, lambda board: board["panels"][4]["targets"][0].update(refId="B")),
    (misplaced, lambda board: board["panels"][0]["gridPos"].update(w=7)),
    (misplaced, lambda board: board["panels"][3]["gridPos"].update(w=7)),
    (unusual_settings, lambda board: board.update(editable=True)),
    (unfit_variables, lambda board: board["templating"]["list"][-1].update(name="polity")),
    (unfit_variables, lambda board: board["templating"]["list"][-1].update(refresh=1)),
    (unfit_variables, query_of('breakeven_api_info{job=~"$job", model="$model"}')),
    (constant_fallbacks, query_of(f"{SNAPSHOT} or vector(0)")),
    (fixed_windows, query_of(f"increase({SNAPSHOT}[5m])")),
    (deprecated_panels, lambda board: board["panels"][0].update(type="graph")),
    (any_job, query_of("breakeven_snapshot_timestamp_seconds")),
    (unknown_names, query_of('breakeven_age{job=~"$job"}')),
    (unknown_names, query_of(f"max by (gpu) ({SNAPSHOT})")),
    (unknown_names, query_of('breakeven_api_info{job=~"$job", gpu="x"}')),
    (lost_links, lambda board: board["links"][0].update(url="/d/breakeven-nowhere?${datasource:queryparam}")),
    (lost_links, lambda board: board["links"][0].update(url="/d/breakeven-model?${tier:queryparam}")),
]


def test_a_value_in_a_statement_is_quoted() -> None:
    board = copy.deepcopy(DASHBOARDS[FINANCE])
    target = next(one for one in targets(board) if "${gpu:sqlstring}" in one["rawSql"])
    target["rawSql"] = target["rawSql"].replace("${gpu:sqlstring}", "'$gpu'")
    assert unfit_variables(board) == ["gpu is not quoted"]


@pytest.mark.parametrize("uid", DASHBOARDS)
@pytest.mark.parametrize("rule", dict.fromkeys(rule for rule, _ in RULES), ids=lambda rule: rule.__name__)
def test_a_dashboard_keeps_the_rule(rule: Rule, uid: str) -> None:
    assert rule(DASHBOARDS[uid]) == []


@pytest.mark.parametrize(("rule", "breaking"), RULES, ids=[f"{rule.__name__}-{number}" for number, (rule, _) in enumerate(RULES)])
def test_the_rule_complains_about_a_broken_dashboard(rule: Rule, breaking: Callable[[Json], Any]) -> None:
    board = copy.deepcopy(DASHBOARDS["breakeven-overview"])
    breaking(board)
    assert rule(board) != []


def test_uids_are_the_file_names_and_no_title_is_there_twice() -> None:
    assert {uid: board["uid"] for uid, board in DASHBOARDS.items()} == {uid: uid for uid in DASHBOARDS}
    assert len({board["title"] for board in DASHBOARDS.values()}) == len(DASHBOARDS)
    assert all(re.fullmatch(r"[a-z-]{1,40}", uid) for uid in DASHBOARDS)  # Grafana takes 40 characters at most


def test_every_dashboard_is_reached_from_every_other() -> None:
    reached = {uid: {re.split(r"[/?]", link["url"])[2] for link in board["links"]} for uid, board in DASHBOARDS.items()}
    assert reached == {uid: DASHBOARDS.keys() - {uid} for uid in DASHBOARDS}


# Empty unless two sources tell the same price differently, or an alert cannot be delivered: alerts are their place.
NOT_DRAWN = {f"{PREFIX}disagreement_ratio", f"{PREFIX}outbox_oldest_timestamp_seconds"}


def test_every_metric_is_on_some_dashboard() -> None:
    text = " ".join(query for board in DASHBOARDS.values() for query in queries(board))
    assert METRICS.keys() - NOT_DRAWN - set(OURS.findall(text)) == set()


def test_data_source_and_version_are_those_that_are_deployed() -> None:
    provisioned = (GRAFANA / "provisioning/datasources/breakeven.yaml").read_text(encoding="utf-8")
    compose = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    for board in DASHBOARDS.values():
        for source in (entry for entry in variables(board).values() if entry["type"] == "datasource"):
            wanted = rf"uid: {source['current']['value']}\n +type: {source['query']}\n"
            assert re.search(wanted, provisioned)
        assert {panel["pluginVersion"] for panel in panels(board)} == set(re.findall(r"grafana/grafana:(\S+)", compose))


# --- every query on a real Prometheus -------------------------------------------------------------------------------------------

KIMI = "kimi-k3.1-pro"
CHOSEN = {"model": KIMI, "workload": "agent-turns", "policy": "studiotv"}
FETCH = '[fetch]\nuser_agent = "breakeven-tests"\ndeadline_s = 10\nread_timeout_s = 5\nattempts = 1\nhost_spacing_s = 0\n'
# 48.58 is 80 % of the first; and what is rented already
BASELINE = f'[baseline]\n"{KIMI}" = 60.725\nmuse-spark-open = 13.88\n'
BUDGET = f'\n[budget.serving]\nusd_per_month = 40_000\nrented = ["{KIMI}"]\n'
MTOK = "usd_per_mtok_at_utilization"
Labels = tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class Seen:
    """A Prometheus at the moment ``at`` (seconds), when it held the snapshot whose figures the API gave as ``api``."""

    prometheus: Prometheus
    at: float
    api: Json

    def now(self, board: str, title: str, letter: str, labels: Labels) -> dict[Labels, float]:
        """What a query of a panel gives at that moment, by labels."""
        (panel,) = (panel for panel in panels(DASHBOARDS[board]) if panel["title"] == title)
        (query,) = (target["expr"] for target in panel["targets"] if target["refId"] == letter)
        result = self.prometheus.get("query", query=chosen(query, DASHBOARDS[board]), time=str(self.at))["result"]
        found = {tuple(one["metric"].get(label, "") for label in labels): float(one["value"][1]) for one in result}
        assert len(found) == len(result)
        return found


def chosen(query: str, board: Json) -> str:
    """The query as Grafana sends it, with all of everything chosen, or kimi where one value is chosen."""
    values = {"__rate_interval": "15s", "__range": "1m"}
    values |= {name: ".+" if entry.get("multi") else CHOSEN.get(name, "") for name, entry in variables(board).items()}
    return re.sub(r"\$([a-zA-Z_]\w*)", lambda found: values[found[1]], query)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    """The daemon over six sources, of which openrouter is broken, and a Prometheus with the shipped rules, hurried."""
    home, program = tmp_path_factory.mktemp("grafana"), find_program("prometheus")
    with ExitStack() as running:
        upstream = running.enter_context(Upstream())
        serve_market(upstream)
        upstream.add(openrouter.PATH, b"", lasting_fault="status:500")
        upstream.add(runpod.PATH, runpod_answer({"NVIDIA B300 SXM6 AC": "6.94", "NVIDIA H200": "3.59", "A GPU": "1"}), method="POST")
        write_user_config(home / "config", upstream.url, tracker=asking() + FETCH + BASELINE + BUDGET)
        daemon = running.enter_context(Running(home))
        port, target = free_port(), daemon.url.removeprefix("http://")
        hosts = {"tracker:10733": target, "localhost:9090": f"127.0.0.1:{port}", "alertmanager:9093": "127.0.0.1:9"}
        config = place_prometheus(home / "prometheus", hosts, hurried=True)
        prometheus = running.enter_context(Prometheus(program, home / "series", config=config, port=port))
        daemon.until(lambda: sum(source["last_attempt"] is not None for source in api(daemon)["sources"]) == 6)
        prometheus.wait_for('ALERTS{alertname="BreakevenSourceNeverRead", alertstate="firing"}', 1)
        prometheus.wait_for("count_over_time(breakeven_best_setup_usd_per_hour[15s]) > 2", 2)
        yield prometheus.until(lambda: at_one_moment(prometheus, daemon), "the same snapshot in both")


def api(daemon: Running) -> Json:
    """Everything the API says to every question, with the moments of the snapshots it stands on."""
    answers = [daemon.get(f"/api/v1/{name}").json() for name in ("offers", "rates", "sources")]
    asked = [daemon.get(f"/api/v1/models?workload={workload}&policy={policy}").json() for workload, policy in ASKED]
    models = [model for answer in asked for model in answer["models"]]
    moments = {answer["at"] for answer in (*answers, *asked)}
    return {name: value for answer in answers for name, value in answer.items()} | {"models": models, "moments": moments}


def at_one_moment(prometheus: Prometheus, daemon: Running) -> Seen | None:
    """Prometheus and API with figures of one snapshot; None while a new one comes in between."""
    found, told = prometheus.query("timestamp(breakeven_snapshot_timestamp_seconds)"), api(daemon)
    if len(told["moments"]) != 1 or not found:
        return None
    at = float(found[0]["value"][1])
    held = prometheus.get("query", query="breakeven_snapshot_timestamp_seconds", time=str(at))["result"]
    same = [float(one["value"][1]) for one in held] == [pytest.approx(seconds(told["at"]), abs=1e-3)]
    return Seen(prometheus=prometheus, at=at, api=told) if same else None


def seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


real = pytest.mark.real


@real
@pytest.mark.parametrize("uid", PROMETHEUS_BOARDS)
def test_every_query_of_every_panel_gives_something(seen: Seen, uid: str) -> None:
    empty = []
    for panel in panels(DASHBOARDS[uid]):
        for target in panel["targets"]:
            query = chosen(target["expr"], DASHBOARDS[uid])
            if target["instant"]:
                answer = seen.prometheus.get("query", query=query, time=str(seen.at))
            else:
                answer = seen.prometheus.get("query_range", query=query, start=str(seen.at - 30), end=str(seen.at), step="1")
            values = [v for one in (answer or {"result": []})["result"] for _, v in one.get("values", [one.get("value")])]
            empty += [] if values and "NaN" not in values else [f"{panel['title']}: {query}"]
    assert empty == []


@real
@pytest.mark.parametrize("uid", PROMETHEUS_BOARDS)
def test_every_variable_has_the_values_that_are_there(seen: Seen, uid: str) -> None:
    offers = [offer for offer in seen.api["offers"] if rentable(offer)]
    expected = {
        "job": {"breakeven"}, "model": {KIMI, "muse-spark-open"},
        "workload": {"agent-turns", "chat-3-to-1"}, "policy": {"studiotv", "studiotv@clouds"},
        "tier": {offer["tier"] for offer in offers}, "source": {source["id"] for source in seen.api["sources"]},
        "sku": {"standard", "batch"},  # the second as overrides.toml states it
    }  # fmt: skip
    for name, entry in variables(DASHBOARDS[uid]).items():
        if entry["type"] == "query":
            ((selector, label),) = re.findall(r"^label_values\((.+), (\w+)\)$", chosen(entry["query"], DASHBOARDS[uid]))
            values = seen.prometheus.get(f"label/{label}/values", **{"match[]": selector})
            assert set(values) == expected.get(name, set(values)) != set(), name


@real
def test_the_table_of_prices_tells_what_the_api_tells(seen: Seen) -> None:
    board, title = "breakeven-overview", "Cheapest setup and API"
    models, key = seen.api["models"], ("model", "workload", "policy")
    facts = ("gpu", "gpu_count_rented", "weight_format")
    setup = {(*(m[k] for k in key), m["setup"]["offer"]["provider"], *(str(m["setup"][f]) for f in facts)): m["setup"] for m in models}
    rents = seen.now(board, title, "A", (*key, "provider", "gpu", "gpu_count", "weight_format"))
    assert rents == {labels: float(one["usd_per_hour"]) for labels, one in setup.items()}
    assert sorted(price for labels, price in rents.items() if labels[1:3] == ASKED[0]) == [13.88, 48.58]  # 2 and 7 of RunPod's B300 at 6.94
    assert {labels[1:3] for labels in rents} == set(ASKED)
    assert {labels[3] for labels in rents if labels[1:3] == ASKED[2]} <= {"coreweave", "scaleway"}
    months = {labels[:3]: float(one["usd_per_month"]) for labels, one in setup.items()}
    assert seen.now(board, title, "B", key) == pytest.approx(months, rel=1e-12)
    lists = {(*(m[k] for k in key), m["rate"]["rate"]["provider"], m["rate"]["rate"]["sku"]): m["rate"] for m in models}
    mtok = {labels: float(one["usd_per_mtok"]) for labels, one in lists.items()}
    assert seen.now(board, title, "C", (*key, "api", "sku")) == pytest.approx(mtok, rel=1e-12)
    assert seen.now(board, title, "D", key) == {labels[:3]: float(one["usd_per_month"]) for labels, one in lists.items()}
    own = {tuple(m[k] for k in key): m["verdict"] for m in models if m["verdict"]["replicas"] is not None}
    assert seen.now(board, title, "E", key) == pytest.approx({k: float(v["self_host_usd_per_month"]) for k, v in own.items()}, rel=1e-12)
    saved = {tuple(m[k] for k in key): float(m["baseline"]["saving_ratio"]) for m in models if m["baseline"]}
    assert seen.now(board, "Saving against what runs today", "A", key) == pytest.approx(saved, rel=1e-12)
    assert sorted(ratio for labels, ratio in saved.items() if labels[1:] == ASKED[0]) == [0, 0.2]  # 13.88 of 13.88, 48.58 of 60.725
    assert {labels[1:] for labels in saved} == {ASKED[0], ASKED[2]}  # nobody says what runs for another workload


@real
def test_the_table_of_verdicts_tells_what_the_api_tells(seen: Seen) -> None:
    board, title, key = "breakeven-overview", "Break-even and verdict", ("model", "workload", "policy")
    models = {tuple(m[k] for k in key): m for m in seen.api["models"]}
    assert seen.now(board, title, "A", key) == pytest.approx({k: float(m["break_even"]["tokens"]) for k, m in models.items()}, rel=1e-12)
    # seed 002: 20 engineers, 150 requests a workday, 21 workdays, 260,000 tokens a request; and a million of 8,192
    tokens = {k: 20 * 150 * 21 * 260_000 if k[1] == "agent-turns" else 10**6 * 8_192 for k in models}
    assert seen.now(board, title, "B", key) == pytest.approx(tokens, rel=1e-12)
    told = {(*k, m["break_even"]["status"], m["verdict"]["answer"]) for k, m in models.items()}
    assert seen.now(board, title, "C", (*key, "status", "verdict")).keys() == told
    feasible = {k: float(m["break_even"]["status"] in ("feasible", "always")) for k, m in models.items()}
    assert seen.now(board, title, "D", key) == feasible
    assert seen.now(board, title, "E", key) == {k: float(m["setup"]["tight"]) for k, m in models.items()}
    for panel, letter, name in (("Break-even utilization", "A", "breakeven_utilization"), ("A million tokens", "B", MTOK)):
        assert seen.now(board, panel, letter, key) == pytest.approx({k: float(m["break_even"][name]) for k, m in models.items()}, rel=1e-12)


def rentable(offer: Json) -> bool:
    """As the README says of the metric: what is fresh, vouched for, in stock and sold at that price."""
    kept = offer["fresh"] and offer["trust"] in ("datacenter", "verified") and offer["availability"] != "unavailable"
    return bool(kept and offer["price_kind"] in ("list", "ask"))


def place(offer: Json) -> Labels:
    return (offer["provider"], offer["gpu"], offer["tier"])


def medians(offers: list[Json]) -> dict[Labels, float]:
    """Middle price per GPU-hour of each provider, GPU and tier."""
    prices: dict[Labels, list[Decimal]] = {}
    for offer in filter(rentable, offers):
        prices.setdefault(place(offer), []).append(Decimal(offer["usd_per_hour"]) / offer["gpu_count"])
    return {key: float(median(found)) for key, found in prices.items()}


@real
def test_the_market_tells_what_the_api_tells(seen: Seen) -> None:
    board, by = "breakeven-market", ("provider", "gpu", "tier")
    lowest: dict[Labels, Decimal] = {}
    for offer in filter(rentable, seen.api["offers"]):
        key = place(offer)
        price = Decimal(offer["usd_per_hour"]) / offer["gpu_count"]
        lowest[key] = min(lowest.get(key, price), price)
    expected = {key: float(price) for key, price in lowest.items()}
    assert len(expected) == 9
    for letter in "ACD":  # nothing moved in the time range
        assert seen.now(board, "Rental prices", letter, by) == pytest.approx(expected, rel=1e-12)
    assert seen.now(board, "Rental prices", "B", by) == pytest.approx(medians(seen.api["offers"]), rel=1e-12)
    counted = Counter((key[1], key[2]) for key in map(place, filter(rentable, seen.api["offers"])))
    assert seen.now(board, "Offers", "A", ("gpu", "tier")) == counted
    h200 = 1 - lowest["coreweave", "nvidia-h200-sxm-141", "spot"] / lowest["coreweave", "nvidia-h200-sxm-141", "on_demand"]
    assert seen.now(board, "Spot discount at the same provider", "A", ("provider", "gpu")) == {
        ("coreweave", "nvidia-h200-sxm-141"): pytest.approx(float(h200), rel=1e-12)
    }
    cheapest = 1 - lowest["coreweave", "nvidia-h200-sxm-141", "spot"] / lowest["runpod", "nvidia-h200-sxm-141", "on_demand"]
    found = seen.now(board, "Cheapest spot against cheapest on demand", "A", ("gpu",))
    assert found["nvidia-h200-sxm-141",] == pytest.approx(float(cheapest), rel=1e-12)


@real
def test_the_model_tells_what_the_api_tells(seen: Seen) -> None:
    board = "breakeven-model"
    (kimi,) = (model for model in seen.api["models"] if {name: model[name] for name in CHOSEN} == CHOSEN)
    per_gpu = {(one["gpu"], one["weight_format"]): float(one["usd_per_hour"]) for one in kimi["per_gpu"]}
    assert seen.now(board, "Cheapest setup on each GPU", "A", ("gpu", "weight_format")) == per_gpu
    moonshot = [rate for rate in seen.api["rates"] if (rate["model"], rate["provider"], rate["fresh"]) == (KIMI, "moonshot", True)]
    listed = [seen.now(board, "API price lists", letter, ("provider", "sku")) for letter in "ABCDE"]
    kinds = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output")
    assert listed == [{("moonshot", rate["sku"]): float(rate["usd"][kind]) for rate in moonshot} for kind in kinds]
    assert [found["moonshot", "standard"] for found in listed] == [2, 0.2, 2, 4, 10]  # as served
    assert [found["moonshot", "batch"] for found in listed] == [1.2, 0.12, 1.2, 2.4, 6]  # 60 % of it


@real
def test_the_sources_tell_what_the_api_tells(seen: Seen) -> None:
    board, sources = "breakeven-sources", {(source["id"],): source for source in seen.api["sources"]}
    read = {key: seen.at - seconds(one["last_success"]) for key, one in sources.items() if one["last_success"]}
    assert len(read) == 5
    assert seen.now(board, "Ages", "A", ("source",)) == pytest.approx(read, abs=0.01)
    assert seen.now(board, "Ages", "B", ("source",)) == {key: one["max_age_hours"] * 3600 for key, one in sources.items()}
    tried = {key: one for key, one in sources.items() if one["last_attempt"]}
    assert seen.now(board, "Counts", "B", ("source",)) == {key: one["rows"] for key, one in tried.items()}
    assert seen.now(board, "Counts", "C", ("source",)) == {key: sum(one["skipped"].values()) for key, one in tried.items()}
    assert seen.now(board, "Counts", "E", ("source",))["openrouter",] == 1
    for uid in (board, "breakeven-overview"):
        assert seen.now(uid, "Sources not up to date", "A", ()) == {(): 1}  # openrouter
    assert seen.now(board, "Sources switched on", "A", ()) == {(): 6}


@real
def test_an_alert_that_fires_is_marked_and_named(seen: Seen) -> None:
    found = seen.now("breakeven-overview", "Alerts that fired", "A", ("alertname", "source"))
    assert ("BreakevenSourceNeverRead", "openrouter") in found
    for board in DASHBOARDS.values():
        assert [entry["expr"] for entry in board["annotations"]["list"]] == ['ALERTS{alertname=~"Breakeven.+", alertstate="firing"}']


# --- pictures -------------------------------------------------------------------------------------------------------------------

PICTURES = sorted((GRAFANA / "pictures").glob("*.svg"))


def test_every_picture_is_small_whole_and_shown_in_the_readme() -> None:
    shown = re.findall(r"\(deploy/grafana/pictures/([\w-]+\.svg)\)", (DEPLOY.parent / "README.md").read_text(encoding="utf-8"))
    assert sorted(shown) == [path.name for path in PICTURES] != []
    for path in PICTURES:
        assert path.stat().st_size < 100_000
        assert ElementTree.parse(path).getroot().tag == "{http://www.w3.org/2000/svg}svg"


@real
def test_pictures_show_the_figures_of_the_panels(seen: Seen, tmp_path: Path) -> None:
    """Drawn anew from the Prometheus of this test: 2 and 7 of RunPod's B300 at $6.94, and 730 hours a month."""
    subprocess.run([sys.executable, "-B", GRAFANA / "pictures.py", seen.prometheus.url, tmp_path], check=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == [path.name for path in PICTURES]
    told = {path.name: {element.text for element in ElementTree.parse(path).iter()} for path in tmp_path.iterdir()}
    assert {KIMI, "muse-spark-open", "$48.58", "$13.88", "$35,463.40", "$10,132.40"} <= told["overview-cheapest-setup-and-api.svg"]
    assert "16.4 B" in told["overview-break-even-and-verdict.svg"]  # 20 x 150 x 21 x 260,000 tokens
    assert {"nvidia-b300-sxm-288, awq", "$13.88"} <= told["model-cheapest-setup-on-each-gpu.svg"]
    assert {"nvidia-h200-sxm-141, on_demand", "$3.59", "$6.94"} <= told["market-lowest-price-of-each-gpu.svg"]
