"""``plan`` and ``bill``: the seeds' bills to the cent, and plans worked out by hand over a book of a few prices."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from books import B300, MOONSHOT, NOW, SPOT, book, listed
from commands import breakeven

from engine.plans import Plan
from engine.rates import TokenPrices
from tracker.answers.planning import PlanAnswer, plan_answer
from tracker.answers.questions import default_question
from tracker.answers.recompute import Sizer, answer
from tracker.book.book import Book
from tracker.cli import bills as bill_command
from tracker.cli import plans as plan_command
from tracker.cli.bills import usd
from tracker.world import World, load_world

D = Decimal
CONFIG = Path(__file__).resolve().parents[1] / "config"
KIMI = "kimi-k3.1-pro"
BILLION = 10**9
MONTH = D("40529.60")  # 55.52 x 730
API = D("0.4615384615384615384615384615")  # 0.12 / 260,000 tokens, per million

# One replica of eight B300 serves 400,000 turns a month, 104 billion tokens.
WORKLOADS = """
[agent-turns]
name = "Coding agents of 20 engineers"
mix = { cache_read = 240_000, input = 16_000, output = 4_000 }
requests_per_month = 63_000
context = 262_144
source = "DevToolLab, 2026-11-07"
checked = 2026-11-29
SHARES
[[agent-turns.capacities]]
model = "kimi-k3.1-pro"
gpu = "nvidia-b300-sxm-288"
gpu_count = 8
requests_per_month = 400_000
source = "measured by us"
checked = 2026-11-28
"""


@pytest.fixture(scope="module")
def starter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One data directory with the embedded book in it."""
    return tmp_path_factory.mktemp("data")


