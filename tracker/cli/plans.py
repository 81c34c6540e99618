"""``plan``: how to serve a volume for the least money, and what would flip that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import groupby
from typing import Annotated, Any

import typer

from engine.envelope import Segment
from engine.plans import Plan
from engine.verdicts import billions
from tracker.answers.candidates import SPOT, Candidate
from tracker.answers.explain import Section, capacity_lines, explain_rate, explain_setup, readings
from tracker.answers.plan_facts import plan_facts
from tracker.answers.planning import PlanAnswer, plan_answer
from tracker.answers.questions import Question
from tracker.answers.recompute import Sizer, answer
from tracker.book.book import Book
from tracker.cli.answers import Context, Model, PolicyName, Sessions, Tiers, Trusts, WorkloadName, book_of, question_of
from tracker.cli.receipts import Explain, print_sections
from tracker.cli.session import Json, Session, print_json, print_table, say, session
from tracker.cli.values import amount, token_volume
from tracker.database.handle import reading
from tracker.errors import BreakevenError
from tracker.present import age, money

Volume = Annotated[
    Decimal | None,
    typer.Option("--tokens-per-month", parser=token_volume, metavar="TOKENS", help="Volume: 10e9, 500M, 10B; default: the workload's."),
]
UpTo = Annotated[
    Decimal | None,
    typer.Option("--up-to", parser=token_volume, metavar="TOKENS", help="Largest volume of the curve; default: twice as much."),
]
Loss = Annotated[
    Decimal,
    typer.Option(
        "--interruption-loss", parser=amount, metavar="SHARE", help="Share of spot hours paid and lost, such as 0.05; adds spot offers."
    ),
]
Use = Annotated[
    Decimal | None,
    typer.Option(
        "--utilization", parser=amount, metavar="SHARE", help="Most of a replica's capacity any hour uses, 0..1; default: the workload's."
    ),
]
Fixed = Annotated[
    Decimal,
    typer.Option("--fixed", parser=amount, metavar="USD", help="USD a month paid once where anything is self-hosted: people, standby."),
]
WORDS = {"api": "API only", "self_host": "self-host", "hybrid": "base + API overflow"}
SHOWN = 10  # lines of a table; --json has them all


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(plan)


def plan(
    model: Model,
    tokens_per_month: Volume = None,
    workload: WorkloadName = "",
    policy: PolicyName = "",
    context: Context = 0,
    sessions: Sessions = 0,
    tier: Tiers = "",
    trust: Trusts = "",
    interruption_loss: Loss = Decimal(0),
    utilization: Use = None,
    fixed: Fixed = Decimal(0),
    up_to: UpTo = None,
    explain: Explain = False,
    as_json: Json = False,
) -> None:
    """API only, replicas of one's own, or both: the cheapest for a volume, over volume, and what flips the verdict."""
    here = session()
    spec = here.world.model(model)
    question = _question(question_of(here, workload, policy, context, sessions, tier, trust), utilization, interruption_loss)
    book, sizer = book_of(here), Sizer(here.world)
    found = answer(here.world, sizer, book, spec, question)
    volume = question.workload.tokens_per_month if tokens_per_month is None else tokens_per_month
    if volume <= 0 or (up_to is not None and up_to <= 0):
        raise BreakevenError("a volume must be above 0 tokens a month")
    planned = plan_answer(
        here.world,
        sizer,
        book,
        found,
        question,
        volume,
        fixed_usd_per_month=fixed,
        interruption_loss=interruption_loss,
        up_to_tokens=up_to,
    )
    sections = sections_of(here, book, planned) if explain else ()
    if as_json:
        print_json({"at": here.now, **plan_facts(planned), **({"explain": sections} if explain else {})})
        return
    if planned.best is None:
        raise SystemExit(_nothing(planned))
    _print(planned, here)
    print_sections(sections)


def _question(asked: Question, utilization: Decimal | None, interruption_loss: Decimal) -> Question:
    if SPOT in asked.offers.tiers and not interruption_loss:
        raise BreakevenError("spot machines are interrupted: state the share of paid hours that is lost, such as --interruption-loss 0.05")
    if interruption_loss >= 1:
        raise BreakevenError(f"--interruption-loss must be below 1, got {interruption_loss}")
    if utilization is None:
        return asked
    if not 0 < utilization <= 1:
        raise BreakevenError(f"--utilization must be above 0 and at most 1, got {utilization}")
    return replace(asked, workload=replace(asked.workload, utilization=utilization))


def _nothing(planned: PlanAnswer) -> int:
    say(f"{planned.answer.model.name}: no plan: {planned.answer.why_not or 'no setup has a known capacity'}")
    for reason in planned.not_planned[:SHOWN]:
        say(f"  {reason}")
    return 1


def _print(planned: PlanAnswer, here: Session) -> None:
    found, best = planned.answer, planned.best
    assert best is not None
    tokens = planned.tokens_per_month
    requests = tokens / found.workload.mix.total
    say(f"{found.model.name}, {billions(tokens)} tokens a month ({requests:,.0f} requests of {found.workload.id}): {best.reason}")
    for line in _remarks(planned, here):
        say(line)
    header = ("plan", "replicas", "rental", "own share", "$/month", "capacity of a replica, requests/month")
    rows = [_plan_cells(one, planned) for one in planned.plans[:SHOWN]]
    print_table(header, rows, numbers=(1, 3, 4), title=f"{len(rows)} cheapest of {len(planned.plans)} plans")
    _print_envelope(planned)
    for line in flip_lines(planned):
        say(line)


