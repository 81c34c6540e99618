"""One price list of a provider: which of its entries hold for a prompt at a time, and what they come to over hours and days."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

from engine.exact import to_decimal
from engine.rates import MINUTES_PER_DAY, TOKEN_KINDS, Conditions, Money, TokenKind, TokenPrices, TokenRate, windows
from engine.units import HOURS_PER_DAY, MINUTES_PER_HOUR

_EARLIEST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class RateCard:
    """All entries of one price list: what one source says one provider asks for one model, sku and region, in one currency."""

    rates: tuple[TokenRate, ...]

    def __post_init__(self) -> None:
        if len({_list_of(rate) for rate in self.rates}) != 1:
            raise ValueError("a rate card holds the entries of one price list, at least one")

    @property
    def head(self) -> TokenRate:
        """The entry that names the list: the newest of its most general ones."""
        general = min(rate.conditions.specificity for rate in self.rates)
        return max((rate for rate in self.rates if rate.conditions.specificity == general), key=_version)


def _list_of(rate: TokenRate) -> tuple[str, str, str, str, str, str, str]:
    return (rate.model, rate.provider, rate.sku, rate.region, rate.source, rate.source_model, rate.currency)


def rate_cards(rates: Iterable[TokenRate]) -> tuple[RateCard, ...]:
    """The rates grouped into price lists, ordered by their names."""
    lists: dict[tuple[str, ...], list[TokenRate]] = {}
    for rate in rates:
        lists.setdefault(_list_of(rate), []).append(rate)
    return tuple(RateCard(rates=tuple(lists[key])) for key in sorted(lists))


def prices_at(
    card: RateCard, prompt_tokens: int, at: datetime, *, valid_at: datetime | None = None, money: Money = "usd"
) -> TokenPrices | None:
    """Prices per Mtok of the whole request for a prompt of this size at this time; None where no entry holds.

    Special entries override general ones kind by kind; of entries with equal conditions the latest in force replaces the others.
    ``valid_at`` asks for the list in force then, at the hour and weekday of ``at``.
    """
    found: TokenPrices | None = None
    for rate in _current(card.rates, valid_at or at):
        if rate.conditions.hold(prompt_tokens, at):
            prices = rate.prices(money)
            found = prices if found is None else prices.over(found)
    return found


def _current(rates: Sequence[TokenRate], at: datetime) -> list[TokenRate]:
    """One entry for each set of conditions, the latest in force, from general to special."""
    latest: dict[Conditions, TokenRate] = {}
    for rate in rates:
        if rate.in_force(at) and (rate.conditions not in latest or _version(rate) >= _version(latest[rate.conditions])):
            latest[rate.conditions] = rate
    return sorted(latest.values(), key=lambda rate: rate.conditions.specificity)


def _version(rate: TokenRate) -> tuple[datetime, datetime]:
    return (rate.valid_from or _EARLIEST, rate.seen_at)


def week_prices(
    card: RateCard, prompt_tokens: int, at: datetime, *, hour_shares: Sequence[Decimal] = (), money: Money = "usd"
) -> TokenPrices | None:
    """Average prices per Mtok over the hours of a week, of the list in force at ``at``; None where part of the week has no price.

    A bill is linear in its prices, so the average list gives the average bill. ``hour_shares`` weigh the 168 UTC hours from Monday.
    """
    if not any(rate.conditions.timed for rate in card.rates):
        return prices_at(card, prompt_tokens, at, money=money)
    monday = datetime.combine(at.astimezone(UTC).date() - timedelta(days=at.astimezone(UTC).weekday()), time(), UTC)
    return prices_over(card, prompt_tokens, monday, monday + timedelta(days=7), valid_at=at, hour_shares=hour_shares, money=money)


def prices_over(
    card: RateCard,
    prompt_tokens: int,
    start: datetime,
    end: datetime,
    *,
    valid_at: datetime | None = None,
    hour_shares: Sequence[Decimal] = (),
    money: Money = "usd",
) -> TokenPrices | None:
    """Average prices per Mtok over [start, end), weighed by time and ``hour_shares``; None where part of it has no price."""
    spans: list[tuple[Fraction, TokenPrices]] = []
    for first, last in pairwise(_edges(card, start, end, hourly=bool(hour_shares), dated=valid_at is None)):
        weight = _weight(first, last, hour_shares)
        if weight == 0:
            continue
        prices = prices_at(card, prompt_tokens, first, valid_at=valid_at, money=money)
        if prices is None:
            return None
        spans.append((weight, prices))
    return _average(spans) if spans else None


def _edges(card: RateCard, start: datetime, end: datetime, *, hourly: bool, dated: bool) -> list[datetime]:
    """Times at which the price may change, ``start`` and ``end`` included, in order."""
    edges = {start, end}
    minutes = {0} | {minute for rate in card.rates for window in windows(rate.conditions.hours_utc) for minute in window}
    if hourly:
        minutes |= set(range(0, MINUTES_PER_DAY, MINUTES_PER_HOUR))
    day = datetime.combine(start.astimezone(UTC).date(), time(), UTC)
    while day < end:
        edges |= {day + timedelta(minutes=minute) for minute in minutes}
        day += timedelta(days=1)
    if dated:
        edges |= {edge for rate in card.rates for edge in (rate.valid_from, rate.valid_to) if edge is not None}
    return sorted(edge for edge in edges if start <= edge <= end)


def _weight(first: datetime, last: datetime, hour_shares: Sequence[Decimal]) -> Fraction:
    length = Fraction((last - first) // timedelta(microseconds=1))
    if not hour_shares:
        return length
    utc = first.astimezone(UTC)
    return length * Fraction(hour_shares[utc.weekday() * HOURS_PER_DAY + utc.hour])


def _average(spans: Sequence[tuple[Fraction, TokenPrices]]) -> TokenPrices:
    total = sum(weight for weight, _ in spans)
    return TokenPrices(**{kind: _average_of(kind, spans, Fraction(total)) for kind in TOKEN_KINDS})


def _average_of(kind: TokenKind, spans: Sequence[tuple[Fraction, TokenPrices]], total: Fraction) -> Decimal | None:
    parts = tuple(_known(kind, spans))
    if len(parts) < len(spans):
        return None  # unknown in part of the time is unknown
    return to_decimal(sum(parts, Fraction(0)) / total)


def _known(kind: TokenKind, spans: Sequence[tuple[Fraction, TokenPrices]]) -> Iterator[Fraction]:
    for weight, prices in spans:
        price = prices.of(kind)
        if price is not None:
            yield weight * Fraction(price)
