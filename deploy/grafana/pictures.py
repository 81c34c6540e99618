"""Draws panels of the dashboards as SVG, with figures of a Prometheus:  python deploy/grafana/pictures.py http://127.0.0.1:9090 [FOLDER]

The queries are those of the dashboards, with everything chosen, or the one named here. No Grafana is asked, and none drew these.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

HERE = Path(__file__).resolve().parent
ONE = {"model": "muse-spark-open", "workload": "agent-turns", "policy": "studiotv"}
PICTURES = (
    ("overview", "Cheapest setup and API"), ("overview", "Break-even and verdict"),
    ("model", "Cheapest setup on each GPU"), ("market", "Lowest price of each GPU"),
)  # fmt: skip
WIDTH, LINE, LEFT, MOST = 1000, 24, 16, 24  # pixels; and bars or rows of a picture
CHARACTER = 7.2  # pixels that a bold one of size 11 takes
INK, PALE, BAR = "#1f2328", "#d0d7de", "#3b6ea8"
Json = dict[str, Any]
Row = dict[str, str]


def main() -> None:
    """Write one file for each panel of PICTURES."""
    address = sys.argv[1]
    folder = Path(sys.argv[2]) if len(sys.argv) > 2 else HERE / "pictures"
    for board, title in PICTURES:
        text = picture(board, title, address)
        (folder / f"{board}-{title.lower().replace(' ', '-')}.svg").write_text(text, encoding="utf-8")


def picture(board: str, title: str, address: str) -> str:
    """A panel as SVG."""
    whole = json.loads((HERE / "dashboards" / f"breakeven-{board}.json").read_text(encoding="utf-8"))
    (panel,) = (one for one in whole["panels"] if one["title"] == title)
    found = [answers(sent(target["expr"]), address) for target in panel["targets"]]
    unit = panel["fieldConfig"]["defaults"]["unit"]
    if panel["type"] == "bargauge":
        legend = panel["targets"][0]["legendFormat"]
        return bars(
            f"{whole['title'].rpartition(' / ')[2]}: {title}", [(named(legend, labels), number) for labels, number in found[0]], unit
        )
    return table(f"{whole['title'].rpartition(' / ')[2]}: {title}", *columns(panel, found), unit)


# --- figures ----------------------------------------------------------------------------------------------------------------------


def sent(query: str) -> str:
    """The query with everything chosen, and the model, workload and policy of these pictures where one is."""
    query = re.sub(r'=~"\$\w+"', '=~".+"', query)
    query = re.sub(r'="\$(\w+)"', lambda name: f'="{ONE[name[1]]}"', query)
    return query.replace("$__range", "1h").replace("$__rate_interval", "5m")


def answers(query: str, address: str) -> list[tuple[Row, float]]:
    """Labels and value of each series now, in the order of the answer."""
    with urlopen(f"{address}/api/v1/query?{urlencode({'query': query})}", timeout=30) as answer:
        result = json.load(answer)["data"]["result"]
    return [(one["metric"], float(one["value"][1])) for one in result]


def named(legend: str, labels: Mapping[str, str]) -> str:
    """A legend with its labels put in."""
    return re.sub(r"\{\{(\w+)\}\}", lambda name: labels.get(name[1], ""), legend)


def columns(panel: Json, found: Sequence[list[tuple[Row, float]]]) -> tuple[list[str], list[list[str | float]]]:
    """Head and rows of a table: the queries joined on model, workload and policy, with the columns the panel shows."""
    key = ("model", "workload", "policy")
    rows: dict[tuple[str, ...], dict[str, str | float]] = {}
    for number, answer in enumerate(found):
        for labels, figure in answer:
            row = rows.setdefault(tuple(labels.get(name, "") for name in key), {})
            row |= {**labels, f"Value #{'ABCDEFGHIJ'[number]}": figure}
    (how,) = (step["options"] for step in panel["transformations"] if step["id"] == "organize")
    shown = [name for name in how["indexByName"] if name not in ("workload", "policy")]
    texts = {known: one["text"] for mapping in panel["fieldConfig"]["defaults"]["mappings"] for known, one in mapping["options"].items()}
    cells = [[texts.get(str(row.get(name)), row.get(name, "none")) for name in shown] for _, row in sorted(rows.items())]
    return [how["renameByName"][name] for name in shown], cells


def worded(value: str | float, unit: str) -> str:
    """A figure as a reader wants it."""
    if isinstance(value, str):
        return value
    if unit == "currencyUSD":
        return f"${value:,.2f}" if value >= 1 else f"${value:.4f}"
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
        if value >= size:
            return f"{value / size:,.1f} {letter}"
    return f"{value:,.4g}"


# --- drawing ----------------------------------------------------------------------------------------------------------------------


def bars(title: str, figures: Sequence[tuple[str, float]], unit: str) -> str:
    """Bars side by side, the shortest first; of many, the first."""
    shown = figures[:MOST]
    widest = max((number for _, number in shown), default=1) or 1
    room, start = WIDTH - 430, 300
    parts = []
    for place, (name, number) in enumerate(shown):
        top = 52 + place * LINE
        parts.append(text(start - 8, top + 14, name, anchor="end"))
        parts.append(f'<rect x="{start}" y="{top}" width="{max(1, number / widest * room):.1f}" height="18" fill="{BAR}"/>')
        parts.append(text(start + 8 + number / widest * room, top + 14, worded(number, unit)))
    return drawing(title, 60 + len(shown) * LINE, parts)


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[str | float]], unit: str) -> str:
    """A table; a column is as wide as its longest text."""
    told = [[worded(cell, unit) for cell in row] for row in rows[:MOST]]
    lengths = [max(len(line[number]) for line in [list(head), *told]) + 2 for number in range(len(head))]
    width = max(WIDTH, round(sum(lengths) * CHARACTER) + 2 * LEFT)
    starts = [LEFT + (width - 2 * LEFT) * sum(lengths[:number]) / sum(lengths) for number in range(len(head))]
    parts = [text(start, 64, name, weight="600") for start, name in zip(starts, head, strict=True)]
    for place, row in enumerate(told):
        top = 72 + place * LINE
        parts.append(f'<line x1="{LEFT}" x2="{width - LEFT}" y1="{top}" y2="{top}" stroke="{PALE}"/>')
        parts += [text(start, top + 17, cell) for start, cell in zip(starts, row, strict=True)]
    return drawing(title, 84 + len(told) * LINE, parts, width)


def text(x: float, y: float, words: str, *, anchor: str = "start", weight: str = "400") -> str:
    """A line of text."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">{escape(words)}</text>'


def drawing(title: str, height: int, parts: Sequence[str], width: int = WIDTH) -> str:
    """The whole picture."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}" '
        f'font-family="system-ui, sans-serif" font-size="11" fill="{INK}">'
    )
    back = f'<rect width="{width}" height="{height}" fill="#ffffff" stroke="{PALE}"/>'
    name = f'<text x="{LEFT}" y="30" font-size="16" font-weight="600">{escape(title)}</text>'
    return "\n".join([head, back, name, *parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    main()
