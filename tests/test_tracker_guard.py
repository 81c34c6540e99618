"""Changes beyond limits wait in quarantine: for a second sweep, a second source or a person; the old price stays with its own age."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from guarded import SOURCES, T0, Watched, neighbours, offer, rate
from guarded import db as db
from guarded import watched as watched
from sqlalchemy import Engine

from tracker.answers.health import source_health
from tracker.book.bookfile import Dated
from tracker.book.bookstore import export_book, import_dated
from tracker.book.exchange import exchange_of
from tracker.database.handle import reading, writing
from tracker.database.rows import to_s
from tracker.guard.context import Guard
from tracker.guard.decisions import NothingToDecide, accept, reject
from tracker.guard.settings import GuardSettings

# --- a change -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("old", "new"), [("3.60", "1.8948"), ("3.60", "6.8"), ("98.32", "55.04"), ("88.488", "48.0"), ("118", "84.8")])
def test_a_change_within_the_limit_is_listed_at_once(watched: Watched, old: str, new: str) -> None:
    """The last three are genuine: AWS p5 and Azure's MI300X and H200 nodes in 2025, at 1.79, 1.84 and 1.39 times."""
    gpus = 1 if Decimal(old) < 20 else 8
    watched.sweep(0, offer(old, gpu_count=gpus))
    watched.sweep(15, offer(new, gpu_count=gpus))
    assert watched.prices() == {"H200": f"{Decimal(new).normalize():f}"}
    assert watched.states() == []


@pytest.mark.parametrize(
    ("old", "new", "said"), [("3.60", "1.80", "2.00 times down"), ("3.60", "36", "10.00 times up"), ("3.6", "1.2", "3.00 times down")]
)
def test_a_change_beyond_the_limit_waits_and_the_old_price_keeps_its_own_age(watched: Watched, old: str, new: str, said: str) -> None:
    watched.sweep(0, offer(old))
    watched.sweep(15, offer(old))
    assert watched.sweep(30, offer(new)) == 0
    assert watched.prices() == {"H200": f"{Decimal(old).normalize():f}"}
    assert watched.seen() == 15
    (entry,) = watched.quarantine()
    assert (entry["subject"], entry["reason"]) == ("runpod H200 on demand", f"price moved {said}")
    assert (entry["sweeps"], entry["state"]) == (1, "pending")
    assert entry["old"] == f'{{"currency": "USD", "price": "{Decimal(old).normalize():f}"}}'
    assert entry["new"] == f'{{"currency": "USD", "price": "{Decimal(new).normalize():f}"}}'


def test_seen_in_two_sweeps_it_is_listed(watched: Watched) -> None:
    watched.sweep(0, offer("3.60"))
    watched.sweep(15, offer("1.20"))
    assert watched.sweep(30, offer("1.21")) == 1  # within 2 %: the same price; the newer one counts
    assert watched.prices() == {"H200": "1.21"}
    assert watched.seen() == 30
    (entry,) = watched.quarantine(every=True)
    assert (entry["state"], entry["decided_by"], entry["sweeps"]) == ("confirmed", "2 sweeps", 2)


def test_an_identical_body_is_a_second_sighting(watched: Watched) -> None:
    watched.sweep(0, offer("3.60"))
    watched.sweep(15, offer("1.20"))
    assert watched.sweep(30, status="unchanged") == 1
    assert watched.prices() == {"H200": "1.2"}


def test_more_sweeps_can_be_asked_for(db: Engine) -> None:
    strict = Watched(db, sweeps=3)
    strict.sweep(0, offer("3.60"))
    strict.sweep(15, offer("1.20"))
    strict.sweep(30, offer("1.20"))
    assert strict.prices() == {"H200": "3.6"}
    strict.sweep(45, offer("1.20"))
    assert strict.prices() == {"H200": "1.2"}


def test_yet_another_price_starts_anew(watched: Watched) -> None:
    watched.sweep(0, offer("3.60"))
    watched.sweep(15, offer("1.20"))
    watched.sweep(30, offer("1.00"))
    assert watched.prices() == {"H200": "3.6"}
    assert [state for state, _ in watched.states()] == ["withdrawn", "pending"]
    watched.sweep(45, offer("1.00"))
    assert watched.prices() == {"H200": "1"}


def test_the_listed_price_comes_back_and_nothing_waits(watched: Watched) -> None:
    watched.sweep(0, offer("3.60"))
    watched.sweep(15, offer("0.36"))
    watched.sweep(30, offer("3.60"))
    assert (watched.prices(), watched.seen()) == ({"H200": "3.6"}, 30)
    assert watched.states() == [("withdrawn", "price moved 10.00 times down")]


