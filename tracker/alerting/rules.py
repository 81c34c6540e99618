"""``alerts.toml``: what is worth telling, how often, and where to. Every key is checked; a wrong one is one error with file and key."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, time, tzinfo
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field

from engine.offers import VOUCHED_FOR, Tier, Trust
from tracker.alerting.routes import ROUTES, Route
from tracker.config import YEAR_H, read_tables, validated
from tracker.errors import ConfigError, did_you_mean
from tracker.strict import Strict

FILE = "alerts.toml"
CLOCK = r"([01]\d|2[0-3]):[0-5]\d"


class Rule(Strict):
    """What all rules have. ``urgent`` passes quiet hours and the daily limit; ``digest`` waits for the daily digest."""

    kind: ClassVar[str]
    enabled: bool = True
    urgent: bool = False
    digest: bool = False
    routes: tuple[str, ...] = ()  # empty: all
    sweeps: int = Field(default=2, ge=1, le=1000)  # in a row that must see it ...
    hold_hours: float = Field(default=6, gt=0, le=YEAR_H)  # ... or two that are so far apart: some sources are read once a day
    cooldown_hours: float = Field(default=0, ge=0, le=YEAR_H)  # between two messages about one thing
    active_hours: float = Field(default=24, gt=0, le=YEAR_H)  # news grows old: after that it is no longer listed as active


class Priced(Rule):
    """What is told about a price: a move against the price of the last message."""

    percent: Decimal = Field(gt=0, le=1000)
    rearm_hours: float = Field(default=72, ge=0, le=YEAR_H)  # a move the other way must last so long to be the new normal
    cooldown_percent: Decimal = Field(default=Decimal(1000), gt=0, le=1000)  # a move as large as this does not wait for the cooldown


class Asked(Strict):
    """About which answers: of which models to which questions. Empty: all that are tracked."""

    models: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    names: tuple[str, ...] = ()  # of [[track.also]]; "" is the offers of [track]

    def is_about(self, model: str, workload: str, policy: str, name: str) -> bool:
        """Whether it is about the answer of that model to that question."""
        stated = ((self.models, model), (self.workloads, workload), (self.policies, policy), (self.names, name))
        return all(not wanted or has in wanted for wanted, has in stated)


class CheaperSetup(Asked, Priced):
    """A whole setup one can rent that holds a tracked model for less."""

    kind: ClassVar[str] = "cheaper_setup"
    usd_per_month: Decimal = Field(default=Decimal(0), ge=0)
    quality: Literal["same", "any"] = "same"  # same: weights at least as exact as in the setup it replaces


class _Watch(Priced):
    """The lowest price per GPU-hour of what is watched: a GPU, or the offers of some providers or skus."""

    gpus: tuple[str, ...] = Field(min_length=1)
    providers: tuple[str, ...] = ()
    skus: tuple[str, ...] = ()
    tiers: tuple[Tier, ...] = Field(default=("on_demand",), min_length=1)
    trusts: tuple[Trust, ...] = VOUCHED_FOR
    usd_per_gpu_hour: Decimal = Field(default=Decimal(0), ge=0)  # a smaller move is none


class PriceDrop(_Watch):
    """A watched GPU or offer is cheaper."""

    kind: ClassVar[str] = "price_drop"


class PriceRise(_Watch):
    """A watched GPU or offer is dearer."""

    kind: ClassVar[str] = "price_rise"


class RateChange(Priced):
    """A token price of a tracked model moved, either way, in its own currency."""

    kind: ClassVar[str] = "rate_change"
    models: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()


class SetupGone(Asked, Rule):
    """The cheapest setup is no longer sold and what is left costs so much more, or nothing is left."""

    kind: ClassVar[str] = "setup_gone"
    percent: Decimal = Field(default=Decimal(0), ge=0, le=1000)


class _Sided(Asked, Rule):
    """Which side of a line the workload is on; nearer to the line than ``margin_percent`` is neither."""

    margin_percent: Decimal = Field(default=Decimal(0), ge=0, lt=100)


class BreakEvenCrossed(_Sided):
    """The workload's volume is now above the break-even, or below."""

    kind: ClassVar[str] = "break_even_crossed"


class VerdictFlip(_Sided):
    """The other side is now the cheaper one at the workload's volume."""

    kind: ClassVar[str] = "verdict_flip"


class SourceStale(Rule):
    """A source was not read for longer than its prices may be used."""

    kind: ClassVar[str] = "source_stale"
    sources: tuple[str, ...] = ()


class QuarantineGrown(Rule):
    """So many prices of one source wait to be confirmed."""

    kind: ClassVar[str] = "quarantine"
    sources: tuple[str, ...] = ()
    prices: int = Field(default=10, ge=1)


