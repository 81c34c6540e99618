"""What a message says about a setup, an offer or an answer, as plain values."""

from __future__ import annotations

from typing import Any

from engine.candidates import Setup
from tracker.answers.snapshot import ModelAnswer


def setup_facts(answer: ModelAnswer, setup: Setup) -> dict[str, Any]:
    """Where to rent what for how much, when that was seen, and on which page."""
    offer = setup.offer
    return {
        "model": answer.model.id, "workload": answer.workload.id, "policy": answer.policy,
        "provider": offer.provider, "sku": offer.sku, "region": offer.region, "tier": offer.tier, "trust": offer.trust,
        "gpu": setup.gpu, "gpu_count": setup.gpu_count_rented, "machines": setup.machines, "weight_format": setup.weight_format,
        "fidelity": setup.fidelity, "behind": setup.behind,
        "usd_per_hour": f"{setup.usd_per_hour:f}", "usd_per_month": f"{setup.usd_per_month:f}",
        "native_per_hour": f"{offer.native_per_hour:f}", "currency": offer.currency, "offer": offer_name(setup),
        "seen_at": setup.seen_at, "source": offer.source, "source_url": offer.source_url,
    }  # fmt: skip


def offer_name(setup: Setup) -> str:
    """The offer of a setup and how many of it, as one word."""
    offer = setup.offer
    parts = (offer.provider, offer.sku, offer.region, offer.gpu, offer.tier, offer.trust, offer.currency, str(setup.gpu_count_rented))
    return "|".join(parts)


def market_facts(answer: ModelAnswer) -> dict[str, Any]:
    """The setup, the rate, and what they say about the workload."""
    setup, rate, point, found = answer.setup, answer.rate, answer.break_even, answer.verdict
    facts: dict[str, Any] = {"model": answer.model.id, "workload": answer.workload.id, "policy": answer.policy}
    if setup is not None:
        facts |= setup_facts(answer, setup)
    if rate is not None:
        facts |= {
            "api_provider": rate.rate.provider, "api_usd_per_mtok": f"{rate.usd_per_mtok:f}", "api_source_url": rate.rate.source_url,
            "api_seen_at": rate.rate.seen_at,
        }  # fmt: skip
    if point is not None:
        facts |= {
            "break_even_tokens": None if point.tokens is None else f"{point.tokens:f}",
            "tokens_per_month": f"{answer.workload.tokens_per_month}",
            "status": point.status,
        }
    if found is not None:
        facts |= {
            "verdict": found.answer, "reason": found.reason, "api_usd_per_month": f"{found.api_usd_per_month:f}",
            "self_host_usd_per_month": f"{found.self_host_usd_per_month:f}",
        }  # fmt: skip
    return facts