def test_a_price_that_flips_every_sweep_is_never_confirmed(watched: Watched) -> None:
    for minutes, price in enumerate(("3.60", "0.36", "3.60", "0.36", "3.60", "0.36")):
        watched.sweep(minutes * 15, offer(price))
        assert watched.prices() == {"H200": "3.6"}
    assert [state for state, _ in watched.states()] == ["withdrawn", "withdrawn", "pending"]


def test_back_to_the_price_before_the_last_change_waits_though_it_is_within_the_limit(watched: Watched) -> None:
    watched.sweep(0, offer("3.60"))
    watched.sweep(15, offer("2.40"))
    assert watched.prices() == {"H200": "2.4"}
    watched.sweep(30, offer("3.60"))
    assert watched.prices() == {"H200": "2.4"}
    assert watched.states() == [("pending", "back to the price before the last change")]
    watched.sweep(45, offer("3.60"))
    assert watched.prices() == {"H200": "3.6"}


def test_small_steps_that_add_up_wait(watched: Watched) -> None:
    """1.8 times down three times within an hour, after a week at 9.00: the third step is 5.8 times off the middle."""
    day = 24 * 60
    watched.sweep(-8 * day, offer("9"))
    for minutes, price in ((0, "5"), (15, "2.8")):
        watched.sweep(minutes, offer(price))
    assert watched.prices() == {"H200": "5"}
    assert watched.states() == [("pending", "price is 3.21 times off the middle of 7 days")]


@pytest.mark.parametrize("gpus", [2, 4, 8])
def test_a_spot_price_of_one_gpu_where_the_machines_is_due_waits(watched: Watched, gpus: int) -> None:
    """A spot price may move 3.9 times at once, but not by just the number of GPUs."""
    watched.sweep(0, offer(gpus * 2, tier="spot", gpu_count=gpus))
    watched.sweep(15, offer("2", tier="spot", gpu_count=gpus))
    assert watched.prices() == {"H200": str(gpus * 2)}


def test_a_spot_price_may_move_further(watched: Watched) -> None:
    """Google's a3-highgpu-8g in us-central1: 62.4 in 2024, 20.4 in 2025, 50.6 in 2026."""
    for minutes, price in ((0, "62.4"), (15, "20.4"), (30, "50.6")):
        watched.sweep(minutes, offer(price, tier="spot", gpu_count=8, provider="gcp", gpu="nvidia-h100-sxm-80"))
        assert watched.prices() == {"H200": price}


def test_the_price_of_another_currency_is_a_change(watched: Watched) -> None:
    watched.sweep(0, offer("3.60"), *(offer("5", sku=f"x{n}") for n in range(9)))
    watched.sweep(15, offer("3.60", currency="EUR"), *(offer("5", sku=f"x{n}") for n in range(9)))
    assert watched.states() == [("pending", "nvidia-h200-sxm-141 1 USD is now nvidia-h200-sxm-141 1 EUR")]
    assert [(e.value.currency, e.value.usd_per_hour) for e in watched.book().offers if e.value.sku == "H200"] == [("USD", Decimal("3.60"))]


def test_a_name_that_holds_something_else_waits(watched: Watched) -> None:
    """A node of eight counted as one GPU, at a price one GPU could have."""
    others = [offer("5", sku=f"x{n}") for n in range(9)]
    watched.sweep(0, offer("28.72", sku="node", gpu_count=8), *others)
    watched.sweep(15, offer("3.59", sku="node"), *others)
    assert watched.prices()["node"] == "28.72"
    assert watched.states() == [("pending", "nvidia-h200-sxm-141 8 USD is now nvidia-h200-sxm-141 1 USD")]


def test_stock_is_no_price(watched: Watched) -> None:
    watched.sweep(0, offer("3.60", availability=0))
    assert watched.sweep(15, offer("3.60", availability=2)) == 1
    assert [entry.value.availability for entry in watched.book().offers] == ["unavailable"]


# --- tokens ---------------------------------------------------------------------------------------------------------------


def test_one_component_that_falls_alone_waits(watched: Watched) -> None:
    """OpenRouter's Kimi K3 on 2026-10-07: input 3 -> 0.79 while the output stayed at 15."""
    watched.sweep(0, rate("3", "15", "0.3"), source="openrouter")
    watched.sweep(15, rate("0.79", "15", "0.26"), source="openrouter")
    assert watched.tokens() == ("3", "0.3", "15")
    assert watched.states() == [("pending", "input alone fell 3.80 times")]


