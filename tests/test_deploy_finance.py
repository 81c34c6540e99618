"""Every statement of the Finance dashboard on a real PostgreSQL that the real daemon keeps its book in, as the role that only reads."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from statistics import median
from typing import Any

import pytest
from databases import Postgres
from deployed import DEPLOY
from homes import run
from processes import Running
from upstream import Upstream
from worlds import ASKED, asking, runpod_answer, serve_market, write_user_config

from engine.units import HOURS_PER_MONTH
from scrapers import runpod

pytestmark = pytest.mark.real
BOARD = json.loads((DEPLOY / "grafana" / "dashboards" / "breakeven-finance.json").read_text(encoding="utf-8"))
TRACKER = """[fetch]
user_agent = "breakeven-tests"
deadline_s = 10
read_timeout_s = 5
attempts = 1
host_spacing_s = 0
[recompute]
every_s = 1
[database]
url = "{url}"
"""
READER = "grafana"
Rows = list[dict[str, str]]


@dataclass(frozen=True, slots=True)
class Books:
    """A book in PostgreSQL in which one price changed, and what the API says of it."""

    server: Postgres
    name: str
    offers: list[dict[str, Any]]
    models: list[dict[str, Any]]

    def ask(self, statement: str) -> Rows:
        """Rows by column as the reader's role gets them; everything is chosen, and the time range is the last day."""
        text = self._as_sent(statement)
        rows = self.server.psql(self.name, f"select row_to_json(one) from ({text}) one", user=READER)
        return [json.loads(row[0], parse_float=Decimal) for row in rows]

    def _as_sent(self, statement: str) -> str:
        """As Grafana sends it: macros and variables put in."""
        now = datetime.now(UTC)  # the views know the real time only
        start, end = (f"'{moment:%Y-%m-%dT%H:%M:%SZ}'" for moment in (now - timedelta(days=1), now + timedelta(minutes=1)))
        text = re.sub(r"\$__timeFilter\((\w+)\)", rf"\1 between {start} and {end}", statement)
        text = text.replace("$__timeFrom()", start).replace("$__timeTo()", end)
        return re.sub(r"\$\{(\w+):sqlstring\}", lambda found: self._all(found[1]), text)

    def _all(self, variable: str) -> str:
        (query,) = (one["query"] for one in BOARD["templating"]["list"] if one["name"] == variable)
        return ",".join("'" + row[variable].replace("'", "''") + "'" for row in self.ask(query))

    def panel(self, title: str) -> Rows:
        (found,) = (panel for panel in BOARD["panels"] if panel["title"] == title)
        (target,) = found["targets"]
        return self.ask(target["rawSql"])


@pytest.fixture(scope="module")
def books(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Books]:
    """RunPod asks 6.94 and then 6.50 for its B300."""
    home, name = tmp_path_factory.mktemp("finance"), postgres.make()
    with Upstream() as upstream:
        serve_market(upstream)
        write_user_config(home / "config", upstream.url, tracker=asking() + TRACKER.format(url=postgres.url(name)), interval_minutes=0.02)
        with Running(home) as daemon:
            daemon.until(lambda: all(s["last_success"] for s in daemon.get("/api/v1/sources").json()["sources"] if s["enabled"]))
            upstream.add(runpod.PATH, runpod_answer({"NVIDIA B300 SXM6 AC": "6.50", "NVIDIA H200": "3.59"}), method="POST")
            daemon.until(lambda: {b300(offer) for offer in offers(daemon)} >= {"6.5"})
            changed = datetime.now(UTC)
            daemon.until(lambda: datetime.now(UTC) >= changed + timedelta(seconds=1))  # figures end with the last whole second
            assert run(home, "db", "rollup").code == 0  # the daemon does so after two minutes
            script = (DEPLOY / "postgres" / "reader.sql").read_text(encoding="utf-8")
            statements = [re.sub(r':"reader"', f'"{READER}"', s).replace(":'password'", "'x'") for s in script.split(";") if runs(s)]
            postgres.psql(name, *(re.sub(r"(?m)^(--|\\).*$", "", statement) for statement in statements))
            yield Books(postgres, name, offers(daemon), models(daemon))


