"""``cheapest``, ``breakeven``, ``offers`` and ``rates``."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer

from engine.candidates import Setup
from engine.offers import TIERS, TRUSTS
from engine.verdicts import billions
from tracker.answers.explain import Section, explain_answer, readings, seen_by
from tracker.answers.questions import Question, default_question
from tracker.answers.recompute import Sizer, answer
from tracker.answers.snapshot import ModelAnswer
from tracker.book.book import Book, Listed, read_book
from tracker.book.offer_search import by_price
from tracker.book.row_fields import GPU, PROVIDER, TIER
from tracker.book.stated import with_overrides
from tracker.cli.receipts import Explain, print_receipt, print_sections
from tracker.cli.session import Json, Session, print_json, print_table, say, session
from tracker.cli.values import context_tokens, known_words
from tracker.database.handle import reading
from tracker.errors import UnknownName, did_you_mean
from tracker.present import age, capacity_text, money, row, setup_text
from tracker.web.app import answer_facts, listed_facts

Model = Annotated[str, typer.Argument(help="Id of a model: a file of config/models.")]
WorkloadName = Annotated[str, typer.Option("--workload", help="A table of workloads.toml; default from tracker.toml.")]
PolicyName = Annotated[
    str,
    typer.Option(
        "--policy", help="Memory policy: studiotv, swfte, canitrun, recipe; with @NAME over the offers of that name in tracker.toml."
    ),
]
Context = Annotated[
    int,
    typer.Option(
        "--context", parser=context_tokens, metavar="TOKENS", help="Tokens a session may hold: 8192, 8k, 1M; default: the workload's."
    ),
]
Sessions = Annotated[int, typer.Option("--sessions", help="Sessions that must fit at once; default from tracker.toml.", min=0)]
Tiers = Annotated[str, typer.Option("--tier", help="on_demand, spot, reserved; several with commas.")]
Trusts = Annotated[str, typer.Option("--trust", help="datacenter, verified, community, unverified; several with commas.")]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command()(cheapest)
    app.command()(breakeven)
    app.command()(offers)
    app.command()(rates)


def cheapest(
    model: Model,
    workload: WorkloadName = "",
    policy: PolicyName = "",
    context: Context = 0,
    sessions: Sessions = 0,
    tier: Tiers = "",
    trust: Trusts = "",
    explain: Explain = False,
    as_json: Json = False,
) -> None:
    """The cheapest setup that holds a model, and the best on every GPU."""
    here, book, found = _answer(model, workload, policy, context, sessions, tier, trust)
    if as_json:
        print_json({"at": here.now, **answer_facts(found), "indicative": _indicative(found), **_explained(here, book, found, explain)})
        return
    if found.setup is None:
        raise SystemExit(_nothing(found))
    stale = "" if found.setup_fresh else f"; stale: last seen {age(here.now - found.setup.seen_at)} ago"
    price = f"${money(found.setup.usd_per_hour)}/h, ${money(found.setup.usd_per_month)} a month"
    say(f"{found.model.name}: {price}: {setup_text(found.setup)}{stale}")
    lines = [_setup_cells(setup, here) for setup in found.per_gpu]
    print_table(
        ("gpus", "format", "$/h", "$/month", "provider", "sku", "region", "seen", ""),
        lines,
        numbers=(2, 3),
        title="best buyable setup on each GPU",
    )
    if found.indicative is not None:
        price = money(found.indicative.usd_per_hour)
        say(f"indicative (GPUs x lowest price per GPU, not one offer): ${price}/h, {setup_text(found.indicative)}")
    for loser in found.fresh.rejected[:5] if found.setup_fresh else ():
        say(f"not {loser.gpu_count} x {loser.gpu} {loser.weight_format}: {loser.reason}")
    if explain:
        print_sections(sections_of(here, book, found))


def sections_of(here: Session, book: Book, found: ModelAnswer) -> tuple[Section, ...]:
    """Every figure of the answer back to the printed prices."""
    with reading(here.db) as connection:
        return explain_answer(found, book, here.world.catalogue, readings(connection, seen_by(found)))


def _explained(here: Session, book: Book, found: ModelAnswer, explain: bool) -> dict[str, Any]:
    return {"explain": sections_of(here, book, found)} if explain else {}


def _indicative(found: ModelAnswer) -> dict[str, Any] | None:
    setup = found.indicative
    return (
        None
        if setup is None
        else {
            "gpu": setup.gpu,
            "gpu_count": setup.gpu_count_needed,
            "usd_per_hour": setup.usd_per_hour,
            "usd_per_month": setup.usd_per_month,
        }
    )


def _setup_cells(setup: Setup, here: Session) -> tuple[str, ...]:
    offer = setup.offer
    machines = f"{setup.machines} machines" if setup.machines > 1 else ""
    notes = ", ".join(part for part in (machines, "tight" if setup.fit.tight else "") if part)
    return (
        f"{setup.gpu_count_rented} x {setup.gpu}", setup.weight_format, money(setup.usd_per_hour), money(setup.usd_per_month),
        offer.provider, offer.sku, offer.region, age(here.now - setup.seen_at), notes,
    )  # fmt: skip


def breakeven(
    model: Model,
    workload: WorkloadName = "",
    policy: PolicyName = "",
    context: Context = 0,
    sessions: Sessions = 0,
    tier: Tiers = "",
    trust: Trusts = "",
    explain: Explain = False,
    as_json: Json = False,
) -> None:
    """The volume at which renting the cheapest setup equals paying the cheapest API, with every input."""
    here, book, found = _answer(model, workload, policy, context, sessions, tier, trust)
    if as_json:
        print_json({"at": here.now, **answer_facts(found), **_explained(here, book, found, explain)})
        return
    if found.setup is None or found.rate is None or found.break_even is None or found.verdict is None:
        raise SystemExit(_nothing(found))
    point = found.break_even
    volume = f"{billions(point.tokens)} tokens a month" if point.tokens is not None else "never"
    requests = "" if point.requests is None else f" ({point.requests:,.0f} requests)"
    say(f"{found.model.name}: break-even {volume}{requests}, {point.status}; verdict: {row(found, here.now).verdict}")
    say(f"{found.verdict.reason}; the setup serves {capacity_text(found)}")
    rate = found.rate.rate
    say(f"rent: {setup_text(found.setup)}, {row(found, here.now).age}")
    say(f"API: {rate.provider} {rate.source_model} at ${found.rate.usd_per_mtok:.4f} per Mtok of the mix, from {rate.source}")
    if explain:
        print_sections(sections_of(here, book, found))
    else:
        print_receipt(point.receipt)


def _nothing(found: ModelAnswer) -> int:
    say(f"{found.model.name}: no answer: {found.why_not}")
    for loser in found.fresh.rejected[:5]:
        say(f"  {loser.gpu_count} x {loser.gpu} {loser.weight_format}: {loser.reason}")
    return 1


def _answer(
    model: str, workload: str, policy: str, context: int, sessions: int, tier: str, trust: str
) -> tuple[Session, Book, ModelAnswer]:
    here = session()
    spec = here.world.model(model)
    question = question_of(here, workload, policy, context, sessions, tier, trust)
    book = book_of(here)
    return here, book, answer(here.world, Sizer(here.world), book, spec, question)


def question_of(here: Session, workload: str, policy: str, context: int, sessions: int, tier: str, trust: str) -> Question:
    """What is asked, with the defaults of ``tracker.toml`` where an option is left out."""
    asked = default_question(here.world, workload, policy)
    need = replace(asked.need, context=context or asked.need.context, sessions=sessions or asked.need.sessions)
    tiers: tuple[Any, ...] = known_words(tier, TIERS, "tier")
    trusts: tuple[Any, ...] = known_words(trust, TRUSTS, "trust")
    allowed = replace(asked.offers, tiers=tiers or asked.offers.tiers, trusts=trusts or asked.offers.trusts)
    return replace(asked, need=need, offers=allowed)


def book_of(here: Session) -> Book:
    """The book as it is now."""
    with reading(here.db) as connection:
        book = read_book(connection, here.now, here.world.config.sources)
    return with_overrides(book, here.world.overrides, here.world.settings.track.rate_sources)


def offers(
    gpu: Annotated[str, typer.Option(help="Only this GPU.")] = "",
    provider: Annotated[str, typer.Option(help="Only this provider.")] = "",
    tier: Tiers = "",
    limit: Annotated[int, typer.Option(help="At most so many; 0 is all.", min=0)] = 50,
    as_json: Json = False,
) -> None:
    """Rental offers of the book, cheapest per GPU first."""
    here = session()
    wanted, tiers = (here.world.gpu(gpu) if gpu else ""), known_words(tier, TIERS, "tier")
    book = book_of(here).offers
    listed = [row for row in book.rows if wanted in ("", row[GPU]) and (not tiers or row[TIER] in tiers)]
    providers = sorted({row[PROVIDER] for row in listed})
    if provider and provider not in providers:
        raise UnknownName(f"no offer of provider {provider!r}{did_you_mean(provider, providers)}; there are {', '.join(providers)}")
    found = by_price((row for row in listed if provider in ("", row[PROVIDER])), book.reading)
    shown = [book.reading.listed(row) for row in (found[:limit] if limit else found)]
    if as_json:
        print_json([listed_facts(entry) for entry in shown])
        return
    header = ("gpus", "$/GPU-h", "$/h", "native", "tier", "trust", "stock", "provider", "sku", "region", "seen", "")
    print_table(header, [_offer_cells(entry, here) for entry in shown], numbers=(1, 2, 3), title=f"{len(shown)} of {len(found)} offers")


def _offer_cells(entry: Listed[Any], here: Session) -> tuple[str, ...]:
    offer = entry.value
    count = f"{offer.gpu_count}" if offer.max_gpu_count in (None, offer.gpu_count) else f"{offer.gpu_count}-{offer.max_gpu_count}"
    return (
        f"{count} x {offer.gpu}", f"{offer.usd_per_gpu_hour:.4f}", money(offer.usd_per_hour), f"{offer.native_per_hour:f} {offer.currency}",
        offer.tier, offer.trust, offer.availability, offer.provider, offer.sku, offer.region, age(here.now - offer.seen_at), _state(entry),
    )  # fmt: skip


def _state(entry: Listed[Any]) -> str:
    parts = (("slice", entry.is_slice), ("stale", not entry.fresh), (f"book: {entry.origin}", entry.imported))
    return ", ".join(word for word, holds in parts if holds)


def rates(
    model: Model, announced: Annotated[bool, typer.Option("--announced", help="Those that start later.")] = False, as_json: Json = False
) -> None:
    """API token rates of a model in force now, per million tokens."""
    here = session()
    spec, book = here.world.model(model), book_of(here)
    found = list(book.announced_of(spec.id) if announced else book.rates_of(spec.id))
    found.sort(key=lambda r: (r.value.provider, r.value.sku, r.value.region, r.value.conditions.min_prompt_tokens, r.value.source))
    if as_json:
        print_json([listed_facts(entry) for entry in found])
        return
    header = (
        "provider",
        "sku",
        "region",
        "input",
        "cached",
        "write 5m",
        "write 1h",
        "output",
        "currency",
        "conditions",
        "source",
        "seen",
        "",
    )
    print_table(
        header, [_rate_cells(entry, here) for entry in found], numbers=(3, 4, 5, 6, 7), title=f"{spec.name}: {len(found)} rates per Mtok"
    )


def _rate_cells(entry: Listed[Any], here: Session) -> tuple[str, ...]:
    rate, native = entry.value, entry.value.native
    prices = (native.input, native.cache_read, native.cache_write_5m, native.cache_write_1h, native.output)
    when = rate.conditions
    conditions = " ".join(
        part
        for part in (
            f">{when.min_prompt_tokens:,} tokens" if when.min_prompt_tokens else "",
            when.hours_utc,
            f"days {when.weekdays}" if when.weekdays else "",
        )
        if part
    )
    return (
        rate.provider, rate.sku, rate.region, *("?" if price is None else f"{price:f}" for price in prices), rate.currency, conditions,
        entry.origin, age(here.now - rate.seen_at), _state(entry),
    )  # fmt: skip