def test_a_cut_of_all_components_is_listed_at_once(watched: Watched) -> None:
    watched.sweep(0, rate("3", "15", "0.3"), source="openrouter")
    watched.sweep(15, rate("0.95", "4", "0.16"), source="openrouter")
    assert watched.tokens() == ("0.95", "0.16", "4")


@pytest.mark.parametrize(
    ("new", "reason"), [(("0.3", "1.5"), "input moved 10.00 times down"), (("30", "150"), "input moved 10.00 times up")]
)
def test_ten_times_waits_and_is_listed_when_seen_again(watched: Watched, new: tuple[str, str], reason: str) -> None:
    watched.sweep(0, rate("3", "15"), source="openrouter")
    watched.sweep(15, rate(*new), source="openrouter")
    assert (watched.tokens(), watched.states()) == (("3", None, "15"), [("pending", reason)])
    watched.sweep(30, rate(*new), source="openrouter")
    assert watched.tokens() == (new[0], None, new[1])


def test_a_price_that_goes_to_zero_waits(watched: Watched) -> None:
    watched.sweep(0, rate("3", "15", "0.3"), source="openrouter")
    watched.sweep(15, rate("3", "15", "0"), source="openrouter")
    assert (watched.tokens(), watched.states()) == (("3", "0.3", "15"), [("pending", "cache read went to 0")])


def test_a_kind_that_is_missing_is_unknown_and_no_rejection(watched: Watched) -> None:
    watched.sweep(0, rate("3", "15", "0.3"), source="openrouter")
    watched.sweep(15, rate("3", "15"), source="openrouter")
    assert (watched.tokens(), watched.states()) == (("3", None, "15"), [])


def test_a_stated_zero_is_stored(watched: Watched) -> None:
    watched.sweep(0, rate("0", "0", sku="free"), source="openrouter")
    assert watched.tokens() == ("0", None, "0")


# --- a second source, and what others ask --------------------------------------------------------------------------------


def test_a_second_source_confirms_at_once(watched: Watched) -> None:
    watched.sweep(0, offer("3.60"))
    watched.sweep(10, offer("1.21", sku="H200 as gpuhunt calls it"), source="gpuhunt")
    watched.sweep(15, offer("1.20"))
    assert watched.prices() == {"H200": "1.2"}
    assert [(e["state"], e["decided_by"]) for e in watched.quarantine(every=True)] == [("confirmed", "source gpuhunt")]


def test_two_sources_that_wait_confirm_each_other(watched: Watched) -> None:
    watched.sweep(0, offer("3.60"))
    watched.sweep(1, offer("3.60"), source="gpuhunt")
    watched.sweep(15, offer("1.20"))
    watched.sweep(16, offer("1.20"), source="gpuhunt")
    assert (watched.prices(), watched.prices("gpuhunt")) == ({"H200": "3.6"}, {"H200": "1.2"})
    watched.sweep(20, status="unchanged")
    assert watched.prices() == {"H200": "1.2"}


def test_a_stale_source_confirms_nothing(watched: Watched) -> None:
    watched.sweep(-4 * 60, offer("1.50"), source="gpuhunt")  # its limit is three hours
    watched.sweep(0, offer("3.60"))
    watched.sweep(15, offer("1.50"))
    assert watched.prices() == {"H200": "3.6"}


def test_a_new_price_far_below_what_everybody_asks_waits_for_a_second_source(watched: Watched) -> None:
    neighbours(watched, ("3.59", "3.90", "4.20"))
    watched.sweep(0, offer("0.70"))
    watched.sweep(15, offer("0.70"))
    watched.sweep(30, offer("0.70"))
    assert watched.prices() == {}
    assert watched.states() == [("pending", "price is 5.6 times below the middle of 3 other providers")]
    watched.sweep(40, offer("0.70"), source="gpuhunt")
    watched.sweep(45, offer("0.70"))
    assert (watched.prices(), watched.prices("gpuhunt")) == ({"H200": "0.7"}, {"H200": "0.7"})


def test_two_other_providers_are_no_measure_of_a_rent(watched: Watched) -> None:
    neighbours(watched, ("3.59", "3.90"))
    watched.sweep(0, offer("0.70"))
    assert watched.prices() == {"H200": "0.7"}


def test_somebody_else_asks_little_too(watched: Watched) -> None:
    """The middle of 3 others is 4.00; at 1.20 another asks less than twice 0.70."""
    neighbours(watched, ("1.20", "4.00", "4.20"))
    watched.sweep(0, offer("0.70"))
    assert watched.prices() == {"H200": "0.7"}