def runs(statement: str) -> bool:
    """Whether something is left of it without comments; the transaction is not ours to keep, one client runs them one by one."""
    text = re.sub(r"(?m)^(--|\\).*$", "", statement).strip()
    return bool(text) and text not in ("begin", "commit")


def offers(daemon: Running) -> list[dict[str, Any]]:
    """Offers one can rent, as the API tells them."""
    found = daemon.get("/api/v1/offers").json()["offers"]
    return [o for o in found if o["fresh"] and o["price_kind"] in ("list", "ask") and o["availability"] != "unavailable"]


def models(daemon: Running) -> list[dict[str, Any]]:
    """What the API answers to each question."""
    asked = [daemon.get(f"/api/v1/models?workload={workload}&policy={policy}").json() for workload, policy in ASKED]
    return [model for answer in asked for model in answer["models"]]


def key(row: dict[str, Any]) -> tuple[str, str, str]:
    """Whose answer it is."""
    return row["model"], row["workload"], row["policy"]


def b300(offer: dict[str, Any]) -> str:
    per_gpu = Decimal(offer["usd_per_hour"]) / offer["gpu_count"]
    return f"{per_gpu.normalize():f}" if (offer["provider"], offer["gpu"]) == ("runpod", "nvidia-b300-sxm-288") else ""


def test_every_panel_and_every_variable_gives_something(books: Books) -> None:
    assert {panel["title"]: bool(books.panel(panel["title"])) for panel in BOARD["panels"]} == {p["title"]: True for p in BOARD["panels"]}
    variables = [entry for entry in BOARD["templating"]["list"] if entry["type"] == "query"]
    assert all(books.ask(entry["query"]) for entry in variables)
    assert len(variables) == 5


def test_the_lowest_price_of_today_is_that_of_the_day(books: Books) -> None:
    """The B300 was 6.94 and is 6.50 since."""
    shown = {row["metric"]: usd(row["value"]) for row in books.panel("Lowest price of each day")}
    assert shown["nvidia-b300-sxm-288 on_demand"] == Decimal("6.50")


def test_the_cheapest_offers_are_those_of_the_api(books: Books) -> None:
    shown = [
        (r["provider"], r["sku"], r["region"], r["GPU"], int(r["GPUs"]), r["tier"], usd(r["per hour"]))
        for r in books.panel("Cheapest offers")
    ]
    told = [(o["provider"], o["sku"], o["region"], o["gpu"], o["gpu_count"], o["tier"], usd(o["usd_per_hour"])) for o in books.offers]
    assert Counter(shown) == Counter(told)
    assert len(shown) > 10
    months = {usd(row[f"per month of {HOURS_PER_MONTH} h"] - row["per hour"] * 730) for row in books.panel("Cheapest offers")}
    assert months == {0}


def usd(amount: object) -> Decimal:
    """Without what division leaves behind the ninth digit."""
    return round(Decimal(str(amount)), 9)


def test_a_month_of_a_gpu_is_its_lowest_and_its_median(books: Books) -> None:
    by: dict[tuple[str, str, str], list[Decimal]] = {}
    for offer in books.offers:
        by.setdefault((offer["provider"], offer["gpu"], offer["tier"]), []).append(Decimal(offer["usd_per_hour"]) / offer["gpu_count"])
    rows = books.panel("A month of a GPU")
    shown = {(r["provider"], r["GPU"], r["tier"]): (float(r["lowest"]), float(r["median"]), int(r["offers"])) for r in rows}
    told = {key: (float(min(p) * 730), float(median(p) * 730), len(p)) for key, p in by.items()}
    assert shown.keys() == told.keys()
    for key, figures in told.items():
        assert shown[key] == pytest.approx(figures, rel=1e-9), key
    assert shown["runpod", "nvidia-b300-sxm-288", "on_demand"][0] == 6.50 * 730


