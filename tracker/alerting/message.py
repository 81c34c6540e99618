"""What is said: title, one line of text, and the facts behind them, of one alert or of a digest."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from engine.exact import cents
from engine.traffic import download_seconds
from engine.units import HOURS_PER_DAY, SECONDS_PER_HOUR, usd_per_month
from engine.verdicts import billions
from engine.weights import weight_bytes
from tracker.alerting.hearing import Heard
from tracker.alerting.judge import State, key_of
from tracker.alerting.rules import CheaperSetup
from tracker.answers.questions import asked_beside
from tracker.plain import plain
from tracker.present import VERDICTS, age, money
from tracker.world import World

Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """One thing to tell. ``key`` is the same however often it is found, so that it is told once."""

    key: str
    rule: str
    kind: str
    subject: str
    title: str
    text: str
    facts: Facts
    routes: tuple[str, ...] = ()
    urgent: bool = False
    digest: bool = False


def alarm_of(heard: Heard, world: World, now: datetime) -> Alarm:
    """The message about a ruling that tells."""
    before, seen = heard.ruling.before, heard.seen
    assert before is not None
    title, text, facts = SAY[seen.kind](heard, before, world)
    link, question = page_url(world), asked_beside(world, facts.get("workload"), facts.get("policy"))
    if question is not None:
        title, text, facts = f"{title} ({question.title})", f"{text}; asked: {question.words}", facts | {"question": question.words}
        link += f"?{question.query}" if link else ""
    facts = {"observed_at": seen.seen_at, "changed_at": before.since or seen.seen_at, **facts, **({"page_url": link} if link else {})}
    return Alarm(
        key=key_of(seen, now), rule=seen.rule, kind=seen.kind, subject=seen.subject, title=title, text=text, facts=plain(facts),
        routes=heard.rule.routes, urgent=heard.rule.urgent, digest=heard.rule.digest,
    )  # fmt: skip


def page_url(world: World) -> str:
    """Where people find the page; empty where nobody said."""
    return f"{url}/" if (url := world.settings.web.public_url) else ""


def message_id(key: str) -> str:
    """The id an alert is sent under, on every route and attempt: no character in it means anything to anyone."""
    return "msg_" + hashlib.sha256(key.encode()).hexdigest()[:32]


def digest(bodies: Sequence[Mapping[str, Any]], key: str, world: World, routes: tuple[str, ...]) -> Alarm:
    """Several alerts as one message."""
    lines = [str(body["text"]) for body in bodies]
    link = page_url(world)
    return Alarm(
        key=key, rule="", kind="digest", subject="digest", title=f"{len(lines)} alerts", text="\n".join(lines),
        facts={"alerts": list(bodies), **({"page_url": link} if link else {})}, routes=routes,
    )  # fmt: skip


def where(facts: Facts) -> str:
    """The setup or offer in words."""
    place = " ".join(str(facts[name]) for name in ("provider", "sku", "region") if facts.get(name))
    form = f", {facts['weight_format']}" if facts.get("weight_format") else ""
    return f"{facts.get('gpu_count', 1)} x {facts['gpu']}{form}, {place}"


def _seen(heard: Heard) -> str:
    return f"seen {heard.seen.seen_at:%Y-%m-%d %H:%M} UTC"


# --- prices -----------------------------------------------------------------------------------------------------------

Said = tuple[str, str, dict[str, Any]]
MARKET = (
    "break_even_tokens", "tokens_per_month", "api_provider", "api_usd_per_mtok", "api_usd_per_month", "self_host_usd_per_month",
    "model", "workload", "policy", "provider", "region", "source_url", "api_source_url", "usd_per_hour",
)  # fmt: skip


def _cheaper(heard: Heard, before: State, world: World) -> Said:
    old, new, facts = before.prices["usd_per_hour"], heard.seen.prices["usd_per_hour"], heard.seen.facts
    saved, percent = old - new, (old - new) / old * 100
    month, model = usd_per_month(saved), facts["model"]
    switch = switching(facts, saved, new, world)
    title = f"{model}: ${money(new)}/h instead of ${money(old)}/h"
    text = (
        f"cheaper setup for {model}: ${money(new)}/h instead of ${money(old)}/h "
        f"({percent:.1f} % or ${money(month)} a month less): {where(facts)}, {_seen(heard)}; {switch['text']}"
    )
    assert isinstance(heard.rule, CheaperSetup)
    target = min(old * (1 - heard.rule.percent / 100), old - heard.rule.usd_per_month / usd_per_month(Decimal(1)))
    return title, text, {
        "model": model, "workload": facts["workload"], "policy": facts["policy"], "old_usd_per_hour": old, "new_usd_per_hour": new,
        "target_usd_per_hour": target, "saving_usd_per_hour": saved, "saving_usd_per_month": month, "saving_percent": percent,
        "old_setup": before.facts, "new_setup": facts, "provider": facts["provider"], "region": facts["region"],
        "source_url": facts["source_url"], "switching": switch["facts"],
    }  # fmt: skip


def switching(facts: Facts, saved: Decimal, new: Decimal, world: World) -> dict[str, Any]:
    """What the move costs: the new setup is paid for while the weights arrive and while both run; and when that is earned back."""
    terms, catalogue = world.alerts.switching, world.catalogue
    weights = weight_bytes(catalogue.models[facts["model"]], catalogue.formats[facts["weight_format"]])
    download = download_seconds(weights.size_bytes, terms.link_gbps) / SECONDS_PER_HOUR
    cost = (download + terms.overlap_hours) * new
    days = cost / (saved * HOURS_PER_DAY)
    figures = {
        "download_bytes": weights.size_bytes, "link_gbps": terms.link_gbps, "download_hours": round(download, 2),
        "overlap_hours": terms.overlap_hours, "usd": cents(cost), "payback_days": round(days, 1),
    }  # fmt: skip
    text = f"switching costs ${money(cost)} (weights in {download:.1f} h, {terms.overlap_hours} h of both), back in {days:.1f} days"
    return {"text": text, "facts": figures}


def _watched(heard: Heard, before: State, world: World) -> Said:
    old, new, facts = before.prices["usd_per_gpu_hour"], heard.seen.prices["usd_per_gpu_hour"], heard.seen.facts
    percent, word = (new - old) / old * 100, "drop" if new < old else "rise"
    title = f"{facts['gpu']} {facts['tier'].replace('_', ' ')}: ${money(new)}/h instead of ${money(old)}/h"
    text = f"price {word} of {title} ({percent:+.1f} %): {where(facts)}, {_seen(heard)}"
    rule: Any = heard.rule
    target = old * (1 - rule.percent / 100 if new < old else 1 + rule.percent / 100)
    return title, text, {
        "gpu": facts["gpu"], "tier": facts["tier"], "old_usd_per_gpu_hour": old, "new_usd_per_gpu_hour": new, "percent": percent,
        "target_usd_per_gpu_hour": target, "old_offer": before.facts, "new_offer": facts, "provider": facts["provider"],
        "region": facts["region"], "source_url": facts["source_url"],
    }  # fmt: skip


def _rate(heard: Heard, before: State, world: World) -> Said:
    facts = heard.seen.facts
    steps = {
        kind: (before.prices[kind], price) for kind, price in heard.seen.prices.items() if before.prices.get(kind, price) != price
    }  # fmt: skip
    moves = ", ".join(f"{kind.replace('_', ' ')} {old.normalize():f} to {new.normalize():f}" for kind, (old, new) in steps.items())
    title = f"{facts['provider']} changed its price of {facts['model']}"
    sku = "" if facts["sku"] == "standard" else f" ({facts['sku']})"
    text = f"rate change: {facts['provider']} {facts['source_model']}{sku}: {moves} {facts['currency']} per Mtok, {_seen(heard)}"
    return title, text, {
        "model": facts["model"], "provider": facts["provider"], "region": facts["region"], "sku": facts["sku"],
        "source": facts["source"], "source_model": facts["source_model"], "currency": facts["currency"],
        "old_per_mtok": {kind: old for kind, (old, _) in steps.items()},
        "new_per_mtok": {kind: new for kind, (_, new) in steps.items()}, "source_url": facts["source_url"],
    }  # fmt: skip


# --- answers ----------------------------------------------------------------------------------------------------------


def _gone(heard: Heard, before: State, world: World) -> Said:
    old, facts = before.facts, heard.seen.facts
    rest = {"model": old["model"], "workload": old["workload"], "policy": old["policy"], "old_setup": old, "provider": old["provider"]}
    rest |= {"region": old["region"], "source_url": old["source_url"], "old_usd_per_hour": old["usd_per_hour"]}
    title = f"{old['model']}: the cheapest setup is gone"
    text = f"setup gone for {old['model']}: {where(old)} at ${money(Decimal(old['usd_per_hour']))}/h is no longer sold"
    if not facts["left"]:
        return title, f"{text}; no other buyable setup is known", rest
    price = Decimal(facts["usd_per_hour"])
    more = price - Decimal(old["usd_per_hour"])
    text = f"{text}; next is {where(facts)} at ${money(price)}/h (${money(usd_per_month(more))} a month more), seen {facts['seen_at']}"
    return title, text, {
        **rest, "new_setup": facts, "new_usd_per_hour": price, "saving_usd_per_month": -usd_per_month(more),
        "provider": facts["provider"], "region": facts["region"], "source_url": facts["source_url"],
    }  # fmt: skip


def _crossed(heard: Heard, before: State, world: World) -> Said:
    facts, side = heard.seen.facts, heard.seen.label
    tokens = facts["break_even_tokens"]
    point = f"at {billions(Decimal(tokens))} tokens a month" if tokens else f"out of reach ({facts['status']})"
    volume = billions(Decimal(facts["tokens_per_month"]))
    title = f"{facts['model']}: the workload is {side} break-even now"
    text = f"break-even crossed for {facts['model']}: {volume} tokens a month are {side} it now; it is {point}; {_with(facts)}"
    return title, text, {"old": before.label, "new": side, **_market(facts)}


def _flipped(heard: Heard, before: State, world: World) -> Said:
    facts, old, new = heard.seen.facts, VERDICTS[before.label], VERDICTS[heard.seen.label]
    title = f"{facts['model']}: {new} instead of {old}"
    text = f"verdict for {facts['model']}: {new} instead of {old}: {facts['reason']}; {_with(facts)}"
    return title, text, {"old": before.label, "new": heard.seen.label, **_market(facts)}


def _with(facts: Facts) -> str:
    return f"{where(facts)} at ${money(Decimal(facts['usd_per_hour']))}/h against {facts['api_provider']}"


def _market(facts: Facts) -> dict[str, Any]:
    return {name: facts[name] for name in MARKET if name in facts}


# --- budgets ----------------------------------------------------------------------------------------------------------


def _paced(heard: Heard, before: State, world: World) -> Said:
    facts = heard.seen.facts
    projected, planned = (money(Decimal(facts[name])) for name in ("projected_usd", "budget_usd"))
    so_far, by_driver = ("?" if facts[name] is None else f"${money(Decimal(facts[name]))}" for name in ("month_to_date_usd", "driver_usd"))
    title = f"budget {facts['budget']}: {facts['month']} comes to ${projected} instead of ${planned}"
    unknown = Decimal(facts["unknown_hours"])
    lacking = f"; of {unknown.normalize():f} hours no price is known, they are not in it" if unknown else ""
    text = (
        f"{title} ({Decimal(facts['over_percent']):+.1f} %): {so_far} so far, most of it {facts['driver']} "
        f"({by_driver}, the rest of the month {facts['driver_ahead']}){lacking}"
    )
    return title, text, dict(facts)


# --- sources ----------------------------------------------------------------------------------------------------------


def _stale(heard: Heard, before: State, world: World) -> Said:
    facts, source = heard.seen.facts, heard.seen.facts["source"]
    since = heard.seen.seen_at - datetime.fromisoformat(facts["last_success"])
    error = f"; {facts['error']}" if facts["error"] else ""
    limit = age(timedelta(hours=facts["max_age_hours"]))
    return f"source {source} is stale", f"source {source} is stale: last read {age(since)} ago, limit {limit}{error}", dict(facts)


def _grown(heard: Heard, before: State, world: World) -> Said:
    facts, source = heard.seen.facts, heard.seen.facts["source"]
    title = f"{facts['quarantined']} prices of {source} are held back"
    text = f"quarantine: {title}; breakeven quarantine list --source {source} shows why"
    return title, text, dict(facts)


SAY: Mapping[str, Callable[[Heard, State, World], Said]] = {
    "cheaper_setup": _cheaper, "price_drop": _watched, "price_rise": _watched, "rate_change": _rate, "setup_gone": _gone,
    "break_even_crossed": _crossed, "verdict_flip": _flipped, "budget_pace": _paced, "source_stale": _stale,
    "quarantine": _grown,
}  # fmt: skip
