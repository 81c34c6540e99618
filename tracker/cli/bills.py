"""``bill``: what a workload costs at each provider of a model, a request and a month, by token kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal
from typing import Annotated, Any

import typer

from engine.bills import Cost
from engine.workloads import Workload
from tracker.answers.billing import Bills, ProviderBill, bills
from tracker.answers.explain import Section, cost_lines, explain_rate, readings
from tracker.book.book import Book
from tracker.cli.answers import Model, WorkloadName, book_of
from tracker.cli.receipts import Explain, print_sections
from tracker.cli.session import Json, Session, print_json, print_table, say, session
from tracker.cli.values import amount, known_words
from tracker.database.handle import reading
from tracker.errors import BreakevenError
from tracker.plain import plain
from tracker.present import age, money

MICRO = Decimal("0.000001")  # a request is shown to the millionth of a dollar
NONE = "-"
Requests = Annotated[
    Decimal | None, typer.Option("--requests", parser=amount, metavar="N", help="Requests a month; default: the workload's.")
]
Providers = Annotated[str, typer.Option("--provider", help="Only these providers, with commas.")]
Skus = Annotated[str, typer.Option("--sku", help="Price lists: standard, highspeed, batch, ... with commas; default from tracker.toml.")]
Cold = Annotated[
    Decimal | None,
    typer.Option(
        "--cold-share", parser=amount, metavar="SHARE", help="Share of requests that open a session, 0..1; default: the workload's."
    ),
]


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(bill)


def bill(
    model: Model,
    requests: Requests = None,
    workload: WorkloadName = "",
    provider: Providers = "",
    sku: Skus = "",
    cold_share: Cold = None,
    explain: Explain = False,
    as_json: Json = False,
) -> None:
    """A request and a month at each provider's rates: by token kind, without caching, in batch, opening a session."""
    here = session()
    spec = here.world.model(model)
    asked = _workload(here.world.workload(workload), requests, cold_share)
    book = book_of(here)
    known = [entry.value for entry in book.rates_of(spec.id)]
    spelled = ",".join(here.world.provider_ids.get(word.strip(), word.strip()) for word in provider.split(","))
    providers = known_words(spelled, sorted({rate.provider for rate in known}), f"provider of {spec.id}")
    skus = known_words(sku, sorted({rate.sku for rate in known}), f"price list of {spec.id}") or here.world.settings.track.skus
    found = bills(here.world, book, spec, asked, skus, frozenset(providers) or None)
    sections = sections_of(here, book, found) if explain else ()
    if as_json:
        print_json({"at": here.now, **bills_facts(found), **({"explain": sections} if explain else {})})
        return
    if not found.rows:
        raise SystemExit(_nothing(found))
    _print(found, here)
    print_sections(sections)


def _workload(asked: Workload, requests: Decimal | None, cold_share: Decimal | None) -> Workload:
    if requests is not None and requests <= 0:
        raise BreakevenError(f"--requests must be above 0, got {requests}")
    if cold_share is not None and cold_share > 1:
        raise BreakevenError(f"--cold-share must be 0..1, got {cold_share}")
    asked = asked if requests is None else replace(asked, requests_per_month=requests)
    return asked if cold_share is None else replace(asked, cold_start_share=cold_share)


def _nothing(found: Bills) -> int:
    say(f"{found.model.name}: no API rate in the book")
    for line in _unranked(found):
        say(line)
    return 1


def usd(value: Decimal | None) -> str:
    """A small amount without its trailing zeros, at least to the cent: $0.12, $0.048; "?" where unknown."""
    if value is None:
        return "?"
    text = f"{value.quantize(MICRO, rounding=ROUND_HALF_UP):,f}"
    whole, _, part = text.partition(".")
    return f"${whole}.{part.rstrip('0').ljust(2, '0')}"


def _print(found: Bills, here: Session) -> None:
    asked = found.workload
    mix = " + ".join(f"{tokens:,} {kind}" for kind, tokens in asked.mix.by_kind() if tokens)
    say(f"{found.model.name}, {asked.id}: {mix} tokens a request, {asked.requests_per_month:,f} requests a month")
    shown = found.official or found.rows[0]
    for line in _summary(shown, found, here):
        say(line)
    _print_kinds(shown)
    header = ("provider", "sku", "region", "$/request", "$/month", "without caching", "caching saves", "all in batch", "$/Mtok", "seen", "")
    cells = [_provider_cells(row, found, here) for row in found.rows]
    print_table(header, cells, numbers=range(3, 9), title="price lists, cheapest first")
    if found.spread_usd_per_mtok is not None and len(cells) > 1:
        say(f"cheapest to dearest: {usd(found.spread_usd_per_mtok)} per Mtok of the mix apart")
    for line in _unranked(found):
        say(line)


