"""Parts of a dashboard, made with Grafana's foundation SDK of the 11.6 line (schema 41). Nothing here knows what is shown."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grafana_foundation_sdk.builders import bargauge, prometheus, statetimeline, timeseries
from grafana_foundation_sdk.builders import common as build
from grafana_foundation_sdk.builders import dashboard as boards
from grafana_foundation_sdk.builders import stat as stats
from grafana_foundation_sdk.builders import table as tables
from grafana_foundation_sdk.cog import variants
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as words
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat, QueryEditorMode

Json = dict[str, Any]
Panel = Any  # a builder of some kind of panel: they share their methods, not a class
SCHEMA_VERSION, GRAFANA = 41, "11.6.1"  # the version of compose.yaml
GRID = 24  # columns of a dashboard
METRICS = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
POSTGRESQL = "grafana-postgresql-datasource"
DATABASE = models.DataSourceRef(type_val=POSTGRESQL, uid="${database}")
TAG = "breakeven"
FIRED = 'ALERTS{alertname=~"Breakeven.+", alertstate="firing"}'
LETTERS = "ABCDEFGHIJ"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table: what the frame calls it (a label, or ``value`` of a query) and what the reader does."""

    field: str
    title: str


@dataclass(frozen=True, slots=True)
class Query:
    """A question to Prometheus: the value over time, or ``now`` at the end of the time range."""

    expression: str
    legend: str
    now: bool = False

    def build(self, letter: str, *, as_table: bool = False) -> Any:
        """As the SDK has it."""
        asked = prometheus.Dataquery().expr(" ".join(self.expression.split())).legend_format(self.legend).ref_id(letter)
        asked = (asked.instant() if self.now else asked.range()).editor_mode(QueryEditorMode.CODE).datasource(METRICS)
        return asked.format(PromQueryFormat.TABLE if as_table else PromQueryFormat.TIME_SERIES)


@dataclass(frozen=True, slots=True)
class Sql(variants.Dataquery):
    """A question to PostgreSQL. The SDK has no builder for one; the names are those Grafana writes."""

    statement: str
    over_time: bool = False
    letter: str = "A"

    def build(self, letter: str = "A", *, as_table: bool = False) -> Any:
        """It builds itself."""
        del as_table
        return _Ready(Sql(self.statement, self.over_time, letter))

    def to_json(self) -> Json:
        """As Grafana writes it."""
        return {
            "refId": self.letter, "datasource": DATABASE.to_json(), "rawSql": " ".join(self.statement.split()), "rawQuery": True,
            "editorMode": "code", "format": "time_series" if self.over_time else "table",
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Ready:
    """What is built already, where the SDK wants a builder."""

    built: Any

    def build(self) -> Any:
        return self.built


def value(number: int) -> str:
    """What a joined frame calls the value of its query of that number, from 0."""
    return f"Value #{LETTERS[number]}"


def ask(expression: str, legend: str) -> Query:
    """A query for the value over time."""
    return Query(expression, legend)


def ask_now(expression: str, legend: str) -> Query:
    """A query for the value at the end of the time range."""
    return Query(expression, legend, now=True)


def dashboard(
    *, uid: str, title: str, description: str, variables: list[Any], rows: Sequence[tuple[int, list[Panel]]], links: list[Any]
) -> Json:
    """A whole dashboard as JSON. ``rows`` are (height, panels of equal width)."""
    board = (
        boards.Dashboard(title).uid(uid).description(description).tags([TAG]).readonly().tooltip(models.DashboardCursorSync.CROSSHAIR)
        .links(links).refresh("1m").time("now-7d", "now").timepicker(boards.TimePicker()).timezone("utc").version(1)
        .variables(variables).annotations([_alerts()])
    )  # fmt: skip
    number = top = 0
    for height, panels in rows:
        width = GRID // len(panels)
        for place, panel in enumerate(panels):
            number += 1
            board.with_panel(panel.id(number).grid_pos(models.GridPos(h=height, w=width, x=place * width, y=top)))
        top += height
    whole = board.build()
    for panel in whole.panels or ():
        panel.plugin_version = GRAFANA  # the builders of the kinds have no word for it
    built: Json = json.loads(JSONEncoder().encode(whole))
    assert built["schemaVersion"] == SCHEMA_VERSION
    return built


def _alerts() -> Any:
    """Marks the times at which an alert of deploy/prometheus/rules fired; the panel of alerts on Overview names them."""
    return boards.AnnotationQuery().name("Alerts").datasource(METRICS).enable(True).hide(False).icon_color("red").expr(FIRED)


def link_to(uid: str, title: str, carried: Sequence[str], more: str = "") -> Any:
    """A link to another dashboard that keeps the time range and the variables named, and adds ``more`` to the address."""
    address = f"/d/{uid}?" + "&".join(f"${{{name}:queryparam}}" for name in carried) + more
    return boards.DashboardLink(title).type(models.DashboardLinkType.LINK).icon("dashboard").keep_time(True).url(address)


# --- variables --------------------------------------------------------------------------------------------------------------------


def datasource_variable(name: str, label: str, kind: str, *, shown: str, uid: str) -> Any:
    """Which data source of a kind is asked; at first the one of compose.yaml."""
    current = models.VariableOption(selected=True, text=shown, value=uid)
    return boards.DatasourceVariable(name).label(label).type(kind).regex("").multi(False).include_all(False).current(current)


def variable(name: str, label: str, query: str, *, many: bool = True) -> Any:
    """Values of a label, read again when the time range changes; all of them at first where ``many`` may be chosen."""
    made = (
        boards.QueryVariable(name).label(label).datasource(METRICS).query(query).regex("").multi(many).include_all(many)
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED).sort(models.VariableSort.ALPHABETICAL_ASC)
    )  # fmt: skip
    return made.all_value(".+").current(models.VariableOption(selected=True, text=["All"], value=["$__all"])) if many else made


