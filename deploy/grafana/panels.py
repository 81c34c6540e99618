"""Parts of a dashboard as plain dicts, in the shape Grafana 11.6 writes (schema 41). Nothing here knows what is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
SCHEMA_VERSION, GRAFANA = 41, "11.6.1"  # the version of compose.yaml
GRID = 24  # columns of a dashboard
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
TAG = "breakeven"
FIRED = 'ALERTS{alertname=~"Breakeven.+", alertstate="firing"}'
LETTERS = "ABCDEFGHIJ"
REDUCE = {"calcs": ["lastNotNull"], "fields": "", "values": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table: what the frame calls it (a label, or ``value`` of a query) and what the reader does."""

    field: str
    title: str


def value(number: int) -> str:
    """What a joined frame calls the value of its query of that number, from 0."""
    return f"Value #{LETTERS[number]}"


def dashboard(
    *, uid: str, title: str, description: str, variables: list[Json], rows: Sequence[tuple[int, list[Json]]], links: list[Json]
) -> Json:
    """A whole dashboard. ``rows`` are (height, panels of equal width)."""
    return {
        "uid": uid, "title": title, "description": description, "tags": [TAG], "editable": False, "graphTooltip": 1, "links": links,
        "refresh": "1m", "time": {"from": "now-7d", "to": "now"}, "timepicker": {}, "timezone": "utc", "schemaVersion": SCHEMA_VERSION,
        "version": 1, "templating": {"list": variables}, "annotations": {"list": [_alerts()]}, "panels": _placed(rows),
    }  # fmt: skip


def _placed(rows: Sequence[tuple[int, list[Json]]]) -> list[Json]:
    placed: list[Json] = []
    top = 0
    for height, panels in rows:
        width = GRID // len(panels)
        for number, panel in enumerate(panels):
            placed.append({"id": len(placed) + 1, "gridPos": {"h": height, "w": width, "x": number * width, "y": top}, **panel})
        top += height
    return placed


def _alerts() -> Json:
    """Marks the times at which an alert of deploy/prometheus/rules fired; the panel of alerts on Overview names them."""
    return {"name": "Alerts", "datasource": DATASOURCE, "enable": True, "hide": False, "iconColor": "red", "expr": FIRED}


def link_to(uid: str, title: str, carried: Sequence[str], more: str = "") -> Json:
    """A link to another dashboard that keeps the time range and the variables named, and adds ``more`` to the address."""
    return {
        "title": title, "type": "link", "icon": "dashboard", "tooltip": "", "tags": [], "asDropdown": False, "targetBlank": False,
        "includeVars": False, "keepTime": True, "url": f"/d/{uid}?" + "&".join(f"${{{name}:queryparam}}" for name in carried) + more,
    }  # fmt: skip


# --- variables --------------------------------------------------------------------------------------------------------------------


def datasource_variable() -> Json:
    """Which Prometheus is asked."""
    return {
        "type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus", "regex": "", "hide": 0, "multi": False,
        "includeAll": False, "current": {"selected": True, "text": "Prometheus", "value": "prometheus"},
    }  # fmt: skip


def variable(name: str, label: str, query: str, *, many: bool = True) -> Json:
    """Values of a label, read again when the time range changes; all of them at first where ``many`` may be chosen."""
    chosen = {"allValue": ".+", "current": {"selected": True, "text": ["All"], "value": ["$__all"]}} if many else {}
    return {
        "type": "query", "name": name, "label": label, "datasource": DATASOURCE, "query": query, "regex": "", "refresh": 2, "sort": 1,
        "hide": 0, "multi": many, "includeAll": many, **chosen,
    }  # fmt: skip


# --- panels -----------------------------------------------------------------------------------------------------------------------


def ask(expression: str, legend: str) -> Json:
    """A query for the value over time."""
    return {"expr": " ".join(expression.split()), "legendFormat": legend, "range": True, "instant": False, "format": "time_series"}


def ask_now(expression: str, legend: str) -> Json:
    """A query for the value at the end of the time range."""
    return {**ask(expression, legend), "range": False, "instant": True}


def _panel(
    kind: str, title: str, description: str, asked: Sequence[Json], unit: str, *,
    custom: Json | None = None, limits: Sequence[tuple[str, float]] = (), **more: Any,
) -> Json:  # fmt: skip
    """``limits`` are (colour, from this value on)."""
    steps = [{"color": colour, "value": value} for colour, value in limits or [("blue", 0)]]
    defaults = {
        "unit": unit, "noValue": "none", "color": {"mode": "thresholds" if limits else "palette-classic-by-name"}, "mappings": [],
        "thresholds": {"mode": "absolute", "steps": steps}, "custom": custom or {},
    }  # fmt: skip
    targets = [{"refId": LETTERS[n], "datasource": DATASOURCE, "editorMode": "code", **one} for n, one in enumerate(asked)]
    return {
        "type": kind, "title": title, "description": description, "datasource": DATASOURCE, "pluginVersion": GRAFANA, "targets": targets,
        "fieldConfig": {"defaults": defaults, "overrides": []}, **more,
    }  # fmt: skip


