"""How an answer came about, back to the printed prices: offer, rate, exchange rate, mix, memory, capacity, formulas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import ROUND_HALF_EVEN, Decimal

from sqlalchemy import Connection, and_, or_, select

from engine.bills import Cost
from engine.facts import choose
from engine.gpus import Gpu
from engine.offers import GpuOffer
from engine.rate_choice import RateChoice
from engine.rates import TOKEN_KINDS, TokenRate
from engine.receipts import Receipt, ReceiptLine
from engine.served import Served
from engine.setups import Setup
from engine.workloads import Workload
from tracker.answers.snapshot import ModelAnswer
from tracker.book.asof import SOURCE
from tracker.book.book import Book, Listed, Value
from tracker.book.entries import Entries
from tracker.book.listing import SWEEP
from tracker.database.rows import to_s
from tracker.facts.values import Catalogue

PRICE_PLACES = 10  # decimals shown of a price that was converted
HASH_SHOWN = 12  # hex digits of a body's hash that a reader compares


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Receipt lines of one part of an answer."""

    title: str
    lines: Receipt


Readings = Mapping[tuple[str, datetime], str]  # source, moment -> which reading of the source that was


def readings(connection: Connection, seen: Iterable[tuple[str, datetime]]) -> Readings:
    """For each source and moment a price was seen at, the sweep that saw it: its parser, and the hash of the body it read."""
    wanted = {(source, to_s(at)): at for source, at in seen}
    if not wanted:
        return {}
    query = select(SWEEP.c.source, SWEEP.c.at, SWEEP.c.status, SWEEP.c.input_hash).where(
        or_(*(and_(SWEEP.c.source == source, SWEEP.c.at == at) for source, at in wanted))
    )
    return {(source, wanted[source, at]): _reading(source, status, body) for source, at, status, body in connection.execute(query)}


def _reading(source: str, status: str, body: str) -> str:
    return f"sweep of {source} ({status})" + (f", body {body[:HASH_SHOWN]}" if body else "")


def seen_by(found: ModelAnswer) -> tuple[tuple[str, datetime], ...]:
    """Sources and moments an answer stands on."""
    rates = () if found.rate is None else found.rate.card.rates
    offers = () if found.setup is None else (found.setup.offer,)
    return tuple((value.source, value.seen_at) for value in (*offers, *rates))


def explain_answer(found: ModelAnswer, book: Book, catalogue: Catalogue, read: Readings) -> tuple[Section, ...]:
    """Everything behind the cheapest setup, the rate, the capacity and the break-even of one answer."""
    parts: list[Section] = []
    if found.setup is not None:
        parts += explain_setup(found.setup, book, catalogue, read)
    if found.rate is not None:
        parts += explain_rate(found.rate, found.workload, book, read)
    if found.capacity is not None:
        parts.append(Section(title="capacity", lines=capacity_lines(found.capacity, found.workload)))
    if found.break_even is not None:
        parts.append(Section(title="break-even", lines=found.break_even.receipt))
    return tuple(parts)


def explain_setup(setup: Setup, book: Book, catalogue: Catalogue, read: Readings) -> tuple[Section, ...]:
    """The offer as printed, the setup's price, the GPU's facts and why the model fits."""
    listed = _listed(book.offers, setup.offer)
    return (
        Section(title="offer", lines=offer_lines(setup.offer, listed, read)),
        Section(title="setup", lines=setup.receipt),
        Section(title=f"facts of {setup.gpu}", lines=gpu_lines(catalogue.gpus[setup.gpu])),
        Section(title=f"fit: {setup.gpu_count_needed} x {setup.gpu}, {setup.weight_format}", lines=setup.fit.receipt),
    )


def explain_rate(choice: RateChoice, workload: Workload, book: Book, read: Readings) -> tuple[Section, ...]:
    """Every entry of the price list as printed, the mix and the blend."""
    rates = choice.card.rates
    lists = tuple(
        Section(title=f"rate of {rate.provider}{_conditions(rate)}", lines=rate_lines(rate, _listed(book.price_lists, rate), read))
        for rate in rates
    )
    return (*lists, Section(title=f"bill of {workload.id}", lines=blend_lines(choice, workload)))


