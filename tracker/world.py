"""Everything read from configuration at start, checked against each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from engine.models import ModelSpec
from engine.policies import POLICIES, FitPolicy
from engine.throughput import ThroughputPoint
from engine.workloads import Workload
from tracker.alerting.rules import AlertConfig, Asked, Rule, load_alerts
from tracker.answers.also import check_also
from tracker.book.book import IMPORTED
from tracker.book.overrides import Overrides, load_overrides
from tracker.budgets.settings import file_of
from tracker.config import Config, Settings, Source, TrackSettings, load_config
from tracker.errors import BreakevenError, ConfigError, UnknownName, did_you_mean
from tracker.facts.values import Catalogue, Facts
from tracker.facts.workloads import Provider, find_workload, load_providers, load_workloads
from tracker.sweeps.scrapers import check_module, scraper_module


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Configuration and facts of one start; never changes while the program runs."""

    config: Config
    catalogue: Catalogue
    workloads: Mapping[str, Workload]
    providers: Mapping[str, Provider]
    provider_ids: Mapping[str, str]  # every known spelling -> id
    points: tuple[ThroughputPoint, ...]  # measured throughput
    overrides: Overrides  # prices a person states
    alerts: AlertConfig = field(default_factory=AlertConfig)

    @property
    def settings(self) -> Settings:
        """``tracker.toml``."""
        return self.config.settings

    def model(self, name: str) -> ModelSpec:
        """The model of that id; UnknownName with the closest one."""
        if name not in self.catalogue.models:
            raise UnknownName(f"no model named {name!r}{did_you_mean(name, self.catalogue.models)}; one file each in config/models")
        return self.catalogue.models[name]

    def gpu(self, name: str) -> str:
        """``name`` if it is a GPU's id; UnknownName with the closest one."""
        if name not in self.catalogue.gpus:
            raise UnknownName(f"no GPU named {name!r}{did_you_mean(name, self.catalogue.gpus)}; gpus.toml has them all")
        return name

    def workload(self, name: str = "") -> Workload:
        """The workload of that id, or the default one."""
        return find_workload(self.workloads, name or self.settings.track.workload)

    def policy(self, name: str = "") -> FitPolicy:
        """The memory policy of that name, or the default one."""
        wanted = name or self.settings.track.policy
        if wanted not in POLICIES:
            raise UnknownName(f"no policy named {wanted!r}{did_you_mean(wanted, POLICIES)}; there are {', '.join(POLICIES)}")
        return POLICIES[wanted]


def load_world(config_dir: Path, user_dir: Path | None = None, facts: Facts | None = None) -> World:
    """All of it, or one ConfigError that says what is wrong and where; ``facts`` where they were read from the same files before."""
    user = user_dir if user_dir is not None and user_dir.is_dir() else None
    config = load_config(config_dir, user)
    providers = load_providers(config_dir, user)
    facts = facts or load_facts(config_dir, user)
    world = World(
        config=config,
        catalogue=facts.catalogue,
        workloads=load_workloads(config_dir, user),
        providers=providers,
        provider_ids={spelling: p.id for p in providers.values() for spelling in (p.id, *p.aliases)},
        points=facts.points,
        alerts=load_alerts(config_dir, user),
        overrides=load_overrides(config_dir, user),
    )
    _check(world)
    return world


def load_facts(config_dir: Path, user_dir: Path | None) -> Facts:
    """The catalogue and measured throughput, read from ninety files."""
    from tracker.facts.catalogue import load_catalogue  # here: a start that has kept its facts needs no reader of them
    from tracker.facts.throughput import load_points

    catalogue = load_catalogue(config_dir, user_dir)
    return Facts(catalogue=catalogue, points=load_points(config_dir, user_dir, catalogue))


