"""The index of winners equals a search from scratch and the naive loop, whatever rises, falls, comes or goes."""

from __future__ import annotations

import importlib.util
import random
import sys
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_setups import naive_winner

from engine.candidates import SetupPolicy, fidelities
from engine.fits import Fit
from engine.formats import WeightFormat
from engine.ladders import market as market_of
from engine.leading import Leading
from engine.models import Licence, ModelSpec
from engine.offers import GpuOffer, OfferPolicy
from engine.policies import STUDIOTV
from engine.setups import rank_setups
from engine.sizing import Need
from engine.winners import Compiled, OfferKey, SetupIndex, compile_ways, offer_key, winners

D = Decimal
DAY = datetime(2026, 11, 25, tzinfo=UTC)
NEED = Need()
GPUS = ("g0", "g1", "g2", "g3")
FORMATS = {
    name: WeightFormat(id=name, name=name, bits_per_weight=D(bits), fidelity=rank, engines=("vllm",))
    for name, bits, rank in (("bf16", 16, 100), ("fp8", 8, 80), ("awq", 4, 40), ("gptq", 4, 40), ("q2_k", 3, 20))
}
POLICIES = [
    SetupPolicy(),
    SetupPolicy(several_machines="equal", llama_cpp_over_network=True),
    SetupPolicy(several_machines="never", min_fidelity=80),
    SetupPolicy(min_fidelity=0, offers=OfferPolicy(tiers=("on_demand", "spot"), price_kinds=("list", "ask", "starting_at"))),
]


def spec(name: str, native: str = "bf16") -> ModelSpec:
    return ModelSpec(id=name, name=name, organisation="o", params=1, params_active=1, layers=1, native_format=native)


