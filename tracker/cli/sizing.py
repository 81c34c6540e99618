"""``size``: weights, cache and GPUs of a model, from the catalogue alone; prices play no part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Annotated

import typer

from engine.cache import CACHE_FORMATS, CacheFormat
from engine.counts import USUAL_NODE
from engine.fits import Fit, Need
from engine.gpus import Gpu
from engine.models import Checkpoint, ModelSpec
from engine.policies import FitPolicy, custom_policy
from engine.units import gb, gib
from tracker.answers.cache_receipts import cache_lines
from tracker.answers.explain import Section
from tracker.answers.size_report import SizeReport, report_facts, size_report
from tracker.answers.sizes import NodeRow, WeightRow
from tracker.cli.receipts import Explain, print_sections
from tracker.cli.session import Json, print_json, print_table, say, world
from tracker.cli.values import amount, context_label, context_list, known_words
from tracker.errors import BreakevenError, UnknownName, did_you_mean
from tracker.facts.models import missing_facts
from tracker.world import World

Model = Annotated[str, typer.Argument(help="Id of a model: a file of config/models.")]
Policy = Annotated[str, typer.Option("--policy", help="Memory policy: studiotv, swfte, canitrun, recipe; default from tracker.toml.")]
Contexts = Annotated[str, typer.Option("--context", help="Tokens a session holds, several with commas: 8192, 8k, 128k, 1M (k = 1024).")]
Cache = Annotated[str, typer.Option("--cache", help=f"Format of the KV cache: {', '.join(CACHE_FORMATS)}.")]
Formats = Annotated[str, typer.Option("--format", help="Weight formats with commas; default: the native one, 16, 8 and 4 bit.")]
Build = Annotated[str, typer.Option("--build", help="One named checkpoint of the model, also a community or pruned one.")]
NONE = "-"


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(size)


def size(
    model: Model,
    context: Contexts = "",
    sessions: Annotated[int, typer.Option("--sessions", help="Sessions that must fit at once.", min=1, max=1_000_000)] = 1,
    cache: Cache = "bf16",
    dcp: Annotated[
        int, typer.Option("--dcp", help="Decode context parallelism: ranks that share cached tokens; 1 is off.", min=1, max=1024)
    ] = 1,
    weight_format: Formats = "",
    gpu: Annotated[str, typer.Option("--gpu", help="GPUs with commas, or all.")] = "",
    gpus: Annotated[int, typer.Option("--gpus", help="Exactly so many GPUs, instead of the fewest.", min=0, max=100_000)] = 0,
    build: Build = "",
    policy: Policy = "",
    reserve_gib: Annotated[
        Decimal | None, typer.Option("--reserve-gib", parser=amount, metavar="GIB", help="GiB kept free on each GPU: a policy of your own.")
    ] = None,
    explain: Explain = False,
    as_json: Json = False,
) -> None:
    """Weights by format and context, KV cache, and the fewest of each GPU that hold them."""
    here = world()
    spec = here.model(model)
    report = size_report(
        here.catalogue,
        spec,
        policy=_policy(here, policy, reserve_gib),
        need=Need(sessions=sessions, cache_format=cache_format(cache), dcp=dcp),
        contexts=context_list(context, ()),
        formats=known_words(weight_format, here.catalogue.formats, "weight format"),
        gpus=tuple(here.catalogue.gpus) if gpu == "all" else known_words(gpu, here.catalogue.gpus, "GPU", "gpus.toml has them all"),
        gpu_count=gpus,
        build=find_build(spec, build) if build else None,
    )
    if as_json:
        extra = {"explain": list(_receipts(report))} if explain else {}
        print_json({**report_facts(report), **extra})
        return
    _print_report(report)
    if explain:
        print_sections(_receipts(report))


def cache_format(name: str) -> CacheFormat:
    """The cache format of that name; UnknownName with the closest one."""
    known_words(name, CACHE_FORMATS, "cache format")
    return next((found for found in CACHE_FORMATS if found == name.strip()), "bf16")


def _policy(here: World, name: str, reserve_gib: Decimal | None) -> FitPolicy:
    found = here.policy(name)
    return found if reserve_gib is None else custom_policy(found, reserve_gib=reserve_gib)


def find_build(model: ModelSpec, name: str) -> Checkpoint:
    """The checkpoint of that name with a known size; BreakevenError where it has none, UnknownName with the closest one."""
    found = {build.name: build for build in model.checkpoints}
    if name not in found:
        raise UnknownName(f"no build of {model.id} named {name!r}{did_you_mean(name, found)}; there are {', '.join(found) or 'none'}")
    if found[name].size_bytes is None:
        raise BreakevenError(f"nobody lists the size of {name}")
    return found[name]


def sizes_text(size_bytes: int | None, places: int = 1) -> str:
    """Both units side by side, GiB first; "?" where unknown."""
    return "?" if size_bytes is None else f"{gib(size_bytes):,.{places}f} / {gb(size_bytes):,.{places}f}"


def heading(model: ModelSpec) -> str:
    """Parameters, own format and window of a model in one line."""
    active = "active unknown" if model.params_active is None else f"{Decimal(model.params_active) / 10**9:,.1f}B active"
    window = "window unknown" if model.context is None else f"window {context_label(model.context)} tokens"
    total = f"{Decimal(model.params) / 10**9:,.1f}B parameters"
    return f"{model.name} ({model.organisation}): {total}, {active}; native {model.native_format}; {window}"


def licence_text(model: ModelSpec) -> str:
    """Name and conditions, with a mark where nobody read the text."""
    licence = model.licence
    if licence is None:
        return "?"
    conditions = f": {licence.conditions}" if licence.conditions else ""
    return f"{licence.name}{'' if licence.verified else ' (unverified)'}{conditions}"


def _print_report(report: SizeReport) -> None:
    model = report.model
    say(heading(model))
    say(f"licence: {licence_text(model)}")
    say(f"policy {report.policy.name}: {report.policy.source}")
    for field in missing_facts(model):
        say(f"not known: {field}")
    if model.context and report.contexts[-1] > model.context:
        say(f"{context_label(report.contexts[-1])} tokens is beyond its window of {context_label(model.context)}")
    _print_weights(report)
    _print_cache(report)
    _print_gpus(report)
    _print_nodes(report)
    _print_stated(report)
    _print_builds(report)


def _print_weights(report: SizeReport) -> None:
    need = report.need
    header = ("format", "counted by", "weights", *(f"+ {context_label(tokens)}" for tokens in report.contexts))
    several = "" if need.sessions == 1 else f"{need.sessions} sessions of "
    title = f"weights, and with the {need.cache_format} cache of {several or 'one session of '}each context, GiB / GB"
    print_table(header, list(_weight_cells(report.weights)), numbers=range(2, len(header)), title=title)


def _weight_cells(rows: Sequence[WeightRow]) -> Iterator[tuple[str, ...]]:
    """One line for formats of one size: they differ in name only."""
    equal: dict[tuple[object, ...], list[str]] = {}
    for row in rows:
        equal.setdefault((row.weights.size_bytes, row.weights.basis, row.totals), []).append(row.weights.weight_format)
    for (size_bytes, basis, totals), names in equal.items():
        assert isinstance(size_bytes, int) and isinstance(totals, tuple)
        yield (", ".join(names), str(basis), sizes_text(size_bytes), *(sizes_text(total) for total in totals))


def _print_cache(report: SizeReport) -> None:
    if not report.caches:
        say("KV cache: not known")
        return
    names = tuple(report.caches[0].size_bytes)
    cells = [(context_label(row.tokens), *(sizes_text(row.size_bytes[name], 2) for name in names)) for row in report.caches]
    counted = {"none": "; the policy itself counts none", "canitrun": ", as CanItRun counts it"}.get(report.policy.cache_convention, "")
    print_table(("context", *names), cells, numbers=range(1, 1 + len(names)), title=f"KV cache of one session, GiB / GB{counted}")


def _print_gpus(report: SizeReport) -> None:
    columns = [column.name for column in report.columns]
    header = ("GPU", "label GB", *columns, "weights / label")
    cells = [
        (row.gpu.id, f"{row.gpu.memory_marketed_gb:f}", *(count_text(fit, row.gpu, report) for fit in row.fits), f"{row.times_short:.1f} x")
        for row in report.gpus
    ]
    print_table(header, cells, numbers=(1, len(header) - 1), title=_counts_title(report))
    for line in _refusals(report):
        say(line)


def _counts_title(report: SizeReport) -> str:
    need, several = report.need, "s" if report.need.sessions > 1 else ""
    what = f"{need.sessions} session{several} of {context_label(need.context)} tokens in a {need.cache_format} cache"
    count = f"whether {report.gpu_count} GPUs hold" if report.gpu_count else "fewest GPUs that hold"
    return f"{count} the weights and {what} (policy {report.policy.name})"


def count_text(fit: Fit, gpu: Gpu, report: SizeReport) -> str:
    """The count, how many machines that is, and what to watch; why not is said below the table."""
    if fit.fits:
        machines = machines_of(fit, gpu)
        several = f" ({machines} machines)" if machines > 1 else ""
        return f"{fit.gpu_count} {fit.weight_format}{several}{', tight' if fit.tight else ''}"
    if not report.caches and report.policy.cache_convention != "none":
        return "?"
    return "no" if fit.layout is not None or report.gpu_count else "not on this GPU"


def machines_of(fit: Fit, gpu: Gpu) -> int:
    """Machines so many GPUs take: a card that is sold singly sits in a machine of eight, a unified-memory box is one."""
    per_machine = USUAL_NODE if gpu.node_gpus == 1 and gpu.gpu_class != "unified" else gpu.node_gpus
    return -(-fit.gpu_count // per_machine)


def _refusals(report: SizeReport) -> Iterator[str]:
    """Every reason once, with the GPUs it holds for."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in report.gpus:
        for fit in row.fits:
            if not fit.fits:
                reason = fit.reason.replace(f"{row.gpu.name} has ", "").replace(row.gpu.name, "it")
                count = f"{fit.gpu_count} x " if fit.layout is not None else ""
                found.setdefault((fit.weight_format, reason), []).append(f"{count}{row.gpu.id}")
    for (weight_format, reason), gpus in found.items():
        yield f"{weight_format} not on {', '.join(gpus)}: {reason}"


