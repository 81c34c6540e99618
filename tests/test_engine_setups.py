"""The cheapest setup: the table of seed 003, sellable counts, whole nodes, several machines, ties, and why the others lost."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from engine.candidates import fidelities
from engine.fits import Fit
from engine.models import Licence, ModelSpec
from engine.offers import GpuOffer, OfferPolicy
from engine.policies import STUDIOTV
from engine.setups import Ranking, SetupPolicy, market, rank_setups
from engine.sizing import Need, feasible_fits
from tracker.facts.catalogue import Catalogue, load_catalogue

D = Decimal
DAY = datetime(2026, 10, 16, tzinfo=UTC)
ROOT = Path(__file__).resolve().parents[1]
NEED = Need(context=8_192, sessions=1)


@cache
def catalogue() -> Catalogue:
    return load_catalogue(ROOT / "config")


def offer(gpu: str, usd: str, count: int = 1, **changes: Any) -> GpuOffer:
    base: dict[str, Any] = {
        "provider": "runpod",
        "source": "runpod",
        "sku": f"{gpu}-x{count}",
        "region": "",
        "tier": "on_demand",
        "currency": "USD",
        "valid_from": DAY,
        "seen_at": DAY,
    }
    return GpuOffer(gpu=gpu, gpu_count=count, native_per_hour=D(usd), usd_per_hour=D(usd), **{**base, **changes})


def fit(gpu: str = "g", form: str = "fp8", count: int = 4, nodes: int = 1, reason: str = "", engine: str = "vllm") -> Fit:
    return Fit(
        model="m",
        gpu=gpu,
        weight_format=form,
        gpu_count=count,
        nodes=nodes,
        engine=engine,
        fits=not reason,
        reason=reason,
        need=NEED,
        policy=STUDIOTV,
    )


def model(native: str = "bf16", licence: Licence | None = None) -> ModelSpec:
    return ModelSpec(id="m", name="M", organisation="O", params=1, params_active=1, layers=1, native_format=native, licence=licence)


def ranked(fits: Sequence[Fit], offers: Sequence[GpuOffer], policy: SetupPolicy | None = None, native: str = "bf16") -> Ranking:
    return rank_setups(model(native), fits, offers, catalogue().formats, policy or SetupPolicy())


# --- the table of seed 003 ---------------------------------------------------------------------------------------------

# GPU, count, USD per GPU-hour (recovered, gpu-markets.md 5), provider, weights, USD/h as printed, USD/month as printed
SEED_003 = [
    ("nvidia-rtx-pro-6000-ws", 5, "1.334", "vast", "q4_k_m", "6.67", "4869.10"),
    ("nvidia-a100-sxm-80", 7, "1.001", "vast", "4-bit", "7.01", "5115.11"),
    ("amd-mi300x", 3, "2.390", "runpod", "4-bit", "7.17", "5234.10"),
    ("amd-mi355x", 2, "5.490", "runpod", "nvfp4", "10.98", "8015.40"),
    ("nvidia-h200-sxm-141", 4, "3.948", "vast", "4-bit", "15.79", "11528.16"),
    ("nvidia-h100-nvl-94", 6, "2.668", "vast", "4-bit", "16.01", "11685.84"),
    ("nvidia-h100-sxm-80", 7, "2.400", "vast", "4-bit", "16.80", "12264.00"),
    ("nvidia-b300-sxm-288", 2, "8.406", "scaleway", "4-bit", "16.81", "12272.76"),
]
FOUR_BIT = {"awq", "gptq", "int4", "mxfp4"}


def test_the_cheapest_table_of_seed_003() -> None:
    muse = catalogue().models["muse-spark-open"]
    fits = feasible_fits(muse, catalogue().gpus.values(), tuple(catalogue().formats.values()), NEED, STUDIOTV)
    offers = [offer(gpu, unit, provider=provider) for gpu, _, unit, provider, *_ in SEED_003]
    table = rank_setups(muse, fits, offers, catalogue().formats).per_gpu("indicative")
    assert len(table) == len(SEED_003)
    for setup, (gpu, count, _, provider, weights, per_hour, per_month) in zip(table, SEED_003, strict=True):
        assert (setup.gpu, setup.gpu_count_needed, setup.offer.provider) == (gpu, count, provider)
        assert setup.weight_format in (FOUR_BIT if weights == "4-bit" else {weights})
        assert round(setup.usd_per_hour, 2) == D(per_hour)
        assert setup.usd_per_month == D(per_month)  # from the unrounded hour: 7.007 * 730 = 5,115.11
        assert not setup.buyable


def test_the_same_unit_prices_sold_singly_buy_nothing() -> None:
    muse = catalogue().models["muse-spark-open"]
    fits = feasible_fits(muse, catalogue().gpus.values(), tuple(catalogue().formats.values()), NEED, STUDIOTV)
    found = rank_setups(muse, fits, [offer(gpu, unit, provider=provider) for gpu, _, unit, provider, *_ in SEED_003], catalogue().formats)
    assert found.best is None and found.best_indicative is not None
    reasons = {r.reason for r in found.rejected if r.gpu == "nvidia-a100-sxm-80" and r.weight_format == "awq" and r.gpu_count == 7}
    assert reasons == {"nobody sells 7 together: the largest machine on offer has 1"}


# --- what one can buy --------------------------------------------------------------------------------------------------


def test_five_gpus_may_mean_renting_eight() -> None:
    best = ranked([fit(count=5)], [offer("g", "16", 8)]).best
    assert best is not None
    assert (best.gpu_count_needed, best.gpu_count_rented, best.machines, best.usd_per_hour) == (5, 8, 1, D(16))
    assert best.usd_per_month == D(11_680)


def test_a_provider_of_any_count_sells_five() -> None:
    best = ranked([fit(count=5)], [offer("g", "16", 8), offer("g", "3", 1, max_gpu_count=8, sku="any")]).best
    assert best is not None and (best.offer.sku, best.gpu_count_rented, best.usd_per_hour) == ("any", 5, D(15))


def test_cheapest_is_not_fewest() -> None:
    # 3 cards of a dear type lose to 5 of a cheap one
    best = ranked([fit("dear", count=3), fit("cheap", count=5)], [offer("dear", "30", 3), offer("cheap", "20", 5)]).best
    assert best is not None and (best.gpu, best.gpu_count_needed) == ("cheap", 5)


def test_no_adding_up_of_smaller_machines() -> None:
    # The recorded marketplace has H200 machines of 1 and 2: four single ones are no machine of four.
    found = ranked([fit(count=4)], [offer("g", "3", 1), offer("g", "6", 2)])
    assert found.best is None
    assert [s.usd_per_hour for s in found.indicative] == [D(12)]


def test_indicative_takes_the_lowest_price_per_gpu_anywhere() -> None:
    found = ranked([fit(count=5)], [offer("g", "16", 8), offer("g", "1.5", 1, sku="single"), offer("g", "9", 4, sku="four")])
    assert found.best_indicative is not None and found.best_indicative.usd_per_hour == D("7.5")
    assert found.best is not None and found.best.usd_per_hour == D(16)


def test_prices_that_buy_nothing_are_indicative_at_most() -> None:
    policy = SetupPolicy(offers=OfferPolicy(price_kinds=("list", "ask", "starting_at", "indicative")))
    offers = [offer("g", "1", 1, price_kind="indicative"), offer("g", "8", 4, price_kind="starting_at"), offer("g", "20", 4)]
    found = ranked([fit(count=4)], offers, policy)
    assert found.best is not None and found.best.usd_per_hour == D(20)
    assert found.best_indicative is not None and found.best_indicative.usd_per_hour == D(4)
    strict = ranked([fit(count=4)], offers)
    assert strict.best_indicative is not None and strict.best_indicative.usd_per_hour == D(20)


# --- several machines --------------------------------------------------------------------------------------------------


def test_whole_nodes_are_rented_for_a_fit_of_several() -> None:
    best = ranked([fit(count=16, nodes=2)], [offer("g", "16", 8)]).best
    assert best is not None
    assert (best.machines, best.gpu_count_rented, best.usd_per_hour) == (2, 16, D(32))


def test_one_machine_is_preferred_to_several_cheaper_ones() -> None:
    fits = [fit("few", count=8), fit("many", count=24, nodes=3)]
    offers = [offer("few", "60", 8), offer("many", "8", 8)]
    found = ranked(fits, offers)
    assert [(s.gpu, s.usd_per_hour) for s in found.buyable] == [("few", D(60)), ("many", D(24))]
    assert ("many", "takes 3 machines, one is preferred") in {(r.gpu, r.reason) for r in found.rejected}
    equal = ranked(fits, offers, SetupPolicy(several_machines="equal"))
    assert equal.best is not None and equal.best.gpu == "many"
    never = ranked(fits, offers, SetupPolicy(several_machines="never"))
    assert [s.gpu for s in never.buyable] == ["few"]
    assert ("many", "3 machines are not asked for") in {(r.gpu, r.reason) for r in never.rejected}


def test_several_machines_win_where_no_single_one_holds_the_model() -> None:
    best = ranked([fit(count=24, nodes=3)], [offer("g", "8", 8)]).best
    assert best is not None and best.machines == 3 and best.behind


def test_two_trays_of_four_are_one_group_of_eight() -> None:
    # GB300: the recipe runs on two 4-GPU trays; a single machine of eight is no more than that
    fits = [fit("gb300", count=8, nodes=2), fit("b300", count=8)]
    found = ranked(fits, [offer("gb300", "20", 4), offer("b300", "41", 8)])
    assert [(s.gpu, s.machines, s.usd_per_hour) for s in found.buyable] == [("gb300", 2, D(40)), ("b300", 1, D(41))]


def test_an_ask_is_one_machine() -> None:
    offers = [offer("g", "10", 8, price_kind="ask", provider="vast"), offer("g", "16", 8)]
    best = ranked([fit(count=16, nodes=2)], offers).best
    assert best is not None and (best.offer.provider, best.usd_per_hour) == ("runpod", D(32))
    assert ranked([fit(count=16, nodes=2)], offers[:1]).best is None


def test_llama_cpp_does_not_span_machines_unless_asked() -> None:
    fits = [fit(form="q4_k_m", count=24, nodes=3, engine="llama.cpp")]
    offers = [offer("g", "8", 8)]
    found = ranked(fits, offers)
    assert found.best is None and found.best_indicative is None
    assert [(r.reason, r.usd_per_hour) for r in found.rejected] == [("llama.cpp over 3 machines is not asked for", D(24))]
    asked = ranked(fits, offers, SetupPolicy(llama_cpp_over_network=True)).best
    assert asked is not None and asked.usd_per_hour == D(24)


def test_single_gpu_nodes_are_rented_as_machines_of_eight() -> None:
    # A consumer GPU counts one GPU a node; marketplaces sell machines of eight of them.
    fits = [fit(form="q4_k_m", count=16, nodes=16, engine="llama.cpp")]
    best = ranked(fits, [offer("g", "3", 8)], SetupPolicy(llama_cpp_over_network=True)).best
    assert best is not None and (best.machines, best.gpu_count_rented, best.usd_per_hour) == (2, 16, D(6))


# --- what is eligible --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"trust": "community"}, "trust community is not asked for"),
        ({"tier": "spot"}, "tier spot is not asked for"),
        ({"availability": "unavailable"}, "availability is unavailable"),
    ],
)
def test_a_cheaper_offer_that_was_refused_is_shown_with_its_reason(change: dict[str, str], reason: str) -> None:
    found = ranked([fit(count=4)], [offer("g", "20", 4), offer("g", "5", 4, sku="refused", **change)])
    assert found.best is not None and found.best.usd_per_hour == D(20)
    assert [(r.reason, r.usd_per_hour, r.offer.sku if r.offer else "") for r in found.rejected] == [(reason, D(5), "refused")]


def test_a_dearer_offer_that_was_refused_is_nothing_to_mention() -> None:
    assert ranked([fit(count=4)], [offer("g", "5", 4), offer("g", "20", 4, tier="spot")]).rejected == ()


def test_formats_coarser_than_four_bit_are_ranked_only_when_asked() -> None:
    fits, offers = [fit(form="q2_k", count=2), fit(form="awq", count=4)], [offer("g", "5", 2), offer("g", "10", 4)]
    found = ranked(fits, offers)
    assert found.best is not None and found.best.weight_format == "awq"
    assert found.rejected[0].reason == "q2_k is coarser than asked for"
    asked = ranked(fits, offers, SetupPolicy(min_fidelity=20)).best
    assert asked is not None and asked.weight_format == "q2_k"


def test_a_refused_licence_leaves_nothing() -> None:
    spec = model(licence=Licence(name="Non-commercial"))
    policy = SetupPolicy(refused_licences=frozenset({"Non-commercial"}))
    found = rank_setups(spec, [fit()], [offer("g", "5", 4)], catalogue().formats, policy)
    assert found.best is None and [r.reason for r in found.rejected] == ["licence Non-commercial is refused"]
    assert rank_setups(spec, [fit()], [offer("g", "5", 4)], catalogue().formats).best is not None


# --- ties and reasons --------------------------------------------------------------------------------------------------


def test_ties_go_by_fidelity_then_fewer_gpus_then_names() -> None:
    fits = [fit("a", "awq", 4), fit("a", "fp8", 4), fit("b", "fp8", 2)]
    offers = [offer("a", "10", 4, provider="p"), offer("b", "10", 2, provider="q")]
    for some_fits, some_offers in ((fits, offers), (fits[::-1], offers[::-1])):
        order = [(s.gpu, s.weight_format) for s in ranked(some_fits, some_offers).buyable]
        assert order == [("b", "fp8"), ("a", "fp8"), ("a", "awq")]


def test_the_format_a_model_ships_in_is_as_faithful_as_sixteen_bit() -> None:
    faith = fidelities(model(native="mxfp4"), catalogue().formats)
    assert faith["mxfp4"] == faith["bf16"] == 100 and faith["nvfp4"] == 40
    fits, offers = [fit(form="fp8", count=4), fit(form="mxfp4", count=4)], [offer("g", "10", 4)]
    best = ranked(fits, offers, native="mxfp4").best
    assert best is not None and best.weight_format == "mxfp4"


def test_every_loser_says_why() -> None:
    fits = [
        fit("win", count=4),
        fit("dear", count=4),
        fit("tie", count=8),
        fit("unsold", count=8),
        fit("nobody", count=8),
        fit("small", count=8, reason="121 GB short of weights"),
    ]
    offers = [
        offer("win", "10", 4),
        offer("dear", "12.50", 4),
        offer("tie", "10", 8),
        offer("unsold", "1", 4),
        offer("small", "1", 8),
    ]
    found = ranked(fits, offers)
    assert {(r.gpu, r.reason) for r in found.rejected} == {
        ("tie", "as cheap; the tie goes by fidelity, fewer GPUs, then names"),
        ("dear", "$2.50 an hour more than the cheapest"),
        ("unsold", "nobody sells 8 together: the largest machine on offer has 4"),
        ("nobody", "no eligible offer of this GPU"),
        ("small", "121 GB short of weights"),
    }


def test_a_market_can_be_built_once_for_many_models() -> None:
    offers = [offer("g", "10", 4), offer("g", "5", 4, tier="spot")]
    split = market(offers, OfferPolicy())
    assert rank_setups(model(), [fit()], split, catalogue().formats) == ranked([fit()], offers)


def test_the_receipt_names_the_offer_and_the_formula() -> None:
    best = ranked([fit(count=16, nodes=2)], [offer("g", "16", 8, source_url="https://example.test/p")]).best
    assert best is not None
    assert [(line.name, line.value, line.formula) for line in best.receipt[1:]] == [
        ("GPUs needed", 16, ""),
        ("machines", 2, ""),
        ("GPUs rented", 16, ""),
        ("price", D(32), "machines * price of a machine"),
        ("price", D(23_360), "USD/hour * 730"),
    ]
    assert best.receipt[0].source == "https://example.test/p, seen 2026-10-16 00:00 UTC"
    assert best.seen_at == DAY
