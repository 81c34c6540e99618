"""The lowest price over time of what a rule watches: at every moment that of the cheapest offer which was known to hold then."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any

from sqlalchemy import Connection, select

from engine.offers import FIRM, VOUCHED_FOR
from tracker.book.exchange import Exchange
from tracker.book.held import Held, Window, held
from tracker.book.listing import OFFER, OFFERS
from tracker.book.precedence import place_of, rank_of
from tracker.book.spans import Span, merged, without
from tracker.database.rows import UNAVAILABLE, from_s, unscaled
from tracker.database.schema import RENT_SCALE
from tracker.pictures.chart import Step, joined
from tracker.world import World

Priced = tuple[Span, Decimal]
Place = tuple[str, ...]


def lowest_of(connection: Connection, world: World, gpu: str, tier: str, rule: Any, exchange: Exchange, span: Window) -> tuple[Step, ...]:
    """USD per GPU and hour of the cheapest offer of a GPU and tier; of those that ``rule`` watches, where there is one."""
    offers = _watched(connection, gpu, tier, rule)
    found = held(connection, OFFERS, world.config.sources, {id_: row["source"] for id_, row in offers.items()}, span)
    silent = _silenced(connection, world, offers.values(), tier, span)
    priced: list[Priced] = []
    for id_, spans in found.items():
        row = offers[id_]
        quiet = silent.get((row["source"], place_of(row["provider"], row["tier"], row["region"])), ())
        priced += _priced(row, spans, quiet, exchange)
    return lowest(priced)


def _watched(connection: Connection, gpu: str, tier: str, rule: Any) -> dict[int, Mapping[str, Any]]:
    wanted = [OFFER.c.gpu == gpu, OFFER.c.tier == tier, OFFER.c.is_slice.is_(False), OFFER.c.price_kind.in_(FIRM)]
    wanted.append(OFFER.c.trust.in_(getattr(rule, "trusts", VOUCHED_FOR)))
    for column, names in ((OFFER.c.provider, getattr(rule, "providers", ())), (OFFER.c.sku, getattr(rule, "skus", ()))):
        wanted += [column.in_(names)] if names else []
    return {row["id"]: dict(row) for row in connection.execute(select(OFFER).where(*wanted)).mappings()}


def _silenced(
    connection: Connection, world: World, offers: Iterable[Mapping[str, Any]], tier: str, span: Window
) -> dict[tuple[str, Place], list[Span]]:
    """When another source spoke for a source's place: one that is believed before it and listed anything fresh there."""
    providers = sorted({row["provider"] for row in offers})
    query = select(OFFER.c.id, OFFER.c.source, OFFER.c.provider, OFFER.c.region).where(
        OFFER.c.provider.in_(providers), OFFER.c.tier == tier
    )
    ids: dict[Place, dict[tuple[Any, str], list[int]]] = defaultdict(lambda: defaultdict(list))
    for id_, source, provider, region in connection.execute(query):
        if source in world.config.sources:
            rank = rank_of(source, provider, world.settings.precedence.root)
            ids[place_of(provider, tier, region)][rank, source].append(id_)
    several = {place: sorted(ranked.items()) for place, ranked in ids.items() if len(ranked) > 1}
    speaking = {id_: source for ranked in several.values() for (_, source), some in ranked[:-1] for id_ in some}
    spoken = held(connection, OFFERS, world.config.sources, speaking, span)
    found: dict[tuple[str, Place], list[Span]] = {}
    for place, ranked in several.items():
        before: list[Span] = []
        for (_, source), some in ranked:
            found[source, place] = before
            before = merged([*before, *(piece for id_ in some for piece, _ in spoken.get(id_, ()))])
    return found


def _priced(row: Mapping[str, Any], spans: Held, quiet: Sequence[Span], exchange: Exchange) -> Iterable[Priced]:
    for piece, values in spans:
        usd = exchange.usd(unscaled(values["price"], RENT_SCALE), row["currency"])
        if usd is not None and values["availability"] != UNAVAILABLE:
            yield from ((rest, usd / row["gpu_count"]) for rest in without([piece], quiet))


def lowest(priced: Sequence[Priced]) -> tuple[Step, ...]:
    """The lowest price at every moment at which there is one."""
    edges = sorted({edge for span, _ in priced for edge in span})
    waiting = sorted(priced, key=lambda entry: entry[0][0], reverse=True)
    open_: list[tuple[Decimal, int]] = []  # price and end
    steps: list[Step] = []
    for start, end in pairwise(edges):
        while waiting and waiting[-1][0][0] <= start:
            (_, until), price = waiting.pop()
            heapq.heappush(open_, (price, until))
        while open_ and open_[0][1] <= start:
            heapq.heappop(open_)
        if open_:
            steps.append(Step(from_s(start), from_s(end), open_[0][0]))
    return joined(steps)


def stepped(spans: Iterable[tuple[Span, Decimal]]) -> tuple[Step, ...]:
    """Spans of stored time with their prices as steps."""
    return joined([Step(from_s(start), from_s(end), value) for (start, end), value in spans])