def _print_nodes(report: SizeReport) -> None:
    if not any(any(count is not None for count in row.sessions) for row in report.nodes):
        return
    header = ("machine", "format", "layout", "DCP", *(f"at {context_label(t)}" for t in report.contexts), "one stream below tok/s", "")
    title = f"sessions at once on one machine, {report.need.cache_format} cache"
    print_table(header, [_node_cells(row) for row in report.nodes], numbers=range(3, len(header) - 1), title=title)


def _node_cells(row: NodeRow) -> tuple[str, ...]:
    fit, ceiling = row.fit, row.ceiling_tok_s
    counts = ("?" if count is None else f"{count:,}" for count in row.sessions)
    layout = fit.layout.label if fit.layout else NONE
    bound = "?" if ceiling is None else f"{ceiling:,.0f}"
    return (f"{fit.gpu_count} x {fit.gpu}", fit.weight_format, layout, f"{row.dcp}", *counts, bound, fit.note)


def _print_stated(report: SizeReport) -> None:
    cells = [
        (
            "*" if s.used else "",
            s.subject,
            s.fact.field,
            f"{s.fact.value:,f}",
            s.fact.unit,
            s.fact.basis,
            s.fact.source,
            f"{s.fact.checked}",
        )
        for s in report.stated
    ]
    if cells:
        title = "where sources differ (* is what sizing uses)"
        print_table(("", "of", "fact", "value", "unit", "basis", "source", "checked"), cells, numbers=(3,), title=title)


def _print_builds(report: SizeReport) -> None:
    cells = [
        (b.kind, b.name, b.weight_format, sizes_text(b.size_bytes), f"{b.engine} {b.engine_min_version}".strip(), b.quality)
        for b in report.model.checkpoints
    ]
    if cells:
        title = "checkpoints, GiB / GB; community and pruned ones are used only when named with --build"
        print_table(("kind", "name", "format", "size", "engine", "quality"), cells, numbers=(3,), title=title)


def _receipts(report: SizeReport) -> Iterator[Section]:
    for row in report.weights:
        yield Section(title=f"weights in {row.weights.weight_format}, basis {row.weights.basis}", lines=row.weights.receipt)
    if report.caches and report.policy.cache_convention != "canitrun":
        yield Section(title="KV cache of one session", lines=cache_lines(report.model, report.contexts, report.need.cache_format))
    for gpu in report.gpus:
        for fit in gpu.fits:
            yield Section(title=f"{fit.gpu_count} x {fit.gpu}, {fit.weight_format}", lines=fit.receipt)