@pytest.fixture(autouse=True)
def _one_book(starter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BREAKEVEN_DATA", str(starter))


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return write_workloads(tmp_path, monkeypatch)


def write_workloads(folder: Path, monkeypatch: pytest.MonkeyPatch, shares: str = "") -> Path:
    (folder / "workloads.toml").write_text(WORKLOADS.replace("SHARES", shares), encoding="utf-8")
    monkeypatch.setenv("BREAKEVEN_CONFIG", str(folder))
    return folder


@contextmanager
def shelf(found: Book) -> Iterator[None]:
    """The commands read this book."""
    with patch.object(plan_command, "book_of", lambda here: found), patch.object(bill_command, "book_of", lambda here: found):
        yield


def planned(world: World, found: Book, tokens: int, **how: Any) -> PlanAnswer:
    question, sizer = default_question(world), Sizer(world)
    answered = answer(world, sizer, found, world.model(KIMI), question)
    return plan_answer(world, sizer, found, answered, question, D(tokens), **how)


def kinds(plans: tuple[Plan, ...]) -> list[tuple[str, int, Decimal]]:
    return [(plan.kind, plan.replicas, plan.usd_per_month.quantize(D("0.01"))) for plan in plans]


# --- plan ---------------------------------------------------------------------------------------------------------------


def test_below_break_even_the_api_is_the_plan(user: Path) -> None:
    found = planned(load_world(CONFIG, user), book(), 63_000 * 260_000)
    assert kinds(found.plans) == [("api", 0, D("7560.00")), ("self_host", 1, MONTH)]
    assert found.break_even is not None and found.break_even.tokens == MONTH * 260_000 / D("0.12")  # 87.81 billion
    assert found.verdict is not None and found.verdict.answer == "api"


def test_above_break_even_one_replica_is_the_plan_and_beyond_it_the_api_overflows(user: Path) -> None:
    world = load_world(CONFIG, user)
    assert kinds(planned(world, book(), 100 * BILLION).plans) == [("self_host", 1, MONTH), ("api", 0, D("46153.85"))]
    # 26 billion beyond the 104 that one replica serves: 26,000 x 0.461538 = $12,000.00 at the API
    above = kinds(planned(world, book(), 130 * BILLION).plans)
    assert above == [("hybrid", 1, MONTH + 12_000), ("api", 0, D("60000.00")), ("self_host", 2, 2 * MONTH)]


def test_the_curve_over_volume_is_the_lower_envelope(user: Path) -> None:
    found = planned(load_world(CONFIG, user), book(), 100 * BILLION, up_to_tokens=D(200 * BILLION))
    even = MONTH / D("0.12") * 260_000
    assert [(s.kind, s.replicas) for s in found.segments] == [("api", 0), ("self_host", 1), ("hybrid", 1), ("self_host", 2)]
    edges = [s.to_tokens.quantize(D(1)) for s in found.segments]
    assert edges == [even.quantize(D(1)), D(104 * BILLION), (104 * BILLION + even).quantize(D(1)), D(200 * BILLION)]
    assert [s.to_usd.quantize(D("0.01")) for s in found.segments] == [MONTH, MONTH, 2 * MONTH, 2 * MONTH]


def test_what_flips_the_verdict(user: Path) -> None:
    """At 100 billion: rent 46,153.85 = 1.1388 x today's; API 0.405296; one replica pays, and must be used to 100 / 104."""
    flips = planned(load_world(CONFIG, user), book(), 100 * BILLION).flips
    assert flips is not None and flips.rent_usd_per_month is not None and flips.rent_factor is not None
    assert flips.rent_usd_per_month.quantize(D("0.01")) == D("46153.85")
    assert flips.rent_factor.quantize(D("0.0001")) == D("1.1388")
    assert flips.api_usd_per_mtok == D("0.405296")
    assert flips.utilization is not None and flips.utilization.quantize(D("0.0001")) == D("0.9615")


def test_the_error_band_of_an_estimate_is_planned_with(user: Path) -> None:
    """Without a stated capacity the estimate stands, and its two ends give plans of their own."""
    stated = planned(load_world(CONFIG, user), book(), 100 * BILLION)
    assert stated.low == stated.high == stated.best
    cheap = book((replace(B300, usd_per_hour=D(1), native_per_hour=D(1)),))
    served = planned(load_world(CONFIG), cheap, BILLION).candidates[0].served
    assert served.kind == "estimate" and served.error_factor > 1 and served.requests_per_month is not None
    nearly_full = int(served.requests_per_month * 260_000 * D("0.9"))
    found = planned(load_world(CONFIG), cheap, nearly_full)
    assert found.best is not None and found.low is not None and found.high is not None
    assert (found.best.replicas, found.best.usd_per_month, found.high.usd_per_month) == (1, D(730), D(730))
    assert found.low.usd_per_month > 730


def test_spot_enters_only_with_its_loss_and_pays_for_it(user: Path) -> None:
    world = load_world(CONFIG, user)
    assert {c.rental.tier for c in planned(world, book((B300, SPOT)), 100 * BILLION).candidates} == {"on_demand"}
    found = planned(world, book((B300, SPOT)), 100 * BILLION, interruption_loss=D("0.25"))
    assert found.best is not None and found.best.rental is not None
    assert (found.best.rental.tier, found.best.usd_per_month) == ("spot", D(20) * 730 * D("1.25"))
    assert "on spot, 25.0% lost" in found.best.reason


def test_a_marketplace_ask_is_one_machine(user: Path) -> None:
    """At half the price it is rented once, and what it cannot serve goes to the API or to machines that are sold again and again."""
    ask = replace(B300, provider="vast", sku="8x B300 ask", price_kind="ask", usd_per_hour=D("27.76"), native_per_hour=D("27.76"))
    world = load_world(CONFIG, user)
    found = planned(world, book((B300, ask)), 130 * BILLION)
    expected = [("hybrid", 1, MONTH / 2 + 12_000), ("hybrid", 1, MONTH + 12_000), ("api", 0, D("60000.00")), ("self_host", 2, 2 * MONTH)]
    assert kinds(found.plans) == expected
    assert {segment.rental.name for segment in found.segments if segment.rental} == {"8 x nvidia-b300-sxm-288 (mxfp4) at runpod"}
    with shelf(book((B300, ask))):
        assert "8 x nvidia-b300-sxm-288 (mxfp4) at vast, one ask 80.0%" in breakeven("plan", KIMI, "--tokens-per-month", "130B").text


def test_fixed_overheads_and_utilization_move_the_plan(user: Path) -> None:
    world = load_world(CONFIG, user)
    costly = planned(world, book(), 100 * BILLION, fixed_usd_per_month=D(10_000))
    assert kinds(costly.plans) == [("api", 0, D("46153.85")), ("self_host", 1, MONTH + 10_000)]
    with shelf(book()):
        half = breakeven("plan", KIMI, "--tokens-per-month", "100B", "--utilization", "0.5", "--json").json
    # 52 billion a replica: one serves 52 for 40,529.60 and saves only 24,000 of API
    assert [(p["kind"], p["replicas"]) for p in half["plans"]] == [("api", 0), ("self_host", 2)]
    assert half["flips"]["utilization"].startswith("0.9615")


def test_stale_prices_are_planned_with_only_where_nothing_is_fresh_and_say_so(user: Path) -> None:
    cheap = listed(replace(B300, sku="old", usd_per_hour=D(1), native_per_hour=D(1)), fresh=False)
    world = load_world(CONFIG, user)
    assert planned(world, book((B300, cheap)), 100 * BILLION).candidates[0].setup.offer.sku == "8x B300"
    with shelf(book((cheap,), (listed(MOONSHOT, fresh=False),))):
        text = breakeven("plan", KIMI, "--tokens-per-month", "100B").text
    assert "rents are stale: last seen up to 60 min ago" in text or "rents are stale: last seen up to 1 h ago" in text
    assert "API: moonshot at $0.4615 per Mtok of agent-turns; stale" in text


def test_the_text_of_a_plan(user: Path) -> None:
    with shelf(book()):
        text = breakeven("plan", KIMI, "--tokens-per-month", "100B").text
    assert "Kimi K3.1 Pro, 100.0 billion tokens a month (384,615 requests of agent-turns)" in text
    assert "self-host 1 8 x nvidia-b300-sxm-288 (mxfp4) at runpod 100.0% 40,529.60 400,000 (config)" in text
    assert "API only 46,153.85" in text
    assert "0 87.8 billion API only 0.00 40,529.60" in text
    assert "it flips at a GPU price of $7.9031 a GPU-hour, $46,153.85 a month a replica, 1.14 x today's" in text
    assert "it flips at an API price of $0.4053 per Mtok of the mix, 0.88 x today's" in text
    assert "renting wins from a utilization of 96.2% up" in text
    assert "stale" not in text


def test_a_plan_explains_itself(user: Path) -> None:
    with shelf(book()):
        found = breakeven("plan", KIMI, "--tokens-per-month", "100B", "--explain", "--json").json
    sections = {section["title"]: {line["name"]: line for line in section["lines"]} for section in found["explain"]}
    assert sections["offer"]["price as printed"]["value"] == "55.52"
    assert sections["offer"]["price as printed"]["source"] == "https://www.runpod.io/pricing"
    assert sections["capacity of a replica"]["capacity"]["source"] == "measured by us"
    assert sections["cheapest plan"]["rent of a replica (C)"]["value"] == "40529.6"
    assert sections["rate of moonshot"]["output as printed"]["value"] == "10"


def test_without_a_rate_or_an_offer_the_other_side_is_planned(user: Path) -> None:
    world = load_world(CONFIG, user)
    assert kinds(planned(world, book(rates=()), 100 * BILLION).plans) == [("self_host", 1, MONTH)]
    assert kinds(planned(world, book(offers=()), 100 * BILLION).plans) == [("api", 0, D("46153.85"))]
    with shelf(book((), ())):
        nothing = breakeven("plan", KIMI)
    assert nothing.code == 1 and "no plan: no offer in the book holds it; no API rate in the book" in nothing.text


def test_a_week_of_168_different_hours_is_drawn_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shares = "hour_shares = [" + ", ".join(str(100 + hour) for hour in range(168)) + "]"
    write_workloads(tmp_path, monkeypatch, shares)
    with shelf(book()):
        curve = breakeven("plan", KIMI, "--tokens-per-month", "16B", "--json").json["envelope"]
    assert {(piece["kind"], piece["replicas"]) for piece in curve} == {("api", 0), ("hybrid", 1)}
    assert len(curve) > 10  # the one replica fills up hour by hour
    assert (curve[0]["kind"], curve[0]["from_tokens"]) == ("api", "0")
    assert [piece["from_tokens"] for piece in curve[1:]] == [piece["to_tokens"] for piece in curve[:-1]]


@pytest.mark.parametrize(
    ("args", "code", "line"),
    [
        (
            ("--tier", "spot"),
            1,
            "spot machines are interrupted: state the share of paid hours that is lost, such as --interruption-loss 0.05",
        ),
        (("--interruption-loss", "1"), 1, "--interruption-loss must be below 1, got 1"),
        (("--utilization", "0"), 1, "--utilization must be above 0 and at most 1, got 0"),
        (("--tokens-per-month", "0"), 1, "a volume must be above 0 tokens a month"),
        (("--tokens-per-month", "lots"), 2, "is no number of tokens"),
        (("--fixed", "-1"), 2, "must be a number of at least 0"),
        (("--tier", "on-demand"), 1, "no tier named 'on-demand' (did you mean on_demand?); there are on_demand, spot, reserved"),
    ],
)
def test_what_cannot_be_planned_is_one_line(args: tuple[str, ...], code: int, line: str) -> None:
    found = breakeven("plan", KIMI, *args)
    assert found.code == code
    assert line in " ".join(found.err.replace("│", " ").split())


# --- bill: seed 002 -----------------------------------------------------------------------------------------------------


def of_moonshot(facts: Any) -> Any:
    return next(row for row in facts["bills"] if row["provider"] == "moonshot")


def test_the_turn_and_the_month_of_the_page() -> None:
    """$0.048 + $0.032 + $0.040; 63,000 turns; $7,560; 60 % in batch; 256K uncached is $0.552 a turn, $34,776 a month."""
    row = of_moonshot(breakeven("bill", KIMI, "--json").json)
    lines = {line["kind"]: D(line["amount"]) for line in row["request"]["by_kind"]}
    assert lines == {"input": D("0.032"), "cache_read": D("0.048"), "output": D("0.04")}
    assert [D(row[name]) for name in ("usd_per_request", "batch_usd", "without_caching_usd", "caching_saves_usd")] == [
        D("0.12"),
        D(4_536),
        D(34_776),
        D(27_216),
    ]
    assert (D(row["month"]["usd"]), row["official"]) == (D(7_560), True)
    assert (D(row["cold_request"]["usd"]), D(row["uncached_request"]["usd"])) == (D("0.552"), D("0.552"))
    text = breakeven("bill", KIMI).text
    assert "moonshot kimi-k3.1-pro (official): $0.12 a request, $7,560.00 a month; stale: last seen 19 days ago" in text
    assert "without caching $34,776.00 a month: caching saves $27,216.00 all in batch $4,536.00 a month" in text
    assert "cache_read 240,000 $0.20 $0.048 15,120,000,000 3,024.00" in text


def test_other_price_lists_of_the_provider() -> None:
    fast = breakeven("bill", KIMI, "--provider", "moonshotai", "--sku", "highspeed", "--json").json
    assert [(row["provider"], D(row["month"]["usd"])) for row in fast["bills"]] == [("moonshot", D(12_096))]
    china = of_moonshot(breakeven("bill", KIMI, "--sku", "mainland-china", "--json").json)
    # CNY 0.792 a turn (seed 004's prices), in dollars at the day's reference rate
    explained = breakeven("bill", KIMI, "--sku", "mainland-china", "--explain", "--json").json["explain"]
    per_usd = next(D(line["value"]) for section in explained for line in section["lines"] if line["name"] == "exchange rate")
    assert abs(D(china["usd_per_request"]) * per_usd - D("0.792")) < D("1e-20")


def test_cold_starts_and_volume_are_parameters() -> None:
    """Every tenth turn opens a session: 0.9 x 0.12 + 0.1 x 0.552 = 0.1632 a turn; 1,000 turns are $163.20."""
    row = of_moonshot(breakeven("bill", KIMI, "--requests", "1000", "--cold-share", "0.1", "--json").json)
    assert (D(row["usd_per_request"]), D(row["month"]["usd"])) == (D("0.1632"), D("163.2"))
    cold = breakeven("bill", KIMI, "--workload", "sessions-cold").text
    assert "a request that opens a session $0.552; 10% of the requests do" in cold


def test_missing_prices_are_flagged_and_unknown_is_not_zero() -> None:
    """No cache price: the whole prompt at the input price, 0.256 x 2 + 0.04 = $0.552, an upper bound. No output price: no figure."""
    bare = replace(MOONSHOT, provider="bare", source="bare", usd=TokenPrices(input=D(2), output=D(10)))
    half = replace(MOONSHOT, provider="half", source="half", usd=TokenPrices(input=D(2), cache_read=D("0.2")))
    with shelf(book(rates=(MOONSHOT, bare, half))):
        facts, text = breakeven("bill", KIMI, "--json").json, breakeven("bill", KIMI).text
    rows = {row["provider"]: row for row in facts["bills"]}
    assert (D(rows["bare"]["usd_per_request"]), rows["bare"]["month"]["upper_bound"]) == (D("0.552"), True)
    assert facts["unranked"] == [{"provider": "half", "source_model": KIMI, "reason": "no price for output"}]
    assert "bare standard $0.552" in text and "upper bound" in text
    assert "not half kimi-k3.1-pro: no price for output" in text
    assert facts["fresh"] is True and "stale" not in text
    assert facts["spread_usd_per_mtok"].startswith("1.6615")  # (0.552 - 0.12) / 0.26


def test_one_provider_is_asked_by_its_name() -> None:
    only = breakeven("bill", KIMI, "--provider", "together,fireworks", "--json").json
    assert [row["provider"] for row in only["bills"]] == ["fireworks", "together"]
    unknown = breakeven("bill", KIMI, "--provider", "moonshit")
    assert unknown.err.startswith(f"breakeven: no provider of {KIMI} named 'moonshit' (did you mean moonshot?); there are aws, ")
    assert breakeven("bill", KIMI, "--sku", "turbo").err.startswith(
        f"breakeven: no price list of {KIMI} named 'turbo'; there are batch, highspeed, "
    )
    assert breakeven("bill", KIMI, "--requests", "0").err == "breakeven: --requests must be above 0, got 0\n"
    assert breakeven("bill", KIMI, "--cold-share", "1.1").err == "breakeven: --cold-share must be 0..1, got 1.1\n"


def test_a_model_nobody_sells_has_no_bill() -> None:
    with shelf(book(rates=())):
        nothing = breakeven("bill", KIMI)
    assert (nothing.code, nothing.text) == (1, "Kimi K3.1 Pro: no API rate in the book")


def test_small_amounts_keep_their_digits() -> None:
    assert [usd(D(x)) for x in ("0.12", "0.048", "0.0000005", "1234.5", "0.162")] == ["$0.12", "$0.048", "$0.000001", "$1,234.50", "$0.162"]
    assert usd(None) == "?"


def test_times_are_of_the_book_not_of_the_clock(user: Path) -> None:
    with shelf(book(at=NOW)):
        assert breakeven("plan", KIMI, "--json").json["at"] == "2026-11-29T12:00:00Z"
