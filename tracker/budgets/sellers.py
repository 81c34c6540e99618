"""Providers that budgets name and nobody is known to sell under: after a slip of the pen a cost would stay unknown without a word."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from sqlalchemy import Connection, select

from tracker.book.listing import RATE
from tracker.errors import did_you_mean
from tracker.world import World


def sellers(connection: Connection) -> set[str]:
    """Providers of whose token rates the book has ever told."""
    return set(connection.scalars(select(RATE.c.provider).distinct()))


def doubts(world: World, listed: Callable[[], Collection[str]]) -> Iterator[str]:
    """A line for each budget's use of a provider that neither providers.toml, overrides.toml nor the book has.

    ``listed`` tells those of the book; it is asked only where there is a doubt.
    """
    known = {*world.provider_ids, *(entry.provider for entry in (*world.overrides.rates, *world.overrides.factors))}
    uses = [(name, use.provider) for name, budget in world.settings.budget.root.items() for use in budget.api if use.provider]
    if any(provider not in known for _, provider in uses):
        known |= set(listed())
    for name, provider in dict.fromkeys(uses):
        if provider not in known:
            hint = did_you_mean(provider, sorted(known))
            yield f"[budget.{name}] api: no rate is known of a provider {provider!r}{hint}; what it costs is unknown until there is one"