def test_a_change_that_everybody_contradicts_is_not_confirmed_by_repetition(watched: Watched) -> None:
    """Bedrock's Kimi K2.5 in Portkey's list: 0.60/3 became 6/30 for days, four times over."""
    at_bedrock = dict(provider="aws", source_model="moonshotai.kimi-k2.5", model="kimi-k2.5")
    for source, provider in (("moonshot", "moonshot"), ("together", "together")):
        watched.sweep(0, rate("0.6", "3", provider=provider, model="kimi-k2.5"), source=source)
    watched.sweep(0, rate("0.6", "3", **at_bedrock), source="litellm")
    for minutes in (15, 30, 45, 60):
        watched.sweep(minutes, rate("6", "30", **at_bedrock), source="litellm")
        assert watched.tokens("litellm") == ("0.6", None, "3")
    assert watched.states() == [("pending", "input moved 10.00 times up; input is 10.0 times above the middle of 2 other providers")]
    watched.sweep(75, rate("0.6", "3", **at_bedrock), source="litellm")
    assert [state for state, _ in watched.states()] == ["withdrawn"]


def test_a_dip_of_one_component_waits_for_a_person(watched: Watched) -> None:
    """genai-prices listed OpenRouter's Kimi K3 at 0.239 / 11.936 in October 2026, everybody else at 3 / 15; OpenRouter did too."""
    for source, provider in (("moonshot", "moonshot"), ("together", "together"), ("litellm", "fireworks")):
        watched.sweep(0, rate("3", "15", provider=provider), source=source)
    for minutes in (0, 15, 30):
        watched.sweep(minutes, rate("0.239", "11.936"), source="openrouter")
        watched.sweep(minutes + 1, rate("0.239", "11.936"), source="genai_prices")
    assert {e.value.provider for e in watched.book().rates} == {"moonshot", "together", "fireworks"}
    assert {entry["release"] for entry in watched.quarantine()} == {"hand"}


def test_what_the_starter_book_knows_is_a_price_before(watched: Watched, db: Engine) -> None:
    """A node that was 98.32 in the imported book and is 12.29 in the first live sweep: the price of one GPU for eight."""
    node = dict(provider="azure", gpu_count=8, region="eastus", gpu="nvidia-h100-sxm-80", sku="ND96isr")
    seen = to_s(T0 - timedelta(days=30))
    import_dated(db, [Dated(offer("98.32", **node), "azure-list", seen, seen, None)], T0)
    watched.sweep(0, offer("12.29", **node), source="azure")
    assert [(e.value.source, e.value.usd_per_hour) for e in watched.book().offers] == [("book:azure-list", Decimal("98.32"))]
    assert watched.states() == [("pending", "price moved 8.00 times down")]


# --- a person ---------------------------------------------------------------------------------------------------------------


def test_an_accepted_price_is_listed_at_once_with_its_own_last_sighting(watched: Watched, db: Engine) -> None:
    watched.sweep(0, offer("3.60"))
    watched.sweep(15, offer("1.20"))
    watched.at = T0 + timedelta(minutes=20)
    with writing(db) as connection:
        accept(connection, watched.quarantine()[0]["id"], "ada", watched.at)
    assert (watched.prices(), watched.seen()) == ({"H200": "1.2"}, 15)
    watched.sweep(30, status="unchanged")
    assert (watched.prices(), watched.seen()) == ({"H200": "1.2"}, 30)
    watched.sweep(45, offer("1.20"))
    assert (watched.prices(), watched.seen()) == ({"H200": "1.2"}, 45)
    (entry,) = watched.quarantine(every=True)
    assert (entry["state"], entry["decided_by"], entry["decided_at"]) == ("accepted", "ada", T0 + timedelta(minutes=20))


def test_an_accepted_new_price_is_listed(watched: Watched, db: Engine) -> None:
    neighbours(watched, ("3.59", "3.90", "4.20"))
    watched.sweep(0, offer("0.70"))
    with writing(db) as connection:
        accept(connection, watched.quarantine()[0]["id"], "ada", T0 + timedelta(minutes=5))
    watched.sweep(15, offer("0.70"))
    assert watched.prices() == {"H200": "0.7"}
    assert watched.quarantine() == []


