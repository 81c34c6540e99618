"""``offload``: a model on one's own machine, over GPU, RAM and disk. Never ranked with rentals, which hold everything in GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Annotated

import typer

from engine.cache import cache_bytes
from engine.facts import MissingFact
from engine.formats import WeightFormat
from engine.gpus import Gpu
from engine.models import ModelSpec
from engine.offload import Place, Placement, place
from engine.policies import FitPolicy, offered_engines, usable_gpu_bytes
from engine.receipts import Receipt, ReceiptLine
from engine.traffic import answer_seconds, bandwidth_bytes_s
from engine.units import GB
from engine.weights import Weights, active_bytes, checkpoint_bytes, weight_bytes, weight_parts
from tracker.cli.downloads import duration
from tracker.cli.receipts import Explain, print_receipt
from tracker.cli.session import Json, print_json, print_table, say, world
from tracker.cli.sizing import Build, Cache, Model, Policy, cache_format, find_build, sizes_text
from tracker.cli.values import MOST_CONTEXT, amount, context_label, context_tokens, known_words
from tracker.world import World

NOTHING = Decimal(0)


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(offload)


def offload(
    model: Model,
    gpu: Annotated[str, typer.Option("--gpu", help="The GPU, or the machine with unified memory.")],
    gpus: Annotated[int, typer.Option("--gpus", help="How many of it.", min=1, max=100_000)] = 1,
    ram_gb: Annotated[Decimal, typer.Option("--ram-gb", parser=amount, metavar="GB", help="RAM free for weights.")] = NOTHING,
    ram_gb_s: Annotated[Decimal, typer.Option("--ram-gb-s", parser=amount, metavar="GB/S", help="Its bandwidth; 0: unknown.")] = NOTHING,
    disk_gb: Annotated[Decimal, typer.Option("--disk-gb", parser=amount, metavar="GB", help="Disk that weights stream from.")] = NOTHING,
    disk_gb_s: Annotated[Decimal, typer.Option("--disk-gb-s", parser=amount, metavar="GB/S", help="Its bandwidth; 0: unknown.")] = NOTHING,
    context: Annotated[int, typer.Option("--context", parser=context_tokens, metavar="TOKENS", help="Tokens of the session.")] = 8192,
    cache: Cache = "bf16",
    weight_format: Annotated[str, typer.Option("--format", help="Weight format; default: the model's own.")] = "",
    build: Build = "",
    policy: Policy = "",
    answer_tokens: Annotated[int, typer.Option("--answer-tokens", help="Tokens of an answer.", min=1, max=MOST_CONTEXT)] = 500,
    tok_s: Annotated[Decimal, typer.Option("--tok-s", parser=amount, metavar="RATE", help="Measured tokens a second.")] = NOTHING,
    explain: Explain = False,
    as_json: Json = False,
) -> None:
    """Where weights and cache lie over GPU, RAM and disk of one's own machine, and how long an answer takes."""
    here = world()
    if context < 1:
        raise typer.BadParameter("a context holds at least 1 token")
    spec, device = here.model(model), here.catalogue.gpus[here.gpu(gpu)]
    form, weights = _weights(here, spec, weight_format, build)
    kept = cache_bytes(spec, context, cache_format(cache))
    places = (
        Place(name="gpu", size_bytes=gpus * _usable(here.policy(policy), device), bytes_s=_bandwidth(device, gpus)),
        Place(name="ram", size_bytes=int(ram_gb * GB), bytes_s=ram_gb_s * GB or None),
        Place(name="disk", size_bytes=int(disk_gb * GB), bytes_s=disk_gb_s * GB or None),
    )
    every, _ = weight_parts(spec, form)
    active = active_bytes(spec, form)
    found = place(weights.size_bytes, kept, places, dense_bytes=every, active_bytes=active)
    rate = tok_s or found.ceiling_tok_s
    receipt = (*weights.receipt, *_receipt(places, found, every, active, kept))
    if as_json:
        facts = {"model": spec.id, "gpu": device.id, "gpus": gpus, "weight_format": form.id, "weights_bytes": weights.size_bytes}
        session = {"basis": weights.basis, "context": context, "cache_bytes": kept, "fits": found.fits, "short_bytes": found.short_bytes}
        speed = {"ceiling_tok_s": found.ceiling_tok_s, "tok_s": tok_s or None, "answer_tokens": answer_tokens}
        seconds = {"answer_seconds": None if rate is None else answer_seconds(answer_tokens, rate)}
        print_json({**facts, **session, "placed": dict(found.placed), **speed, **seconds, **({"explain": receipt} if explain else {})})
        return
    say(
        f"{spec.name} in {form.name}: {sizes_text(weights.size_bytes)} GiB / GB ({weights.basis}), {context_label(context)} tokens of cache"
    )
    if spec.context and context > spec.context:
        say(f"{context_label(context)} tokens is beyond its window of {context_label(spec.context)}")
    _print_places(places, found)
    _say_times(found, answer_tokens, tok_s)
    if explain:
        print_receipt(receipt)