def _remarks(planned: PlanAnswer, here: Session) -> Iterator[str]:
    found = planned.answer
    if found.rate is None:
        yield "no API rate in the book: the API is left out"
    else:
        stale = "" if found.rate_fresh else f"; stale: last seen {age(here.now - found.rate.rate.seen_at)} ago"
        yield f"API: {found.rate.rate.provider} at ${found.rate.usd_per_mtok:.4f} per Mtok of {found.workload.id}{stale}"
    if not found.setup_fresh and planned.candidates:
        oldest = min(c.setup.seen_at for c in planned.candidates)
        yield f"rents are stale: last seen up to {age(here.now - oldest)} ago"
    if not planned.candidates:
        yield f"nothing to rent: {found.why_not or 'no setup has a known capacity'}"
    for word, plan_there in (("low", planned.low), ("upper", planned.high)):
        if plan_there is not None and planned.best is not None and plan_there.usd_per_month != planned.best.usd_per_month:
            yield f"at the {word} end of every capacity's error band: {plan_there.reason}"


def _plan_cells(one: Plan, planned: PlanAnswer) -> tuple[str, ...]:
    candidate = planned.candidate(one.rental)
    share = one.own_tokens / (one.own_tokens + one.api_tokens)
    tier = one.rental.tier if one.rental is not None and one.rental.tier != "on_demand" else ""
    parts = (one.rental.name if one.rental else "", tier, "one ask" if candidate is not None and candidate.once else "")
    return (
        WORDS[one.kind],
        f"{one.replicas or ''}",
        ", ".join(part for part in parts if part),
        f"{share:.1%}" if one.rental else "",
        money(one.usd_per_month),
        "" if candidate is None else _capacity_text(candidate),
    )


def _capacity_text(candidate: Candidate) -> str:
    served = candidate.served
    kind = f"estimate, x/÷ {served.error_factor:.1f}" if served.kind == "estimate" else f"{served.kind}"
    return f"{served.requests_per_month:,.0f} ({kind})"


def _print_envelope(planned: PlanAnswer) -> None:
    if not planned.segments:
        return
    header = ("tokens/month from", "to", "cheapest plan", "$/month from", "to")
    pieces = tuple(_pieces(planned.segments))
    rows = [_piece_cells(first, last) for first, last in pieces[:SHOWN]]
    title = "the cheapest plan over volume" + (f", the first {SHOWN} of {len(pieces)} pieces" if len(pieces) > SHOWN else "")
    print_table(header, rows, numbers=(0, 1, 3, 4), title=title)


def _pieces(segments: Sequence[Segment]) -> Iterator[tuple[Segment, Segment]]:
    """First and last segment of each run of one plan."""
    for _, run in groupby(segments, key=lambda segment: (segment.kind, segment.rental, segment.replicas)):
        parts = tuple(run)
        yield parts[0], parts[-1]


def _piece_cells(first: Segment, last: Segment) -> tuple[str, ...]:
    machines = "" if first.rental is None else f": {first.replicas} x {first.rental.name}"
    return (
        billions(first.from_tokens),
        billions(last.to_tokens),
        f"{WORDS[first.kind]}{machines}",
        money(first.from_usd),
        money(last.to_usd),
    )


def flip_lines(planned: PlanAnswer) -> Iterator[str]:
    """What would have to change for the verdict between the API alone and replicas alone to flip."""
    flips, pivot, verdict = planned.flips, planned.pivot, planned.verdict
    if flips is None or pivot is None or verdict is None:
        return
    side = {"api": "the API alone", "self_host": "renting alone", "unknown": "neither for sure"}[verdict.answer]
    yield f"{pivot.rental.name} against the API alone, everything served by one side: {side} is cheaper; {verdict.reason}"
    if flips.rent_usd_per_month is None or flips.rent_factor is None:
        yield "  no rent above 0 makes renting as cheap"
    else:
        gpu_hour = pivot.setup.offer.usd_per_gpu_hour * flips.rent_factor
        rent = f"${gpu_hour:.4f} a GPU-hour, ${money(flips.rent_usd_per_month)} a month a replica"
        yield f"  it flips at a GPU price of {rent}, {flips.rent_factor:.2f} x today's"
    factor = "" if flips.api_factor is None else f", {flips.api_factor:.2f} x today's"
    yield f"  it flips at an API price of ${flips.api_usd_per_mtok:.4f} per Mtok of the mix{factor}"
    if flips.utilization is None:
        yield "  no utilization makes renting cheaper at this volume"
    else:
        yield f"  renting wins from a utilization of {flips.utilization:.1%} up"


def sections_of(here: Session, book: Book, planned: PlanAnswer) -> tuple[Section, ...]:
    """The cheapest plan, its setup, its capacity and the API's rate, back to the printed prices."""
    found, best = planned.answer, planned.best
    parts: list[Section] = []
    if best is not None:
        parts.append(Section(title="cheapest plan", lines=best.receipt))
    candidate = planned.candidate(best.rental if best else None) or planned.pivot
    values: list[Any] = [candidate.setup.offer] if candidate else []
    values += found.rate.card.rates if found.rate else ()
    with reading(here.db) as connection:
        read = readings(connection, [(value.source, value.seen_at) for value in values])
    if candidate is not None:
        parts += explain_setup(candidate.setup, book, here.world.catalogue, read)
        parts.append(Section(title="capacity of a replica", lines=capacity_lines(candidate.served, found.workload)))
    if found.rate is not None:
        parts += explain_rate(found.rate, found.workload, book, read)
    if planned.break_even is not None:
        parts.append(Section(title="break-even of renting alone", lines=planned.break_even.receipt))
    return tuple(parts)