def test_a_rejected_price_stays_out_however_often_it_is_printed(watched: Watched, db: Engine) -> None:
    watched.sweep(0, offer("3.60"))
    watched.sweep(15, offer("1.20"))
    with writing(db) as connection:
        reject(connection, watched.quarantine()[0]["id"], "ada", T0 + timedelta(minutes=20))
    for minutes in (30, 45, 60):
        watched.sweep(minutes, offer("1.20"))
    assert (watched.prices(), watched.seen()) == ({"H200": "3.6"}, 0)
    assert [(e["state"], e["sweeps"]) for e in watched.quarantine(every=True)] == [("rejected", 4)]
    watched.sweep(75, offer("3.10"))
    assert watched.prices() == {"H200": "3.1"}


def test_what_was_decided_or_never_was_cannot_be_decided(watched: Watched, db: Engine) -> None:
    watched.sweep(0, offer("3.60"))
    watched.sweep(15, offer("1.20"))
    id_ = watched.quarantine()[0]["id"]
    with writing(db) as connection:
        reject(connection, id_, "ada", T0)
    with writing(db) as connection, pytest.raises(NothingToDecide, match=rf"entry {id_} \(runpod H200 on demand\) is rejected .* by ada"):
        accept(connection, id_, "ada", T0)
    with writing(db) as connection, pytest.raises(NothingToDecide, match="no quarantine entry 999"):
        accept(connection, 999, "ada", T0)


def test_of_an_offer_at_two_prices_neither_can_be_accepted(watched: Watched, db: Engine) -> None:
    watched.sweep(0, offer("3.60"))
    watched.sweep(15, conflicts={"k": [offer("3.60"), offer("36")]})
    with writing(db) as connection, pytest.raises(NothingToDecide, match="is printed at two prices"):
        accept(connection, watched.quarantine()[0]["id"], "ada", T0)


# --- nothing that waits gets out ---------------------------------------------------------------------------------------------


def test_what_waits_is_not_exported_and_what_stays_is_exported_as_it_was_seen(watched: Watched, db: Engine, tmp_path: Path) -> None:
    watched.sweep(0, offer("3.60"))
    watched.sweep(15, offer("3.60"))
    watched.sweep(30, offer("0.36"), offer("5", sku="B"))
    export_book(db, tmp_path)
    lines = (tmp_path / "offers.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 3
    (line,) = [line for line in lines if ",H200," in line]
    assert ",3.6," in line
    assert ",2026-11-02T12:00:00Z,2026-11-02T12:15:00Z,," in line  # from noon, last seen a quarter past, not gone
    assert "0.36" not in "".join(lines)


def test_the_past_shows_what_was_known_then(watched: Watched, db: Engine) -> None:
    watched.sweep(0, offer("3.60"))
    watched.sweep(15, offer("1.20"))
    watched.sweep(30, offer("3.60"))
    watched.at = T0 + timedelta(minutes=20)
    assert (watched.prices(), watched.seen()) == ({"H200": "3.6"}, 0)
    watched.at = T0 + timedelta(minutes=31)
    assert (watched.prices(), watched.seen()) == ({"H200": "3.6"}, 30)


def test_a_held_price_goes_stale_by_its_own_age(watched: Watched) -> None:
    watched.sweep(0, offer("3.60"))
    for hours in (1, 2, 3, 4):
        watched.sweep(hours * 60, offer("0.36" if hours % 2 else "9.99"))
    assert [(e.value.usd_per_hour, e.fresh) for e in watched.book().offers] == [(Decimal("3.60"), False)]


def test_the_age_limit_is_that_of_the_book() -> None:
    """1.13 hours are 4,068 seconds, and 4,067.999... as a product of floats."""
    source = replace(SOURCES["runpod"], settings=SOURCES["runpod"].settings.model_copy(update={"max_age_hours": 1.13}))
    guard = Guard(settings=GuardSettings(), sources={"runpod": source}, exchange=exchange_of(()))
    assert [guard.is_fresh("runpod", 0, at) for at in (4068, 4069)] == [True, False]


def test_counts_for_metrics(watched: Watched, db: Engine) -> None:
    watched.sweep(0, offer("3.60"), offer("5", sku="B"), offer("7", sku="C"))
    watched.sweep(15, offer("0.36"), offer("5", sku="B"), conflicts={"k": [offer("7", sku="C"), offer("8", sku="C")]})
    watched.sweep(15, status="failed", source="nebius", error="no answer")
    with reading(db) as connection:
        found = {one.id: one for one in source_health(connection, SOURCES, T0 + timedelta(hours=1))}
    assert (found["runpod"].quarantined, found["runpod"].conflicts) == (2, 1)
    assert (found["nebius"].quarantined, found["nebius"].conflicts) == (0, 0)
