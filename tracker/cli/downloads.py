"""``download-time``: how long a model takes to arrive."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from typing import Annotated

import typer

from engine.models import ModelSpec
from engine.traffic import download_seconds
from engine.units import MINUTES_PER_HOUR, SECONDS_PER_HOUR, gb, gib
from engine.weights import Weights, checkpoint_bytes, weight_bytes
from tracker.cli.session import Json, print_json, say, world
from tracker.cli.sizing import Build, Model, find_build
from tracker.cli.values import amounts
from tracker.world import World


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("download-time")(download_time)


def download_time(
    model: Model,
    gbps: Annotated[str, typer.Option("--gbps", help="Links in 10**9 bits a second, with commas.")] = "1,10",
    build: Build = "",
    as_json: Json = False,
) -> None:
    """How long the official checkpoint (or a named one) takes to download over links that are used fully."""
    here = world()
    spec = here.model(model)
    what, weights = _to_download(here, spec, build)
    seconds = {link: download_seconds(weights.size_bytes, link) for link in amounts(gbps)}
    if as_json:
        times = [{"gbps": link, "seconds": took, "hours": took / SECONDS_PER_HOUR} for link, took in seconds.items()]
        facts = {"model": spec.id, "build": what, "basis": weights.basis, "source": weights.source, "size_bytes": weights.size_bytes}
        print_json({**facts, "times": times})
        return
    say(f"{what}: {gb(weights.size_bytes):,.1f} GB, {gib(weights.size_bytes):,.1f} GiB, {weights.basis} ({weights.source})")
    for link, took in seconds.items():
        say(f"at {link:f} Gbit/s: {duration(took)}")


def _to_download(here: World, model: ModelSpec, build: str) -> tuple[str, Weights]:
    """The named build, else the official one; where nobody lists its files, the weights as counted in the model's own format."""
    chosen = find_build(model, build) if build else model.official_checkpoint
    listed = None if chosen is None else checkpoint_bytes(chosen)
    if chosen is not None and listed is not None:
        return f"{chosen.name}, {chosen.kind}", listed
    return f"{model.name} in {model.native_format}, no listing of its files", weight_bytes(
        model, here.catalogue.formats[model.native_format]
    )


def duration(seconds: Decimal) -> str:
    """3.5 h, 21 min, 8 s: the largest unit of which there is at least one, hours to one decimal."""
    if seconds >= SECONDS_PER_HOUR:
        return f"{(seconds / SECONDS_PER_HOUR).quantize(Decimal('0.1'), rounding=ROUND_HALF_UP)} h"
    per_minute = SECONDS_PER_HOUR // MINUTES_PER_HOUR
    count, unit = (seconds / per_minute, "min") if seconds >= per_minute else (seconds, "s")
    return f"{count.quantize(Decimal(1), rounding=ROUND_HALF_UP)} {unit}"