def _check(world: World) -> None:
    """Names in tracker.toml, sources.toml, workloads.toml and providers.toml mean something."""
    try:
        _check_track(world)
    except UnknownName as error:
        raise ConfigError(f"tracker.toml: [track] {error}") from error
    for source in world.config.sources.values():
        check_module(source)
        _check_names(world, source)
    for workload in world.workloads.values():
        _check_capacities(world, workload)
    _check_spellings(world.providers)
    _check_guard(world)
    _check_budgets(world)
    _check_alerts(world)
    _check_overrides(world)


def _check_budgets(world: World) -> None:
    """A budget for something nobody knows would stay unknown without a word."""
    rented = world.settings.baseline.root
    for name, budget in world.settings.budget.root.items():
        try:
            for use in budget.api:
                world.model(use.model)
                world.workload(use.workload)
            for model in budget.rented:
                if model not in rented:
                    raise UnknownName(f"rented: [baseline] states no rent for {model!r}{did_you_mean(model, rented)}")
            if budget.rentals:
                from tracker.finance.records import read_rentals  # here: few budgets name a file

                read_rentals(file_of(budget.rentals, world.config.config_dir, world.config.user_dir))
        except BreakevenError as error:
            raise ConfigError(f"tracker.toml: [budget.{name}] {error}") from error


def _check_alerts(world: World) -> None:
    """A rule about something nobody knows would never tell anything."""
    for name, rule in world.alerts.rules.items():
        try:
            for model in getattr(rule, "models", ()):
                if model not in world.settings.track.models:
                    near = did_you_mean(model, world.settings.track.models)
                    raise UnknownName(f"models: {model!r} is not tracked{near}; name it in [track] models of tracker.toml")
            _check_asked(world, rule)
            for budget in getattr(rule, "budgets", ()):
                if budget not in (known := world.settings.budget.root):
                    raise UnknownName(f"budgets: tracker.toml has no [budget.{budget}]{did_you_mean(budget, known)}")
            for gpu in getattr(rule, "gpus", ()):
                world.gpu(gpu)
            for source in getattr(rule, "sources", ()):
                world.config.source(source)
        except UnknownName as error:
            raise ConfigError(f"alerts.toml: [rules.{name}] {error}") from error


def _check_asked(world: World, rule: Rule) -> None:
    """Workloads, policies and names of a rule are those of tracked questions, and one of these has them all."""
    if not isinstance(rule, Asked):
        return
    asked = _asked(world.settings.track)
    stated = {"models": rule.models, "workloads": rule.workloads, "policies": rule.policies, "names": rule.names}
    for (key, names), known in zip(stated.items(), zip(*asked, strict=True), strict=True):
        for name in names:
            if name not in known:
                raise UnknownName(f"{key}: {name!r} is not asked{did_you_mean(name, known)}; ask it in [[track.also]] of tracker.toml")
    if not any(rule.is_about(*one) for one in asked):
        together = ", ".join(key for key, names in stated.items() if names)
        raise UnknownName(f"{together}: each is asked, but never together; ask for them in one [[track.also]] of tracker.toml")


def _asked(track: TrackSettings) -> list[tuple[str, str, str, str]]:
    """Model, workload, policy and name of the offers of everything that is asked; no model where none is tracked."""
    questions = [(track.workload, track.policy, "", track.models)]
    questions += [
        (also.workload or track.workload, also.policy or track.policy, also.name, also.models or track.models) for also in track.also
    ]
    return [(model, workload, policy, name) for workload, policy, name, models in questions for model in models or ("",)]


def _check_overrides(world: World) -> None:
    """A price of something nobody knows would never be used."""
    stated = world.overrides
    try:
        for model in (*(rate.model for rate in stated.rates), *(factor.model for factor in stated.factors if factor.model)):
            world.model(model)
        for rent in stated.rents:
            world.gpu(rent.gpu)
    except UnknownName as error:
        raise ConfigError(f"overrides.toml: {error}") from error
    for entry in stated.all:
        if (spelled := world.provider_ids.get(entry.provider, entry.provider)) != entry.provider:
            raise ConfigError(f"overrides.toml: [{entry.id}] provider {entry.provider!r} is spelled {spelled!r} here")


