"""What Prometheus sees of the market: token prices, rents and exchange rates, worked out of the rows of a book."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import compress, count
from operator import is_not, itemgetter
from statistics import median

from engine.offers import FIRM, VOUCHED_FOR, GpuOffer
from engine.rates import TOKEN_KINDS, TokenRate
from tracker.book.asof import ID, SOURCE, Row
from tracker.book.book import Book
from tracker.book.entries import Entries, Reading
from tracker.book.entry_values import usd_per_hour
from tracker.book.parts import Part
from tracker.book.row_fields import (
    AVAILABILITY,
    CURRENCY,
    GPU_COUNT,
    LIST,
    MODEL,
    PRICE,
    PRICE_KIND,
    RATE,
    RATE_CURRENCY,
    RATE_REGION,
    RATE_SKU,
    RENTAL,
    SELLER,
    TRUST,
)
from tracker.database.rows import UNAVAILABLE
from tracker.database.schema import RATE_SCALE, RENT_SCALE
from tracker.metrics.exposition import Sample

Figure = tuple[str, tuple[str, ...], float]
Key = tuple[str, ...]

RENTALS = ("rental_usd_per_gpu_hour", "rental_median_usd_per_gpu_hour", "rental_offers")
SHARES = 320  # of a price: a count of GPUs that divides it gives whole ones, and a price per GPU that ends as a decimal
SHARES_OF = {count: SHARES // count for count in range(1, SHARES + 1) if SHARES % count == 0}  # of one GPU of so many
ALWAYS = (0, False, "", "")

_conditions = itemgetter(*(RATE[name] for name in ("min_prompt_tokens", "tier_inclusive", "hours_utc", "weekdays")))
_prices = itemgetter(*(RATE[kind] for kind in TOKEN_KINDS))


def token_rates(book: Book) -> tuple[str, list[Sample]]:
    """One list for each provider, model and sku: the base tier, worldwide before regional."""
    rates, samples = book.rates.fresh(), list[Sample]()
    for part in rates.by(*LIST).values():
        found: tuple[Sample, ...] | None = part.known.get("samples")
        if found is None:
            found = tuple(_list_samples(part.rows, rates.reading))
            if all(row[ID] >= 0 and row[RATE_CURRENCY] == "USD" for row in part.rows):  # else they follow the exchange rate too
                part.known["samples"] = found
        samples += found
    return "token_rate_usd_per_mtok", samples


def _list_samples(rows: Sequence[Row], reading: Reading[TokenRate]) -> Iterator[Sample]:
    always = [row for row in rows if _conditions(row) == ALWAYS]
    if always:
        row = min(always, key=_list_order)
        for kind, price in zip(TOKEN_KINDS, _per_mtok(row, reading), strict=True):
            if price is not None:
                yield (row[SELLER], row[MODEL], kind, row[RATE_SKU]), price


def _list_order(row: Row) -> tuple[str, bool, str, str]:
    return (row[RATE_REGION], row[SOURCE] != row[SELLER], row[SOURCE], row[RATE["source_model"]])


def _per_mtok(row: Row, reading: Reading[TokenRate]) -> Iterator[float | None]:
    """USD per Mtok by token kind: the float nearest to the exact price."""
    if row[ID] >= 0 and row[RATE_CURRENCY] == "USD":
        return (None if price is None else price / RATE_SCALE for price in _prices(row))
    usd = reading.listed(row).value.usd
    return (None if (price := usd.of(kind)) is None else float(price) for kind in TOKEN_KINDS)


def rentals(market: Entries[GpuOffer]) -> Iterator[tuple[str, Sequence[Sample]]]:
    """Lowest and median price per GPU and number of offers, for each provider, GPU and tier."""
    fresh = market.fresh()
    found: list[tuple[Sample, ...]] = [
        _rental_samples(key, part, fresh.reading) if (known := part.known.get("samples")) is None else known
        for key, part in fresh.by(*RENTAL).items()
    ]
    told = [samples for samples in found if samples]
    return zip(RENTALS, zip(*told, strict=True) if told else ((), (), ()), strict=True)


def _rental_samples(key: Key, part: Part, reading: Reading[GpuOffer]) -> tuple[Sample, ...]:
    shares = sorted([share for share in _shares(part) if share is not None])
    whole = not shares or shares[0] >= 0
    least, middle = _per_gpu(shares) if whole else _per_gpu_exactly(part.rows, reading)
    found = _as_before(((key, least), (key, middle), (key, len(shares))) if shares else (), part.before.get("samples", ()))
    if whole or all(row[ID] >= 0 and row[CURRENCY] == "USD" for row in part.rows):  # else they follow the exchange rate too
        part.known["samples"] = found
    return found


def _shares(part: Part) -> list[int | None]:
    """What :func:`_share` says of each row: asked of those alone that are others than in the part before."""
    rows, (held, before) = part.rows, part.before.get("shares", ((), []))
    if len(rows) == len(held):
        shares: list[int | None] = before.copy()
        for place in compress(count(), map(is_not, rows, held)):
            shares[place] = _share(rows[place])
    else:
        shares = list(map(_share, rows))
    part.known["shares"] = (rows, shares)
    return shares


def _share(row: Row) -> int | None:
    """The price of one GPU times SHARES, in the unit that is stored; None where it is not told, -1 where that is no whole number."""
    if not _is_told(row):
        return None
    if row[ID] < 0 or row[CURRENCY] != "USD" or row[GPU_COUNT] not in SHARES_OF:
        return -1
    price: int = row[PRICE]
    return price * SHARES_OF[row[GPU_COUNT]]


def _is_told(row: Row) -> bool:
    return row[TRUST] in VOUCHED_FOR and row[AVAILABILITY] != UNAVAILABLE and row[PRICE_KIND] in FIRM


def _as_before(samples: tuple[Sample, ...], before: tuple[Sample, ...]) -> tuple[Sample, ...]:
    """The samples; those that are equal to the ones before are these, so that they need not be written anew."""
    if len(before) != len(samples):
        return samples
    return tuple([old if new == old else new for new, old in zip(samples, before, strict=True)])


def _per_gpu(shares: Sequence[int]) -> tuple[float, float]:
    """Lowest and median USD per GPU-hour of ascending shares: the floats nearest to the exact prices."""
    if not shares:
        return 0.0, 0.0
    low, high = shares[(len(shares) - 1) // 2], shares[len(shares) // 2]
    return shares[0] / (SHARES * RENT_SCALE), (low + high) / (2 * SHARES * RENT_SCALE)


def _per_gpu_exactly(rows: Sequence[Row], reading: Reading[GpuOffer]) -> tuple[float, float]:
    """The same of what is told in any currency and of any number of GPUs."""
    prices: list[Decimal] = [usd_per_hour(row, reading) / row[GPU_COUNT] for row in rows if _is_told(row)]
    return float(min(prices)), float(median(prices))


def exchange_rates(book: Book) -> Iterator[Figure]:
    """Rates of the currencies that prices of the book are in."""
    used = {*book.offers.every(CURRENCY), *book.rates.every(RATE_CURRENCY)}
    used |= {entry.value.currency for entry in book.offers.given()} | {entry.value.currency for entry in book.rates.given()}
    for currency in sorted(used - {"USD"}):
        found = book.exchange.per_usd(currency)
        if found is not None:
            yield "fx_units_per_usd", (currency,), float(found[0])
