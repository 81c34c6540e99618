"""What the rows of a sweep are: prices, resolved and plausible each by itself, and, by reason, what could not be used. Reads nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date

from scrapers.contract import FxQuote, GpuQuote, Licence, Row, Skipped, TokenQuote
from tracker.book.exchange import Exchange, fx_fault
from tracker.config import Source
from tracker.database.limits import clean
from tracker.database.rows import OfferRow, RateRow, identity
from tracker.guard.bands import currency_fault, offer_fault, parts_fault, rate_fault, rate_jump
from tracker.guard.conflicts import without_conflicts
from tracker.guard.quarantine import CONFLICT
from tracker.guard.statistics import Ask, Statistic, make_market
from tracker.sweeps.resolve import Refused, resolve_gpu, resolve_tokens
from tracker.sweeps.scrapers import currencies_of
from tracker.world import World


@dataclass(slots=True, kw_only=True)
class Harvest:
    """Rows of one sweep of a source while they are sorted out. ``url`` is where they were read, ``printed`` the source's currencies."""

    source: Source
    world: World
    exchange: Exchange
    today: date
    url: str
    printed: tuple[str, ...] = field(init=False)
    offers: list[OfferRow] = field(default_factory=list)
    rates: list[RateRow] = field(default_factory=list)
    told_apart: tuple[Sequence[OfferRow], Sequence[RateRow]] = ((), ())  # those of them without another price for the same thing
    fx: list[FxQuote] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    asks: list[Ask] = field(default_factory=list)
    conflicts: dict[str, list[OfferRow | RateRow]] = field(default_factory=dict)
    rejected: dict[str, OfferRow | RateRow] = field(default_factory=dict)  # by identity: what was printed and cannot be a price
    statistics: dict[str, Statistic] = field(default_factory=dict)
    unmapped: list[tuple[str, str]] = field(default_factory=list)
    licence: Licence | None = None
    samples: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.printed = currencies_of(self.source)

    def refuse(self, reason: str, detail: str) -> None:
        """Count a row that cannot be used."""
        self.skipped[reason] += 1
        self.samples.setdefault(reason, detail)

    def reject(self, row: OfferRow | RateRow) -> None:
        """Note what was printed and cannot be a price."""
        self.rejected[identity(self.source.id, row)] = row

    @property
    def is_market(self) -> bool:
        """Whether its rows are single asks."""
        return self.source.settings.kind == "marketplace"

    @property
    def accepted(self) -> int:
        """How many rows are usable."""
        return sum(map(len, self.told_apart)) + len(self.fx)


def harvested(rows: Iterable[Row], harvest: Harvest) -> Harvest:
    """The harvest with every row resolved and what is implausible held back, counted by reason."""
    for row in rows:
        _sort_one(row, harvest)
    if harvest.is_market:
        _to_market(harvest)
    offers, twice = without_conflicts(harvest.offers, harvest.rejected, harvest.source.id)
    rates, rates_twice = without_conflicts(harvest.rates, harvest.rejected, harvest.source.id)
    harvest.told_apart, harvest.conflicts = (offers, rates), {**twice, **rates_twice}
    if harvest.conflicts:
        harvest.skipped[CONFLICT] += len(harvest.conflicts)
    return harvest


def _to_market(harvest: Harvest) -> None:
    """Asks become one offer for each GPU, count and kind of host."""
    market = make_market(harvest.asks, harvest.source.id, harvest.world.settings.guard.market)
    harvest.offers = market.offers
    harvest.statistics = market.statistics
    harvest.skipped.update(market.left_out)
    harvest.rejected.clear()  # of single asks, which have no identity of their own here


def _sort_one(row: Row, harvest: Harvest) -> None:
    if isinstance(row, Skipped):
        harvest.refuse(row.reason, clean(row.raw))
    elif isinstance(row, Licence):
        harvest.licence = row
    elif isinstance(row, FxQuote):
        fault = fx_fault(row, harvest.today) or rate_jump(row, harvest.exchange, harvest.world.settings.guard)
        if fault is None:
            harvest.fx.append(row)
        else:
            harvest.refuse(fault, clean(row.currency))
    else:
        _sort_price(row, harvest)


def _sort_price(row: GpuQuote | TokenQuote, harvest: Harvest) -> None:
    resolved = _resolve(row, harvest)
    if isinstance(row, GpuQuote) and not isinstance(resolved, Refused) and (lacking := parts_fault(row)) is not None:
        harvest.reject(resolved)
        resolved = Refused(reason=lacking, detail=clean(f"{row.provider} {row.sku}"))
    if isinstance(resolved, Refused):
        harvest.refuse(resolved.reason, resolved.detail)
        if resolved.unmapped is not None:
            harvest.unmapped.append(resolved.unmapped)
    elif (fault := _fault(resolved, harvest)) is not None:
        harvest.refuse(fault, clean(f"{resolved.provider} {resolved.sku}"))
        harvest.reject(resolved)
    elif isinstance(resolved, RateRow):
        harvest.rates.append(resolved)
    elif isinstance(row, GpuQuote) and harvest.is_market:
        harvest.asks.append(Ask(row=resolved, host=clean(row.host), reliability=row.reliability))
    else:
        harvest.offers.append(resolved)


def _fault(row: OfferRow | RateRow, harvest: Harvest) -> str | None:
    """Why it cannot be a price; None where it can."""
    guard, exchange = harvest.world.settings.guard, harvest.exchange
    wrong = currency_fault(row, harvest.printed)
    return wrong or (offer_fault(row, guard, exchange) if isinstance(row, OfferRow) else rate_fault(row, guard, exchange))


def _resolve(row: GpuQuote | TokenQuote, harvest: Harvest) -> OfferRow | RateRow | Refused:
    names, world = harvest.source.names, harvest.world
    if isinstance(row, GpuQuote):
        return resolve_gpu(row, names, world.catalogue, harvest.url)
    return resolve_tokens(row, names, world.catalogue, harvest.url, world.provider_ids)