def _check_names(world: World, source: Source) -> None:
    """Spellings that nobody lists would map nothing, and every price of the source would be left out."""
    if not source.settings.names:
        return
    known = {*world.catalogue.gpu_names, *(names for names, _ in world.catalogue.model_aliases)}
    if source.names not in known:
        where = "no table of gpu_names.toml and no key of [aliases] in config/models"
        raise ConfigError(f"sources.toml: [{source.id}] names {source.names!r}: {where}{did_you_mean(source.names, known)}")


def _check_guard(world: World) -> None:
    """A limit on something nobody knows would never hold anything back."""
    guard, catalogue = world.settings.guard, world.catalogue
    for gpu in guard.bands:
        if gpu not in catalogue.gpus:
            raise ConfigError(f"gpu_bands.toml: [{gpu}] no such GPU in gpus.toml{did_you_mean(gpu, catalogue.gpus)}")
    for source, things in guard.anchors.items():
        if source not in world.config.sources:
            raise ConfigError(f"tracker.toml: [guard.anchors] no source {source!r}{did_you_mean(source, world.config.sources)}")
        for thing in things:
            if thing not in catalogue.gpus and thing not in catalogue.models:
                near = did_you_mean(thing, [*catalogue.gpus, *catalogue.models])
                raise ConfigError(f"tracker.toml: [guard.anchors] {source}: no GPU or model {thing!r}{near}")


def _check_track(world: World) -> None:
    track = world.settings.track
    for number, name in enumerate(track.models):
        if world.model(name).id in track.models[:number]:
            raise UnknownName(f"models: {name} is named twice")
    for name in world.settings.baseline.root:
        if name not in track.models:
            raise ConfigError(f"tracker.toml: [baseline] {name!r} is not among [track] models{did_you_mean(name, track.models)}")
    world.workload()
    world.policy()
    for number, also in enumerate(track.also):
        try:
            world.workload(also.workload)
            world.policy(also.policy)
        except UnknownName as error:
            raise UnknownName(f"also.{number}: {error}") from error
    check_also(track, _renters(world, {provider for also in track.also for provider in also.providers}))
    for name in track.rate_sources:
        if not name.startswith(IMPORTED):
            world.config.source(name)


def _renters(world: World, named: set[str]) -> set[str]:
    """Providers that GPUs are rented from: those with a source or instance types of their own, and those catalogues tell of.

    Scrapers are loaded only where ``named`` has one that nothing else knows.
    """
    precedence, sources = world.settings.precedence.root, world.config.sources.values()
    known = {*precedence, *(provider for provider, _ in world.catalogue.instances), *(rent.provider for rent in world.overrides.rents)}
    rents = [source for source in sources if source.settings.kind in ("rent", "marketplace")]
    known |= {source.id for source in rents} - {
        second for believed in precedence.values() for second in believed if second not in precedence
    }
    if named - known:
        known |= {provider for source in rents for provider in getattr(scraper_module(source), "PROVIDERS", {}).values()}
    return known


def _check_capacities(world: World, workload: Workload) -> None:
    """A measured capacity of something nobody knows would be left out without a word."""
    try:
        for stated in workload.capacities:
            world.model(stated.model)
            world.gpu(stated.gpu)
            if stated.weight_format not in ("", *world.catalogue.formats):
                hint = did_you_mean(stated.weight_format, world.catalogue.formats)
                raise UnknownName(f"no weight format named {stated.weight_format!r}{hint}; formats.toml has them all")
    except UnknownName as error:
        raise ConfigError(f"workloads.toml: [{workload.id}] capacities: {error}") from error


def _check_spellings(providers: Mapping[str, Provider]) -> None:
    """Every spelling means one provider."""
    owner: dict[str, str] = {}
    for provider in providers.values():
        for spelling in (provider.id, *provider.aliases):
            if owner.setdefault(spelling, provider.id) != provider.id:
                raise ConfigError(f"providers.toml: [{provider.id}] {spelling!r} already means {owner[spelling]}")
