"""What Prometheus sees: one custom collector over the current snapshot. Only fresh figures leave; their timestamps stay.

A value series carries no label that changes when the answer changes; the changing facts are labels of an ``_info`` series.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from importlib.metadata import version

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from engine.offers import GpuOffer, is_firm
from engine.rates import TOKEN_KINDS, Conditions, TokenRate
from engine.units import SECONDS_PER_HOUR
from tracker.book import Book
from tracker.snapshot import ModelAnswer, Snapshot, SourceHealth

PREFIX = "breakeven_"
ANSWER = ("model", "workload", "policy")

# name, help, labels: the contract, repeated in the README's table and held equal to it by a test
GAUGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "best_setup_usd_per_hour": ("Rent of the cheapest buyable setup that holds the model, USD per hour.", ANSWER),
    "best_setup_info": (
        "What the cheapest buyable setup is; always 1.",
        (*ANSWER, "provider", "gpu", "gpu_count", "weight_format", "tier"),
    ),
    "setup_usd_per_hour": ("Rent of the cheapest buyable setup on each GPU, USD per hour.", ("model", "gpu", "weight_format")),
    "api_usd_per_mtok": ("Cheapest eligible API price of the workload's mix, USD per million tokens.", ANSWER),
    "api_info": ("Whose price list that is; always 1.", (*ANSWER, "provider", "sku")),
    "api_usd_per_month": ("The workload's month at that price, USD.", ANSWER),
    "break_even_tokens_per_month": ("Volume at which the best setup costs what the API does, tokens per month.", ANSWER),
    "break_even_info": ("Status of the break-even and the verdict at the workload's volume; always 1.", (*ANSWER, "status", "verdict")),
    "token_rate_usd_per_mtok": ("API list price, USD per million tokens.", ("provider", "model", "token_kind", "sku")),
    "rental_usd_per_gpu_hour": ("Lowest rental price per GPU, USD per hour.", ("provider", "gpu", "tier")),
    "fx_units_per_usd": ("ECB reference rate, units of the currency per USD.", ("currency",)),
    "source_enabled": ("1 where the source is collected, 0 where it is switched off or has no key.", ("source",)),
    "source_last_success_timestamp_seconds": ("When the source was last read in full, seconds since 1970.", ("source",)),
    "source_last_attempt_timestamp_seconds": ("When the source was last tried, seconds since 1970.", ("source",)),
    "source_max_age_seconds": ("Age at which prices of the source leave the ranking, seconds.", ("source",)),
    "source_rows": ("Prices accepted in the last sweep.", ("source",)),
    "source_rejected_rows": ("Rows of the last sweep that could not be used.", ("source",)),
    "source_quarantined_prices": ("Prices of the source that wait to be confirmed or decided by hand.", ("source",)),
    "source_conflicting_prices": ("Prices the source's last sweep printed twice with different values.", ("source",)),
    "source_sweep_duration_seconds": ("Length of the last sweep, seconds.", ("source",)),
    "disagreement_ratio": (
        "Widest spread between fresh sources about one thing of a provider: (highest - lowest) / lowest.",
        ("provider", "what"),
    ),
    "snapshot_timestamp_seconds": ("When the answers were last worked out, seconds since 1970.", ()),
    "build_info": ("The running program; always 1.", ("version",)),
}
COUNTERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "source_sweeps": ("Sweeps tried since the database was made.", ("source",)),
    "source_failures": ("Sweeps that failed since the database was made.", ("source",)),
}

Sample = tuple[tuple[str, ...], float]


class SnapshotCollector(Collector):
    """Builds every family anew from the snapshot of the moment, so that what vanished from the book vanishes here."""

    def __init__(self, current: Callable[[], Snapshot]) -> None:
        self._current = current

    def describe(self) -> Iterable[Metric]:
        """Nothing: registering must not compute."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All families, in the order of the contract."""
        snapshot = self._current()
        samples = _samples(snapshot)
        for name, (text, labels) in GAUGES.items():
            gauge = GaugeMetricFamily(PREFIX + name, text, labels=labels)
            for values, number in samples.get(name, ()):
                gauge.add_metric(values, number)
            yield gauge
        for name, (text, labels) in COUNTERS.items():
            counter = CounterMetricFamily(PREFIX + name, text, labels=labels)
            for values, number in samples.get(name, ()):
                counter.add_metric(values, number)
            yield counter