def offer_lines(offer: GpuOffer, listed: Listed[GpuOffer] | None, read: Readings) -> Receipt:
    """A rental offer as its source prints it, and in USD."""
    where = " ".join(part for part in (offer.provider, offer.sku, offer.region) if part)
    count = f"{offer.gpu_count}" if offer.max_gpu_count in (None, offer.gpu_count) else f"{offer.gpu_count} to {offer.max_gpu_count}"
    term = f", {offer.term_months} months" if offer.term_months else ""
    kind = f"{offer.tier}{term}, {offer.trust}, {offer.price_kind} price, {offer.availability}"
    return (
        ReceiptLine(name="sold as", value=f"{where}: {count} x {offer.gpu}"),
        ReceiptLine(name="terms", value=kind),
        ReceiptLine(name="price as printed", value=offer.native_per_hour, unit=f"{offer.currency}/hour", source=offer.source_url),
        *_exchange(offer.currency, offer.fx_rate, offer.fx_day),
        ReceiptLine(
            name="price", value=offer.usd_per_hour, unit="USD/hour", formula="" if offer.currency == "USD" else "printed / exchange rate"
        ),
        *_sighting(offer, listed, read),
    )


def gpu_lines(gpu: Gpu) -> Receipt:
    """What the memory rule and the estimate of speed read of a GPU, each figure with who states it."""
    figures = (
        ("memory_marketed_gb", gpu.memory_marketed_gb, "GB"),
        ("memory_reported_mib", gpu.memory_reported_mib, "MiB"),
        ("bandwidth_gb_s", gpu.bandwidth_gb_s, "GB/s"),
    )
    stated = ((name, value, unit, choose(gpu.facts, name)) for name, value, unit in figures)
    return (
        *(ReceiptLine(name=name, value=value, unit=unit, source=f.source if f else gpu.source) for name, value, unit, f in stated),
        ReceiptLine(name="share a model may use", value=gpu.usable_share, source=gpu.source),
        ReceiptLine(name="GPUs of the usual machine", value=gpu.node_gpus, source=gpu.source),
    )


def rate_lines(rate: TokenRate, listed: Listed[TokenRate] | None, read: Readings) -> Receipt:
    """One entry of a price list as its source prints it, and in USD."""
    name = f"{rate.source_model}, {rate.sku}" + (f", {rate.region}" if rate.region else "")
    lines = [ReceiptLine(name="sold as", value=name)]
    for kind in TOKEN_KINDS:
        native, usd = rate.native.of(kind), rate.usd.of(kind)
        lines.append(ReceiptLine(name=f"{kind} as printed", value=native, unit=f"{rate.currency}/Mtok", source=rate.source_url))
        if rate.currency != "USD" and usd is not None:
            lines.append(ReceiptLine(name=kind, value=usd, unit="USD/Mtok", formula="printed / exchange rate"))
    return (*lines, *_exchange(rate.currency, rate.fx_rate, rate.fx_day), *_validity(rate), *_sighting(rate, listed, read))


def blend_lines(choice: RateChoice, workload: Workload) -> Receipt:
    """The workload's month kind by kind, and what a million of its tokens costs."""
    bill = choice.bill
    source = f"{workload.id}: {workload.source}" if workload.source else workload.id
    mix = " + ".join(f"{tokens:,} {kind}" for kind, tokens in workload.mix.by_kind() if tokens)
    return (
        ReceiptLine(name="tokens of a request", value=mix, unit="tokens", source=source),
        ReceiptLine(name="requests", value=bill.requests, unit="requests/month", source=source),
        *_shares(workload, choice),
        *cost_lines(bill.cost),
        ReceiptLine(name="bill", value=bill.cost.amount, unit="USD/month", formula="sum of the kinds", source=_bound(bill.cost)),
        ReceiptLine(name="tokens", value=bill.tokens, unit="tokens/month", formula="requests * tokens of a request, cached ones included"),
        ReceiptLine(name="blend", value=bill.per_mtok, unit="USD/Mtok", formula="bill / tokens * 10**6"),
        ReceiptLine(name="bill without caching", value=bill.without_caching.amount, unit="USD/month", formula="the whole prompt as input"),
    )


def cost_lines(cost: Cost) -> Receipt:
    """One line a token kind of a bill: tokens x price."""
    return tuple(
        ReceiptLine(
            name=line.kind,
            value=line.amount,
            unit="USD",
            formula=f"{_count(line.tokens)} tokens * {_price(line.price_per_mtok)} USD / 10**6",
            source="no price of its own: the input price, an upper bound" if line.assumed else "",
        )
        for line in cost.lines
    )


