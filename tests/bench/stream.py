"""The seeded market of the benches: offers and rates of many sources, hour by hour, 5.9 % of the offers changing.

Synthetic. How often a source changes its prices is an assumption (market places often, clouds hardly ever); the mean is what counts.
Twelve in a hundred changes are an offer that vanishes, to come back some hours later.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from tracker.database.rows import OfferRow, RateRow, scaled
from tracker.database.tables import RATE_SCALE, RENT_SCALE
from tracker.guard.conflicts import without_conflicts
from tracker.sweeps.store import SweepReport

START = datetime(2025, 11, 1, tzinfo=UTC)
CHANGES_AN_HOUR = 0.059
VANISHES = 0.12
AWAY_HOURS = (2, 48)
RATE_CHANGES_AN_HOUR = 0.0005
BUSY = (8, 6, 4, 4, 3, 2, 2, 1)  # how much more often than the quiet ones the busy sources change
SOURCES = 25
TOKEN_SOURCES = 5
GPUS = tuple(f"gpu-{number:02}" for number in range(50))
REGIONS = tuple(f"region-{number}" for number in range(12))


@dataclass(slots=True)
class Stream:
    """``offers`` and ``rates`` by source, as printed at the last hour; ``away`` are offers that are not printed."""

    dice: random.Random
    offers: list[list[OfferRow]]
    rates: list[list[RateRow]]
    away: list[dict[int, int]] = field(default_factory=list)  # place of the offer -> the hour it comes back
    hour: int = 0
    changes: int = 0  # since the start

    def at(self, source: int) -> datetime:
        """When the source is swept in this hour: a second after the one before it."""
        return START + timedelta(hours=self.hour, seconds=source)

    def step(self) -> None:
        """An hour later."""
        self.hour += 1
        weights = [BUSY[number] if number < len(BUSY) else 0.2 for number in range(len(self.offers))]
        whole = sum(weight * len(rows) for weight, rows in zip(weights, self.offers, strict=True))
        every = sum(map(len, self.offers))
        for rows, away, weight in zip(self.offers, self.away, weights, strict=True):
            back = [place for place, until in away.items() if until <= self.hour]
            for place in back:
                del away[place]
            for place in self._some(len(rows), CHANGES_AN_HOUR * weight * every / whole):
                if self.dice.random() < VANISHES and place not in away:
                    away[place] = self.hour + self.dice.randint(*AWAY_HOURS)
                else:
                    rows[place] = replace(rows[place], price=_moved(self.dice, rows[place].price))
                self.changes += 1
        for rates in self.rates:
            for place in self._some(len(rates), RATE_CHANGES_AN_HOUR):
                rates[place] = replace(rates[place], output=_moved(self.dice, rates[place].output or RATE_SCALE))
                self.changes += 1

    def _some(self, count: int, share: float) -> list[int]:
        """A share of the places, the fraction left to chance."""
        wanted = count * min(share, 0.9)
        return self.dice.sample(range(count), int(wanted) + (self.dice.random() < wanted % 1))

    def sweeps(self) -> Iterator[SweepReport]:
        """What every source prints in this hour."""
        for number, (rows, away) in enumerate(zip(self.offers, self.away, strict=True)):
            yield _report(f"rents-{number:02}", self.at(number), offers=[row for place, row in enumerate(rows) if place not in away])
        for number, rates in enumerate(self.rates):
            yield _report(f"tokens-{number}", self.at(len(self.offers) + number), rates=rates)


def _report(source: str, at: datetime, *, offers: Sequence[OfferRow] = (), rates: Sequence[RateRow] = ()) -> SweepReport:
    """Rows as a parsed answer makes them: new values every time, also where nothing changed, with their identity worked out."""
    url = "".join(list((offers or rates)[0].source_url)) if offers or rates else ""
    offers, _ = without_conflicts([replace(row, price=int(str(row.price)), source_url=url) for row in offers], {}, source)
    rates, _ = without_conflicts([replace(row, source_url=url) for row in rates], {}, source)
    return SweepReport(
        source=source, started_at=at, finished_at=at, status="ok", rows=len(offers) + len(rates), offers=offers, rates=rates
    )  # fmt: skip


def _moved(dice: random.Random, price: int) -> int:
    """A price some per cent up or down, to a hundredth of a cent as they are printed."""
    digit = RENT_SCALE // 10**4
    return max(digit, round(price * dice.uniform(0.9, 1.1) / digit) * digit)


def stream(offers: int = 30_000, rates: int = 3_000, seed: int = 20261129, gpus: tuple[str, ...] = GPUS) -> Stream:
    """The market at its first hour."""
    dice = random.Random(seed)
    by_source = [[_offer(dice, source, number, gpus) for number in range(source, offers, SOURCES)] for source in range(SOURCES)]
    tokens = [[_rate(dice, source, number) for number in range(source, rates, TOKEN_SOURCES)] for source in range(TOKEN_SOURCES)]
    return Stream(dice, by_source, tokens, [{} for _ in by_source])


def _offer(dice: random.Random, source: int, number: int, gpus: tuple[str, ...]) -> OfferRow:
    gpu = dice.choice(gpus)
    count = dice.choice((1, 1, 2, 4, 8, 8))
    usd = round((0.3 + gpus.index(gpu) * 6 / len(gpus)) * count * dice.uniform(0.7, 2.2), 4)
    return OfferRow(
        provider=f"cloud-{source:02}", sku=f"machine-{number}", region=dice.choice(REGIONS), gpu=gpu, gpu_count=count,
        tier=dice.choice(("on_demand", "on_demand", "spot")), trust="datacenter", currency="USD", availability=dice.choice((0, 0, 3)),
        price=scaled(Decimal(str(usd)), RENT_SCALE), source_url=f"https://cloud-{source:02}.example/prices",
    )  # fmt: skip


def _rate(dice: random.Random, source: int, number: int) -> RateRow:
    price = scaled(Decimal(str(round(dice.uniform(0.1, 4), 2))), RATE_SCALE)
    return RateRow(
        provider=f"api-{number % 60}", source_model=f"model-{number // 60}", model=f"model-{number // 60}", currency="USD",
        region="", sku="standard", input=price, cache_read=price // 10, output=price * 5,
        source_url=f"https://tokens-{source}.example/prices",
    )  # fmt: skip