def sql_variable(name: str, label: str, statement: str) -> Any:
    """What a statement finds; all of it at first. Statements take it as ${name:sqlstring}."""
    return (
        boards.QueryVariable(name).label(label).datasource(DATABASE).query(statement).regex("").multi(True).include_all(True)
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED).sort(models.VariableSort.ALPHABETICAL_ASC)
        .current(models.VariableOption(selected=True, text=["All"], value=["$__all"]))
    )  # fmt: skip


# --- panels -----------------------------------------------------------------------------------------------------------------------


def _dressed(
    panel: Panel, title: str, description: str, asked: Sequence[Query | Sql], unit: str, *,
    limits: Sequence[tuple[str, float]] = (), as_table: bool = False,
) -> Panel:  # fmt: skip
    """What every panel has. ``limits`` are (colour, from this value on)."""
    for number, one in enumerate(asked):
        panel.with_target(_Ready(built) if not hasattr(built := one.build(LETTERS[number], as_table=as_table), "build") else built)
    source = DATABASE if isinstance(asked[0], Sql) else METRICS
    scheme = models.FieldColorModeId.THRESHOLDS if limits else models.FieldColorModeId.PALETTE_CLASSIC_BY_NAME
    return (
        panel.title(title).description(description).datasource(source).unit(unit).no_value("none").mappings([]).overrides([])
        .color_scheme(boards.FieldColor().mode(scheme)).thresholds(_steps(limits or [("blue", 0)]))
    )  # fmt: skip


def _steps(limits: Sequence[tuple[str, float]]) -> Any:
    steps = [models.Threshold(color=colour, value=start) for colour, start in limits]
    return boards.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps)


def _last() -> Any:
    return build.ReduceDataOptions().calcs(["lastNotNull"]).fields("").values(False)


def _legend(mode: words.LegendDisplayMode, calcs: Sequence[str] = (), *, shown: bool = True) -> Any:
    return build.VizLegendOptions().display_mode(mode).placement(words.LegendPlacement.BOTTOM).show_legend(shown).calcs(list(calcs))


def _tooltip(mode: words.TooltipDisplayMode, order: words.SortOrder) -> Any:
    return build.VizTooltipOptions().mode(mode).sort(order)


def stat(title: str, description: str, asked: Query, unit: str, *, limits: Sequence[tuple[str, float]] = (), text: str = "value") -> Panel:
    """One figure. ``text`` is value, name (of the series) or value_and_name."""
    panel = (
        stats.Panel().graph_mode(words.BigValueGraphMode.NONE).justify_mode(words.BigValueJustifyMode.AUTO).reduce_options(_last())
        .color_mode(words.BigValueColorMode.VALUE if limits else words.BigValueColorMode.NONE).show_percent_change(False)
        .orientation(words.VizOrientation.AUTO).text_mode(words.BigValueTextMode(text)).wide_layout(True)
    )  # fmt: skip
    return _dressed(panel, title, description, [asked], unit, limits=limits)


