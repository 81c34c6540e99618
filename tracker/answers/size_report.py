"""Everything ``size`` shows of one model as one value, and as JSON."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from engine.facts import Fact
from engine.fits import Fit, Need
from engine.models import Checkpoint, ModelSpec
from engine.policies import FitPolicy
from engine.units import gb, gib
from tracker.answers.sizes import (
    USUAL_GPUS,
    CacheRow,
    Column,
    GpuRow,
    NodeRow,
    Stated,
    WeightRow,
    build_row,
    cache_rows,
    columns_of,
    conflicts,
    contexts_of,
    counted_formats,
    gpu_row,
    node_rows,
    ordered_formats,
    weight_rows,
)
from tracker.facts.models import missing_facts
from tracker.facts.values import Catalogue
from tracker.plain import plain


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeReport:
    """One model under one policy and need: counts of GPUs are for the smallest of the contexts."""

    model: ModelSpec
    policy: FitPolicy
    need: Need
    contexts: tuple[int, ...]
    gpu_count: int  # 0: the fewest
    weights: tuple[WeightRow, ...]
    caches: tuple[CacheRow, ...]
    columns: tuple[Column, ...]
    gpus: tuple[GpuRow, ...]
    nodes: tuple[NodeRow, ...]
    stated: tuple[Stated, ...]


def size_report(
    catalogue: Catalogue,
    model: ModelSpec,
    *,
    policy: FitPolicy,
    need: Need,
    contexts: tuple[int, ...] = (),
    formats: tuple[str, ...] = (),
    gpus: tuple[str, ...] = (),
    gpu_count: int = 0,
    build: Checkpoint | None = None,
) -> SizeReport:
    """The report; contexts, formats and GPUs default to the usual ones, ``build`` sizes one checkpoint instead of the formats."""
    contexts = contexts or contexts_of(model)
    need = replace(need, context=contexts[0])
    known = {form.id: form for form in counted_formats(catalogue.formats.values(), policy, {model.native_format, *formats})}
    devices = [catalogue.gpus[name] for name in gpus or USUAL_GPUS]
    if build is not None:
        columns: tuple[Column, ...] = (Column(name=build.name, formats=(catalogue.formats[build.weight_format],)),)
        rows = tuple(build_row(model, build, gpu, columns[0].formats[0], need, policy, gpu_count) for gpu in devices)
    else:
        chosen = tuple(Column(name=name, formats=(known[name],)) for name in formats)
        columns = chosen or columns_of(model, catalogue.formats)
        rows = tuple(gpu_row(model, gpu, columns, need, policy, gpu_count) for gpu in devices)
    own = conflicts(
        model.id, model.facts, {build.size_bytes for build in model.checkpoints if build.size_bytes and build.kind == "official"}
    )
    listed = ordered_formats(model, (form for form in known.values() if not formats or form.id in formats))
    return SizeReport(
        model=model,
        policy=policy,
        need=need,
        contexts=contexts,
        gpu_count=gpu_count,
        weights=weight_rows(model, listed, contexts, need, policy),
        caches=cache_rows(model, contexts, policy),
        columns=columns,
        gpus=rows,
        nodes=() if build else tuple(row for gpu in devices for row in node_rows(model, gpu, columns, contexts, need, policy, gpu_count)),
        stated=own + tuple(stated for name in gpus for stated in conflicts(name, catalogue.gpus[name].facts)),
    )


def report_facts(report: SizeReport) -> dict[str, Any]:
    """The report as JSON values: sizes in bytes, GB (10**9) and GiB (2**30)."""
    model = report.model
    return {
        "model": model.id,
        "name": model.name,
        "params": model.params,
        "params_active": model.params_active,
        "native_format": model.native_format,
        "context": model.context,
        "licence": plain(model.licence),
        "missing": list(missing_facts(model)),
        "policy": report.policy.name,
        "policy_source": report.policy.source,
        "sessions": report.need.sessions,
        "cache_format": report.need.cache_format,
        "dcp": report.need.dcp,
        "contexts": list(report.contexts),
        "weights": [_weight_facts(row, report.contexts) for row in report.weights],
        "cache": [{"tokens": row.tokens, **{name: sized(size) for name, size in row.size_bytes.items()}} for row in report.caches],
        "gpus": [_gpu_facts(row, report.columns) for row in report.gpus],
        "machines": [_node_facts(row, report.contexts) for row in report.nodes],
        "conflicts": [{"subject": s.subject, "used": s.used, **fact_facts(s.fact)} for s in report.stated],
        "checkpoints": [plain(build) for build in model.checkpoints],
    }


def sized(size_bytes: int | None) -> dict[str, Any] | None:
    """A size in bytes and in both units; None where it is unknown."""
    return None if size_bytes is None else {"bytes": size_bytes, "gb": plain(gb(size_bytes)), "gib": plain(gib(size_bytes))}


def fact_facts(fact: Fact) -> dict[str, Any]:
    """A stated value with its basis and source."""
    facts: dict[str, Any] = plain(fact)
    return facts


def fit_facts(fit: Fit) -> dict[str, Any]:
    """A fit or its refusal as JSON values; bytes are of the whole setup."""
    names = ("gpu", "gpu_count", "nodes", "weight_format", "engine", "fits", "tight", "reason", "note", "max_sessions")
    sizes = ("weight_bytes", "cache_bytes", "load_bytes", "capacity_bytes", "short_bytes", "spare_bytes")
    layout = {"layout": fit.layout.label if fit.layout else None, "context": fit.need.context}
    return {name: getattr(fit, name) for name in (*names, *sizes)} | layout


def _weight_facts(row: WeightRow, contexts: tuple[int, ...]) -> dict[str, Any]:
    weights = row.weights
    totals = [{"tokens": tokens, "total": sized(total)} for tokens, total in zip(contexts, row.totals, strict=True)]
    return {
        "weight_format": weights.weight_format,
        "basis": weights.basis,
        "source": weights.source,
        "weights": sized(weights.size_bytes),
        "with_cache": totals,
    }


def _gpu_facts(row: GpuRow, columns: tuple[Column, ...]) -> dict[str, Any]:
    fits = {column.name: fit_facts(fit) for column, fit in zip(columns, row.fits, strict=True)}
    return {"gpu": row.gpu.id, "memory_marketed_gb": row.gpu.memory_marketed_gb, "times_short": row.times_short, "fits": fits}


def _node_facts(row: NodeRow, contexts: tuple[int, ...]) -> dict[str, Any]:
    sessions = [{"tokens": tokens, "sessions": count} for tokens, count in zip(contexts, row.sessions, strict=True)]
    return {**fit_facts(row.fit), "dcp": row.dcp, "sessions": sessions, "ceiling_tok_s": row.ceiling_tok_s}