def fit(model: str, gpu: str, form: str, count: int, node: int, fits: bool = True, engine: str = "vllm") -> Fit:
    return Fit(
        model=model,
        gpu=gpu,
        weight_format=form,
        gpu_count=count,
        nodes=-(-count // node),
        engine=engine,
        fits=fits,
        reason="" if fits else "short",
        need=NEED,
        policy=STUDIOTV,
    )


def offer(number: int, gpu: str, count: int, cents: int, **changes: object) -> GpuOffer:
    usd = D(cents) / 100
    given = {"provider": f"p{number % 3}", "sku": f"s{number}", "region": "", "tier": "on_demand", **changes}
    return GpuOffer(
        source="test", gpu=gpu, gpu_count=count, currency="USD", native_per_hour=usd, usd_per_hour=usd, valid_from=DAY, seen_at=DAY, **given
    )


fit_parts = st.tuples(
    st.sampled_from(GPUS), st.sampled_from(sorted(FORMATS)), st.sampled_from((1, 2, 3, 4, 5, 8, 16, 24)), st.sampled_from((1, 4, 8)),
    st.booleans() | st.just(True), st.sampled_from(("vllm", "vllm", "llama.cpp")),
)  # fmt: skip
offer_parts = st.tuples(
    st.sampled_from(GPUS), st.sampled_from((1, 2, 4, 8, 16)), st.integers(1, 6), st.sampled_from(("list", "list", "ask", "starting_at")),
    st.sampled_from(("on_demand", "on_demand", "spot")), st.sampled_from((None, 8)),
)  # fmt: skip


def build_offer(number: int, parts: tuple[str, int, int, str, str, int | None]) -> GpuOffer:
    gpu, count, dollars, kind, tier, most = parts
    return offer(number, gpu, count, dollars * 100, price_kind=kind, tier=tier, max_gpu_count=None if most is None else max(most, count))


def naive(model: ModelSpec, fits: list[Fit], offers: list[GpuOffer], policy: SetupPolicy) -> tuple[object, ...] | None:
    by_format = {form: [f for f in fits if f.weight_format == form] for form in FORMATS}
    found = naive_winner(by_format, fidelities(model, FORMATS), offers, policy)
    return None if found is None else found[0]


@settings(max_examples=300)
@given(
    parts=st.lists(fit_parts, max_size=12),
    market=st.lists(offer_parts, max_size=14),
    policy=st.sampled_from(POLICIES),
    native=st.sampled_from(("bf16", "awq")),
)
def test_ranking_index_and_naive_loop_agree(
    parts: list[tuple[str, str, int, int, bool, str]],
    market: list[tuple[str, int, int, str, str, int | None]],
    policy: SetupPolicy,
    native: str,
) -> None:
    model = spec("m", native)
    node_of = {gpu: node for gpu, _, _, node, _, _ in parts}  # one node size a GPU, as in the catalogue
    fits = [fit("m", gpu, form, count, node_of[gpu], fits, engine) for gpu, form, count, _, fits, engine in dict.fromkeys(parts)]
    offers = [build_offer(number, found) for number, found in enumerate(market)]
    wanted = naive(model, fits, offers, policy)
    found = winners([compile_ways(model, fits, FORMATS, policy)], offers, policy).get("m")
    whole, split = rank_setups(model, fits, offers, FORMATS, policy), market_of(offers, policy.offers)
    leading = Leading(compile_ways(model, fits, FORMATS, policy), model, lambda: fits, split, FORMATS, policy)
    assert (leading.best, leading.per_gpu(), leading.per_gpu("indicative")) == (whole.best, whole.per_gpu(), whole.per_gpu("indicative"))
    assert (leading.buyable, leading.indicative, leading.rejected) == (whole.buyable, whole.indicative, whole.rejected)
    ranked = whole.best
    assert (None if found is None else found.order) == wanted
    assert (None if ranked is None else ranked.order) == wanted


def world(models: int, seed: int) -> tuple[list[ModelSpec], list[list[Fit]], list[GpuOffer]]:
    """Models with a random smallest fit on some GPUs, and a book of offers."""
    dice = random.Random(seed)
    specs = [spec(f"m{n}") for n in range(models)]
    fits: list[list[Fit]] = []
    for model in specs:
        mine = []
        for gpu in GPUS:
            for form in FORMATS:
                if dice.random() < 0.7:
                    least = dice.choice((1, 2, 3, 5, 8, 16))
                    mine += [fit(model.id, gpu, form, count, 8) for count in (least, 2 * least) if count <= 8 or count % 8 == 0]
        fits.append(mine)
    offers = [_random_offer(dice, n) for n in range(20)]
    return specs, fits, offers


def _random_offer(dice: random.Random, number: int) -> GpuOffer:
    count = dice.choice((1, 2, 4, 8))
    most = dice.choice((None, 8))
    kind = dice.choice(("list", "ask"))
    return offer(number, dice.choice(GPUS), count, dice.randrange(100, 160) * count, price_kind=kind, max_gpu_count=most)


@pytest.mark.parametrize("seed", range(8))
def test_ten_thousand_changes_leave_the_index_equal_to_a_search_from_scratch(seed: int) -> None:
    """In eight worlds, 1,250 changes each, compared after every one."""
    specs, fits, offers = world(models=4, seed=seed)
    compiled = [compile_ways(model, mine, FORMATS) for model, mine in zip(specs, fits, strict=True)]
    index = SetupIndex(compiled, offers)
    held = {offer_key(o): o for o in offers}
    dice, before, told = random.Random(seed), index.winners(), 0
    for step in range(1_250):
        moved = _change(dice, index, held, step)
        found = index.winners()
        assert found == winners(compiled, held.values())
        assert moved == {model for model in {*before, *found} if before.get(model) != found.get(model)}
        before, told = found, told + len(moved)
    assert told > 100  # the walk did move winners


def _change(dice: random.Random, index: SetupIndex, held: dict[OfferKey, GpuOffer], step: int) -> frozenset[str]:
    """One offer rises, falls, goes or comes."""
    kind = dice.random()
    if kind < 0.08 and len(held) > 10:
        key = dice.choice(list(held))
        del held[key]
        return index.drop(key)
    if kind < 0.16:
        new = _random_offer(dice, 1_000 + step)
    else:
        old = held[dice.choice(list(held))]
        usd = (old.usd_per_hour * D(dice.choice(("0.7", "0.9", "1.1", "1.4")))).quantize(D("0.0001"))
        new = replace(old, usd_per_hour=usd, native_per_hour=usd)
    held[offer_key(new)] = new
    return index.put(new)


def test_an_offer_that_stops_being_eligible_leaves_the_index() -> None:
    compiled = [compile_ways(spec("m"), [fit("m", "g0", "fp8", 4, 8)], FORMATS)]
    cheap, dear = offer(1, "g0", 4, 500), offer(2, "g0", 4, 900)
    index = SetupIndex(compiled, [cheap, dear])
    assert index.put(replace(cheap, availability="unavailable")) == {"m"}
    winner = index.winner("m")
    assert winner is not None and winner.offer == dear
    assert index.drop(offer_key(dear)) == {"m"} and index.winner("m") is None
    assert index.drop(offer_key(dear)) == frozenset()
    assert index.put(cheap) == {"m"} and index.winner("m") is not None


def test_a_change_elsewhere_moves_nothing() -> None:
    compiled = [compile_ways(spec("m"), [fit("m", "g0", "fp8", 4, 8)], FORMATS)]
    index = SetupIndex(compiled, [offer(1, "g0", 4, 500)])
    assert index.put(offer(2, "g1", 4, 1)) == frozenset()  # another GPU
    assert index.put(offer(3, "g0", 4, 501)) == frozenset()  # dearer
    assert index.put(offer(4, "g0", 2, 1)) == frozenset()  # too small
    assert index.put(offer(5, "g0", 8, 499)) == {"m"}


def test_compiling_drops_only_what_can_never_win() -> None:
    fits = [fit("m", "g0", "fp8", 4, 8), fit("m", "g0", "fp8", 8, 8), fit("m", "g0", "awq", 4, 8), fit("m", "g0", "awq", 2, 8)]
    compiled: Compiled = compile_ways(spec("m"), fits, FORMATS)
    assert {(w.fit.weight_format, w.gpus) for w in compiled.ways["g0"]} == {("fp8", 4), ("awq", 2)}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_refused_licence_compiles_to_nothing(policy: SetupPolicy) -> None:
    refusing = replace(policy, refused_licences=frozenset({"NC"}))
    model = replace(spec("m"), licence=Licence(name="NC"))
    assert compile_ways(model, [fit("m", "g0", "fp8", 4, 8)], FORMATS, refusing).ways == {}


def test_the_benchmark_asks_all_three_ways_the_same_question() -> None:
    bench = importlib.util.spec_from_file_location("recompute", Path(__file__).parent / "bench" / "recompute.py")
    assert bench is not None and bench.loader is not None
    recompute = importlib.util.module_from_spec(bench)
    sys.modules["recompute"] = recompute
    bench.loader.exec_module(recompute)
    world = recompute.build(4, 1_500)
    index = SetupIndex(world.compiled, world.offers, world.policy)
    assert {m: setup.order for m, setup in index.winners().items()} == recompute.naive(world) != {}
    assert recompute.changes(world, index)[1] > 0