class BudgetPace(Rule):
    """A month comes to more than its budget of ``tracker.toml`` by the margin, at the pace of now."""

    kind: ClassVar[str] = "budget_pace"
    budgets: tuple[str, ...] = ()  # empty: all
    margin_percent: Decimal = Field(default=Decimal(5), ge=0, le=1000)
    after_hours: float = Field(default=24, ge=0, le=YEAR_H)  # of the month: before, a pace says little


RULES: Mapping[str, type[Rule]] = {
    rule.kind: rule
    for rule in (
        CheaperSetup, PriceDrop, PriceRise, RateChange, SetupGone, BreakEvenCrossed, VerdictFlip, BudgetPace, SourceStale,
        QuarantineGrown,
    )
}  # fmt: skip


class Delivery(Strict):
    """When people are told. Times of day are of ``time_zone``."""

    time_zone: str = "UTC"
    quiet_hours: str = Field(default="", pattern=rf"^({CLOCK}-{CLOCK})?$")  # what comes up then is told when they end
    max_per_day: int = Field(default=10, ge=1)  # more go into the next digest
    bundle_above: int = Field(default=3, ge=1)  # more that come up at once are one message
    digest_at: str = Field(default="08:00", pattern=rf"^{CLOCK}$")

    @property
    def zone(self) -> tzinfo:
        """The time zone."""
        return UTC if self.time_zone == "UTC" else ZoneInfo(self.time_zone)

    @property
    def quiet(self) -> tuple[time, time] | None:
        """Start and end of the quiet hours; None where there are none."""
        start, _, end = self.quiet_hours.partition("-")
        return (time.fromisoformat(start), time.fromisoformat(end)) if start != end else None


class Switching(Strict):
    """What it takes to move: the new setup is paid for while the weights arrive and while both run."""

    link_gbps: Decimal = Field(default=Decimal(10), gt=0)
    overlap_hours: Decimal = Field(default=Decimal(2), ge=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertConfig:
    """``alerts.toml``, by name of rule and route."""

    rules: Mapping[str, Rule] = field(default_factory=dict)
    routes: Mapping[str, Route] = field(default_factory=dict)
    delivery: Delivery = field(default_factory=Delivery)
    switching: Switching = field(default_factory=Switching)


def load_alerts(config_dir: Path, user_dir: Path | None = None) -> AlertConfig:
    """The shipped rules and routes with the user's over them: a table [rules.x] or [routes.x] replaces that of its name whole."""
    rules: dict[str, Rule] = {}
    routes: dict[str, Route] = {}
    parts: dict[str, Any] = {}
    for folder in [config_dir, *([user_dir] if user_dir else [])]:
        if folder != config_dir and not (folder / FILE).exists():
            continue
        path = folder / FILE
        for name, table in read_tables(FILE, folder, None)[0].items():
            if name == "rules":
                rules.update(_named(RULES, table, path, name))
            elif name == "routes":
                routes.update(_named(ROUTES, table, path, name))
            elif name in ("delivery", "switching"):
                parts[name] = validated(Delivery if name == "delivery" else Switching, table, path, name)
            else:
                raise ConfigError(f"{path}: unknown table [{name}]{did_you_mean(name, ('rules', 'routes', 'delivery', 'switching'))}")
        _check_zone(parts.get("delivery", Delivery()), path)
    _check_routes(rules, routes)
    return AlertConfig(rules=rules, routes=routes, **parts)


def _named(kinds: Mapping[str, Any], tables: Any, path: Path, what: str) -> dict[str, Any]:
    """Tables of one sort by name; ``kind`` says how each is read."""
    if not isinstance(tables, dict):
        raise ConfigError(f"{path}: {what} must hold tables; write [{what}.NAME]")
    return {name: _one(kinds, table, path, f"{what}.{name}") for name, table in tables.items()}


def _one(kinds: Mapping[str, Any], table: Any, path: Path, name: str) -> Any:
    if not re.fullmatch(r"\w+\.[a-z0-9][a-z0-9_-]*", name):
        raise ConfigError(f"{path}: [{name}]: a name is lower-case letters, digits, - and _; rename the table")
    kind = table.get("kind") if isinstance(table, dict) else None
    if not isinstance(table, dict) or not isinstance(kind, str) or kind not in kinds:
        near = did_you_mean(str(kind), kinds) if kind else ""
        raise ConfigError(f"{path}: [{name}] kind: must be one of {', '.join(kinds)}{near}")
    return validated(kinds[kind], {key: value for key, value in table.items() if key != "kind"}, path, name)


def _check_zone(delivery: Delivery, path: Path) -> None:
    try:
        delivery.zone.utcoffset(None)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ConfigError(f"{path}: [delivery] time_zone: no zone named {delivery.time_zone!r}; write UTC or Europe/Paris") from error


def _check_routes(rules: Mapping[str, Rule], routes: Iterable[str]) -> None:
    for name, rule in rules.items():
        for route in rule.routes:
            if route not in routes:
                raise ConfigError(f"{FILE}: [rules.{name}] routes: no route named {route!r}{did_you_mean(route, routes)}")
