"""Marketplaces: many asks for one GPU become one price. A raw minimum is noise: hosts come, go and undercut by a factor of ten."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from decimal import Decimal

from sqlalchemy import Connection, func, insert, select

from tracker.database.rows import UNAVAILABLE, OfferRow, identity
from tracker.database.schema import TABLES
from tracker.guard.settings import MarketSettings

STATISTIC, OFFER = TABLES["statistic"], TABLES["offer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One ask: the offer it is of, who rents it out, and how reliable that host is (0..1; None where nobody says)."""

    row: OfferRow
    host: str
    reliability: Decimal | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistic:
    """What the asks behind a price were: prices of the whole offer an hour in 1e-9 native, and how many of them."""

    least: int
    p10: int
    median: int
    asks: int
    hosts: int


@dataclass(frozen=True, slots=True)
class Market:
    """The offers a marketplace's asks make, with the statistics behind each by identity, and what was left out by reason."""

    offers: list[OfferRow]
    statistics: dict[str, Statistic]
    left_out: dict[str, int]


def make_market(asks: Iterable[Ask], source: str, settings: MarketSettings) -> Market:
    """One offer for each GPU, count, tier and kind of host, at the headline price. None where too few asks stand behind it."""
    groups: dict[tuple[object, ...], list[Ask]] = {}
    market = Market([], {}, {})
    for ask in asks:
        reason = _left_out(ask, settings)
        if reason:
            market.left_out[reason] = market.left_out.get(reason, 0) + 1
        else:
            row = ask.row
            groups.setdefault((row.provider, row.gpu, row.gpu_count, row.tier, row.term_months, row.trust, row.currency), []).append(ask)
    for group in groups.values():
        hosts = {ask.host for ask in group}
        if len(group) < settings.asks or len(hosts) < settings.hosts:
            market.left_out[TOO_FEW] = market.left_out.get(TOO_FEW, 0) + len(group)
            continue
        offer = _offer(sorted(group, key=lambda ask: ask.row.price), settings)
        market.offers.append(offer)
        market.statistics[identity(source, offer)] = _statistic(group)
    return market


TOO_FEW = "too few asks for a price"


def _left_out(ask: Ask, settings: MarketSettings) -> str:
    """Why an ask does not count; "" where it does."""
    if ask.row.trust not in settings.trusts:
        return f"{ask.row.trust} host"
    if not ask.host:
        return "host unknown"
    if ask.reliability is None or ask.reliability < settings.reliability:
        return "host not reliable enough"
    if ask.row.availability == UNAVAILABLE:
        return "rented out"
    return ""


def _offer(asks: Sequence[Ask], settings: MarketSettings) -> OfferRow:
    """The offer of a group of asks, cheapest first. Its name says what it is, so that it outlives every single ask."""
    first = asks[0].row
    chosen = second_host(asks).row if settings.headline == "second_host" else asks[nearest_rank(len(asks), 10)].row
    links = {ask.row.interconnect for ask in asks}
    return replace(
        first,
        sku=f"{first.gpu_count} x {first.gpu}",
        region="",
        price=chosen.price,
        availability=min(ask.row.availability for ask in asks),
        max_gpu_count=None,
        interconnect=links.pop() if len(links) == 1 else "unknown",
        price_kind="ask",
        valid_from=None,
    )


def second_host(asks: Sequence[Ask]) -> Ask:
    """The cheapest ask of the second-cheapest host; asks are sorted by price and come of two hosts at least."""
    return next(ask for ask in asks if ask.host != asks[0].host)


def nearest_rank(count: int, percent: int) -> int:
    """Place of a percentile among ``count`` sorted values, by nearest rank: a value that is there, nothing in between."""
    return max(math.ceil(percent * count / 100), 1) - 1


def _statistic(asks: Sequence[Ask]) -> Statistic:
    prices = sorted(ask.row.price for ask in asks)
    return Statistic(
        least=prices[0],
        p10=prices[nearest_rank(len(prices), 10)],
        median=prices[nearest_rank(len(prices), 50)],
        asks=len(prices),
        hosts=len({ask.host for ask in asks}),
    )


def keep_statistics(connection: Connection, at: int, statistics: Mapping[str, Statistic]) -> None:
    """Keep those that differ from the last ones of their offer. An offer that is not listed yet has none."""
    if not statistics:
        return
    known = statistics_of(connection, list(statistics))
    ids = dict(connection.execute(select(OFFER.c.key, OFFER.c.id).where(OFFER.c.key.in_(statistics))).all())
    new = [{"offer_id": ids[key], "at": at, **asdict(found)} for key, found in statistics.items() if key in ids and known.get(key) != found]
    if new:
        connection.execute(insert(STATISTIC), new)


def statistics_of(connection: Connection, keys: Sequence[str]) -> dict[str, Statistic]:
    """The last statistics of offers by identity."""
    latest = select(func.max(STATISTIC.c.at)).where(STATISTIC.c.offer_id == OFFER.c.id).correlate(OFFER).scalar_subquery()
    query = (
        select(OFFER.c.key, *(STATISTIC.c[n] for n in ("least", "p10", "median", "asks", "hosts")))
        .join(STATISTIC, STATISTIC.c.offer_id == OFFER.c.id)
        .where(STATISTIC.c.at == latest, OFFER.c.key.in_(keys))
    )
    return {key: Statistic(least=a, p10=b, median=c, asks=n, hosts=h) for key, a, b, c, n, h in connection.execute(query)}
