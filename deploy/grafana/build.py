"""Writes the dashboards:  python deploy/grafana/build.py [FOLDER]   (FOLDER is dashboards/ beside this file unless given)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from finance import finance
from market import market
from model import model
from overview import overview
from sources import sources


def main() -> None:
    """Write one file for each dashboard."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "dashboards"
    for built in (overview(), model(), market(), finance(), sources()):
        text = json.dumps(built, indent=2, ensure_ascii=False)
        (folder / f"{built['uid']}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