def capacity_lines(found: Served, workload: Workload) -> Receipt:
    """What the setup serves, how that is known and how far off it may be."""
    head = (
        ReceiptLine(name="capacity", value=found.requests_per_month, unit="requests/month", source=found.source or found.reason),
        ReceiptLine(name="known by", value=found.kind or "unknown"),
        ReceiptLine(name="error factor", value=found.error_factor, formula="truth within figure / factor .. figure * factor"),
    )
    if found.capacity is None:
        return head
    rate = found.capacity.throughput
    return (
        *head,
        ReceiptLine(name="requests at once", value=found.capacity.concurrency, source=f"limited by {found.capacity.limited_by}"),
        ReceiptLine(
            name="output rate",
            value=f"{rate.output_tok_s:,.1f}",
            unit="tokens/s",
            formula=f"requests/month = rate / {max(1, workload.mix.output):,} output tokens * 3600 * 730",
            source=rate.note or (f"measured {rate.measured}" if rate.measured else ""),
        ),
        *rate.receipt,
    )


def _exchange(currency: str, rate: Decimal, day: date | None) -> Receipt:
    if currency == "USD":
        return ()
    return (ReceiptLine(name="exchange rate", value=rate, unit=f"{currency}/USD", source=f"ECB reference rates of {day}"),)


def _validity(rate: TokenRate) -> Receipt:
    span = [f"{word} {moment:%Y-%m-%d %H:%M} UTC" for word, moment in (("from", rate.valid_from), ("until", rate.valid_to)) if moment]
    return (ReceiptLine(name="in force", value=" ".join(span)),) if span else ()


def _sighting(value: GpuOffer | TokenRate, listed: Listed[GpuOffer] | Listed[TokenRate] | None, read: Readings) -> Receipt:
    state = "" if listed is None else "fresh" if listed.fresh else "stale"
    origin = value.source if listed is None else f"{listed.origin}, imported" if listed.imported else listed.origin
    which = read.get((value.source, value.seen_at), "")
    seen = ReceiptLine(name="last seen", value=f"{value.seen_at:%Y-%m-%d %H:%M} UTC", unit=state, source=which or value.source)
    return (ReceiptLine(name="told by", value=origin, source=value.source_url), seen)


def _listed(entries: Entries[Value], value: Value) -> Listed[Value] | None:
    """The book's entry of an offer or rate: who told it, and whether it is fresh."""
    told = entries.of(row for row in entries.rows if row[SOURCE] == value.source)
    return next((entry for entry in told if entry.value == value), None)


def _conditions(rate: TokenRate) -> str:
    when, parts = rate.conditions, []
    if when.min_prompt_tokens:
        parts.append(f"prompts {'of at least' if when.tier_inclusive else 'above'} {when.min_prompt_tokens:,} tokens")
    if when.hours_utc:
        parts.append(f"{when.hours_utc} UTC")
    if when.weekdays:
        parts.append(f"on weekdays {when.weekdays}")
    return "".join(f", {part}" for part in parts)


def _shares(workload: Workload, choice: RateChoice) -> Receipt:
    lines = []
    if workload.batch_share:
        priced = "at batch prices" if choice.bill.batch_priced else "no batch price known: the standard price, an upper bound"
        lines.append(ReceiptLine(name="share of batch", value=workload.batch_share, source=priced))
    if workload.cold_start_share:
        cold = "their cached tokens are written where the mix writes, else input"
        lines.append(ReceiptLine(name="share of cold starts", value=workload.cold_start_share, formula=cold))
    return tuple(lines)


def _bound(cost: Cost) -> str:
    return f"upper bound: no price for {', '.join(cost.missing)}" if cost.upper_bound and cost.missing else ""


def _price(price: Decimal | None) -> str:
    """A price without the digits of a quotient that does not end."""
    if price is None:
        return "?"
    places = min(PRICE_PLACES, max(0, -int(price.as_tuple().exponent)))
    return f"{price.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_EVEN):f}"


def _count(tokens: Decimal) -> str:
    return f"{tokens:,.0f}" if tokens == tokens.to_integral_value() else f"{tokens:,f}"
