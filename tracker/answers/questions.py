"""What is asked of the book about a model: the question of ``[track]`` and those of ``[[track.also]]`` beside it.

A question is known by its workload and its policy. Where it admits other offers than ``[track]`` does, the name of those offers
is part of the policy's: ``studiotv@hyperscalers``. So whatever keeps workload and policy apart keeps questions apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlencode

from engine.fits import Need
from engine.offers import OfferPolicy
from engine.policies import FitPolicy
from engine.workloads import Workload
from tracker.config import AlsoSettings, TrackSettings
from tracker.errors import UnknownName, did_you_mean
from tracker.world import World

AT = "@"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked of the book about each of ``models``. ``name`` is that of the offers; empty for those of ``[track]``."""

    workload: Workload
    policy: FitPolicy
    need: Need
    offers: OfferPolicy
    skus: tuple[str, ...]
    name: str = ""
    models: tuple[str, ...] = ()

    @property
    def policy_id(self) -> str:
        """Memory policy and name of the offers, in one word."""
        return f"{self.policy.name}{AT}{self.name}" if self.name else self.policy.name

    @property
    def title(self) -> str:
        """Workload and policy, as a person reads them."""
        return f"{self.workload.id}, {self.policy_id}"

    @property
    def words(self) -> str:
        """The same with the providers, where they are named."""
        return self.title + ("" if self.offers.providers is None else f", only {', '.join(sorted(self.offers.providers))}")

    @property
    def query(self) -> str:
        """Workload and policy as a part of an address."""
        return urlencode({"workload": self.workload.id, "policy": self.policy_id}, safe=AT)

    @property
    def basis(self) -> str:
        """All that makes answers comparable, in one word."""
        offers = self.offers
        only = [] if offers.providers is None else sorted(offers.providers)
        return ",".join(
            [self.workload.id, self.policy.name, *offers.tiers, *offers.trusts, *self.skus, str(self.need.sessions), *only]
        )  # fmt: skip


def parted(policy_id: str) -> tuple[str, str]:
    """Memory policy and name of the offers."""
    policy, _, name = policy_id.partition(AT)
    return policy, name


def tracked(world: World) -> tuple[Question, ...]:
    """All questions of ``tracker.toml``, the default one first."""
    track = world.settings.track
    return (default_question(world), *(_question(world, also.workload, also.policy, also.name, also.models) for also in track.also))


def default_question(world: World, workload: str = "", policy: str = "") -> Question:
    """What ``[track]`` asks, or the same about another workload, memory policy or, as ``policy@name``, other offers."""
    return _question(world, workload, *parted(policy))


def nearest_question(world: World, workload: str = "", policy: str = "") -> Question:
    """The first tracked question of that workload and policy, an empty name is any; where none is, the same as ``default_question``."""
    asked = (question for question in tracked(world) if workload in ("", question.workload.id) and policy in ("", question.policy_id))
    return next(asked, None) or default_question(world, workload, policy)


def asked_beside(world: World, workload: str | None, policy_id: str | None) -> Question | None:
    """The question of that workload and policy, where there are several to tell apart; else None."""
    asked = tracked(world) if world.settings.track.also else ()
    return next((question for question in asked if (question.workload.id, question.policy_id) == (workload, policy_id)), None)


def _question(world: World, workload: str, policy: str, name: str, models: Iterable[str] = ()) -> Question:
    """At least one session of the workload's context must fit; capacity decides how many more."""
    track = world.settings.track
    asked = world.workload(workload)
    return Question(
        workload=asked,
        policy=world.policy(policy),
        need=Need(context=asked.context, sessions=track.sessions),
        offers=_offers(track, name),
        skus=track.skus,
        name=name,
        models=tuple(models) or track.models,
    )


def _offers(track: TrackSettings, name: str) -> OfferPolicy:
    """The offers of that name."""
    if not name:
        return OfferPolicy(tiers=track.tiers, trusts=track.trusts)
    named: dict[str, AlsoSettings] = {also.name: also for also in track.also if also.name}
    if name not in named:
        known = f"[[track.also]] of tracker.toml has {', '.join(named)}" if named else "no [[track.also]] of tracker.toml has a name"
        raise UnknownName(f"no offers named {name!r}{did_you_mean(name, named)}; {known}")
    found = named[name]
    return OfferPolicy(
        tiers=found.tiers or track.tiers, trusts=found.trusts or track.trusts, providers=frozenset(found.providers) or None
    )  # fmt: skip