def _summary(row: ProviderBill, found: Bills, here: Session) -> Iterator[str]:
    rate, month = row.choice.rate, row.choice.bill
    who = f"{rate.provider} {rate.source_model}{' (official)' if row is found.official else ''}"
    bound = "; an upper bound" if month.cost.upper_bound else ""
    stale = "" if found.fresh else f"; stale: last seen {age(here.now - rate.seen_at)} ago"
    yield f"{who}: {usd(month.per_request)} a request, ${money(row.choice.usd_per_month)} a month{bound}{stale}"
    if month.without_caching.amount is not None and month.saving is not None:
        yield f"without caching ${money(month.without_caching.amount)} a month: caching saves ${money(month.saving)}"
    if row.batch is not None and row.batch.cost.amount is not None:
        yield f"all in batch ${money(row.batch.cost.amount)} a month"
    cold = found.workload.cold_start_share
    yield f"a request that opens a session {usd(row.cold_request.amount)}; {cold:.0%} of the requests do"


def _print_kinds(row: ProviderBill) -> None:
    month = row.choice.bill.cost
    each = {line.kind: line for line in row.request.lines}
    cells = [
        (
            line.kind,
            f"{each[line.kind].tokens:,.0f}" if line.kind in each else NONE,
            usd(line.price_per_mtok),
            usd(each[line.kind].amount) if line.kind in each else NONE,
            f"{line.tokens:,.0f}",
            "?" if line.amount is None else money(line.amount),
            "the input price: it has none of its own" if line.assumed else "",
        )
        for line in month.lines
    ]
    header = ("token kind", "tokens/request", "$/Mtok", "$/request", "tokens/month", "$/month", "")
    print_table(header, cells, numbers=range(1, 6), title=f"by token kind at {row.choice.rate.provider}")


def _provider_cells(row: ProviderBill, found: Bills, here: Session) -> tuple[str, ...]:
    choice, month = row.choice, row.choice.bill
    amounts = (month.cost.amount, month.without_caching.amount, month.saving, row.batch.cost.amount if row.batch else None)
    notes = ("official" if row is found.official else "", "upper bound" if month.cost.upper_bound else "", "" if found.fresh else "stale")
    return (
        choice.rate.provider,
        choice.rate.sku,
        choice.rate.region,
        usd(month.per_request),
        *(NONE if value is None else money(value) for value in amounts),
        f"{choice.usd_per_mtok:.4f}",
        age(here.now - choice.rate.seen_at),
        ", ".join(note for note in notes if note),
    )


def _unranked(found: Bills) -> Iterator[str]:
    for other in found.unranked:
        yield f"not {other.rate.provider} {other.rate.source_model}: {other.reason}"


def sections_of(here: Session, book: Book, found: Bills) -> tuple[Section, ...]:
    """Every price list that is shown, as printed, with what a request and the month come to."""
    rates = [rate for row in found.rows for rate in row.choice.card.rates]
    with reading(here.db) as connection:
        read = readings(connection, [(rate.source, rate.seen_at) for rate in rates])
    parts: list[Section] = []
    for row in found.rows:
        parts += explain_rate(row.choice, found.workload, book, read)
        parts.append(Section(title=f"one request at {row.choice.rate.provider}", lines=cost_lines(row.request)))
    return tuple(parts)


def bills_facts(found: Bills) -> dict[str, Any]:
    """The bills as JSON values."""
    return {
        "model": found.model.id,
        "workload": found.workload.id,
        "requests_per_month": plain(found.workload.requests_per_month),
        "tokens_per_request": dict(found.workload.mix.by_kind()),
        "cold_start_share": plain(found.workload.cold_start_share),
        "fresh": found.fresh,
        "bills": [_bill_facts(row, found) for row in found.rows],
        "spread_usd_per_mtok": plain(found.spread_usd_per_mtok),
        "unranked": [{"provider": u.rate.provider, "source_model": u.rate.source_model, "reason": u.reason} for u in found.unranked],
    }


def _bill_facts(row: ProviderBill, found: Bills) -> dict[str, Any]:
    choice, month = row.choice, row.choice.bill
    return {
        "provider": choice.rate.provider,
        "sku": choice.rate.sku,
        "region": choice.rate.region,
        "source": choice.rate.source,
        "official": row is found.official,
        "seen_at": plain(choice.rate.seen_at),
        "prices": plain(choice.prices),
        "request": _cost_facts(row.request),
        "cold_request": _cost_facts(row.cold_request),
        "uncached_request": _cost_facts(row.uncached_request),
        "usd_per_request": plain(month.per_request),
        "month": _cost_facts(month.cost),
        "without_caching_usd": plain(month.without_caching.amount),
        "caching_saves_usd": plain(month.saving),
        "batch_usd": None if row.batch is None else plain(row.batch.cost.amount),
        "usd_per_mtok": plain(choice.usd_per_mtok),
    }


def _cost_facts(cost: Cost) -> dict[str, Any]:
    return {"usd": plain(cost.amount), "upper_bound": cost.upper_bound, "missing": list(cost.missing), "by_kind": plain(cost.lines)}