def test_a_change_is_listed_with_what_was_before(books: Books) -> None:
    """The machine of one and that of eight; prices are those of the whole machine."""
    found = [row for row in books.panel("Price changes") if row["provider"] == "runpod"]
    assert {(row["before, per hour"], row["after, per hour"], row["change"]) for row in found} == {
        (Decimal("6.94"), Decimal("6.5"), "-6.3 %"),
        (Decimal("55.52"), Decimal(52), "-6.3 %"),
    }


def test_the_history_has_both_prices(books: Books) -> None:
    found = {
        row["value"] for row in books.panel("Prices as they were listed") if row["metric"].startswith("runpod") and "B300" in row["metric"]
    }
    assert found == {Decimal("6.94"), Decimal("6.5")}


def test_spot_and_on_demand_stand_side_by_side(books: Books) -> None:
    (h200,) = (row for row in books.panel("On demand, spot and reserved") if row["GPU"] == "nvidia-h200-sxm-141")
    told = {
        tier: min(Decimal(o["usd_per_hour"]) / o["gpu_count"] for o in books.offers
                  if (o["provider"], o["gpu"], o["tier"]) == ("coreweave", "nvidia-h200-sxm-141", tier))
        for tier in ("on_demand", "spot")
    }  # fmt: skip
    assert (h200["provider"], usd(h200["on demand"]), usd(h200["spot"])) == ("coreweave", usd(told["on_demand"]), usd(told["spot"]))


def test_coverage_counts_what_is_listed_by_who_told_it(books: Books) -> None:
    rows = {row["source"]: row for row in books.panel("What the book stands on")}
    assert {"runpod", "coreweave", "scaleway"} <= rows.keys()
    assert rows["runpod"]["offers"] == rows["runpod"]["fresh"] == str(sum(o["source"] == "runpod" for o in books.offers))
    assert {row["fresh"] for source, row in rows.items() if source.startswith("book:")} == {"0"}


def test_the_winners_are_those_of_the_api(books: Books) -> None:
    """Two and seven of RunPod's B300 at 6.50."""
    rows = books.panel("Cheapest setup of each model")
    shown = {key(row): (row["provider"], row["GPU"], int(row["GPUs"]), usd(row["per hour"]), row["fresh"]) for row in rows}
    told = {
        key(model): (setup["offer"]["provider"], setup["gpu"], setup["gpu_count_rented"], usd(setup["usd_per_hour"]), "true")
        for model in books.models
        for setup in [model["setup"]]
    }
    assert shown == told
    by_default = {asked[0]: price for asked, (_, _, _, price, _) in shown.items() if asked[1:] == ASKED[0]}
    assert by_default == {"kimi-k3.1-pro": Decimal("45.5"), "muse-spark-open": 13}
    assert {asked[1:] for asked in shown} == set(ASKED)
    assert {usd(row["per month of 730 h"] - row["per hour"] * 730) for row in rows} == {0}


def test_the_newest_answer_is_that_of_the_api(books: Books) -> None:
    newest: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in books.panel("Answers over time"):
        newest.setdefault(key(row), row)
    for model in books.models:
        row = newest[key(model)]
        assert (row["verdict"], usd(row["rent per hour"])) == (model["verdict"]["answer"], usd(model["setup"]["usd_per_hour"]))
        assert usd(row["workload at the API"]) == usd(model["rate"]["usd_per_month"])


def test_a_month_is_counted_by_the_hours_that_both_bills_were_known(books: Books) -> None:
    """A few seconds of one month (or of two, at midnight of the first): both columns stand in the ratio of the bills."""
    rows = books.panel("What each month would have cost")
    assert {key(row) for row in rows} == {key(model) for model in books.models}
    assert all(0 <= Decimal(row["hours known"]) < 1 for row in rows)
