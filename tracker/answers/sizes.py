"""How large a model is and how many of each GPU hold it: what ``size`` shows, from the catalogue alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from engine.cache import CONVENTIONS, CacheFormat, cache_bytes
from engine.compare import total_bytes
from engine.engines import choose_engine
from engine.facts import Fact, MissingFact, choose, spread
from engine.fits import Fit, Need
from engine.formats import WeightFormat
from engine.gpus import Gpu
from engine.models import Checkpoint, ModelSpec
from engine.offload import times_short
from engine.policies import FitPolicy
from engine.sizing import fit, smallest_fit
from engine.traffic import decode_ceiling_tok_s
from engine.units import GB
from engine.weights import Weights, checkpoint_bytes, weight_bytes

CONTEXTS = (8 * 1024, 32 * 1024, 128 * 1024, 1024 * 1024)
# One column of the table of counts: the first format that runs on a GPU stands for its width. 8-bit is FP8 with vLLM (INT8 on GPUs
# without FP8) and Q8_0 with llama.cpp; 4-bit is AWQ or GPTQ with vLLM and Q4_K_M with llama.cpp (as StudioTV counts, 2026-10-16).
WIDTHS = (("16-bit", ("bf16",)), ("8-bit", ("fp8", "int8", "q8_0")), ("4-bit", ("awq", "gptq", "q4_k_m", "int4")))
USUAL_GPUS = (
    "nvidia-rtx-4090", "nvidia-rtx-5090", "nvidia-rtx-pro-6000-ws", "apple-m5-max-128", "apple-m5-ultra-512",
    "amd-ryzen-ai-max-395-128", "nvidia-gb10", "nvidia-a100-sxm-80", "nvidia-h100-sxm-80", "nvidia-h200-sxm-141", "nvidia-b200-sxm-180",
    "nvidia-b300-sxm-288", "nvidia-gb300-279", "amd-mi300x", "amd-mi355x",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightRow:
    """Weights in one format, and with the sessions asked for at each context, as the policy counts; None where the cache is unknown."""

    weights: Weights
    totals: tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRow:
    """Cache of one session at a context by cache format, in bytes."""

    tokens: int
    size_bytes: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One width of weights in the table of counts: the formats that may stand for it, first choice first."""

    name: str
    formats: tuple[WeightFormat, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRow:
    """The fewest of one GPU for every column, and how many times one device's label the weights of the first column are."""

    gpu: Gpu
    fits: tuple[Fit, ...]
    times_short: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """Sessions one machine holds at each context; None is unknown. ``ceiling_tok_s`` bounds one stream, it is no forecast."""

    fit: Fit
    dcp: int
    sessions: tuple[int | None, ...]
    ceiling_tok_s: Decimal | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """One stated value of a fact on which sources differ; ``used`` marks the one that precedence chooses."""

    subject: str
    fact: Fact
    used: bool


def contexts_of(model: ModelSpec) -> tuple[int, ...]:
    """The usual contexts as far as the model's window reaches."""
    return tuple(tokens for tokens in CONTEXTS if model.context is None or tokens <= model.context) or (model.context or CONTEXTS[0],)


def ordered_formats(model: ModelSpec, formats: Iterable[WeightFormat]) -> tuple[WeightFormat, ...]:
    """The model's own format, then the others from most to least faithful, wider first."""
    return tuple(sorted(formats, key=lambda f: (f.id != model.native_format, -f.fidelity, -f.bits_per_weight, f.id)))


def counted_formats(formats: Iterable[WeightFormat], policy: FitPolicy, wanted: Collection[str]) -> tuple[WeightFormat, ...]:
    """The formats whose size the policy's calculator states, and the wanted ones; all of them where it counts by our own facts."""
    foreign = policy.weights_basis in ("swfte", "canitrun")
    return tuple(f for f in formats if not foreign or f.id in wanted or policy.weights_basis in f.bytes_per_param_by_basis)


def weight_rows(
    model: ModelSpec, formats: Iterable[WeightFormat], contexts: Sequence[int], need: Need, policy: FitPolicy
) -> tuple[WeightRow, ...]:
    """Weights of every format, alone and with the cache at every context."""
    return tuple(
        WeightRow(
            weights=weight_bytes(model, form, policy.weights_basis),
            totals=tuple(total_bytes(model, form, replace(need, context=tokens), policy) for tokens in contexts),
        )
        for form in formats
    )


def cache_formats(policy: FitPolicy) -> tuple[CacheFormat, ...]:
    """Formats in which the policy's convention can count the cache."""
    return ("fp16",) if policy.cache_convention == "canitrun" else ("bf16", "fp8", "nvfp4")


def cache_rows(model: ModelSpec, contexts: Sequence[int], policy: FitPolicy) -> tuple[CacheRow, ...]:
    """Cache of one session; by the layer groups where the policy counts none. Empty where the model's cache is not known."""
    size = cache_bytes if policy.cache_convention == "none" else CONVENTIONS[policy.cache_convention]
    try:
        return tuple(CacheRow(tokens=t, size_bytes={form: size(model, t, form) for form in cache_formats(policy)}) for t in contexts)
    except MissingFact:
        return ()


def columns_of(model: ModelSpec, formats: Mapping[str, WeightFormat]) -> tuple[Column, ...]:
    """The model's own format, then 16, 8 and 4 bit where they say something else."""
    native = Column(name=f"{model.native_format} (native)", formats=(formats[model.native_format],))
    widths = [Column(name=name, formats=tuple(formats[f] for f in ids if f in formats)) for name, ids in WIDTHS]
    return (native, *(width for width in widths if width.formats and width.formats != native.formats))


def gpu_row(model: ModelSpec, gpu: Gpu, columns: Sequence[Column], need: Need, policy: FitPolicy, gpu_count: int = 0) -> GpuRow:
    """The fewest GPUs for every column; with ``gpu_count``, whether exactly so many hold the model."""
    first = weight_bytes(model, columns[0].formats[0], policy.weights_basis).size_bytes
    return GpuRow(
        gpu=gpu,
        fits=tuple(_fit(model, gpu, runnable(gpu, column.formats, need, policy), need, policy, gpu_count) for column in columns),
        times_short=times_short(first, gpu.memory_marketed_gb),
    )


def runnable(gpu: Gpu, formats: Sequence[WeightFormat], need: Need, policy: FitPolicy) -> WeightFormat:
    """The first format an engine runs on the GPU, those first whose size the policy's calculator states; else the first."""
    able = [form for form in formats if not choose_engine(gpu, form, need, policy)[1]]
    stated = [form for form in able if policy.weights_basis in form.bytes_per_param_by_basis]
    return (stated or able or list(formats))[0]


def build_row(model: ModelSpec, build: Checkpoint, gpu: Gpu, form: WeightFormat, need: Need, policy: FitPolicy, gpu_count: int) -> GpuRow:
    """The fewest GPUs for one named build, loaded by the engine its publisher names."""
    weights = checkpoint_bytes(build)
    if weights is None:
        raise MissingFact(f"build {build.name}", "size_bytes", "its fit")
    own = replace(form, engines=(build.engine,)) if build.engine else form
    found = _fit(model, gpu, own, need, policy, gpu_count, weights)
    return GpuRow(gpu=gpu, fits=(found,), times_short=times_short(weights.size_bytes, gpu.memory_marketed_gb))


def _fit(
    model: ModelSpec, gpu: Gpu, form: WeightFormat, need: Need, policy: FitPolicy, gpu_count: int, weights: Weights | None = None
) -> Fit:
    if gpu_count:
        return fit(model, gpu, form, gpu_count, need=need, policy=policy, weights=weights)
    return smallest_fit(model, gpu, form, need=need, policy=policy, weights=weights)


def node_rows(
    model: ModelSpec, gpu: Gpu, columns: Sequence[Column], contexts: Sequence[int], need: Need, policy: FitPolicy, gpu_count: int = 0
) -> tuple[NodeRow, ...]:
    """Sessions of one usual machine (or of ``gpu_count``) with the first column that fits it, with and without DCP."""
    count = gpu_count or gpu.node_gpus
    for column in columns:
        form = runnable(gpu, column.formats, need, policy)
        found = fit(model, gpu, form, count, need=replace(need, context=contexts[0], sessions=1, dcp=1), policy=policy)
        if found.fits:
            shares = sorted({1, need.dcp} | ({found.layout.tp} if found.layout and found.engine == "vllm" else set()))
            rows = [_node_row(model, gpu, form, count, contexts, replace(need, sessions=1, dcp=dcp), policy) for dcp in shares]
            return tuple(row for place, row in enumerate(rows) if place == 0 or row.sessions != rows[0].sessions)
    return ()


def _node_row(
    model: ModelSpec, gpu: Gpu, form: WeightFormat, count: int, contexts: Sequence[int], need: Need, policy: FitPolicy
) -> NodeRow:
    found = [fit(model, gpu, form, count, need=replace(need, context=tokens), policy=policy) for tokens in contexts]
    return NodeRow(
        fit=found[0],
        dcp=need.dcp,
        sessions=tuple(None if one.layout is None else one.max_sessions for one in found),
        ceiling_tok_s=_ceiling(model, gpu, form, count),
    )


def _ceiling(model: ModelSpec, gpu: Gpu, form: WeightFormat, count: int) -> Decimal | None:
    try:
        return decode_ceiling_tok_s(model, gpu, form, count)
    except MissingFact:
        return None


def conflicts(subject: str, facts: Sequence[Fact], used_sizes: Collection[int] = ()) -> tuple[Stated, ...]:
    """Every value of the facts on which sources differ, side by side; nothing is averaged.

    Sizing uses the value that precedence puts first, and of sizes only a listing in ``used_sizes`` (bytes): totals are worked out.
    """
    fields = dict.fromkeys(fact.field for fact in facts)
    found: list[Stated] = []
    for field in fields:
        stated, first = spread(facts, field), choose(facts, field)
        if len({fact.value for fact in stated}) > 1:
            found += [Stated(subject=subject, fact=f, used=f is first and (f.unit != "GB" or _listed(f, used_sizes))) for f in stated]
    return tuple(found)


def _listed(fact: Fact, sizes: Collection[int]) -> bool:
    return fact.field.startswith("memory") or int(fact.value * GB) in sizes
