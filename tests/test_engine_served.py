"""What a fit serves of a workload: stated, else estimated; the service level; what is rented beyond the need; the fronts."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from engine.bills import monthly_bill
from engine.breakeven import workload_break_even
from engine.fits import Fit, Need
from engine.fronts import fidelity_front, pareto_front, priced_setups, speed_front
from engine.offers import GpuOffer, OfferPolicy
from engine.plans import Demand, cheapest_plan
from engine.policies import STUDIOTV
from engine.rates import TokenPrices
from engine.served import Served, rental_of, served, service_refusal, speed, widest_fit
from engine.setups import SetupPolicy, rank_setups
from engine.sizing import feasible_fits
from engine.workloads import StatedCapacity, Workload
from tracker.facts.catalogue import Catalogue, load_catalogue
from tracker.facts.workloads import load_workloads

D = Decimal
ROOT = Path(__file__).resolve().parents[1]
ON = date(2026, 11, 29)
DAY = datetime(2026, 10, 17, tzinfo=UTC)
B300, A100 = "nvidia-b300-sxm-288", "nvidia-a100-sxm-80"
SEED_NEED = Need()
KIMI = TokenPrices(input=D(2), cache_read=D("0.20"), output=D(10))


@cache
def catalogue() -> Catalogue:
    return load_catalogue(ROOT / "config")


@cache
def agents() -> Workload:
    return load_workloads(ROOT / "config")["agent-turns"]


def offer(gpu: str, usd: str, count: int, **changes: Any) -> GpuOffer:
    base: dict[str, Any] = {
        "provider": "runpod",
        "source": "runpod",
        "sku": f"{gpu}-x{count}",
        "region": "",
        "tier": "on_demand",
        **changes,
    }
    return GpuOffer(
        gpu=gpu, gpu_count=count, currency="USD", native_per_hour=D(usd), usd_per_hour=D(usd), valid_from=DAY, seen_at=DAY, **base
    )  # fmt: skip


@cache
def fits(model: str, gpu: str, need: Need = SEED_NEED) -> tuple[Fit, ...]:
    known = catalogue()
    return feasible_fits(known.models[model], [known.gpus[gpu]], tuple(known.formats.values()), need, STUDIOTV)


def kimi_on_b300(need: Need) -> Fit:
    return next(f for f in fits("kimi-k3.1-pro", B300, need) if f.fits and f.weight_format == "mxfp4" and f.gpu_count == 8)


def ask(fit: Fit, workload: Workload) -> Served:
    known = catalogue()
    return served(fit, known.models[fit.model], known.gpus[fit.gpu], known.formats[fit.weight_format], workload, on=ON)


def alone(fit: Fit) -> float:
    """Output tokens a second of a single user."""
    known = catalogue()
    found = speed(fit, known.models[fit.model], known.gpus[fit.gpu], known.formats[fit.weight_format], agents(), on=ON)
    return found.tok_s_per_user if found is not None else 0.0


def test_what_the_operator_measured_comes_first() -> None:
    fit = kimi_on_b300(Need())
    stated = StatedCapacity(model=fit.model, gpu=fit.gpu, gpu_count=8, requests_per_month=D(500_000), source="our node, October")
    found = ask(fit, replace(agents(), capacities=(stated,)))
    assert (found.requests_per_month, found.kind, found.source, found.error_factor) == (D(500_000), "config", "our node, October", D(1))


def test_an_estimate_never_looks_like_a_measurement() -> None:
    found = ask(kimi_on_b300(Need(context=262_144, cache_format="fp8")), agents())
    assert found.kind == "estimate" and found.source == "roofline" and found.error_factor > D("1.2")
    assert found.requests_per_month is not None and found.requests_per_month > 0


def test_decode_context_parallelism_decides_for_the_agents() -> None:
    # sizing.md 2, with its own constants: 9 resident sessions reach u* 1.12 (never), 70 sessions 0.41 to 0.51. Ours agree on the verdict.
    bill = monthly_bill(agents(), KIMI)

    def point(need: Need) -> Any:
        requests = ask(kimi_on_b300(need), agents()).requests_per_month
        return workload_break_even(agents(), bill, replica_usd_per_month=D("40529.60"), capacity_requests_per_month=requests)

    plain, spread = point(Need(context=262_144, cache_format="fp8")), point(Need(context=262_144, cache_format="fp8", dcp=8))
    assert plain is not None and spread is not None
    assert plain.tokens == spread.tokens and round(plain.tokens, 2) == D("87814133333.33")
    assert plain.breakeven_utilization > 1 and plain.status == "never"
    assert spread.breakeven_utilization < 1 and spread.status == "feasible"


def test_a_service_level_refuses_what_is_too_slow() -> None:
    fit = kimi_on_b300(Need(context=262_144, cache_format="fp8"))
    fast = replace(agents(), min_tok_s_per_user=D(10_000))
    assert service_refusal(ask(fit, fast), fast) == "the service level is not met even for one user"
    easy = replace(agents(), min_tok_s_per_user=D(1))
    assert service_refusal(ask(fit, easy), easy) == ""


def test_an_unknown_capacity_refuses_only_where_a_service_level_is_asked() -> None:
    unknown = Served(requests_per_month=None, reason="bandwidth_gb_s is not known")
    assert service_refusal(unknown, agents()) == ""
    assert service_refusal(unknown, replace(agents(), max_ttft_s=D(2))) == "bandwidth_gb_s is not known"


def test_a_cheap_setup_that_is_too_slow_loses_with_its_reason() -> None:
    model = catalogue().models["muse-spark-open"]
    known = (*fits("muse-spark-open", B300), *fits("muse-spark-open", A100))
    offers = [offer(B300, "55.52", 8), offer(A100, "8.01", 8)]
    fastest = {gpu: max(alone(f) for f in fits("muse-spark-open", gpu) if f.gpu_count <= 8) for gpu in (B300, A100)}
    assert fastest[B300] > 1.5 * fastest[A100]  # 8 TB/s of memory against 2
    asked = replace(agents(), min_tok_s_per_user=D(round((fastest[A100] + fastest[B300]) / 2)))
    picky = rank_setups(model, known, offers, catalogue().formats, service_refusal=lambda fit: service_refusal(ask(fit, asked), asked))
    assert picky.best is not None and picky.best.gpu == B300
    late = [r for r in picky.rejected if r.gpu == A100 and r.usd_per_hour == D("8.01")]
    assert [r.reason for r in late] == ["the service level is not met even for one user"]


def test_a_rented_machine_used_whole_may_keep_what_the_fewest_gpus_do_not() -> None:
    # 7 A100 run as a pipeline of 7; the 8 that are paid for run tensor-parallel, each token in less time.
    known = [f for f in fits("muse-spark-open", A100) if f.weight_format == "awq"]
    speeds = {f.gpu_count: alone(f) for f in known if f.gpu_count in (7, 8)}
    assert speeds[8] > 2 * speeds[7]
    asked = replace(agents(), min_tok_s_per_user=D(round((speeds[7] + speeds[8]) / 2)))
    model, offers = catalogue().models["muse-spark-open"], [offer(A100, "8.01", 8)]
    picky = rank_setups(model, known, offers, catalogue().formats, service_refusal=lambda fit: service_refusal(ask(fit, asked), asked))
    assert picky.best is not None and (picky.best.gpu_count_needed, picky.best.usd_per_hour) == (8, D("8.01"))


def test_who_pays_for_eight_runs_on_eight() -> None:
    known = fits("muse-spark-open", A100)
    best = rank_setups(catalogue().models["muse-spark-open"], known, [offer(A100, "8.01", 8)], catalogue().formats).best
    assert best is not None and (best.gpu_count_needed, best.gpu_count_rented) == (7, 8)
    assert widest_fit(best, known).gpu_count == 8
    assert widest_fit(best, []) == best.fit


def test_who_pays_for_four_does_not_run_on_more() -> None:
    known = fits("muse-spark-open", "nvidia-h200-sxm-141")
    best = rank_setups(catalogue().models["muse-spark-open"], known, [offer("nvidia-h200-sxm-141", "12", 4)], catalogue().formats).best
    assert best is not None and best.gpu_count_rented == 4 and any(f.gpu_count == 8 for f in known)
    assert widest_fit(best, known).gpu_count == 4


def test_a_setup_becomes_a_replica_to_plan_with() -> None:
    fit = kimi_on_b300(Need(context=262_144, cache_format="fp8", dcp=8))
    best = rank_setups(catalogue().models["kimi-k3.1-pro"], [fit], [offer(B300, "55.52", 8)], catalogue().formats).best
    assert best is not None
    rental = rental_of(best, Served(requests_per_month=D(828_000), kind="estimate"), agents())
    assert rental is not None
    assert rental.name == "8 x nvidia-b300-sxm-288 (mxfp4) at runpod"
    assert (rental.usd_per_month, rental.capacity_tokens_per_month) == (D("40529.60"), D(215_280_000_000))
    blend = monthly_bill(agents(), KIMI).per_mtok
    plan = cheapest_plan(Demand(tokens_per_month=agents().tokens_per_month, api_usd_per_mtok=blend), [rental])
    assert plan is not None and plan.kind == "api"  # 7,560 against 40,529.60
    busy = cheapest_plan(Demand(tokens_per_month=800_000 * agents().mix.total, api_usd_per_mtok=blend), [rental])
    assert busy is not None and (busy.kind, busy.replicas) == ("self_host", 1)
    assert rental_of(best, Served(requests_per_month=None), agents()) is None


def test_a_spot_setup_needs_its_loss_stated() -> None:
    fit = kimi_on_b300(Need())
    policy = SetupPolicy(offers=OfferPolicy(tiers=("spot",)))
    best = rank_setups(catalogue().models["kimi-k3.1-pro"], [fit], [offer(B300, "30", 8, tier="spot")], catalogue().formats, policy).best
    assert best is not None
    known = Served(requests_per_month=D(828_000), kind="estimate")
    with pytest.raises(ValueError, match="state interruption_loss"):
        rental_of(best, known, agents())
    rental = rental_of(best, known, agents(), interruption_loss=D("0.1"))
    assert rental is not None and rental.rent == 24_090  # 30 * 730 * 1.1


# --- fronts ------------------------------------------------------------------------------------------------------------


def test_cost_against_fidelity() -> None:
    model = catalogue().models["muse-spark-open"]
    known = (*fits("muse-spark-open", "amd-mi355x"), *fits("muse-spark-open", "nvidia-h200-sxm-141"))
    offers = [offer("amd-mi355x", "5.49", 1, max_gpu_count=8), offer("nvidia-h200-sxm-141", "2.50", 1, max_gpu_count=8)]
    front = fidelity_front(priced_setups(model, known, offers, catalogue().formats))
    # 4 x H200 hold 4 bits for 10.00; 2 x MI355X hold the native NVFP4, as faithful as 16 bit, for 10.98; nothing beats that
    assert [(s.gpu, s.gpu_count_rented, s.weight_format, s.usd_per_hour) for s in front] == [
        ("nvidia-h200-sxm-141", 4, "awq", D("10.00")),
        ("amd-mi355x", 2, "nvfp4", D("10.98")),
    ]


def test_cost_against_speed_rises_in_both() -> None:
    model = catalogue().models["muse-spark-open"]
    known = (*fits("muse-spark-open", B300), *fits("muse-spark-open", "nvidia-h200-sxm-141"))
    offers = [offer(B300, "6.94", 1, max_gpu_count=8), offer("nvidia-h200-sxm-141", "2.50", 1, max_gpu_count=8)]
    setups = priced_setups(model, known, offers, catalogue().formats)
    front = speed_front(setups, lambda setup: alone(setup.fit))
    speeds = [alone(setup.fit) for setup in front]
    assert len(front) > 1 and speeds == sorted(set(speeds))
    assert [s.usd_per_hour for s in front] == sorted({s.usd_per_hour for s in front})


def test_a_front_leaves_out_what_is_beaten_and_what_is_unknown() -> None:
    model = catalogue().models["muse-spark-open"]
    setups = priced_setups(model, fits("muse-spark-open", B300), [offer(B300, "6.94", 1, max_gpu_count=8)], catalogue().formats)
    by_hand = [
        s
        for s in setups
        if not any((o.usd_per_hour, -o.fidelity) < (s.usd_per_hour, -s.fidelity) and o.fidelity >= s.fidelity for o in setups)
    ]
    front = fidelity_front(setups)
    assert {(s.usd_per_hour, s.fidelity) for s in front} == {(s.usd_per_hour, s.fidelity) for s in by_hand}
    assert pareto_front(setups, lambda _: None) == ()


def test_setups_over_several_machines_enter_only_where_nothing_else_is() -> None:
    model = catalogue().models["kimi-k3.1-pro"]
    known = (*fits("kimi-k3.1-pro", B300), *fits("kimi-k3.1-pro", "nvidia-h100-sxm-80"))
    both = priced_setups(model, known, [offer(B300, "55.52", 8), offer("nvidia-h100-sxm-80", "8", 8)], catalogue().formats)
    assert {s.gpu for s in both} == {B300}
    alone = priced_setups(model, known, [offer("nvidia-h100-sxm-80", "8", 8)], catalogue().formats)
    assert {s.gpu for s in alone} == {"nvidia-h100-sxm-80"} and all(s.machines > 1 for s in alone)
