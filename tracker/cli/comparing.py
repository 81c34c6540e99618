"""``compare``: two models side by side, from the catalogue alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Annotated, Any

import typer

from engine.candidates import FOUR_BIT
from engine.compare import CachePoint, Holding, Total, cache_curve, holdings, totals, verdict_sentence
from engine.facts import MissingFact
from engine.fits import Fit, Need
from engine.models import ModelSpec
from engine.policies import FitPolicy
from engine.units import gb
from tracker.answers.size_report import fit_facts, sized
from tracker.answers.sizes import counted_formats, ordered_formats
from tracker.cli.session import Json, print_json, print_table, say, world
from tracker.cli.sizing import NONE, Cache, Contexts, Formats, Policy, cache_format, heading, licence_text, sizes_text
from tracker.cli.values import context_label, context_list, known_words
from tracker.plain import plain
from tracker.world import World

CURVE = tuple(1024 * k for k in (8, 32, 128, 256, 512, 1024))


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Both models under one policy: totals at the first context, caches over all of them, and who holds which."""

    first: ModelSpec
    second: ModelSpec
    policy: FitPolicy
    need: Need
    contexts: tuple[int, ...]
    totals: tuple[Total, ...]
    curve: tuple[CachePoint, ...]
    holdings: tuple[Holding, ...]
    max_gpus: int

    @property
    def native(self) -> Total:
        """Each in its own format."""
        return self.totals[-1]


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(compare)


def compare(
    first: Annotated[str, typer.Argument(help="Id of a model.")],
    second: Annotated[str, typer.Argument(help="Id of the other one.")],
    context: Contexts = "",
    cache: Cache = "bf16",
    weight_format: Formats = "",
    max_gpus: Annotated[int, typer.Option("--max-gpus", help="GPUs of one machine, for who holds which.", min=1)] = 8,
    policy: Policy = "",
    as_json: Json = False,
) -> None:
    """Two models: totals by format, KV cache over contexts, GPUs that hold only one of them, and a sentence."""
    here = world()
    formats = known_words(weight_format, here.catalogue.formats, "weight format")
    need = Need(cache_format=cache_format(cache))
    found = comparison(here, first, second, here.policy(policy), need, context_list(context, ()), formats, max_gpus)
    if as_json:
        print_json(comparison_facts(found))
    else:
        _print(found)


def comparison(
    here: World,
    first: str,
    second: str,
    policy: FitPolicy,
    need: Need,
    contexts: tuple[int, ...] = (),
    formats: Sequence[str] = (),
    max_gpus: int = 8,
) -> Comparison:
    """Both models over the formats (all where none is named); who holds which counts formats of 4 bit and more unless named."""
    one, two, known = here.model(first), here.model(second), here.catalogue
    widest = max(one.context or CURVE[-1], two.context or CURVE[-1])
    contexts = contexts or tuple(tokens for tokens in CURVE if tokens <= widest) or (widest,)
    need = Need(context=contexts[0], cache_format=need.cache_format)
    own = {one.native_format, two.native_format}
    every = ordered_formats(one, counted_formats(known.formats.values(), policy, own | set(formats)))
    rows = totals(one, two, every, need, policy)
    return Comparison(
        first=one,
        second=two,
        policy=policy,
        need=need,
        contexts=contexts,
        totals=tuple(row for row in rows if row.weight_format is None or not formats or row.weight_format in formats),
        curve=_curve(one, two, contexts, need, policy),
        holdings=_holdings(here, one, two, need, policy, formats, max_gpus),
        max_gpus=max_gpus,
    )


def _curve(one: ModelSpec, two: ModelSpec, contexts: tuple[int, ...], need: Need, policy: FitPolicy) -> tuple[CachePoint, ...]:
    try:
        return cache_curve(one, two, contexts, need, policy)
    except MissingFact:
        return ()


def _holdings(
    here: World, one: ModelSpec, two: ModelSpec, need: Need, policy: FitPolicy, formats: Sequence[str], max_gpus: int
) -> tuple[Holding, ...]:
    """Who fits where, each model in the formats the policy counts for it."""
    known, gpus = here.catalogue.formats, tuple(here.catalogue.gpus.values())
    found = []
    for model in (one, two):
        able = counted_formats(known.values(), policy, {model.native_format})
        held = [known[name] for name in formats] or [form for form in able if form.fidelity >= FOUR_BIT]
        found.append(holdings(model, model, gpus, held, need, policy, max_gpus))
    return tuple(Holding(gpu=a.gpu, first=a.first, second=b.second) for a, b in zip(*found, strict=True))


def sentences(found: Comparison) -> tuple[str, ...]:
    """What the numbers say: weight, cache at the longest context both reach, and on what each fits."""
    weights = verdict_sentence(found.first, found.second, found.native)
    only = [len([h for h in found.holdings if _held(h) == who]) for who in (found.first.id, found.second.id)]
    fits = f"{found.first.name} alone fits {only[0]} GPUs with at most {found.max_gpus} of them, {found.second.name} alone {only[1]}"
    return tuple(text for text in (f"in their own formats {weights}" if weights else "", _cache_sentence(found), fits) if text)


