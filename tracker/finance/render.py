"""The report as cells and as CSV. Text that a spreadsheet would run as a formula is quoted with an apostrophe."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from tracker.finance.report import Report, ReportLine

HEADER = ("kind", "day", "provider", "what", "sku", "quantity", "usd", "price from", "price seen", "notes")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def cells(line: ReportLine) -> tuple[str, ...]:
    """A line for people: amounts to the cent; no figure is a question mark, never 0."""
    seen = "" if line.price_seen_at is None else f"{line.price_seen_at:%Y-%m-%d %H:%M}"
    amount = "?" if line.usd_cents is None else f"{line.usd_cents}"
    return (
        line.kind,
        line.day.isoformat(),
        line.provider,
        line.what,
        line.sku,
        line.quantity,
        amount,
        line.price_source,
        seen,
        "; ".join(line.flags),
    )


def summary(report: Report) -> dict[str, Any]:
    """Totals in USD and what they leave out."""
    api, rental = report.total("api"), report.total("rental")
    return {
        "month": report.month,
        "api_usd": api,
        "rental_usd": rental,
        "api_less_rental_usd": api - rental,
        "lines_without_a_figure": len(report.without_figure),
        "records_of_other_months": report.outside,
    }


def write_csv(report: Report, path: Path) -> None:
    """The lines and their totals; replaced whole, never half written."""
    temporary = path.with_name(path.name + ".part")
    with temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow((*HEADER, "usd exact"))
        for line in report.lines:
            exact = "" if line.usd is None else f"{line.usd:f}"
            writer.writerow([*(_quoted(cell) for cell in cells(line)), exact])
        for kind in ("api", "rental"):
            writer.writerow([f"total {kind}", report.month, "", "", "", "", f"{report.total(kind)}", "", "", _missing(report, kind), ""])
    temporary.replace(path)


def _missing(report: Report, kind: str) -> str:
    count = sum(line.kind == kind for line in report.without_figure)
    return f"{count} lines without a figure are not in this total" if count else ""


def _quoted(cell: str) -> str:
    return "'" + cell if cell.startswith(_FORMULA) else cell