def stat(title: str, description: str, asked: Json, unit: str, *, limits: Sequence[tuple[str, float]] = (), text: str = "value") -> Json:
    """One figure. ``text`` is value, name (of the series) or value_and_name."""
    options = {
        "colorMode": "value" if limits else "none", "graphMode": "none", "justifyMode": "auto", "orientation": "auto",
        "reduceOptions": REDUCE, "showPercentChange": False, "textMode": text, "wideLayout": True,
    }  # fmt: skip
    return _panel("stat", title, description, [asked], unit, limits=limits, options=options)


def lines(title: str, description: str, asked: Sequence[Json], unit: str, *, limit: float | None = None, bars_every: str = "") -> Json:
    """Figures over time. ``limit`` draws a line; ``bars_every`` is the least width of a bar, for counts."""
    custom = {
        "drawStyle": "bars" if bars_every else "line", "lineInterpolation": "stepAfter", "lineWidth": 1,
        "fillOpacity": 60 if bars_every else 0, "showPoints": "auto", "spanNulls": False,
        "thresholdsStyle": {"mode": "off" if limit is None else "line"},
    }  # fmt: skip
    options = {
        "legend": {"calcs": ["min", "lastNotNull"], "displayMode": "table", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "asc"},
    }  # fmt: skip
    panel = _panel("timeseries", title, description, asked, unit, custom=custom, options=options)
    if limit is not None:
        panel["fieldConfig"]["defaults"]["thresholds"]["steps"].append({"color": "red", "value": limit})
    return panel | ({"interval": bars_every} if bars_every else {})


def bars(title: str, description: str, asked: Json, unit: str) -> Json:
    """Figures of now side by side."""
    options = {
        "displayMode": "basic", "maxVizHeight": 300, "minVizHeight": 16, "minVizWidth": 8, "namePlacement": "left",
        "orientation": "horizontal", "reduceOptions": REDUCE, "showUnfilled": True, "sizing": "auto", "valueMode": "color",
    }  # fmt: skip
    return _panel("bargauge", title, description, [asked], unit, options=options)


def spans(title: str, description: str, asked: Json) -> Json:
    """When each series of an ``_info`` metric held; they are 1 while they do."""
    options = {
        "alignValue": "left", "mergeValues": True, "perPage": 20, "rowHeight": 0.8, "showValue": "never",
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": False}, "tooltip": {"mode": "single", "sort": "none"},
    }  # fmt: skip
    custom = {"fillOpacity": 80, "lineWidth": 0, "spanNulls": False}
    return _panel("state-timeline", title, description, [asked], "none", custom=custom, options=options)


def table(
    title: str, description: str, asked: Sequence[Json], columns: Sequence[Column], unit: str, *,
    sorted_by: str, texts: Mapping[str, str] | None = None, links: Sequence[Json] = (),
) -> Json:  # fmt: skip
    """Queries of now, joined on the labels they share. Only the values in ``columns`` are shown, in that order, all in one unit.

    ``texts`` says how a label's value reads; ``links`` stand on every cell.
    """
    shown = [column.field for column in columns]
    organize = {
        "excludeByName": {name: True for name in ("Time", *map(value, range(len(asked)))) if name not in shown}, "includeByName": {},
        "indexByName": {name: number for number, name in enumerate(shown)},
        "renameByName": {column.field: column.title for column in columns},
    }  # fmt: skip
    options = {
        "cellHeight": "sm", "footer": {"countRows": False, "fields": "", "reducer": ["sum"], "show": False}, "showHeader": True,
        "sortBy": [{"desc": False, "displayName": sorted_by}],
    }  # fmt: skip
    custom = {"align": "auto", "cellOptions": {"type": "auto"}, "filterable": True, "inspect": False}
    rows = [{**one, "format": "table"} for one in asked]
    panel = _panel("table", title, description, rows, unit, custom=custom, options=options)
    panel["transformations"] = [{"id": "merge", "options": {}}, {"id": "organize", "options": organize}]
    mapped = {known: {"text": text, "index": number} for number, (known, text) in enumerate((texts or {}).items())}
    panel["fieldConfig"]["defaults"] |= {"mappings": [{"type": "value", "options": mapped}] if mapped else [], "links": list(links)}
    return panel