def _cache_sentence(found: Comparison) -> str:
    reach = [point for point in found.curve if _reaches(found.first, point.tokens) and _reaches(found.second, point.tokens)]
    if not reach or not (reach[-1].first_bytes and reach[-1].second_bytes):
        return ""
    last = reach[-1]
    sides = sorted(((last.first_bytes, found.first.name), (last.second_bytes, found.second.name)))
    (low, light), (high, heavy) = sides
    times = Decimal(high) / low
    return (
        f"at {context_label(last.tokens)} tokens the cache of {heavy} is {gb(high):,.1f} GB, of {light} {gb(low):,.1f} GB: "
        f"{times:.1f} times as much"
    )


def _reaches(model: ModelSpec, tokens: int) -> bool:
    return model.context is None or tokens <= model.context


def _held(holding: Holding) -> str:
    """The one model the GPU holds; "" for both or neither."""
    if (holding.first is None) == (holding.second is None):
        return ""
    found = holding.first or holding.second
    return found.model if found else ""


def percent_text(percent: Decimal | None) -> str:
    """How much larger the first is: +241 %."""
    return "?" if percent is None else f"{percent.quantize(Decimal(1), rounding=ROUND_HALF_UP):+,} %"


def _print(found: Comparison) -> None:
    one, two = found.first, found.second
    say(heading(one))
    say(heading(two))
    for sentence in sentences(found):
        say(sentence)
    print_table(("", one.name, two.name), list(_specification(one, two)), title="facts")
    at = context_label(found.need.context)
    header = ("format", f"{one.name} GiB / GB", f"{two.name} GiB / GB", "difference")
    print_table(
        header, list(_totals(found)), numbers=(1, 2, 3), title=f"weights and one session of {at} tokens (policy {found.policy.name})"
    )
    if found.curve:
        title = "KV cache of one session, GiB / GB"
        print_table(("context", one.name, two.name), list(_points(found)), numbers=(1, 2), title=title)
    else:
        say("KV cache: not known for both")
    for text in _holders(found):
        say(text)


def _specification(one: ModelSpec, two: ModelSpec) -> Iterator[tuple[str, ...]]:
    yield ("organisation", one.organisation, two.organisation)
    yield ("modalities", ", ".join(one.modalities), ", ".join(two.modalities))
    yield ("experts", *(f"{m.experts_per_token} of {m.experts}" if m.experts else "dense" for m in (one, two)))
    yield ("licence", *(licence_text(model) for model in (one, two)))
    for kind in sorted({*one.dates, *two.dates}):
        yield (f"date: {kind.replace('_', ' ')}", *(str(model.dates.get(kind, "?")) for model in (one, two)))
    for name in sorted({*one.benchmarks, *two.benchmarks}):
        yield (name, *(model.benchmarks.get(name, "?") for model in (one, two)))


def _totals(found: Comparison) -> Iterator[tuple[str, ...]]:
    own = f"native: {found.first.native_format}, {found.second.native_format}"
    for row in found.totals:
        yield (row.weight_format or own, sizes_text(row.first_bytes), sizes_text(row.second_bytes), percent_text(row.percent))


def _points(found: Comparison) -> Iterator[tuple[str, ...]]:
    for point in found.curve:
        sides = ((found.first, point.first_bytes), (found.second, point.second_bytes))
        yield (context_label(point.tokens), *(sizes_text(size, 2) if _reaches(m, point.tokens) else NONE for m, size in sides))


def _holders(found: Comparison) -> Iterator[str]:
    most = f"on at most {found.max_gpus} GPUs"
    for model in (found.first, found.second):
        held = [fit for h in found.holdings if _held(h) == model.id and (fit := h.first or h.second)]
        yield f"{most} only {model.name}: {', '.join(_fit_text(fit) for fit in held) or 'none'}"
    both = [f"{h.gpu} ({h.first.gpu_count} and {h.second.gpu_count})" for h in found.holdings if h.first and h.second]
    yield f"{most} both: {', '.join(both) or 'none'}"


def _fit_text(fit: Fit) -> str:
    return f"{fit.gpu_count} x {fit.gpu} {fit.weight_format}"


def comparison_facts(found: Comparison) -> dict[str, Any]:
    """The comparison as JSON values."""
    return {
        "models": [found.first.id, found.second.id],
        "policy": found.policy.name,
        "context": found.need.context,
        "cache_format": found.need.cache_format,
        "verdict": list(sentences(found)),
        "facts": {name: list(values) for name, *values in _specification(found.first, found.second)},
        "totals": [
            {
                "weight_format": row.weight_format or [found.first.native_format, found.second.native_format],
                "totals": [sized(row.first_bytes), sized(row.second_bytes)],
                "percent": plain(row.percent),
            }
            for row in found.totals
        ],
        "cache": [{"tokens": p.tokens, "caches": [sized(p.first_bytes), sized(p.second_bytes)]} for p in found.curve],
        "max_gpus": found.max_gpus,
        "gpus": [
            {"gpu": h.gpu, "only": _held(h) or None, "fits": [None if fit is None else fit_facts(fit) for fit in (h.first, h.second)]}
            for h in found.holdings
            if h.first or h.second
        ],
    }
