"""Counts, layouts, engines and fits: each rule with the source that states it, each rejection with its reason."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sizes import BF16, FORMATS, FP8, INT8, NVFP4, Q4, build, device, fact, spec

from engine.counts import Layout, check_count, legal_counts
from engine.engines import choose_engine
from engine.fits import Fit, Need
from engine.formats import WeightFormat, fidelity_of
from engine.gpus import Gpu, rack_bytes
from engine.models import LayerGroup, ModelSpec, RecordedCapacity
from engine.policies import CANITRUN, POLICIES, RECIPE, STUDIOTV, SWFTE, FitPolicy, custom_policy
from engine.sizing import feasible_fits, fit, sessions_that_fit, smallest_fit
from engine.units import GB, GIB
from engine.weights import active_share, checkpoint_bytes, weight_bytes, weight_parts

D = Decimal
GPU = device()  # 100 GiB: vLLM may fill 89 GiB of it, llama.cpp is not offered by the default policy
MIB_100_GIB = 100 * GIB


def gqa(heads: int | None, kv_heads: int, **changes: Any) -> ModelSpec:
    group = LayerGroup(count=48, kind="gqa", kv_heads=kv_heads, k_dim=128, v_dim=128)
    return spec(layers=48, attention_heads=heads, layer_groups=(group,), **changes)


# --- counts ------------------------------------------------------------------------------------------------------------

# vLLM recipes at 8959cf64189c: heads, KV heads, TP, reason ("" is legal).
TENSOR_PARALLEL = (
    ("64 heads", 64, 8, 8, ""),
    ("64 heads, 4 KV heads: TP 8 repeats them", 64, 4, 8, ""),
    ("96 heads, TP 6", 96, 8, 6, "8 KV heads neither divide by TP 6 nor divide it"),
    ("Llama 4: 40 heads, 8 KV, TP 8", 40, 8, 8, ""),
    ("Phi-4: 40 heads, 10 KV, TP 2", 40, 10, 2, ""),
    ("Phi-4: TP 4", 40, 10, 4, "10 KV heads neither divide by TP 4 nor divide it"),
    ("Phi-4: TP 8", 40, 10, 8, "10 KV heads neither divide by TP 8 nor divide it"),
    ("20 heads, TP 8", 20, 4, 8, "20 heads do not divide by TP 8"),
    ("heads unknown: powers of two", None, 16, 8, ""),
)


@pytest.mark.parametrize(
    ("heads", "kv_heads", "tp", "reason"), [row[1:] for row in TENSOR_PARALLEL], ids=[row[0] for row in TENSOR_PARALLEL]
)
def test_heads_rule(heads: int | None, kv_heads: int, tp: int, reason: str) -> None:
    policy = replace(STUDIOTV, layer_split=False)
    check = check_count(gqa(heads, kv_heads), GPU, BF16, tp, policy, "vllm")
    assert (check.reason, check.layout) == (reason, None if reason else Layout(tp, 1))


def test_phi_4_allows_five_ranks() -> None:
    """40 heads, 10 KV heads: legal TP is 1, 2, 5 (10 is above a node)."""
    assert legal_counts(gqa(40, 10), GPU, BF16, replace(STUDIOTV, layer_split=False), "vllm")[:3] == (1, 2, 5)


def test_an_mla_model_of_96_heads_allows_three_and_six_ranks() -> None:
    kimi = spec(layers=93, attention_heads=96, layer_groups=(LayerGroup(count=24, kind="mla", k_dim=512, v_dim=64),))
    layouts = {n: check_count(kimi, GPU, BF16, n, STUDIOTV, "vllm").layout for n in range(1, 9)}
    assert {n: layout.label for n, layout in layouts.items() if layout} == {
        1: "TP1", 2: "TP2", 3: "TP3", 4: "TP4", 5: "PP5", 6: "TP6", 7: "PP7", 8: "TP8",
    }  # fmt: skip
    without_split = check_count(kimi, GPU, BF16, 5, replace(STUDIOTV, layer_split=False), "vllm")
    assert without_split.reason == "96 heads do not divide by TP 5"


# FP8 blocks of 128: (moe_intermediate, TP, allowed), vLLM recipes at 8959cf64189c.
FP8_BLOCKS = ((1536, 4, True), (1536, 8, False), (2560, 4, True), (2560, 8, False), (1280, 2, True), (1280, 4, False), (2048, 8, True))


@pytest.mark.parametrize(("inner", "tp", "allowed"), FP8_BLOCKS)
def test_fp8_block_rule(inner: int, tp: int, allowed: bool) -> None:
    model = gqa(64, 8, experts=128, experts_per_token=8, moe_intermediate=inner)
    check = check_count(model, GPU, FP8, tp, STUDIOTV, "vllm", expert_parallel=False)
    assert (check.layout is not None) is allowed
    assert check_count(model, GPU, BF16, tp, STUDIOTV, "vllm", expert_parallel=False).layout == Layout(tp, 1)


def test_fp8_blocks_leave_expert_parallel_and_say_so() -> None:
    """2560 / 8 = 320 is no multiple of 128: the way out is whole experts on each rank."""
    model = gqa(64, 8, experts=128, experts_per_token=8, moe_intermediate=2560)
    refused = check_count(model, GPU, FP8, 8, STUDIOTV, "vllm", expert_parallel=False)
    assert refused.reason == "FP8 blocks: 2560 / TP 8 = 320 is no multiple of 128, only expert parallel works"
    allowed = check_count(model, GPU, FP8, 8, STUDIOTV, "vllm")
    assert allowed.layout is not None
    assert (allowed.layout.label, allowed.layout.note) == ("TP8 EP8", refused.reason)


def test_llama_cpp_takes_any_count_and_vllm_whole_nodes_above_one() -> None:
    """Counts seen in seed 003: 1 to 8, then 16, 24, 32, 48, 64, 96."""
    seen = (*range(1, 9), 16, 24, 32, 48, 64, 96)
    assert legal_counts(gqa(40, 10), device(node_gpus=1), BF16, STUDIOTV, "llama.cpp") == seen
    assert legal_counts(gqa(64, 8), GPU, BF16, STUDIOTV, "vllm") == seen
    assert check_count(gqa(64, 8), GPU, BF16, 12, STUDIOTV, "vllm").reason == "12 GPUs are no whole number of 8-GPU nodes"
    assert legal_counts(gqa(64, 8), device(node_gpus=4), BF16, STUDIOTV, "vllm") == (1, 2, 3, 4, 8, 12, 16, 24, 32, 48)


def test_several_nodes_split_layers_between_them() -> None:
    layout = check_count(gqa(64, 8), GPU, BF16, 24, STUDIOTV, "vllm").layout
    assert layout is not None
    assert (layout.label, layout.largest_share(48), layout.largest_share(50)) == ("TP8 x PP3", Fraction(1, 24), Fraction(17, 50 * 8))


def test_trays_of_one_rack_are_one_group_of_eight() -> None:
    """Seed 002: one tensor-parallel group of eight is one 8 x B300 node or two trays of four GB300."""
    rack, trays = device(node_gpus=4, facts=(fact("rack_gpus", 72, "vendor"),)), device(node_gpus=4)
    counts = (4, 8, 12, 16)
    layouts = [check_count(gqa(64, 8), gpu, BF16, count, STUDIOTV, "vllm").layout for gpu in (rack, trays) for count in counts]
    labels = ["TP4", "TP8", "TP4 x PP3", "TP8 x PP2", "TP4", "TP4 x PP2", "TP4 x PP3", "TP4 x PP4"]
    assert [layout and layout.label for layout in layouts] == labels
    assert check_count(gqa(64, 8), rack, BF16, 6, STUDIOTV, "vllm").reason == "6 GPUs are no whole number of 4-GPU nodes"


def test_more_stages_than_layers_are_refused() -> None:
    model = spec(layers=4, attention_heads=None, layer_groups=(LayerGroup(count=4, kind="gqa", kv_heads=8, k_dim=1, v_dim=1),))
    assert check_count(model, GPU, BF16, 5, STUDIOTV, "vllm").reason == "4 layers do not fill 5 pipeline stages"


def test_unknown_layers_are_asked_for_only_by_a_split() -> None:
    model = gqa(64, 8)
    unknown = replace(model, layers=None)
    assert check_count(unknown, GPU, BF16, 8, STUDIOTV, "vllm").layout == Layout(8, 1)
    assert check_count(unknown, GPU, BF16, 7, STUDIOTV, "vllm").reason == "the number of layers is not known, 7 pipeline stages need it"


def test_a_node_policy_counts_whole_nodes() -> None:
    assert legal_counts(gqa(64, 8), GPU, BF16, SWFTE, "any")[:3] == (8, 16, 24)
    assert legal_counts(gqa(64, 8), GPU, BF16, RECIPE, "vllm")[:3] == (1, 8, 16)
    assert check_count(gqa(64, 8), GPU, BF16, 5, SWFTE, "any").reason == "5 GPUs are no whole number of 8-GPU nodes"


# --- engines and formats -----------------------------------------------------------------------------------------------

HOPPER = device(name="Hopper", native_formats=frozenset(("bf16", "fp8", "int8")))
AMPERE = device(name="Ampere", native_formats=frozenset(("bf16", "int8")))
TURING = device(name="Turing", native_formats=frozenset(("fp16", "int8")))
CARD = device(name="Card", gpu_class="workstation")
TPU = device(name="TPU", engines=())
MARLIN = custom_policy(native_only=False)

ENGINES = (
    ("native FP4 on Blackwell", GPU, NVFP4, STUDIOTV, ("vllm", "")),
    ("FP4 on Hopper", HOPPER, NVFP4, STUDIOTV, ("vllm", "Hopper has no FP4 units for NVFP4")),
    ("FP4 on Hopper through Marlin", HOPPER, NVFP4, MARLIN, ("vllm", "")),
    ("INT8 stands in for FP8 on Ampere", AMPERE, INT8, STUDIOTV, ("vllm", "")),
    ("FP8 on Ampere", AMPERE, FP8, STUDIOTV, ("vllm", "Ampere has no FP8 units for FP8")),
    ("no INT8 kernel to fall back to", device(name="Old", native_formats=frozenset(("bf16",))), INT8, MARLIN,
     ("vllm", "Old has no INT8 units and INT8 has no other kernel")),
    ("16-bit formats stand in for each other", TURING, BF16, STUDIOTV, ("vllm", "")),
    ("llama.cpp on a workstation card", CARD, Q4, STUDIOTV, ("llama.cpp", "")),
    ("llama.cpp has no checkpoint loader", CARD, NVFP4, STUDIOTV, ("llama.cpp", "llama.cpp has no NVFP4 loader")),
    ("vLLM loads no GGUF", GPU, Q4, STUDIOTV, ("vllm", "vllm has no Q4_K_M loader")),
    ("no engine at all", TPU, BF16, STUDIOTV, ("", "no serving engine is offered on TPU")),
    ("a rule on memory alone asks for none", TPU, NVFP4, SWFTE, ("any", "")),
)  # fmt: skip


@pytest.mark.parametrize(("gpu", "form", "policy", "expected"), [row[1:] for row in ENGINES], ids=[row[0] for row in ENGINES])
def test_engine(gpu: Gpu, form: WeightFormat, policy: FitPolicy, expected: tuple[str, str]) -> None:
    assert choose_engine(gpu, form, Need(), policy) == expected


def test_a_need_may_name_the_engines() -> None:
    both = custom_policy(llama_cpp_classes=frozenset(("datacenter",)))
    assert choose_engine(GPU, Q4, Need(engines=("llama.cpp",)), both) == ("llama.cpp", "")
    refused = choose_engine(GPU, BF16, Need(engines=("llama.cpp",)), STUDIOTV)
    assert refused == ("vllm", "llama.cpp is not offered on Test 100 by the policy studiotv")


def test_the_native_format_is_as_faithful_as_16_bit() -> None:
    assert fidelity_of(NVFP4, "nvfp4", best=100) == 100
    assert fidelity_of(NVFP4, "bf16", best=100) == NVFP4.fidelity


# --- weights -----------------------------------------------------------------------------------------------------------


def test_the_listing_of_the_official_build_comes_first() -> None:
    model = spec(checkpoints=(build(15 * GB, kind="community"), build(None), build(16_060_000_000)))
    assert (weight_bytes(model, BF16).size_bytes, weight_bytes(model, BF16).basis) == (16_060_000_000, "files")
    assert weight_bytes(model, BF16, "counted").size_bytes == 16 * GB
    assert weight_bytes(model, BF16, "swfte").size_bytes == 16 * GB


def test_community_and_pruned_builds_are_used_only_by_name() -> None:
    pruned = build(3 * GB, kind="pruned")
    model = spec(checkpoints=(pruned,))
    assert weight_bytes(model, BF16).size_bytes == 16 * GB
    named = checkpoint_bytes(pruned)
    assert named is not None
    assert fit(model, GPU, BF16, 1, need=Need(), policy=STUDIOTV, weights=named).weight_bytes == 3 * GB
    assert checkpoint_bytes(build(None)) is None


def test_the_16_bit_remainder_is_stated_native_or_embedding_and_head() -> None:
    stated = spec(facts=(fact("params_16bit.fp8", 500_000_000, "derived"),))
    assert weight_bytes(stated, FP8).size_bytes == 8_500_000_000
    native = spec(native_format="nvfp4", params_16bit=2_000_000_000)
    assert weight_bytes(native, NVFP4).size_bytes == 4_000_000_000 + 6_000_000_000 * 9 // 16
    assert weight_parts(native, NVFP4) == (4_000_000_000, 3_375_000_000)
    # A published FP8 build of Llama 3.1 8B is 9.08 GB: 8.03 + 2 x 128,256 x 4,096.
    llama = spec(params=8_030_261_248, vocab_size=128_256, hidden_size=4096)
    assert weight_bytes(llama, FP8).size_bytes == 8_030_261_248 + 2 * 128_256 * 4096
    assert weight_bytes(replace(llama, tied_embeddings=True), FP8).size_bytes == 8_030_261_248 + 128_256 * 4096
    assert weight_bytes(llama, Q4).size_bytes == round(8_030_261_248 * 4.82 / 8)


def test_every_weight_figure_carries_its_inputs() -> None:
    lines = {line.name: line.value for line in weight_bytes(spec(), FP8).receipt}
    assert lines["parameters"] == 8_000_000_000
    assert lines["weights"] == 8_000_000_000


def test_active_share() -> None:
    assert active_share(spec(params_active=2_000_000_000)) == D("0.25")
    assert active_share(spec(params_active=None)) is None


# --- fits --------------------------------------------------------------------------------------------------------------


def test_studiotv_fills_nine_tenths_less_a_gibibyte() -> None:
    found = fit(spec(), GPU, BF16, 1, need=Need(context=1024), policy=STUDIOTV)
    assert found.capacity_bytes == MIB_100_GIB * 9 // 10 - GIB
    assert found.cache_bytes == 1024 * 131_072
    assert found.load_bytes == 16 * GB + 1024 * 131_072
    assert found.max_sessions == (found.capacity_bytes - 16 * GB) // (1024 * 131_072)
    assert (found.fits, found.tight, found.reason, found.nodes) == (True, False, "", 1)
    assert found.spare_bytes == found.capacity_bytes - found.load_bytes
    assert found.short_bytes == 0


def test_the_reason_says_how_much_is_missing_and_for_what() -> None:
    heavy = spec(params=100_000_000_000)
    short = fit(heavy, GPU, BF16, 1, need=Need(), policy=STUDIOTV)
    assert (short.reason, short.max_sessions) == ("104 GB short of weights", 0)
    many = fit(spec(), GPU, BF16, 1, need=Need(context=131_072, sessions=5), policy=STUDIOTV)
    assert many.reason == "6 GB short of cache for 5 x 131,072 tokens"
    assert (many.max_sessions, many.short_bytes > 0, many.spare_bytes) == (4, True, 0)


def test_a_split_by_layers_counts_the_fullest_gpu() -> None:
    """48 layers on 5 GPUs: one holds 10, so the load counts as 50/48 of an even split."""
    found = fit(gqa(64, 8, params=100_000_000_000), GPU, BF16, 5, need=Need(context=1), policy=STUDIOTV)
    cache = 48 * 8 * 256 * 2
    assert found.layout == Layout(1, 5, note="64 heads do not divide by TP 5: split by layers")
    assert found.load_bytes == -(-200 * GB * 50 // 48) + -(-cache * 50 // 48)


def test_tight_is_told_apart_from_fitting() -> None:
    """StudioTV asks 1 to 3 GiB for the engine and its reserve covers 1: less than 2 GiB more is tight."""
    roomy = spec(params=(86 * GIB) // 2)
    tight = spec(params=(88 * GIB) // 2)
    need = Need(context=1)
    assert not fit(roomy, GPU, BF16, 1, need=need, policy=STUDIOTV).tight
    found = fit(tight, GPU, BF16, 1, need=need, policy=STUDIOTV)
    assert (found.fits, found.tight, found.note) == (True, True, "tight: 1 GB spare")


def test_llama_cpp_is_tight_where_whole_layers_would_not_fit() -> None:
    """32 layers on 5 cards: 7 on one is 7/32 of 450 GB = 98.4 GB, a fifth is 90 GB; a card holds 99 GiB less its reserve."""
    card = device(gpu_class="consumer", node_gpus=1, memory_reported_mib=92 * 1024)
    found = fit(spec(params=225_000_000_000), card, BF16, 5, need=Need(context=1), policy=STUDIOTV)
    assert (found.engine, found.fits, found.tight) == ("llama.cpp", True, True)
    assert found.note == "tight: whole layers per GPU would not fit, only a finer split"


def test_swfte_asks_labels_of_whole_nodes_for_weights_alone() -> None:
    stated = device(facts=(fact("node_memory_gb", 700, "vendor"), fact("node_memory_gb", 800, "recipe")))
    heavy = spec(params=375_000_000_000)
    assert fit(heavy, stated, BF16, 8, need=Need(), policy=SWFTE).reason == "50 GB short of weights"
    found = smallest_fit(heavy, stated, BF16, need=Need(), policy=SWFTE)
    assert (found.nodes, found.gpu_count, found.spare_bytes, found.max_sessions) == (2, 16, 650 * GB, None)
    assert smallest_fit(heavy, stated, BF16, need=Need(), policy=RECIPE).reason == ""
    assert fit(heavy, GPU, BF16, 8, need=Need(), policy=SWFTE).spare_bytes == 50 * GB  # no page: 8 x 100 GB
    box = device(node_gpus=1, facts=(fact("node_memory_gb", 90, "vendor"),))
    assert fit(spec(), box, BF16, 1, need=Need(), policy=SWFTE).capacity_bytes == 90 * GB


def test_recipe_asks_a_fifth_more_than_weights() -> None:
    assert fit(spec(params=300_000_000_000), GPU, BF16, 8, need=Need(), policy=RECIPE).load_bytes == 720 * GB
    assert smallest_fit(spec(), GPU, BF16, need=Need(), policy=RECIPE).gpu_count == 1
    assert smallest_fit(spec(params=50_000_000_000), GPU, BF16, need=Need(), policy=RECIPE).gpu_count == 8


def test_canitrun_adds_an_eighth_to_weights_and_its_own_cache() -> None:
    found = fit(spec(), GPU, BF16, 1, need=Need(context=1000, cache_format="fp8"), policy=CANITRUN)
    assert found.load_bytes == (16 * GB + 131_072_000) * 112 // 100
    assert found.capacity_bytes == 100 * GB


def test_custom_policies_start_from_one_and_keep_their_name() -> None:
    custom = custom_policy(reserve_gib=D(20), vllm_share=D("0.95"))
    assert (custom.name, custom.reserve_bytes, custom.vllm_share) == ("custom", 20 * GIB, D("0.95"))
    assert fit(spec(), GPU, BF16, 1, need=Need(), policy=custom).capacity_bytes == 75 * GIB


def test_policies_have_names() -> None:
    assert set(POLICIES) == {"studiotv", "swfte", "canitrun", "recipe"}
    assert all(policy.name == name and policy.source for name, policy in POLICIES.items())


@pytest.mark.parametrize("wrong", [{"context": 0}, {"sessions": 0}, {"dcp": 0}])
def test_a_need_refuses_nonsense(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        Need(**wrong)
    with pytest.raises(ValueError, match="unknown cache format 'fp6', expected one of bf16, fp16, fp8, nvfp4"):
        Need(cache_format="fp6")


# --- latents, decode context parallelism, recorded capacity ---------------------------------------------------------------

LATENT = spec(
    id="latent",
    params=300_000_000_000,
    layers=93,
    attention_heads=96,
    layer_groups=(
        LayerGroup(count=24, kind="mla", k_dim=512, v_dim=64, index_dim=128, index_scale_bytes=4),
        LayerGroup(count=69, kind="linear", state_bytes=6_512_640),
    ),
)


def test_sessions_with_and_without_decode_context_parallelism() -> None:
    """Every rank repeats the latent, so eight ranks hold an eighth of what DCP 8 lets them hold (state aside)."""
    need = Need(context=262_144, cache_format="fp8")
    plain = fit(LATENT, GPU, BF16, 8, need=need, policy=STUDIOTV)
    spread = fit(LATENT, GPU, BF16, 8, need=replace(need, dcp=8), policy=STUDIOTV)
    room = 8 * (MIB_100_GIB * 9 // 10 - GIB) - 600 * GB
    latents, state = 262_144 * 16_992, 449_372_160
    assert plain.max_sessions == room // (8 * latents + state)
    assert spread.max_sessions == room // (latents + state)


def test_dcp_must_divide_the_ranks() -> None:
    found = fit(LATENT, GPU, BF16, 8, need=Need(dcp=3), policy=STUDIOTV)
    assert (found.fits, found.reason) == (False, "DCP 3 does not divide TP 8")


def test_what_the_engine_reports_decides_over_the_formula() -> None:
    recorded = RecordedCapacity(gpu=GPU.id, gpu_count=8, cache_format="fp8", tokens=2_600_000)
    model = replace(LATENT, recorded_capacity=(recorded,))
    need = Need(context=262_144, cache_format="fp8", sessions=10)
    found = fit(model, GPU, BF16, 8, need=need, policy=STUDIOTV)
    assert (found.max_sessions, found.reason) == (9, "cache holds 9 of 10 sessions at 262,144 tokens")
    assert "2,600,000 cache tokens as the engine reports" in found.note
    other = fit(model, GPU, BF16, 8, need=replace(need, cache_format="bf16"), policy=STUDIOTV)
    assert other.max_sessions != 9


def test_sessions_of_a_huge_model_are_called_an_upper_bound() -> None:
    huge = replace(LATENT, params=1_000_000_000_000)
    need = Need(context=8192, cache_format="fp8")
    warned = fit(huge, GPU, NVFP4, 8, need=need, policy=STUDIOTV)
    assert warned.note.startswith("sessions are an upper bound: a reserve of 16 to 20 GiB a GPU is nearer")
    careful = fit(huge, GPU, NVFP4, 8, need=need, policy=custom_policy(reserve_gib=D(18)))
    assert careful.note == ""
    assert (careful.max_sessions or 0) < (warned.max_sessions or 0)
    assert fit(LATENT, GPU, NVFP4, 8, need=need, policy=STUDIOTV).note == ""


def test_sessions_are_whole() -> None:
    assert [sessions_that_fit(tokens, 262_144) for tokens in (2_600_000, 18_500_000, 262_143)] == [9, 70, 0]


# --- many fits ---------------------------------------------------------------------------------------------------------


def test_a_model_without_facts_is_refused_by_name() -> None:
    unknown = spec(layer_groups=())
    found = feasible_fits(unknown, [GPU], [BF16], Need(), STUDIOTV)
    assert [f.reason for f in found] == ["dense-8b: layer_groups (or a measured kv_bytes_per_token) is not known, its KV cache needs it"]
    assert fit(unknown, GPU, BF16, 8, need=Need(), policy=SWFTE).fits


def test_feasible_fits_are_the_near_miss_and_every_count_up_to_twice_the_smallest() -> None:
    model = gqa(64, 8, params=100_000_000_000)
    found = feasible_fits(model, [GPU], [BF16, NVFP4, Q4], Need(), STUDIOTV)
    bf16 = [(f.gpu_count, f.fits) for f in found if f.weight_format == "bf16"]
    assert bf16 == [(2, False), (3, True), (4, True), (5, True), (6, True), (7, True), (8, True)]
    assert [(f.gpu_count, f.reason) for f in found if f.weight_format == "q4_k_m"] == [(1, "vllm has no Q4_K_M loader")]
    assert next(f for f in found if f.weight_format == "nvfp4" and f.fits).gpu_count == 1


@given(
    params=st.integers(1_000_000_000, 3_000_000_000_000),
    heads=st.sampled_from((None, 40, 64, 96)),
    context=st.integers(1, 1_000_000),
    sessions=st.integers(1, 64),
    policy=st.sampled_from(tuple(POLICIES.values())),
)
def test_many_fits_equal_single_ones(params: int, heads: int | None, context: int, sessions: int, policy: FitPolicy) -> None:
    model = gqa(heads, 8, params=params)
    need = Need(context=context, sessions=sessions)
    card = replace(CARD, id="card")
    for found in feasible_fits(model, [GPU, card], list(FORMATS.values()), need, policy):
        gpu = GPU if found.gpu == GPU.id else card
        assert found == fit(model, gpu, FORMATS[found.weight_format], found.gpu_count, need=need, policy=policy)


@given(params=st.integers(1_000_000_000, 600_000_000_000), sessions=st.integers(1, 50), count=st.sampled_from((1, 2, 4, 8, 16, 24)))
def test_more_sessions_or_weights_never_fit_better(params: int, sessions: int, count: int) -> None:
    lighter = fit(gqa(64, 8, params=params), GPU, BF16, count, need=Need(sessions=sessions), policy=STUDIOTV)
    heavier = fit(gqa(64, 8, params=params + 10**9), GPU, BF16, count, need=Need(sessions=sessions + 1), policy=STUDIOTV)
    assert heavier.load_bytes > lighter.load_bytes
    assert lighter.fits or not heavier.fits


def test_smallest_fit_returns_the_closest_miss() -> None:
    huge = gqa(64, 8, params=10_000_000_000_000)
    found = smallest_fit(huge, GPU, BF16, need=Need(), policy=STUDIOTV)
    assert (found.fits, found.gpu_count) == (False, 96)
    assert "GB short of weights" in found.reason


def test_a_fit_can_be_a_key_and_explains_itself() -> None:
    found = fit(spec(), GPU, BF16, 1, need=Need(), policy=STUDIOTV)
    assert {found: 1}[fit(spec(), GPU, BF16, 1, need=Need(), policy=STUDIOTV)] == 1
    lines = {line.name: line for line in found.receipt}
    assert lines["load"].value == found.load_bytes
    assert lines["capacity"].formula == "1 x (0.9 x reported memory - 1073741824 B)"
    assert lines["capacity"].value == found.capacity_bytes
    refused: Fit = fit(spec(), CARD, NVFP4, 1, need=Need(), policy=STUDIOTV)
    assert refused.receipt[-1].value == "llama.cpp has no NVFP4 loader"


def test_a_rack_needs_its_count() -> None:
    assert rack_bytes(GPU) is None
    assert rack_bytes(device(facts=(fact("rack_gpus", 72, "vendor"),))) == 7200 * GB
