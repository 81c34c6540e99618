"""Selectors, joins and variables over the metrics of breakeven.

Each query names $job, so that two daemons on one Prometheus stay apart. Values are aggregated over their own labels, so a restart
that changes the instance leaves the lines whole. An ``_info`` series has the labels and is joined with its value on model, workload
and policy. A price that went stale leaves a gap; no query fills one with a constant.
"""

from __future__ import annotations

from typing import Any

from panels import datasource_variable, link_to, variable

TITLES = {
    "breakeven-overview": "breakeven / Overview",
    "breakeven-model": "breakeven / Model",
    "breakeven-market": "breakeven / Market",
    "breakeven-finance": "breakeven / Finance",
    "breakeven-sources": "breakeven / Sources",
}
LABELS = {"policy": "Memory policy", "gpu": "GPU", "sku": "Rate"}  # where it is not the capitalised name
ANSWER = "model, workload, policy"
SETUP = "provider, gpu, gpu_count, weight_format, tier"
JOB = 'job=~"$job"'


def series(metric: str, *matchers: str) -> str:
    """A selector: our metric, this job."""
    return f"breakeven_{metric}{{{', '.join([JOB, *matchers])}}}"


def process(metric: str) -> str:
    """A selector: a metric every process has, of this job's."""
    return f"process_{metric}{{{JOB}}}"


def any_of(*names: str) -> list[str]:
    """Matchers for variables of which several values may be chosen."""
    return [f'{name}=~"${name}"' for name in names]


def one_of(*names: str) -> list[str]:
    """Matchers for variables of which one value is chosen."""
    return [f'{name}="${name}"' for name in names]


def joined(info: str, labels: str, value: str) -> str:
    """The value with the labels of its info series."""
    return f"max by ({ANSWER}, {labels}) ({info}) * on ({ANSWER}) group_left () min by ({ANSWER}) ({value})"


def choices(name: str, selector: str, *, many: bool = True) -> Any:
    """A variable over the values of a label of the selector's series."""
    return variable(name, LABELS.get(name, name.capitalize()), f"label_values({selector}, {name})", many=many)


def metrics_variable() -> Any:
    """Which Prometheus."""
    return datasource_variable("datasource", "Data source", "prometheus", shown="Prometheus", uid="prometheus")


def common() -> list[Any]:
    """Data source and job."""
    return [metrics_variable(), variable("job", "Job", "label_values(breakeven_build_info, job)")]


def links(own: str) -> list[Any]:
    """To the other dashboards."""
    both = "breakeven-finance"  # it has no job: the book is one
    return [
        link_to(uid, title.rpartition(" / ")[2], ("datasource",) if both in (uid, own) else ("datasource", "job"))
        for uid, title in TITLES.items()
        if uid != own
    ]
