"""The seeds' numbers about money, one row a number: computed by the functions the commands use, from the facts in config.

Each row: id of facts/seed_numbers.json, the number as the seed prints it, its decimals there, and how it is computed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path

import pytest

from engine.bills import monthly_bill, request_cost
from engine.breakeven import break_even
from engine.offers import GpuOffer
from engine.policies import STUDIOTV
from engine.rate_choice import RateChoice, cheapest_rate
from engine.rates import TokenKind, TokenPrices, TokenRate
from engine.setups import Setup, rank_setups
from engine.sizing import Need, feasible_fits
from engine.units import usd_per_month
from engine.workloads import Workload
from tracker.book.book import Book, Listed
from tracker.book.entry_values import NO_OFFERS, rates_of
from tracker.book.exchange import exchange_of
from tracker.book.overrides import load_overrides
from tracker.book.stated import with_overrides
from tracker.facts.catalogue import Catalogue, load_catalogue
from tracker.facts.workloads import load_providers, load_workloads, rate_policy

D = Decimal
CONFIG = Path(__file__).resolve().parents[1] / "config"
DAY = datetime(2026, 11, 7, tzinfo=UTC)
KIMI = TokenPrices(input=D("2.00"), cache_read=D("0.20"), cache_write_5m=D("2.00"), cache_write_1h=D("4.00"), output=D("10.00"))  # seed 002

# Unit prices are inputs of seed 003 (gpu-markets.md 5): USD per GPU-hour of 2026-10-16.
UNITS = {
    "RTXPRO6000": ("nvidia-rtx-pro-6000-ws", "1.334"),
    "A100-80": ("nvidia-a100-sxm-80", "1.001"),
    "MI300X": ("amd-mi300x", "2.390"),
    "MI355X": ("amd-mi355x", "5.490"),
    "H200": ("nvidia-h200-sxm-141", "3.948"),
    "H100NVL": ("nvidia-h100-nvl-94", "2.668"),
    "H100": ("nvidia-h100-sxm-80", "2.400"),
    "B300": ("nvidia-b300-sxm-288", "8.406"),
}


class Facts:
    """Everything the rows read, from one configuration folder."""

    def __init__(self, config: Path) -> None:
        self.catalogue: Catalogue = load_catalogue(config)
        self.workload: Workload = load_workloads(config)["agent-turns"]
        self.kimi = self.catalogue.models["kimi-k3.1-pro"]
        self.overrides = load_overrides(config)
        self.policy = rate_policy(self.kimi, load_providers(config), ("standard",), ())

    def choice(self, workload: Workload) -> RateChoice:
        rate = TokenRate(
            provider="moonshot",
            source="seed",
            model=self.kimi.id,
            source_model=self.kimi.id,
            currency="USD",
            native=KIMI,
            usd=KIMI,
            seen_at=DAY,
        )
        lists = rates_of([Listed(rate, "", True, False)])
        listed = Book(at=DAY, known=DAY, offers=NO_OFFERS, price_lists=lists, exchange=exchange_of([]), unpriced={})
        rates = [entry.value for entry in with_overrides(listed, self.overrides, ()).rates]
        cheapest = cheapest_rate(rates, self.kimi.id, DAY, workload, self.policy).cheapest
        assert cheapest is not None
        return cheapest

    def setup(self, model: str, gpu: str, usd_per_gpu_hour: str, *, one_by_one: bool = True) -> Setup:
        spec, known = self.catalogue.models[model], self.catalogue
        fits = feasible_fits(spec, [known.gpus[gpu]], tuple(known.formats.values()), Need(), STUDIOTV)
        count = 1 if one_by_one else 8
        usd = D(usd_per_gpu_hour) * count
        offer = GpuOffer(
            provider="seed",
            source="seed",
            sku=gpu,
            region="",
            gpu=gpu,
            gpu_count=count,
            tier="on_demand",
            currency="USD",
            native_per_hour=usd,
            usd_per_hour=usd,
            valid_from=DAY,
            seen_at=DAY,
        )
        ranking = rank_setups(spec, fits, [offer], known.formats)
        best = ranking.best_indicative if one_by_one else ranking.best
        assert best is not None
        return best


def node(gpus: int, usd_per_gpu_hour: str) -> Decimal:
    """Rent of a month in USD, as an assumption of seed 000 gives it."""
    return usd_per_month(gpus * D(usd_per_gpu_hour))


def billions_at(rent: Decimal, usd_per_mtok: str) -> Decimal:
    tokens = break_even(replica_usd_per_month=rent, api_usd_per_mtok=D(usd_per_mtok)).tokens
    assert tokens is not None
    return tokens / 10**9


def turn_line(facts: Facts, kind: TokenKind) -> Decimal:
    amounts = {line.kind: line.amount for line in request_cost(facts.workload.mix, facts.choice(facts.workload).prices).lines}
    found = amounts[kind]
    assert found is not None
    return found


def batch_share_of_standard(facts: Facts) -> Decimal:

    batch = facts.choice(replace(facts.workload, batch_share=D(1)))
    return batch.usd_per_month / facts.choice(facts.workload).usd_per_month


def per_turn(facts: Facts) -> Decimal:
    found = facts.choice(facts.workload).bill.per_request
    assert found is not None
    return found


def bill(facts: Facts) -> Decimal:
    found = monthly_bill(facts.workload, facts.choice(facts.workload).prices).cost.amount
    assert found is not None
    return found


Row = tuple[str, str, Callable[[Facts], Decimal]]


def _hour(key: str) -> Callable[[Facts], Decimal]:
    return lambda facts: facts.setup("muse-spark-open", *UNITS[key]).usd_per_hour


def _month(key: str) -> Callable[[Facts], Decimal]:
    return lambda facts: facts.setup("muse-spark-open", *UNITS[key]).usd_per_month


ROWS: tuple[Row, ...] = (
    # seed 000: assumptions for illustration, no facts of ours
    ("swfte.rental.1node", "17520", lambda facts: node(8, "3")),
    ("swfte.breakeven.1node", "8.76", lambda facts: billions_at(node(8, "3"), "2")),
    ("swfte.breakeven.2node", "17.52", lambda facts: billions_at(2 * node(8, "3"), "2")),
    # seed 001: Kimi K3.1 Pro on eight B300 of RunPod's community cloud, 6.94 a GPU
    (
        "canitrun.price.8xb300",
        "55.52",
        lambda facts: facts.setup("kimi-k3.1-pro", "nvidia-b300-sxm-288", "6.94", one_by_one=False).usd_per_hour,
    ),
    # seed 002: an agent turn, the team's month
    ("dtl.turn.cached", "0.048", lambda facts: turn_line(facts, "cache_read")),
    ("dtl.turn.input", "0.032", lambda facts: turn_line(facts, "input")),
    ("dtl.turn.output", "0.040", lambda facts: turn_line(facts, "output")),
    ("dtl.turn.total", "0.12", per_turn),
    ("dtl.turns", "63000", lambda facts: facts.workload.requests_per_month),
    ("dtl.bill", "7560", bill),
    ("dtl.batch", "0.6", batch_share_of_standard),
    # seed 003: the cheapest table
    ("stv.hour.RTXPRO6000", "6.67", _hour("RTXPRO6000")),
    ("stv.hour.A100-80", "7.01", _hour("A100-80")),
    ("stv.hour.MI300X", "7.17", _hour("MI300X")),
    ("stv.hour.MI355X", "10.98", _hour("MI355X")),
    ("stv.month.MI355X", "8015.40", _month("MI355X")),
    ("stv.hour.H200", "15.79", _hour("H200")),
    ("stv.month.H200", "11528.16", _month("H200")),
    ("stv.hour.H100NVL", "16.01", _hour("H100NVL")),
    ("stv.month.H100NVL", "11685.84", _month("H100NVL")),
    ("stv.month.H100", "12264.00", _month("H100")),
    ("stv.hour.B300", "16.81", _hour("B300")),
    ("stv.month.B300", "12272.76", _month("B300")),
)

# Printed in the seeds as well, though not among the handed rows.
MORE: tuple[Row, ...] = (
    ("seed 000: two nodes", "35040", lambda facts: 2 * node(8, "3")),
    ("seed 000: a fifth of the use costs five times as much", "5", lambda facts: _cost_at(D("0.2")) / _cost_at(D(1))),
    ("seed 003: 5 x RTX PRO 6000 a month", "4869.10", _month("RTXPRO6000")),
    ("seed 003: 7 x A100 a month", "5115.11", _month("A100-80")),
    ("seed 003: 3 x MI300X a month", "5234.10", _month("MI300X")),
    ("seed 003: 7 x H100 an hour", "16.80", _hour("H100")),
)


def _cost_at(utilization: Decimal) -> Decimal:
    point = break_even(replica_usd_per_month=node(8, "3"), api_usd_per_mtok=D(2), capacity_tokens_per_month=10**10, utilization=utilization)
    assert point.usd_per_mtok_at_utilization is not None
    return point.usd_per_mtok_at_utilization


@cache
def shipped() -> Facts:
    return Facts(CONFIG)


@pytest.mark.parametrize(("name", "printed", "compute"), [*ROWS, *MORE], ids=[row[0] for row in (*ROWS, *MORE)])
def test_the_number_is_as_printed(name: str, printed: str, compute: Callable[[Facts], Decimal]) -> None:
    decimals = len(printed.partition(".")[2])
    assert round(compute(shipped()), decimals) == D(printed)


@pytest.mark.shared
def test_the_printed_numbers_are_the_handed_ones(shared: Path) -> None:
    handed = {row["id"]: row for row in json.loads((shared / "facts" / "seed_numbers.json").read_text(), parse_float=Decimal)}
    for name, printed, _ in ROWS:
        assert handed[name]["reproduced"] == "yes" and D(handed[name]["expected"]) == D(printed), name


# Editing the fact breaks the row: each edit of a shipped file changes the number it stands behind.
EDITS = [
    ("workloads.toml", "users = 20", "users = 21", "dtl.turns"),
    ("workloads.toml", "workdays_per_month = 21", "workdays_per_month = 22", "dtl.bill"),
    ("workloads.toml", "cache_read = 240_000", "cache_read = 230_000", "dtl.turn.cached"),
    ("workloads.toml", "input = 16_000", "input = 15_000", "dtl.turn.input"),
    ("workloads.toml", "output = 4_000", "output = 3_000", "dtl.turn.output"),
    ("workloads.toml", "output = 4_000", "output = 3_000", "dtl.turn.total"),
    ("overrides.toml", "factor = 0.6", "factor = 0.5", "dtl.batch"),
    ("models/muse-spark-open.toml", "822_030_000_000", "999_030_000_000", "stv.hour.H200"),
    ("gpus.toml", "value = 95_830", "value = 80_830", "stv.month.H100NVL"),
]


@pytest.mark.parametrize(("file", "fact", "edited", "name"), EDITS, ids=[f"{e[3]} {e[2]}" for e in EDITS])
def test_editing_the_fact_breaks_the_row(tmp_path: Path, file: str, fact: str, edited: str, name: str) -> None:
    folder = tmp_path / "edited"
    shutil.copytree(CONFIG, folder)
    text = (folder / file).read_text()
    assert fact in text
    (folder / file).write_text(text.replace(fact, edited))
    printed, compute = next((row[1], row[2]) for row in ROWS if row[0] == name)
    assert round(compute(Facts(folder)), len(printed.partition(".")[2])) != D(printed)