def render(current: Callable[[], Snapshot], accept: str) -> tuple[bytes, str]:
    """The exposition for an Accept header, and its content type."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(SnapshotCollector(current))
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


def _samples(snapshot: Snapshot) -> dict[str, list[Sample]]:
    samples: dict[str, list[Sample]] = {}
    parts = (
        _answers(snapshot),
        _rates(snapshot.book),
        _rentals(snapshot.book),
        _fx(snapshot.book),
        _sources(snapshot),
        _disagreements(snapshot),
        _program(snapshot),
    )
    for part in parts:
        for name, values, number in part:
            samples.setdefault(name, []).append((values, number))
    return samples


def _answers(snapshot: Snapshot) -> Iterator[tuple[str, tuple[str, ...], float]]:
    for answer in snapshot.answers:
        key = (answer.model.id, answer.workload.id, answer.policy)
        yield from _setups(answer, key)
        if answer.rate is not None and answer.rate_fresh:
            yield "api_usd_per_mtok", key, float(answer.rate.usd_per_mtok)
            yield "api_usd_per_month", key, float(answer.rate.usd_per_month)
            yield "api_info", (*key, answer.rate.rate.provider, answer.rate.rate.sku), 1
        if answer.all_fresh and answer.break_even is not None and answer.verdict is not None:
            yield "break_even_info", (*key, answer.break_even.status, answer.verdict.answer), 1
            if answer.break_even.tokens is not None:
                yield "break_even_tokens_per_month", key, float(answer.break_even.tokens)


def _setups(answer: ModelAnswer, key: tuple[str, str, str]) -> Iterator[tuple[str, tuple[str, ...], float]]:
    if answer.setup is None or not answer.setup_fresh:
        return
    best = answer.setup
    facts = (best.offer.provider, best.gpu, str(best.gpu_count_rented), best.weight_format, best.offer.tier)
    yield "best_setup_usd_per_hour", key, float(best.usd_per_hour)
    yield "best_setup_info", (*key, *facts), 1
    for setup in answer.per_gpu:
        yield "setup_usd_per_hour", (answer.model.id, setup.gpu, setup.weight_format), float(setup.usd_per_hour)


def _rates(book: Book) -> Iterator[tuple[str, tuple[str, ...], float]]:
    """One list for each provider, model and sku: the base tier, worldwide before regional."""
    chosen: dict[tuple[str, str, str], TokenRate] = {}
    for entry in book.rates:
        rate = entry.value
        if entry.fresh and rate.conditions == Conditions():
            key = (rate.provider, rate.model, rate.sku)
            if key not in chosen or _list_order(rate) < _list_order(chosen[key]):
                chosen[key] = rate
    for (provider, model, sku), rate in sorted(chosen.items()):
        for kind in TOKEN_KINDS:
            price = rate.usd.of(kind)
            if price is not None:
                yield "token_rate_usd_per_mtok", (provider, model, kind, sku), float(price)


def _list_order(rate: TokenRate) -> tuple[str, bool, str, str]:
    return (rate.region, rate.source != rate.provider, rate.source, rate.source_model)


def _rentals(book: Book) -> Iterator[tuple[str, tuple[str, ...], float]]:
    lowest: dict[tuple[str, str, str], float] = {}
    for entry in book.offers:
        offer = entry.value
        if entry.fresh and not entry.is_slice and _can_be_rented(offer):
            key = (offer.provider, offer.gpu, offer.tier)
            lowest[key] = min(lowest.get(key, float("inf")), float(offer.usd_per_gpu_hour))
    yield from (("rental_usd_per_gpu_hour", key, price) for key, price in sorted(lowest.items()))


def _can_be_rented(offer: GpuOffer) -> bool:
    """Whether somebody vouches for it, has it, and sells it at that price: "as low as" is no price."""
    return offer.trust in ("datacenter", "verified") and offer.availability != "unavailable" and is_firm(offer)


def _fx(book: Book) -> Iterator[tuple[str, tuple[str, ...], float]]:
    used = ({entry.value.currency for entry in book.offers} | {entry.value.currency for entry in book.rates}) - {"USD"}
    for currency in sorted(used):
        found = book.exchange.per_usd(currency)
        if found is not None:
            yield "fx_units_per_usd", (currency,), float(found[0])


def _sources(snapshot: Snapshot) -> Iterator[tuple[str, tuple[str, ...], float]]:
    for source in snapshot.sources:
        key = (source.id,)
        yield "source_enabled", key, float(source.enabled)
        yield "source_max_age_seconds", key, source.max_age_hours * SECONDS_PER_HOUR
        yield "source_sweeps", key, source.sweeps
        yield "source_failures", key, source.failures
        yield "source_quarantined_prices", key, source.quarantined
        yield "source_conflicting_prices", key, source.conflicts
        yield from _sweep(source, key)


def _sweep(source: SourceHealth, key: tuple[str]) -> Iterator[tuple[str, tuple[str, ...], float]]:
    if source.last_success is not None:
        yield "source_last_success_timestamp_seconds", key, source.last_success.timestamp()
    if source.last_attempt is not None:
        yield "source_last_attempt_timestamp_seconds", key, source.last_attempt.timestamp()
        yield "source_rows", key, source.rows
        yield "source_rejected_rows", key, sum(source.skipped.values())
        yield "source_sweep_duration_seconds", key, source.duration_s


def _disagreements(snapshot: Snapshot) -> Iterator[tuple[str, tuple[str, ...], float]]:
    yield from (("disagreement_ratio", (found.provider, found.what), float(found.ratio)) for found in snapshot.disagreements)


def _program(snapshot: Snapshot) -> Iterator[tuple[str, tuple[str, ...], float]]:
    yield "snapshot_timestamp_seconds", (), _seconds(snapshot.at)
    yield "build_info", (version("breakeven"),), 1


def _seconds(when: datetime) -> float:
    return when.timestamp()