def lines(
    title: str, description: str, asked: Sequence[Query | Sql], unit: str, *, limit: float | None = None, bars_every: str = ""
) -> Panel:
    """Figures over time. ``limit`` draws a line; ``bars_every`` is the least width of a bar, for counts."""
    style = words.GraphThresholdsStyleMode.OFF if limit is None else words.GraphThresholdsStyleMode.LINE
    panel = (
        timeseries.Panel().draw_style(words.GraphDrawStyle.BARS if bars_every else words.GraphDrawStyle.LINE).line_width(1)
        .line_interpolation(words.LineInterpolation.STEP_AFTER).fill_opacity(60 if bars_every else 0).span_nulls(False)
        .show_points(words.VisibilityMode.AUTO).thresholds_style(build.GraphThresholdsStyleConfig().mode(style))
        .legend(_legend(words.LegendDisplayMode.TABLE, ["min", "lastNotNull"]))
        .tooltip(_tooltip(words.TooltipDisplayMode.MULTI, words.SortOrder.ASCENDING))
    )  # fmt: skip
    panel = _dressed(panel, title, description, asked, unit)
    if limit is not None:
        panel.thresholds(_steps([("blue", 0), ("red", limit)]))
    return panel.interval(bars_every) if bars_every else panel


def bars(title: str, description: str, asked: Query, unit: str) -> Panel:
    """Figures of now side by side."""
    panel = (
        bargauge.Panel().display_mode(words.BarGaugeDisplayMode.BASIC).value_mode(words.BarGaugeValueMode.COLOR).show_unfilled(True)
        .name_placement(words.BarGaugeNamePlacement.LEFT).sizing(words.BarGaugeSizing.AUTO).min_viz_width(8).min_viz_height(16)
        .max_viz_height(300).orientation(words.VizOrientation.HORIZONTAL).reduce_options(_last())
    )  # fmt: skip
    return _dressed(panel, title, description, [asked], unit)


def spans(title: str, description: str, asked: Query) -> Panel:
    """When each series of an ``_info`` metric held; they are 1 while they do."""
    panel = (
        statetimeline.Panel().align_value(words.TimelineValueAlignment.LEFT).merge_values(True).per_page(20).row_height(0.8)
        .show_value(words.VisibilityMode.NEVER).fill_opacity(80).line_width(0)
        .legend(_legend(words.LegendDisplayMode.LIST, shown=False))
        .tooltip(_tooltip(words.TooltipDisplayMode.SINGLE, words.SortOrder.NONE))
    )  # fmt: skip
    return _dressed(panel, title, description, [asked], "none")


def table(
    title: str, description: str, asked: Sequence[Query], columns: Sequence[Column], unit: str, *,
    sorted_by: str, texts: Mapping[str, str] | None = None, links: Sequence[Any] = (),
) -> Panel:  # fmt: skip
    """Queries of now, joined on the labels they share. Only the values in ``columns`` are shown, in that order, all in one unit.

    ``texts`` says how a label's value reads; ``links`` stand on every cell.
    """
    shown = [column.field for column in columns]
    organize = {
        "excludeByName": {name: True for name in ("Time", *map(value, range(len(asked)))) if name not in shown}, "includeByName": {},
        "indexByName": {name: number for number, name in enumerate(shown)},
        "renameByName": {column.field: column.title for column in columns},
    }  # fmt: skip
    panel = _dressed(_grid(sorted_by), title, description, asked, unit, as_table=True)
    panel.transformations([models.DataTransformerConfig(id_val=name, options=how) for name, how in (("merge", {}), ("organize", organize))])
    mapped = {known: models.ValueMappingResult(text=text, index=number) for number, (known, text) in enumerate((texts or {}).items())}
    return panel.mappings([models.ValueMap(options=mapped)] if mapped else []).data_links(list(links))


def sql_table(title: str, description: str, statement: str, unit: str, *, sorted_by: str) -> Panel:
    """A table as the database gives it: the statement names the columns as the reader sees them. ``unit`` is that of its numbers."""
    return _dressed(_grid(sorted_by), title, description, [Sql(statement)], unit)


def _grid(sorted_by: str) -> Panel:
    footer = build.TableFooterOptions().count_rows(False).show(False).reducer(["sum"])
    return (
        tables.Panel().cell_height(words.TableCellHeight.SM).footer(footer).show_header(True).filterable(True).inspect(False)
        .sort_by([build.TableSortByFieldState().display_name(sorted_by).desc(False)])
        .align(words.FieldTextAlignment.AUTO).cell_options(words.TableAutoCellOptions())
    )  # fmt: skip
