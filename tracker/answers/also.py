"""Checks ``[[track.also]]``: each question is another one, and everything it names exists."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tracker.config import AlsoSettings, TrackSettings
from tracker.errors import UnknownName, did_you_mean

Offers = tuple[frozenset[str], frozenset[str], frozenset[str]]


def check_also(track: TrackSettings, providers: Collection[str]) -> None:
    """UnknownName about the first question that is wrong. ``providers``: those anybody rents from."""
    seen = {(track.workload, track.policy, "")}
    named: dict[str, Offers] = {}
    for number, also in enumerate(track.also):
        where = f"also.{number}:"
        _check_names(also, where, track, providers)
        _check_offers(also, where, track, named)
        key = (also.workload or track.workload, also.policy or track.policy, also.name)
        if key in seen:
            raise UnknownName(f"{where} workload {key[0]!r} with policy {key[1]!r} is asked already; state what differs, or leave it out")
        seen.add(key)


def _check_names(also: AlsoSettings, where: str, track: TrackSettings, providers: Collection[str]) -> None:
    for model in also.models:
        if model not in track.models:
            hint = did_you_mean(model, track.models)
            raise UnknownName(f"{where} models: {model!r} is not tracked{hint}; name it in [track] models too")
    for provider in also.providers:
        if provider not in providers:
            raise UnknownName(f"{where} no provider named {provider!r}{did_you_mean(provider, providers)}")
    for key, names in (("models", also.models), ("providers", also.providers)):
        if twice := _twice(names):
            raise UnknownName(f"{where} {key}: {twice} is named twice")


def _check_offers(also: AlsoSettings, where: str, track: TrackSettings, named: dict[str, Offers]) -> None:
    """A name stands for the same offers wherever it is used."""
    others = bool(also.tiers or also.trusts or also.providers)
    if others and not also.name:
        raise UnknownName(f"{where} tiers, trusts and providers need a name for the offers they admit; add name")
    if also.name and not others:
        raise UnknownName(f"{where} name is of other offers; state tiers, trusts or providers, or leave it out")
    offers = (frozenset(also.tiers or track.tiers), frozenset(also.trusts or track.trusts), frozenset(also.providers))
    if also.name and named.setdefault(also.name, offers) != offers:
        raise UnknownName(f"{where} name is used twice, for different offers; state the same tiers, trusts and providers, or another name")


def _twice(names: Iterable[str]) -> str:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return ""