def _weights(here: World, spec: ModelSpec, weight_format: str, build: str) -> tuple[WeightFormat, Weights]:
    """The named build as listed; else the format's official files or count."""
    formats = here.catalogue.formats
    if build:
        chosen = find_build(spec, build)
        listed = checkpoint_bytes(chosen)
        assert listed is not None, "find_build refuses a build nobody lists the size of"
        return formats[chosen.weight_format], listed
    names = known_words(weight_format, formats, "weight format") or (spec.native_format,)
    return formats[names[0]], weight_bytes(spec, formats[names[0]])


def _usable(policy: FitPolicy, device: Gpu) -> int:
    engines = offered_engines(policy, device)
    return usable_gpu_bytes(policy, device, engines[0] if engines else "")


def _bandwidth(device: Gpu, count: int) -> Decimal | None:
    try:
        return count * bandwidth_bytes_s(device)
    except MissingFact:
        return None


def _print_places(places: Sequence[Place], found: Placement) -> None:
    laid = dict(found.placed)
    cells = [
        (p.name, sizes_text(p.size_bytes), sizes_text(laid[p.name]), "?" if p.bytes_s is None else f"{p.bytes_s / GB:,.0f}")
        for p in places
        if p.size_bytes
    ]
    print_table(("place", "usable", "holds", "GB/s"), cells, numbers=(1, 2, 3), title="GiB / GB; cache first, then what every token reads")
    say(f"fits: {found.note}" if found.fits else f"does not fit: {found.note}")


def _say_times(found: Placement, tokens: int, measured: Decimal) -> None:
    if found.ceiling_tok_s is not None:
        ceiling = found.ceiling_tok_s.quantize(Decimal("0.01"), rounding=ROUND_HALF_UP)
        say(f"one stream stays below {ceiling:f} tokens a second, by bandwidth alone: {_answer(tokens, found.ceiling_tok_s)} at best")
    elif found.fits:
        say("one stream: unknown, for want of a bandwidth or of the active parameters")
    if measured:
        say(f"at {measured:f} tokens a second: {_answer(tokens, measured)}")


def _answer(tokens: int, tok_s: Decimal) -> str:
    return f"{tokens:,} tokens in {duration(answer_seconds(tokens, tok_s))}"


def _receipt(places: Sequence[Place], found: Placement, every: int, active: int | None, cache: int) -> Receipt:
    yours = "yours, or the GPU's memory by the policy"
    return (
        ReceiptLine(name="cache", value=cache, unit="B", formula="sum over layer groups"),
        ReceiptLine(name="the same for every token", value=every, unit="B", formula="parameters kept 16-bit * 2"),
        ReceiptLine(name="read by one token", value=active, unit="B", formula="kept * 2 + (active - kept) * bytes per parameter"),
        *(ReceiptLine(name=f"room in {p.name}", value=p.size_bytes, unit="B", source=yours) for p in places),
        *(ReceiptLine(name=f"lies in {name}", value=size, unit="B") for name, size in found.placed),
        ReceiptLine(name="ceiling", value=found.ceiling_tok_s, unit="tok/s", formula="1 / sum(bytes a token reads there / bandwidth)"),
    )
